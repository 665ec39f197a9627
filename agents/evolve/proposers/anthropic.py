"""The proposer that asks language models through the `anthropic` package; it needs a key.

One proposal is one stateless request. Anything but one complete answer becomes a refusal with a reason.
Not covered: models of other vendors, and conversations: each request holds all that its answer may depend on.
"""

from collections.abc import Mapping
from typing import Any, Self

from ..budget import Cost
from ..config import ConfigError, RunConfig
from ..events import Live
from ..llm.access import client_of, prices_of, unavailable
from ..llm.answers import Answer, AnswerError, parse_answer
from ..llm.arms import Arm, Bandit, read_arms
from ..llm.client import LlmClient
from ..llm.outcomes import Completion, Failure, Kind
from ..llm.patches import PatchError, apply_edits
from ..llm.prompting import Asked, PromptForm, proposal_request
from ..model import Meter, NoProposal, Proposal, ProposalRequest, RefusalReason

_REASONS: dict[Kind, RefusalReason] = {
    Kind.MAX_TOKENS: "too_long",
    Kind.FLOOD: "too_long",
    Kind.CONTEXT_EXCEEDED: "too_long",
    Kind.TOO_LARGE: "too_long",
}


class Anthropic:
    """Asks one of its arms; which one, the bandit chooses."""

    name = "anthropic"
    needs_key = True
    form: PromptForm = "kernel"

    def __init__(self, client: LlmClient, arms: tuple[Arm, ...]) -> None:
        self._client = client
        self._bandit = Bandit(arms, client.prices)

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """Raises ConfigError without a key, and for a model without a price."""
        reason = unavailable(settings)
        if reason is not None:
            raise ConfigError(reason)
        prices = prices_of(settings)
        return cls(client_of(settings, prices), read_arms(config.options.get("arms"), prices))

    def bound(self, request: ProposalRequest) -> Cost:
        return self._client.bound(self._ask(request)[1].request)

    async def propose(self, request: ProposalRequest, meter: Meter, live: Live) -> Proposal | NoProposal:
        arm, asked = self._ask(request)
        try:
            completion = await self._client.call(asked.request, meter, live)
        except Failure as failure:
            return refusal_of(failure)
        return _proposal(request, arm, asked, completion)

    def _ask(self, request: ProposalRequest) -> tuple[Arm, Asked]:
        """The same for the same request: the bound is that of the call that will be made."""
        arm = self._bandit.choose(request.view, request.rng)
        return arm, proposal_request(request, arm, self.form)


def refusal_of(failure: Failure) -> NoProposal:
    """Where only a person can help, the run pauses."""
    return NoProposal(_REASONS.get(failure.kind, "provider_error"), failure.text, pause=failure.needs_person)


def _proposal(request: ProposalRequest, arm: Arm, asked: Asked, completion: Completion) -> Proposal | NoProposal:
    try:
        answer = parse_answer(completion.text)
        source = _source(request, asked, answer)
    except AnswerError as error:
        return NoProposal(error.reason, error.text)
    parents = [item.id for item in reversed(asked.shown)] or ([asked.base.id] if asked.base else [])
    return Proposal(
        source=source,
        language=request.language,
        name=answer.name,
        thought=answer.thought,
        parents=tuple(parents[:1] if answer.edits else parents),
        operator=_operator(asked.operator, answer),
        arm=arm.name,
    )


def _operator(asked: str, answer: Answer) -> str:
    """What was done, which need not be what was asked."""
    if asked in ("translate", "repair"):
        return asked
    if answer.edits is not None:
        return "edit"
    return "cross" if asked == "cross" else "rewrite"


def _source(request: ProposalRequest, asked: Asked, answer: Answer) -> str:
    if answer.edits is None:
        return answer.code or ""
    if asked.base is None:
        raise AnswerError("no_parent", "the answer edits a kernel, but none was shown")
    try:
        return apply_edits(request.view.source(asked.base), answer.edits)
    except PatchError as error:
        raise AnswerError("unparsable", str(error)) from error

"""The proposer in which a language model writes templates and the search tunes them.

A quarter of the slots ask a model for a new template; the others tune an existing one, which costs no money. So a run
that has spent its dollars continues tuning. Templates are stored in the sources of their kernels. Not covered: Triton,
whose sources have no macros.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ..budget import CURRENCIES, Cost
from ..config import ConfigError, RunConfig
from ..events import Live
from ..llm.prompting import PromptForm
from ..llm.written import WrittenError, WrittenTemplate, read_template
from ..model import CandidateView, Meter, NoProposal, Proposal, ProposalRequest
from ..rng import Rng
from ..search import Move, Trial, forecasting
from .anthropic import Anthropic
from .template_evo import next_move, nothing_left, thought

NEW_SHARE = 0.25
BEST_SHARE = 0.7  # of the tuning goes to the template with the best kernel
STREAM = "hybrid"


@dataclass(frozen=True)
class TemplateLine:
    """A template and the kernels that came from it, earlier generations only."""

    template: WrittenTemplate
    kernels: tuple[CandidateView, ...]

    @property
    def best(self) -> float | None:
        return max((item.counts for item in self.kernels if item.counts is not None), default=None)

    @property
    def hopeless(self) -> bool:
        """Neither the plain setting nor the best guess is right."""
        return self.best is None and len([item for item in self.kernels if item.failed]) >= 2

    @property
    def trials(self) -> list[Trial]:
        return [Trial(item.params, item.counts or item.estimate) for item in self.kernels if item.params is not None]


class Hybrid(Anthropic):
    name = "hybrid"
    form: PromptForm = "template"

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        if config.language not in ("cpp", "cuda"):
            raise ConfigError(f"hybrid writes templates in C++ and CUDA, not in {config.language}")
        return super().from_config(config, settings)

    def bound(self, request: ProposalRequest) -> Cost:
        return Cost() if self._tuned(request) else super().bound(request)

    async def propose(self, request: ProposalRequest, meter: Meter, live: Live) -> Proposal | NoProposal:
        line = self._tuned(request)
        if line is not None:
            return self._tune(request, line)
        answer = await super().propose(request, meter, live)
        return answer if isinstance(answer, NoProposal) else _first(request, answer)

    def _tuned(self, request: ProposalRequest) -> TemplateLine | None:
        """The line that this slot takes a step in; None if it asks for a new template."""
        lines = _lines(request)
        affordable = _fits(super().bound(request), request)
        return _plan(request, request.slot, lines, affordable=affordable)

    def _tune(self, request: ProposalRequest, line: TemplateLine) -> Proposal | NoProposal:
        """The step after those that the slots before this one take."""
        lines = _lines(request)
        affordable = _fits(super().bound(request), request)
        trials, move = line.trials, None
        for slot in range(request.slot + 1):
            planned = _plan(request, slot, lines, affordable=affordable)
            if planned is None or planned.template.name != line.template.name:
                continue
            move = next_move(
                line.template, trials, Rng(request.rng.seed, STREAM, request.generation, slot), forecasting
            )
            if move is None:
                return replace(nothing_left(line.template, len(trials)), exhausted=False)
            trials.append(Trial(move.genome, waiting=True))
        return _step(request, line, move) if move else NoProposal("no_parent", "there is no template to tune")


def _lines(request: ProposalRequest) -> list[TemplateLine]:
    """In the order in which the templates were written."""
    found: dict[str, list[CandidateView]] = {}
    for item in request.view.candidates.values():
        if item.template and item.source_sha256 and item.generation < request.generation:
            found.setdefault(item.template, []).append(item)
    lines = []
    for kernels in found.values():
        try:
            template = read_template(request.view.source(kernels[0]), request.language, request.task)
        except WrittenError:
            continue  # of another proposer, in a run that was forked
        lines.append(TemplateLine(template, tuple(kernels)))
    return lines


def _plan(request: ProposalRequest, slot: int, lines: list[TemplateLine], *, affordable: bool) -> TemplateLine | None:
    """The same for a slot, whoever asks."""
    rng = Rng(request.rng.seed, STREAM, request.generation, slot).child("plan")
    open_lines = [item for item in lines if not item.hopeless and len(item.kernels) < item.template.space.size]
    wants_new = rng.random() < NEW_SHARE
    if not open_lines or (wants_new and affordable):
        return None
    best = max(open_lines, key=lambda item: item.best or 0.0)
    return best if rng.random() < BEST_SHARE else rng.choice(open_lines)


def _fits(bound: Cost, request: ProposalRequest) -> bool:
    caps = request.budget_left
    return all(getattr(caps, name) is None or getattr(bound, name) <= getattr(caps, name) for name in CURRENCIES)


def _first(request: ProposalRequest, answer: Proposal) -> Proposal | NoProposal:
    """The plain setting until something is correct, then the author's best guess."""
    try:
        template = read_template(answer.source, request.language, request.task)
    except WrittenError as error:
        return NoProposal("template_error", str(error))
    genome = template.naive if request.stage == "translate" else template.default
    return replace(
        answer,
        source=template.render(genome, request.task),
        name=answer.name or template.summary,
        params=dict(genome),
        template=template.name,
    )


def _step(request: ProposalRequest, line: TemplateLine, move: Move) -> Proposal:
    space = line.template.space
    names = {space.key(item.params): item for item in line.kernels if item.params is not None}
    parents = [names[key] for key in map(space.key, move.parents) if key in names]
    return Proposal(
        source=line.template.render(move.genome, request.task),
        language=request.language,
        name=f"{line.template.summary} {move.operator}",
        thought=thought(line.template, move),
        params=dict(move.genome),
        template=line.template.name,
        parents=tuple(dict.fromkeys(item.id for item in parents)) or (line.kernels[0].id,),
        operator=move.operator,
        arm=line.kernels[0].arm,
    )

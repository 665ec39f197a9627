"""What the events of a recorded run may say: the fields that pages show or that rows are made of, each of its kind.

A log may have been written by anybody, so a figure that does not follow from those beside it is refused. Fields that
nobody reads are left as they are. Does NOT know what events mean together (`kept.py`).
"""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from benchmarks.harness import Verdict, is_bound, weight_of_key
from benchmarks.recorded.bundles import (
    ROUNDED,
    BundleError,
    Interval,
    NotNegative,
    Speedup,
    Us,
    demand_score_of,
    demand_speedup_of,
)

Words = Annotated[str, StringConstraints(max_length=1_000_000)]
KeptWord = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=0, le=1_000_000)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
Fraction = Annotated[float, Field(ge=0, le=1)]
KeptCurrency = Literal["usd", "input_tokens", "output_tokens", "judgings", "judging_s", "wall_s"]
KeptCost = dict[KeptCurrency, Amount]
KeptGene = int | float | str | bool | None
GENES_MAX, PARENTS_MAX, CONFIGS_MAX = 200, 200, 500


class KeptPayload(BaseModel):
    """Read strictly: no text stands for a number."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class SaidPayload(KeptPayload):
    """A sentence, if anything."""

    text: Words | None = None


class SearchConfig(KeptPayload):
    """The configuration of the search; what else must hold of it `RunConfig` knows."""

    language: Annotated[str, StringConstraints(max_length=10)] = ""
    proposer: Annotated[str, StringConstraints(max_length=40)] = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    caps: dict[KeptCurrency, Amount | None] = {}
    target: Speedup | None = None
    roofline_fraction: NotNegative = None
    options: dict[str, Any] = {}


class CreatedPayload(KeptPayload):
    config: SearchConfig


class EndedPayload(SaidPayload):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=40)]


class NumberedPayload(KeptPayload):
    number: Number


class PlacedPayload(KeptPayload):
    """Where a candidate stands and what it comes from."""

    generation: Number | None = None
    slot: Number | None = None
    island: Number | None = None
    operator: Words | None = None
    arm: Words | None = None
    parents: list[KeptWord] | None = Field(None, max_length=PARENTS_MAX)


class RequestedPayload(PlacedPayload):
    hint: Words | None = None
    probabilities: dict[KeptWord, Fraction] | None = None


class ReceivedPayload(PlacedPayload):
    source_sha256: KeptWord
    language: Words | None = None
    name: Words | None = None
    thought: Words | None = None
    prompt: Words | None = None
    template: Words | None = None
    params: dict[KeptWord, KeptGene] | None = Field(None, max_length=GENES_MAX)


class RefusedPayload(SaidPayload):
    reason: KeptWord
    generation: Number | None = None
    slot: Number | None = None


class ReasonPayload(KeptPayload):
    text: Words
    line: Number | None = None


class OpinionPayload(KeptPayload):
    verifier: KeptWord
    version: Words = ""
    decision: Literal["accept", "reject", "abstain"]
    fault: Words | None = None
    probability: Fraction | None = None
    reasons: list[ReasonPayload | Words] | None = None
    seconds: Amount | None = None
    cost: KeptCost | None = None
    audit: bool | None = None


class ConfigPayload(KeptPayload):
    """One configuration; a speedup is one of correct results and follows from its times."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    group: Literal["single", "multi", "hidden"]
    correct: bool | None = None
    failure: Words = ""
    speedup: Speedup | None = None
    ci95: Interval | None = None
    kernel_us: Us = None
    eager_us: Us = None
    compile_us: Us = None
    roofline_fraction: NotNegative = None

    @model_validator(mode="after")
    def consistent(self) -> Self:
        demand_speedup_of(self.speedup, self.ci95, self.kernel_us, (self.eager_us, self.compile_us))
        if self.speedup is not None and (not self.correct or self.kernel_us is None or self.eager_us is None):
            raise ValueError("a speedup needs correct results and the times that it is computed from")
        return self


class ResultPayload(KeptPayload):
    """What the judge found; a score is that of an accepted candidate and follows from its configurations."""

    verdict: Verdict
    reason: Words | None = None
    score: Speedup | None = None
    ci95: Interval | None = None
    vs_eager: Speedup | None = None
    vs_compile: Speedup | None = None
    configs: list[ConfigPayload] | None = Field(None, max_length=CONFIGS_MAX)
    resources: dict[KeptWord, KeptGene] | None = Field(None, max_length=GENES_MAX)
    timing_trust: Words | None = None
    seconds: Amount | None = None

    @model_validator(mode="after")
    def consistent(self) -> Self:
        passed = self.verdict is Verdict.PASS
        if {passed, self.score is not None, self.ci95 is not None, self.vs_eager is not None} != {passed}:
            raise ValueError("an accepted candidate has a score, its interval and one over eager; others have none")
        configs = self.configs or []
        if len({item.key for item in configs}) < len(configs):
            raise ValueError("a configuration occurs twice")
        if self.score is None or self.ci95 is None:
            return self
        if not all(item.correct for item in configs):
            raise ValueError("a configuration of an accepted candidate is not correct")
        timed = [
            (item.speedup, item.ci95[0], weight_of_key(item.key))
            for item in configs
            if item.speedup is not None and item.ci95
        ]
        demand_score_of(self.score, self.ci95, timed, ROUNDED, bound=is_bound(self.timing_trust or ""))
        if any(other is not None and self.score > other * ROUNDED for other in (self.vs_eager, self.vs_compile)):
            raise ValueError("the score over the stronger baseline is larger than the one over one of the baselines")
        return self


class JudgedPayload(KeptPayload):
    result: ResultPayload
    reused_from: KeptWord | None = None


class AgainPayload(KeptPayload):
    result: ResultPayload


class ConfirmingPayload(SaidPayload):
    candidates: list[KeptWord] = Field(max_length=PARENTS_MAX)


class CostPayload(KeptPayload):
    lease: KeptWord
    cost: KeptCost


class ToolPayload(SaidPayload):
    turn: Number
    tool: KeptWord
    config: Words | None = None
    seconds: Amount | None = None


class FocusPayload(KeptPayload):
    config: KeptWord


class FocusEndPayload(KeptPayload):
    text: Words


class MovePayload(KeptPayload):
    from_island: Number
    to_island: Number


class AttemptPayload(SaidPayload):
    model: KeptWord
    status: int | None = None
    retry_after_s: Amount | None = None


class UsagePayload(KeptPayload):
    model: KeptWord
    role: KeptWord
    cost_usd: Amount | None = None


class ActionPayload(KeptPayload):
    who: KeptWord
    action: KeptWord


_KINDS: dict[str, type[KeptPayload]] = {
    "run.created": CreatedPayload,
    "run.finished": EndedPayload,
    "generation.opened": NumberedPayload,
    "generation.closed": NumberedPayload,
    "proposal.requested": RequestedPayload,
    "proposal.received": ReceivedPayload,
    "proposal.rejected": RefusedPayload,
    "verdict": OpinionPayload,
    "evaluation.finished": JudgedPayload,
    "confirming.began": ConfirmingPayload,
    "confirmation.finished": AgainPayload,
    "migration": MovePayload,
    "curriculum.began": FocusPayload,
    "curriculum.ended": FocusEndPayload,
    "budget.reserved": CostPayload,
    "budget.settled": CostPayload,
    "tool.called": ToolPayload,
    "llm.attempt": AttemptPayload,
    "llm.usage": UsagePayload,
    "human.action": ActionPayload,
}


def demand_payload(kind: str, payload: dict[str, Any]) -> None:
    """Raises BundleError for what no page could show, or what is not so by its own figures."""
    model = _KINDS.get(kind, SaidPayload)
    try:
        model.model_validate_json(json.dumps(payload), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:50] for part in first["loc"])
        raise BundleError(f"{place}: {first['msg']}"[:500]) from error

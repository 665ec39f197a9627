"""The outcome of one solution, and the figures over many: correctness, fast_p, geometric mean, evaporation.

Pure numbers. Not covered: judging a solution (`running.py`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

from ..harness import Verdict, clean_text
from .evaporation import Evaporation

NOT_JUDGED = "NOT_JUDGED"  # the problem cannot be judged here, or the file cannot be read
PS = (0.0, 1.0, 2.0)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one solution. `verdict` is one of the harness's, or NOT_JUDGED; `reason` says why."""

    problem: str
    file: str
    verdict: str
    reason: str
    language: str = ""
    speedup: float | None = None
    ci95: tuple[float, float] | None = None
    vs_eager: float | None = None
    vs_compile: float | None = None
    labels: tuple[str, ...] = ()
    naive: str | None = None  # what the usual script says, where it was asked
    naive_speedup: float | None = None
    evaporation: Evaporation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", clean_text(self.reason))  # it may quote the file

    @property
    def is_decided(self) -> bool:
        """Whether the judge has said something about the file."""
        return self.verdict != NOT_JUDGED and not self.is_our_fault

    @property
    def is_our_fault(self) -> bool:
        return self.verdict != NOT_JUDGED and Verdict(self.verdict).ours

    @property
    def is_correct(self) -> bool:
        return self.verdict == Verdict.PASS

    @property
    def is_compiled(self) -> bool:
        return self.verdict not in (Verdict.COMPILE_ERROR, Verdict.REJECTED)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """Rates over the problems with a decided solution; several solutions of a problem count by their share.

    `fast` is fast_p over the stronger baseline, `fast_vs_eager` over eager, which KernelBench calls fast_p. The means
    are geometric, over the correct solutions.
    """

    solutions: int
    decided: int
    problems: int
    compiled: float | None
    correct: float | None
    fast: Mapping[float, float | None]
    fast_vs_eager: Mapping[float, float | None]
    mean_speedup: float | None
    mean_vs_eager: float | None

    def to_json(self) -> dict[str, Any]:
        named = {
            name: {f"{p:g}": rate for p, rate in getattr(self, name).items()} for name in ("fast", "fast_vs_eager")
        }
        return {**asdict(self), **named}


@dataclass(frozen=True)
class Loss:
    """What the usual script claims of the same files, and what is left of it."""

    asked: int
    claims: int  # of these files, those whose results agree
    claimed_wins: int  # of these, those reported as faster than eager
    lost_wins: int  # of these, those that are wrong, on a flagged problem, or not faster than the stronger baseline
    mean_claimed: float | None
    mean_verified: float | None  # over those claims that are correct, flagged problems left out
    reasons: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summary(outcomes: Sequence[Outcome], ps: Sequence[float] = PS) -> Summary:
    decided = [item for item in outcomes if item.is_decided]
    by_problem: dict[str, list[Outcome]] = defaultdict(list)
    for item in decided:
        by_problem[item.problem].append(item)

    def rate(figure: Callable[[Outcome], float | None], above: float = 0.0) -> float | None:
        shares = [sum((figure(item) or 0.0) > above for item in items) / len(items) for items in by_problem.values()]
        return sum(shares) / len(shares) if shares else None

    return Summary(
        solutions=len(outcomes),
        decided=len(decided),
        problems=len(by_problem),
        compiled=rate(lambda item: item.is_compiled),
        correct=rate(lambda item: item.is_correct),
        fast={p: rate(lambda item: item.speedup, p) for p in ps},
        fast_vs_eager={p: rate(lambda item: item.vs_eager, p) for p in ps},
        mean_speedup=_geometric_mean(item.speedup for item in decided),
        mean_vs_eager=_geometric_mean(item.vs_eager for item in decided),
    )


def loss(outcomes: Sequence[Outcome]) -> Loss:
    claims = [item.evaporation for item in outcomes if item.evaporation is not None]
    return Loss(
        asked=sum(item.naive is not None and item.is_decided for item in outcomes),
        claims=len(claims),
        claimed_wins=sum(item.is_win for item in claims),
        lost_wins=sum(item.is_lost for item in claims),
        mean_claimed=_geometric_mean(item.claimed for item in claims),
        mean_verified=_geometric_mean(item.verified for item in claims),
        reasons=dict(Counter(item.why.value for item in claims if item.why is not None)),
    )


def _geometric_mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return geometric_mean(known) if known else None

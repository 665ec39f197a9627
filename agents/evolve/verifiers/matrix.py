"""How often verifiers were right: decisions against what the judge found, with Wilson intervals.

A rejected incorrect source is a hit; a rejected correct one is a false reject. Abstaining counts as accepting. Of
rejected sources only some are judged (an audit); rates that need the others are estimated from those. Not covered:
where rows come from (the corpus, or a site's runs) and pages.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Truth = Literal["correct", "incorrect"]

MEASURED = Path(__file__).parent / "emulator_on_cuda.json"  # written by `lab/bench/emulated_corpus.py`
_CORRECT = ("PASS",)
_NO_TRUTH = ("NOISY", "INTERNAL_ERROR", "")
_Z95 = 1.959963984540054


def truth_of(verdict: str | None) -> Truth | None:
    """What a verdict of the judge says about the source; None if nothing: not judged, or our own fault."""
    if verdict is None or verdict in _NO_TRUTH:
        return None
    return "correct" if verdict in _CORRECT else "incorrect"


@dataclass(frozen=True)
class MatrixRow:
    """One opinion and what became of its source. `verdict` is None where the source was not judged."""

    verifier: str
    version: str
    fault: str  # the class of fault: planted, in a corpus; suspected, in a run
    decision: str  # accept, reject, abstain
    verdict: str | None
    seconds: float = 0.0
    usd: float = 0.0
    judging_s: float = 0.0  # that judging the source took, or would have
    run: str = ""


@dataclass(frozen=True)
class Rate:
    """`part` of `whole` with its Wilson interval; the counts may be estimates."""

    part: float
    whole: float
    value: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class Confusion:
    """Counts of decisions by truth. `rejected_unjudged`: rejected, and nobody knows whether rightly."""

    accepted_correct: int = 0
    rejected_correct: int = 0
    abstained_correct: int = 0
    accepted_incorrect: int = 0
    rejected_incorrect: int = 0
    abstained_incorrect: int = 0
    rejected_unjudged: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    judging_s_saved: float = 0.0  # of rejected sources that were wrong or not judged

    @property
    def rows(self) -> int:
        return self._correct + self._incorrect + self.rejected_unjudged

    @property
    def wrong_rejects(self) -> Rate | None:
        """Of the rejected sources that were judged: those that were correct."""
        return rate(self.rejected_correct, self.rejected_correct + self.rejected_incorrect)

    @property
    def false_reject_rate(self) -> Rate | None:
        """Of the correct sources: those that were rejected."""
        return self._of_truth(self.rejected_correct, self._correct - self.rejected_correct)

    @property
    def catch_rate(self) -> Rate | None:
        """Of the incorrect sources: those that were rejected."""
        return self._of_truth(self.rejected_incorrect, self._incorrect - self.rejected_incorrect)

    @property
    def abstain_share(self) -> Rate | None:
        return rate(self.abstained_correct + self.abstained_incorrect, self.rows)

    @property
    def accuracy(self) -> Rate | None:
        """Of the judged sources on which it did not abstain: those on which it was right."""
        right = self.accepted_correct + self.rejected_incorrect
        return rate(right, right + self.rejected_correct + self.accepted_incorrect)

    @property
    def balanced_accuracy(self) -> float | None:
        """As a filter: the mean of the correct sources let through and the incorrect ones caught."""
        harm, catch = self.false_reject_rate, self.catch_rate
        return None if harm is None or catch is None else (1 - harm.value + catch.value) / 2

    @property
    def decided_balanced_accuracy(self) -> float | None:
        """The same of the judged sources on which it did not abstain."""
        correct = rate(self.accepted_correct, self.accepted_correct + self.rejected_correct)
        incorrect = rate(self.rejected_incorrect, self.rejected_incorrect + self.accepted_incorrect)
        return None if correct is None or incorrect is None else (correct.value + incorrect.value) / 2

    def to_json(self) -> dict[str, Any]:
        """Counts and rates as plain values; None where nothing was counted."""
        rates = ("wrong_rejects", "false_reject_rate", "catch_rate", "abstain_share", "accuracy")
        shown: dict[str, Any] = {name: _plain(getattr(self, name)) for name in rates}
        means = ("balanced_accuracy", "decided_balanced_accuracy")
        return {**asdict(self), "rows": self.rows, **shown, **{name: _rounded(getattr(self, name)) for name in means}}

    @property
    def _correct(self) -> int:
        return self.accepted_correct + self.rejected_correct + self.abstained_correct

    @property
    def _incorrect(self) -> int:
        return self.accepted_incorrect + self.rejected_incorrect + self.abstained_incorrect

    def _of_truth(self, rejected: int, passed: int) -> Rate | None:
        """The rejected share of one truth; rejects that were not judged are shared out as those that were."""
        judged = self.rejected_correct + self.rejected_incorrect
        share = rate(rejected, judged)
        if not self.rejected_unjudged or share is None:
            return rate(rejected, rejected + passed)
        total = judged + self.rejected_unjudged
        value, low, high = (_part_of(total * p, passed) for p in (share.value, *share.ci95))
        return Rate(total * share.value, total * share.value + passed, value, (low, high))


def wilson(part: float, whole: float, z: float = _Z95) -> tuple[float, float]:
    """The 95 % interval of a share of which `part` of `whole` was seen."""
    p, scale = part / whole, 1 + z * z / whole
    centre = (p + z * z / (2 * whole)) / scale
    half = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


def rate(part: float, whole: float) -> Rate | None:
    return Rate(part, whole, part / whole, wilson(part, whole)) if whole else None


def confusion(rows: Iterable[MatrixRow]) -> Confusion:
    """The matrix of `rows`, which may be of several verifiers and runs.

    Left out: what was let through and has no truth yet, and what has none through our own fault.
    """
    counts: dict[str, int] = {}
    seconds = usd = saved_s = 0.0
    for row in rows:
        seconds, usd = seconds + row.seconds, usd + row.usd
        truth = truth_of(row.verdict)
        name = _field(row, truth)
        if name:
            counts[name] = counts.get(name, 0) + 1
        if row.decision == "reject" and truth != "correct":
            saved_s += row.judging_s
    return Confusion(**counts, seconds=seconds, usd=usd, judging_s_saved=saved_s)


@cache
def emulator_on_cuda() -> Mapping[str, Confusion]:
    """The emulator on the labelled CUDA kernels that kbench was measured with, by class of planted fault."""
    return {name: Confusion(**counts) for name, counts in json.loads(MEASURED.read_text()).items()}


def by(rows: Iterable[MatrixRow], key: Callable[[MatrixRow], str]) -> Mapping[str, Confusion]:
    """A matrix for each value of `key`, such as verifier, fault or run; in the order of the keys."""
    groups: dict[str, list[MatrixRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return {name: confusion(groups[name]) for name in sorted(groups)}


def _field(row: MatrixRow, truth: Truth | None) -> str | None:
    if truth is not None:
        return f"{_PAST[row.decision]}_{truth}"
    return "rejected_unjudged" if row.decision == "reject" and row.verdict is None else None


_PAST = {"accept": "accepted", "reject": "rejected", "abstain": "abstained"}


def _part_of(part: float, rest: float) -> float:
    return part / (part + rest) if part + rest else 0.0


def _plain(item: Rate | None) -> dict[str, Any] | None:
    if item is None:
        return None
    low, high = item.ci95
    return {
        "part": round(item.part, 2),
        "whole": round(item.whole, 2),
        "value": _rounded(item.value),
        "ci95": [_rounded(low), _rounded(high)],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

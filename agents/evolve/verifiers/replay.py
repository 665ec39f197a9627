"""Runs the verifiers on the labelled corpus again: rows for the matrix, and the published figures.

V1 is read from the labels, which keep what the compiler said, unless somebody else compiles. A family of faults is
measured on its mutants together with every correct kernel. Not covered: printing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.harness import default_rules

from ..model import Decision, VerifierOpinion
from .compile import CompileVerifier, errors
from .corpus import Label, Specimen
from .matrix import Confusion, MatrixRow, by, confusion, truth_of
from .mutations import OPERATORS
from .static import StaticVerifier

Compile = Callable[[Specimen], VerifierOpinion]
CASCADE = "static, then compile"
FAMILIES = {
    "compile": ("compile", "interface"),
    "memory": ("memory", "race", "shape"),
    "numerical": ("numerics",),
    "cheating": ("cheating",),
}
# robust-kbench (arXiv 2509.14279): accuracy of its tuned LLM verifiers
REPORTED = {"compile": 0.82, "memory": 0.80, "numerical": 0.73}


def stale(labels: Sequence[Label]) -> list[Label]:
    """Labels whose text is no longer what was judged."""
    return [item for item in labels if item.specimen.sha256 != item.sha256]


def replay(labels: Iterable[Label], compiler: Compile | None = None) -> list[MatrixRow]:
    """One row for each label and verifier; none where V1 was never asked."""
    static = StaticVerifier(default_rules())
    rows = []
    for label in labels:
        specimen = label.specimen
        first = static.look(specimen.text, "cpp", specimen.spec)
        rows.append(_row(label, StaticVerifier.id, StaticVerifier.version, first))
        second = compiler(specimen) if compiler else stored(label)
        if second is not None:
            rows.append(_row(label, CompileVerifier.id, CompileVerifier.version, second))
        version = f"{StaticVerifier.version}.{CompileVerifier.version}"
        rows.append(_row(label, CASCADE, version, _cascade(first, second)))
    return rows


def stored(label: Label) -> VerifierOpinion | None:
    """What V1 said when the corpus was labelled."""
    if label.compiled is None:
        return None
    decision: Decision = "accept" if label.compiled else "reject"
    reasons = () if label.compiled else errors(label.reason)
    return VerifierOpinion(decision, reasons, None if label.compiled else "compile", seconds=label.compile_s)


def figures(labels: Sequence[Label], rows: Sequence[MatrixRow]) -> dict[str, Any]:
    """What is published: counts of the corpus, and matrices by verifier, fault and family."""
    truths = [truth_of(item.verdict) for item in labels]
    verifiers = sorted({row.verifier for row in rows})
    return {
        "kernels": len(labels),
        "correct": truths.count("correct"),
        "incorrect": truths.count("incorrect"),
        "seeds": sum(item.operator is None for item in labels),
        "operators": sum(item.name in {label.operator for label in labels} for item in OPERATORS),
        "verifiers": {name: confusion(_of(rows, name)).to_json() for name in verifiers},
        "faults": {name: _plain(by(_of(rows, name), lambda row: row.fault)) for name in verifiers},
        "families": {name: {family: _family(_of(rows, name), family) for family in FAMILIES} for name in verifiers},
        "survivors": _survivors(labels),
    }


def _row(label: Label, verifier: str, version: str, opinion: VerifierOpinion) -> MatrixRow:
    return MatrixRow(
        verifier=verifier,
        version=version,
        fault=label.specimen.fault,
        decision=opinion.decision,
        verdict=label.verdict,
        seconds=opinion.seconds,
        judging_s=label.judging_s,
    )


def _cascade(first: VerifierOpinion, second: VerifierOpinion | None) -> VerifierOpinion:
    """Rejected by either, else in doubt if either is. The second is asked only if the first did not reject."""
    if first.decision == "reject" or second is None:
        return first
    decisions = (first.decision, second.decision)
    decision: Decision = "reject" if "reject" in decisions else "abstain" if "abstain" in decisions else "accept"
    return VerifierOpinion(decision, seconds=first.seconds + second.seconds)


def _of(rows: Iterable[MatrixRow], verifier: str) -> list[MatrixRow]:
    return [row for row in rows if row.verifier == verifier]


def _plain(matrices: Any) -> dict[str, Any]:
    return {name: item.to_json() for name, item in matrices.items()}


def _family(rows: Iterable[MatrixRow], family: str) -> dict[str, Any]:
    """On the wrong kernels of a family and all correct ones, abstaining counted as letting through."""
    faults = FAMILIES[family]
    found: Confusion = confusion(row for row in rows if truth_of(row.verdict) == "correct" or row.fault in faults)
    correct = found.accepted_correct + found.abstained_correct + found.rejected_correct
    right = correct - found.rejected_correct + found.rejected_incorrect
    total = found.rows
    return {
        "kernels": total,
        "accuracy": round(right / total, 4) if total else None,
        "balanced_accuracy": found.to_json()["balanced_accuracy"],
        "catch_rate": found.to_json()["catch_rate"],
        "abstain_share": found.to_json()["abstain_share"],
        "reported": REPORTED.get(family),
    }


def _survivors(labels: Iterable[Label]) -> dict[str, list[int]]:
    """For each planted fault: mutants that the judge found correct, and all of them."""
    found: dict[str, list[int]] = {}
    for label in labels:
        counts = found.setdefault(label.specimen.fault, [0, 0])
        counts[0] += truth_of(label.verdict) == "correct"
        counts[1] += 1
    return dict(sorted(found.items()))

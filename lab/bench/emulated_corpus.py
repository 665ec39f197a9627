"""The emulator on the corpus of CUDA kernels: `python -m lab.bench.emulated_corpus FILE`, then `… FILE --table`.

Appends what it says of each specimen to FILE, one JSON line each, and goes on where it stopped. The table counts words
by operator; where a judge with a GPU has labelled specimens, it says how often the word was right. Needs no GPU.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.evolve.verifiers.emulate import EmulateVerifier
from agents.evolve.verifiers.matrix import MEASURED
from benchmarks.emulator import EmulatorVerdict, check
from benchmarks.harness import Paths, default_rules
from lab.cuda_corpus.specimens import LABELS, CudaLabel, CudaSpecimen, planned, read_labels

ROOT = Path(__file__).parents[2]
_WORDS = tuple(EmulatorVerdict)


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if options.table or options.keep:
        words, labels = read_words(options.file), _labels(options.labels)
        if options.keep:
            MEASURED.write_text(json.dumps(by_class(words, read_labels(options.labels)), indent=1) + "\n")
        print("\n".join(table(words, labels)))
        return 0
    known = {word["sha256"] for word in read_words(options.file)}
    deadline = time.monotonic() + options.budget_s
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with options.file.open("a") as file:
        for specimen in planned():
            if specimen.sha256 in known or (options.only and options.only not in specimen.name):
                continue
            if time.monotonic() > deadline:
                break
            word = emulated(specimen, Paths(options.data))
            file.write(json.dumps(word) + "\n")
            file.flush()
            print(f"{word['seconds']:6.1f} s  {word['verdict']:<12} {word['name']}: {word['reason'][:100]}", flush=True)
    return 0


def emulated(specimen: CudaSpecimen, paths: Paths) -> dict[str, Any]:
    report = check(specimen.source, specimen.task, default_rules(), paths)
    operator = specimen.operator
    return {
        "name": specimen.name,
        "sha256": specimen.sha256,
        "operator": operator.name if operator else None,
        "fault": operator.fault if operator else specimen.seed.name.split(".")[0],
        "verdict": str(report.verdict),
        "kinds": sorted({finding.kind for finding in report.findings}),
        "reason": report.reason,
        "line": report.line,
        "runs": report.runs,
        "compile_s": report.compile_s,
        "seconds": report.seconds,
        "version": EmulateVerifier.version,
    }


def read_words(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(words: Sequence[Mapping[str, Any]], labels: Mapping[str, bool]) -> Iterator[str]:
    """Markdown: words by operator, and totals; with labels how many of the decided ones agree."""
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for word in words:
        rows[word["fault"], word["operator"] or "—"].append(word)
    yield "| class | operator | files | correct here | wrong | abstained | labelled | of these decided rightly |"
    yield "|---|---|---|---|---|---|---|---|"
    for (fault, operator), found in sorted(rows.items()):
        yield f"| {fault} | {operator} | {_cells(found, labels)} |"
    yield f"| **all** | | {_cells(words, labels)} |"
    yield ""
    yield json.dumps(agreement(words, labels))


def agreement(words: Sequence[Mapping[str, Any]], labels: Mapping[str, bool]) -> dict[str, Any]:
    """Of labelled specimens: shares of right ones that are rejected, of wrong ones that are, and of abstentions."""
    labelled = [
        (EmulatorVerdict(word["verdict"]), labels[word["sha256"]]) for word in words if word["sha256"] in labels
    ]
    counts = Counter(labelled)
    right = [counts[word, True] for word in _WORDS]
    wrong = [counts[word, False] for word in _WORDS]
    accepted, rejected = _share(right[0], right[0] + right[1]), _share(wrong[1], wrong[0] + wrong[1])
    both = accepted is not None and rejected is not None
    return {
        "labelled": len(labelled),
        "right_accepted": accepted,
        "wrong_rejected": rejected,
        "balanced_accuracy": (accepted + rejected) / 2 if both else None,  # type: ignore[operator]
        "abstained": _share(right[2] + wrong[2], len(labelled)),
    }


def by_class(words: Sequence[Mapping[str, Any]], labels: Sequence[CudaLabel]) -> dict[str, dict[str, float]]:
    """Counts of decisions by truth, as `Confusion` has them, for each class of labelled specimens.

    Judging is saved where the judge itself has labelled a wrong specimen that is rejected; others took it no time.
    """
    known = {label.sha256: label for label in labels if label.correct is not None}
    decisions = {"CORRECT_HERE": "accepted", "WRONG": "rejected", "ABSTAINED": "abstained"}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for word in words:
        label = known.get(word["sha256"])
        if label is not None:
            truth = "correct" if label.correct else "incorrect"
            counts = found[word["fault"] if word["operator"] else "no planted fault"]
            counts[f"{decisions[word['verdict']]}_{truth}"] += 1
            counts["seconds"] += word["seconds"]
            if word["verdict"] == EmulatorVerdict.WRONG and not label.correct and label.labelled_by == "judge":
                counts["judging_s_saved"] += label.seconds
    return {name: {key: round(value, 1) for key, value in sorted(found[name].items())} for name in sorted(found)}


def _cells(words: Sequence[Mapping[str, Any]], labels: Mapping[str, bool]) -> str:
    counts = Counter(word["verdict"] for word in words)
    decided = [word for word in words if word["sha256"] in labels and word["verdict"] != EmulatorVerdict.ABSTAINED]
    agreed = sum((word["verdict"] == EmulatorVerdict.CORRECT_HERE) == labels[word["sha256"]] for word in decided)
    known = sum(word["sha256"] in labels for word in words)
    shown = f"{agreed} of {len(decided)}" if known else ""
    return " | ".join([str(len(words)), *(str(counts[word]) for word in _WORDS), str(known), shown])


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _labels(path: Path) -> dict[str, bool]:
    return {label.sha256: label.correct for label in read_labels(path) if label.correct is not None}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no specimen after so many seconds")
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "emulated_corpus", help="where builds are kept")
    parser.add_argument("--table", action="store_true", help="print what FILE holds")
    parser.add_argument("--keep", action="store_true", help="also write the counts that the site shows")
    parser.add_argument("--labels", type=Path, default=LABELS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

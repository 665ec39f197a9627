"""The emulator on the corpus of CUDA kernels: `python -m lab.bench.emulated_corpus FILE`, then `… FILE --table`.

Appends what it says of each specimen to FILE, one JSON line each, and goes on where it stopped: a specimen is run again
only if FILE has no word of this version of the emulator. `--jobs` of them run side by side; those come first that an
`--earlier` file does not have, or has of the oldest version. The table counts words by operator; where specimens have
labels from a GPU, it says how often the word was right. Needs no GPU.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from agents.evolve.verifiers.emulate import EmulateVerifier
from agents.evolve.verifiers.matrix import MEASURED
from benchmarks.emulator import EmulatorVerdict, check
from benchmarks.harness import CancelCheck, Cancelled, HarnessError, Paths, default_rules, never_cancelled
from lab.cuda_corpus.specimens import LABELS, CudaLabel, CudaSpecimen, planned, read_labels

ROOT = Path(__file__).parents[2]
RAW = ROOT / "docs/results/emulator/corpus.jsonl"
_WORDS = tuple(EmulatorVerdict)
_BUDGET_S = 120.0  # twice what a check may take: others use the processors, too
_LEAST_S = 12.0  # a check is not begun with less time left


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if options.table or options.keep:
        words, labels = read_words(options.file), _labels(options.labels)
        if options.keep:
            MEASURED.write_text(json.dumps(by_class(words, read_labels(options.labels)), indent=1) + "\n")
        print("\n".join(table(words, labels)))
        return 0
    deadline = time.time() + options.budget_s
    names = [item.name for item in in_turn(read_words(options.file), read_words(options.earlier), options.only)]
    print(f"{len(names)} of {len(planned())} files to emulate", flush=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with options.file.open("a") as file, ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        futures = {pool.submit(emulated_by, name, options.data, deadline): name for name in names}
        for future in as_completed(futures):
            try:
                word = future.result()
            except HarnessError as error:
                print(f"{futures[future]}: our own fault: {str(error)[:300]}", file=sys.stderr, flush=True)
                continue
            if word is not None:
                file.write(json.dumps(word) + "\n")
                file.flush()
                line = f"{word['seconds']:6.1f} s  {word['verdict']:<12} {word['name']}: {word['reason'][:100]}"
                print(line, flush=True)
    return 0


def in_turn(
    words: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]], only: str = ""
) -> list[CudaSpecimen]:
    """What has no word of this version in `words`: first what `earlier` does not have, then its oldest version.

    Files without a label come last.
    """
    known = {word["sha256"] for word in words if word["version"] == EmulateVerifier.version}
    versions = {word["sha256"]: int(word["version"]) for word in earlier}
    left = [item for item in planned() if item.sha256 not in known and only in item.name]
    labelled = {label.sha256 for label in read_labels()}
    return sorted(left, key=lambda item: (item.sha256 not in labelled, versions.get(item.sha256, 0)))


def emulated_by(name: str, data: Path, deadline: float) -> dict[str, Any] | None:
    """What is said of one specimen, in a process of its own; None if that would end after the deadline.

    `deadline` is in seconds since the epoch. Raises HarnessError: our own fault.
    """
    if deadline - time.time() < _LEAST_S:
        return None
    try:
        specimen = next(item for item in planned() if item.name == name)
        return emulated(specimen, Paths(data), lambda: time.time() > deadline)
    except Cancelled:
        return None


def emulated(specimen: CudaSpecimen, paths: Paths, cancelled: CancelCheck = never_cancelled) -> dict[str, Any]:
    report = check(specimen.source, specimen.task, default_rules(), paths, budget_s=_BUDGET_S, cancelled=cancelled)
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
    """Every word in a file; of a specimen that was run again the last one."""
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return list({word["sha256"]: word for word in found}.values())


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
    parser.add_argument("--jobs", type=int, default=1, help="specimens at a time")
    parser.add_argument("--earlier", type=Path, default=RAW, help="words that decide which files come first")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "emulated_corpus", help="where builds are kept")
    parser.add_argument("--table", action="store_true", help="print what FILE holds")
    parser.add_argument("--keep", action="store_true", help="also write the counts that the site shows")
    parser.add_argument("--labels", type=Path, default=LABELS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

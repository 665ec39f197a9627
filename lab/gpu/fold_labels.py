"""Writes what a GPU found into labels, raw files and tables: `python -m lab.gpu.fold_labels FOLDER`.

FOLDER holds what `settle_labels.py` has left. A kernel that was called right is wrong from now on where memcheck,
racecheck or synccheck complains of it, or where its results are wrong, or the GPU stops it for what it did, under a
condition in which all controls are right. What initcheck says is kept with the label and decides nothing: a read of
memory that nobody wrote is a fault only if results depend on it, and then they are wrong somewhere. The words of the
emulator replace the ones kept in docs/results, then the counts of the site, the savings and the tables of
docs/emulator.md are made anew. Needs no GPU.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.harness import Verdict
from lab.bench import emulated_corpus, emulated_docs, emulated_savings
from lab.cuda_corpus.specimens import LABELS, CudaLabel, label_line, planned, read_labels

from .changed_conditions import ConditionWord, read_compared
from .sanitize_labels import ToolWord, read_found

_DECIDING_TOOLS = ("memcheck", "racecheck", "synccheck", "memcheck-debug")
_WRONG = (Verdict.INCORRECT_VALUE, Verdict.NONDETERMINISTIC)
# what a GPU says of a kernel that did what it may not; other errors can be ones of resources
_STOPPED = ("illegal instruction", "illegal memory access", "misaligned address")


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    found = read_found(options.folder / "sanitized.jsonl")
    compared = read_compared(options.folder / "conditions.jsonl")
    labels = folded(read_labels(options.labels), found, compared)
    options.labels.write_text("".join(map(label_line, labels)))
    for name in ("sanitized.jsonl", "conditions.jsonl"):
        _keep_found(options.raw / name, options.folder / name)
    _keep_words(options)
    emulated_corpus.MEASURED.write_text(
        json.dumps(emulated_corpus.by_class(emulated_corpus.read_words(options.raw / "corpus.jsonl"), labels), indent=1)
        + "\n"
    )
    saved = emulated_savings.of_corpus(options.raw / "corpus.jsonl")
    saved_file = options.raw / "savings.json"
    kept = {"corpus": saved, "searches": emulated_savings.of_searches()}
    saved_file.write_text(json.dumps(kept, indent=1) + "\n")
    emulated_docs.write()
    print(json.dumps(_summary(labels, compared)))
    return 0


def folded(
    labels: Sequence[CudaLabel], found: Sequence[ToolWord], compared: Sequence[ConditionWord]
) -> list[CudaLabel]:
    """The labels with what was looked at, and those changed that it decides. Calling it again changes nothing."""
    valid = valid_conditions(compared)
    looked: dict[str, dict[str, str]] = defaultdict(dict)
    against: dict[str, tuple[str, str]] = {}
    for word in found:
        text = f"{word.finding} ({word.config})" if word.finding else ""
        looked[word.sha256][word.tool] = text
        if word.finding and word.tool in _DECIDING_TOOLS:
            against.setdefault(word.sha256, ("sanitizer", f"{word.tool}: {text}"))
    for entry in compared:
        if not entry.control:
            text = "" if entry.verdict == Verdict.PASS else f"{entry.verdict}: {entry.reason}"
            looked[entry.sha256][entry.condition] = text
            if _is_wrong(entry) and entry.condition in valid:
                against.setdefault(entry.sha256, ("conditions", f"{entry.condition}: {text}"))
    return [_folded(label, looked.get(label.sha256, {}), against.get(label.sha256)) for label in labels]


def valid_conditions(compared: Sequence[ConditionWord]) -> set[str]:
    """Those in which there were controls and all of them gave right results."""
    controls: dict[str, list[ConditionWord]] = defaultdict(list)
    for word in compared:
        if word.control:
            controls[word.condition].append(word)
    return {name for name, words in controls.items() if not any(map(_is_wrong, words))}


def _is_wrong(word: ConditionWord) -> bool:
    return word.verdict in _WRONG or any(fault in word.reason for fault in _STOPPED)


def _folded(label: CudaLabel, looked: Mapping[str, str], against: tuple[str, str] | None) -> CudaLabel:
    label = replace(label, looked={**label.looked, **looked})
    if not label.correct or against is None:
        return label
    by, reason = against
    verdict = Verdict.RUNTIME_ERROR if by == "sanitizer" else Verdict.INCORRECT_VALUE
    before = f"{label.labelled_by}: {label.verdict}"
    return replace(label, correct=False, verdict=str(verdict), reason=reason[:300], labelled_by=by, before=before)


def _keep_found(kept: Path, new: Path) -> None:
    """What was found before stays: labels rest on it."""
    lines = [line for path in (kept, new) if path.exists() for line in path.read_text().splitlines()]
    kept.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))


def _keep_words(options: argparse.Namespace) -> None:
    """New words in the order of the corpus; old ones stay where there is no new one."""
    if not (options.folder / "corpus.jsonl").exists():
        return
    kept = options.raw / "corpus.jsonl"
    words = {word["sha256"]: word for path in (kept, options.folder / "corpus.jsonl") for word in _words(path)}
    order = [item.sha256 for item in planned() if item.sha256 in words]
    kept.write_text("".join(json.dumps(words[sha256]) + "\n" for sha256 in order))


def _words(path: Path) -> list[dict[str, object]]:
    return emulated_corpus.read_words(path)


def _summary(labels: Sequence[CudaLabel], compared: Sequence[ConditionWord]) -> dict[str, object]:
    return {
        "labels": Counter(f"{label.labelled_by} {label.correct}" for label in labels),
        "changed": {label.name: label.reason[:120] for label in labels if label.before},
        "valid_conditions": sorted(valid_conditions(compared)),
        "initcheck": [label.name for label in labels if label.looked.get("initcheck")],
        "agreement": emulated_docs.agreement_now(),
    }


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.fold_labels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="what settle_labels.py has left")
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--raw", type=Path, default=emulated_corpus.RAW.parent)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

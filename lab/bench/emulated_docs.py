"""The part of docs/emulator.md that repeats raw files: `python -m lab.bench.emulated_docs`; `--check` only compares.

Takes the words of the emulator on the corpus, the labels, and the savings as they are kept in the repository. Not
covered: the words around the part.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.emulator import EmulatorVerdict
from lab.cuda_corpus.specimens import CudaLabel, planned, read_labels

from .emulated_corpus import RAW, agreement, read_words

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/emulator.md"
_PART = re.compile(r"(<!-- measured:begin -->\n).*?(<!-- measured:end -->)", re.DOTALL)
_BY = {
    "judge": "the judge",
    "comparison": "the comparison",
    "sanitizer": "Compute Sanitizer",
    "conditions": "wrong results under changed conditions",
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.bench.emulated_docs", description=(__doc__ or "")[:80])
    parser.add_argument("--check", action="store_true", help="only say whether the part is stale")
    if parser.parse_args(argv).check:
        fresh = PAGE.read_text() == _with_part(PAGE.read_text())
        print("fresh" if fresh else "stale: run python -m lab.bench.emulated_docs", file=sys.stderr)
        return 0 if fresh else 1
    write()
    return 0


def write() -> None:
    PAGE.write_text(_with_part(PAGE.read_text()))


def agreement_now() -> dict[str, Any]:
    """The shares of `agreement` for the words and labels that are kept."""
    return agreement(read_words(RAW), _truths(read_labels()))


def _with_part(page: str) -> str:
    if not _PART.search(page):
        raise SystemExit(f"{PAGE.name} has no place for the part")
    text = "\n".join(part(read_words(RAW), read_labels(), json.loads((RAW.parent / "savings.json").read_text())))
    return _PART.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page)


def part(words: Sequence[dict[str, Any]], labels: Sequence[CudaLabel], savings: dict[str, Any]) -> Iterator[str]:
    """The lines of Markdown."""
    known = {label.sha256: label for label in labels if label.correct is not None}
    both = [(word, known[word["sha256"]]) for word in words if word["sha256"] in known]
    counts = Counter((EmulatorVerdict(word["verdict"]), label.correct) for word, label in both)
    yield f"{len(words)} of {len(planned())} files, {len(both)} of them labelled{_versions(words)}:"
    yield ""
    yield f"| | {' | '.join(verdict.lower().replace('_', ' ') for verdict in EmulatorVerdict)} |"
    yield "|---|---|---|---|"
    for correct, name in ((True, "right"), (False, "wrong")):
        yield f"| {name} by the GPU | {' | '.join(str(counts[verdict, correct]) for verdict in EmulatorVerdict)} |"
    shares = agreement(words, _truths(labels))
    accuracy, accepted = shares["balanced_accuracy"], shares["right_accepted"]
    yield ""
    yield (
        f"Balanced accuracy of what it decides: {accuracy:.3f}. Rejected of the right ones: {1 - accepted:.1%}. "
        f"Abstained: {shares['abstained']:.1%}."
    )
    yield ""
    yield from _labels(labels)
    for title, verdict, correct in (
        ("Right ones that are rejected", EmulatorVerdict.WRONG, True),
        ("Wrong ones that are missed", EmulatorVerdict.CORRECT_HERE, False),
        ("Abstained on", EmulatorVerdict.ABSTAINED, None),
    ):
        found = [
            (word, label) for word, label in both if word["verdict"] == verdict and correct in (None, label.correct)
        ]
        yield ""
        yield f"{title}: {len(found)}."
        yield from _each(found)
    saved = savings["corpus"]
    yield ""
    yield (
        f"Judging saved: of the {saved['judged']} kernels that the judge itself labelled, {saved['wrong']} are wrong; "
        f"{saved['dropped_wrong']} of these are rejected, {saved['saved_judging_s']:.0f} s of judging on an H100, of "
        f"{saved['judging_s']:.0f} s for all. Right ones that would be lost: {saved['dropped_right']}. Emulating them "
        f"took {saved['emulated_s']:.0f} s."
    )


def _versions(words: Sequence[dict[str, Any]]) -> str:
    counts = Counter(word["version"] for word in words)
    if len(counts) == 1:
        return f", all with version {next(iter(counts))} of the emulator"
    said = [f"{count} with version {version}" for version, count in sorted(counts.items())]
    return f"; by version of the emulator {', '.join(said)}"


def _labels(labels: Sequence[CudaLabel]) -> Iterator[str]:
    counts = Counter((label.labelled_by, label.correct) for label in labels if label.correct is not None)
    looked = [label for label in labels if label.looked]
    yield "| label from | right | wrong |"
    yield "|---|---|---|"
    for by, name in _BY.items():
        if counts[by, True] or counts[by, False]:
            yield f"| {name} | {counts[by, True]} | {counts[by, False]} |"
    if looked:
        yield ""
        yield f"Compute Sanitizer or changed conditions have looked at {len(looked)} of them, on odd sizes too."


def _each(found: Sequence[tuple[dict[str, Any], CudaLabel]]) -> Iterator[str]:
    if found:
        yield ""
    for word, label in found:
        text = word["reason"].replace("|", "\\|").replace("<", "&lt;")
        yield f"- `{label.name}`: {text[:160]}"


def _truths(labels: Sequence[CudaLabel]) -> dict[str, bool]:
    return {label.sha256: label.correct for label in labels if label.correct is not None}


if __name__ == "__main__":
    sys.exit(main())

"""What `emulate` saves a judge: `python -m lab.bench.emulated_savings`, from recorded judgings and recorded words.

Takes the kernels of the CUDA corpus that a judge with a GPU has labelled, with the seconds that each judging took, and
what the emulator said of the same texts. Also counts the wrong candidates of the recorded searches on a GPU, which a
verifier could have dropped. The last line of stdout is JSON. Needs no GPU. Not covered: a run of an agent on a GPU;
none is recorded.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.emulator import EmulatorVerdict
from lab.cuda_corpus.specimens import LABELS, read_labels

from .emulated_corpus import read_words

ROOT = Path(__file__).parents[2]
_RESULTS = ROOT / "docs/results"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.bench.emulated_savings", description=(__doc__ or "")[:80])
    parser.add_argument("--words", type=Path, default=_RESULTS / "emulator/corpus.jsonl")
    options = parser.parse_args(argv)
    print(json.dumps({"corpus": of_corpus(options.words), "searches": of_searches()}, indent=1))
    return 0


def of_corpus(words_file: Path) -> dict[str, Any]:
    """Of the kernels that the judge labelled: seconds of judging, and those of wrong kernels that are dropped."""
    words = {word["sha256"]: word for word in read_words(words_file)}
    both = [
        (label, words[label.sha256])
        for label in read_labels(LABELS)
        if label.labelled_by == "judge" and label.sha256 in words
    ]
    dropped = [(label, word) for label, word in both if word["verdict"] == EmulatorVerdict.WRONG]
    wrong = [label for label, _ in both if label.correct is False]
    return {
        "judged": len(both),
        "judging_s": round(sum(label.seconds for label, _ in both), 1),
        "wrong": len(wrong),
        "wrong_judging_s": round(sum(label.seconds for label in wrong), 1),
        "dropped_wrong": sum(label.correct is False for label, _ in dropped),
        "saved_judging_s": round(sum(label.seconds for label, _ in dropped if label.correct is False), 1),
        "dropped_right": sum(label.correct is True for label, _ in dropped),
        "emulated_s": round(sum(word["seconds"] for _, word in both), 1),
    }


def of_searches() -> dict[str, Any]:
    """Of the searches and sweeps that were recorded on a GPU: candidates, and those that failed."""
    search = json.loads((_RESULTS / "h200/search-unet_conv2d-forward.json").read_text())
    sweeps = [json.loads(path.read_text()) for path in sorted((_RESULTS / "sweeps").rglob("h200-*.json"))]
    rows = [row for sweep in sweeps for row in sweep["rows"]]
    return {
        "candidates": len(search["evaluations"]) + len(rows),
        "failed": sum(bool(item["failure"]) for item in search["evaluations"]) + sum(None in row for row in rows),
    }


if __name__ == "__main__":
    sys.exit(main())

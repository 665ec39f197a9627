"""What the two programs share that label the corpus of CUDA kernels: a label, keeping labels, and common options.

Not covered: how a specimen is judged (`label_cuda` and `label_together`).
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.harness import Verdict
from lab.cuda_corpus.specimens import LABELS, CudaLabel, CudaSpecimen, label_line

ROOT = Path(__file__).parents[2]
REASON_CHARS = 300


def label_of(
    item: CudaSpecimen,
    correct: bool | None,
    verdict: Verdict,
    reason: str,
    seconds: float,
    *,
    labelled_by: str = "judge",
) -> CudaLabel:
    operator = item.operator
    return CudaLabel(
        name=item.name,
        sha256=item.sha256,
        operator=operator.name if operator else None,
        fault=operator.fault if operator else "seed",
        task=item.seed.task,
        correct=correct,
        verdict=str(verdict),
        reason=reason[:REASON_CHARS],
        seconds=round(seconds, 1),
        labelled_by=labelled_by,
    )


def keep(labels: Iterable[CudaLabel], file: Path, planned: int) -> int:
    """Appends each label to `file` as it comes, prints a summary in JSON last, and returns the number of labels."""
    started = time.monotonic()
    kept = []
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        for label in labels:
            kept.append(label)
            out.write(label_line(label))
            out.flush()
            reason = " ".join(label.reason.split())[:100]
            print(f"{label.seconds:6.1f} s  {label.verdict:<16} {label.name}: {reason}", flush=True)
    summary = {
        "labelled": len(kept),
        "left": planned - len(kept),
        "verdicts": Counter(label.verdict for label in kept),
        "correct": Counter(str(label.correct) for label in kept),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary))
    return len(kept)


def parser_of(program: str, about: str | None) -> argparse.ArgumentParser:
    """With the options of both programs. `about` is the docstring of the module."""
    parser = argparse.ArgumentParser(prog=f"python -m lab.gpu.{program}", description=(about or "").splitlines()[0])
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--labels", type=Path, default=LABELS, help="append labels here")
    parser.add_argument("--jobs", type=int, default=cores, help="processes that compile side by side")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no specimen after so many seconds")
    parser.add_argument("--limit", type=int, help="at most so many specimens")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / program, help="where builds are kept")
    parser.add_argument("--plan", action="store_true", help="only say what there is to do")
    return parser

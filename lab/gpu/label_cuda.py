"""Labels the corpus of CUDA kernels on a real GPU: `python -m lab.gpu.label_cuda --labels FILE`.

Each specimen of `lab/cuda_corpus` is compiled and judged by the harness on every configuration, hidden ones too, with
one launch and two timed steps; limits that are about time alone are lifted. Several processes compile at a time, and
`--side-by-side` of them judge at a time on one GPU, each with a lock, cores and processes of its own. Appends one line
per label to FILE as it comes, so what was stopped goes on when it is called again. The last line of stdout is JSON.
Not covered: choosing specimens, times of any worth, and races that give right results (Compute Sanitizer).
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness import HarnessError, Paths, Report, Rules, Verdict, default_rules, devices_here, judge
from lab.cuda_corpus.specimens import EQUIVALENT, FAULTY, LABELS, CudaLabel, label_line, planned, read_labels

ROOT = Path(__file__).parents[2]
# OUT_OF_MEMORY may be the fault of another judging on the same GPU
_SILENT = {Verdict.NOISY, Verdict.TAMPERING, Verdict.OUT_OF_MEMORY, Verdict.INTERNAL_ERROR}
_WRONG = frozenset(Verdict) - {Verdict.PASS, *_SILENT}
_REASON_CHARS = 300


@dataclass(frozen=True)
class LabellingPlan:
    """What every process needs to know. `deadline` is in seconds since the epoch."""

    device: str
    data: Path
    faulty: int
    equivalent: int
    deadline: float


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    started = time.monotonic()
    known = {label.sha256 for label in (*read_labels(), *read_labels(options.labels))}
    todo = [item for item in planned(options.faulty, options.equivalent) if item.sha256 not in known]
    names = [item.name for item in todo][: options.limit]
    print(f"{len(known)} labelled, {len(todo)} to do, {len(names)} of them now", flush=True)
    if options.plan:
        return 0
    if options.device not in (device.name for device in devices_here()):
        print(f"there is no device {options.device!r} here", file=sys.stderr)
        return 2
    labels = []
    options.labels.parent.mkdir(parents=True, exist_ok=True)
    with options.labels.open("a") as file:
        for label in labelled(names, options):
            labels.append(label)
            file.write(label_line(label))
            file.flush()
            reason = " ".join(label.reason.split())[:100]
            print(f"{label.seconds:6.1f} s  {label.verdict:<16} {label.name}: {reason}", flush=True)
    verdicts = Counter(label.verdict for label in labels)
    summary = {"labelled": len(labels), "left": len(todo) - len(labels), "verdicts": dict(verdicts)}
    print(json.dumps({**summary, "correct": dict(Counter(str(label.correct) for label in labels)),
                      "seconds": round(time.monotonic() - started, 1)}))  # fmt: skip
    return 0 if len(labels) == len(names) else 1


def labelled(names: Sequence[str], options: argparse.Namespace) -> Iterator[CudaLabel]:
    """Labels as they come. Of what is not reached in time, and of what failed by our own fault, there is none."""
    context = multiprocessing.get_context("spawn")
    lanes = context.Value("i", 0)
    deadline = time.time() + options.budget_s
    plan = LabellingPlan(options.device, options.data, options.faulty, options.equivalent, deadline)
    settling = {"initializer": settle, "initargs": (lanes, options.side_by_side)}
    with ProcessPoolExecutor(options.jobs, mp_context=context, **settling) as pool:
        futures = {pool.submit(label_one, name, plan): name for name in names}
        for future in as_completed(futures):
            try:
                label = future.result()
            except HarnessError as error:
                print(f"{futures[future]}: our own fault: {str(error)[:_REASON_CHARS]}", file=sys.stderr, flush=True)
                continue
            if label is not None:
                yield label


def settle(lanes: "multiprocessing.sharedctypes.Synchronized[int]", side_by_side: int) -> None:
    """Puts this process into one of `side_by_side` groups: one judges at a time in each, on cores of their own.

    The lock of a GPU lies in the temporary folder, so a group has a folder of its own.
    """
    with lanes.get_lock():
        group = lanes.value % side_by_side
        lanes.value += 1
    folder = Path(tempfile.gettempdir()) / f"kbench-label-{group}"
    folder.mkdir(exist_ok=True)
    tempfile.tempdir = str(folder)
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // side_by_side)
    os.sched_setaffinity(0, cores[group * share : (group + 1) * share] or cores)


def label_one(name: str, plan: LabellingPlan) -> CudaLabel | None:
    """Judges one specimen. None after the deadline. Raises HarnessError: our own fault."""
    if time.time() > plan.deadline:
        return None
    started = time.monotonic()
    specimen = next(item for item in planned(plan.faulty, plan.equivalent) if item.name == name)
    rules, paths = labelling_rules(), Paths(plan.data)
    report = judge(specimen.source, specimen.task, rules, paths, device=plan.device, quick=True)
    operator = specimen.operator
    return CudaLabel(
        name=name,
        sha256=specimen.sha256,
        operator=operator.name if operator else None,
        fault=operator.fault if operator else "seed",
        task=specimen.seed.task,
        correct=is_correct(report),
        verdict=str(report.verdict),
        reason=report.reason[:_REASON_CHARS],
        seconds=round(time.monotonic() - started, 1),
    )


def is_correct(report: Report) -> bool | None:
    """What the judging says of the results: of a verdict about time alone what was found before it."""
    if report.verdict in _WRONG:
        return False
    checked = [item.correct and item.checked_calls > 0 for item in report.configs]
    return True if checked and all(checked) else None


def labelling_rules() -> Rules:
    """Results as in a full judging; hardly any timing, and nothing that depends on how calm the machine is."""
    rules = default_rules()
    few = replace(rules.gpu_time, launches=1, steps_per_config=2, min_steps_per_config=2, settle_s=0.0, input_sets=2)
    steps = replace(rules.time, steps_per_config=2)  # a quick judging takes as many on a GPU
    calm = replace(rules.gpu, slack_us=1e6, spread_max_us=1e9, contention=1e6, canary_drift=1e6)
    return replace(rules, time=steps, gpu_time=few, gpu=calm)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.label_cuda", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--labels", type=Path, default=LABELS, help="append labels here")
    parser.add_argument("--jobs", type=int, default=cores, help="processes, which compile side by side")
    parser.add_argument("--side-by-side", type=int, default=4, help="judgings at a time on the GPU")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no specimen after so many seconds")
    parser.add_argument("--limit", type=int, help="at most so many specimens")
    parser.add_argument("--faulty", type=int, default=FAULTY, help="mutants of each operator that plants a fault")
    parser.add_argument("--equivalent", type=int, default=EQUIVALENT, help="of each that should change nothing")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "label_cuda", help="where builds are kept")
    parser.add_argument("--plan", action="store_true", help="only say what there is to do")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

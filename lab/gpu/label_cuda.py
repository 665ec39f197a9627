"""Labels the corpus of CUDA kernels on a real GPU: `python -m lab.gpu.label_cuda --labels FILE`.

Each specimen of `lab/cuda_corpus` is compiled and judged by the harness on every configuration, hidden ones too, with
one launch and two timed steps; limits that are about time alone are lifted. Several processes compile at a time, and
`--side-by-side` of them judge at a time on one GPU, each with a lock, cores and processes of its own. Appends one line
per label to FILE as it comes, so what was stopped goes on when it is called again. The last line of stdout is JSON.
Not covered: choosing specimens, times of any worth, and races that give right results (Compute Sanitizer).
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness import HarnessError, Paths, Report, Rules, Verdict, default_rules, devices_here, judge
from lab.cuda_corpus.specimens import EQUIVALENT, FAULTY, CudaLabel, planned, read_labels

from .labelling import REASON_CHARS, keep, label_of, parser_of

# OUT_OF_MEMORY may be the fault of another judging on the same GPU
_SILENT = {Verdict.NOISY, Verdict.TAMPERING, Verdict.OUT_OF_MEMORY, Verdict.INTERNAL_ERROR}
_WRONG = frozenset(Verdict) - {Verdict.PASS, *_SILENT}


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
    known = {label.sha256 for label in (*read_labels(), *read_labels(options.labels))}
    todo = [item for item in planned(options.faulty, options.equivalent) if item.sha256 not in known]
    names = [item.name for item in todo][: options.limit]
    print(f"{len(known)} labelled, {len(todo)} to do, {len(names)} of them now", flush=True)
    if options.plan:
        return 0
    if options.device not in (device.name for device in devices_here()):
        print(f"there is no device {options.device!r} here", file=sys.stderr)
        return 2
    return 0 if keep(labelled(names, options), options.labels, len(todo)) == len(names) else 1


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
                print(f"{futures[future]}: our own fault: {str(error)[:REASON_CHARS]}", file=sys.stderr, flush=True)
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
    return label_of(specimen, is_correct(report), report.verdict, report.reason, time.monotonic() - started)


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
    parser = parser_of("label_cuda", __doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--side-by-side", type=int, default=4, help="judgings at a time on the GPU")
    parser.add_argument("--faulty", type=int, default=FAULTY, help="mutants of each operator that plants a fault")
    parser.add_argument("--equivalent", type=int, default=EQUIVALENT, help="of each that should change nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""Compares kernels under conditions that change nothing for a right one: `python -m lab.gpu.changed_conditions`.

A mask without its caller, a local variable without a value, an overrun local array and copies that nobody awaits are
faults that no tool reports, and that often do no harm. Here the kernels in question are compiled in other ways and
called after kernels that fill shared and local memory with NaN, beside controls that are taken to be right:

- `plain`: as the judge compiles them, more draws of inputs.
- `O0`: the assembler does not optimise, so registers hold other things.
- `debug`: nothing is optimised, and local variables lie in memory.
- `late`: half the threads of every warp, other ones each time, wait before each barrier and each exchange of a warp.
- `apart`: these threads also call the exchange in a branch of their own, as the programming guide allows.
- `streams`: a stream that waits for an event goes on two milliseconds late.

Results count against a kernel only if they are off by more than twice the tolerance, and errors, such as a refused
launch, do not; a condition under which a control is wrong counts for nothing (`fold_labels.py`). Appends one line per
kernel and condition to FILE as it comes, and goes on where it stopped. Not covered: what the tools of Compute Sanitizer
see (`sanitize_labels.py`).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.emulator import EmulatorVerdict
from benchmarks.harness import Verdict
from benchmarks.harness.compilers.builds import Build
from lab.bench.emulated_corpus import read_words
from lab.cuda_corpus.specimens import CudaSpecimen, planned, read_labels

from .child_process import ChildEndedError, LineChild
from .label_together import built

_TOGETHER = 4  # specimens of one extension: an unoptimised one is slow to compile and to run
_CONTROLS = 2  # in each extension
_START_S, _CALL_S = 120.0, 40.0
_REGISTERS = "-maxrregcount=64"  # or a block of 1024 threads does not start
_POISON = (Path(__file__).parent / "poison.cuh").read_text()
_DELAYS = (Path(__file__).parent / "delays.cuh").read_text()
_LATE_STREAMS = (Path(__file__).parent / "late_streams.cuh").read_text()


@dataclass(frozen=True)
class Condition:
    """One way to compile: flags of nvcc, and what stands before all kernels."""

    flags: tuple[str, ...] = ()
    prelude: str = _POISON


CONDITIONS = {
    "plain": Condition(),
    "O0": Condition(("-Xptxas", "-O0", _REGISTERS)),
    "debug": Condition(("-G", _REGISTERS)),
    "late": Condition(prelude=_POISON + _DELAYS),
    "apart": Condition(prelude=f"{_POISON}#define KBENCH_APART 1\n{_DELAYS}"),
    "streams": Condition(prelude=_POISON + _LATE_STREAMS),
}


@dataclass(frozen=True)
class ConditionWord:
    """What became of one kernel under one condition, a line of the file. `verdict` is that of the results."""

    name: str
    sha256: str
    condition: str
    verdict: str
    reason: str
    control: bool


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    told = {(word.sha256, word.condition) for word in read_compared(options.found)}
    groups = _groups(options)
    print(f"{sum(map(len, groups))} kernels in {len(groups)} extensions", flush=True)
    options.found.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.budget_s
    with options.found.open("a") as file:
        for word in compared(groups, options, deadline, told):
            if (word.sha256, word.condition) not in told:
                told.add((word.sha256, word.condition))
                file.write(json.dumps(asdict(word)) + "\n")
                file.flush()
                print(f"{word.condition:<6} {word.verdict:<16} {word.name}: {word.reason[:120]}", flush=True)
    return 0


Member = tuple[CudaSpecimen, bool]  # and whether it is a control


def _groups(options: argparse.Namespace) -> list[list[Member]]:
    """Kernels in question with right labels, by task, and controls of the same kinds in each extension."""
    right = {label.sha256 for label in read_labels() if label.correct}
    doubted = set(options.names.read_text().split()) if options.names else set()
    accepted: set[str] = set()
    for path in options.words:
        for word in read_words(path):
            (doubted if word["verdict"] == EmulatorVerdict.WRONG else accepted).add(word["name"])
    known = [item for item in planned() if item.sha256 in right and not item.seed.heavy]
    asked = sorted((item for item in known if item.name in doubted), key=lambda item: item.seed.task)
    controls = [item for item in known if item.operator is None and item.name in accepted - doubted]
    groups = []
    for at in range(0, len(asked), _TOGETHER):
        members = asked[at : at + _TOGETHER]
        tasks = {item.seed.task for item in members}
        near = sorted(controls, key=lambda item: ("__shfl" not in item.text, item.seed.task not in tasks))
        chosen = near[:_CONTROLS]
        controls = [item for item in controls if item not in chosen] or near
        groups.append([*((item, False) for item in members), *((item, True) for item in chosen)])
    return groups


def compared(
    groups: Sequence[Sequence[Member]], options: argparse.Namespace, deadline: float, told: set[tuple[str, str]]
) -> Iterator[ConditionWord]:
    """Words as they come. Nothing is begun after the deadline."""

    def build_one(group: Sequence[Member], condition: str) -> Build | None:
        if time.monotonic() > deadline:
            return None
        how = CONDITIONS[condition]
        members = [item for item, _ in group]
        return built(members, options.data, flags=how.flags, prelude=how.prelude, deadline=deadline)

    with ThreadPoolExecutor(options.jobs) as builders, ThreadPoolExecutor(options.lanes) as lanes:
        builds = {
            builders.submit(build_one, group, condition): (group, condition)
            for condition in CONDITIONS
            for group in groups
            if any((item.sha256, condition) not in told for item, _ in group)
        }
        runs: list[Future[list[ConditionWord]]] = []
        for future in as_completed(builds):
            group, condition = builds[future]
            found = future.result()
            if found is not None and found.binary is not None:
                runs.append(lanes.submit(_called, group, condition, found.binary, options.draws, deadline))
            elif found is not None:
                log = found.problem or found.log[-400:]
                print(f"{condition}: an extension was not built: {log}", file=sys.stderr, flush=True)
            while runs and runs[0].done():
                yield from runs.pop(0).result()
        for run in as_completed(runs):
            yield from run.result()


def _called(group: Sequence[Member], condition: str, library: Path, draws: int, deadline: float) -> list[ConditionWord]:
    """A kernel that ends the process or does not answer is wrong by that; the next one has a new process."""
    words: list[ConditionWord] = []
    child: LineChild | None = None
    for number, (item, control) in enumerate(group):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        verdict, reason, over = Verdict.PASS, "", False
        try:
            if child is None:
                child = LineChild("lab.gpu.label_together_child", str(library), str(draws), "poisoned")
                child.ask({"what": "begin"}, min(_START_S, left_s))
            left_s = deadline - time.monotonic()
            request = {"module": f"specimen{number}", "task": item.seed.task}
            answer = child.ask(request, min(_CALL_S, left_s))
            verdict, reason, over = Verdict(answer["verdict"]), answer["reason"], answer["over"]
        except ChildEndedError as error:
            over = True
            if "no answer" in str(error) or str(error) == "exit code 1":  # time was short, or the fault is ours
                verdict = Verdict.INTERNAL_ERROR
            else:
                verdict = Verdict.RUNTIME_ERROR
            reason = str(error)
        if over and child is not None:
            child.close()
            child = None
        if verdict is not Verdict.INTERNAL_ERROR:
            words.append(ConditionWord(item.name, item.sha256, condition, str(verdict), reason[:300], control))
        else:
            print(f"{condition}: {item.name}: {reason}", file=sys.stderr, flush=True)
    if child is not None:
        child.close()
    return words


def read_compared(path: Path) -> list[ConditionWord]:
    return [ConditionWord(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="python -m lab.gpu.changed_conditions", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--found", type=Path, default=Path("conditions.jsonl"), help="append what was found here")
    parser.add_argument("--names", type=Path, help="kernels in question, one a line")
    parser.add_argument("--words", type=Path, nargs="*", default=[], help="what the emulator said: whom it rejects is")
    parser.add_argument("--draws", type=int, default=6, help="draws of inputs for each configuration")
    parser.add_argument("--jobs", type=int, default=cores, help="compilers at a time")
    parser.add_argument("--lanes", type=int, default=4, help="processes on the GPU at a time")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="end every run after so many seconds")
    parser.add_argument("--data", type=Path, default=Path("var") / "label_together", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""Two sources in one sitting: their rounds alternate."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import (
    Paths,
    Report,
    Source,
    Step,
    Verdict,
    Watcher,
    default_rules,
    default_suites,
    find_task,
    is_prepared,
    judge_together,
)
from benchmarks.harness.measuring.baselines import CpuPreparation
from benchmarks.harness.together import _Turns
from benchmarks.harness.tracks import CpuTrack

TASK = find_task(default_suites(), "mnist_pool/forward")
SHOWN = [item for item in TASK.configs_for("cpu") if not item.hidden]
SMALL = replace(TASK, configs={"cpu": (min(SHOWN, key=lambda item: item.bytes_moved),)})
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
PLACE = KERNEL.index("const int64_t planes")
ROUND = Step("time", "progress")


def kernel_with(line: str) -> Source:
    return Source(f"{KERNEL[:PLACE]}{line}\n    {KERNEL[PLACE:]}", "cpp")


def test_rounds_alternate_and_one_that_ends_leaves_the_other_all_turns() -> None:
    turns, made = _Turns(2), []

    def judged(number: int) -> None:
        with turns.of(number):
            told = turns.after_round(number)
            told(Step("verify", "progress"))
            for count in range(2 + number):
                told(ROUND)
                made.append((number, count))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(judged, range(2)))
    assert made == [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2)]


def test_one_that_breaks_off_does_not_keep_the_other_waiting() -> None:
    turns, ended = _Turns(2), threading.Event()

    def other() -> None:
        with turns.of(1):
            ended.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other)
        with pytest.raises(ZeroDivisionError), turns.of(0):
            raise ZeroDivisionError
        waiting.result(timeout=10)
    assert ended.is_set()


def together(first: Source, second: Source, paths: Paths) -> tuple[Report, Report]:
    rules = default_rules()
    few = replace(rules.time, launches=1, steps_per_config=6, min_steps_per_config=6)
    rules = replace(rules, time=few, score=replace(rules.score, max_half_width=float("inf")))
    return judge_together(first, second, SMALL, rules, paths)


@pytest.mark.alone
@pytest.mark.sandbox
def test_a_slower_kernel_is_slower_by_as_much(paths: Paths) -> None:
    late = kernel_with("volatile double idle = 0; for (int n = 0; n < 2000000; ++n) idle = idle + 1;")
    quick, slow = together(Source(KERNEL, "cpp"), late, paths)
    assert (quick.verdict, slow.verdict) == (Verdict.PASS, Verdict.PASS), slow.reason
    assert quick.score is not None
    assert slow.score is not None
    assert quick.score.speedup > 2 * slow.score.speedup


@pytest.mark.sandbox
def test_one_that_crashes_does_not_harm_the_other(paths: Paths) -> None:
    crashes, passes = together(kernel_with("__builtin_trap();"), Source(KERNEL, "cpp"), paths)
    assert (crashes.verdict, passes.verdict) == (Verdict.RUNTIME_ERROR, Verdict.PASS), passes.reason


def test_the_machine_is_locked_only_with_baselines_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who compiles the same baselines elsewhere holds their lock and waits for that of the machine."""
    ready, lock = [], CpuTrack.lock

    @contextmanager
    def noted(track: CpuTrack, watcher: Watcher) -> Iterator[None]:
        ready.append(is_prepared(SMALL, track.rules, track.paths))
        with lock(track, watcher):
            yield

    def compiles_nothing(preparation: CpuPreparation, _cache: Path, _log: Path) -> None:
        preparation.problems = {0: "not compiled in this test"}

    monkeypatch.setattr(CpuTrack, "lock", noted)
    monkeypatch.setattr(CpuPreparation, "_compile", compiles_nothing)
    together(Source("", "cpp"), Source("", "cpp"), Paths(tmp_path))
    assert ready == [True]

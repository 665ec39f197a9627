"""Two sources in one sitting: their rounds alternate, and what both meet alike is in neither's favour."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.harness import Paths, Source, Step, Verdict, default_rules, default_suites, find_task, judge_together
from benchmarks.harness.scores.stats import PairedTimes
from benchmarks.harness.together import _ci95, _Turns

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


def times(speed: np.ndarray, kernel: float, *, steps: int) -> Mapping[str, PairedTimes]:
    launch = np.arange(steps) // 2 % 2
    return {"a": PairedTimes((kernel * speed)[:steps], (10 * speed)[:steps], None, launch)}


def test_the_interval_is_that_of_the_difference() -> None:
    """Each score alone varies, since the kernel's time does and its baseline's does not."""
    draw, launch = np.random.default_rng(0), np.arange(100) // 2 % 2
    shared = np.exp(draw.normal(0, 0.3, 100))
    steady = np.full(100, 10.0)
    one = {"a": PairedTimes(5 * shared, steady, None, launch)}
    other = {"a": PairedTimes(6 * shared, steady, None, launch)}
    low, high = _ci95(one, other, default_rules())
    assert low == pytest.approx(1.2)
    assert high == pytest.approx(1.2)


def test_steps_that_only_one_has_do_not_count() -> None:
    speed = np.exp(np.random.default_rng(1).normal(0, 0.1, 120))
    low, high = _ci95(times(speed, 5, steps=100), times(speed, 5, steps=120), default_rules())
    assert (low, high) == (pytest.approx(1), pytest.approx(1))


@pytest.mark.sandbox
def test_a_slower_kernel_is_slower_by_as_much(paths: Paths) -> None:
    rules = default_rules()
    few = replace(rules.time, launches=1, steps_per_config=6, min_steps_per_config=6)
    rules = replace(rules, time=few, score=replace(rules.score, max_half_width=float("inf")))
    late = kernel_with("volatile double idle = 0; for (int n = 0; n < 2000000; ++n) idle = idle + 1;")
    found = judge_together(Source(KERNEL, "cpp"), late, SMALL, rules, paths)
    assert (found.first.verdict, found.second.verdict) == (Verdict.PASS, Verdict.PASS), found.second.reason
    assert found.ratio is not None
    assert found.ci95 is not None
    assert found.ratio > 2
    assert found.ci95[0] <= found.ratio <= found.ci95[1]
    wrong = judge_together(kernel_with("__builtin_trap();"), Source(KERNEL, "cpp"), SMALL, rules, paths)
    assert (wrong.first.verdict, wrong.second.verdict) == (Verdict.RUNTIME_ERROR, Verdict.PASS), wrong.second.reason
    assert (wrong.ratio, wrong.ci95) == (None, None)

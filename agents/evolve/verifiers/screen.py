"""V2, screening: a few timed steps on one small and one large configuration, against those of the best kernel so far.

Both are timed against torch eager in the same steps, so their ratio does not depend on how fast the machine was. The
referee and eager stay from one candidate to the next, which saves most of the time of a look. A candidate is dropped
as slower only if the whole interval of the ratio is clearly below 1; in doubt it is judged in full. A run's option
`screen_margin` says how clearly (1 / margin). A share of the dropped candidates is judged anyway, as with every
verifier. While a run searches on one configuration first (`curriculum.py`), that one is timed. Not covered: scores.
Nothing that is measured here reaches a leaderboard.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from benchmarks.harness import (
    CPU,
    Cancelled,
    Config,
    HarnessError,
    Looks,
    Paths,
    Report,
    Source,
    TaskSpec,
    Watcher,
    default_rules,
    device_class,
    judge,
)

from ..config import ConfigError, RunConfig
from ..local import result_of
from ..model import SLOW, JudgeResult, Reason, VerifierOpinion

MARGIN = 1.05  # two configurations are not all: what may lose less than this on them is judged
GPU_BYTES_MAX = 512 << 20  # that a configuration moves
Measure = Callable[[Source, TaskSpec, threading.Event], JudgeResult]


class ScreenVerifier:
    """V2 on one device. The best kernel is timed once, when the first candidate is compared with it.

    Every measurement runs in one thread, since processes that stay end with the thread that started them.
    """

    id = "screen"
    version = "2"

    def __init__(self, measure: Measure, close: Callable[[], None] = lambda: None, *, margin: float = MARGIN) -> None:
        self._measure, self._end, self._margin = measure, close, margin
        self._thread = ThreadPoolExecutor(1, "screen")
        self._best: tuple[tuple[str, ...], JudgeResult] | None = None  # of which source on which configurations
        self._turn = asyncio.Lock()

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """`settings` holds `data`, the folder of builds, and `device`. Raises ConfigError."""
        margin = config.options.get("screen_margin", MARGIN)
        if not isinstance(margin, int | float) or not 0.5 <= margin <= 2:
            raise ConfigError("screen_margin must be between 0.5 and 2")
        bench = _Bench(Paths(Path(settings["data"])), str(settings["device"]))
        return cls(bench.measure, bench.close, margin=float(margin))

    def close(self) -> None:
        """Ends what stayed. Waits for a measurement that was given up."""
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        return VerifierOpinion("abstain", (Reason("there is no kernel to compare with yet"),))

    async def race(
        self, source: str, language: str, task: TaskSpec, best_source: str, best_score: float
    ) -> VerifierOpinion:
        """Being cancelled ends the measurement."""
        few = two_configs(task, language)
        async with self._turn:  # one at a time: they wait for the same device anyway
            started = time.perf_counter()
            asked = (best_source, *(item.key for item in few.configs_for(device_class(language))))
            if self._best is None or self._best[0] != asked:
                self._best = (asked, await self._timed(Source(best_source, language), few))
            mine = await self._timed(Source(source, language), few)
        opinion = opinion_of(mine, self._best[1], best_score, margin=self._margin)
        return replace(opinion, seconds=time.perf_counter() - started)

    async def _timed(self, source: Source, task: TaskSpec) -> JudgeResult:
        given_up = threading.Event()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._measure, source, task, given_up)
        finally:
            given_up.set()


class _Bench:
    """Looks at the configurations that were asked for last; other ones begin anew."""

    def __init__(self, paths: Paths, device: str) -> None:
        self._paths, self._device = paths, device
        self._looks: Looks | None = None

    def measure(self, source: Source, task: TaskSpec, given_up: threading.Event) -> JudgeResult:
        if self._looks is None or self._looks.task != task:
            self.close()
            self._looks = Looks(task, default_rules(), self._paths, self._device)
        return _caught(self._looks.judge, source, given_up)

    def close(self) -> None:
        looks, self._looks = self._looks, None
        if looks is not None:
            looks.close()


def two_configs(task: TaskSpec, language: str) -> TaskSpec:
    """The same task with the smallest and the largest of the configurations that everybody knows.

    Of a GPU those are left out that leave no room for a judging beside what stays between two looks.
    """
    kind = device_class(language)
    shown = sorted((item for item in task.configs_for(kind) if not item.hidden), key=_size)
    fitting = [item for item in shown if kind == CPU or item.bytes_moved <= GPU_BYTES_MAX] or shown[:1]
    return replace(task, configs={kind: tuple({item.key: item for item in (fitting[0], fitting[-1])}.values())})


def _size(config: Config) -> tuple[int, int]:
    return config.bytes_moved, config.flops


def opinion_of(mine: JudgeResult, best: JudgeResult, best_score: float, *, margin: float = MARGIN) -> VerifierOpinion:
    if mine.ours:
        return VerifierOpinion("abstain", (Reason(f"it could not be timed: {mine.reason}"),))
    if not mine.correct:
        return VerifierOpinion("reject", (Reason(mine.reason),), fault=mine.verdict.lower())
    found = ratio_of(mine, best)
    if found is None:
        return VerifierOpinion("abstain", (Reason("the best kernel could not be timed beside it"),))
    ratio, lo, hi = found
    said = Reason(f"{ratio:.2f} times as fast as the best kernel on {_where(mine)} ({lo:.2f} to {hi:.2f})")
    resources = {"ratio": round(ratio, 4), "estimate": round(ratio * best_score, 4)}
    if hi < 1 / margin:
        return VerifierOpinion("reject", (said,), fault=SLOW, resources=resources)
    return VerifierOpinion("accept", (said,), resources=resources)


def ratio_of(mine: JudgeResult, best: JudgeResult) -> tuple[float, float, float] | None:
    """How fast it is against the best kernel, with the widest interval that both allow. None: not both were timed."""
    ours, theirs = _times(mine), _times(best)
    keys = ours.keys() & theirs.keys()
    if not keys:
        return None
    pairs = [(ours[key], theirs[key]) for key in keys]
    middle = [math.log(one[1] / other[1]) for one, other in pairs]
    low = [math.log(one[0] / other[2]) for one, other in pairs]
    high = [math.log(one[2] / other[0]) for one, other in pairs]
    ratio, lo, hi = (math.exp(sum(logs) / len(logs)) for logs in (middle, low, high))
    return ratio, lo, hi


def _where(result: JudgeResult) -> str:
    keys = [*_times(result)]
    return "two configurations" if len(keys) > 1 else keys[0]


def _times(result: JudgeResult) -> dict[str, tuple[float, float, float]]:
    """Low, middle and high of the speedup over eager by configuration."""
    rows = (row for row in result.configs if row.get("speedup") and row.get("ci95"))
    return {row["key"]: (float(row["ci95"][0]), float(row["speedup"]), float(row["ci95"][1])) for row in rows}


def quick(source: Source, task: TaskSpec, paths: Paths, device: str, given_up: threading.Event) -> JudgeResult:
    """One quick judging by itself, in the judge's sandbox and under its locks."""

    def judged(source: Source, watcher: Watcher) -> Report:
        return judge(source, task, default_rules(), paths, device=device, quick=True, watcher=watcher)

    return _caught(judged, source, given_up)


def _caught(judged: Callable[[Source, Watcher], Report], source: Source, given_up: threading.Event) -> JudgeResult:
    try:
        return result_of(judged(source, Watcher(cancelled=given_up.is_set)))
    except Cancelled:
        return JudgeResult("INTERNAL_ERROR", "the screening was abandoned")
    except HarnessError as error:
        return JudgeResult("INTERNAL_ERROR", str(error))

"""Estimates the queue wait of an evaluation, as a range, from the durations of recent judgings on its device kind.

The queue is simulated many times with durations drawn from recent judgings, on the judges that are online: the rest of
running evaluations, everything ahead, and builds where builds and timings alternate. Later submissions of a higher
class, and of owners whose turn comes earlier, are not predicted. Does NOT know the order of the queue (`querysets.py`)
and reads no clock but the caller's.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from django.db.models import Q, Sum

from ..harness import CPU
from ..models import DeviceKind, Evaluation
from ..states import State

LOOKED_BACK = timedelta(days=7)
SAMPLES_MAX = 300
SAMPLES_MIN = 3  # of a device kind before anything is said, and of a task before it has a pace of its own
DRAWS = 60  # times that the queue is played through; a tenth of the ends is left out on either side
ROWS_MAX = 200  # rows that are played through one by one; those beyond take as long as these
BUILD_STAGES = ("static", "compile")


@dataclass(frozen=True)
class Took:
    """What one judging took, in seconds: its build, and everything that needed the device."""

    task_version: int
    build_s: float
    device_s: float


@dataclass(frozen=True)
class QueueLoad:
    """`rows` evaluations of one task that go first, `unbuilt` of them not compiled yet."""

    task_version: int
    rows: int
    unbuilt: int


@dataclass(frozen=True)
class AtWork:
    """One evaluation that runs. `judging_since` is None while it is compiled only."""

    task_version: int
    judging_since: datetime | None


@dataclass(frozen=True)
class Demand:
    """What `judges` have to do before they begin with `own`, which is one row."""

    judges: int
    running: Sequence[AtWork]
    ahead: Sequence[QueueLoad]
    own: QueueLoad

    def rows(self) -> list[tuple[int, bool]]:
        """Task of each row that goes first, and whether it is to be built; what is being compiled comes back first."""
        compiling = [(item.task_version, False) for item in self.running if item.judging_since is None]
        built = [(load.task_version, False) for load in self.ahead for _ in range(load.rows - load.unbuilt)]
        return compiling + built + [(load.task_version, True) for load in self.ahead for _ in range(load.unbuilt)]


@dataclass(frozen=True)
class WaitEstimate:
    """Seconds until a judge begins; against a simulated queue seven of ten waits end between the two, or more."""

    low_s: float
    high_s: float

    def __str__(self) -> str:
        return spoken(self.low_s, self.high_s)


class NoEstimate(Exception):
    """Nothing can be said; the text says why."""


class TooFewSeen(NoEstimate):
    """A judge will start it, but there are too few earlier judgings for an estimate."""


class Pace:
    """What judgings of one device kind took lately, per task where enough were seen."""

    def __init__(self, seen: Sequence[Took], *, builds_take_turns: bool) -> None:
        self.builds_take_turns = builds_take_turns
        self._all = seen
        self._of_task: dict[int, list[Took]] = defaultdict(list)
        for took in seen:
            self._of_task[took.task_version].append(took)

    def __len__(self) -> int:
        return len(self._all)

    def seen_anew(self, draws: Random) -> "Pace":
        """As another sample of the same judgings would have shown it."""
        return Pace(draws.choices(self._all, k=len(self._all)), builds_take_turns=self.builds_take_turns)

    def like(self, task_version: int) -> Sequence[Took]:
        own = self._of_task.get(task_version, [])
        return own if len(own) >= SAMPLES_MIN else self._all

    def needed_s(self, task_version: int, draws: Random, *, unbuilt: bool) -> float:
        """How long one evaluation keeps a judge, its build included where that keeps the judge too."""
        seen = self.like(task_version)
        took = seen[int(draws.random() * len(seen))]  # as `choice`, in a quarter of its time: a page draws thousands
        return took.device_s + (took.build_s if unbuilt and self.builds_take_turns else 0.0)

    def left_s(self, task_version: int, elapsed_s: float, draws: Random) -> float:
        """The rest of a judging, as of those like it that took longer than it has by now."""
        left = [took.device_s - elapsed_s for took in self.like(task_version) if took.device_s > elapsed_s]
        return draws.choice(left) if left else 0.0


def pace(kind: DeviceKind, now: datetime) -> Pace:
    """Two numbers of each of the latest judgings that ended with a verdict."""
    ended = Evaluation.objects.full().filter(state=State.DONE, device_kind=kind, finished__gte=now - LOOKED_BACK)
    latest = ended.order_by("-finished").values("pk")[:SAMPLES_MAX]
    built = Q(stages__name__in=BUILD_STAGES)
    rows = (
        Evaluation.objects.filter(pk__in=latest)
        .order_by()
        .annotate(in_stages_s=Sum("stages__seconds", filter=built), device_s=Sum("stages__seconds", filter=~built))
        .values_list("task_version", "build_s", "in_stages_s", "device_s")
    )
    seen = [Took(task, (ahead or 0.0) + (stages or 0.0), device or 0.0) for task, ahead, stages, device in rows]
    return Pace(seen, builds_take_turns=kind.device_class == CPU)


def estimated(pace: Pace, demand: Demand, now: datetime) -> WaitEstimate:
    """When a judge begins with one's own. Raises NoEstimate."""
    if demand.judges < 1:
        raise NoEstimate("No worker is online.")
    if len(pace) < SAMPLES_MIN:
        days = LOOKED_BACK.days
        raise TooFewSeen(f"Fewer than {SAMPLES_MIN} evaluations were judged on this device in the last {days} days.")
    rows = demand.rows()
    draws = Random(len(rows))  # noqa: S311 - no secret: the same queue is told the same
    waits = sorted(_wait_s(pace.seen_anew(draws), demand, rows, now, draws) for _ in range(DRAWS))
    return WaitEstimate(waits[DRAWS // 10], waits[-1 - DRAWS // 10])


def _wait_s(pace: Pace, demand: Demand, rows: list[tuple[int, bool]], now: datetime, draws: Random) -> float:
    """One way it may go."""
    played = draws.sample(rows, min(len(rows), ROWS_MAX))
    needed = [pace.needed_s(task, draws, unbuilt=unbuilt) for task, unbuilt in played]
    free_s = _first_free_s(_busy_s(pace, demand, now, draws), needed)
    beyond = (len(rows) - len(played)) / max(len(played), 1) * sum(needed) / demand.judges
    build_s = draws.choice(pace.like(demand.own.task_version)).build_s if demand.own.unbuilt else 0.0
    return free_s + beyond + build_s if pace.builds_take_turns else max(free_s + beyond, build_s)


def _busy_s(pace: Pace, demand: Demand, now: datetime, draws: Random) -> list[float]:
    """For how long each judge is busy with what it has begun."""
    begun = [(item.task_version, item.judging_since) for item in demand.running if item.judging_since]
    busy = [pace.left_s(task, (now - since).total_seconds(), draws) for task, since in begun]
    return busy + [0.0] * (demand.judges - len(busy))


def _first_free_s(busy_s: list[float], needed_s: Sequence[float]) -> float:
    """When a judge is free after all of `needed_s` were started in order, each by the first free judge."""
    heapq.heapify(busy_s)
    for seconds in needed_s:
        heapq.heapreplace(busy_s, busy_s[0] + seconds)
    return busy_s[0]


def spoken(low_s: float, high_s: float) -> str:
    """A range as people say it, in the unit of its upper end: "less than a minute", "about 2 to 4 minutes"."""
    if high_s < 60:
        return "less than a minute"
    unit_s, unit = (60.0, "minute") if high_s < 5400 else (3600.0, "hour") if high_s < 172_800 else (86_400.0, "day")
    low, high = max(1, math.floor(low_s / unit_s)), math.ceil(high_s / unit_s)
    if low_s < unit_s / 2:
        return f"up to {high} {unit}s" if high > 1 else f"up to one {unit}"
    return f"about {low} to {high} {unit}s" if low < high else f"about {low} {unit}{'s' if low > 1 else ''}"

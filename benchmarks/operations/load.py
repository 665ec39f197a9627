"""The load of the site: queue lengths, queue waits and outcomes per device kind, and the history of the queues.

The status page, the API and the metrics all show these figures. The number of queries is constant. Does NOT check
whether the site works (`health.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Count, Min, Q
from django.utils import timezone

from ..harness import Verdict
from ..models import DeviceKind, Evaluation, QueueSample, SiteSwitch
from ..selectors import alive_workers
from ..states import RUNNING, Priority, State, Switch, WorkerRole

CLASSES = {
    Priority.PERSON: "people",
    Priority.AGENT: "agents",
    Priority.REJUDGE: "rejudge",
    Priority.EXAMPLE: "examples",
}
WAITS_MAX = 1000  # the latest of all that were taken up within a day: enough for a median and for nine of ten
HISTORY = timedelta(days=1)
HISTORY_STEP = timedelta(minutes=10)
SAMPLES_KEPT = timedelta(days=7)
OUTCOMES_OF = timedelta(days=30)


@dataclass(frozen=True)
class Waits:
    """Queue wait of recently started evaluations in seconds; None if there are none."""

    count: int
    median_s: float | None
    p90_s: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Waits":
        if not seconds:
            return cls(0, None, None)
        ordered = sorted(seconds)
        return cls(len(ordered), median(ordered), ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))])


@dataclass(frozen=True)
class Outcomes:
    """How evaluations ended within 30 days: with a verdict about the kernel, or by our own fault."""

    judged: int
    accepted: int
    ours: int

    @property
    def success_rate(self) -> float | None:
        """The share that got a verdict about the kernel, whichever; None where nothing ended."""
        return 1 - self.ours / self.judged if self.judged else None

    @property
    def internal_error_rate(self) -> float | None:
        return self.ours / self.judged if self.judged else None


@dataclass(frozen=True)
class DeviceFigures:
    """One device kind. `depth` counts what is queued, by class; `history` is the greatest depth of each ten minutes."""

    kind: DeviceKind
    depth: Mapping[str, int]
    oldest: datetime | None
    running: int
    workers: int
    last_hour: Waits
    last_day: Waits
    outcomes: Outcomes
    history: Sequence[tuple[datetime, int]] = field(default_factory=tuple)

    @property
    def queued(self) -> int:
        return sum(self.depth.values())


@dataclass(frozen=True)
class Incident:
    """Something that staff have switched off, or say to everybody."""

    title: str
    text: str
    since: datetime


def device_figures(now: datetime | None = None) -> list[DeviceFigures]:
    """Of every device kind that is known, GPUs first."""
    now = now or timezone.now()
    kinds = list(DeviceKind.objects.order_by("-device_class", "slug"))
    depths, waits, outcomes, history = _depths(), _waits(now), _outcomes(now, kinds), _history(now)
    running = _counted(Evaluation.objects.running())
    workers = _counted(alive_workers(now).filter(role=WorkerRole.JUDGE))
    return [
        DeviceFigures(
            kind=kind,
            depth={name: depths.get((kind.pk, priority), (0, None))[0] for priority, name in CLASSES.items()},
            oldest=min((since for (pk, _), (_, since) in depths.items() if pk == kind.pk and since), default=None),
            running=running.get(kind.pk, 0),
            workers=workers.get(kind.pk, 0),
            last_hour=Waits.of([wait for taken, wait in waits[kind.pk] if taken >= now - timedelta(hours=1)]),
            last_day=Waits.of([wait for _, wait in waits[kind.pk]]),
            outcomes=outcomes.get(kind.pk, Outcomes(0, 0, 0)),
            history=history.get(kind.pk, ()),
        )
        for kind in kinds
    ]


def incidents() -> list[Incident]:
    """What staff have switched off now, and their notice; newest first."""
    told = SiteSwitch.objects.filter(Q(on=False) & ~Q(key=Switch.BANNER) | Q(on=True, key=Switch.BANNER))
    return [
        Incident(_title(row), row.message or "No reason was given.", row.changed) for row in told.order_by("-changed")
    ]


def _title(row: SiteSwitch) -> str:
    return (
        "Notice" if row.key == Switch.BANNER else f"Off: {row.get_key_display()[0].lower()}{row.get_key_display()[1:]}"
    )


def take_sample() -> None:
    """Write down how long each queue is now; a second time within the same minute changes nothing."""
    unfinished = Evaluation.objects.filter(state__in=(State.QUEUED, *RUNNING)).order_by().values("device_kind")
    queued = Count("pk", filter=Q(state=State.QUEUED))
    counts = {row["device_kind"]: row for row in unfinished.annotate(queued=queued, running=Count("pk") - queued)}
    minute = timezone.now().replace(second=0, microsecond=0)
    QueueSample.objects.bulk_create(
        [_sample(kind, minute, counts.get(kind.pk, {})) for kind in DeviceKind.objects.all()], ignore_conflicts=True
    )


def forget_old_samples() -> None:
    QueueSample.objects.filter(taken__lt=timezone.now() - SAMPLES_KEPT).delete()


def _sample(kind: DeviceKind, taken: datetime, counts: Mapping[str, int]) -> QueueSample:
    queued, running = counts.get("queued", 0), counts.get("running", 0)
    return QueueSample(device_kind=kind, taken=taken, queued=queued, running=running)


def _depths() -> dict[tuple[int, int], tuple[int, datetime | None]]:
    """How many are queued and since when the oldest is, by device kind and class."""
    rows = Evaluation.objects.queued().order_by().values_list("device_kind", "priority")
    return {
        (kind, priority): (n, since) for kind, priority, n, since in rows.annotate(n=Count("pk"), since=Min("queued"))
    }


def _counted(rows: Any) -> dict[int, int]:
    return dict(rows.order_by().values_list("device_kind").annotate(n=Count("pk")))


def _waits(now: datetime) -> dict[int, list[tuple[datetime, float]]]:
    """When each was taken up by a judge within a day, and how many seconds it had waited, by device kind."""
    taken = Evaluation.objects.filter(claimed__gte=now - timedelta(days=1)).exclude(priority=Priority.EXAMPLE)
    rows = taken.order_by("-claimed").values_list("device_kind", "claimed", "queued")[:WAITS_MAX]
    waits: dict[int, list[tuple[datetime, float]]] = defaultdict(list)
    for kind, claimed, queued in rows:
        waits[kind].append((claimed, max(0.0, (claimed - queued).total_seconds())))
    return waits


def _outcomes(now: datetime, kinds: Sequence[DeviceKind]) -> dict[int, Outcomes]:
    """Verdicts are counted and not keys, which the index of what has ended does not hold on PostgreSQL."""
    done = Evaluation.objects.done_since(now - OUTCOMES_OF, kinds)
    ours = Q(verdict__in=[verdict for verdict in Verdict if verdict.ours])
    rows = done.values_list("device_kind").annotate(
        judged=Count("verdict"),
        accepted=Count("verdict", filter=Q(verdict=Verdict.PASS)),
        ours=Count("verdict", filter=ours),
    )
    return {kind: Outcomes(judged, accepted, ours) for kind, judged, accepted, ours in rows}


def _history(now: datetime) -> dict[int, list[tuple[datetime, int]]]:
    samples = QueueSample.objects.filter(taken__gte=now - HISTORY).order_by("taken")
    depths: dict[int, dict[datetime, int]] = defaultdict(dict)
    for kind, taken, queued in samples.values_list("device_kind", "taken", "queued"):
        step = taken - timedelta(seconds=taken.timestamp() % HISTORY_STEP.total_seconds())
        depths[kind][step] = max(queued, depths[kind].get(step, 0))
    return {kind: list(steps.items()) for kind, steps in depths.items()}

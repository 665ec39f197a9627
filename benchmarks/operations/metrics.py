"""The metrics of the site in Prometheus' format, read from database and Redis at each scrape.

Nothing is counted in a process, so every web process gives the same answer. `docs/operator-guide.md` explains each
metric. Other apps add families (`extensions.py`). Does NOT decide who may read them (`views/health.py`).
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, Q, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from .. import selectors
from ..extensions import extensions
from ..harness import Verdict
from ..judgings import queue
from ..models import DeviceKind, Evaluation, StageResult, Worker
from ..states import FINISHED, State, WorkerRole, WorkerState
from . import health, load
from .load import DeviceFigures

STAGES_OF = timedelta(hours=1)
VERDICTS = ("", *Verdict)  # what was cancelled or has expired has none


def site_metrics() -> Iterator[Metric]:
    """All families; without the database, only those that report this."""
    found = health.checks()
    yield _gauge(
        "kbench_check_ok",
        "1 where a check of /readyz is ok",
        ["check"],
        (([check.name], float(check.level is health.Level.OK)) for check in found),
    )
    if health.worst(found) is health.Level.DOWN:
        return
    figures = load.device_figures()
    yield from _queues(figures)
    yield from _waits(figures)
    yield from _workers()
    yield from _evaluations()
    yield from _broker(figures)


class SiteCollector(Collector):
    """All sources; a database that goes away in between ends the answer early, and `up` of the scrape tells."""

    def collect(self) -> Iterator[Metric]:
        for source in (site_metrics, *(extension.metrics for extension in extensions())):
            try:
                yield from source()
            except DatabaseError:
                return


def exposition() -> bytes:
    """The text of a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SiteCollector())
    return generate_latest(registry)


def _queues(figures: list[DeviceFigures]) -> Iterator[Metric]:
    now = timezone.now()
    depth = (([item.kind.slug, name], count) for item in figures for name, count in item.depth.items())
    yield _gauge("kbench_queue_depth", "Evaluations waiting", ["device", "class"], depth)
    ages = (([item.kind.slug], (now - item.oldest).total_seconds()) for item in figures if item.oldest)
    yield _gauge("kbench_queue_oldest_seconds", "Age of the oldest evaluation that waits", ["device"], ages)
    running = (([item.kind.slug], item.running) for item in figures)
    yield _gauge("kbench_evaluations_running", "Evaluations being compiled or judged", ["device"], running)


def _waits(figures: list[DeviceFigures]) -> Iterator[Metric]:
    spans = [(item.kind.slug, "hour", item.last_hour) for item in figures]
    spans += [(item.kind.slug, "day", item.last_day) for item in figures]
    rows = [
        ([device, window, quantile], value)
        for device, window, waits in spans
        for quantile, value in (("0.5", waits.median_s), ("0.9", waits.p90_s))
        if value is not None
    ]
    labels = ["device", "window", "quantile"]
    yield _gauge("kbench_wait_seconds", "Queue wait of recently started evaluations", labels, rows)


def _workers() -> Iterator[Metric]:
    alive = set(selectors.alive_workers().values_list("pk", flat=True))
    rows = Worker.objects.order_by().values_list("pk", "role", "device_kind__slug", "state")
    counts: dict[tuple[str, str, str], int] = {}
    for pk, role, device, state in rows:
        told = "silent" if state == WorkerState.ONLINE and pk not in alive else state
        key = (WorkerRole(role).value, device or "", str(told))
        counts[key] = counts.get(key, 0) + 1
    labels = ["role", "device", "state"]
    yield _gauge("kbench_workers", "Workers by state", labels, ((list(key), n) for key, n in counts.items()))


def _evaluations() -> Iterator[Metric]:
    slugs = dict(DeviceKind.objects.values_list("pk", "slug"))  # a join would look each kind up once per evaluation
    total = CounterMetricFamily(
        "kbench_evaluations", "Evaluations that have ended", labels=["device", "state", "verdict"]
    )
    for state, device, *counts in _ended():
        for verdict, count in zip(VERDICTS, counts, strict=True):
            if count:
                total.add_metric([slugs[device], str(State(state).value), verdict], count)
    yield total
    since = timezone.now() - STAGES_OF
    ended = Evaluation.objects.done_since(since, list(slugs))
    recent = StageResult.objects.filter(evaluation__in=ended.values("pk")).order_by()
    stages = SummaryMetricFamily(
        "kbench_stage_seconds", "Stages of what ended within the last hour", labels=["device", "stage"]
    )
    rows = recent.values_list("evaluation__device_kind", "name").annotate(n=Count("pk"), seconds=Sum("seconds"))
    for device, stage, count, seconds in rows:
        stages.add_metric([slugs[device], stage], count_value=count, sum_value=seconds)
    yield stages


def _ended() -> Iterable[tuple[Any, ...]]:
    """State, device kind, and how many have each of `VERDICTS`: an index has the groups in order, not the verdicts.

    Verdicts are counted and not keys, which that index does not hold on PostgreSQL.
    """
    counts = [Count("verdict", filter=Q(verdict=verdict)) for verdict in VERDICTS]
    named = {f"of_{place}": count for place, count in enumerate(counts)}
    groups = Evaluation.objects.filter(state__in=FINISHED).order_by().values_list("state", "device_kind")
    rows: Iterable[tuple[Any, ...]] = groups.annotate(**named)
    return rows


def _broker(figures: list[DeviceFigures]) -> Iterator[Metric]:
    names = [queue.MAINT_QUEUE]
    for item in figures:
        names += [queue.compile_queue(item.kind.slug), queue.judge_queue(item.kind.slug)]
    lengths = ((([name], length)) for name, length in queue.lengths(names).items())
    yield _gauge("kbench_broker_messages", "Messages not yet taken by a worker", ["queue"], lengths)


def _gauge(name: str, text: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family

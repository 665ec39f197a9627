"""GET /status: the figures of the status page for programs.

Does NOT say whether the site is ready to serve: `/readyz` does.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from benchmarks import selectors
from benchmarks.models import Worker
from benchmarks.operations import load
from benchmarks.operations.load import DeviceFigures, Waits

router = Router(tags=["status"])


class DepthOut(Schema):
    """What is queued, by class; the classes go in this order."""

    people: int
    agents: int
    rejudge: int
    examples: int


class WaitsOut(Schema):
    """Seconds from being queued until a judge took it up; null where none was taken up."""

    count: int
    median_s: float | None
    p90_s: float | None


class OutcomesOut(Schema):
    """Evaluations of the last 30 days. `success_rate`: the share that got a verdict about the kernel, whichever."""

    judged: int
    accepted: int
    our_fault: int
    success_rate: float | None
    internal_error_rate: float | None


class DepthSample(Schema):
    at: datetime
    queued: int = Field(description="maximum within these ten minutes")


class QueueOut(Schema):
    device: str
    title: str
    processors: list[str] = Field(description="models that workers of a kind of CPU have reported")
    queued: int
    depth: DepthOut
    oldest: datetime | None = Field(description="when the oldest was submitted")
    running: int
    workers: int = Field(description="judges online")
    last_hour: WaitsOut
    last_day: WaitsOut
    last_30_days: OutcomesOut
    history: list[DepthSample] = Field(description="of the last 24 hours")


class WorkerOut(Schema):
    name: str
    role: str
    device: str | None
    state: str
    state_text: str
    alive: bool = Field(description="online with a recent heartbeat")
    isolation: str
    heartbeat: datetime
    tested: datetime | None = Field(description="its last self-test")
    test_passed: bool | None
    versions: dict[str, str]


class IncidentOut(Schema):
    title: str
    text: str
    since: datetime


class StatusOut(Schema):
    queues: list[QueueOut]
    workers: list[WorkerOut]
    incidents: list[IncidentOut]
    notices: list[str]


@router.get("", response=StatusOut, summary="Queues, workers, waits, outcomes and incidents")
def status(request: HttpRequest) -> Any:
    alive = set(selectors.alive_workers().values_list("pk", flat=True))
    return StatusOut(
        queues=[_queue(item) for item in load.device_figures()],
        workers=[_worker(row, alive=row.pk in alive) for row in selectors.workers()],
        incidents=[IncidentOut(title=item.title, text=item.text, since=item.since) for item in load.incidents()],
        notices=[item.text for item in selectors.site_notices()],
    )


def _queue(item: DeviceFigures) -> QueueOut:
    return QueueOut(
        device=item.kind.slug,
        title=item.kind.title,
        processors=item.kind.processors,
        queued=item.queued,
        depth=DepthOut(**item.depth),
        oldest=item.oldest,
        running=item.running,
        workers=item.workers,
        last_hour=_waits(item.last_hour),
        last_day=_waits(item.last_day),
        last_30_days=OutcomesOut(
            judged=item.outcomes.judged,
            accepted=item.outcomes.accepted,
            our_fault=item.outcomes.ours,
            success_rate=item.outcomes.success_rate,
            internal_error_rate=item.outcomes.internal_error_rate,
        ),
        history=[DepthSample(at=at, queued=queued) for at, queued in item.history],
    )


def _waits(found: Waits) -> WaitsOut:
    return WaitsOut(count=found.count, median_s=found.median_s, p90_s=found.p90_s)


def _worker(row: Worker, *, alive: bool) -> WorkerOut:
    return WorkerOut(
        name=row.name,
        role=row.role,
        device=row.device_kind.slug if row.device_kind else None,
        state=row.state,
        state_text=row.state_text,
        alive=alive,
        isolation=row.isolation,
        heartbeat=row.heartbeat,
        tested=row.tested,
        test_passed=row.test_passed,
        versions=row.versions,
    )

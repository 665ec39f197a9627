"""Explains why an evaluation waits: its position, the sentence shown on pages, and the expected wait.

Rows of the queue are counted, never loaded: the number of queries does not depend on its length. Does NOT change
anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import Case, Count, F, Q, When
from django.utils import timezone

from ..harness import CPU
from ..models import DeviceKind, Evaluation, TaskVersion, Worker
from ..querysets import EXAMPLES_WAIT_S, Place, WorkerQuerySet
from ..states import Priority, State, Switch, WorkerRole, WorkerState
from ..switches import paused
from .estimates import AtWork, Demand, NoEstimate, QueueLoad, TooFewSeen, WaitEstimate, estimated, pace


@dataclass(frozen=True)
class Waiting:
    """`ahead` counts the evaluations of the same device kind that go first, running ones not included.

    `text` is what a page says: the reason and how long it takes, or why nobody knows.
    """

    ahead: int
    running: int
    reason: str
    text: str
    estimate: WaitEstimate | None = None
    no_estimate: str = ""  # why there is none

    @property
    def position(self) -> int:
        return self.ahead + 1


@dataclass(frozen=True)
class _Queue:
    """What goes before a place, and what runs, on one device kind."""

    kind: DeviceKind
    loads: Sequence[QueueLoad]
    running: Sequence[AtWork]

    @property
    def ahead(self) -> int:
        return sum(load.rows for load in self.loads)


def waiting(evaluation: Evaluation) -> Waiting | None:
    """Place, reason and estimate; None unless the evaluation is queued."""
    if evaluation.state != State.QUEUED:
        return None
    queue = _queue(evaluation.device_kind, Evaluation.objects.place_of(evaluation))
    stopped = _stopped(evaluation)
    reason = stopped or _reason(evaluation, queue.ahead, len(queue.running))
    own = QueueLoad(evaluation.task_version_id, 1, unbuilt=evaluation.built is None)
    told = partial(Waiting, queue.ahead, len(queue.running), reason)
    try:
        estimate = _estimate(queue, own, evaluation.priority)
    except TooFewSeen as error:
        return told(f"{reason} No estimate: {_within(error)}", no_estimate=str(error))
    except NoEstimate as error:
        return told(reason, no_estimate=str(error))
    if stopped:  # judges are online, but nothing compiles for them
        return told(reason, no_estimate=stopped)
    return told(f"{reason} It should begin in {estimate}.", estimate)


def standstill(evaluation: Evaluation) -> str:
    """Why the first evaluation of a queue is not taken up now; empty if a worker is about to start it."""
    return _stopped(evaluation) or _gives_way(evaluation)


def waiting_reason(evaluation: Evaluation) -> str:
    """The sentence alone, without an estimate; empty unless the evaluation is queued."""
    if evaluation.state != State.QUEUED:
        return ""
    queue = _queue(evaluation.device_kind, Evaluation.objects.place_of(evaluation))
    return _stopped(evaluation) or _reason(evaluation, queue.ahead, len(queue.running))


def waiting_text(evaluation: Evaluation) -> str:
    """The sentences that a page shows; empty unless the evaluation is queued."""
    found = waiting(evaluation)
    return found.text if found else ""


def outlook(kind: DeviceKind, version: TaskVersion, owner: int | None) -> str:
    """The queue place and wait that a submission on a device kind would have now; empty if no worker is online."""
    if paused(Switch.JUDGING) or nobody_there(kind):
        return ""
    queue = _queue(kind, Evaluation.objects.place_of_next(kind, owner, Priority.PERSON))
    place = f"{queue.ahead} in the queue would go first" if queue.ahead else "You would be next"
    try:
        estimate = _estimate(queue, QueueLoad(version.pk, 1, unbuilt=1), Priority.PERSON)
    except NoEstimate as error:
        return f"{place}. No estimate: {_within(error)}"
    return f"{place}; judging should begin in {estimate}."


def _within(error: NoEstimate) -> str:
    """Its sentence as part of a longer one."""
    return f"{str(error)[0].lower()}{str(error)[1:]}"


def _queue(kind: DeviceKind, place: Place) -> _Queue:
    same_kind = Evaluation.objects.filter(device_kind=kind)
    before = same_kind.queued().ahead_of(place).order_by().values("pk")
    counted = Evaluation.objects.filter(pk__in=before).order_by().values_list("task_version")
    loads = [QueueLoad(*row) for row in counted.annotate(rows=Count("pk"), unbuilt=Count("pk", filter=Q(built=None)))]
    judging = Case(When(worker__role=WorkerRole.COMPILE, then=None), default=F("claimed"))
    running = same_kind.running().order_by().values_list("task_version", judging)
    return _Queue(kind, loads, [AtWork(*row) for row in running])


def _estimate(queue: _Queue, own: QueueLoad, priority: int) -> WaitEstimate:
    if paused(Switch.JUDGING):
        raise NoEstimate("Judging is paused.")
    if priority == Priority.EXAMPLE:
        raise NoEstimate("Shipped examples wait while other submissions are in the queue.")
    now = timezone.now()
    judges = _judges(queue.kind).alive(_alive_since()).count()
    return estimated(pace(queue.kind, now), Demand(judges, queue.running, queue.loads, own), now)


def _stopped(evaluation: Evaluation) -> str:
    """Why it is not judged, whatever its place in the queue; empty if it is a matter of its place."""
    return paused(Switch.JUDGING) or nobody_there(evaluation.device_kind, built=evaluation.built is not None)


def _reason(evaluation: Evaluation, ahead: int, running: int) -> str:
    if gives_way := _gives_way(evaluation):
        return gives_way
    if ahead:
        return f"{ahead} ahead of you."
    if running:
        place = "on this machine" if evaluation.device_kind.device_class == CPU else "on the GPU"
        return f"You are next: another evaluation is being judged {place}."
    return "You are next: a worker is about to start."


def _gives_way(evaluation: Evaluation) -> str:
    if evaluation.priority != Priority.EXAMPLE:
        return ""
    if Evaluation.objects.queued().claimable(evaluation.device_kind, timezone.now()).filter(pk=evaluation.pk).exists():
        return ""
    return (
        "Shipped examples wait while other submissions are expected, in the queue or being judged, "
        f"and for {EXAMPLES_WAIT_S // 60} minutes after the last of them."
    )


def nobody_there(kind: DeviceKind, *, built: bool = False) -> str:
    """Why nothing on a device kind is judged now, or compiled unless it is `built`; empty if workers are online."""
    missing = _missing(_judges(kind), f"{kind} worker")
    if missing or built:
        return missing
    compilers = Worker.objects.filter(role=WorkerRole.COMPILE, device_kind=kind)
    return _missing(compilers, f"worker that compiles for {kind}")


def _judges(kind: DeviceKind) -> WorkerQuerySet:
    return Worker.objects.filter(role=WorkerRole.JUDGE, device_kind=kind)


def _alive_since() -> datetime:
    return timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)


def _missing(workers: WorkerQuerySet, what: str) -> str:
    alive_since = _alive_since()
    if workers.alive(alive_since).exists():
        return ""
    latest = workers.order_by("-heartbeat").first()
    if latest is None:
        return f"No {what} has ever been online."
    if latest.state == WorkerState.QUARANTINED:
        return f"No {what} is available: {latest.state_text}"
    if latest.state == WorkerState.STARTING and latest.heartbeat >= alive_since:
        return f"The {what} is starting: it runs its self-test before it takes any work."
    return f"No {what} online since {latest.heartbeat:%Y-%m-%d %H:%M:%S} UTC."

"""Why a queued evaluation waits: its place in the queue and the sentence that pages show.

Does NOT change anything.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from .models import DeviceKind, Evaluation, SiteSwitch, Worker
from .querysets import EXAMPLES_WAIT_S, WorkerQuerySet
from .states import Priority, State, Switch, WorkerRole, WorkerState


@dataclass(frozen=True)
class Waiting:
    """`ahead` counts the evaluations of the same device kind that go first, running ones not included."""

    ahead: int
    running: int
    reason: str

    @property
    def position(self) -> int:
        return self.ahead + 1


def waiting(evaluation: Evaluation) -> Waiting | None:
    """None unless the evaluation is queued."""
    if evaluation.state != State.QUEUED:
        return None
    same_kind = Evaluation.objects.filter(device_kind=evaluation.device_kind)
    order = list(same_kind.queued().in_queue_order().values_list("pk", flat=True))
    ahead = order.index(evaluation.pk) if evaluation.pk in order else 0
    running = same_kind.running().count()
    return Waiting(ahead, running, _reason(evaluation, ahead, running))


def _reason(evaluation: Evaluation, ahead: int, running: int) -> str:
    stopped = _paused() or nobody_there(evaluation.device_kind, built=evaluation.built is not None)
    if stopped:
        return stopped
    if evaluation.priority == Priority.EXAMPLE and (ahead or running):
        return f"Shipped examples wait until nobody has wanted anything for {EXAMPLES_WAIT_S // 60} minutes."
    if ahead:
        return f"{ahead} ahead of you."
    if running:
        place = "on this machine" if evaluation.device_kind.device_class == "cpu" else "on the GPU"
        return f"You are next: another evaluation is being judged {place}."
    return "You are next: a worker picks it up now."


def _paused() -> str:
    switch = SiteSwitch.objects.filter(key=Switch.JUDGING, on=False).first()
    return f"Judging is paused: {switch.message or 'no reason was given'}" if switch else ""


def nobody_there(kind: DeviceKind, *, built: bool = False) -> str:
    """Why nothing of a device kind is judged now, or compiled unless it is `built`; empty where somebody works."""
    judges = Worker.objects.filter(role=WorkerRole.JUDGE, device_kind=kind)
    missing = _missing(judges, f"{kind} worker")
    if missing or built:
        return missing
    compilers = Worker.objects.filter(role=WorkerRole.COMPILE, device_kind=kind)
    return _missing(compilers, f"worker that compiles for {kind}")


def _missing(workers: WorkerQuerySet, what: str) -> str:
    alive_since = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    if workers.alive(alive_since).exists():
        return ""
    latest = workers.order_by("-heartbeat").first()
    if latest is None:
        return f"No {what} has ever been online."
    if latest.state == WorkerState.QUARANTINED:
        return f"No {what} may judge: {latest.state_text}"
    if latest.state == WorkerState.STARTING and latest.heartbeat >= alive_since:
        return f"The {what} is starting: it tests itself before it takes anything."
    return f"No {what} online since {latest.heartbeat:%Y-%m-%d %H:%M:%S} UTC."


def waiting_text(evaluation: Evaluation) -> str:
    """The sentence alone; empty unless the evaluation is queued."""
    found = waiting(evaluation)
    return found.reason if found else ""

"""All changes of an evaluation's state; each is one conditional update.

A worker that claims an evaluation gets a secret and needs it for every later change, so a worker that was taken for
lost can do no harm when it comes back. Every change writes an event in the same transaction. Does NOT judge (`jobs`
calls the harness) and does NOT interpret results (`recording.py`).
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from .. import quotas
from ..boards.standings import decision_follows, hold_boards, standings_update, task_held
from ..events import emit
from ..harness import CPU, Report, Step, Verdict
from ..models import (
    DeviceKind,
    Evaluation,
    Worker,
)
from ..notifications import telling
from ..states import (
    EvaluationReason,
    Priority,
    State,
    Switch,
    TaskVersionStatus,
    WorkerRole,
    sources,
)
from ..switches import switch_is_on
from ..transactions import repeated
from . import checks, recording
from .queue import wake_compile, wake_judge
from .sittings import next_final

ATTEMPTS_MAX = 2
NO_BASELINES = "The score follows when the torch.compile baselines of this task are ready."
_STATE_OF_STAGE = {
    "static": State.COMPILING,
    "compile": State.COMPILING,
    "prepare": State.VERIFYING,
    "load": State.VERIFYING,
    "verify": State.VERIFYING,
    "time": State.TIMING,
    "audit": State.AUDITING,
}
_BUILT_AHEAD = {CPU: 1}
_BUILT_AHEAD_ELSEWHERE = 16
_NO_STAGE: dict[str, Any] = {"stage": "", "stage_text": "", "stage_done": None, "stage_total": None}


class ClaimLost(Exception):
    """The evaluation has ended or belongs to another worker now; the holder of the claim must stop without an error."""


@dataclass(frozen=True)
class Holding:
    """A claimed evaluation and the secret that is needed to change it."""

    evaluation: Evaluation
    claim: uuid.UUID


def evaluation_claim(worker: Worker, device_kind: DeviceKind, role: str = WorkerRole.JUDGE) -> Holding | None:
    """Claims the next evaluation of a device kind for `worker` to compile or judge. None if there is nothing to do."""
    if not switch_is_on(Switch.JUDGING):
        return None
    following = _next_to_compile if role == WorkerRole.COMPILE else partial(_next_to_judge, worker)
    while (pk := following(device_kind)) is not None:
        claim, now = uuid.uuid4(), timezone.now()
        columns = {"claim": claim, "worker": worker, "claimed": now, "heartbeat": now}
        with transaction.atomic():
            if _move(pk, State.CLAIMED, worker_claim=None, **columns):
                Worker.objects.filter(pk=worker.pk).update(current_evaluation=pk)
                evaluation = _whole(pk)
                tell(evaluation, queue_changed=True)
                if role == WorkerRole.JUDGE:
                    wake_compile(device_kind.slug)
                return Holding(evaluation, claim)
    return None


def _next_to_judge(worker: Worker, device_kind: DeviceKind) -> int | None:
    """Finals of a contest go first, on the worker of their sitting alone."""
    final = next_final(worker, device_kind)
    if final is not None:
        return final
    built = Evaluation.objects.queued().claimable(device_kind, timezone.now()).filter(built__isnull=False)
    ordinary = built.exclude(reason=EvaluationReason.CONTEST)
    return ordinary.in_queue_order().values_list("pk", flat=True).first()


def _next_to_compile(device_kind: DeviceKind) -> int | None:
    """The first that is not built, unless enough lie ready before it.

    On a CPU compiling and timing share the machine, so compiling everything first would only delay the first result.
    """
    enough = _BUILT_AHEAD.get(device_kind.device_class, _BUILT_AHEAD_ELSEWHERE)
    order = Evaluation.objects.queued().claimable(device_kind, timezone.now()).in_queue_order()
    return next((pk for pk, built in order.values_list("pk", "built")[:enough] if built is None), None)


def evaluation_step(holding: Holding, step: Step) -> None:
    """What the harness does now, as columns of the row. Raises ClaimLost."""
    evaluation = holding.evaluation
    target = _STATE_OF_STAGE[step.stage]
    columns = {
        "stage": step.stage,
        "stage_text": step.text[:500],
        "stage_done": step.done,
        "stage_total": step.total,
        "heartbeat": timezone.now(),
    }
    with transaction.atomic():
        if evaluation.state != target and _move(evaluation.pk, target, worker_claim=holding.claim, **columns):
            # set once: a second judging stage does not start the evaluation again
            Evaluation.objects.filter(pk=evaluation.pk, started=None).update(started=timezone.now())
            evaluation.state = target
            emit(evaluation.topic, "state", state=target, stage=step.stage)
        elif Evaluation.objects.filter(pk=evaluation.pk, claim=holding.claim).update(**columns):
            emit(evaluation.topic, "progress", stage=step.stage, state=step.state, done=step.done, total=step.total)
        else:
            raise ClaimLost


def evaluation_heartbeat(holding: Holding) -> bool:
    """Record that the worker is alive. False: stop, because the evaluation was cancelled or given to another worker."""
    held = Evaluation.objects.filter(pk=holding.evaluation.pk, claim=holding.claim)
    return held.update(heartbeat=timezone.now()) == 1


@repeated
def evaluation_compiled(holding: Holding, build_s: float, object_key: str | None) -> None:
    """Records how long compiling took and, if it succeeded, the key of the compiled code. Raises ClaimLost."""
    evaluation = holding.evaluation
    evaluation.build_s, evaluation.object_key = build_s, object_key or ""
    held = Evaluation.objects.filter(pk=evaluation.pk, claim=holding.claim)
    with transaction.atomic():
        if not held.update(build_s=evaluation.build_s, object_key=evaluation.object_key):
            raise ClaimLost
        if evaluation.object_key:
            task_held(evaluation)  # who decides reads the keys that are known: this one, or it is asked after that
            _tell_boards(decision_follows(evaluation))


def evaluation_built(holding: Holding) -> None:
    """Compiled: back into the queue at its old place, for a worker of its device kind. Raises ClaimLost."""
    _back_to_queue(holding, built=timezone.now())


def evaluation_provisional(holding: Holding, vs_eager: float, judging_s: float = 0.0) -> None:
    """Correct, and timed against eager alone: back to the compiler, which prepares the baselines. Raises ClaimLost.

    The seconds on the device are charged now: its author may cancel it before there is a verdict.
    """
    with transaction.atomic():
        # the judging that follows has attempts of its own
        _back_to_queue(holding, provisional=vs_eager, built=None, reason_text=NO_BASELINES, attempt=1)
        payer, task = holding.evaluation.submission.payer, holding.evaluation.task_version.task
        if payer is not None:
            text = f"{task.name} on {holding.evaluation.device_kind.slug}: looked at before its baselines were prepared"
            quotas.spend(payer, judging_s, text)


def gives_way(evaluation: Evaluation) -> bool:
    """It is being judged, but would not be started now: a shipped example while other submissions wait."""
    if evaluation.priority != Priority.EXAMPLE:
        return False
    mine = Evaluation.objects.filter(pk=evaluation.pk)
    return not mine.claimable(evaluation.device_kind, timezone.now()).exists()


def evaluation_release(holding: Holding, why: str) -> None:
    """Return it to the queue when its worker stops; this does not count as an attempt. Raises ClaimLost."""
    _back_to_queue(holding, reason_text=why)


def evaluation_requeue(evaluation: Evaluation, claim: uuid.UUID | None, why: str) -> bool:
    """Queue it again after a lost attempt, or end it as INTERNAL_ERROR after the last. False: its state has changed."""
    if claim is None:
        return False
    holding = Holding(evaluation, claim)
    try:
        if evaluation.attempt >= ATTEMPTS_MAX:
            _finish_internal_error(holding, why)
        else:
            _back_to_queue(holding, reason_text=why, attempt=F("attempt") + 1)
    except ClaimLost:
        return False
    return True


@repeated
def record_report(holding: Holding, report: Report) -> None:
    """The end of a judging: results, baselines, standing and the row itself, all or nothing. Raises ClaimLost.

    The boards are held right after the evaluation, and before the request that pays for it (docs/architecture.md).
    """
    evaluation, quick = holding.evaluation, holding.evaluation.is_quick
    reason, columns = recording.reason_of(report, quick=quick), recording.columns_of(report, quick=quick)
    with transaction.atomic():
        _end(holding, State.DONE, reason, **columns)
        hold_boards(evaluation)
        _after_end(evaluation)
        recording.write(evaluation, report)
        checks.explain(evaluation)
        _tell_boards(standings_update(evaluation))


def _tell_boards(kinds: set[str]) -> None:
    for kind in sorted(kinds):
        emit(f"board:{kind}", "changed")


def evaluation_cancel(evaluation: Evaluation, why: str, *, by_author: bool = False) -> bool:
    """End it without a verdict; a worker that judges it stops at its next heartbeat. False: it has already ended.

    What its author cancels counts for the author's quota.
    """
    with transaction.atomic():
        ended = _move(evaluation.pk, State.CANCELLED, reason_text=why, finished=timezone.now(), claim=None, **_NO_STAGE)
        if ended:
            if by_author:
                quotas.count_cancelled(evaluation)
            _after_end(evaluation)
    return ended


def evaluation_expire(evaluation: Evaluation, why: str) -> bool:
    """End a queued evaluation that can never run. False: it is no longer queued."""
    with transaction.atomic():
        ended = _move(evaluation.pk, State.EXPIRED, reason_text=why, finished=timezone.now())
        if ended:
            _after_end(evaluation)
    return ended


def requeue_lost() -> int:
    """Take evaluations from workers without a heartbeat. Returns their number."""
    limit = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    lost = Evaluation.objects.lost(limit).select_related("worker", "device_kind")
    return sum(evaluation_requeue(item, item.claim, f"The worker {item.worker} was lost.") for item in lost)


def expire_hopeless() -> int:
    """End queued evaluations that can never run. Returns their number."""
    waiting = Evaluation.objects.queued().select_related("device_kind")
    retired = waiting.filter(task_version__status=TaskVersionStatus.RETIRED)
    limit = timezone.now() - timedelta(seconds=settings.KBENCH_QUEUE_EXPIRE_S)
    ended = sum(evaluation_expire(item, "This version of the task is no longer judged.") for item in retired)
    return ended + sum(
        evaluation_expire(item, f"No {item.device_kind} worker started it within {settings.KBENCH_QUEUE_EXPIRE_S} s.")
        for item in waiting.filter(queued__lt=limit)
    )


def _move(pk: int, target: State, *, worker_claim: uuid.UUID | None = None, **columns: Any) -> bool:
    """The only way to change a state: a conditional update that succeeds for exactly one caller."""
    held = Evaluation.objects.filter(pk=pk, state__in=sources(target))
    if worker_claim is not None:
        held = held.filter(claim=worker_claim)
    return held.update(state=target, **columns) == 1


def _back_to_queue(holding: Holding, **columns: Any) -> None:
    evaluation = holding.evaluation
    unclaimed = {"claim": None, "worker": None, "claimed": None, "heartbeat": None, **_NO_STAGE}
    with transaction.atomic():
        if not _move(evaluation.pk, State.QUEUED, worker_claim=holding.claim, **unclaimed, **columns):
            raise ClaimLost
        Worker.objects.filter(current_evaluation=evaluation.pk).update(current_evaluation=None)
        evaluation.refresh_from_db()
        tell(evaluation, queue_changed=True)
        if evaluation.built:
            wake_judge(evaluation.device_kind.slug)
        else:
            wake_compile(evaluation.device_kind.slug)


def _finish_internal_error(holding: Holding, why: str) -> None:
    reason = f"Our side failed {ATTEMPTS_MAX} times; the submission is not at fault. Last error: {why}"
    with transaction.atomic():
        _end(holding, State.DONE, reason, verdict=Verdict.INTERNAL_ERROR.value)
        _after_end(holding.evaluation)


def _end(holding: Holding, target: State, reason: str, **columns: Any) -> None:
    ending = {"reason_text": reason, "finished": timezone.now(), "claim": None, **_NO_STAGE}
    if not _move(holding.evaluation.pk, target, worker_claim=holding.claim, **ending, **columns):
        raise ClaimLost


def _after_end(evaluation: Evaluation) -> None:
    Worker.objects.filter(current_evaluation=evaluation.pk).update(current_evaluation=None)
    evaluation.refresh_from_db()
    quotas.settle(evaluation)
    telling.verdict(evaluation)
    tell(evaluation, queue_changed=True)


def tell(evaluation: Evaluation, *, queue_changed: bool = False) -> None:
    emit(evaluation.topic, "state", state=evaluation.state)
    if queue_changed:
        emit(f"queue:{evaluation.device_kind.slug}", "changed")


def _whole(pk: int) -> Evaluation:
    rows = Evaluation.objects.select_related(
        "submission__blob", "submission__method", "task_version__task__suite", "ruleset", "device_kind", "worker"
    )
    return cast(Evaluation, rows.get(pk=pk))

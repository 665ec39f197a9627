"""The jobs that compile and judge evaluations. Does NOT write rows itself (`judgings/moves.py`)."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseProblem
from django.db import close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from ..boards import standings
from ..harness import (
    DEVICE_STUCK,
    Cancelled,
    ChildSurvived,
    Flag,
    HarnessError,
    Overloaded,
    Report,
    Step,
    Watcher,
    clean_text,
    object_key,
)
from ..judgings import moves, queue
from ..judgings.judge import Assignment, site_judge
from ..judgings.moves import ClaimLost, Holding
from ..models import DeviceKind, Evaluation, StoredTask, Worker
from ..operations.logs import log_fields
from ..operations.worker import asked_to_stop_kindly, set_state, stopping
from ..quotas.charges import NOT_ON_DEVICE
from ..states import REQUESTS, EvaluationReason, Priority, WorkerRole, WorkerState
from .assignments import assignment_on

logger = logging.getLogger(__package__)
STEP_EVERY_S = {"time": 0.5}  # telling about a timing must not disturb it
STEP_EVERY_DEFAULT_S = 0.1
_ERROR_CHARS_MAX = 8000
_REMEMBERED = timedelta(days=1)


@shared_task(
    name=queue.COMPILE_JOB, bind=True, acks_late=True, ignore_result=True, soft_time_limit=1800, time_limit=1860
)
def compile_next(self: Any, device_kind: str) -> None:
    """Compile the next evaluation of a device kind. One that does not compile ends here and needs no device."""
    _take(self.request.hostname, device_kind, WorkerRole.COMPILE, _compile)


@shared_task(name=queue.JUDGE_JOB, bind=True, acks_late=True, ignore_result=True, soft_time_limit=3600, time_limit=3660)
def judge_next(self: Any, device_kind: str) -> None:
    """Judge the next compiled evaluation of a device kind."""
    _take(self.request.hostname, device_kind, WorkerRole.JUDGE, _judge)


class Sitting:
    """The evaluation that this process works on: reports its steps, sends heartbeats, detects a lost claim."""

    def __init__(self, holding: Holding) -> None:
        self.holding = holding
        self.watcher = Watcher(self.on_step, self.cancelled, self.others_wait)
        self._lost = threading.Event()
        self.gives_way = threading.Event()
        self._over = threading.Event()
        self._told_at = 0.0

    def cancelled(self) -> bool:
        return self._lost.is_set() or self.gives_way.is_set() or stopping.is_set()

    def others_wait(self) -> bool:
        """Whether a shipped example must wait for other submissions."""
        kind = self.holding.evaluation.device_kind_id
        return Evaluation.objects.queued().filter(device_kind=kind, priority__lt=Priority.EXAMPLE).exists()

    def on_step(self, step: Step) -> None:
        now = time.monotonic()
        if step.state == "progress" and now - self._told_at < STEP_EVERY_S.get(step.stage, STEP_EVERY_DEFAULT_S):
            return
        self._told_at = now
        try:
            moves.evaluation_step(self.holding, step)
        except ClaimLost:
            self._lost.set()

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _beat(self) -> None:
        try:
            while not self._over.wait(settings.KBENCH_HEARTBEAT_S):
                self._beat_once()
        finally:
            connection.close()

    def _beat_once(self) -> None:
        try:
            close_old_connections()
            if not moves.evaluation_heartbeat(self.holding):
                self._lost.set()
            elif moves.gives_way(self.holding.evaluation):
                self.gives_way.set()
        except Exception:  # the edge of a thread: one missed beat is no reason to give up a judging
            logger.exception("no heartbeat for %s", self.holding.evaluation.code)


Work = Callable[[Sitting], None]


def _take(node: str, device_kind: str, role: WorkerRole, work: Work) -> None:
    worker, kind = Worker.objects.get(name=node), DeviceKind.objects.get(slug=device_kind)
    if worker.state == WorkerState.QUARANTINED:
        return
    holding = moves.evaluation_claim(worker, kind, role)
    if holding is None:
        return
    with log_fields(evaluation=str(holding.evaluation.code), user_id=holding.evaluation.submission.owner_id):
        started = time.monotonic()
        logger.info("%s begins, attempt %d", role.value, holding.evaluation.attempt)
        _work_on(holding, worker, role, work)
        logger.info("%s ends after %.1f s", role.value, time.monotonic() - started)


def _work_on(holding: Holding, worker: Worker, role: WorkerRole, work: Work) -> None:
    sitting = Sitting(holding)
    try:
        with asked_to_stop_kindly(), sitting.kept_alive():
            work(sitting)
    except ClaimLost:
        logger.info("%s was taken away", holding.evaluation.code)
    except Cancelled:
        _put_back(sitting)
    except Exception as error:  # the edge of a job: whatever broke is our fault and must end with a verdict
        logger.exception("%s failed", holding.evaluation.code)
        close_old_connections()  # one that was lost
        is_of_device = role is WorkerRole.JUDGE and not isinstance(error, DatabaseProblem)
        _fail(holding, error)
        if is_of_device and (isinstance(error, ChildSurvived) or not _has_failed_before(holding.evaluation)):
            StoredTask.objects.filter(version=holding.evaluation.task_version_id).update(failed=timezone.now())
            _doubt(worker, f"The judge failed: {type(error).__name__}.")


def _put_back(sitting: Sitting) -> None:
    """Cancelled because the worker stops or other work goes first: back to the queue. Otherwise the claim is lost."""
    if stopping.is_set():
        moves.evaluation_release(sitting.holding, "The worker was stopped; the next one will judge it again.")
    elif sitting.gives_way.is_set():
        moves.evaluation_release(sitting.holding, "It was interrupted for other work and will be judged again later.")


def _has_failed_before(evaluation: Evaluation) -> bool:
    """An imported problem, in the last day: its author's file runs in our own processes and can fail there at will.

    So once it is a reason to doubt the device, which then must pass its self-test, and no reason after that. Requests
    count as one problem: an account posts several a day, and each becomes a task.
    """
    suite = evaluation.task_version.task.suite
    of_problem = Q(version__task__suite=suite) if suite.slug == REQUESTS else Q(version=evaluation.task_version_id)
    return StoredTask.objects.filter(of_problem, failed__gte=timezone.now() - _REMEMBERED).exists()


def _fail(holding: Holding, error: Exception) -> None:
    what = str(error) if isinstance(error, HarnessError) else type(error).__name__
    evaluation = holding.evaluation
    evaluation.error_internal = clean_text(f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX])
    Evaluation.objects.filter(pk=evaluation.pk, claim=holding.claim).update(error_internal=evaluation.error_internal)
    moves.evaluation_requeue(evaluation, holding.claim, clean_text(f"The judge failed: {what}"[:_ERROR_CHARS_MAX]))


def _compile(sitting: Sitting) -> None:
    holding = sitting.holding
    evaluation = holding.evaluation
    assignment = _assignment(evaluation)
    build = site_judge().compile(assignment, sitting.watcher)
    _raise_if_stopped(sitting)
    build_s = (evaluation.build_s or 0.0) if build.cached else build.seconds
    moves.evaluation_compiled(holding, build_s, object_key(assignment.source, build))
    if build.binary is None and build.exit_code is not None:
        _judge(sitting)  # a failure is kept with the builds, so this gives its verdict at once
    else:
        _prepare(sitting)
        moves.evaluation_built(holding)


def _prepare(sitting: Sitting) -> None:
    """The baselines too are compiled ahead, so that a device need not wait for them; a quick check has none.

    Where the machine is too busy for that, the judging does it, and says so if it still is.
    """
    evaluation = sitting.holding.evaluation
    if evaluation.is_quick or (_is_judged_before_baselines(evaluation) and _a_judge_is_ready(evaluation.device_kind)):
        return
    given = _assignment(evaluation)
    try:
        site_judge().prepare(given.task, given.rules, device=given.device, watcher=sitting.watcher)
    except Overloaded as error:
        logger.info("%s: %s", evaluation.code, error)
    _raise_if_stopped(sitting)


def _a_judge_is_ready(device_kind: DeviceKind) -> bool:
    """Whether a judge has passed its self-test. Until then, the machine has time to compile baselines."""
    return Worker.objects.filter(device_kind=device_kind, role=WorkerRole.JUDGE, state=WorkerState.ONLINE).exists()


def _is_judged_before_baselines(evaluation: Evaluation) -> bool:
    """Whether a person waits for a first verdict and the torch.compile baselines have yet to be prepared."""
    first = evaluation.reason == EvaluationReason.INITIAL and evaluation.provisional is None
    if not first or evaluation.priority != Priority.PERSON:
        return False
    given = _assignment(evaluation)
    return not site_judge().is_prepared(given.task, given.rules, device=given.device)


def _judge(sitting: Sitting) -> None:
    if _is_judged_before_baselines(sitting.holding.evaluation):
        _judge_provisionally(sitting)
    else:
        _judge_in_full(sitting)


def _judge_provisionally(sitting: Sitting) -> None:
    """A quick judging. A fault is the verdict; a correct kernel returns to the compiler, which prepares baselines."""
    report = site_judge().judge(replace(_assignment(sitting.holding.evaluation), quick=True), sitting.watcher)
    _raise_if_stopped(sitting)
    if report.score is None:
        _conclude(sitting.holding, report)
    else:
        judging_s = sum(stage.seconds for stage in report.stages if stage.name not in NOT_ON_DEVICE)
        moves.evaluation_provisional(sitting.holding, report.score.vs_eager, judging_s)


def _judge_in_full(sitting: Sitting) -> None:
    evaluation = sitting.holding.evaluation
    report = site_judge().judge(_assignment(evaluation), sitting.watcher)
    _raise_if_stopped(sitting)
    if standings.wants_audit(evaluation, report):
        report = _audited(sitting, report)
        _raise_if_stopped(sitting)
    _conclude(sitting.holding, report)
    if any(flag.code == DEVICE_STUCK for flag in report.flags) and evaluation.worker is not None:
        _doubt(evaluation.worker, "A process of a submission could not be ended.")


def _doubt(worker: Worker, why: str) -> None:
    """Takes the device out of service until it has passed its self-test."""
    set_state(worker.name, WorkerState.QUARANTINED, f"{why} The worker repeats its self-test before it judges again.")
    queue.restart_worker(worker.name)


def _audited(sitting: Sitting, report: Report) -> Report:
    """The audited report. If the audit cannot be done, the verdict stays, the entry remains bounded and says why."""
    evaluation = sitting.holding.evaluation
    try:
        return site_judge().audit(_assignment(evaluation), report, sitting.watcher)
    except Cancelled:
        raise
    except HarnessError as error:
        return replace(report, flags=(*report.flags, Flag("audit-failed", f"The audit could not be done: {error}")))


def _conclude(holding: Holding, report: Report) -> None:
    """Records the report; a verdict caused by our own error counts only if it is repeated."""
    evaluation = holding.evaluation
    if report.verdict.ours and evaluation.attempt < moves.ATTEMPTS_MAX:
        moves.evaluation_requeue(evaluation, holding.claim, report.reason)
    else:
        moves.record_report(holding, report)


def _raise_if_stopped(sitting: Sitting) -> None:
    # a stop also reaches the sandbox's processes, so what came out of them now is no verdict
    if sitting.cancelled():
        raise Cancelled


def _assignment(evaluation: Evaluation) -> Assignment:
    """On the device of the worker that holds the evaluation."""
    assert evaluation.worker is not None  # noqa: S101 - a claim names its worker
    return assignment_on(evaluation, evaluation.worker.device)

"""A worker process as the site sees it: its row, its heartbeat, its self-test, its shutdown.

A worker's node name says what it does and on which device of its machine: `judge.cuda:0@host` judges on the first GPU,
`compile.cuda:0@host` compiles for it, `compile@host` for the CPU, `maint@host` does housekeeping, `agents@host` drives
agent runs. Does NOT start processes (`kbench_site/workers.py` does) and does NOT know jobs.
"""

import ctypes
import logging
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from celery import signals
from celery.exceptions import WorkerShutdown
from django.conf import settings
from django.db import connections
from django.utils import timezone

from benchmarks.judgings.moves import evaluation_requeue

from ..catalogue import devices
from ..harness import CPU, Device, HarnessError, UsageError
from ..judgings.judge import site_judge
from ..models import Evaluation, Worker
from ..states import DEVICELESS, WorkerRole, WorkerState

logger = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
RETEST_FIRST_S, RETEST_LAST_S = 30, 900
stopping = threading.Event()  # set in the process of a job that is asked to end
_alive = threading.Event()
_no_fork = threading.Lock()
os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release
)  # see beat_once


def register(node: str) -> Worker:
    """The row of this worker, afresh. What an earlier process of that name held is put back into the queue.

    Raises UsageError where this machine has no such device.
    """
    role, _, name = node.partition("@")[0].partition(".")
    device = None if role in DEVICELESS else device_named(name or CPU)
    now = timezone.now()
    worker, _ = Worker.objects.update_or_create(
        name=node,
        defaults={
            "role": WorkerRole(role),
            "device": device.name if device else "",
            "device_kind": devices.register(device) if device else None,
            "state": WorkerState.STARTING,
            "state_text": "",
            "started": now,
            "heartbeat": now,
            "versions": _versions(device),
        },
    )
    for evaluation in Evaluation.objects.running().filter(worker=worker).select_related("device_kind"):
        evaluation_requeue(evaluation, evaluation.claim, f"The worker {node} was restarted.")
    return worker


def device_named(name: str) -> Device:
    """The device of this machine that has the name. Raises UsageError."""
    found = {device.name: device for device in site_judge().devices()}
    if name not in found:
        raise UsageError(f"there is no device {name} on this machine; it has {', '.join(found) or 'none'}")
    return found[name]


def prove(worker: Worker) -> str | None:
    """Records the isolation in force and judges a tiny good and a tiny bad kernel. Returns what is wrong, or None."""
    try:
        isolation = site_judge().isolation()
        Worker.objects.filter(pk=worker.pk).update(
            isolation=isolation.name, isolation_strong=isolation.strong, isolation_text=isolation.text
        )
        if settings.KBENCH_PUBLIC and not isolation.strong:
            return f"A public site needs strong isolation; this machine gives {isolation.name}: {isolation.text}"
        if worker.role == WorkerRole.JUDGE:
            site_judge().self_test(worker.device)
    except HarnessError as error:
        return str(error)
    return None


def _proven(worker: Worker) -> str | None:
    """As `prove`. Celery goes on after a handler that raises, so whatever goes wrong here must become a refusal."""
    try:
        return prove(worker)
    except Exception as error:  # the edge of the process: a worker that cannot be tested is not trusted
        logger.exception("the self-test could not be run")
        return f"The self-test could not be run: {type(error).__name__}: {error}"


def _tested(worker: Worker) -> str | None:
    """Like `_proven`, and stores the result."""
    problem = _proven(worker)
    Worker.objects.filter(pk=worker.pk).update(tested=timezone.now(), test_passed=problem is None)
    return problem


def set_state(node: str, state: WorkerState, text: str = "") -> None:
    Worker.objects.filter(name=node).update(state=state, state_text=text[:500], heartbeat=timezone.now())


def _versions(device: Device | None) -> dict[str, str]:
    """Of what is installed; kbench itself may run from its folder alone."""
    installed = {name: _version(name) for name in ("kbench", "torch", "triton", "celery", "django")}
    known = {name: text for name, text in installed.items() if text}
    image = {"image": settings.KBENCH_IMAGE} if settings.KBENCH_IMAGE else {}
    return {"python": platform.python_version(), **known, **image, **(_tools(device.name) if device else {})}


def _tools(device: str) -> dict[str, str]:
    """What is missing here shows in the self-test, with its reason."""
    try:
        return site_judge().versions(device)
    except HarnessError as error:
        logger.warning("the versions of the tools for %s are not known: %s", device, error)
        return {}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _beat_forever(node: str) -> None:
    while not _alive.wait(settings.KBENCH_HEARTBEAT_S):
        try:
            beat_once(node)
        except Exception:  # the edge of a thread: it must outlive any trouble with the database
            logger.exception("the heartbeat could not be written")


def beat_once(node: str) -> None:
    """Leaves no connection open, and none is open while this process forks.

    SQLite in the process of a job would take over what it knows of a connection of its parent, think that it holds the
    locks of that one and write without any: the database would be damaged.
    """
    with _no_fork:
        try:
            Worker.objects.filter(name=node).update(heartbeat=timezone.now())
        finally:
            connections.close_all()


@contextmanager
def asked_to_stop_kindly() -> Iterator[None]:
    """While a job runs, SIGTERM asks it to return its work to the queue; the pool would otherwise kill it."""
    stopping.clear()
    before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent is gone, however that happens."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


@signals.worker_init.connect
def _start(sender: Any, **_: Any) -> None:
    """Runs the self-test before the worker takes any work."""
    node = sender.hostname
    try:
        worker = register(node)
    except UsageError as error:
        logger.error("%s does not start: %s", node, error)
        raise WorkerShutdown(1) from error
    threading.Thread(target=_beat_forever, args=(node,), daemon=True, name="sign-of-life").start()
    _prove_until_right(worker)
    connections.close_all()


def _prove_until_right(worker: Worker) -> None:
    """Repeats the self-test of a quarantined worker at growing intervals, since a fault may be fixed or pass."""
    pause_s = RETEST_FIRST_S
    while (problem := _tested(worker)) is not None:
        set_state(worker.name, WorkerState.QUARANTINED, problem)
        logger.error("%s takes no work, next test in %d s: %s", worker.name, pause_s, problem)
        connections.close_all()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, RETEST_LAST_S)


@signals.worker_ready.connect
def _ready(sender: Any, **_: Any) -> None:
    set_state(sender.hostname, WorkerState.ONLINE)
    connections.close_all()  # a process of the pool may be started anew at any time


@signals.worker_shutdown.connect
def _stopped(sender: Any, **_: Any) -> None:
    _alive.set()
    set_state(sender.hostname, WorkerState.OFFLINE)


@signals.worker_process_init.connect
def _child_starts(**_: Any) -> None:
    die_with_parent()
    connections.close_all()


@signals.beat_embedded_init.connect
def _beat_starts(**_: Any) -> None:
    die_with_parent()

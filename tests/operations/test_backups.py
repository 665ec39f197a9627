"""Back-up and restore, on SQLite and on PostgreSQL: what comes back is what was there, all of it or nothing."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.stack import ROOT

Manage = Callable[..., "subprocess.CompletedProcess[str]"]
FILL = """
import django
django.setup()
from django.contrib.auth.models import User
from benchmarks.models import TaskVersion
from benchmarks.services import submission_create
from tests.rows import cpu_kind
cpu_kind()
version = TaskVersion.objects.get(task__op="mnist_linear_relu", task__direction="forward", status="active")
owner = User.objects.create_user("olga", password="a long password")
for number in range(3):
    submission_create(version=version, text=f"// {number}", language="cpp", owner=owner)
"""
LOOK = """
import django
django.setup()
from django.contrib.auth import authenticate
from benchmarks.models import Evaluation, Event
columns = ("code", "state", "submission__blob__text", "submission__owner__username")
print([tuple(map(str, row)) for row in Evaluation.objects.order_by("pk").values_list(*columns)])
print(Event.objects.count(), bool(authenticate(username="olga", password="a long password")))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer().start()
    yield running
    running.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def manage(request: pytest.FixtureRequest, tmp_path: Path) -> Manage:
    """Runs `manage.py`, or Python with `-c`, on a site of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KBENCH_", "DJANGO_", "PG"))}
    environment = {**kept, "KBENCH_DATA_DIR": str(tmp_path / "data"), "DJANGO_SETTINGS_MODULE": "kbench_site.settings"}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        name = f"backup_{os.urandom(4).hex()}"
        server.run("createdb", "-h", str(server.folder), "-U", "postgres", name)
        path = f"{Path(server.program('pg_dump')).parent}{os.pathsep}{environment['PATH']}"
        environment |= {"DATABASE_URL": server.url(name), "PATH": path}

    def run(*words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, *([] if words[0] == "-c" else ["manage.py"]), *words]
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done

    return run


def test_what_was_lost_after_a_backup_comes_back(manage: Manage, tmp_path: Path) -> None:
    manage("prepare")
    manage("-c", FILL)
    before = manage("-c", LOOK).stdout
    file = tmp_path / "site.kbench"
    manage("backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    manage("flush", "--no-input")
    (tmp_path / "other").write_bytes(b"something else")
    for words, complaint in (
        ([str(file)], "--replace"),
        ([str(tmp_path / "other"), "--replace"], "is not a kbench backup"),
    ):
        assert complaint in manage("restore", *words, check=False).stderr
    manage("restore", str(file), "--replace")
    assert manage("-c", LOOK).stdout == before


def test_a_backup_goes_back_into_a_database_of_its_kind(tmp_path: Path) -> None:
    from kbench_site.backups import BackupError, backup, restore

    sqlite3.connect(tmp_path / "a.sqlite3").execute("create table t (n int)").close()
    backup({"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a.sqlite3"}, tmp_path, tmp_path / "b")
    with pytest.raises(BackupError, match="same kind"):
        restore({"ENGINE": "django.db.backends.postgresql", "NAME": "x"}, tmp_path, tmp_path / "b")


def test_a_copy_taken_while_somebody_writes_is_of_one_moment(tmp_path: Path) -> None:
    """Two tables that are always written together are equally long in the copy."""
    from kbench_site.backups import backup, restore

    path, over = tmp_path / "a.sqlite3", threading.Event()
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode=WAL; create table a (t text); create table b (t text);")

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=30)) as database:
            while not over.is_set():
                with database:
                    database.execute("insert into a values (?)", ("x" * 2000,))
                    database.execute("insert into b values (?)", ("x" * 2000,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        time.sleep(0.3)
        entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
        backup(entry, tmp_path, tmp_path / "file")
    finally:
        over.set()
        writer.join()
    restore({**entry, "NAME": tmp_path / "new.sqlite3"}, tmp_path, tmp_path / "file")
    with closing(sqlite3.connect(tmp_path / "new.sqlite3")) as copy:
        ((a, b),) = copy.execute("select (select count(*) from a), (select count(*) from b)").fetchall()
    assert a == b > 0

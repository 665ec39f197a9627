"""Back-up and restore, on SQLite and on PostgreSQL: what comes back is what was there, all of it or nothing."""

import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.stack import ROOT


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer().start()
    yield running
    running.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Of a site of its own, which has no tables yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KBENCH_", "DJANGO_", "PG"))}
    own = {**kept, "KBENCH_DATA_DIR": str(tmp_path / "data"), "DJANGO_SETTINGS_MODULE": "kbench_site.settings"}
    if request.param == "sqlite":
        return own
    server: PostgresServer = request.getfixturevalue("server")
    name = f"backup_{os.urandom(4).hex()}"
    server.run("createdb", "-h", str(server.folder), "-U", "postgres", name)
    path = f"{Path(server.program('pg_dump')).parent}{os.pathsep}{own['PATH']}"
    return own | {"DATABASE_URL": server.url(name), "PATH": path}


def test_what_was_lost_after_a_backup_comes_back(environment: dict[str, str], tmp_path: Path) -> None:
    file, other = tmp_path / "site.kbench", tmp_path / "other"
    other.write_bytes(b"something else")
    argv = [sys.executable, "-m", "tests.operations.losing_a_site", str(file), str(other)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(found["before"][0]) == 3
    assert found["lost"] == [[], 0, False]
    assert found["after"] == found["before"]
    not_empty, no_backup = found["refusals"]
    assert "--replace" in not_empty
    assert "is not a kbench backup" in no_backup


def test_a_backup_goes_back_into_a_database_of_its_kind(tmp_path: Path) -> None:
    from kbench_site.backups import BackupError, backup, restore

    sqlite3.connect(tmp_path / "a.sqlite3").execute("create table t (n int)").close()
    backup({"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a.sqlite3"}, tmp_path, tmp_path / "b")
    with pytest.raises(BackupError, match="same kind"):
        restore({"ENGINE": "django.db.backends.postgresql", "NAME": "x"}, tmp_path, tmp_path / "b")


def test_nothing_but_plain_files_of_a_backup_leaves_it(tmp_path: Path) -> None:
    from kbench_site.backups import BackupError, restore

    made, outside = tmp_path / "made", tmp_path / "outside"
    outside.write_text("as it was")
    with tarfile.open(made, "w:gz") as archive:
        for name in ("../outside", "/" + str(outside).lstrip("/")):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"new"))
        link = tarfile.TarInfo("manifest.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        archive.addfile(link)
    with pytest.raises(BackupError, match="is not a kbench backup"):
        restore({"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a.sqlite3"}, tmp_path, made)
    assert outside.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "outside"]


def test_a_copy_taken_while_somebody_writes_is_of_one_moment(tmp_path: Path) -> None:
    """Two tables that are always written together are equally long in the copy."""
    from kbench_site.backups import backup, restore

    path, begun, over = tmp_path / "a.sqlite3", threading.Event(), threading.Event()
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA journal_mode=WAL; create table a (t text); create table b (t text);")

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=30)) as database:
            while not over.is_set():
                with database:
                    database.execute("insert into a values (?)", ("x" * 2000,))
                    database.execute("insert into b values (?)", ("x" * 2000,))
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
        backup(entry, tmp_path, tmp_path / "file")
    finally:
        over.set()
        writer.join()
    restore({**entry, "NAME": tmp_path / "new.sqlite3"}, tmp_path, tmp_path / "file")
    with closing(sqlite3.connect(tmp_path / "new.sqlite3")) as copy:
        ((a, b),) = copy.execute("select (select count(*) from a), (select count(*) from b)").fetchall()
    assert a == b > 0

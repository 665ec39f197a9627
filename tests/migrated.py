"""A database with all tables, copied to where a process of the tests expects its own: the migrations take seconds.

That of SQLite is kept in the cache of the tests under the hash of our migrations, for whole sites as well. A
PostgreSQL that is started for a run has one as a template for all processes of the run, from the dump of an earlier
run, or else from the process that comes first. Django migrates the copy as well, which finds nothing to do, so a
database from before a new migration is complete, too.
"""

import atexit
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import django
import psycopg
from django.db import connection
from psycopg import sql

from benchmarks.harness import digest
from tests.postgres import PostgresServer
from tests.scheduling import cache_folder

ROOT = Path(__file__).parents[1]
URL_VARIABLE = "KBENCH_TEST_POSTGRES_URL"
TEMPLATE = "migrated"  # of the PostgreSQL of a run
# Between two tests its tables are empty. What it counts at such a moment would be used to plan the next minutes, and
# some queries then take fifty times as long.
NOTHING_COUNTED = {"autovacuum": "off"}
_LOCK = 1  # only one process at a time looks for the template, and makes it


def shared_server_url() -> str:
    """Of the server that all processes of one test run share; the first one starts it and stops it at its end."""
    if URL_VARIABLE not in os.environ:
        server = PostgresServer(**NOTHING_COUNTED).start()
        atexit.register(_end, server)
        if kept("sql").exists():
            with psycopg.connect(server.url(), autocommit=True) as connected:
                connected.execute(f"CREATE DATABASE {TEMPLATE}")
            server.load(kept("sql").read_bytes(), TEMPLATE)
        os.environ[URL_VARIABLE] = server.url()
    return os.environ[URL_VARIABLE]


def _end(server: PostgresServer) -> None:
    """Its template stays for later runs."""
    if not kept("sql").exists():
        with psycopg.connect(server.url(), autocommit=True) as connected:
            is_there = _has_template(connected)
        if is_there:
            _keep("sql", lambda file: file.write_bytes(server.dumped(TEMPLATE)))
    server.stop()


def _has_template(server: psycopg.Connection) -> bool:
    return server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone() is not None


class Template:
    """The template of a PostgreSQL, as one process of the tests finds it."""

    def __init__(self, server: psycopg.Connection) -> None:
        self._server = server
        server.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        self._found = _has_template(server)
        if self._found:
            self._leave()

    @property
    def name(self) -> str | None:
        """To be copied; None in the process that comes first, which others wait for until it has called `keep`."""
        return TEMPLATE if self._found else None

    def keep(self) -> None:
        """The database of this process for the others, before a test writes into it."""
        if self._found:
            return
        connection.close()
        own = sql.Identifier(connection.settings_dict["NAME"])
        self._server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(TEMPLATE), own))
        self._leave()

    def _leave(self) -> None:
        self._server.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


@contextmanager
def template() -> Iterator[Template]:
    """Of the PostgreSQL that is started for this run."""
    with psycopg.connect(shared_server_url(), autocommit=True) as server:
        yield Template(server)


def put_in_place() -> None:
    """What an earlier run left there is gone."""
    remove()
    copy_kept(_own())


def copy_kept(file: Path) -> None:
    """To `file`, if an earlier run has kept one."""
    if kept("sqlite3").exists():
        file.write_bytes(kept("sqlite3").read_bytes())


def remove() -> None:
    for tail in ("", "-wal", "-shm"):
        Path(f"{_own()}{tail}").unlink(missing_ok=True)


def keep() -> None:
    """The database of this run for the next ones, before a test writes into it."""
    if not kept("sqlite3").exists():
        _keep("sqlite3", _back_up)


def _back_up(file: Path) -> None:
    with closing(sqlite3.connect(_own())) as own, closing(sqlite3.connect(file)) as copy:
        own.backup(copy)


def _own() -> Path:
    return Path(connection.settings_dict["TEST"]["NAME"])


def _keep(kind: str, write: Callable[[Path], object]) -> None:
    """What `write` leaves, complete or not at all."""
    place = kept(kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_suffix(f".{os.getpid()}")
    write(unfinished)
    unfinished.replace(place)


def kept(kind: str) -> Path:
    """Where a database with all tables and no rows of ours is kept for this state of the migrations, if it is."""
    files = sorted(path for app in ("agents", "benchmarks") for path in (ROOT / app / "migrations").glob("*.py"))
    name = digest(django.get_version(), *(part for file in files for part in (file.name, file.read_text())))
    return cache_folder() / "databases" / f"{name}.{kind}"

"""A database with all tables, copied to where a process of the tests expects its own: the migrations take seconds.

That of SQLite is kept in the cache of the tests under the hash of our migrations, for whole sites as well. A
PostgreSQL that is started for a run keeps one as a template for all processes of the run. Django migrates the copy as
well, which finds nothing to do, so a database from before a new migration is complete, too.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import django
import psycopg
from django.db import connection
from psycopg import sql

from benchmarks.harness import digest
from tests.postgres import shared_server_url
from tests.scheduling import cache_folder

ROOT = Path(__file__).parents[1]
TEMPLATE = "migrated"  # of the PostgreSQL of a run
_LOCK = 1  # only one process at a time looks for the template, and makes it


class Template:
    """The template of a PostgreSQL, as one process of the tests finds it."""

    def __init__(self, server: psycopg.Connection) -> None:
        self._server = server
        server.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        self._found = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone() is not None
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
    if _kept().exists():
        file.write_bytes(_kept().read_bytes())


def remove() -> None:
    for tail in ("", "-wal", "-shm"):
        Path(f"{_own()}{tail}").unlink(missing_ok=True)


def keep() -> None:
    """The database of this run for the next ones, before a test writes into it."""
    if _kept().exists():
        return
    _kept().parent.mkdir(parents=True, exist_ok=True)
    unfinished = _kept().with_suffix(f".{os.getpid()}")
    with closing(sqlite3.connect(_own())) as own, closing(sqlite3.connect(unfinished)) as copy:
        own.backup(copy)
    unfinished.replace(_kept())


def _own() -> Path:
    return Path(connection.settings_dict["TEST"]["NAME"])


def _kept() -> Path:
    files = sorted(path for app in ("agents", "benchmarks") for path in (ROOT / app / "migrations").glob("*.py"))
    name = digest(django.get_version(), *(part for file in files for part in (file.name, file.read_text())))
    return cache_folder() / "databases" / f"{name}.sqlite3"

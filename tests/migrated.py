"""A SQLite database with all tables, copied to where a run's own is expected: the migrations take seconds.

Kept in the cache of the tests under the hash of our migrations. Django migrates the copy as well, which finds nothing
to do, so a database from before a new migration is complete, too. Not for PostgreSQL.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import django
from django.db import connection

from benchmarks.harness import digest
from tests.scheduling import cache_folder

ROOT = Path(__file__).parents[1]


def put_in_place() -> None:
    """What an earlier run left there is gone."""
    remove()
    if _kept().exists():
        _own().write_bytes(_kept().read_bytes())


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

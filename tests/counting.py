"""How much work SQLite does: a figure that is the same on every machine, unlike times."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection


@contextmanager
def sqlite_steps() -> Iterator[list[None]]:
    """A list that grows by one entry with each hundred instructions of SQLite. Skips the test on another database."""
    if connection.vendor != "sqlite":
        pytest.skip("counts the instructions of SQLite")
    steps: list[None] = []
    connection.connection.set_progress_handler(lambda: steps.append(None), 100)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 0)

"""One thread with one database connection, for everything that a driven run reads and writes.

The search runs on an event loop, where Django's ORM must not be called; this thread makes the calls for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

from ..evolve.events import Draft, EventLog, LogEvent

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """Runs calls one after the other, in order of arrival."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="run-desk")

    def now(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Blocks the caller; for what must be done before anything else happens."""
        return self._pool.submit(partial(_fresh, function), *args, **kwargs).result()

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(_fresh, function, *args, **kwargs))

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.submit(connections.close_all).result()
        self._pool.shutdown()


def _fresh(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Reopens a connection that the database has closed."""
    close_old_connections()
    return function(*args, **kwargs)


class DeskLog:
    """A log whose calls all run at the desk. It blocks: an event is committed before the search goes on."""

    def __init__(self, log: EventLog, desk: Desk) -> None:
        self._log, self._desk = log, desk

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        return self._desk.now(self._log.append, drafts)

    def read(self, after: int = 0) -> list[LogEvent]:
        return self._desk.now(self._log.read, after)

    def put_source(self, text: str) -> str:
        return self._desk.now(self._log.put_source, text)

    def get_source(self, sha256: str) -> str:
        return self._desk.now(self._log.get_source, sha256)

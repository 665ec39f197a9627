"""A whole running site in a folder of its own, filled, on SQLite or on a PostgreSQL that is started for it.

Does NOT measure: `pages.py`, `streams.py` and `posts.py` do.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tests.postgres import PostgresServer
from tests.stack import ROOT, Stack

SETTINGS = "lab.site.settings"


class Site:
    """A running site, and the names of what lies in it."""

    def __init__(self, stack: Stack, names: dict[str, Any]) -> None:
        self.stack, self.names = stack, names
        self.port: int = stack.port

    def python(self, code: str, *arguments: str) -> "subprocess.Popen[str]":
        """A process with the database of the site."""
        argv = [sys.executable, "-c", f"import django; django.setup()\n{code}", *arguments]
        return _started(self.stack, argv)

    def asked(self, code: str, *arguments: str) -> Any:
        """What such a process says in its last line, which is JSON."""
        return _said(self.python(code, *arguments))


@contextmanager
def site(submissions: int, *, postgres: bool = False) -> Iterator[Site]:
    """Up and filled; everything is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kb-site-") as folder, _database(wanted=postgres) as environment:
        stack = Stack.prepared(Path(folder), SETTINGS)
        stack.environment |= {"PYTHONPATH": str(ROOT), "KBENCH_IN_FLIGHT_MAX": "3", **environment}
        stack.up()
        try:
            filler = _started(stack, [sys.executable, "-m", "lab.site.filling", str(submissions)])
            yield Site(stack, _said(filler))
        finally:
            stack.end()


@contextmanager
def _database(*, wanted: bool) -> Iterator[dict[str, str]]:
    with PostgresDatabase() if wanted else nullcontext({}) as environment:
        yield environment


class PostgresDatabase:
    """The environment of a site that uses a new PostgreSQL."""

    def __enter__(self) -> dict[str, str]:
        self._server = PostgresServer().start()
        return {"DATABASE_URL": self._server.url()}

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def _started(stack: Stack, argv: list[str]) -> "subprocess.Popen[str]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(argv, cwd=ROOT, env=stack.environment, text=True, **pipes)


def _said(process: "subprocess.Popen[str]") -> Any:
    output = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"a part of the bench ended with {process.returncode}")
    return json.loads(output.splitlines()[-1])


def machine() -> dict[str, Any]:
    """How busy it is here: numbers from a busy machine are worth little."""
    cores = len(os.sched_getaffinity(0))
    load = [round(value, 1) for value in os.getloadavg()]
    return {"cores": cores, "load_average": load, "shared": load[0] > cores}

"""Compiles the next solutions of a run while others are judged, as many at a time as there are processors.

The builds lie in the judge's cache, where it finds them. On a GPU, kernels are compiled during timings; on a CPU the
judge's locks prevent that. Errors here are ignored, because they occur again and are reported when the solution is
judged.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Self

from ..harness import HarnessError, Source, TaskSpec, Watcher

Compile = Callable[[Source, TaskSpec, Watcher], object]


class BuildsAhead:
    """`with BuildsAhead(compile) as builds: builds.start(source, task)`; leaving it stops what still compiles."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._stopped = Event()
        self.places = len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.places, thread_name_prefix="build")
        self._known: set[tuple[str, str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def start(self, source: Source, task: TaskSpec) -> None:
        """Returns at once; each source is compiled once for a task."""
        key = (source.sha256, source.language, task.content_sha256)
        if key not in self._known:
            self._known.add(key)
            self._pool.submit(self._build, source, task)

    def _build(self, source: Source, task: TaskSpec) -> None:
        with suppress(HarnessError):
            self._compile(source, task, Watcher(cancelled=self._stopped.is_set))

"""Logs in memory and in a folder.

A `JsonlLog` survives its process: every commit is flushed to the disk, and what a crash left half-written is dropped
when it is opened again. Not covered: more than one writer, which the folder's lock refuses.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from .events import Draft, LogEvent


class LogError(Exception):
    """A folder that cannot be used as a log."""


class MemoryLog:
    """For tests, and for runs that nobody will ask about."""

    def __init__(self) -> None:
        self._events: list[LogEvent] = []
        self._sources: dict[str, str] = {}

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        events = _numbered(drafts, len(self._events))
        self._events += events
        return events

    def read(self, after: int = 0) -> list[LogEvent]:
        return self._events[after:]

    def put_source(self, text: str) -> str:
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        self._sources[sha256] = text
        return sha256

    def get_source(self, sha256: str) -> str:
        return self._sources[sha256]


class JsonlLog:
    """`events.jsonl`, one event per line, and `sources/`, each text under its sha256.

    All but the last line of a commit say `more`, so that half a commit is known as such.
    """

    def __init__(self, folder: Path) -> None:
        """Makes the folder if necessary. Raises LogError if another process writes there, or if it contains no log."""
        self.folder = folder
        (folder / "sources").mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "events.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise LogError(f"another process writes {folder}") from error
        self._events = self._recovered()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        events = _numbered(drafts, len(self._events))
        lines = [_line(event, more=event is not events[-1]) for event in events]
        before = os.fstat(self._file).st_size
        try:
            _write(self._file, "".join(lines).encode())
        except OSError:
            os.ftruncate(self._file, before)
            raise
        self._events += events
        return events

    def read(self, after: int = 0) -> list[LogEvent]:
        return self._events[after:]

    def put_source(self, text: str) -> str:
        data = text.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / "sources" / sha256
        if not path.exists():
            fresh = path.with_suffix(f".{os.getpid()}")
            write_file(fresh, data)
            fresh.rename(path)
        return sha256

    def get_source(self, sha256: str) -> str:
        try:
            return (self.folder / "sources" / sha256).read_bytes().decode()
        except OSError as error:
            raise KeyError(sha256) from error

    def _recovered(self) -> list[LogEvent]:
        """The events of all whole commits; the file is cut after the last of them."""
        events: list[LogEvent] = []
        pending: list[LogEvent] = []
        kept_bytes = read_bytes = 0
        for line in (self.folder / "events.jsonl").read_bytes().splitlines(keepends=True):
            data = _parsed(line)
            if data is None:
                break
            read_bytes += len(line)
            more = data.pop("more", False)
            pending.append(LogEvent(**data))
            if not more:
                events += pending
                pending, kept_bytes = [], read_bytes
        os.ftruncate(self._file, kept_bytes)
        if [event.seq for event in events] != [*range(1, len(events) + 1)]:
            raise LogError(f"{self.folder} holds events out of order")
        return events


def write_file(path: Path, data: bytes) -> None:
    """Writes and flushes to the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        _write(file, data)
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)


def _numbered(drafts: Sequence[Draft], last: int) -> list[LogEvent]:
    now_s = time.time()
    return [
        LogEvent(last + place, now_s, draft.type, draft.candidate, _plain(draft.payload))
        for place, draft in enumerate(drafts, 1)
    ]


def _plain(payload: Any) -> Any:
    """As it will be read again; raises TypeError or ValueError for what is not JSON."""
    return json.loads(json.dumps(payload, allow_nan=False))


def _line(event: LogEvent, *, more: bool) -> str:
    return json.dumps({**asdict(event), **({"more": True} if more else {})}) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """None for a line that was not written to its end."""
    if not line.endswith(b"\n"):
        return None
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None

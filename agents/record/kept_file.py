"""The file of a recorded run: JSON lines, one header, then the sources, then the events of its log.

A file may have been written by anybody: sizes are bounded as those of a bundle, unknown fields are refused, and an
error names its line. Does NOT know what events mean (`kept.py` folds them) and does not touch the database.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from benchmarks.recorded.bundles import (
    COMPACT,
    DAYS,
    PLAIN,
    BundleError,
    Count,
    Name,
    Sha256,
    SourceText,
    StrictRecord,
    TaskPath,
    Text,
    numbered_lines,
    parsed_line,
    sha256_of,
)

from ..evolve.events import TYPES

FORMAT = "kbench-recorded-run"
EVENTS_MAX = 20_000
RUN_MAX_BYTES = 16 * 1024 * 1024  # each page folds the whole log anew
Key = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,80}$")]


class KeptHeader(StrictRecord):
    """The first line: which run it was, on which machine, and under which rules its candidates were judged."""

    format: Literal["kbench-recorded-run"] = "kbench-recorded-run"
    version: Literal[1] = 1
    name: Name
    code: UUID
    about: Annotated[str, StringConstraints(max_length=2000, pattern=PLAIN)]
    task: TaskPath
    task_sha256: Sha256 | None = None
    device: Name
    device_title: Text
    device_class: Literal["cpu", "cuda"]
    machine: dict[Name, Text] = Field(max_length=30)
    ruleset: Name
    ruleset_sha256: Sha256 | None = None
    judgings: Literal["full", "quick"]
    method_title: Text
    sources: Count  # lines with sources, which come next; all lines after those are events


class KeptSource(StrictRecord):
    """A text that events name by its hash."""

    source_sha256: Sha256
    source: SourceText

    @model_validator(mode="after")
    def consistent(self) -> Self:
        if sha256_of(self.source) != self.source_sha256:
            raise ValueError("source_sha256 is not the hash of the source")
        return self


class KeptEvent(StrictRecord):
    """One event of the log, as `agents/evolve/events.py` has it."""

    seq: Annotated[int, Field(ge=1, le=EVENTS_MAX)]
    at_s: Annotated[float, Field(ge=DAYS[0].timestamp(), lt=DAYS[1].timestamp())]
    type: str
    candidate: Key | None
    payload: dict[str, Any]

    @model_validator(mode="after")
    def plain(self) -> Self:
        if self.type not in TYPES:
            raise ValueError(f"there is no event type {self.type[:40]!r}")
        if "\\u0000" in json.dumps(self.payload, allow_nan=False):
            raise ValueError("the payload contains a character that no database takes")
        return self


def file_lines(header: KeptHeader, sources: Iterable[KeptSource], events: Iterable[KeptEvent]) -> Iterator[str]:
    """The lines of the file, each with its end."""
    for item in (header, *sources, *events):
        yield json.dumps(item.model_dump(mode="json"), **COMPACT) + "\n"


def read_file(path: Path) -> tuple[KeptHeader, dict[str, str], list[KeptEvent], str]:
    """Header, sources by their hash, events, and the SHA-256 of the file. Raises BundleError and OSError."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        lines = numbered_lines(file, digest, RUN_MAX_BYTES)
        number, first = next(lines, (1, b""))
        header = parsed_line(KeptHeader, first, number)
        sources: dict[str, str] = {}
        events: list[KeptEvent] = []
        for number, line in lines:
            if len(sources) < header.sources:
                source = parsed_line(KeptSource, line, number)
                if source.source_sha256 in sources:
                    raise BundleError(f"line {number}: this source is on an earlier line already")
                sources[source.source_sha256] = source.source
                continue
            event = parsed_line(KeptEvent, line, number)
            if event.seq != len(events) + 1:
                raise BundleError(f"line {number}: event {event.seq} where event {len(events) + 1} should be")
            if events and event.at_s < events[-1].at_s:
                raise BundleError(f"line {number}: event {event.seq} is earlier than the one before it")
            events.append(event)
    return header, sources, events, digest.hexdigest()

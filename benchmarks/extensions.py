"""Extensions of the benchmark by apps above it: one record per app, registered when the app starts.

The benchmark calls all extensions at fixed points and so does not depend on `agents`. The module is below the models,
because the queue uses it, too. Does NOT cache what an extension returns.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from prometheus_client.core import Metric

from .data_tables import DataTable

TopicCheck = Callable[[AbstractBaseUser | AnonymousUser, str], bool]


@dataclass(frozen=True)
class News:
    """What comes next in a stream, each with its id and already formatted; `ended`: nothing will follow.

    `recent` is what a reader who is this far may have been told already, or has overtaken while it was written.
    """

    events: list[tuple[int, bytes]]
    ended: bool
    recent: list[tuple[int, bytes]] = field(default_factory=list)


class Feed(Protocol):
    """Where a stream's events come from. Called in a thread."""

    def latest(self, topics: list[str]) -> News:
        """The first events for a new reader."""

    def read(self, topics: list[str], after: int) -> News: ...


@dataclass(frozen=True)
class OwnTopic:
    """A kind of topic with a feed of its own. It is followed alone, because its numbers are its own."""

    may_follow: TopicCheck
    feed: Feed


@dataclass(frozen=True)
class SearchCost:
    """The cost of all searches of a method on one suite and device kind."""

    runs: int = 0
    usd: float = 0.0
    tokens: int = 0  # read and written by language models
    judgings: int = 0
    judging_s: float = 0.0

    def __add__(self, other: "SearchCost") -> "SearchCost":
        return SearchCost(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


@dataclass(frozen=True)
class Scope:
    """Which costs are asked for, as keys of rows: methods on the tasks of one suite, on one device kind."""

    methods: tuple[int, ...]
    suite: int
    device: int


@dataclass(frozen=True)
class ReferenceOpinion:
    """What somebody who reads a task's reference says of it: labels for the task, and whole sentences."""

    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    usd: float = 0.0


class ReferenceUnread(Exception):
    """No reference can be read here; the text says why."""


ReadsReference = Callable[[str], ReferenceOpinion]


def _nobody_reads(usd_max: float) -> ReadsReference:
    raise ReferenceUnread("nothing that reads references is installed")


@dataclass(frozen=True)
class Loaded:
    """What a file of recorded results has changed, in entries."""

    name: str
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    removed: int = 0


@dataclass(frozen=True)
class RecordedFormat:
    """A further kind of file that holds something recorded. `load` raises BundleError and OSError."""

    load: Callable[[Path], Loaded]
    remove: Callable[[str], bool]  # False: there was none of that name


@dataclass(frozen=True)
class Extension:
    """What one app adds. Every part may be left out."""

    topics: Mapping[str, OwnTopic] = field(default_factory=dict)  # by the first word of a topic
    metrics: Callable[[], Iterable[Metric]] = lambda: ()
    files_of: Callable[[Any], Iterable[tuple[str, bytes]]] = lambda user: ()  # paths and contents for the archive
    on_account_end: Callable[[Any, str], None] = lambda user, by: None  # deleted or suspended, and by whom
    is_expecting: Callable[[Any], bool] = lambda device_kind: False  # will it soon have something to judge there?
    names: Callable[[Any], bool] = lambda user: False  # does a public page of it name the account?
    costs: Callable[[Scope], Mapping[int, SearchCost]] = lambda scope: {}  # by method
    reads_references: Callable[[float], ReadsReference] | None = None  # for at most so many dollars
    tables: Callable[[], Iterable[DataTable]] = lambda: ()  # of the public data set
    recorded: Mapping[str, RecordedFormat] = field(default_factory=dict)  # by the `format` of its files


_extensions: dict[str, Extension] = {}


def register(name: str, extension: Extension) -> None:
    """Registering a name again replaces its extension."""
    _extensions[name] = extension


def extensions() -> list[Extension]:
    return list(_extensions.values())


def reference_reader(usd_max: float) -> ReadsReference:
    """That of the first extension that has one. Raises ReferenceUnread."""
    found = (extension.reads_references for extension in extensions() if extension.reads_references)
    return next(found, _nobody_reads)(usd_max)


def costs_of(scope: Scope) -> dict[int, SearchCost]:
    """Costs by method; methods without recorded costs are missing."""
    found: dict[int, SearchCost] = {}
    for extension in extensions():
        for method, cost in extension.costs(scope).items():
            found[method] = found.get(method, SearchCost()) + cost
    return found

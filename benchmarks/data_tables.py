"""What a table of the public data set is: its columns with their units, and where its rows come from.

Below everything else, so that apps above the benchmark can add tables (`extensions.py`). Knows no file format.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Key = tuple[int, ...]
DataRow = dict[str, Any]


class ColumnKind(StrEnum):
    TEXT = "text"
    TEXTS = "list of texts"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    TIME = "time"


@dataclass(frozen=True)
class DataColumn:
    """Every column can be null: nothing was measured, or nothing is known."""

    name: str
    kind: ColumnKind
    about: str
    unit: str = ""


@dataclass(frozen=True)
class RowSource:
    """Public objects of one kind, in ascending order.

    A key is that of the object, followed by those of the accounts and teams that its rows name. If a key of the last
    export is not among the present ones, something in the files is no longer public.
    """

    name: str
    read: Callable[[], Iterator[Key]]


@dataclass(frozen=True)
class DataTable:
    """`rows` makes the rows of some objects of the source, and leaves out those that are not public by then."""

    name: str
    about: str
    columns: tuple[DataColumn, ...]
    source: RowSource
    rows: Callable[[Sequence[int]], Iterable[DataRow]]


def columns(kind: ColumnKind, **about: str) -> tuple[DataColumn, ...]:
    """Columns of one kind by name; the unit, if there is one, stands before a colon in the text."""
    return tuple(_column(name, kind, text) for name, text in about.items())


def _column(name: str, kind: ColumnKind, text: str) -> DataColumn:
    unit, colon, rest = text.partition(": ")
    return DataColumn(name, kind, rest, unit) if colon else DataColumn(name, kind, text)


SPEEDUPS = columns(
    ColumnKind.NUMBER,
    score="×: geometric mean of the speedups over the stronger of PyTorch eager and torch.compile",
    score_lo="×: lower end of its 95 % interval",
    score_hi="×: upper end of its 95 % interval",
    vs_eager="×: the same over PyTorch eager alone",
    vs_compile="×: the same over torch.compile alone",
)

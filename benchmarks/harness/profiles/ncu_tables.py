"""Reads what Nsight Compute prints as CSV: the raw page with one row per launch, and the source page.

Whoever is profiled may have written any of it. Sizes are bounded by the caller, reading takes linear time, no figure
is longer than numbers are, and names become printable and short. What is not a number counts as absent. Raises
AuditBroken for a text that is no such table.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import AuditBroken
from ..protocol import clean_text
from .records import HotLine

_NAME_CHARS = 200
_LINE_CHARS = 160
_COLUMNS_MAX = 2000
_HOT_LINES = 5
_SAMPLES_MAX = 1e15
_NUMBER = re.compile(r"-?[0-9][0-9,]{0,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_SCALES = {
    **{"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6},  # times become microseconds
    **{"nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12},
    **{"byte/block": 1.0, "Kbyte/block": 1e3, "Mbyte/block": 1e6},
}


@dataclass(frozen=True)
class Launch:
    """One row of the raw page: the kernel's name and its figures under the tool's names."""

    name: str
    values: Mapping[str, float]


def launches(text: str) -> list[Launch]:
    """The rows of `--csv --page raw`, in the order of the launches."""
    rows = _rows(text)
    if not rows:
        return []
    if len(rows) < 2:
        raise AuditBroken("the profiler's report has no units")
    head, units, *data = rows
    if "Kernel Name" not in head or len(set(head)) < len(head) or len(head) > _COLUMNS_MAX:
        raise AuditBroken("the profiler's report lacks figures that were requested")
    if any(len(row) != len(head) for row in (units, *data)):
        raise AuditBroken("the profiler's report is not one table")
    name_at = head.index("Kernel Name")
    columns = [
        (place, name, _SCALES.get(unit, 1.0)) for place, (name, unit) in enumerate(zip(head, units, strict=True))
    ]
    return [Launch(shown(row[name_at]), dict(_figures(row, columns))) for row in data]


def hot_lines(text: str, source: str) -> list[HotLine]:
    """The lines on which most samples were taken, from `--csv --page source`. Empty if nothing can be read from it.

    The page lists lines of the source and instructions, in tables of their own or one within the other, as the version
    of the tool has it. An instruction belongs to the line that stands before it, if that is so for several lines.
    """
    found: list[tuple[str, int | None, str, int]] = []
    lines = [line.strip() for line in source.split("\n")]
    kernel, line = "", None
    columns: _SourceColumns | None = None
    for row in _source_rows(text):
        if row[0] in ("Kernel Name", "File Name"):
            kernel, line, columns = (shown(row[1]) if row[0] == "Kernel Name" and len(row) > 1 else kernel), None, None
        elif "Source" in row:
            columns = _SourceColumns(row)
        elif columns is not None:
            said, count = columns.source(row), columns.samples(row)
            line = columns.line(row, lines) or line
            if count is not None and 1 <= count <= _SAMPLES_MAX:
                found.append((kernel, line, said, int(count)))
    samples: Counter[tuple[str, int | None, str]] = Counter()
    known = len({line for _, line, _, _ in found} - {None}) > 1
    for kernel, line, said, count in found:
        samples[kernel, *((line, lines[line - 1]) if known and line else (None, said))] += count
    whole = sum(samples.values())
    return [
        HotLine(kernel, line, clean_text(said)[:_LINE_CHARS], count, round(count / whole, 4))
        for (kernel, line, said), count in samples.most_common(_HOT_LINES)
    ]


def number(text: str) -> float | None:
    """A figure as the tool prints it; None for anything else."""
    if len(text) > 80 or not _NUMBER.fullmatch(text):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def shown(text: str) -> str:
    return clean_text(text)[:_NAME_CHARS].replace("\n", " ")


def _rows(text: str) -> list[list[str]]:
    """The lines that are quoted; the tool's remarks between them begin with an equals sign."""
    lines = [line for line in text.split("\n") if line.startswith('"')]
    try:
        return [row for row in csv.reader(io.StringIO("\n".join(lines)), strict=True) if row]
    except (csv.Error, ValueError) as error:
        raise AuditBroken("the profiler's report is not a table") from error


def _figures(row: Sequence[str], columns: Sequence[tuple[int, str, float]]) -> Iterator[tuple[str, float]]:
    for place, name, scale in columns:
        value = number(row[place])
        if value is not None:
            yield name, value * scale


def _source_rows(text: str) -> Iterator[list[str]]:
    """The tool does not double the quotes within a cell here, so a row is cut where three signs follow each other."""
    for line in text.split("\n"):
        if len(line) >= 2 and line[0] == line[-1] == '"':
            yield line[1:-1].split('","')


class _SourceColumns:
    """Where the columns are that are read, by the row above them. Reading a row takes the time of its own length."""

    def __init__(self, head: Sequence[str]) -> None:
        self._width = len(head)
        self._source = head.index("Source")
        self._line = next((head.index(name) for name in ("Line No", "#") if name in head), None)
        self._samples = next((place for place, name in enumerate(head) if _counts_samples(name)), None)

    def source(self, row: Sequence[str]) -> str:
        """Cells too many are parts of the text of a line."""
        return '","'.join(row[self._source : self._source + self._extra(row) + 1]).strip()

    def samples(self, row: Sequence[str]) -> float | None:
        return None if self._samples is None else number(self._cell(row, self._samples))

    def line(self, row: Sequence[str], lines: Sequence[str]) -> int | None:
        """The line of the submission that a row is about; None for an instruction."""
        place = None if self._line is None else number(self._cell(row, self._line))
        if place is None or not 1 <= place <= len(lines):
            return None
        return int(place) if lines[int(place) - 1] == self.source(row) else None

    def _extra(self, row: Sequence[str]) -> int:
        return max(0, len(row) - self._width)

    def _cell(self, row: Sequence[str], place: int) -> str:
        there = place + (self._extra(row) if place > self._source else 0)
        return row[there] if there < len(row) else ""


def _counts_samples(name: str) -> bool:
    """The tool has renamed this column several times."""
    plain = name.lower()
    return "sampl" in plain and "not" not in plain

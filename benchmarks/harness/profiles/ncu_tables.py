"""Reads what Nsight Compute prints as CSV: the raw page with one row per launch, and the source page.

Whoever is profiled may have written any of it. Sizes are bounded by the caller, reading takes linear time, no figure
is longer than numbers are, and names become printable and short. What is not a number counts as absent. Raises
AuditBroken for a text that is no such table.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import AuditBroken
from ..protocol import clean_text
from .records import HotLine

_NAME_CHARS = 200
_LINE_CHARS = 160
_COLUMNS_MAX = 2000
_HOT_LINES = 5
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
        raise AuditBroken("the profiler's report lacks what was asked for")
    if any(len(row) != len(head) for row in (units, *data)):
        raise AuditBroken("the profiler's report is not one table")
    name_at = head.index("Kernel Name")
    columns = [
        (place, name, _SCALES.get(unit, 1.0)) for place, (name, unit) in enumerate(zip(head, units, strict=True))
    ]
    return [Launch(shown(row[name_at]), dict(_figures(row, columns))) for row in data]


def hot_lines(text: str, source: str) -> list[HotLine]:
    """The lines on which most samples were taken, from `--csv --page source`. Empty if nothing can be read from it.

    The page has one table per kernel. A row is a line of the source, or an instruction where no lines are known.
    """
    found: list[tuple[str, int | None, str, int]] = []
    kernel, place = "", None
    for row in _rows(text):
        if row[0] == "Kernel Name":
            kernel, place = shown(row[1]) if len(row) > 1 else "", None
        elif "Source" in row:
            place = _places(row)
        elif place is not None and len(row) > max(place):
            samples = number(row[place[2]])
            if samples is not None and samples >= 1:
                line, said = _line_of(row[place[0]], row[place[1]], source)
                found.append((kernel, line, said, int(samples)))
    whole = sum(item[3] for item in found)
    largest = sorted(found, key=lambda item: -item[3])[:_HOT_LINES]
    return [HotLine(kernel, line, said, samples, round(samples / whole, 4)) for kernel, line, said, samples in largest]


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
        raise AuditBroken("the profiler's report is no table") from error


def _figures(row: Sequence[str], columns: Sequence[tuple[int, str, float]]) -> Iterator[tuple[str, float]]:
    for place, name, scale in columns:
        value = number(row[place])
        if value is not None:
            yield name, value * scale


def _places(head: Sequence[str]) -> tuple[int, int, int] | None:
    """Where the number, the text and the samples of a line stand. The tool has renamed the samples several times."""
    samples = [place for place, name in enumerate(head) if "(all" in name.lower() or name == "# Samples"]
    if not samples:
        return None
    return (head.index("#") if "#" in head else 0), head.index("Source"), samples[0]


def _line_of(numbered: str, said: str, source: str) -> tuple[int | None, str]:
    """The line of the submission that a row is about; an instruction has none."""
    lines = source.split("\n")
    place = number(numbered)
    if place is not None and 1 <= place <= len(lines) and lines[int(place) - 1].strip() == said.strip():
        return int(place), clean_text(said.strip())[:_LINE_CHARS]
    return None, clean_text(said.strip())[:_LINE_CHARS]

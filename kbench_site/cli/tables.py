"""Tables on a terminal: aligned columns without borders, whose cells are never cut.

At a terminal, or where COLUMNS is set, a table keeps to that width. First the column of prose is wrapped; if that is
not enough, the leading columns stand on a line above the others, and the prose below. Elsewhere (a pipe, a file) every
row is one line. Does NOT know what the cells mean.
"""

import os
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console

from benchmarks.harness import clean_text

Row = Sequence[str]

_GAP = "  "
_PROSE_CELLS_MIN = 20  # narrower prose is hard to read


def print_table(console: Console, columns: Row, rows: Iterable[Row], *, prose: str = "", heads: int = 1) -> None:
    width = console.width if console.is_terminal or os.environ.get("COLUMNS", "").isdigit() else None
    for line in table_lines(columns, rows, width, prose=prose, heads=heads):
        console.print(line)


def table_lines(columns: Row, rows: Iterable[Row], width: int | None, *, prose: str = "", heads: int = 1) -> list[str]:
    """The lines of a table with at most `width` cells of the terminal in each; None is no limit.

    `prose` names the column that may be wrapped, `heads` is the number of leading columns that stand above the others
    where the table is too wide. A line is longer than `width` only if figures or leading columns alone do not fit.
    """
    body = [[" ".join(clean_text(cell).split()) for cell in row] for row in rows]
    if width is None:
        return _lines(_blocks([columns, *body]))
    place = columns.index(prose) if prose else len(columns)
    every = [_titles(columns, body), *body]
    figures = _widths([_without(row, place) for row in every])
    room = width - sum(figures) - len(_GAP) * (len(columns) - 1)
    if room >= (_PROSE_CELLS_MIN if prose else 0):
        return _lines(_blocks([_folded(row, place, room) for row in every]))
    return _stacked([columns, *body], every, width, place, heads)


def _stacked(named: Sequence[Row], every: Sequence[Row], width: int, place: int, heads: int) -> list[str]:
    """Three parts for each row: its leading cells, its figures, its prose. The first row has the titles."""
    lines: list[str] = []
    blocks = _blocks([_without(row, place)[heads:] for row in every])
    for row, block in zip(named, blocks, strict=True):
        together = _GAP.join(row[:heads])
        lines += [together] if cell_len(together) <= width else row[:heads]
        lines += [_GAP + line for line in block]
        lines += [_GAP + line for cell in row[place:][:1] for line in _wrapped(cell, width - len(_GAP))]
    return lines


def _blocks(rows: Sequence[Row]) -> list[list[str]]:
    """Each row as its lines: titles stand on the last line of theirs, other cells begin on the first."""
    widths, blocks = _widths(rows), []
    for number, row in enumerate(rows):
        cells = [cell.split("\n") for cell in row]
        height = max(map(len, cells), default=0)
        filled = [_filled(cell, height, above=number == 0) for cell in cells]
        blocks.append([_line(parts, widths) for parts in zip(*filled, strict=True)])
    return blocks


def _filled(cell: list[str], height: int, *, above: bool) -> list[str]:
    empty = [""] * (height - len(cell))
    return empty + cell if above else cell + empty


def _line(parts: Row, widths: Sequence[int]) -> str:
    padded = (part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _lines(blocks: Iterable[list[str]]) -> list[str]:
    return [line for block in blocks for line in block]


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)]


def _titles(columns: Row, body: Sequence[Row]) -> list[str]:
    """The titles, on several lines where that makes their column narrower."""
    longest = [max(map(cell_len, title.split()), default=1) for title in columns]
    widest = [max((cell_len(row[number]) for row in body), default=0) for number in range(len(columns))]
    return ["\n".join(_wrapped(title, max(*both, 1))) for title, *both in zip(columns, longest, widest, strict=True)]


def _folded(row: Row, place: int, room: int) -> list[str]:
    return ["\n".join(_wrapped(cell, room)) if number == place else cell for number, cell in enumerate(row)]


def _without(row: Row, place: int) -> list[str]:
    return [cell for number, cell in enumerate(row) if number != place]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)

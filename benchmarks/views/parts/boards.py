"""The lines of a leaderboard: entries in the chosen order, with the two baselines at the place of their own times.

A baseline's ratio is computed from the medians kept per configuration; it has no interval, and the page says so.
Does NOT rank: ranks are stored with the standings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page

from benchmarks.boards import selectors as board_selectors
from benchmarks.boards.orders import BY_RANK
from benchmarks.boards.ranking import baseline_scores
from benchmarks.boards.selectors import EVERYTHING, BoardKey, EntryFilter
from benchmarks.harness import what_counts
from benchmarks.models import BaselineResult, Standing
from benchmarks.templatetags.whiskers import Axis

EAGER = "PyTorch eager"
COMPILED = "torch.compile"
BEST_FIRST = (BY_RANK, "-score")


@dataclass(frozen=True)
class BaselineLine:
    """One baseline against the stronger one of each configuration: 1× where it is the stronger one everywhere."""

    title: str
    score: float
    configs: int


@dataclass(frozen=True)
class Board:
    rows: Page[Any]
    lines: list[Standing | BaselineLine]
    axis: Axis
    under_review: list[Standing]  # the newest
    count_under_review: int
    energy: bool  # whether any entry shown has one
    unmeasured: list[str]  # titles of baselines that no judging has timed yet


def board_page(key: BoardKey, page: int | str, chosen: EntryFilter = EVERYTHING, sort: str = BY_RANK) -> Board:
    """In another order than by score the baselines, of which only that is known, come after the entries."""
    rows = board_selectors.board_rows(key, page, chosen, sort=sort)
    measured = baseline_lines(board_selectors.board_baselines(key))
    bounds = [value for row in rows for value in (row.score_lo, row.score_hi)]
    reviews = board_selectors.board_under_review(key)
    return Board(
        rows=rows,
        lines=in_line(list(rows), measured) if sort in BEST_FIRST else [*rows, *measured],
        axis=Axis.over([*bounds, *(line.score for line in measured)]),
        under_review=reviews,
        count_under_review=board_selectors.count_under_review(key, reviews),
        energy=any(row.figures.get("energy") for row in rows),
        unmeasured=[title for title in (EAGER, COMPILED) if title not in {line.title for line in measured}],
    )


def baseline_lines(results: Sequence[BaselineResult]) -> list[BaselineLine]:
    """The baselines that have been timed on every configuration, the faster one first."""
    scores = baseline_scores([(result.eager_us, result.compile_us) for result in results])
    found = {EAGER: scores.eager, COMPILED: scores.compiled}
    lines = [BaselineLine(title, score, len(results)) for title, score in found.items() if score]
    return sorted(lines, key=lambda line: -line.score)


def in_line(rows: Sequence[Standing], baselines: Sequence[BaselineLine]) -> list[Standing | BaselineLine]:
    """Each baseline below the last entry that is at least as fast; every page of a long board shows both."""
    lines: list[Standing | BaselineLine] = list(rows)
    for line in baselines:
        faster = [place for place, other in enumerate(lines, 1) if _counts(other) >= line.score]
        lines.insert(max(faster, default=0), line)
    return lines


def _counts(line: Standing | BaselineLine) -> float:
    if isinstance(line, BaselineLine):
        return line.score
    return what_counts(line.score, line.score_lo, line.evaluation.timing_trust)

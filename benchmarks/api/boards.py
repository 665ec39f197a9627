"""GET /leaderboards: one page of a board as JSON or CSV, ranked as the site shows it.

Does NOT rank: ranks are stored with the standings.
"""

import csv
import io

from benchmarks import selectors
from benchmarks.selectors import BoardKey
from benchmarks.views.boards import baseline_lines

from .schemas import BaselineOut, EntryOut, LeaderboardOut, entry_out

COLUMNS = [
    "rank",
    "ties",
    "speedup",
    "ci95_lo",
    "ci95_hi",
    "vs_eager",
    "vs_compile",
    "worst_config",
    "timing_trust",
    "by",
    "method",
    "language",
    "judgings",
    "verified_at",
    "evaluation",
]


def leaderboard(key: BoardKey, page: int) -> LeaderboardOut:
    rows = selectors.board_rows(key, page)
    baselines = baseline_lines(selectors.board_baselines(key))
    return LeaderboardOut(
        task=key.version.task.path,
        version=key.version.number,
        device=key.device.slug,
        ruleset=key.ruleset.name,
        page=rows.number,
        pages=rows.paginator.num_pages,
        entries=[entry_out(row) for row in rows],
        baselines=[BaselineOut(title=line.title, score=line.score) for line in baselines],
        under_review=len(selectors.board_under_review(key)),
    )


def as_csv(board: LeaderboardOut) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_cells(entry) for entry in board.entries)
    return text.getvalue()


def _cells(entry: EntryOut) -> list[object]:
    score = entry.score
    return [
        entry.rank,
        entry.ties,
        score.speedup,
        *score.ci95,
        score.vs_eager,
        score.vs_compile,
        score.worst_config,
        score.timing_trust,
        _plain(entry.by),
        entry.method,
        entry.language,
        entry.judgings,
        entry.verified_at.isoformat(),
        entry.evaluation,
    ]


def _plain(name: str) -> str:
    """A name that a spreadsheet would run as a formula becomes text."""
    return f"'{name}" if name[:1] in "=+-@" else name

"""The charts of `charts.py` as interactive figures, from the same numbers: fast_p over p, score against cost, records.

Does NOT decide what is shown nor how far an axis reaches: the views and `charts.py` do.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from benchmarks.boards.comparing import Share, fast_over
from benchmarks.boards.figures import (
    BASELINE,
    DASHES,
    SYMBOLS,
    Parts,
    axis,
    error_bars,
    figure,
    level,
    lines,
    plain,
    speedup_axis,
    token,
    upright,
)
from benchmarks.boards.overview import Comparison, Row
from benchmarks.models import Evaluation

from .charts import NamedCurve, Spent, cost_reach, counts_of, fast_reach, score_reach


def fast_figure(comparison: Comparison, curves: Sequence[NamedCurve], p: float) -> Any:
    """Shares of tasks over p as steps, and a line at the p that is chosen."""
    high = fast_reach(curves, p)
    title = "p: times the stronger of PyTorch eager and torch.compile"
    return figure(
        [_fast_line(place, row, comparison.total, high) for place, row in enumerate(comparison.rows)],
        axis(title, 0.0, high, ticksuffix="×"),
        _share_axis("Share of tasks solved faster than p"),
        [upright(p, "ink")],
    )


def _fast_line(place: int, row: Row, total: int, high: float) -> Parts:
    """The last share is drawn to the end of the axis."""
    corners = fast_over(row.marks.values(), total)
    end = max(high, corners[-1][0])
    shares = [share for _, share in corners]
    said = [_of_share(row.method.title, p, share) for p, share in corners]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(row.method.title),
        "x": [*(p for p, _ in corners), end],
        "y": [100 * share.part for share in (*shares, shares[-1])],
        "line": {"color": token(f"series-{place}"), "dash": DASHES[place], "width": 2, "shape": "hv"},
        "hoverinfo": "text",
        "hovertext": [*said, said[-1]],
    }


def _of_share(title: str, p: float, share: Share) -> str:
    return lines(
        plain(title),
        f"{share.count} of {share.total} tasks ({100 * share.part:.0f} %) faster than {p:.4g}×",
        f"by 95 % intervals at least {share.sure}, at most {share.possible}",
        BASELINE,
    )


def _share_axis(title: str) -> Parts:
    return axis(title, 0.0, 102.0, ticksuffix=" %")


def cost_figure(points: Sequence[Spent], title: str, p: float) -> Any:
    """One mark per method; its bar is the range that the intervals of the scores allow."""
    return figure(
        [_spent_mark(point, p) for point in points],
        axis(title, 0.0, cost_reach(points)),
        _share_axis(f"Share of tasks solved faster than {p:g}×"),
    )


def _spent_mark(point: Spent, p: float) -> Parts:
    share, colour = point.share, token(f"series-{point.place}")
    bounds = [100 * count / (share.total or 1) for count in (share.count, share.sure, share.possible)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(point.title),
        "x": [point.cost],
        "y": bounds[:1],
        "error_y": {**error_bars([bounds]), "color": colour},
        "marker": {"color": colour, "symbol": SYMBOLS[point.place], "size": 10},
        "hoverinfo": "text",
        "hovertext": [lines(_of_share(point.title, p, share), f"for {plain(point.cost_text)}")],
    }


def record_figure(records: Sequence[Evaluation], now: datetime) -> Any:
    """What counts of the best of a board as steps over time, each with its interval; at least one record."""
    bounds = [(counts_of(record), record.score_lo or 1.0, record.score_hi or 1.0) for record in records]
    ends = [(record.finished or now).isoformat() for record in records]
    said = [_of_record(record) for record in records]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "record",
        "x": [*ends, now.isoformat()],
        "y": [*(score for score, _, _ in bounds), bounds[-1][0]],
        "line": {"color": token("series-0"), "width": 2, "shape": "hv"},
        "marker": {"size": [*(9 for _ in records), 0], "opacity": 1, "line": {"width": 0}},
        "error_y": {**error_bars(bounds), "color": token("series-0")},
        "hoverinfo": "text",
        "hovertext": [*said, said[-1]],
    }
    x = axis("When the judging ended, UTC", None, None, type="date")
    one = level(1.0, "line-strong", "the stronger baseline, 1×")
    return figure([trace], x, speedup_axis(*score_reach(records)), [one])


def _of_record(record: Evaluation) -> str:
    return lines(
        f"{record.score or 1.0:.2f}× {BASELINE}",
        f"95 % interval {record.score_lo or 1.0:.2f}× to {record.score_hi or 1.0:.2f}×",
        f"{plain(record.submission.method.title)}, {plain(record.submission.language)}",
        f"{record.finished:%Y-%m-%d %H:%M} UTC" if record.finished else "",
    )

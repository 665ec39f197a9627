"""The part of a run's page that changes while it runs, drawn once for all viewers.

A drawing is cached for a moment under the number of the last event, so a hundred viewers cost as much as one. It
contains nothing that depends on the viewer: buttons are outside, and candidates are shown as everybody may read them.
"""

from typing import Any

from django.core.cache import caches
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from agents import selectors
from agents.drawing.charts import AXES, chart
from agents.drawing.lineage import lineage
from agents.models import Candidate, Run
from agents.record.snapshots import Scene, outcome_counts, past, present, whole
from agents.record.withheld import EVERYBODY, readable_candidates, readable_events
from agents.views.flights import flights
from benchmarks.templatetags.whiskers import Axis

KEPT_S = 2.0  # what is in flight moves without events
PAST_KEPT_S = 60.0  # it does not change, but staff may hide what it shows
RECENT_ROWS = 12
RECENT_EVENTS = 15


def drawn(run: Run, axis: str, at: int | None) -> SafeString:
    """The whole live part of the page as HTML."""
    axis = axis if axis in AXES else "judgings"
    key = f"run-part:{run.code}:{run.last_seq}:{run.state}:{run.wish}:{axis}:{at}"
    found: str | None = caches["pages"].get(key)
    if found is None:
        scene = present(run) if at is None else past(run, at)
        found = render_to_string("runs/_parts.html", _context(scene, axis))
        caches["pages"].set(key, found, KEPT_S if at is None else PAST_KEPT_S)
    return mark_safe(found)  # noqa: S308 - it was rendered by a template


def _context(scene: Scene, axis: str) -> dict[str, Any]:
    run = scene.run
    shown = readable_candidates(EVERYBODY, whole(sorted(scene.rows, key=lambda row: -row.position)[:RECENT_ROWS]))
    best = best_of(scene)
    flown = flights(scene) if not run.is_finished else []
    return {
        "run": run,
        "at": scene.at,
        "purses": selectors.purses(run),
        "best": best,
        "roofline": roofline_of(best),
        "first": scene.improvements[0] if scene.improvements else None,
        "axes": [(item, item.name == axis) for item in AXES.values() if item.name != "usd" or run.spent.get("usd")],
        "chart": chart([scene], axis),
        "figure_url": f"{reverse('run-figure', args=[run.code])}?x={axis}&at={scene.at or ''}",
        "flights": flown,
        "confirming": selectors.confirming(scene) if not run.is_finished and not flown else [],
        "failures": outcome_counts(scene),
        "screening": selectors.screening(scene),
        "curriculum": selectors.curriculum(scene),
        "recent": shown,
        "score_axis": score_axis(shown),
        "lineage": lineage(scene),
        "events": readable_events(EVERYBODY, selectors.log_rows(run, at=scene.at)[:RECENT_EVENTS]),
        "ahead": selectors.ahead_of(run) if run.state == "waiting" else 0,
    }


def best_of(scene: Scene) -> Candidate | None:
    """With its long columns."""
    return readable_candidates(EVERYBODY, whole([scene.best]))[0] if scene.best else None


def roofline_of(best: Candidate | None) -> float | None:
    """Of the configuration that is furthest from what the machine allows."""
    known = [item["roofline_fraction"] for item in (best.configs if best else []) if item.get("roofline_fraction")]
    return min(known, default=None)


def score_axis(rows: list[Candidate]) -> Axis:
    return Axis.over(value for row in rows for value in (row.score_lo, row.score_hi))

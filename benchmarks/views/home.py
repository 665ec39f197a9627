"""The home page: what kbench is, what is being judged now, the latest verified entries, the newest post.

Does NOT show private evaluations, not even to their owners: the page is the same for everybody.
"""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import news, selectors
from benchmarks.judgings.waiting import standstill
from benchmarks.recorded import selectors as recorded
from benchmarks.templatetags.whiskers import Axis

LEADERS = 10


def home(request: HttpRequest) -> HttpResponse:
    newest = selectors.newest_verified()
    axis = Axis.over(value for row in newest for value in (row.score_lo, row.score_hi))
    context = {"newest": newest, "axis": axis, "news": news.newest_posts(1), **_queue(), **_recorded()}
    return render(request, "home.html", context)


def home_live(request: HttpRequest) -> HttpResponse:
    return render(request, "_queue.html", _queue())


def _recorded() -> dict[str, Any]:
    """The richest bundle of recorded results, as long as no device of this site has as many tasks with an entry."""
    known = recorded.bundles()
    if not known or selectors.tasks_with_entry() >= known[0].tasks:
        return {"bundles": known}
    leaders = sorted(recorded.leaders(known[0]), key=lambda row: -row.score)
    axis = Axis.over(value for row in leaders for value in (row.score_lo, row.score_hi))
    return {"bundles": known, "bundle": known[0], "leaders": leaders[:LEADERS], "leaders_axis": axis}


def _queue() -> dict[str, Any]:
    everybody = AnonymousUser()
    running, queued = selectors.at_work(everybody, 5), selectors.next_in_queue(everybody, 5)
    lines = selectors.queue_lines()
    at_work = {line.device.pk for line in lines if line.running}
    first = {evaluation.device_kind_id: evaluation for evaluation in reversed(queued)}
    reasons = [standstill(evaluation) for kind, evaluation in first.items() if kind not in at_work]
    return {
        "lines": lines,
        "running": running,
        "waiting": queued,
        "standstills": list(dict.fromkeys(filter(None, reasons))),
    }

"""The first page: what kbench is, what is being judged now, what was verified last.

Does NOT show private evaluations, not even to their owners: the page is the same for everybody.
"""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors
from benchmarks.templatetags.whiskers import Axis


def home(request: HttpRequest) -> HttpResponse:
    newest = selectors.newest_verified()
    axis = Axis.over(value for row in newest for value in (row.score_lo, row.score_hi))
    return render(request, "home.html", {"newest": newest, "axis": axis, **_queue()})


def home_live(request: HttpRequest) -> HttpResponse:
    return render(request, "_queue.html", _queue())


def _queue() -> dict[str, Any]:
    everybody = AnonymousUser()
    return {
        "lines": selectors.queue_lines(),
        "running": selectors.at_work(everybody, 5),
        "waiting": selectors.next_in_queue(everybody, 5),
    }

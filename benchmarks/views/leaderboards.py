"""Leaderboards: the list of them, and one per task, device kind and rule set.

Baselines stand in line with the entries, at the place their own time gives them. Does NOT decide any rank.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from benchmarks import selectors
from benchmarks.templatetags.whiskers import Axis

from .boards import board_page
from .devices import device_choice


def leaderboard_list(request: HttpRequest) -> HttpResponse:
    devices = device_choice(request, selectors.device_kinds())
    boards = selectors.board_summaries(devices.current) if devices.current else []
    leaders = [board.leader for board in boards if board.leader]
    axis = Axis.over(value for row in leaders for value in (row.score_lo, row.score_hi))
    return render(request, "leaderboards/list.html", {"boards": boards, "axis": axis, "devices": devices})


def leaderboard(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    version = selectors.version_numbered(suite, op, direction, request.GET.get("version", ""))
    key = selectors.board_key(version, device, request.GET.get("rules", ""))
    board = board_page(key, request.GET.get("page", 1))
    devices = device_choice(
        request,
        selectors.device_kinds(version),
        device,
        lambda kind: reverse("leaderboard", args=[suite, op, direction, kind.slug]),
    )
    context = {"board": board, "key": key, "task": version.task, "devices": devices}
    return render(request, "leaderboards/board.html", context)

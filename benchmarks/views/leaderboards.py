"""Leaderboards: the list of them, and one per task, device kind and rule set.

Baselines stand in line with the entries, at the place their own time gives them. Does NOT decide any rank.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors
from benchmarks.templatetags.whiskers import Axis

from .boards import board_page


def leaderboard_list(request: HttpRequest) -> HttpResponse:
    boards = selectors.board_summaries()
    leaders = [board.leader for board in boards if board.leader]
    axis = Axis.over(value for row in leaders for value in (row.score_lo, row.score_hi))
    return render(request, "leaderboards/list.html", {"boards": boards, "axis": axis})


def leaderboard(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    version = selectors.version_numbered(suite, op, direction, request.GET.get("version", ""))
    key = selectors.board_key(version, device, request.GET.get("rules", ""))
    board = board_page(key, request.GET.get("page", 1))
    return render(request, "leaderboards/board.html", {"board": board, "key": key, "task": version.task})

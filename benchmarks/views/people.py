"""The public page of an account: its figures, ranked entries, submissions and runs.

Does NOT show private data: that is below `accounts/`.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks.boards.people import profile
from benchmarks.templatetags.whiskers import Axis


def person(request: HttpRequest, name: str) -> HttpResponse:
    found = profile(name, request.user, request.GET.get("page", 1))
    axis = Axis.over(value for row in found.entries for value in (row.score_lo, row.score_hi))
    return render(request, "people/detail.html", {"profile": found, "person": found.person, "axis": axis})

"""The public page of an account: its figures, ranked entries, submissions and runs.

Does NOT show private data: that is below `accounts/`.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks.boards.people import PublicProfile, person_named, profile_of_person
from benchmarks.templatetags.whiskers import Axis


def person(request: HttpRequest, name: str) -> HttpResponse:
    found, public = person_named(name, request.user)
    shown = profile_of_person(found, request.GET.get("page", 1))
    context = {"profile": shown, "person": found, "is_public": public, "axis": axis_of(shown)}
    return render(request, "people/detail.html", context)


def axis_of(profile: PublicProfile) -> Axis:
    return Axis.over(value for row in profile.entries for value in (row.score_lo, row.score_hi))

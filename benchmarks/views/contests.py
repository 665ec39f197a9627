"""Contests: the list, one contest with its boards, taking part, and what staff make and announce.

Does NOT read hidden configurations before the end: `contests/sealing.py` refuses.
"""

import json
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from benchmarks import teams
from benchmarks.contests import results, running, sealing
from benchmarks.contests.forms import CancelForm, ContestForm
from benchmarks.models import Contest
from benchmarks.moderation import decisions
from benchmarks.moderation.forms import EntryDecisionForm
from benchmarks.services import Refused
from benchmarks.states import ActionKind, ContestState

from .parts.staff import person, staff_only

LINES_MAX = 100  # of one table


def contest_list(request: HttpRequest) -> HttpResponse:
    return render(request, "contests/list.html", {"rows": results.contests(request.user)})


def contest_detail(request: HttpRequest, slug: str) -> HttpResponse:
    contest = results.contest_named(request.user, slug)
    boards = results.boards(contest)
    context: dict[str, Any] = {
        "contest": contest,
        "boards": boards,
        "lines_max": LINES_MAX,
        "lines_shown": f":{LINES_MAX}",
        "overall": results.overall(boards),
        "takes_part": results.takes_part(contest, request.user),
        "with_teams": results.teams_in(contest, request.user),
        "teams": teams.teams_of(request.user, owned=True),
        "participants": contest.participants.count(),
        "joinable": contest.state in running.JOINABLE,
        "cancel": CancelForm() if contest.state in (ContestState.ANNOUNCED, ContestState.RUNNING) else None,
    }
    if contest.is_over:
        context["done"], context["finals"] = results.progress(contest)
        context["machines"] = results.machines(contest)
        context["taken_down"] = results.taken_down(contest) if request.user.is_staff else []
        context["sealed"] = sealing.sealed_text(contest)
        context["opened"] = json.dumps(sealing.opened(contest), indent=2)
    return render(request, "contests/detail.html", context)


@sensitive_post_parameters("hidden")
@staff_only
def contest_edit(request: HttpRequest, slug: str = "") -> HttpResponse:
    """A new contest, or another draft of one."""
    contest = results.contest_named(request.user, slug) if slug else None
    form = ContestForm(request.POST if request.method == "POST" else None, contest=contest)
    if form.is_valid():
        try:
            return redirect(running.contest_save(form.draft(), by=person(request), contest=contest))
        except Refused as error:
            form.add_error(None, str(error))
    return render(request, "contests/edit.html", {"form": form, "contest": contest})


@require_POST
@login_required
def contest_join(request: HttpRequest, slug: str) -> HttpResponse:
    """Alone, or with a team that one owns (`team`)."""
    by = person(request)

    def join(contest: Contest) -> None:
        running.join(contest, by, teams.team_for(by, request.POST.get("team", ""), owned=True))

    return _done(request, slug, join, "You take part.")


@require_POST
@staff_only
def contest_announce(request: HttpRequest, slug: str) -> HttpResponse:
    return _done(request, slug, running.announce, "The contest is announced.")


@require_POST
@staff_only
def contest_cancel(request: HttpRequest, slug: str) -> HttpResponse:
    form = CancelForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Write the public reason.")
        return redirect("contest", slug)
    reason = form.cleaned_data["reason"]
    return _done(request, slug, lambda contest: running.cancel(contest, reason), "The contest is cancelled.")


@staff_only
def contest_entry(request: HttpRequest, pk: int) -> HttpResponse:
    """Takes a frozen result down or shows it again; its source is not shown, for it may be private."""
    entry = results.entry_for_staff(pk)
    form = EntryDecisionForm(entry, request.POST or None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        words = {"reason": data["reason"], "note": data["note"], "seen": data["seen"]}
        try:
            decisions.decide_entry(entry, ActionKind(data["kind"]), by=person(request), **words)
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Done. The decision is in the public log.")
            return redirect(entry.task.contest)
    return render(
        request, "moderation/entry.html", {"form": form, "entry": entry, "name": results.name_of(entry.participant)}
    )


def _done(request: HttpRequest, slug: str, move: Callable[[Contest], None], said: str) -> HttpResponse:
    contest = results.contest_named(request.user, slug)
    try:
        move(contest)
        messages.success(request, said)
    except Refused as error:
        messages.warning(request, str(error))
    return redirect(contest)

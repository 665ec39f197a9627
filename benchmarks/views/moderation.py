"""Moderation: reporting a submission, the review queue of staff, decisions with their reasons, the public log.

Every decision can be undone on the page it was made on. Does NOT offer to edit a score or to delete anything.
"""

import uuid
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks import comments, selectors
from benchmarks.boards import confirmations
from benchmarks.models import SiteSwitch
from benchmarks.moderation import decisions, review
from benchmarks.moderation.forms import DecisionForm, SwitchForm, TurnForm
from benchmarks.services import Refused
from benchmarks.states import ActionKind, Switch

from .parts.reviewing import report_page
from .parts.staff import person, staff_only


@login_required
def report(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    report_it = partial(decisions.report, evaluation.submission)
    return report_page(request, evaluation, report_it, "moderation/report.html", {"what": "submission"})


@staff_only
def queue(request: HttpRequest) -> HttpResponse:
    """What waits for a decision; copies have a list of their own, for they take as long to find as all the rest."""
    if request.GET.get("list") == "copies":
        copies = review.identical_sources(request.GET.get("page", 1))
        return render(request, "moderation/copies.html", {"copies": copies})
    context = {
        "reports": review.open_reports(request.GET.get("reports", 1)),
        "comment_reports": comments.open_reports()[: review.PAGE_ROWS],
        "under_review": review.under_review(request.GET.get("page", 1)),
        "taken_down": review.taken_down(request.GET.get("down", 1)),
    }
    return render(request, "moderation/queue.html", context)


@staff_only
def submission(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """Everything there is about one submission, and the form that decides."""
    found = review.submission_for_staff(code)
    history = list(review.everything_about(found))
    form = DecisionForm(found, request.POST or None, reported=review.is_reported(found))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        kind = ActionKind(data["kind"])
        words = {"reason": data["reason"], "note": data["note"], "seen": data["seen"]}
        try:
            decisions.decide(found, kind, by=person(request), **words)
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"{kind.label}. Leaderboards update immediately.")
            return redirect("moderate", code)
    context = {"form": form, "submission": found, "history": history, "same_source": review.same_source(found)}
    context["confirmed"] = confirmations.of(found).last()
    context |= {"evaluations": selectors.submission_for(request.user, code)[1], "task": found.task_version.task}
    return render(request, "moderation/submission.html", context)


@staff_only
def account(request: HttpRequest, name: str) -> HttpResponse:
    found = review.account_named(name)
    form = TurnForm(ActionKind.BAN, ActionKind.UNBAN, request.POST or None, is_done=not found.is_active)
    if request.method == "POST" and form.is_valid():
        turn = decisions.unban if form.undoes else decisions.ban
        try:
            turn(found, by=person(request), reason=form.cleaned_data["reason"], note=form.cleaned_data["note"])
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Done. The decision is in the public log.")
            return redirect("moderate-account", name)
    context = {"form": form, "account": found, "history": review.actions_about_account(found)}
    context |= {"evaluations": selectors.own_evaluations(found, (), request.GET.get("page", 1))}
    return render(request, "moderation/account.html", context)


def log(request: HttpRequest) -> HttpResponse:
    return render(request, "moderation/log.html", {"rows": review.log(request.GET.get("page", 1))})


@staff_only
def switches(request: HttpRequest) -> HttpResponse:
    form = SwitchForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            decisions.switch_turn(Switch(data["key"]), on=data["on"], message=data["message"], by=person(request))
        except Refused as error:
            messages.warning(request, str(error))
        else:
            messages.success(request, "Changed and recorded in the public log.")
        return redirect("switches")
    rows = {switch.key: switch for switch in SiteSwitch.objects.all()}
    lines = [rows.get(key) or SiteSwitch(key=key, on=key != Switch.BANNER) for key in Switch]
    return render(request, "moderation/switches.html", {"lines": lines, "form": form})

"""Requests for kernels: the list, one request with its answers, posting one, voting, and what its owner and staff do.

Does NOT examine definitions: a worker does, later.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from benchmarks.accounts import limits
from benchmarks.boards.labels import is_ranked
from benchmarks.models import KernelRequest
from benchmarks.requests import asking, lists
from benchmarks.requests.forms import AcceptForm, CloseForm, RequestDecisionForm, RequestForm
from benchmarks.services import Refused
from benchmarks.states import RequestState
from benchmarks.templatetags.whiskers import Axis

from .parts.reviewing import decision_page
from .parts.staff import person, staff_only


def request_list(request: HttpRequest) -> HttpResponse:
    sort = request.GET.get("sort", "")
    sort = sort if sort in lists.SORTS else "votes"
    context = {
        "rows": lists.request_rows(request.user, sort, request.GET.get("page", 1)),
        "mine": lists.own_unpublished(request.user),
        "sort": sort,
        "sorts": lists.SORTS.items(),
    }
    return render(request, "requests/list.html", context)


def request_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = lists.request_for(request.user, pk)
    answers = lists.answers_of(row)
    is_owner = row.owner_id == request.user.pk
    context: dict[str, Any] = {
        "row": row,
        "answers": answers,
        "accepted": lists.accepted_answer(row),
        "axis": Axis.over(value for answer in answers for value in (answer.row.score_lo, answer.row.score_hi)),
        "is_owner": is_owner,
        "is_open": row.state == RequestState.OPEN,
        "ranked": row.task is not None and is_ranked(row.task.labels),
        "close": CloseForm() if is_owner and row.state in (RequestState.QUEUED, RequestState.OPEN) else None,
        "ruleset": settings.KBENCH_RULESET,
    }
    return render(request, "requests/detail.html", context)


@sensitive_post_parameters("definition")
@login_required
def request_new(request: HttpRequest) -> HttpResponse:
    posted = request.method == "POST"
    form = RequestForm(request.POST if posted else None, request.FILES if posted else None)
    if form.is_valid():
        try:
            made = asking.request_create(form.draft(), by=person(request))
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Posted. Until the definition is examined, only you can see the request.")
            return redirect(made)
    return render(request, "requests/new.html", {"form": form, "meters": limits.meters(request)})


@require_POST
@login_required
def request_vote(request: HttpRequest, pk: int) -> HttpResponse:
    vote = partial(asking.request_vote, by=person(request), wanted=request.POST.get("vote") != "0")
    return _done(request, lists.request_for(request.user, pk), vote, "")


@require_POST
@login_required
def request_accept(request: HttpRequest, pk: int) -> HttpResponse:
    form = AcceptForm(request.POST)

    def accept(row: KernelRequest) -> None:
        found = lists.answerable(row).filter(code=form.cleaned_data["evaluation"]).first() if form.is_valid() else None
        if found is None:
            raise Refused("Choose one of the answers.")
        asking.request_accept(row, found)

    said = "Accepted. Everybody can still submit to the task."
    return _done(request, lists.own_request(request.user, pk), accept, said)


@require_POST
@login_required
def request_close(request: HttpRequest, pk: int) -> HttpResponse:
    form = CloseForm(request.POST)
    why = form.cleaned_data["why"] if form.is_valid() else ""
    row = lists.own_request(request.user, pk)
    return _done(request, row, lambda row: asking.request_close(row, why), "The request is closed.")


@staff_only
def request_moderate(request: HttpRequest, pk: int) -> HttpResponse:
    row = lists.published_or_hidden(pk)
    form = RequestDecisionForm(row, request.POST or None)
    history = lists.decisions_about(row)
    context = {"row": row, "author": row.owner, "text": row.reason, "history": history}
    return decision_page(request, form, partial(asking.request_decide, row), "moderation/request.html", context)


def _done(request: HttpRequest, row: KernelRequest, move: Callable[[KernelRequest], None], said: str) -> HttpResponse:
    try:
        move(row)
    except Refused as error:
        messages.warning(request, str(error))
    else:
        if said:
            messages.success(request, said)
    return redirect(row)

"""The list of runs, the page of a run during and after it, and the buttons that control it.

A finished run's page is its permanent record; `?at=SEQ` shows a run as it was at an event. Does NOT draw: `parts.py`
does.
"""

import uuid
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents import selectors, services
from agents.drawing.figures import best_figure
from agents.driving import external
from agents.forms import BudgetForm, RunFilterForm, RunForm
from agents.models import Run
from agents.proposals import problem_with
from agents.record import kept
from agents.record.snapshots import past, present
from agents.states import Wish
from benchmarks import selectors as tasks
from benchmarks.boards.figures import answer
from benchmarks.judgings.waiting import nobody_there
from benchmarks.models import TaskVersion

from .parts import drawn
from .previews import preview_of_run
from .sessions import may_steer, remember

WISHES = {"pause": Wish.PAUSE, "resume": Wish.GO, "stop": Wish.STOP}


def run_list(request: HttpRequest) -> HttpResponse:
    form = RunFilterForm(request.GET, methods=selectors.run_methods())
    rows = selectors.run_rows(selectors.RunFilter(**form.chosen()), request.GET.get("page", 1))
    context = {"form": form, "rows": rows, "recorded": [] if request.GET else kept.runs_shown()}
    return render(request, "runs/list.html", context)


def run_new(request: HttpRequest) -> HttpResponse:
    version = _chosen_task(request)
    if version is None:
        return render(request, "runs/choose.html", {"tasks": tasks.all_tasks(tasks.TaskFilter())})
    kinds = tasks.device_kinds(version)
    form = RunForm(
        request.POST or None,
        version=version,
        kinds=kinds,
        user=request.user,
        initial={"device": request.GET.get("device", "")},
    )
    run = _started(request, form) if request.method == "POST" and form.is_valid() else None
    if run is not None:
        return redirect(run)
    absent = [(kind, nobody_there(kind)) for kind in kinds]
    context = {"form": form, "version": version, "task": version.task, "absent": [item for item in absent if item[1]]}
    context["refusal"] = _refusal(request)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return render(request, "runs/new.html", context, status=status)


def _chosen_task(request: HttpRequest) -> TaskVersion | None:
    parts = request.GET.get("task", "").split("/")
    return tasks.active_version(*parts) if len(parts) == 3 else None


def _started(request: HttpRequest, form: RunForm) -> Run | None:
    refusal = _refusal(request)
    if refusal:
        form.add_error(None, refusal)
        return None
    assert form.config is not None  # noqa: S101 - a valid form has one
    try:
        told = form.cleaned_data["memory"]
        order = services.RunRequest(form.version, form.device_kind, form.config, _owner(request), told)
        run = services.run_start(order)
    except services.Refused as error:
        form.add_error(None, str(error))
        return None
    remember(request, run)
    return run


def _refusal(request: HttpRequest) -> str:
    closed = settings.KBENCH_PUBLIC and not request.user.is_authenticated
    return "Log in to start a run." if closed else ""


def _owner(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) else None


def run_detail(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    run = selectors.run_shown(request.user, code)
    if run.kept:  # nothing goes on from a run that this site did not judge
        return render(request, "runs/detail.html", _page(request, run))
    more = {
        "others": selectors.runs_of_task(run),
        "fork": BudgetForm(initial={"judgings": 40}),
        "preview": preview_of_run(run),
    }
    return render(request, "runs/detail.html", _page(request, run) | more)


def run_live(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return render(request, "runs/_live.html", _page(request, selectors.run_shown(request.user, code)))


def run_figure(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """The chart of the page, `?x=` and `?at=` as there."""
    run = selectors.run_shown(request.user, code)
    at = _at(request, run)
    drawn = best_figure([present(run) if at is None else past(run, at)], request.GET.get("x", ""))
    if drawn is None:
        raise Http404("Nothing has been judged yet.")
    return answer(drawn)


def _page(request: HttpRequest, run: Run) -> dict[str, Any]:
    at = _at(request, run)
    axis = request.GET.get("x", "judgings")
    return {
        "run": run,
        "task": run.task_version.task,
        "at": at,
        "axis": axis,
        "parts": drawn(run, axis, at),
        "may_steer": not run.kept and may_steer(request, run),
    }


def _at(request: HttpRequest, run: Run) -> int | None:
    """The event as of which the run is shown; None for now."""
    text = request.GET.get("at", "")
    wanted = int(text[:9]) if text.isdecimal() else run.last_seq
    return None if wanted >= run.last_seq else max(wanted, 1)


@require_POST
def run_steer(request: HttpRequest, code: uuid.UUID, wish: str) -> HttpResponse:
    run = selectors.run_of(request.user, code)
    if not may_steer(request, run):
        messages.error(request, "Only the owner or staff can pause, resume or stop a run.")
        return redirect(run)
    try:
        external.steer(run, WISHES[wish], request.user)
    except services.Refused as error:
        messages.warning(request, str(error))
    return redirect(run)


@require_POST
def run_fork(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """Anybody may go on from what a public run has found, at their own expense."""
    parent, form = selectors.run_of(request.user, code), BudgetForm(request.POST)
    refusal = _refusal(request) or problem_with(parent.proposer, request.user)
    if refusal or not form.is_valid():
        texts = [str(error) for errors in form.errors.values() for error in errors]
        messages.error(request, refusal or " ".join(texts))
        return redirect(parent)
    try:
        run = services.run_fork(parent, owner=_owner(request), seed=form.seed_or_drawn(), more=form.caps())
    except services.Refused as error:
        messages.warning(request, str(error))
        return redirect(parent)
    remember(request, run)
    return redirect(run)

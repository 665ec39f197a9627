"""`/api/v1/runs`: start a run, follow its log, control it. The same form, limits and services as the pages.

Reading needs no token. Does NOT stream: `/events/?topics=run:ID` does, and `events?wait=` holds a request open.
"""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Status

from benchmarks import selectors as tasks
from benchmarks.api.auth import Token, owner_of
from benchmarks.api.problems import Problem
from benchmarks.api.schemas import PageNumber
from benchmarks.api.submissions import version_of
from benchmarks.harness import CPU
from benchmarks.views.streams import wait_until

from .. import selectors, services
from ..driving import external
from ..evolve.config import RunConfig
from ..evolve.proposing import readable
from ..forms import BudgetForm, RunForm
from ..models import Run
from ..proposals import EXTERNAL, problem_with
from ..record import withheld
from ..states import Wish
from . import schemas

EVENTS_MAX = 500
SEQ_MAX = 2**31 - 1
WAIT_MAX_S = 60.0
WISHES = {"pause": Wish.PAUSE, "resume": Wish.GO, "stop": Wish.STOP}
router = Router(tags=["runs"])


@router.get("", response=schemas.RunPage, summary="Runs, newest first")
def run_list(request: HttpRequest, task: str = "", state: str = "", method: str = "", page: PageNumber = 1) -> Any:
    rows = selectors.run_rows(selectors.RunFilter(task, state, method), page)
    return schemas.RunPage(page=rows.number, pages=rows.paginator.num_pages, runs=schemas.runs_out(list(rows)))


@router.post("", response={202: schemas.RunOut}, summary="Start a run", auth=Token())
def run_start(request: HttpRequest, wanted: schemas.RunIn, response: HttpResponse) -> Any:
    """`Location` is the run. Give it a limit: judgings, minutes or dollars.

    Of kind `external`, your agent sends the candidates; limit it by judgings or minutes.
    """
    owner, version = owner_of(request), version_of(wanted.task)
    outside = wanted.kind == "external"
    if not outside:
        _demand_proposer(wanted.proposer, owner)
    kinds, kind = tasks.device_kinds(version), tasks.find_device_kind(wanted.device or CPU)
    data = {**wanted.dict(), "device": kind.slug if kind else wanted.device}
    if outside:
        data |= {"proposer": EXTERNAL, "verifiers": [], "curriculum": False, "memory": False}
    form = RunForm(data, version=version, kinds=kinds, user=owner, outside=outside)
    _demand_valid(form)
    assert form.config is not None  # noqa: S101 - a valid form has one
    config = _of_agent(form.config, wanted) if outside else form.config
    order = services.RunRequest(version, form.device_kind, config, owner, remember=form.cleaned_data["memory"])
    run = _made(partial(services.run_start, order))
    if outside:
        with suppress(services.Refused):  # the housekeeping was faster
            external.look(run)
    return _accepted(run, response)


def _of_agent(config: RunConfig, wanted: schemas.RunIn) -> RunConfig:
    """With what only the agent of an external run can count, and the name that it gives itself."""
    caps = replace(config.caps, input_tokens=wanted.input_tokens, output_tokens=wanted.output_tokens)
    return replace(config, caps=caps, options={"agent": readable(wanted.agent)})


@router.get("/{id}", response=schemas.RunOut, summary="The current state of a run")
def run(request: HttpRequest, id: uuid.UUID) -> Any:
    return schemas.run_out(selectors.run_of(request.user, id))


@router.get("/{id}/events", response=schemas.EventPage, summary="The log of a run, starting at an event")
async def run_events(
    request: HttpRequest,
    id: uuid.UUID,
    after: Annotated[int, Field(ge=0, le=SEQ_MAX)] = 0,
    limit: Annotated[int, Field(ge=1, le=EVENTS_MAX)] = 200,
    wait: Annotated[float, Field(ge=0, le=WAIT_MAX_S, description="seconds to wait for an event")] = 0.0,
) -> Any:
    found = await sync_to_async(selectors.run_of)(request.user, id)
    if wait:
        await wait_until(request, found.topic, partial(_has_news, found, after), wait)
    return await sync_to_async(_events)(request.user, id, after, limit)


def _has_news(run: Run, after: int) -> bool:
    run.refresh_from_db(fields=["last_seq", "state"])
    return run.last_seq > after or run.is_finished


def _events(user: AnonymousUser | User, id: uuid.UUID, after: int, limit: int) -> schemas.EventPage:
    found = selectors.run_of(user, id)
    rows = withheld.readable_events(user, found.events.filter(seq__gt=after).order_by("seq")[:limit])
    last = rows[-1].seq if rows else after
    shown = [schemas.event_out(row) for row in rows]
    return schemas.EventPage(events=shown, last_seq=last, ended=found.is_finished and last >= found.last_seq)


@router.post("/{id}/fork", response={202: schemas.RunOut}, summary="Fork a run", auth=Token())
def run_fork(request: HttpRequest, id: uuid.UUID, more: schemas.ForkIn, response: HttpResponse) -> Any:
    owner = owner_of(request)
    parent = selectors.run_of(owner, id)
    if parent.proposer != EXTERNAL:
        _demand_proposer(parent.proposer, owner)
    form = BudgetForm(more.dict())
    _demand_valid(form)
    seed = form.seed_or_drawn()
    return _accepted(_made(partial(services.run_fork, parent, owner=owner, seed=seed, more=form.caps())), response)


@router.post("/{id}/{wish}", response=schemas.RunOut, summary="Pause, resume or stop a run", auth=Token())
def run_steer(request: HttpRequest, id: uuid.UUID, wish: Literal["pause", "resume", "stop"]) -> Any:
    owner = owner_of(request)
    found = selectors.run_of(owner, id)
    if found.owner_id != owner.pk and not owner.is_staff:
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", "Only the owner can pause, resume or stop a run.")
    try:
        external.steer(found, WISHES[wish], owner)
    except services.SiteIsFull as error:
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "run-refused", str(error)) from error
    except services.Refused as error:
        raise Problem(HTTPStatus.CONFLICT, "run-ended", str(error)) from error
    return schemas.run_out(selectors.run_of(owner, id))


def _accepted(run: Run, response: HttpResponse) -> Status[schemas.RunOut]:
    response.headers["Location"] = f"/api/v1/runs/{run.code}"
    return Status(HTTPStatus.ACCEPTED, schemas.run_out(selectors.run_of(withheld.EVERYBODY, run.code)))


def _made(make: "partial[Run]") -> Run:
    try:
        return make()
    except services.NoLimit as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", str(error)) from error
    except services.Refused as error:
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "run-refused", str(error)) from error


def _demand_proposer(name: str, owner: User) -> None:
    problem = problem_with(name, owner)
    if problem:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "no-such-proposer", problem)


def _demand_valid(form: BudgetForm) -> None:
    if form.is_valid():
        return
    found: Mapping[str, list[str]] = {name: [str(text) for text in texts] for name, texts in form.errors.items()}
    errors = [{"place": name.strip("_"), "text": text} for name, texts in found.items() for text in texts]
    detail = "; ".join(f"{item['place']}: {item['text']}" for item in errors)
    raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=errors)

"""`/api/v1/runs/{id}/candidates`: what the agent of an external run sends, and the feedback that it gets.

Sending and closing need a token of the run's owner; reading needs none. Does NOT open runs (`__init__.py`) and does NOT
write the log (`driving/external.py`).
"""

import uuid
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Status

from benchmarks import services as judging
from benchmarks.api.auth import MAY_SEND_TOKEN, Token, owner_of
from benchmarks.api.description import STATUS_OF
from benchmarks.api.problems import Problem
from benchmarks.api.submissions import quota_as_problem
from benchmarks.catalogue import folders
from benchmarks.models import Evaluation
from benchmarks.states import FINISHED
from benchmarks.submissions import checking
from benchmarks.views.streams import wait_until

from .. import selectors, services
from ..driving import external
from ..evolve.archive import result_from_json
from ..evolve.budget import Cost
from ..evolve.llm.feedback import failure, remarks, times
from ..evolve.model import CandidateView, Proposal
from ..models import Candidate, Run
from ..proposals import EXTERNAL
from ..record import withheld
from ..states import IN_FLIGHT
from . import schemas

WAIT_MAX_S = 60.0
_RETRY_S = {"too-many-open": 5, "too-many-refused": 3600}
router = Router(tags=["runs"])


@router.post("/{id}/candidates", response={202: schemas.CandidateOut}, summary="Send a candidate", auth=Token())
def candidate_send(request: HttpRequest, id: uuid.UUID, wanted: schemas.CandidateIn, response: HttpResponse) -> Any:
    """`Location` is the candidate. It is judged and metered like any submission, or refused with a reason."""
    run = _own(request, id)
    try:
        with quota_as_problem():
            key = external.send(run, _sent(run, wanted))
    except external.SendRefused as error:
        raise _problem(error) from error
    except checking.Busy as error:
        raise _busy(error) from error
    except services.RunBusy as error:
        raise _busy(error) from error
    except judging.Refused as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "submissions-closed", str(error)) from error
    response.headers["Location"] = f"/api/v1/runs/{run.code}/candidates/{key}"
    return Status(HTTPStatus.ACCEPTED, _shown(request.user, id, key))


@router.get(
    "/{id}/candidates/{key}",
    response=schemas.CandidateOut,
    summary="A candidate and its feedback",
    openapi_extra=MAY_SEND_TOKEN,
)
async def candidate(
    request: HttpRequest,
    id: uuid.UUID,
    key: str,
    wait: Annotated[float, Field(ge=0, le=WAIT_MAX_S, description="seconds to wait for its verdict")] = 0.0,
) -> Any:
    """Of any run, external or not."""
    row = await sync_to_async(_row)(request.user, id, key)
    if wait and row.ticket and row.state in IN_FLIGHT:
        await wait_until(request, f"evaluation:{row.ticket}", partial(_has_ended, row.ticket), wait)
    return await sync_to_async(_shown)(request.user, id, key)


@router.post("/{id}/close", response=schemas.RunOut, summary="Close an external run", auth=Token())
def run_close(request: HttpRequest, id: uuid.UUID, said: schemas.CloseIn) -> Any:
    """The run takes no more candidates and ends when its open judgings have ended."""
    run = _own(request, id)
    try:
        external.close(run, said.text)
    except services.RunBusy as error:
        raise _busy(error) from error
    except external.SendRefused as error:
        raise _problem(error) from error
    return schemas.run_out(selectors.run_of(owner_of(request), id))


def _own(request: HttpRequest, id: uuid.UUID) -> Run:
    """An external run of the owner of the token. Raises Problem."""
    owner = owner_of(request)
    run = selectors.run_of(owner, id)
    if run.owner_id != owner.pk:
        raise Problem(HTTPStatus.FORBIDDEN, "not-yours", "Only the owner of a run can send candidates or close it.")
    if run.proposer != EXTERNAL:
        raise Problem(
            HTTPStatus.CONFLICT,
            "not-external",
            "The site itself proposes the candidates of this run; only external runs accept yours.",
        )
    return run


def _sent(run: Run, wanted: schemas.CandidateIn) -> external.Sent:
    proposal = Proposal(
        source=wanted.source,
        language=run.language,
        name=wanted.name,
        thought=wanted.thought,
        parents=tuple(dict.fromkeys(wanted.parents)),
        operator=wanted.operator,
        arm=wanted.model or None,
    )
    return external.Sent(
        proposal,
        prompt=wanted.prompt,
        generation=wanted.generation,
        island=wanted.island,
        model=wanted.model,
        cost=Cost(usd=wanted.usd, input_tokens=wanted.input_tokens, output_tokens=wanted.output_tokens),
        key=wanted.key,
    )


def _problem(error: external.SendRefused) -> Problem:
    after = {"retry_after_s": _RETRY_S[error.code]} if error.code in _RETRY_S else {}
    return Problem(HTTPStatus(STATUS_OF[error.code]), error.code, str(error), **after)


def _busy(error: checking.Busy | services.RunBusy) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), retry_after_s=checking.RETRY_S)


def _row(user: AnonymousUser | User, id: uuid.UUID, key: str) -> Candidate:
    return selectors.candidate_of(selectors.run_of(user, id), key)


def _has_ended(ticket: str) -> bool:
    return not Evaluation.objects.filter(code=ticket).exclude(state__in=FINISHED).exists()


def _shown(user: AnonymousUser | User, id: uuid.UUID, key: str) -> schemas.CandidateOut:
    """The candidate as this reader may see it, after its latest results have been recorded."""
    run = selectors.run_of(user, id)
    if run.proposer == EXTERNAL:
        with suppress(services.Refused):  # somebody else is writing its log: shown as the rows are
            external.look(run)
        run = selectors.run_of(user, id)
    row = selectors.candidate_of(run, key)
    row.run = run
    hidden = bool(withheld.hidden_keys(user, [row]))
    withheld.readable_candidates(user, [row])
    return schemas.candidate_out(row, None if hidden else _feedback(row))


def _feedback(row: Candidate) -> str | None:
    """The text that the site's own models see about a kernel."""
    events = row.run.events.filter(candidate=row.key, type="evaluation.finished")
    payload = events.order_by("-seq").values_list("payload", flat=True).first()
    if payload is None:
        return None
    result = result_from_json(payload["result"])
    if not result.correct:
        view = CandidateView(row.key, row.generation, row.slot, row.island, "optimise", result=result)
        return failure(view)
    task = folders.shown_spec(row.run.task_version)
    return "\n".join([times(result), *remarks(result, task, row.run.language)])

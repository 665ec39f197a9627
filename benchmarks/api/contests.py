"""`/contests`: the list, one contest with its boards, and taking part.

Does NOT make contests: staff do, on pages. Hidden configurations are null until the final judging begins.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from benchmarks import teams
from benchmarks.contests import results, running, sealing
from benchmarks.contests.results import ContestBoard
from benchmarks.models import Contest
from benchmarks.services import Refused

from .auth import MAY_SEND_TOKEN, Token, owner_of
from .problems import Problem
from .schemas import TeamName

router = Router(tags=["contests"])


class ContestOut(Schema):
    slug: str
    title: str
    state: str = Field(description="announced, running, judging, finished or cancelled")
    starts: datetime
    ends: datetime
    best_n: int = Field(description="entries of each participant that are judged at the end")
    tasks: list[str]
    devices: list[str]
    url: str


class ContestLineOut(Schema):
    rank: int
    participant: str
    speedup: float
    ci95: tuple[float, float]
    url: str | None = Field(description="of its evaluation, if everybody may read it")


class ContestBoardOut(Schema):
    task: str
    device: str
    entries: list[ContestLineOut]


class ContestSumOut(Schema):
    rank: int
    participant: str
    boards: int = Field(description="on how many boards there is an accepted entry")
    mean: float = Field(description="geometric mean of the speedups on these")


class ContestDetail(ContestOut):
    rules: str
    participants: int
    takes_part: bool = Field(description="the owner of the token, alone or with a team")
    sealed_sha256: str | None = Field(description="of `sealed`")
    sealed: str | None = Field(description="hidden configurations with a salt; null until the final judging begins")
    overall: list[ContestSumOut]
    boards: list[ContestBoardOut]


@router.get("", response=list[ContestOut], summary="Contests, newest first", openapi_extra=MAY_SEND_TOKEN)
def contests(request: HttpRequest) -> Any:
    return [ContestOut(**_facts(row)) for row in results.contests(request.user)]


@router.get("/{slug}", response=ContestDetail, summary="A contest with its boards", openapi_extra=MAY_SEND_TOKEN)
def contest(request: HttpRequest, slug: str) -> Any:
    return _detail(request, results.contest_named(request.user, slug))


@router.post("/{slug}/join", response=ContestDetail, summary="Take part in a contest", auth=Token())
def contest_join(request: HttpRequest, slug: str, team: TeamName = "") -> Any:
    """Alone, or with a `team` of which the owner of the token is an owner."""
    owner = owner_of(request)
    found = results.contest_named(owner, slug)
    try:
        running.join(found, owner, teams.team_for(owner, team, owned=True))
    except Refused as error:
        raise Problem(HTTPStatus.CONFLICT, "not-open", str(error)) from error
    return _detail(request, found)


def _facts(row: Contest) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("slug", "title", "state", "starts", "ends", "best_n")},
        "tasks": [item.task.path for item in row.tasks.all()],
        "devices": [kind.slug for kind in row.device_kinds.all()],
        "url": row.get_absolute_url(),
    }


def _detail(request: HttpRequest, row: Contest) -> ContestDetail:
    boards = results.boards(row)
    sums = [
        ContestSumOut(rank=line.rank, participant=line.participant, boards=line.solved, mean=line.mean)
        for line in results.overall(boards)
    ]
    return ContestDetail(
        **_facts(row),
        rules=row.rules_text,
        participants=row.participants.count(),
        takes_part=results.takes_part(row, request.user),
        sealed_sha256=row.sealed_sha256 or None,
        sealed=sealing.sealed_text(row) if row.is_over else None,
        overall=sums,
        boards=[_board(board) for board in boards],
    )


def _board(board: ContestBoard) -> ContestBoardOut:
    lines = [
        ContestLineOut(
            rank=line.rank,
            participant=line.participant,
            speedup=line.score,
            ci95=(line.score_lo, line.score_hi),
            url=line.url or None,
        )
        for line in board.lines
    ]
    return ContestBoardOut(task=board.task.task.path, device=board.device_kind.slug, entries=lines)

"""A contest from its draft to its end: made by staff, announced, joined, moved on by the clock.

Every move is a conditional update (`_move`), so of two who try at once one succeeds. Does NOT choose what is judged at
the end (`finals.py`) and does NOT read hidden configurations (`sealing.py`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from ..harness import TaskError
from ..models import Contest, ContestParticipant, ContestTask, DeviceKind, Task, Team
from ..services import Refused
from ..states import CONTEST_MOVES, ContestState, MembershipState
from ..transactions import repeated
from . import finals, sealing

logger = logging.getLogger(__name__)
JOINABLE = (ContestState.ANNOUNCED, ContestState.RUNNING)


@dataclass(frozen=True)
class ContestDraft:
    """What staff write. `hidden` None keeps what was sealed before."""

    slug: str
    title: str
    rules_text: str
    starts: datetime
    ends: datetime
    best_n: int
    tasks: Sequence[Task]
    device_kinds: Sequence[DeviceKind]
    hidden: sealing.Hidden | None = None


def contest_save(draft: ContestDraft, *, by: User, contest: Contest | None = None) -> Contest:
    """A new contest, or another draft of one that is not announced. Raises Refused."""
    columns: dict[str, Any] = {
        name: getattr(draft, name) for name in ("slug", "title", "rules_text", "starts", "ends", "best_n")
    }
    if draft.hidden is not None:
        columns["sealed"], columns["sealed_sha256"] = sealing.seal(draft.hidden)
    try:
        with transaction.atomic():
            row = contest or Contest.objects.create(**columns, created_by=by)
            if not Contest.objects.filter(pk=row.pk, state=ContestState.DRAFT).update(**columns):
                raise Refused("The contest has been announced, so it cannot be changed any more.")
            _set_tasks(row, draft)
    except IntegrityError as error:
        raise Refused("Another contest already has this address. Choose another name.") from error
    row.refresh_from_db()
    return row


def _set_tasks(contest: Contest, draft: ContestDraft) -> None:
    before = set(contest.tasks.values_list("task", flat=True))
    if before and draft.hidden is None and contest.sealed_sha256 and before != {task.pk for task in draft.tasks}:
        raise Refused("The tasks have changed. Write the hidden configurations again.")
    contest.tasks.all().delete()
    ContestTask.objects.bulk_create(
        ContestTask(contest=contest, position=position, task=task) for position, task in enumerate(draft.tasks)
    )
    contest.device_kinds.set(draft.device_kinds)


def announce(contest: Contest) -> None:
    """From now on everybody sees it and nothing of it changes. Raises Refused."""
    if contest.ends <= timezone.now():
        raise Refused("Its end has passed.")
    if not _move(contest, ContestState.ANNOUNCED):
        raise Refused("The contest was announced before.")


def cancel(contest: Contest, why: str) -> None:
    """Before its end; its hidden configurations stay sealed. Raises Refused."""
    if not _move(contest, ContestState.CANCELLED, state_text=why[:500], finished=timezone.now()):
        raise Refused("Only an announced or running contest can be cancelled.")


def join(contest: Contest, account: User, team: Team | None = None) -> None:
    """Take part, from now to the end, alone or with a team. Joining twice is joining once. Raises Refused.

    Nobody takes part alone and with a team, or with two teams, when they join. Who enters a team later is not asked:
    what an account submits counts for one participant (`finals.submitted`).
    """
    if contest.state not in JOINABLE or contest.ends <= timezone.now():
        raise Refused("Nobody can join the contest now.")
    with transaction.atomic():
        Contest.objects.select_for_update().get(pk=contest.pk)
        if team is None:
            _refuse_second(contest, [account.pk], besides=Q(account=account))
            ContestParticipant.objects.get_or_create(contest=contest, account=account)
        else:
            inside = team.memberships.filter(state=MembershipState.MEMBER).values_list("account", flat=True)
            _refuse_second(contest, list(inside), besides=Q(team=team))
            ContestParticipant.objects.get_or_create(contest=contest, team=team)


def _refuse_second(contest: Contest, accounts: list[int], *, besides: Q) -> None:
    others = contest.participants.exclude(besides)
    same = {"team__memberships__account__in": accounts, "team__memberships__state": MembershipState.MEMBER}
    if others.filter(account__in=accounts).exists() or others.filter(**same).exists():
        raise Refused("A member of the team already takes part, alone or with another team.")


def advance() -> None:
    """Move on whatever the clock says. One contest that cannot be judged does not hold up the others."""
    now = timezone.now()
    for contest in Contest.objects.filter(state=ContestState.ANNOUNCED, starts__lte=now):
        _move(contest, ContestState.RUNNING)
    for contest in Contest.objects.filter(state=ContestState.RUNNING, ends__lte=now):
        if not finals.unfinished(contest).exists():
            _begin_judging(contest)
    for contest in Contest.objects.filter(state=ContestState.JUDGING):
        finals.tend(contest)
        if finals.are_over(contest):
            _finish(contest)


@repeated
def _begin_judging(contest: Contest) -> None:
    try:
        with transaction.atomic():
            if _move(contest, ContestState.JUDGING):
                finals.begin(contest)
    except (TaskError, sealing.BadConfigurations) as error:  # its text may name a hidden configuration
        logger.error("the final judging of the contest %s cannot begin: %s", contest.slug, type(error).__name__)


@repeated
def _finish(contest: Contest) -> None:
    with transaction.atomic():
        if _move(contest, ContestState.FINISHED, finished=timezone.now()):
            finals.freeze(contest)


def _move(contest: Contest, target: ContestState, **columns: Any) -> bool:
    """The one way into a state: succeeds for exactly one of those who try."""
    sources = [state for state, targets in CONTEST_MOVES.items() if target in targets]
    moved = Contest.objects.filter(pk=contest.pk, state__in=sources).update(state=target, **columns) == 1
    if moved:
        contest.refresh_from_db()
    return moved

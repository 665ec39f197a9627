"""What people do with requests: post one, vote, accept an answer, close it; and what staff decide about one.

Every change of state is a conditional update (`request_move`), so of two who try at once one succeeds. Does NOT examine
definitions (`examining.py`) and does NOT decide who may read a request (`lists.py`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from .. import quotas
from ..boards.standings import boards_marked
from ..catalogue.importing import task_restore, task_withdraw, task_words_hide, task_words_show
from ..comments import cleaned, is_blank
from ..harness import CPU
from ..judgings.queue import wake_examination
from ..models import DeviceKind, Evaluation, KernelRequest, RequestVote, TaskVersion
from ..moderation import decisions
from ..selectors import find_device_kind
from ..services import Refused
from ..states import REQUEST_MOVES, REQUEST_UNFINISHED, ActionKind, Moderation, RequestState, Switch
from ..switches import paused
from ..transactions import repeated
from .files import checked_files
from .lists import answerable, published

PER_DAY, UNFINISHED_MAX, VOTES_PER_DAY = 5, 10, 200  # of one account
WORTH_MAX_S = 3600
HIDDEN_TITLE = "Request {}, hidden by staff"
TITLE_MAX_CHARS, REASON_MAX_CHARS, LICENCE_MAX_CHARS = 120, 4_000, 200


class TooManyRequests(Refused):
    """An account has posted or voted as often as it may for now."""


@dataclass(frozen=True)
class RequestDraft:
    """What somebody posts. `files` are texts by name; `worth_s` is the judging time that is offered for answers."""

    title: str
    reason: str
    files: Mapping[str, str]
    device_kinds: Sequence[DeviceKind]
    worth_s: int = 0
    licence: str = ""


def request_create(draft: RequestDraft, *, by: User) -> KernelRequest:
    """A request whose definition is to be examined; its owner's alone until that is done.

    Raises Refused, TooManyRequests.
    """
    if reason := paused(Switch.REQUESTS):
        raise Refused(reason)
    files = checked_files(draft.files)
    columns: dict[str, Any] = {
        "title": _one_line(draft.title, TITLE_MAX_CHARS, "title"),
        "reason": _text(draft.reason),
        "licence": _one_line(draft.licence, LICENCE_MAX_CHARS, "licence") if draft.licence.strip() else "",
        "files": files,
        "files_sha256": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
        "worth_s": draft.worth_s,
        "worth_left_s": draft.worth_s,
    }
    if not draft.device_kinds:
        raise Refused("Choose at least one device kind.")
    if not 0 <= draft.worth_s <= WORTH_MAX_S:
        raise Refused(f"A request offers at most {WORTH_MAX_S} s of judging time.")
    try:
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).get(pk=by.pk)  # two at once are counted one after the other
            _refuse_too_many(by)
            row = KernelRequest.objects.create(owner=by, **columns)
            row.device_kinds.set(draft.device_kinds)
            if draft.worth_s:
                quotas.offer(quotas.payer_of(by, ""), draft.worth_s, f"offered for answers to request {row.pk}")
            wake_examinations()
    except quotas.NotEnoughTime as error:
        raise Refused(str(error)) from error
    except IntegrityError as error:
        raise Refused("You have already posted this definition.") from error
    return row


def wake_examinations() -> None:
    """Once the transaction commits, a compile worker of the CPU looks at what is to be examined."""
    if kind := find_device_kind(CPU):
        wake_examination(kind.slug)


def request_vote(request: KernelRequest, *, by: User, wanted: bool) -> None:
    """Vote for a request, or take the vote back. The same twice is the same once. Raises Refused, TooManyRequests."""
    if not wanted:
        RequestVote.objects.filter(request=request, account=by).delete()
        return
    if request.owner_id == by.pk:
        raise Refused("You cannot vote for a request of your own.")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=by.pk)
        held = published().select_for_update(of=("self",)).filter(pk=request.pk, state=RequestState.OPEN)
        if not held.exists():
            raise Refused("You can only vote for open requests.")
        recent = RequestVote.objects.filter(account=by, created__gte=timezone.now() - timedelta(days=1))
        if recent.count() >= VOTES_PER_DAY:
            raise TooManyRequests(f"That is {VOTES_PER_DAY} votes within a day, which is the limit.")
        RequestVote.objects.get_or_create(request=request, account=by)


def request_accept(request: KernelRequest, evaluation: Evaluation) -> None:
    """By its owner, who has seen to that: this verified kernel is the answer. Raises Refused."""
    with transaction.atomic():
        if request.is_hidden or not answerable(request).filter(pk=evaluation.pk).exists():
            raise Refused("Only a public, accepted submission to the task of the request can be its answer.")
        _end(request, RequestState.ANSWERED, "The request is not open.", accepted=evaluation)


def request_close(request: KernelRequest, why: str) -> None:
    """By its owner, who has seen to that, with a public reason. Raises Refused."""
    refusal = "Only a request that is waiting or open can be closed. If it is being examined, try again soon."
    with transaction.atomic():
        _end(request, RequestState.CLOSED, refusal, state_text=_text(why), files={})


@repeated
def request_decide(request: KernelRequest, kind: ActionKind, *, by: User, reason: str, note: str = "") -> None:
    """Hide a published request with its task, or show both again. Raises Refused where that leads nowhere."""
    hide = kind == ActionKind.HIDE
    if not hide and kind != ActionKind.RESTORE:
        raise Refused("A request can be hidden or restored.")
    before, after = (Moderation.OK, Moderation.HIDDEN) if hide else (Moderation.HIDDEN, Moderation.OK)
    with transaction.atomic():
        boards_marked(TaskVersion.objects.filter(task=request.task_id).values_list("pk", flat=True))
        rows = KernelRequest.objects.filter(pk=request.pk, task__isnull=False, moderation=before)
        if request.task is None or rows.update(moderation=after) != 1:
            raise Refused("The request is already hidden." if hide else "The request is not hidden.")
        if hide:
            task_withdraw(request.task)
            task_words_hide(request.task, HIDDEN_TITLE.format(request.pk))
        else:
            task_restore(request.task)
            task_words_show(request.task, licence=request.licence)
        words = {"public_reason": reason, "private_note": note}
        decisions.log_action(kind, by, f"request {request.pk}", request=request, **words)


def request_move(request: KernelRequest, target: RequestState, **columns: Any) -> bool:
    """The one way into a state: succeeds for exactly one of those who try."""
    sources = [state for state, targets in REQUEST_MOVES.items() if target in targets]
    return KernelRequest.objects.filter(pk=request.pk, state__in=sources).update(state=target, **columns) == 1


def offer_end(request: KernelRequest) -> None:
    """What is left of the offer goes back to the owner; in the transaction of the end."""
    row = KernelRequest.objects.select_for_update().get(pk=request.pk)
    KernelRequest.objects.filter(pk=row.pk).update(worth_left_s=0.0)
    payer = quotas.payer_of(row.asker, "")
    quotas.give_back(payer, row.worth_left_s, f"not used for request {row.pk}", offered=row.created)


def _end(request: KernelRequest, target: RequestState, refusal: str, **columns: Any) -> None:
    if not request_move(request, target, ended=timezone.now(), **columns):
        raise Refused(refusal)
    offer_end(request)


def _one_line(text: str, chars_max: int, what: str) -> str:
    line = " ".join(cleaned(text).split())
    if is_blank(line):
        raise Refused(f"The {what} is empty.")
    if len(line) > chars_max:
        raise Refused(f"The {what} has at most {chars_max} characters.")
    return line


def _text(text: str) -> str:
    text = cleaned(text)
    if is_blank(text):
        raise Refused("Write the reason.")
    if len(text) > REASON_MAX_CHARS:
        raise Refused(f"The reason has at most {REASON_MAX_CHARS} characters.")
    return text


def _refuse_too_many(by: User) -> None:
    mine = KernelRequest.objects.filter(owner=by)
    if mine.filter(created__gte=timezone.now() - timedelta(days=1)).count() >= PER_DAY:
        raise TooManyRequests(f"That is {PER_DAY} requests within a day, which is the limit.")
    if mine.filter(state__in=REQUEST_UNFINISHED).count() >= UNFINISHED_MAX:
        raise Refused(f"{UNFINISHED_MAX} of your requests are open, which is the limit. Close one of them first.")

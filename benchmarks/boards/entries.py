"""Frozen results of contests follow what staff have decided about the program, as rows of leaderboards do.

`moderation/decisions.py` calls it for a decision, `standings.py` where a judging makes known what a decision reaches.
Does NOT decide about results whose submissions have been deleted, nor write what finals have scored (`contests/`).
"""

from collections import defaultdict
from datetime import datetime
from typing import Any

from django.db.models import Max, Q

from ..models import ContestEntry, Evaluation, ModerationAction, Refusal, Submission
from ..states import ActionKind, Moderation
from . import confirmations
from .same_code import Name, names_of, of_one_person, own_names_of_many

_OF_PROGRAMS = (ActionKind.INVALIDATE, ActionKind.RESTORE)  # which count for other submissions of the program, too


def entries_follow(submission: Submission) -> None:
    """Write into entries of contests whether staff have taken them down, for all of its owner for its task.

    With a submission go all entries of the same program that its owner had, unless staff have confirmed them since.
    Also if it has been deleted: staff had invalidated what is remembered without a verdict. Not covered: entries whose
    own submissions have been deleted, and those of other people.
    """
    mine, task = of_one_person(submission), submission.task_version.task_id
    submissions = Submission.objects.filter(mine or Q(pk=None))
    entered = {item.pk: item for item in submissions.filter(contest_entries__task__task=task)}
    if not entered:
        return
    moderated = submissions.moderated().filter(task_version__task=task).order_by().values("pk")
    decided = ModerationAction.objects.filter(submission__in=moderated, kind__in=_OF_PROGRAMS).order_by("pk")
    last = {action.submission_id: action for action in decided}
    refused = Refusal.objects.filter(mine or Q(pk=None), verdict="", task_version__task=task)
    judgings = Evaluation.objects.filter(submission__in={*last, *entered})
    known = list(judgings.select_related("submission__method").defer("report"))
    own, names = own_names_of_many(known, {"task_version__task": task}), defaultdict[Any, set[Name]](set)
    for item in known:
        names[item.submission_id] |= own[item.pk]
    made = [row for row in last.values() if row.kind == ActionKind.INVALIDATE]
    invalidated = [(row.created, names[row.submission_id]) for row in made]
    invalidated += [(row.finished, names_of(row, tokens=True)) for row in refused]
    entries, down = ContestEntry.objects.filter(submission__in=entered), []
    for entry, submission_pk, device_kind in entries.values_list("pk", "submission", "device_kind"):
        one = entered[submission_pk]
        found = [moment for moment, about in invalidated if not names[one.pk].isdisjoint(about)]
        if one.moderation != Moderation.OK or _is_unconfirmed(one, device_kind, found):
            down.append(entry)
    entries.filter(pk__in=down).update(taken_down=True)
    entries.exclude(pk__in=down).update(taken_down=False)


def _is_unconfirmed(submission: Submission, device_kind: int, invalidated: list[datetime]) -> bool:
    """Whether one of these decisions about others of the program was not followed by a confirmation on the device."""
    if not invalidated:
        return False
    there = confirmations.of(submission).filter(device_kind=device_kind)
    confirmed = there.aggregate(newest=Max("confirmed"))["newest"]
    return confirmed is None or max(invalidated) > confirmed

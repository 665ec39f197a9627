"""Decisions of staff about runs: to withhold a candidate or hide a run, each with a public reason, and to undo it.

Each decision changes one state and adds one line to the public moderation log, in one transaction. What readers still
see is in `record/withheld.py` and `selectors.py`. Does NOT stop a run, and deletes nothing.
"""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from benchmarks.boards import standings
from benchmarks.models import Evaluation, ModerationAction, Submission
from benchmarks.moderation import decisions
from benchmarks.services import Refused
from benchmarks.states import ActionKind, Moderation, Origin
from benchmarks.transactions import repeated

from .models import Candidate, Run

_OF_HIDING = (ActionKind.HIDE, ActionKind.SHOW, ActionKind.RESTORE)


@repeated
def withhold(row: Candidate, *, by: User, reason: str, note: str = "") -> None:
    """Hides the submission of the candidate, too. Raises Refused where it is withheld already."""
    with transaction.atomic():
        _turn(row, on=True, refusal="The candidate is already withheld.")
        decisions.log_action(ActionKind.HIDE, by, subject(row.run, row), public_reason=reason, private_note=note)
        for submission in _submissions(row).exclude(moderation=Moderation.HIDDEN):
            decisions.decide(submission, ActionKind.HIDE, by=by, reason=reason, note=note)


@repeated
def show(row: Candidate, *, by: User, reason: str, note: str = "") -> None:
    """Restores what was hidden with the candidate, too. Raises Refused where it is not withheld."""
    with transaction.atomic():
        _turn(row, on=False, refusal="The candidate is not withheld.")
        decisions.log_action(ActionKind.RESTORE, by, subject(row.run, row), public_reason=reason, private_note=note)
        for submission in _hidden_with(row):
            decisions.decide(submission, ActionKind.RESTORE, by=by, reason=reason, note=note)


def hide_run(run: Run, *, by: User, reason: str, note: str = "") -> None:
    """Raises Refused where it is hidden already."""
    _turn_run(run, ActionKind.HIDE, by, reason, note)


def show_run(run: Run, *, by: User, reason: str, note: str = "") -> None:
    """Raises Refused where it is not hidden."""
    _turn_run(run, ActionKind.RESTORE, by, reason, note)


def subject(run: Run, row: Candidate | None = None) -> str:
    """What the log calls a run or a candidate: numbers and the task, no word of its owner."""
    named = f"run {run.code} on {run.task_version.task.path}"
    return f"candidate {row.position} of {named}" if row else named


def _turn(row: Candidate, *, on: bool, refusal: str) -> None:
    if Candidate.objects.filter(pk=row.pk, withheld=not on).update(withheld=on) != 1:
        raise Refused(refusal)


def _turn_run(run: Run, kind: ActionKind, by: User, reason: str, note: str) -> None:
    on = kind == ActionKind.HIDE
    with transaction.atomic():
        if Run.objects.filter(pk=run.pk, hidden=not on).update(hidden=on) != 1:
            raise Refused("The run is already hidden." if on else "The run is not hidden.")
        decisions.log_action(kind, by, subject(run), public_reason=reason, private_note=note)


@repeated
def follow(run: Run, key: str) -> None:
    """Hides what was submitted a moment ago of a candidate that staff had withheld before."""
    with transaction.atomic():
        row = Candidate.objects.select_for_update().filter(run=run, key=key, withheld=True).first()
        for submission in Submission.objects.filter(_made(row)).exclude(moderation=Moderation.HIDDEN) if row else ():
            standings.boards_marked(submission.task_version.task.versions.values_list("pk", flat=True))
            Submission.objects.filter(pk=submission.pk).update(moderation=Moderation.HIDDEN)
            decisions.standings_follow(submission)  # it may be one of before, which was judged already


def _submissions(row: Candidate) -> QuerySet[Submission]:
    """By its ticket, which in a fork is its parent's, or by what it was submitted with."""
    tickets = Evaluation.objects.filter(code__in=[row.ticket] if row.ticket else [])
    return Submission.objects.filter(Q(pk__in=tickets.values("submission")) | _made(row))


def _hidden_with(row: Candidate) -> list[Submission]:
    """Not what staff had hidden for itself, nor what is hidden with another candidate as well, as that of a fork."""
    same = Candidate.objects.filter(Q(pk=row.pk) | Q(ticket=row.ticket or None))
    same = same.select_related("run__task_version__task__suite")
    if any(candidate.withheld for candidate in same):
        return []
    names = [subject(candidate.run, candidate) for candidate in same]
    hidden = _submissions(row).filter(moderation=Moderation.HIDDEN)
    return [submission for submission in hidden if _was_hidden_with(submission, names)]


def _was_hidden_with(submission: Submission, candidates: list[str]) -> bool:
    """Whether one of these was withheld when it was hidden. `follow` hides as well, of which the log says nothing."""
    last = ModerationAction.objects.filter(submission=submission, kind__in=_OF_HIDING).order_by("pk").last()
    if last is None or last.kind != ActionKind.HIDE:
        return True
    lines = ModerationAction.objects.filter(subject__in=candidates, pk__lt=last.pk).order_by("pk")
    return ActionKind.HIDE in {line.subject: line.kind for line in lines}.values()


def _made(row: Candidate) -> Q:
    """What this run has submitted of a candidate: the log may not say the ticket yet."""
    return Q(client_token=row.run.token_of(row.key), owner=row.run.owner_id, origin=Origin.AGENT)

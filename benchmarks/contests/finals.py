"""The end of a contest: which entries are judged again, with which configurations, and what is frozen of it.

All of one device kind are judged by one worker in one sitting (`judgings/sittings.py`); where that worker is lost, the
sitting begins anew with another one. Does NOT move contests (`running.py`).
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db import transaction
from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from ..boards.reviews import review_reason
from ..boards.rows import best_rows, leading
from ..boards.same_code import Name, judged_versions, names_of
from ..boards.settled import JudgedProgram, Programs
from ..boards.standings import boards_marked
from ..catalogue.folders import definition_of, spec_of
from ..harness import Verdict, spec_from_json, spec_to_json
from ..judgings.moves import evaluation_cancel
from ..models import (
    Contest,
    ContestEntry,
    ContestParticipant,
    ContestSitting,
    ContestTask,
    DeletedScore,
    Evaluation,
    ModerationAction,
    RuleSet,
    StoredTask,
    Submission,
    Task,
    TaskVersion,
    TeamMembership,
)
from ..notifications.telling import notify
from ..querysets import HEAVY
from ..services import evaluation_create
from ..states import (
    FINISHED,
    EvaluationReason,
    MembershipState,
    Moderation,
    NotificationKind,
    Priority,
    State,
    TaskVersionStatus,
    WorkerState,
)
from . import sealing

LOST_AFTER = timedelta(minutes=10)  # without a sign of the worker of a sitting
KEPT_S = 60  # who leads a running contest, where nothing shows that it has changed
RUNS_AWAITED = timedelta(days=1)  # after the end
RESTARTS_MAX = 2  # after that what was judged counts, whoever judged it


def submitted(contest: Contest) -> Any:
    """Full judgings of what participants submitted between the start of the contest and its end.

    A judging that is requested after the end does not count, since repeated requests could delay the final judging.
    What an account submits for a team counts for the team alone. What it submits for another participant than its first
    submission does not count, so nobody takes part twice by entering a team later. `who` is the key of the participant.
    """
    rows = _in_time(contest)
    if not contest.participants.filter(team__isnull=False).exists():
        return rows  # an account counts for itself
    owner = "submission__owner"
    for_teams = rows.filter(submission__team__isnull=False).order_by().values(owner)
    counted = (
        rows.filter(submission__owner__in=for_teams).order_by().values(owner).annotate(n=Count("who", distinct=True))
    )
    several = list(counted.filter(n__gt=1).values_list(owner, flat=True))
    first = rows.filter(submission__owner=OuterRef(owner)).order_by("submission__created", "submission")
    return (
        rows.filter(~Q(submission__owner__in=several) | Q(who=Subquery(first.values("who")[:1]))) if several else rows
    )


def _in_time(contest: Contest) -> Any:
    alone = contest.participants.filter(account__is_active=True).values("account")
    together = contest.participants.filter(team__isnull=False).values("team")
    return (
        Evaluation.objects.full()
        .filter(
            Q(submission__team=None, submission__owner__in=alone)
            | Q(submission__team__in=together, submission__owner__is_active=True),
            queued__lt=contest.ends,
            device_kind__in=contest.device_kinds.values("pk"),
            task_version__in=TaskVersion.objects.filter(task__in=contest.tasks.values("task")).values("pk"),
            submission__created__gte=contest.starts,
            submission__created__lt=contest.ends,
        )
        .annotate(who=Coalesce(_key(0 - F("submission__team_id")), _key(F("submission__owner_id"))))
    )


def _key(number: Combinable) -> Any:
    return ExpressionWrapper(number, BigIntegerField())


def unfinished(contest: Contest) -> Any:
    """What the final judging waits for: what is judged behind everybody else must not put it off without end.

    So it waits for first judgings alone, and for those of agent runs for `RUNS_AWAITED` at most.
    """
    rows = submitted(contest).filter(reason=EvaluationReason.INITIAL).exclude(state__in=FINISHED)
    is_late = contest.ends < timezone.now() - RUNS_AWAITED
    return rows.filter(priority=Priority.PERSON) if is_late else rows


def accepted(contest: Contest) -> Any:
    """What of it may be judged at the end."""
    rows = submitted(contest).filter(
        verdict=Verdict.PASS,
        score__isnull=False,
        ruleset__name=settings.KBENCH_RULESET,
        submission__moderation=Moderation.OK,
    )
    return _readable(rows)


def _readable(rows: Any) -> Any:
    return rows.select_related("submission", "task_version").defer("report", "error_internal", *HEAVY)


@dataclass(frozen=True)
class ContestLeader:
    """The best program of a participant on a board: the judging that stands for it, and what all of them have scored.

    `who` is the key of the participant.
    """

    who: int
    evaluation: Evaluation
    score: float
    score_lo: float
    score_hi: float
    is_contested: bool

    @property
    def timing_trust(self) -> str:
        return str(self.evaluation.timing_trust)


def leaders(contest: Contest) -> list[ContestLeader]:
    """The best of each participant for each board that is not in question, as on leaderboards.

    To find them the database reads every judging that counts. So they are cached until a judging ends on a device of
    the contest, somebody joins or staff decide something. Other changes are seen after `KEPT_S` at most.
    """
    key = f"contest-leaders:{contest.pk}:{_fingerprint(contest)}"
    found: dict[int, tuple[int, float, float, float, bool]] | None = caches["boards"].get(key)
    if found is None:
        best = leading(accepted(contest), "task_version__task", "device_kind", "who")
        found = {
            row.evaluation_id: (who, row.score, row.score_lo, row.score_hi, row.is_contested)
            for (_, _, who), row in best.items()
        }
        caches["boards"].set(key, found, KEPT_S)
    shown = Evaluation.objects.filter(pk__in=found, submission__moderation=Moderation.OK)
    return [ContestLeader(found[row.pk][0], row, *found[row.pk][1:]) for row in _readable(shown)]


def _fingerprint(contest: Contest) -> str:
    """A hash that changes whenever the leaders may have changed; each part is read at the end of an index."""
    ended = Evaluation.objects.filter(state=State.DONE, device_kind=OuterRef("pk")).order_by("-finished")
    newest = contest.device_kinds.annotate(newest=Subquery(ended.values("finished")[:1])).order_by("pk")
    joined = contest.participants.aggregate(rows=Count("pk"), newest=Max("pk"))
    decided = ModerationAction.objects.aggregate(newest=Max("pk"))
    deleted = DeletedScore.objects.aggregate(newest=Max("pk"))
    parts = (
        *(settings.KBENCH_RULESET, contest.state, list(newest.values_list("pk", "newest"))),
        *(joined, decided, deleted),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def best_entries(contest: Contest, count: int) -> Iterator[tuple[int, int, int, Evaluation]]:
    """Task, device kind, key of the participant and judging.

    The best `count` different programs of each participant on each board. Those in question take no place of these; as
    many of them are judged as well, because staff may confirm them until the end. Texts that differ in names of
    variables have other tokens, but mostly one compiled code.
    """
    shown = defaultdict[tuple[int, int, int], list[Evaluation]](list)
    for item in accepted(contest).select_related("submission__method").order_by("finished", "pk"):
        shown[item.task_version.task_id, item.device_kind_id, item.who].append(item)
    programs = Programs(item for items in shown.values() for item in items)
    for board, items in shown.items():
        taken, seen = Counter[bool](), set[Name]()
        for row in best_rows(items, programs):
            names, is_doubted = names_of(row.evaluation, tokens=True), row.under_review
            if names.isdisjoint(seen) and taken[False] < count:
                is_doubted = is_doubted or _is_doubted_elsewhere(row.evaluation)
            if names.isdisjoint(seen) and taken[is_doubted] < count:
                taken[is_doubted] += 1
                yield (*board, row.evaluation)
            seen |= names


def _is_doubted_elsewhere(evaluation: Evaluation) -> bool:
    others = _on_each_version(evaluation.submission, evaluation.device_kind_id, evaluation.ruleset_id)
    asked = [(item, JudgedProgram(item)) for item in others if item.task_version_id != evaluation.task_version_id]
    return any(review_reason(item, program.same_code(item)) for item, program in asked)


def _on_each_version(submission: Submission, device_kind: int, ruleset: int, **versions: int) -> list[Evaluation]:
    """What stands for it on the board of each version of the task, from the first that has accepted it on. Not saved.

    Only where its owner had the program judged: what others have had refused elsewhere nobody could settle. Not the
    finals of contests, this one included. `versions` are further conditions.
    """
    board = {"device_kind_id": device_kind, "ruleset_id": ruleset}
    accepted = Evaluation.objects.full().filter(submission=submission, verdict=Verdict.PASS, **board)
    ordinary = accepted.exclude(task_version__status=TaskVersionStatus.CONTEST).select_related("task_version")
    first = ordinary.order_by("task_version__number", "pk").first()
    if first is None:
        return []
    there = _ordinary_versions(first.task_version.task).filter(number__gte=first.task_version.number, **versions)
    return [
        Evaluation(submission=submission, task_version=version, object_key=first.object_key, **board)
        for version in there.filter(pk__in=judged_versions(first)).order_by("number")
    ]


def _ordinary_versions(task: Task) -> QuerySet[TaskVersion]:
    return task.versions.exclude(status=TaskVersionStatus.CONTEST)


def begin(contest: Contest) -> None:
    """Open the hidden configurations and queue the finals. Raises TaskError, BadConfigurations."""
    ruleset = RuleSet.objects.get(name=settings.KBENCH_RULESET)
    Contest.objects.filter(pk=contest.pk).update(ruleset=ruleset)
    contest.ruleset = ruleset
    hidden = sealing.opened(contest)
    tasks = {task.task_id: task for task in contest.tasks.select_related("task__suite")}
    _hold_boards(contest)
    for task in tasks.values():
        _make_final_version(task, hidden.get(task.task.path, {}))
    participants = {row.key: row for row in contest.participants.all()}
    for task_pk, device_pk, who, evaluation in list(best_entries(contest, contest.best_n)):
        if tasks[task_pk].final_version is not None:
            ContestEntry.objects.create(
                task=tasks[task_pk],
                device_kind_id=device_pk,
                participant=participants[who],
                submission=evaluation.submission,
            )
    for device_kind in contest.device_kinds.all():
        ContestSitting.objects.create(contest=contest, device_kind=device_kind)
        _queue(contest, Q(device_kind=device_kind))


def _hold_boards(contest: Contest) -> None:
    """Staff decide nothing about its tasks until the transaction ends: that is written into entries, in another order.

    After evaluations have been locked, and before entries are.
    """
    tasks = contest.tasks.values("task")
    boards_marked(TaskVersion.objects.filter(task__in=tasks).values_list("pk", flat=True))


def _make_final_version(task: ContestTask, hidden: Any) -> None:
    """The version that is judged now with the hidden configurations; none where the task was retired meanwhile."""
    version = task.task.versions.filter(status=TaskVersionStatus.ACTIVE).first()
    if version is None:
        return
    spec = sealing.with_hidden(spec_of(version), hidden)
    as_json = spec_to_json(spec)
    stored = spec_from_json(as_json, spec.reference_source, spec.folder)
    newest: int = task.task.versions.aggregate(newest=Max("number"))["newest"] or 0
    task.final_version = TaskVersion.objects.create(
        task=task.task,
        number=newest + 1,
        content_sha256=stored.content_sha256,
        definition=definition_of(stored),
        reference_source=spec.reference_source,
        status=TaskVersionStatus.CONTEST,
    )
    StoredTask.objects.create(version=task.final_version, origin_sha256=stored.content_sha256, spec=as_json)
    task.save(update_fields=["final_version"])


def _queue(contest: Contest, wanted: Q) -> None:
    """Task after task; participants take turns in each, so that no participant's entries all come at the end."""
    entries = ContestEntry.objects.filter(wanted, task__contest=contest, submission__isnull=False)
    rows = entries.select_related("task__final_version", "device_kind", "submission").order_by("task__position", "pk")
    turns: dict[tuple[int, int], int] = {}
    ordered = []
    for entry in rows:
        key = (entry.task_id, entry.participant_id)
        turns[key] = turns.get(key, 0) + 1
        ordered.append((entry.task.position, turns[key], entry.pk, entry))
    for *_, entry in sorted(ordered, key=lambda item: item[:3]):
        assert entry.submission is not None  # noqa: S101 - filtered
        entry.final = evaluation_create(
            entry.submission,
            version=entry.task.final_version,
            device_kind=entry.device_kind,
            ruleset=contest.ruleset,
            reason=EvaluationReason.CONTEST,
            compiled=True,
        )
        entry.save(update_fields=["final"])


def are_over(contest: Contest) -> bool:
    return not _open_finals(contest).exists()


def tend(contest: Contest) -> None:
    """Restarts the sittings whose worker was lost."""
    for sitting in contest.sittings.filter(ended=None, worker__isnull=False).select_related("worker"):
        worker = sitting.worker
        assert worker is not None  # noqa: S101 - filtered
        lost = worker.heartbeat < timezone.now() - LOST_AFTER or worker.state == WorkerState.QUARANTINED
        if lost and _open_finals(contest).filter(device_kind=sitting.device_kind).exists():
            _restart(contest, sitting)


def _restart(contest: Contest, sitting: ContestSitting) -> None:
    with transaction.atomic():
        held = ContestSitting.objects.filter(pk=sitting.pk, worker=sitting.worker)
        if not held.update(worker=None, restarts=sitting.restarts + 1) or sitting.restarts >= RESTARTS_MAX:
            return
        for final in _open_finals(contest).filter(device_kind=sitting.device_kind).order_by("pk"):
            evaluation_cancel(final, "The final judging started again with another worker.")
        _hold_boards(contest)
        _queue(contest, Q(device_kind=sitting.device_kind))


def _open_finals(contest: Contest) -> Any:
    finals = Evaluation.objects.filter(contest_entry__task__contest=contest)
    return finals.exclude(state__in=FINISHED)


def _is_in_question(entry: ContestEntry, final: Evaluation) -> bool:
    """As on leaderboards: what was refused at another time, or under review, does not count until staff confirm it.

    What a gate says of the final is settled if it was for as high a score on the version that the final was made of:
    when all finals have ended it is too late for staff to look at one. Later versions do not count, as the contest
    knows nothing of them.
    """
    version = final.task_version
    made_of = _ordinary_versions(version.task).filter(number__lt=version.number).order_by("number").last()
    ordinary = _on_each_version(final.submission, entry.device_kind_id, final.ruleset_id, number__lt=version.number)
    asked = [(item, JudgedProgram(item).same_code(item)) for item in (final, *ordinary)]
    (_, of_final), *others = asked
    for item, same_code in others:
        if item.task_version == made_of:
            of_final.also_answered(same_code)
    return any(review_reason(item, same_code) for item, same_code in asked)


def freeze(contest: Contest) -> None:
    """Write the results down, so that nothing that happens to a judging later changes them, and tell participants."""
    _hold_boards(contest)
    for entry in ContestEntry.objects.filter(task__contest=contest).select_related(
        "final__submission", "final__task_version__task", "submission"
    ):
        final = entry.final
        if final is None or entry.submission is None:
            continue
        entry.verdict = final.verdict or final.get_state_display()
        if not _is_in_question(entry, final):
            entry.score, entry.score_lo, entry.score_hi = final.score, final.score_lo, final.score_hi
            entry.timing_trust = final.timing_trust
        entry.save(update_fields=["verdict", "score", "score_lo", "score_hi", "timing_trust"])
    contest.sittings.update(ended=timezone.now())
    text = f"The contest “{contest.title}” has ended. Its page shows the results."
    members = TeamMembership.objects.filter(state=MembershipState.MEMBER, team__contests__contest=contest)
    alone = ContestParticipant.objects.filter(contest=contest, account__isnull=False)
    for account in User.objects.filter(Q(pk__in=alone.values("account")) | Q(pk__in=members.values("account"))):
        notify(account, NotificationKind.CONTEST_ENDED, text, contest.get_absolute_url())

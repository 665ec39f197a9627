"""What pages and the API read of contests: lists, boards while it runs and when it is over, and who won.

While a contest runs a board shows what participants have reached on the ordinary configurations. Does NOT write.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import geometric_mean
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Q, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404

from ..boards.ranking import Entry, rank
from ..harness import what_counts
from ..models import (
    CONTEST_SEEN,
    Contest,
    ContestEntry,
    ContestParticipant,
    ContestTask,
    DeviceKind,
    Evaluation,
    Submission,
    Task,
)
from ..querysets import counted, teams_of_member
from ..states import FINISHED, ContestState, Moderation, Visibility
from .finals import leaders

Reader = User | AnonymousUser
DELETED = "deleted account"
_DOWN = Q(taken_down=True) | Q(submission__moderation__in=(Moderation.HIDDEN, Moderation.INVALIDATED))  # `is_down`


@dataclass(frozen=True)
class ContestLine:
    """The best entry of one participant on one board."""

    participant: str
    score: float
    score_lo: float
    score_hi: float
    at: datetime
    rank: int = 0
    url: str = ""  # of a judging that everybody may read
    trust: str = ""  # how its time is known
    entry: int = 0  # its key, once results are frozen
    is_contested: bool = False  # as of an entry of a leaderboard, while the contest runs

    @property
    def counts(self) -> float:
        return what_counts(self.score, self.score_lo, self.trust)


@dataclass(frozen=True)
class ContestBoard:
    task: ContestTask
    device_kind: DeviceKind
    lines: Sequence[ContestLine] = ()


@dataclass(frozen=True)
class OverallLine:
    """Who has an entry on more boards goes first, then the geometric mean of what counts of the speedups."""

    participant: str
    solved: int
    mean: float
    ranks: list[int | None] = field(default_factory=list)  # by board
    rank: int = 0


def contests(reader: Reader) -> list[Contest]:
    """Newest first; drafts for staff alone."""
    return list(_contests(reader))


def _contests(reader: Reader) -> QuerySet[Contest]:
    seen = (*CONTEST_SEEN, ContestState.CANCELLED)
    rows = Contest.objects.all() if _is_staff(reader) else Contest.objects.filter(state__in=seen)
    return rows.defer("sealed").prefetch_related("tasks__task__suite", "device_kinds")


def contest_named(reader: Reader, slug: str) -> Contest:
    """Raises Http404, for a draft to all but staff."""
    found = _contests(reader).filter(slug=slug).first()
    if found is None:
        raise Http404("There is no such contest.")
    return found


def open_contests(task: Task) -> list[Contest]:
    """Those that one can join or takes part in now."""
    rows = Contest.objects.filter(state__in=(ContestState.ANNOUNCED, ContestState.RUNNING), tasks__task=task)
    return list(rows.defer("sealed", "rules_text").order_by("ends"))


def takes_part(contest: Contest, reader: Reader) -> bool:
    """Alone or with a team."""
    if not reader.is_authenticated:
        return False
    mine = Q(account=reader.pk) | Q(team__in=teams_of_member(reader))
    return bool(contest.participants.filter(mine).exists())


def teams_in(contest: Contest, reader: Reader) -> list[str]:
    """The teams of the reader that take part."""
    if not reader.is_authenticated:
        return []
    rows = contest.participants.filter(team__in=teams_of_member(reader))
    return list(rows.order_by("team__name").values_list("team__name", flat=True))


def progress(contest: Contest) -> tuple[int, int]:
    """How many finals have ended, of how many."""
    finals = Evaluation.objects.filter(contest_entry__task__contest=contest)
    found = finals.aggregate(ended=Count("pk", filter=Q(state__in=FINISHED)), of=Count("pk"))
    return found["ended"], found["of"]


def machines(contest: Contest) -> list[str]:
    """On which workers the finals were judged."""
    finals = Evaluation.objects.filter(contest_entry__task__contest=contest, worker__isnull=False)
    return sorted(finals.order_by().values_list("worker__name", flat=True).distinct())


def boards(contest: Contest) -> list[ContestBoard]:
    """One for each task and device kind; frozen when the contest is finished."""
    lines = _frozen(contest) if contest.state == ContestState.FINISHED else _so_far(contest)
    kinds = sorted(contest.device_kinds.all(), key=lambda kind: kind.slug)
    return [
        ContestBoard(task, kind, _ranked(lines.get((task.task_id, kind.pk), [])))
        for task in contest.tasks.all()
        for kind in kinds
    ]


def overall(boards: Sequence[ContestBoard]) -> list[OverallLine]:
    """Equal ones share a rank."""
    places: dict[str, list[ContestLine | None]] = {}
    for number, board in enumerate(boards):
        for line in board.lines:
            places.setdefault(line.participant, [None] * len(boards))[number] = line
    lines = [_sum_of(name, found) for name, found in places.items()]
    lines.sort(key=lambda line: (-line.solved, -line.mean, line.participant))
    first: dict[tuple[int, float], int] = {}
    for place, total in enumerate(lines, 1):
        first.setdefault((total.solved, total.mean), place)
    return [
        OverallLine(line.participant, line.solved, line.mean, line.ranks, first[line.solved, line.mean])
        for line in lines
    ]


def _sum_of(name: str, found: Sequence[ContestLine | None]) -> OverallLine:
    scores = [line.counts for line in found if line]
    return OverallLine(name, len(scores), geometric_mean(scores), [line.rank if line else None for line in found])


Lines = dict[tuple[int, int], list[ContestLine]]


def _so_far(contest: Contest) -> Lines:
    if contest.state not in (ContestState.RUNNING, ContestState.JUDGING):
        return {}
    names = {row.key: str(row) for row in contest.participants.select_related("account", "team")}
    found: Lines = {}
    for leader in leaders(contest):
        row = leader.evaluation
        if leader.who not in names:  # the account was deleted a moment ago
            continue
        line = replace(_line(names[leader.who], leader, row.submission, row), is_contested=leader.is_contested)
        found.setdefault((row.task_version.task_id, row.device_kind_id), []).append(line)
    return found


def _frozen(contest: Contest) -> Lines:
    """The best of each participant that staff have not taken down, whatever has become of its submission."""
    entries = ContestEntry.objects.filter(task__contest=contest, score__isnull=False).exclude(_DOWN)
    rows = entries.select_related("task", "participant__account", "participant__team", "submission", "final").order_by(
        counted().desc(), "pk"
    )
    found: Lines = {}
    seen: set[tuple[int, int, int]] = set()
    for entry in rows.defer("final__report", "final__error_internal"):
        board = (entry.task.task_id, entry.device_kind_id)
        if (*board, entry.participant_id) in seen:
            continue
        seen.add((*board, entry.participant_id))
        line = _line(name_of(entry.participant), entry, entry.submission, entry.final)
        found.setdefault(board, []).append(replace(line, entry=entry.pk))
    return found


def name_of(participant: ContestParticipant) -> str:
    """Also of those who have gone, each apart from the others."""
    named = participant.account or participant.team
    return str(participant) if named else f"{DELETED} {participant.pk}"


def taken_down(contest: Contest) -> list[tuple[str, ContestEntry]]:
    """What staff have taken down of its results, and whose each is."""
    rows = ContestEntry.objects.filter(_DOWN, task__contest=contest, score__isnull=False)
    rows = rows.select_related("participant__account", "participant__team", "task__task__suite", "device_kind")
    return [(name_of(entry.participant), entry) for entry in rows]


def entry_for_staff(pk: int) -> ContestEntry:
    """One with a frozen score. Its submission may be private, or may have been deleted."""
    rows = ContestEntry.objects.filter(score__isnull=False, task__contest__state=ContestState.FINISHED)
    related = ("submission", "participant__account", "participant__team", "task__contest", "task__task__suite")
    found: ContestEntry = get_object_or_404(
        rows.select_related(*related, "device_kind").defer("task__contest__sealed"), pk=pk
    )
    return found


def _line(name: str, scored: Any, submission: Submission | None, evaluation: Evaluation | None) -> ContestLine:
    public = submission is not None and submission.visibility == Visibility.PUBLIC
    url = evaluation.get_absolute_url() if public and evaluation is not None else ""
    at = submission.created if submission else scored.participant.joined
    return ContestLine(name, scored.score, scored.score_lo, scored.score_hi, at, url=url, trust=scored.timing_trust)


def _ranked(lines: Iterable[ContestLine]) -> list[ContestLine]:
    """As on every leaderboard: overlapping intervals share a rank."""
    by_name = {line.participant: line for line in lines}
    entries = [
        Entry(name, line.score, line.score_lo, line.score_hi, line.at, line.trust, line.is_contested)
        for name, line in by_name.items()
    ]
    return [replace(by_name[name], rank=place) for name, place in rank(entries).items()]


def _is_staff(reader: Reader) -> bool:
    return reader.is_authenticated and reader.is_staff

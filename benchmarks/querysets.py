"""Named sets of rows: the queue in its order, the rows that a visitor may see, the evaluations whose worker was lost.

The models import this module, so it imports none of them. Does NOT write.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Value, When, Window
from django.db.models.functions import Coalesce, NullIf, RowNumber
from django.utils import timezone

from .extensions import extensions
from .harness import BOUND_TRUSTS, CPU, timing_revision
from .states import (
    FINISHED,
    RUNNING,
    TIMINGS,
    ActionKind,
    ContestState,
    EvaluationReason,
    MembershipState,
    Moderation,
    Priority,
    State,
    TaskVersionStatus,
    Visibility,
    WorkerRole,
    WorkerState,
)

User = AbstractBaseUser | AnonymousUser
UNRECORDED = "cpu-unrecorded"  # the kind of old judgings whose processor nobody knows
EXAMPLES_WAIT_S = 120
SERVED_WITHIN = timedelta(minutes=10)  # how long it is known whose evaluation a device had last
NOT_SERVED = datetime(1970, 1, 1, tzinfo=UTC)
# The condition is part of the aggregate. As a filter of the query it would make SQLite read all evaluations that a
# device ever had, instead of those of the last minutes.
LAST_SERVED = Max("finished", filter=Q(claimed__isnull=False))
HEAVY = ("task_version__definition", "task_version__reference_source")  # what no line of a list shows


@dataclass(frozen=True)
class Place:
    """A place in the queue of a device kind; the queue is sorted by these fields, in this order.

    `turn` counts the owner's evaluations that run or go before it. `served` is when the owner's last evaluation on the
    device ended. `queued` and `pk` are None for an evaluation that does not exist yet.
    """

    priority: int
    turn: int
    served: datetime
    queued: datetime | None
    pk: int | None


def teams_of_member(user: Any) -> models.QuerySet[Any]:
    """The keys of the teams that an account is a member of, invitations left out."""
    rows: models.QuerySet[Any] = user.team_memberships.filter(state=MembershipState.MEMBER)
    return rows.order_by().values("team")


def counted(evaluation: str = "") -> Case:
    """The figure by which a row is ranked: its score or, where its time is only bounded, the lower end of its interval.

    `evaluation` leads from the row to the judging, with `__` at its end.
    """
    return Case(When(**{f"{evaluation}timing_trust__in": BOUND_TRUSTS}, then=F("score_lo")), default=F("score"))


def timed_earlier() -> Q:
    """Judgings on GPUs by an earlier revision of the judge's timing."""
    return Q(timing_trust__in=TIMINGS, timing_revision__lt=timing_revision("cuda"))


def best_known_first(evaluation: str = "evaluation__") -> Case:
    """A place by how well a time is known; on a processor all have the same."""
    places = (When(**{f"{evaluation}timing_trust": trust}, then=place) for place, trust in enumerate(TIMINGS))
    return Case(*places, default=0)


class TaskQuerySet(models.QuerySet[Any]):
    def listed(self) -> Self:
        return self.filter(listed=True, versions__status=TaskVersionStatus.ACTIVE).select_related("suite")


class DeviceKindQuerySet(models.QuerySet[Any]):
    def usable(self) -> Self:
        """Device kinds that a worker can have."""
        return self.exclude(slug=UNRECORDED)

    def of_processors(self, alive_since: datetime) -> Self:
        """The kinds of processors, sorted by name: first those for which a worker judges now, then the others."""
        judges = Q(
            workers__role=WorkerRole.JUDGE, workers__state=WorkerState.ONLINE, workers__heartbeat__gte=alive_since
        )
        served = Count("workers", filter=judges)
        rows = self.usable().filter(device_class=CPU).annotate(served=served)
        return rows.order_by(Case(When(served__gt=0, then=0), default=1), "slug")


class EvaluationQuerySet(models.QuerySet[Any]):
    def with_context(self) -> Self:
        """Everything a row on a page shows, in one query; the report and the source stay out."""
        return self.select_related(
            "submission__owner",
            "submission__team",
            "submission__method",
            "task_version__task__suite",
            "device_kind",
            "ruleset",
            "worker",
        ).defer(
            "report",
            "error_internal",
            "task_version__task__summary",
            "ruleset__text",
            "worker__versions",
            "worker__isolation_text",
            *HEAVY,
        )

    def with_holder(self) -> Self:
        """What a line shows of a judging below a board that is known."""
        return self.select_related("submission__owner", "submission__team", "submission__method").defer(
            "report", "error_internal"
        )

    def readable_by(self, user: User) -> Self:
        """What `user` may open when they have the link, and what was made for a team of theirs.

        Hidden submissions can be read only by their owner and by staff, and open finals by staff alone.
        """
        rows, shown = self, ~Q(submission__visibility=Visibility.PRIVATE)
        if user.is_authenticated:
            shown |= Q(submission__team__in=teams_of_member(user))
        if not getattr(user, "is_staff", False):
            rows, shown = rows.without_open_finals(), shown & ~Q(submission__moderation=Moderation.HIDDEN)
        return rows.filter(shown | Q(submission__owner=user)) if user.is_authenticated else rows.filter(shown)

    def listable_for(self, user: User) -> Self:
        """The rows that a list for `user` may contain."""
        shown = Q(submission__visibility=Visibility.PUBLIC) & ~Q(submission__moderation=Moderation.HIDDEN)
        rows = self.without_open_finals()
        return rows.filter(shown | Q(submission__owner=user)) if user.is_authenticated else rows.filter(shown)

    def scored_on(self, board: Any) -> Self:
        """What was accepted in full on the board of a task version, device kind and rule set."""
        return self.filter(
            task_version=board.version, device_kind=board.device, ruleset=board.ruleset, score__isnull=False
        )

    def full(self) -> Self:
        """Without quick checks, and without the finals of contests, which have configurations of their own."""
        return self.exclude(reason__in=(EvaluationReason.QUICK, EvaluationReason.CONTEST))

    def that_count(self, owner: str = "submission__owner") -> Self:
        """Of each program of an owner the judging that counts: the best known, of these by the latest timing.

        As on leaderboards, but among these rows alone, so what nobody may see here changes nothing. Its other judgings
        are left out, and so is what has no score.
        """
        program = Coalesce(NullIf("submission__source_key", Value("")), "submission__blob")
        place = Window(
            RowNumber(),
            # somebody without an account is another person in each submission
            partition_by=[
                *map(F, ("task_version", "device_kind", "ruleset")),
                Coalesce(F(owner), -F("submission")),
                program,
            ],
            order_by=[best_known_first(""), F("timing_revision").desc(), counted().desc(), F("finished"), F("pk")],
        )
        first = self.filter(score__isnull=False).order_by().annotate(of_program=place).filter(of_program=1)
        return self.filter(pk__in=first.values("pk"))

    def without_open_finals(self) -> Self:
        """Without finals of a contest that is not finished, whose results belong together."""
        over = self.model.objects.filter(contest_entry__task__contest__state=ContestState.FINISHED, pk=OuterRef("pk"))
        return self.filter(~Q(reason=EvaluationReason.CONTEST) | Exists(over))

    def queued(self) -> Self:
        return self.filter(state=State.QUEUED)

    def running(self) -> Self:
        return self.filter(state__in=RUNNING)

    def done_since(self, since: datetime, device_kinds: Any) -> Self:
        """Those that ended with a verdict. With `device_kinds` the database can use an index to find the first one."""
        return self.filter(state=State.DONE, device_kind__in=device_kinds, finished__gte=since).order_by()

    def claimable(self, device_kind: Any, now: datetime) -> Self:
        """Evaluations that a worker may claim.

        Shipped examples are left out while other work is expected, queued or running, and for `EXAMPLES_WAIT_S` after
        the last of it.
        """
        mine = self.filter(device_kind=device_kind)
        since = now - timedelta(seconds=EXAMPLES_WAIT_S)
        wanted = Q(queued__gte=since) | Q(finished__gte=since) | Q(state__in=(State.QUEUED, *RUNNING))
        others = self.model.objects.filter(wanted, device_kind=device_kind, priority__lt=Priority.EXAMPLE)
        gives_way = others.exists() or any(item.is_expecting(device_kind) for item in extensions())
        return mine.filter(priority__lt=Priority.EXAMPLE) if gives_way else mine

    def in_queue_order(self) -> Self:
        """By class; within a class owners take turns: the one with fewer evaluations running or ahead comes first.

        Among owners with equally many, the one comes first whose last evaluation on the device ended longest ago.
        Without this rule, an owner with twenty queued evaluations could be first whenever the only judge is free.
        """
        served = [
            When(device_kind=device_kind, who=who, then=Value(at))
            for (device_kind, who), at in self._owners_served().items()
            if at != NOT_SERVED
        ]
        last = Case(*served, default=Value(NOT_SERVED), output_field=models.DateTimeField())
        return self._with_turns().annotate(served=last).order_by("priority", "turn", "served", "queued", "pk")

    def _with_turns(self) -> Self:
        """With `who`, their owner, and the `turn` of each."""
        running = (
            self.model.objects.filter(state__in=RUNNING)
            .annotate(who=Coalesce("submission__owner", Value(0)))
            .filter(who=OuterRef("who"))
            .order_by()
            .values("who")
            .annotate(n=Count("pk"))
            .values("n")
        )
        turn = Window(RowNumber(), partition_by=[F("priority"), F("who")], order_by=[F("queued"), F("pk")])
        rows = self.annotate(who=Coalesce("submission__owner", Value(0)))
        return rows.annotate(turn=turn + Coalesce(Subquery(running), Value(0)))

    def _owners_served(self) -> dict[tuple[int, int], datetime]:
        """When the last evaluation of each owner on each device ended, by device kind and `who`. Asks the database.

        A subquery would read the recently ended evaluations again for each row, and a condition on the owners would
        read all submissions. Owners of no row are left out, since Django takes 0.3 ms for each case.
        """
        here = set(self.order_by().values_list("device_kind", "submission__owner").distinct())
        of_devices = self.model.objects.filter(device_kind__in={device_kind for device_kind, _ in here}).served_lately()
        of_owners = of_devices.order_by().values_list("device_kind", "submission__owner")
        served = {(device_kind, owner): at for device_kind, owner, at in of_owners.annotate(at=LAST_SERVED)}
        return {
            (device_kind, owner or 0): served.get((device_kind, owner)) or NOT_SERVED for device_kind, owner in here
        }

    def served_lately(self) -> Self:
        """Those that ended within `SERVED_WITHIN`. `LAST_SERVED` counts only those that a worker had claimed."""
        return self.filter(state__in=FINISHED, finished__gte=timezone.now() - SERVED_WITHIN)

    def place_of_next(self, device_kind: Any, owner: int | None, priority: int) -> "Place":
        """The place that an evaluation of `owner` would have in the queue of a device kind now."""
        turn = 1 + self._turns(device_kind, owner, Q(priority=priority))
        return Place(priority, turn, self._served(device_kind, owner), None, None)

    def place_of(self, evaluation: Any) -> "Place":
        """The place of a queued evaluation, which must have been read together with its owner."""
        queued, pk, owner = evaluation.queued, evaluation.pk, evaluation.submission.owner_id
        mine = Q(priority=evaluation.priority) & (Q(queued__lt=queued) | Q(queued=queued, pk__lte=pk))
        turn = self._turns(evaluation.device_kind, owner, mine)
        return Place(evaluation.priority, turn, self._served(evaluation.device_kind, owner), queued, pk)

    def _turns(self, device_kind: Any, owner: int | None, mine: Q) -> int:
        """The number of an owner's running evaluations, plus their queued ones on a device kind that match `mine`."""
        unfinished = self.filter(state__in=(State.QUEUED, *RUNNING), submission__owner=owner).order_by()
        counted = Q(state__in=RUNNING) | Q(state=State.QUEUED, device_kind=device_kind) & mine
        return int(unfinished.aggregate(n=Count("pk", filter=counted))["n"])

    def _served(self, device_kind: Any, owner: int | None) -> datetime:
        mine = self.filter(device_kind=device_kind, submission__owner=owner).served_lately()
        last: datetime | None = mine.order_by().aggregate(at=LAST_SERVED)["at"]
        return last or NOT_SERVED

    def ahead_of(self, place: "Place") -> Self:
        """The queued evaluations of one device kind that come before the place.

        Owners are named here by when they were served. That moment itself is one case per owner in a query, which
        Django would write out wherever it is compared.
        """
        served = {who: at for (_, who), at in self._owners_served().items()}
        before = Q(priority__lt=place.priority) | Q(priority=place.priority, turn__lt=place.turn)
        same = Q(priority=place.priority, turn=place.turn)
        before |= same & Q(who__in=[who for who, at in served.items() if at < place.served])
        same &= Q(who__in=[who for who, at in served.items() if at == place.served])
        if place.queued is None:
            return self._with_turns().filter(before | same)
        tied = same & (Q(queued__lt=place.queued) | Q(queued=place.queued, pk__lt=place.pk))
        return self._with_turns().filter(before | tied)

    def lost(self, since: datetime) -> Self:
        """Running evaluations whose worker sends no heartbeat."""
        return self.running().filter(heartbeat__lt=since)


class SubmissionQuerySet(models.QuerySet[Any]):
    def published(self) -> Self:
        """Rows that everybody may see in a list."""
        return self.filter(visibility=Visibility.PUBLIC).exclude(moderation=Moderation.HIDDEN)

    def moderated(self) -> Self:
        """Submissions hidden or invalidated by staff. An index contains exactly these rows."""
        return self.exclude(moderation=Moderation.OK)

    def not_public(self) -> Self:
        """What no list shows to everybody; an index holds nothing else."""
        return self.exclude(visibility=Visibility.PUBLIC)

    def hold(self) -> None:
        """Nobody else changes them until the transaction ends; by their keys, while an update has no order."""
        list(self.select_for_update(no_key=True).order_by("pk").values_list("pk"))


class WorkerQuerySet(models.QuerySet[Any]):
    def alive(self, since: datetime) -> Self:
        return self.filter(state=WorkerState.ONLINE, heartbeat__gte=since)


class StandingQuerySet(models.QuerySet[Any]):
    def board(self, ruleset: Any, task_version: Any, device_kind: Any) -> Self:
        return self.filter(ruleset=ruleset, task_version=task_version, device_kind=device_kind)

    def ranked(self) -> Self:
        return self.filter(under_review=False)

    def listable(self) -> Self:
        return self.filter(
            evaluation__submission__visibility=Visibility.PUBLIC, evaluation__submission__moderation=Moderation.OK
        )

    def as_listed(self) -> Self:
        """In the order of a board: by rank, then as well as the times are known, then by age."""
        return self.order_by("rank", best_known_first(), "verified_at", "pk")

    def with_context(self) -> Self:
        return self.select_related(
            "evaluation__submission__owner", "evaluation__submission__team", "evaluation__submission__method"
        ).defer("evaluation__report", "evaluation__error_internal")


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Rows that are never changed after they are written."""

    def update(self, **columns: Any) -> int:
        raise TypeError(f"{self.model.__name__} is append-only")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError(f"{self.model.__name__} is append-only")


class ActionQuerySet(AppendOnlyQuerySet):
    """The log of decisions and reports."""

    def decisions(self) -> Self:
        """All actions except reports."""
        return self.exclude(kind=ActionKind.FLAG)

    def open_reports(self) -> Self:
        """Reports of submissions about which nothing has been decided since."""
        later = self.model.objects.decisions().filter(submission=OuterRef("submission"), pk__gt=OuterRef("pk"))
        return self.filter(~Exists(later), kind=ActionKind.FLAG, submission__isnull=False)

    def open_comment_reports(self) -> Self:
        """Reports of comments about which nothing has been decided since."""
        later = self.model.objects.decisions().filter(comment=OuterRef("comment"), pk__gt=OuterRef("pk"))
        return self.filter(~Exists(later), kind=ActionKind.FLAG, comment__isnull=False, comment__deleted=None)


class EventQuerySet(models.QuerySet[Any]):
    def after(self, topics: list[str], last_id: int) -> Self:
        return self.filter(topic__in=topics, pk__gt=last_id).order_by("pk")

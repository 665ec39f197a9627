"""Sets of rows with a name: the queue in its order, what a visitor may see, what has lost its worker.

Below the models, so it names no model. Does NOT write and does NOT know pages.
"""

from datetime import datetime, timedelta
from typing import Any, Self

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Count, F, OuterRef, Q, Subquery, Value, Window
from django.db.models.functions import Coalesce, RowNumber

from .states import RUNNING, Priority, State, TaskVersionStatus, Visibility, WorkerState

User = AbstractBaseUser | AnonymousUser
EXAMPLES_WAIT_S = 120


class TaskQuerySet(models.QuerySet[Any]):
    def listed(self) -> Self:
        return self.filter(listed=True, versions__status=TaskVersionStatus.ACTIVE).select_related("suite")


class EvaluationQuerySet(models.QuerySet[Any]):
    def with_context(self) -> Self:
        """Everything a row on a page shows, in one query; the report and the source stay out."""
        return self.select_related(
            "submission__owner", "submission__method", "task_version__task__suite", "device_kind", "ruleset", "worker"
        ).defer("report", "error_internal", "task_version__definition", "task_version__reference_source")

    def readable_by(self, user: User) -> Self:
        """What `user` may open when they have the link."""
        shown = ~Q(submission__visibility=Visibility.PRIVATE)
        return self.filter(shown | Q(submission__owner=user)) if user.is_authenticated else self.filter(shown)

    def listable_for(self, user: User) -> Self:
        """What may stand in a list that `user` reads."""
        shown = Q(submission__visibility=Visibility.PUBLIC)
        return self.filter(shown | Q(submission__owner=user)) if user.is_authenticated else self.filter(shown)

    def queued(self) -> Self:
        return self.filter(state=State.QUEUED)

    def running(self) -> Self:
        return self.filter(state__in=RUNNING)

    def claimable(self, device_kind: Any, now: datetime) -> Self:
        """What may be taken up: shipped examples give way to everybody who wanted something not long ago."""
        mine = self.filter(device_kind=device_kind)
        since = now - timedelta(seconds=EXAMPLES_WAIT_S)
        wanted = Q(queued__gte=since) | Q(finished__gte=since) | Q(state__in=(State.QUEUED, *RUNNING))
        others = self.model.objects.filter(wanted, device_kind=device_kind, priority__lt=Priority.EXAMPLE)
        return mine.filter(priority__lt=Priority.EXAMPLE) if others.exists() else mine

    def in_queue_order(self) -> Self:
        """Class first; within it owners take turns, whoever has fewer at work or further ahead goes first."""
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
        return (
            self.annotate(who=Coalesce("submission__owner", Value(0)))
            .annotate(turn=turn + Coalesce(Subquery(running), Value(0)))
            .order_by("priority", "turn", "queued", "pk")
        )

    def lost(self, since: datetime) -> Self:
        """At work by their own account, but not heard of since."""
        return self.running().filter(heartbeat__lt=since)


class WorkerQuerySet(models.QuerySet[Any]):
    def alive(self, since: datetime) -> Self:
        return self.filter(state=WorkerState.ONLINE, heartbeat__gte=since)


class StandingQuerySet(models.QuerySet[Any]):
    def board(self, ruleset: Any, task_version: Any, device_kind: Any) -> Self:
        return self.filter(ruleset=ruleset, task_version=task_version, device_kind=device_kind)

    def ranked(self) -> Self:
        return self.filter(under_review=False)

    def listable(self) -> Self:
        return self.filter(evaluation__submission__visibility=Visibility.PUBLIC)

    def with_context(self) -> Self:
        return self.select_related("evaluation__submission__owner", "evaluation__submission__method").defer(
            "evaluation__report", "evaluation__error_internal"
        )


class EventQuerySet(models.QuerySet[Any]):
    def after(self, topics: list[str], last_id: int) -> Self:
        return self.filter(topic__in=topics, pk__gt=last_id).order_by("pk")

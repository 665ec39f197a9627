"""Contests: what is asked, who takes part, and what came out of it.

Hidden configurations lie in `Contest.sealed`, which `contests/sealing.py` alone reads, and not before the end. States
are moved by `contests/running.py`. Does NOT hold judgings: the final ones are ordinary evaluations.
"""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from ..states import ContestState, Moderation
from .evaluations import Evaluation, Worker
from .submissions import Submission
from .tasks import DeviceKind, RuleSet, Task, TaskVersion
from .teams import Team

CONTEST_SEEN = (ContestState.ANNOUNCED, ContestState.RUNNING, ContestState.JUDGING, ContestState.FINISHED)


class Contest(models.Model):
    """A competition on some tasks and device kinds, from a start to an end."""

    slug = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)
    rules_text = models.TextField()
    starts = models.DateTimeField()
    ends = models.DateTimeField()
    best_n = models.PositiveSmallIntegerField(default=3)  # entries of one participant that are judged at the end
    device_kinds = models.ManyToManyField(DeviceKind, related_name="+")
    sealed = models.TextField(blank=True)  # hidden configurations and a salt
    sealed_sha256 = models.CharField(max_length=64, blank=True)  # of `sealed`, public from the announcement on
    ruleset = models.ForeignKey(RuleSet, null=True, blank=True, on_delete=models.PROTECT, related_name="+")  # final
    state = models.CharField(max_length=10, choices=ContestState, default=ContestState.DRAFT, db_index=True)
    state_text = models.CharField(max_length=500, blank=True)  # why it was cancelled
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-starts", "-pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends__gt=F("starts")), name="contest_ends_after_start"),
            models.CheckConstraint(condition=Q(best_n__gte=1, best_n__lte=10), name="contest_best_n"),
            models.CheckConstraint(
                condition=~Q(state=ContestState.CANCELLED) | ~Q(state_text=""), name="contest_cancelled_says_why"
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("contest", args=[self.slug])

    @property
    def is_over(self) -> bool:
        """Whether hidden configurations may be shown."""
        return self.state in (ContestState.JUDGING, ContestState.FINISHED)


class ContestTask(models.Model):
    """One task of a contest. Its final version has the hidden configurations as timed ones; it is made at the end."""

    contest = models.ForeignKey(Contest, on_delete=models.CASCADE, related_name="tasks")
    position = models.PositiveSmallIntegerField()
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    final_version = models.ForeignKey(TaskVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering: ClassVar = ["contest", "position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["contest", "task"], name="contesttask_once")]

    def __str__(self) -> str:
        return self.task.name


class ContestParticipant(models.Model):
    """An account that takes part, or a team. When it is deleted, its place in frozen results loses the name."""

    contest = models.ForeignKey(Contest, on_delete=models.CASCADE, related_name="participants")
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="contests"
    )
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="contests")
    joined = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["contest", "account"], name="contestparticipant_once"),
            models.UniqueConstraint(fields=["contest", "team"], name="contestparticipant_team_once"),
            models.CheckConstraint(
                condition=Q(account__isnull=True) | Q(team__isnull=True), name="contestparticipant_is_one"
            ),
        ]

    def __str__(self) -> str:
        if self.team:
            return self.team.name
        return self.account.get_username() if self.account else "deleted account"

    @property
    def key(self) -> int:
        """As `contests/finals.py` names whose a submission is: accounts above zero, teams below."""
        return -self.team_id if self.team_id else self.account_id or 0


class ContestEntry(models.Model):
    """One submission that is judged at the end; score and verdict are written when the contest is finished."""

    task = models.ForeignKey(ContestTask, on_delete=models.CASCADE, related_name="entries")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="+")
    participant = models.ForeignKey(ContestParticipant, on_delete=models.CASCADE, related_name="entries")
    submission = models.ForeignKey(
        Submission, null=True, blank=True, on_delete=models.SET_NULL, related_name="contest_entries"
    )
    final = models.OneToOneField(
        Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="contest_entry"
    )
    verdict = models.CharField(max_length=20, blank=True)
    score = models.FloatField(null=True, blank=True)
    score_lo = models.FloatField(null=True, blank=True)
    score_hi = models.FloatField(null=True, blank=True)
    timing_trust = models.TextField(blank=True)  # of the final
    taken_down = models.BooleanField(default=False, db_default=False)  # by staff, as `boards/entries.py` finds

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task", "device_kind", "submission"],
                condition=Q(submission__isnull=False),
                name="contestentry_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.participant}: {self.task}"

    @property
    def is_down(self) -> bool:
        """Also if a process of before an upgrade has written the decision, about its own submission alone."""
        return self.taken_down or (self.submission is not None and self.submission.moderation != Moderation.OK)


class ContestSitting(models.Model):
    """The final judgings of a contest on one device kind, all by one worker: the first that asks for them."""

    contest = models.ForeignKey(Contest, on_delete=models.CASCADE, related_name="sittings")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="+")
    worker = models.ForeignKey(Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    restarts = models.PositiveSmallIntegerField(default=0)  # because its worker was lost
    ended = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["contest", "device_kind"], name="contestsitting_one_per_kind")
        ]

    def __str__(self) -> str:
        return f"{self.contest} on {self.device_kind}"

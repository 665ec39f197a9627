"""The tables: tasks and their versions, submissions, evaluations with results, leaderboards, workers, events.

What must never be untrue is a constraint of the database: a verdict only when done, a score only with PASS, one
active version per task, one standing per holder. Moves between states are in `services.py`, never here.
Does NOT cover accounts (Django's own User) and agent runs (the `agents` app).
"""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from . import accounts  # noqa: F401 - Django knows the tables that this module knows
from .harness import VERDICT_TEXTS, Verdict, VerdictText
from .querysets import EvaluationQuerySet, EventQuerySet, StandingQuerySet, TaskQuerySet, WorkerQuerySet
from .states import (
    FINISHED,
    RUNNING,
    EvaluationReason,
    MethodKind,
    Origin,
    Priority,
    State,
    Switch,
    TaskVersionStatus,
    Visibility,
    WorkerRole,
    WorkerState,
)

VERDICT_CHOICES = [(verdict.value, verdict.value) for verdict in Verdict]


class Suite(models.Model):
    """A family of tasks with one origin."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.title


class Task(models.Model):
    """One operation in one direction. Its words may be corrected at any time; what decides a result is versioned."""

    suite = models.ForeignKey(Suite, on_delete=models.PROTECT, related_name="tasks")
    op = models.CharField(max_length=100)
    direction = models.CharField(max_length=20)
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True)
    formula = models.CharField(max_length=500, blank=True)
    family = models.CharField(max_length=50, blank=True)
    labels = models.JSONField(default=list, blank=True)
    listed = models.BooleanField(default=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["op", "-direction"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["suite", "op", "direction"], name="task_unique_name")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("task", args=[self.suite.slug, self.op, self.direction])

    @property
    def name(self) -> str:
        return f"{self.op}/{self.direction}"

    @property
    def path(self) -> str:
        """`SUITE/OP/DIRECTION`; needs the suite to be selected along."""
        return f"{self.suite.slug}/{self.name}"


class TaskVersion(models.Model):
    """Everything of a task that a result depends on; never changed once written (`services.tasks_sync`)."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    content_sha256 = models.CharField(max_length=64)
    definition = models.JSONField()  # see services.definition_of: hidden configurations are counted, not shown
    reference_source = models.TextField()
    status = models.CharField(max_length=10, choices=TaskVersionStatus, default=TaskVersionStatus.ACTIVE)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["task", "-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "number"], name="taskversion_unique_number"),
            models.UniqueConstraint(fields=["task"], condition=Q(status="active"), name="taskversion_one_active"),
        ]

    def __str__(self) -> str:
        return f"{self.task} v{self.number}"


class RuleSet(models.Model):
    """One rule set as it was when first used; the text is the record."""

    name = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    active = models.BooleanField(default=True)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["-created"]

    def __str__(self) -> str:
        return self.name


class DeviceKind(models.Model):
    """What a leaderboard is for: `cpu`, `nvidia-h200`."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=100)
    device_class = models.CharField(max_length=10)  # which configuration list of a task: cpu or cuda

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.slug


class CodeBlob(models.Model):
    """A source text, kept once whoever submits it."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()
    size_bytes = models.PositiveIntegerField()
    line_count = models.PositiveIntegerField()
    created = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.sha256[:12]


class Method(models.Model):
    """How submissions are made; what the compare page compares."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=100)
    kind = models.CharField(max_length=10, choices=MethodKind)
    description = models.TextField(blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.title


class Submission(models.Model):
    """A source text in a language for one task, by a user (or nobody known), with a method."""

    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="submissions")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="submissions"
    )
    method = models.ForeignKey(Method, on_delete=models.PROTECT, related_name="submissions")
    blob = models.ForeignKey(CodeBlob, on_delete=models.PROTECT, related_name="submissions")
    language = models.CharField(max_length=10)
    visibility = models.CharField(max_length=10, choices=Visibility, default=Visibility.PUBLIC)
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.WEB)
    title = models.CharField(max_length=200, blank=True)
    client_token = models.CharField(max_length=100, blank=True)  # Idempotency-Key: the same post twice is one row
    created = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        indexes: ClassVar = [models.Index(fields=["owner", "-created"])]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["owner", "client_token"],
                condition=~Q(client_token=""),
                name="submission_unique_client_token",
            ),
            models.UniqueConstraint(  # unknown owners are no owners to a unique index, so they need their own
                fields=["client_token"],
                condition=~Q(client_token="") & Q(owner__isnull=True),
                name="submission_unique_anonymous_token",
            ),
            models.CheckConstraint(
                condition=Q(owner__isnull=False) | ~Q(visibility="private"), name="submission_private_has_owner"
            ),
        ]

    def __str__(self) -> str:
        return self.title or str(self.code)[:8]


class Worker(models.Model):
    """One worker process: what it may do, when it was last heard of, what isolation its sandbox gives."""

    name = models.CharField(max_length=200, unique=True)
    role = models.CharField(max_length=10, choices=WorkerRole)
    device_kind = models.ForeignKey(DeviceKind, null=True, blank=True, on_delete=models.PROTECT, related_name="workers")
    device = models.CharField(max_length=20, blank=True)  # of its own machine: cpu, cuda:0
    state = models.CharField(max_length=12, choices=WorkerState, default=WorkerState.STARTING)
    state_text = models.CharField(max_length=500, blank=True)
    started = models.DateTimeField()
    heartbeat = models.DateTimeField()
    isolation = models.CharField(max_length=50, blank=True)
    isolation_strong = models.BooleanField(null=True)
    isolation_text = models.TextField(blank=True)
    versions = models.JSONField(default=dict, blank=True)
    current_evaluation = models.ForeignKey(
        "Evaluation", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Evaluation(models.Model):
    """One judging of one submission on one device kind under one rule set. Judging again adds a row."""

    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="evaluations")
    task_version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="evaluations")
    ruleset = models.ForeignKey(RuleSet, on_delete=models.PROTECT, related_name="evaluations")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="evaluations")
    reason = models.CharField(max_length=12, choices=EvaluationReason, default=EvaluationReason.INITIAL)
    supersedes = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="superseded_by"
    )
    priority = models.PositiveSmallIntegerField(choices=Priority, default=Priority.PERSON)

    state = models.CharField(max_length=10, choices=State, default=State.QUEUED, db_index=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    claim = models.UUIDField(null=True, blank=True, editable=False)  # whoever holds it may move the row, nobody else
    worker = models.ForeignKey(Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluations")
    built = models.DateTimeField(null=True, blank=True)  # when the compile worker was through with it
    queued = models.DateTimeField()
    claimed = models.DateTimeField(null=True, blank=True)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)
    heartbeat = models.DateTimeField(null=True, blank=True)
    stage = models.CharField(max_length=10, blank=True)  # of the harness: static, compile, prepare, load, verify, time
    stage_text = models.CharField(max_length=500, blank=True)
    stage_done = models.PositiveIntegerField(null=True, blank=True)
    stage_total = models.PositiveIntegerField(null=True, blank=True)

    verdict = models.CharField(max_length=20, choices=VERDICT_CHOICES, blank=True)
    reason_text = models.TextField(blank=True)  # the sentence for the person; also why it was put back or ended
    report = models.JSONField(null=True, blank=True)
    score = models.FloatField(null=True, blank=True)
    score_lo = models.FloatField(null=True, blank=True)
    score_hi = models.FloatField(null=True, blank=True)
    vs_eager = models.FloatField(null=True, blank=True)
    vs_compile = models.FloatField(null=True, blank=True)
    worst_config = models.CharField(max_length=500, blank=True)
    timing_trust = models.TextField(blank=True)
    isolation = models.CharField(max_length=200, blank=True)
    error_internal = models.TextField(blank=True)  # for staff only

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-queued", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["submission", "-queued"]),
            models.Index(fields=["task_version", "device_kind", "verdict"]),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="done") & ~Q(verdict="") | ~Q(state="done") & Q(verdict=""),
                name="evaluation_verdict_only_when_done",
            ),
            models.CheckConstraint(
                condition=(
                    Q(verdict="PASS", score__isnull=False, score_lo__isnull=False, score_hi__isnull=False)
                    | ~Q(verdict="PASS") & Q(score__isnull=True, score_lo__isnull=True, score_hi__isnull=True)
                ),
                name="evaluation_score_only_with_pass",
            ),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score_lo__gt=0, score__gte=F("score_lo"), score__lte=F("score_hi")),
                name="evaluation_score_inside_interval",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=FINISHED) | (Q(finished__isnull=False) & ~Q(reason_text="")),
                name="evaluation_finished_says_when_and_why",
            ),
            models.CheckConstraint(
                condition=Q(state__in=RUNNING, claim__isnull=False) | ~Q(state__in=RUNNING) & Q(claim__isnull=True),
                name="evaluation_claimed_while_running",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.state}"

    def get_absolute_url(self) -> str:
        return reverse("evaluation", args=[self.code])

    @property
    def topic(self) -> str:
        """The name of its event stream."""
        return f"evaluation:{self.code}"

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING

    @property
    def verdict_text(self) -> VerdictText | None:
        return VERDICT_TEXTS[Verdict(self.verdict)] if self.verdict else None


class StageResult(models.Model):
    """One stage of a judging as the report tells it."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="stages")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=10)
    seconds = models.FloatField()
    exit_code = models.IntegerField(null=True, blank=True)
    log_tail = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["evaluation", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["evaluation", "position"], name="stageresult_unique_position")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.seconds:.1f} s"


class ConfigResult(models.Model):
    """What happened on one configuration; None where nothing was measured."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="configs")
    position = models.PositiveSmallIntegerField()
    key = models.CharField(max_length=500)
    group = models.CharField(max_length=10)
    correct = models.BooleanField(null=True)
    max_abs_error = models.FloatField(null=True)
    max_rel_error = models.FloatField(null=True)
    kernel_us = models.FloatField(null=True)
    excess_us = models.FloatField(null=True)  # GPU: what the referee's clock saw beyond the claimed time
    copied = models.BooleanField(default=False)  # GPU: results were copied into shared memory while timed
    eager_us = models.FloatField(null=True)
    compile_us = models.FloatField(null=True)
    kernel_iqr_us = models.FloatField(null=True)
    eager_iqr_us = models.FloatField(null=True)
    compile_iqr_us = models.FloatField(null=True)
    speedup = models.FloatField(null=True)
    speedup_lo = models.FloatField(null=True)
    speedup_hi = models.FloatField(null=True)
    roofline_fraction = models.FloatField(null=True)
    calls = models.PositiveIntegerField(default=0)
    checked_calls = models.PositiveIntegerField(default=0)
    failure = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["evaluation", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["evaluation", "position"], name="configresult_unique_position"),
            models.CheckConstraint(
                condition=Q(speedup__isnull=True) | Q(correct=True), name="configresult_speedup_only_when_correct"
            ),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def bound_us(self) -> float | None:
        """What a call took at most, by the clock of the referee."""
        return None if self.kernel_us is None or self.excess_us is None else self.kernel_us + self.excess_us


class BaselineResult(models.Model):
    """How long eager and torch.compile take on one configuration: medians over the latest judgings."""

    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="baselines")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="baselines")
    key = models.CharField(max_length=500)
    group = models.CharField(max_length=10)
    eager_us = models.FloatField(null=True)
    compile_us = models.FloatField(null=True)
    eager_iqr_us = models.FloatField(null=True)
    compile_iqr_us = models.FloatField(null=True)
    judgings = models.PositiveIntegerField(default=1)
    updated = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task_version", "device_kind", "group", "key"], name="baselineresult_unique_config"
            )
        ]

    def __str__(self) -> str:
        return self.key


class Standing(models.Model):
    """One row of a leaderboard. Written by `services.standing_update` alone.

    `holder` is who the row belongs to: `user:ID` (with `/METHOD` unless made by hand), `method:SLUG` for what kbench
    ships, `submission:CODE` for somebody without an account. `rank` is None while the entry is under review.
    """

    ruleset = models.ForeignKey(RuleSet, on_delete=models.PROTECT, related_name="standings")
    task_version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="standings")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="standings")
    holder = models.CharField(max_length=200)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="standings")
    score = models.FloatField()
    score_lo = models.FloatField()
    score_hi = models.FloatField()
    judgings = models.PositiveIntegerField(default=1)  # how many judgings of the same code are pooled
    rank = models.PositiveIntegerField(null=True, blank=True)
    verified_at = models.DateTimeField()
    under_review = models.BooleanField(default=False)
    review_reason = models.TextField(blank=True)  # public

    objects = StandingQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["rank", "verified_at", "pk"]
        indexes: ClassVar = [models.Index(fields=["task_version", "device_kind", "ruleset", "rank"])]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["ruleset", "task_version", "device_kind", "holder"], name="standing_one_per_holder"
            ),
            models.CheckConstraint(
                condition=Q(under_review=False, review_reason="")
                | Q(under_review=True, rank=None) & ~Q(review_reason=""),
                name="standing_review_has_reason_and_no_rank",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rank or 'under review'} {self.holder}"


class Event(models.Model):
    """Something changed: look again. Pages are rendered from the other tables, never from events."""

    topic = models.CharField(max_length=100)
    kind = models.CharField(max_length=30)
    payload = models.JSONField(default=dict)  # at most 2 KB, see events.py
    created = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["topic", "id"])]

    def __str__(self) -> str:
        return f"{self.topic} {self.kind}"


class SiteSwitch(models.Model):
    """A switch that staff can turn without a deploy; absent means on (for a banner: none)."""

    key = models.CharField(max_length=20, choices=Switch, unique=True)
    on = models.BooleanField(default=True)
    message = models.CharField(max_length=500, blank=True)
    changed = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.key}: {'on' if self.on else 'off'}"

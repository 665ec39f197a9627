"""Evaluations: the claim of a worker, the state, and the results per stage and configuration.

Invariants are constraints: a verdict only when done, a score only with PASS. Does NOT move a row from state to state:
`judgings/moves.py` does, and nothing else.
"""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from ..harness import CPU, VERDICT_TEXTS, Verdict, VerdictText, sol_score, timing_revision
from ..querysets import EvaluationQuerySet, WorkerQuerySet
from ..states import FINISHED, RUNNING, TIMINGS, EvaluationReason, Priority, State, WorkerRole, WorkerState
from .submissions import Submission
from .tasks import DeviceKind, RuleSet, TaskVersion

VERDICT_CHOICES = [(verdict.value, verdict.value) for verdict in Verdict]


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
    tested = models.DateTimeField(null=True, blank=True)  # its last self-test, and how that ended
    test_passed = models.BooleanField(null=True)
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
    build_s = models.FloatField(null=True, blank=True)  # what compiling took; 0 where an earlier build was found
    object_key = models.CharField(max_length=64, blank=True)  # the same where the same code was compiled
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
    provisional = models.FloatField(null=True, blank=True)  # about how much faster than eager, by a few calls
    vs_eager = models.FloatField(null=True, blank=True)
    vs_compile = models.FloatField(null=True, blank=True)
    worst_config = models.CharField(max_length=500, blank=True)
    timing_trust = models.TextField(blank=True)
    # of the judge, and what scores of one code must share to agree: see `harness/scores/conditions.py`
    timing_revision = models.PositiveSmallIntegerField(default=0, db_default=0)
    conditions = models.CharField(max_length=200, blank=True, default="", db_default="")
    isolation = models.CharField(max_length=200, blank=True)
    gated = models.BooleanField(default=False)  # the report names something to be looked at before it is shown
    calls_library = models.BooleanField(default=False)  # a look at the source found calls of a library's operators
    error_internal = models.TextField(blank=True)  # for staff only

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-queued", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["submission", "-queued"]),
            models.Index(  # with the key: PostgreSQL finds judgings of many submissions without reading their long rows
                fields=["submission", "task_version", "device_kind", "id"], name="evaluation_of_submission"
            ),
            models.Index(fields=["task_version", "device_kind", "verdict"]),
            models.Index(  # who was best when: all that `boards.board_records` asks of what was scored on a board
                fields=["task_version", "device_kind", "ruleset", "finished", "id", "score", "gated", "submission"],
                condition=Q(score__isnull=False),
                name="evaluation_scored",
            ),
            models.Index(fields=["object_key"], condition=~Q(object_key=""), name="evaluation_object_key"),
            models.Index(fields=["state", "device_kind", "finished", "verdict"], name="evaluation_ended"),
            models.Index(fields=["device_kind", "claimed"], name="evaluation_claimed"),
            models.Index(fields=["claimed", "device_kind", "priority", "queued"], name="evaluation_waited"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="done") & ~Q(verdict="") | ~Q(state="done") & Q(verdict=""),
                name="evaluation_verdict_only_when_done",
            ),
            models.CheckConstraint(
                condition=(
                    ~Q(reason="quick")
                    & Q(verdict="PASS", score__isnull=False, score_lo__isnull=False, score_hi__isnull=False)
                    | (Q(reason="quick") | ~Q(verdict="PASS"))
                    & Q(score__isnull=True, score_lo__isnull=True, score_hi__isnull=True)
                ),
                name="evaluation_score_only_with_full_pass",
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
    def judged_on(self) -> str:
        """The device kind with the processor that judged it, once there is a report: that of this evaluation alone."""
        kind, model = self.device_kind, (self.report or {}).get("environment", {}).get("cpu")
        return f"{kind.slug} ({model})" if model and kind.device_class == CPU else kind.label

    @property
    def is_quick(self) -> bool:
        """A look at whether it is right: never scored, never ranked."""
        return self.reason == EvaluationReason.QUICK

    @property
    def is_timed_earlier(self) -> bool:
        """Whether it was judged on a GPU by an earlier revision of the judge's timing."""
        return self.timing_trust in TIMINGS and self.timing_revision < timing_revision("cuda")

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
    energy_mj = models.FloatField(null=True)  # of one call; ranks nothing
    energy_lo_mj = models.FloatField(null=True)
    energy_hi_mj = models.FloatField(null=True)
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

    @property
    def sol_score(self) -> float | None:
        """As SOL-ExecBench defines it, with our baseline and bound."""
        return sol_score(self.kernel_us, self.eager_us, self.compile_us, self.roofline_fraction)


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

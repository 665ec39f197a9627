"""The tables of agent runs: the run, its event log, its sources, and the candidates and opinions that pages read.

The log is the source of truth. Candidates, opinions and the figures on a run are written in the transaction that
appends to the log (`record/log.py`) and could be folded from it again. Does NOT hold judgings: a candidate points at
an ordinary evaluation of `benchmarks`.
"""

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from benchmarks.harness import what_counts
from benchmarks.models import DeviceKind, Method, TaskVersion

from .states import CandidateState, RunStatus, Wish


class Run(models.Model):
    """One search on one task and device kind. Whoever holds the claim is its only writer."""

    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="runs")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="runs")
    method = models.ForeignKey(Method, on_delete=models.PROTECT, related_name="runs")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs"
    )
    language = models.CharField(max_length=10)
    proposer = models.CharField(max_length=40)
    seed = models.PositiveBigIntegerField()
    config = models.JSONField()  # of the engine, as it stands in the first event
    forked_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="forks")

    state = models.CharField(max_length=10, choices=RunStatus, default=RunStatus.WAITING, db_index=True)
    wish = models.CharField(max_length=10, choices=Wish, default=Wish.GO)
    claim = models.UUIDField(null=True, blank=True, editable=False)
    worker = models.CharField(max_length=200, blank=True)
    heartbeat = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=40, blank=True)  # why it ended, in a word
    reason_text = models.TextField(blank=True)  # and as a sentence; also why it waits

    last_seq = models.PositiveIntegerField(default=0)
    generation = models.PositiveIntegerField(null=True, blank=True)
    candidate_count = models.PositiveIntegerField(default=0)
    judged_count = models.PositiveIntegerField(default=0)
    best_score = models.FloatField(null=True, blank=True)
    best_key = models.CharField(max_length=80, blank=True)
    spent = models.JSONField(default=dict, blank=True)  # by currency, as the log has it
    leases = models.JSONField(default=dict, blank=True)  # open reservations: lease -> cost
    hidden = models.BooleanField(default=False)  # by staff (`moderation.py`)
    kept: "RecordedRun | None" = None  # of a run that this site did not drive; such a row is never saved
    as_of: datetime | None = None  # of a run as it was at an earlier event

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        indexes: ClassVar = [models.Index(fields=["owner", "state"])]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="finished", finished__isnull=False, claim__isnull=True) & ~Q(reason="")
                | ~Q(state="finished"),
                name="run_finished_says_when_and_why",
            ),
        ]

    def __str__(self) -> str:
        return str(self.code)[:8]

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.code])

    @property
    def topic(self) -> str:
        """The name of its event stream."""
        return f"run:{self.code}"

    def token_of(self, key: str) -> str:
        """What the submission of a candidate is found by before the log says its ticket."""
        return f"run:{self.code}:{key}"

    @property
    def baseline(self) -> str:
        """What its speedups are over."""
        quick = self.kept is not None and self.kept.header["judgings"] == "quick"
        return "PyTorch eager" if quick else "the stronger baseline"

    @property
    def is_finished(self) -> bool:
        return self.state == RunStatus.FINISHED

    @property
    def caps(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config.get("caps", {})
        return found


class RunEvent(models.Model):
    """One event of a log; never changed."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    at_s = models.FloatField()  # since 1970
    type = models.CharField(max_length=40)
    candidate = models.CharField(max_length=80, blank=True)
    payload = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["run", "seq"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "seq"], name="runevent_dense_seq")]

    def __str__(self) -> str:
        return f"#{self.seq} {self.type}"


class RunSource(models.Model):
    """A source that events name by its sha256, stored once for all runs."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()

    def __str__(self) -> str:
        return self.sha256[:12]


class Candidate(models.Model):
    """One proposed kernel, as recorded in the log so far."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="candidates")
    key = models.CharField(max_length=80)
    position = models.PositiveIntegerField()  # by appearance in the log, from 1
    generation = models.PositiveIntegerField(default=0)
    slot = models.PositiveIntegerField(default=0)
    island = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=10, choices=CandidateState, default=CandidateState.PROPOSING)

    name = models.CharField(max_length=200, blank=True)
    language = models.CharField(max_length=10, blank=True)
    operator = models.CharField(max_length=40, blank=True)
    arm = models.CharField(max_length=100, blank=True)
    template = models.CharField(max_length=100, blank=True)
    hint = models.CharField(max_length=300, blank=True)
    thought = models.TextField(blank=True)
    params = models.JSONField(null=True, blank=True)
    parents = models.JSONField(default=list, blank=True)
    probabilities = models.JSONField(default=dict, blank=True)  # of the parents to choose from
    source_sha256 = models.CharField(max_length=64, blank=True)

    drop_reason = models.CharField(max_length=40, blank=True)
    drop_text = models.TextField(blank=True)
    audited = models.BooleanField(default=False)  # rejected by a verifier, judged all the same

    ticket = models.CharField(max_length=80, blank=True, db_index=True)  # code of the evaluation
    reused_from = models.CharField(max_length=80, blank=True)  # whose result it has: the binaries are the same
    verdict = models.CharField(max_length=20, blank=True)
    verdict_text = models.TextField(blank=True)
    score = models.FloatField(null=True, blank=True)
    score_lo = models.FloatField(null=True, blank=True)
    score_hi = models.FloatField(null=True, blank=True)
    judgings = models.PositiveSmallIntegerField(default=1)  # how many judgings of it the score is pooled from
    estimates = models.JSONField(default=list, blank=True)  # score, both ends and trust of each, if there are several
    vs_eager = models.FloatField(null=True, blank=True)
    vs_compile = models.FloatField(null=True, blank=True)
    timing_trust = models.CharField(max_length=40, blank=True)
    configs = models.JSONField(default=list, blank=True)
    resources = models.JSONField(null=True, blank=True)
    judging_s = models.FloatField(null=True, blank=True)
    judged_as = models.PositiveIntegerField(null=True, blank=True)  # the how manieth judging of the run
    judged_at_s = models.FloatField(null=True, blank=True)
    judged_at_usd = models.FloatField(null=True, blank=True)  # what the run had spent by then
    improved = models.BooleanField(default=False)  # the best of the run when it was judged
    archived = models.BooleanField(default=False)
    withheld = models.BooleanField(default=False)  # by staff (`moderation.py`): the log does not know of it

    first_seq = models.PositiveIntegerField()
    last_seq = models.PositiveIntegerField()

    class Meta:
        ordering: ClassVar = ["run", "position"]
        indexes: ClassVar = [
            models.Index(fields=["run", "state"]),
            models.Index(fields=["run", "-position"]),
            models.Index(fields=["source_sha256"], condition=Q(withheld=True), name="candidate_withheld"),
        ]
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "key"], name="candidate_unique_key")]

    def __str__(self) -> str:
        return self.key

    @property
    def counts(self) -> float | None:
        """What counts of its score where candidates are compared; None without a score."""
        if self.score is None or self.lo is None:
            return None
        return what_counts(self.score, self.lo, self.timing_trust)

    @property
    def lo(self) -> float | None:
        """The lower end of the interval of its score."""
        return self.score if self.score_lo is None else self.score_lo


class Opinion(models.Model):
    """What a verifier said of a candidate before it was judged, and what the judge said later."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="opinions")
    candidate = models.ForeignKey(Candidate, on_delete=models.CASCADE, related_name="opinions")
    verifier = models.CharField(max_length=40)
    version = models.CharField(max_length=40, blank=True)
    decision = models.CharField(max_length=10)  # accept, reject, abstain
    fault = models.CharField(max_length=60, blank=True)
    probability = models.FloatField(null=True, blank=True)
    reasons = models.JSONField(default=list, blank=True)
    seconds = models.FloatField(default=0.0)
    cost_usd = models.FloatField(default=0.0)
    audit = models.BooleanField(default=False)
    truth = models.CharField(max_length=20, blank=True)  # the verdict of the judge, once there is one

    class Meta:
        ordering: ClassVar = ["candidate", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["candidate", "verifier"], name="opinion_one_per_verifier")
        ]

    def __str__(self) -> str:
        return f"{self.verifier}: {self.decision}"


class RecordedRun(models.Model):
    """A run that another site, or this machine on an earlier day, has driven: its whole log, as it came in a file.

    It has a table of its own, so that lists, costs, the library, the matrix of verifiers and exports of this site
    cannot include it by mistake. Pages fold it into rows that are never saved (`record/kept.py`).
    """

    name = models.SlugField(unique=True)
    code = models.UUIDField(unique=True)
    header = models.JSONField()  # the first line of the file
    summary = models.JSONField(default=dict)  # what lists show of the end of the run
    sources = models.JSONField(default=dict)  # texts by sha256
    events = models.JSONField(default=list)  # in their order
    file_sha256 = models.CharField(max_length=64)
    loaded = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

"""Recorded results: kernels that another site has judged, or this one on an earlier day.

They have tables of their own, so that leaderboards, quotas, exports and searches of this site cannot include them by
mistake. Does NOT read or write bundles (`recorded/`).
"""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from ..states import MethodKind


class RecordedBundle(models.Model):
    """Entries from one device kind under one rule set, as they came in one file, and how much there is of them."""

    name = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    about = models.TextField(blank=True)
    device = models.CharField(max_length=50)  # a name only: no worker of this site has to have such a device
    device_title = models.CharField(max_length=200)
    device_class = models.CharField(max_length=10)
    machine = models.JSONField(default=dict)
    ruleset = models.CharField(max_length=50)
    ruleset_sha256 = models.CharField(max_length=64, blank=True)
    reported = models.JSONField(null=True)  # figures that others have published, and whose they are
    file_sha256 = models.CharField(max_length=64)
    loaded = models.DateTimeField()
    tasks = models.PositiveIntegerField(default=0)
    kernels = models.PositiveIntegerField(default=0)
    first = models.DateTimeField(null=True)  # judging of any of its kernels
    last = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-tasks", "-device_class", "name"]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("recorded-bundle", args=[self.name])

    @property
    def place(self) -> str:
        """Where it was recorded, in a few words."""
        return f"{self.device_title}, rule set {self.ruleset}"


class RecordedEntry(models.Model):
    """One verified kernel of a bundle. `rank` is None where its method has a better entry on the task."""

    bundle = models.ForeignKey(RecordedBundle, on_delete=models.CASCADE, related_name="entries")
    name = models.SlugField()  # the id in the file
    suite = models.CharField(max_length=50)
    op = models.CharField(max_length=100)
    direction = models.CharField(max_length=20)
    task_sha256 = models.CharField(max_length=64, blank=True)
    by = models.CharField(max_length=200)
    method = models.CharField(max_length=50)
    method_title = models.CharField(max_length=200)
    method_kind = models.CharField(max_length=10, choices=MethodKind)
    title = models.CharField(max_length=200, blank=True)
    language = models.CharField(max_length=50)
    judged_at = models.DateTimeField()
    judgings = models.PositiveIntegerField(default=1)
    score = models.FloatField()
    score_lo = models.FloatField()
    score_hi = models.FloatField()
    vs_eager = models.FloatField()
    vs_compile = models.FloatField(null=True)
    worst_config = models.CharField(max_length=500, blank=True)
    worst = models.FloatField(null=True)  # speedup on the worst configuration
    timing_trust = models.CharField(max_length=50)
    source_sha256 = models.CharField(max_length=64)
    source = models.TextField(null=True)  # noqa: DJ001 - null: the file brought none, which an empty source is not
    report = models.JSONField()  # configs, remarks, environment, isolation
    rank = models.PositiveIntegerField(null=True)

    class Meta:
        ordering: ClassVar = ["suite", "op", "-direction", "rank", "judged_at", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["bundle", "name"], name="recordedentry_unique_name"),
            models.CheckConstraint(
                condition=Q(score_lo__gt=0, score__gte=F("score_lo"), score__lte=F("score_hi")),
                name="recordedentry_score_inside_interval",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["bundle", "suite", "op", "direction"], name="recordedentry_board"),
            models.Index(fields=["suite", "op", "direction"], name="recordedentry_task"),
        ]

    def __str__(self) -> str:
        return f"{self.task_name} {self.score:.2f}"

    def get_absolute_url(self) -> str:
        return reverse("recorded-entry", args=[self.bundle.name, self.name])

    @property
    def task_name(self) -> str:
        return f"{self.op}/{self.direction}"

    @property
    def task_path(self) -> str:
        return f"{self.suite}/{self.task_name}"

    @property
    def board_url(self) -> str:
        return reverse("recorded-board", args=[self.bundle.name, self.suite, self.op, self.direction])

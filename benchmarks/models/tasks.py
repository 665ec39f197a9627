"""Suites, tasks and their versions, rule sets, and device kinds. Does NOT hold submissions."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..querysets import DeviceKindQuerySet, TaskQuerySet
from ..states import Difficulty, TaskVersionStatus

MODELS_SHOWN = 3  # of the processors of a kind


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
    difficulty = models.CharField(max_length=10, choices=Difficulty, blank=True)  # of its newest definition
    difficulty_facts = models.JSONField(default=dict, blank=True)  # what that was derived from
    listed = models.BooleanField(default=True)
    licence = models.CharField(
        max_length=300, blank=True
    )  # of an imported one, in one line; empty where none was found
    origin = models.CharField(
        max_length=400, blank=True
    )  # of an imported one: address or folder of its suite, and file

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
    """Everything of a task that a result depends on; never changed once written (`services.tasks_sync`).

    `boards_mark` is another one as soon as something on its boards may have changed (`standings.hold_boards`), and is
    never written otherwise: what is kept of a board is kept under its mark (`boards.selectors.kept`). `boards_due`: a
    migration, or a change of its task's labels, asks for its boards to be written anew (`judgings.recording`).
    """

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    content_sha256 = models.CharField(max_length=64)
    definition = models.JSONField()  # see services.definition_of: hidden configurations are counted, not shown
    reference_source = models.TextField()
    status = models.CharField(max_length=10, choices=TaskVersionStatus, default=TaskVersionStatus.ACTIVE)
    created = models.DateTimeField(auto_now_add=True)
    boards_mark = models.UUIDField(default=uuid.uuid4, editable=False)
    boards_due = models.BooleanField(default=False, editable=False)

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
    """What a leaderboard is for: a processor's instruction set, `cpu-avx2`, or a GPU's model, `nvidia-h200`."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=100)
    device_class = models.CharField(max_length=10)  # which configuration list of a task: cpu or cuda
    processors = models.JSONField(default=list, blank=True)  # models that workers of this kind have reported

    objects = DeviceKindQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["slug"]

    def __str__(self) -> str:
        return self.slug

    @property
    def models_text(self) -> str:
        """Which processors are behind the kind; empty for a GPU, whose kind is its model."""
        shown, more = self.processors[:MODELS_SHOWN], len(self.processors) - MODELS_SHOWN
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    @property
    def label(self) -> str:
        """The kind with the processors behind it."""
        return f"{self.slug} ({self.models_text})" if self.processors else self.slug

    @property
    def full_title(self) -> str:
        return f"{self.title} ({self.models_text})" if self.processors else self.title

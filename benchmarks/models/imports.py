"""Imported tasks: the runs of an import, the result for each task, the definitions.

An imported task has no folder on disk: `StoredTask` holds everything that a worker needs to judge it, anywhere.
Does NOT hold the author's file twice: it is the reference of the version.
"""

from typing import ClassVar

from django.db import models

from ..states import ImportOutcome
from .tasks import Suite, TaskVersion


class SuiteImport(models.Model):
    """One run of `import_tasks` over one folder."""

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="imports")
    format = models.CharField(max_length=30)
    folder = models.CharField(max_length=200)  # its name, not where it lies
    origin = models.CharField(max_length=400, blank=True)  # the address that it was cloned from
    licence = models.CharField(max_length=300, blank=True)
    started = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-started", "-pk"]

    def __str__(self) -> str:
        return f"{self.suite} from {self.folder}"


class ImportReport(models.Model):
    """The result for one task in one run."""

    run = models.ForeignKey(SuiteImport, on_delete=models.CASCADE, related_name="reports")
    op = models.CharField(max_length=100)
    direction = models.CharField(max_length=20)
    file = models.CharField(max_length=300, blank=True)
    outcome = models.CharField(max_length=10, choices=ImportOutcome)
    problem = models.TextField(blank=True)
    labels = models.JSONField(default=list, blank=True)
    notes = models.JSONField(default=list, blank=True)
    seconds = models.FloatField(default=0.0)
    version = models.ForeignKey(TaskVersion, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "op", "direction"], name="importreport_once_per_run")
        ]

    def __str__(self) -> str:
        return f"{self.op}/{self.direction}: {self.outcome}"


class StoredTask(models.Model):
    """The whole definition of an imported version, hidden configurations included: for workers, never for pages."""

    version = models.OneToOneField(TaskVersion, on_delete=models.CASCADE, primary_key=True, related_name="stored")
    origin_sha256 = models.CharField(max_length=64)  # of what was read; the same again needs no examination
    spec = models.JSONField()
    labels = models.JSONField(default=list, blank=True)
    notes = models.JSONField(default=list, blank=True)
    failed = models.DateTimeField(null=True)  # when a judging of it last put a worker through its self-test

    def __str__(self) -> str:
        return str(self.version)

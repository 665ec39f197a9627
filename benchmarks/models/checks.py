"""Checks of CUDA sources without a GPU: the request, the claim of a worker, the result.

Does NOT belong to submissions: a check is never scored, ranked or listed, and is deleted after some weeks.
"""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..states import CheckState
from .evaluations import Evaluation
from .ledger import Payer
from .tasks import TaskVersion


class EmulatorCheck(models.Model):
    """One source for one task. `report` is the emulator's, in its JSON form; everything in it is hostile text."""

    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="emulator_checks"
    )
    payer = models.ForeignKey(Payer, null=True, blank=True, on_delete=models.SET_NULL, related_name="emulator_checks")
    explains = models.OneToOneField(  # the evaluation whose illegal access on a GPU it is to explain
        Evaluation, null=True, blank=True, on_delete=models.CASCADE, related_name="explanation"
    )
    text = models.TextField()
    client_token = models.CharField(max_length=100, blank=True)  # the same post twice is one row
    state = models.CharField(max_length=10, choices=CheckState, default=CheckState.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=1)
    claim = models.UUIDField(null=True, blank=True)  # only its holder may move the row on
    heartbeat = models.DateTimeField(null=True, blank=True)
    verdict = models.CharField(max_length=12, blank=True)
    problem = models.CharField(max_length=500, blank=True)  # why it failed by our own fault
    report = models.JSONField(null=True, blank=True)
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    finished = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["created", "pk"]
        indexes: ClassVar = [
            models.Index(
                fields=["state", "created"],
                condition=Q(state__in=(CheckState.QUEUED, CheckState.RUNNING)),
                name="emulatorcheck_open",
            )
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["owner", "client_token"],
                condition=~Q(client_token=""),
                name="emulatorcheck_unique_client_token",
            ),
            models.UniqueConstraint(  # unknown owners are no owners to a unique index, so they need their own
                fields=["client_token"],
                condition=~Q(client_token="") & Q(owner__isnull=True),
                name="emulatorcheck_unique_anonymous_token",
            ),
            models.CheckConstraint(
                condition=Q(verdict="") | Q(state=CheckState.DONE, report__isnull=False),
                name="emulatorcheck_verdict_has_report",
            ),
        ]

    def __str__(self) -> str:
        return str(self.code)[:8]

    def get_absolute_url(self) -> str:
        return reverse("emulator-check", args=[self.code])

    @property
    def is_finished(self) -> bool:
        return self.state in (CheckState.DONE, CheckState.FAILED)

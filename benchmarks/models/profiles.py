"""Profiles of evaluated submissions: who asked, who works on it, what came of it.

Does NOT belong to a judging: no verdict, score or rank depends on a profile.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..states import CheckState
from .evaluations import Evaluation
from .ledger import Payer


class ProfileRequest(models.Model):
    """One per evaluation. `result` is the harness's profile in its JSON form; everything in it is hostile text."""

    evaluation = models.OneToOneField(Evaluation, on_delete=models.CASCADE, related_name="profile")
    payer = models.ForeignKey(Payer, null=True, blank=True, on_delete=models.SET_NULL, related_name="profile_requests")
    state = models.CharField(max_length=10, choices=CheckState, default=CheckState.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=1)
    claim = models.UUIDField(null=True, blank=True, default=None)  # only its holder may move the row on
    heartbeat = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=500, blank=True)  # why there is no profile
    result = models.JSONField(null=True, blank=True)
    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["created", "pk"]
        indexes: ClassVar = [
            models.Index(
                fields=["state", "created"],
                condition=Q(state__in=(CheckState.QUEUED, CheckState.RUNNING)),
                name="profilerequest_open",
            )
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(result__isnull=True) | Q(state=CheckState.DONE), name="profilerequest_result_is_done"
            ),
        ]

    def __str__(self) -> str:
        return f"profile of {self.evaluation_id}"

    def get_absolute_url(self) -> str:
        return reverse("evaluation-profile", args=[self.evaluation.code])

    @property
    def is_finished(self) -> bool:
        return self.state in (CheckState.DONE, CheckState.FAILED)

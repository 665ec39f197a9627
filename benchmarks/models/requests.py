"""Requests for kernels: a definition with the reason why somebody wants it, and the votes for it.

Who reads a request is decided in `requests/lists.py`. The posted files are dropped once a task was made of them, and
are never shown to anybody but their owner. Does NOT hold answers: those are submissions to the task.
"""

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..states import REQUEST_UNFINISHED, Moderation, RequestState
from .evaluations import Evaluation
from .tasks import DeviceKind, Task


def keep_published(collector: Any, field: Any, rows: Any, using: Any) -> None:
    """Where an account is deleted: what has become a task keeps its row, which decisions of staff refer to."""
    models.SET_NULL(collector, field, rows.filter(task__isnull=False), using)
    models.CASCADE(collector, field, rows.filter(task=None), using)


class KernelRequest(models.Model):
    """One request. `state` is moved by `requests/`, in conditional updates; `task` is set together with OPEN.

    Without an owner, whose account was deleted, only staff find it.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=keep_published, related_name="kernel_requests"
    )
    title = models.CharField(max_length=120)
    reason = models.TextField()  # why it is wanted: plain text
    licence = models.CharField(max_length=200, blank=True)  # of the definition
    files = models.JSONField(default=dict, blank=True)  # texts by name
    files_sha256 = models.CharField(max_length=64)
    device_kinds = models.ManyToManyField(DeviceKind, related_name="+")
    worth_s = models.PositiveIntegerField(default=0)  # judging time that is offered for answers
    worth_left_s = models.FloatField(default=0.0)
    paid = models.JSONField(default=list, blank=True)  # keys of the sources that were paid from it
    state = models.CharField(max_length=10, choices=RequestState, default=RequestState.QUEUED)
    state_text = models.TextField(blank=True)  # of a refused one the importer's reason, of a closed one its owner's
    attempt = models.PositiveSmallIntegerField(default=1)
    claim = models.UUIDField(null=True, blank=True)  # only its holder may end an examination
    heartbeat = models.DateTimeField(null=True, blank=True)
    task = models.OneToOneField(Task, null=True, blank=True, on_delete=models.PROTECT, related_name="request")
    accepted = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    told = models.JSONField(default=dict, blank=True)  # keys of the sources that the owner was told of, by device kind
    moderation = models.CharField(max_length=12, choices=Moderation, default=Moderation.OK)
    created = models.DateTimeField(auto_now_add=True)
    opened = models.DateTimeField(null=True, blank=True)
    ended = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [
            models.Index(fields=["owner", "-created"], name="kernelrequest_of_owner"),
            models.Index(
                fields=["state", "created"],
                condition=Q(state__in=(RequestState.QUEUED, RequestState.EXAMINING)),
                name="kernelrequest_to_examine",
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["owner", "files_sha256"],
                condition=Q(state__in=REQUEST_UNFINISHED),
                name="kernelrequest_once_per_owner",
            ),
            models.CheckConstraint(
                condition=Q(task__isnull=False) | ~Q(state__in=(RequestState.OPEN, RequestState.ANSWERED)),
                name="kernelrequest_open_has_task",
            ),
            models.CheckConstraint(
                condition=Q(owner__isnull=False) | Q(task__isnull=False),
                name="kernelrequest_has_owner_or_task",
            ),
            models.CheckConstraint(
                condition=Q(worth_left_s__gte=0, worth_left_s__lte=models.F("worth_s")),
                name="kernelrequest_pays_what_it_has",
            ),
            models.CheckConstraint(
                condition=Q(moderation__in=(Moderation.OK, Moderation.HIDDEN)),
                name="kernelrequest_is_shown_or_hidden",
            ),
        ]

    def __str__(self) -> str:
        return f"request {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("request", args=[self.pk])

    @property
    def asker(self) -> User:
        """Of one whose owner has not left the site."""
        assert self.owner is not None  # noqa: S101 - lists leave the others out
        return self.owner

    @property
    def is_hidden(self) -> bool:
        return self.moderation == Moderation.HIDDEN

    @property
    def is_published(self) -> bool:
        """Whether a task was made of it; until then it is its owner's alone."""
        return self.task_id is not None


class RequestVote(models.Model):
    """One account wants it, too."""

    request = models.ForeignKey(KernelRequest, on_delete=models.CASCADE, related_name="votes")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="request_votes")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["request", "account"], name="requestvote_once_per_account")
        ]

    def __str__(self) -> str:
        return f"{self.account_id} for {self.request_id}"

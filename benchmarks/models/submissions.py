"""Source texts, the methods that made them, and submissions. Does NOT hold results: those belong to evaluations."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from ..querysets import SubmissionQuerySet
from ..states import MethodKind, Moderation, Origin, Visibility
from .tasks import TaskVersion


class CodeBlob(models.Model):
    """A source text, stored once even if several accounts submit it."""

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
    team = models.ForeignKey(  # for which the owner made it; its members read it
        "benchmarks.Team", null=True, blank=True, on_delete=models.SET_NULL, related_name="submissions"
    )
    method = models.ForeignKey(Method, on_delete=models.PROTECT, related_name="submissions")
    blob = models.ForeignKey(CodeBlob, on_delete=models.PROTECT, related_name="submissions")
    language = models.CharField(max_length=10)
    source_key = models.CharField(max_length=64, blank=True)  # the same where only comments and layout differ
    visibility = models.CharField(max_length=10, choices=Visibility, default=Visibility.PUBLIC)
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.WEB)
    title = models.CharField(max_length=200, blank=True)
    licence = models.CharField(
        max_length=100, blank=True
    )  # under which the site publishes it, as told when it was made
    payer = models.ForeignKey(  # whom quotas count it for; null: nobody, as for examples and what the site's runs make
        "benchmarks.Payer", null=True, blank=True, on_delete=models.SET_NULL, related_name="submissions"
    )
    former_owner = models.UUIDField(null=True, blank=True, editable=False)  # drawn when its account was deleted
    client_token = models.CharField(max_length=100, blank=True)  # Idempotency-Key: the same post twice is one row
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    shown_at = models.DateTimeField(null=True, blank=True)  # when it last became public, unless it was so at first
    moderation = models.CharField(max_length=12, choices=Moderation, default=Moderation.OK)  # moved by `decisions.py`

    objects = SubmissionQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["owner", "-created"]),
            models.Index(fields=["payer", "-created"]),
            models.Index(fields=["source_key"], condition=~Q(source_key=""), name="submission_source_key"),
            models.Index(fields=["moderation"], condition=~Q(moderation=Moderation.OK), name="submission_moderated"),
            models.Index(
                fields=["visibility"], condition=~Q(visibility=Visibility.PUBLIC), name="submission_not_public"
            ),
        ]
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

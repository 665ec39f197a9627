"""Decisions of staff about submissions, accounts and the site, reports, and batches of entries that are judged again.

The log of actions is append-only; the state that follows from it is a column of its target, which
`moderation/decisions.py` moves in the same transaction. Does NOT hold scores: those stay with the evaluations, whatever
is decided.
"""

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..querysets import ActionQuerySet
from ..states import ActionKind, BatchState
from .comments import Comment
from .evaluations import Evaluation
from .requests import KernelRequest
from .submissions import Submission
from .tasks import RuleSet, TaskVersion


class RejudgeBatch(models.Model):
    """Entries that are judged again, a few at a time, each under the version of its task that is judged now."""

    code = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    reason = models.TextField()  # public
    wanted = models.JSONField(default=dict)  # the filter that chose the entries, as the form took it
    ruleset = models.ForeignKey(RuleSet, on_delete=models.PROTECT, related_name="rejudge_batches")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    state = models.CharField(max_length=10, choices=BatchState, default=BatchState.RUNNING, db_index=True)
    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(reason=""), name="rejudgebatch_says_why"),
            models.CheckConstraint(
                condition=Q(state__in=("done", "cancelled"), finished__isnull=False)
                | ~Q(state__in=("done", "cancelled")) & Q(finished__isnull=True),
                name="rejudgebatch_finished_says_when",
            ),
        ]

    def __str__(self) -> str:
        return f"{str(self.code)[:8]} {self.state}"

    def get_absolute_url(self) -> str:
        return reverse("change", args=[self.code])


class RejudgeItem(models.Model):
    """One entry of a batch: the judging it had, and the one it gets. `after` is set once, together with its row."""

    batch = models.ForeignKey(RejudgeBatch, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    before = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="+")
    version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="+")
    after = models.OneToOneField(
        Evaluation, null=True, blank=True, on_delete=models.CASCADE, related_name="rejudge_item"
    )
    rank_before = models.PositiveIntegerField(null=True, blank=True)
    rank_after = models.PositiveIntegerField(null=True, blank=True)  # when the batch was done

    class Meta:
        ordering: ClassVar = ["batch", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch", "position"], name="rejudgeitem_unique_position"),
            models.UniqueConstraint(fields=["batch", "before"], name="rejudgeitem_unique_before"),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.position}"

    @property
    def judgings(self) -> tuple[Evaluation, Evaluation | None]:
        return self.before, self.after


class ModerationAction(models.Model):
    """A line of the log. `subject` names the target in words, which stay when the target itself is deleted."""

    kind = models.CharField(max_length=12, choices=ActionKind)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="moderation_actions"
    )
    submission = models.ForeignKey(
        Submission, null=True, blank=True, on_delete=models.SET_NULL, related_name="moderation_actions"
    )
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="moderated"
    )
    batch = models.ForeignKey(RejudgeBatch, null=True, blank=True, on_delete=models.SET_NULL, related_name="actions")
    comment = models.ForeignKey(
        Comment, null=True, blank=True, on_delete=models.SET_NULL, related_name="moderation_actions"
    )
    request = models.ForeignKey(
        KernelRequest, null=True, blank=True, on_delete=models.SET_NULL, related_name="moderation_actions"
    )
    subject = models.CharField(max_length=300)
    public_reason = models.TextField(blank=True)
    private_note = models.TextField(blank=True)  # for staff; of a report, its text
    created = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = ActionQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        indexes: ClassVar = [models.Index(fields=["submission", "kind", "-id"])]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(kind="flag", public_reason="") & ~Q(private_note="")
                | ~Q(kind="flag") & ~Q(public_reason=""),
                name="moderationaction_gives_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.subject}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("ModerationAction is append-only")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("ModerationAction is append-only")

"""The ledger of charges and refunds, and what is kept of a deleted submission.

Nothing here contains a source, a name or an address: an address is stored as a keyed digest, and deleted after some
days. Does NOT decide what may be submitted: `quotas/` does.
"""

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from ..querysets import AppendOnlyQuerySet
from ..states import LedgerKind
from .evaluations import VERDICT_CHOICES, Evaluation
from .tasks import DeviceKind, RuleSet, TaskVersion


def _now() -> datetime:
    return timezone.now()


class Payer(models.Model):
    """Whom quotas count judgings for: an account, or an address without one; neither once it was forgotten."""

    account = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="payer"
    )
    address_digest = models.CharField(max_length=64, null=True, blank=True, unique=True)
    seen = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(account__isnull=True) | Q(address_digest__isnull=True), name="payer_is_one_of_both"
            )
        ]

    def __str__(self) -> str:
        return f"account {self.account_id}" if self.account_id else f"address {self.address_digest or 'forgotten'}"


class LedgerEntry(models.Model):
    """One line that nobody changes: seconds on a device that an evaluation took, or that were given back."""

    payer = models.ForeignKey(Payer, on_delete=models.PROTECT, related_name="entries")
    evaluation = models.ForeignKey(
        Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="ledger_entries"
    )
    kind = models.CharField(max_length=10, choices=LedgerKind)
    judging_s = models.FloatField()  # positive whatever the kind
    text = models.CharField(max_length=500)  # says what it was for, the evaluation may be gone
    created = models.DateTimeField(default=_now, editable=False)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]
        indexes: ClassVar = [models.Index(fields=["payer", "-created"])]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["evaluation", "kind"], name="ledgerentry_once_per_kind"),
            models.CheckConstraint(condition=Q(judging_s__gt=0), name="ledgerentry_is_something"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.judging_s:.1f} s"


class Refusal(models.Model):
    """That a source was refused or held once, kept when its submission is deleted: nobody gains by trying again.

    With PASS as verdict it was under review. Without a verdict it was staff who refused it: they had invalidated the
    submission, and `finished` is when they did. Of the owner, while there is one, by its tokens as well. `deleted` is
    None in rows that are older than this column.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    former_owner = models.UUIDField(null=True, blank=True, editable=False)  # as of the submissions that it left
    source_sha256 = models.CharField(max_length=64)
    source_key = models.CharField(max_length=64, blank=True)
    object_key = models.CharField(max_length=64, blank=True)
    language = models.CharField(max_length=10)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="+")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.CASCADE, related_name="+")
    ruleset = models.ForeignKey(RuleSet, on_delete=models.CASCADE, related_name="+")
    verdict = models.CharField(max_length=20, choices=VERDICT_CHOICES, blank=True)
    finished = models.DateTimeField()
    deleted = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering: ClassVar = ["finished", "pk"]
        indexes: ClassVar = [models.Index(fields=["source_sha256", "task_version"])]

    def __str__(self) -> str:
        return f"{self.source_sha256[:12]} {self.verdict}"


class DeletedScore(models.Model):
    """What a judging of a submission since deleted had scored: choosing the luckiest of several must gain nothing.

    It outlives the account, without its name: otherwise the judgings of throw-away accounts could be chosen from.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    former_owner = models.UUIDField(null=True, blank=True, editable=False)  # as of the submissions that it left
    source_sha256 = models.CharField(max_length=64)
    source_key = models.CharField(max_length=64, blank=True)
    object_key = models.CharField(max_length=64, blank=True)
    language = models.CharField(max_length=10, blank=True)  # empty in rows that are older than this column
    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="+")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.CASCADE, related_name="+")
    ruleset = models.ForeignKey(RuleSet, on_delete=models.CASCADE, related_name="+")
    score = models.FloatField()
    score_lo = models.FloatField()
    score_hi = models.FloatField()
    timing_trust = models.CharField(max_length=20, blank=True)  # empty in rows that are older than this column
    finished = models.DateTimeField(null=True)  # likewise
    timing_revision = models.PositiveSmallIntegerField(default=0, db_default=0)
    conditions = models.CharField(max_length=200, blank=True, default="", db_default="")
    for_site = models.BooleanField(default=False, db_default=False)  # whether the site had asked for the judging
    gated = models.BooleanField(default=False, db_default=False)  # whether nobody had answered why it was so fast
    passed_audit = models.BooleanField(default=False, db_default=False)  # so it still settles what an audit settles

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["owner", "task_version", "device_kind"])]

    def __str__(self) -> str:
        return f"{self.source_sha256[:12]} {self.score:.2f}"


class DeletedConnection(models.Model):
    """That a judging since deleted, neither scored nor refused, was of this text and code: they stay connected.

    For its owner alone; it says nothing against either of them.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    former_owner = models.UUIDField(null=True, blank=True, editable=False)  # as of the submissions that it left
    source_sha256 = models.CharField(max_length=64)
    source_key = models.CharField(max_length=64, blank=True)
    object_key = models.CharField(max_length=64, blank=True)
    language = models.CharField(max_length=10)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="+")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.CASCADE, related_name="+")
    ruleset = models.ForeignKey(RuleSet, on_delete=models.CASCADE, related_name="+")

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.source_sha256[:12]} {self.object_key[:12]}"


class Confirmation(models.Model):
    """That staff have looked at a text, and at what it was compiled to on a board, and found nothing wrong until then.

    It holds for everybody's judgings of the same and outlives the submission it was about. Staff can take it back.
    """

    source_sha256 = models.CharField(max_length=64)
    object_key = models.CharField(max_length=64, blank=True)
    language = models.CharField(max_length=10)
    task_version = models.ForeignKey(TaskVersion, on_delete=models.CASCADE, related_name="+")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.CASCADE, related_name="+")
    ruleset = models.ForeignKey(RuleSet, on_delete=models.CASCADE, related_name="+")
    confirmed = models.DateTimeField()
    reached = models.JSONField(default=dict)  # by the code of each gate, for how high a score it was answered

    class Meta:
        ordering: ClassVar = ["confirmed", "pk"]
        indexes: ClassVar = [models.Index(fields=["task_version", "device_kind", "source_sha256"])]

    def __str__(self) -> str:
        return f"{self.source_sha256[:12]} {self.confirmed}"


class SpentPlace(models.Model):
    """A place of a day that is counted although no row need show it any more.

    One that was `cancelled`, or a public place: its submission was deleted or hidden again, is older than the day, or
    was judged in full after a quick check.
    """

    payer = models.ForeignKey(Payer, on_delete=models.CASCADE, related_name="spent_places")
    submitted = models.DateTimeField(db_index=True)  # of a cancelled one, when it was cancelled
    cancelled = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering: ClassVar = ["-submitted", "-pk"]

    def __str__(self) -> str:
        return f"{self.payer} {self.submitted}"


class CachedValue(models.Model):
    """A row of Django's cache, which counts attempts to log in and the like by a keyed hash (`accounts/limits.py`)."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        ordering: ClassVar = ["expires"]

    def __str__(self) -> str:
        return f"{self.cache_key[:8]} until {self.expires}"

"""Leaderboards, one row per holder.

Does NOT rank: `boards/ranking.py` does, and `boards/standings.py` writes.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from ..harness import timing_revision
from ..querysets import StandingQuerySet
from ..states import TIMINGS
from .evaluations import Evaluation
from .tasks import DeviceKind, RuleSet, TaskVersion


class Standing(models.Model):
    """One row of a leaderboard. Written by `boards/standings.py` alone.

    `holder` is who the row belongs to: `user:ID`, and `former:ID` for what an account has left (both with `/METHOD`
    unless made by hand), `method:SLUG` for what kbench ships, `text:SHA256` for what was submitted without an account.
    `rank` is None while the entry is under review.
    """

    ruleset = models.ForeignKey(RuleSet, on_delete=models.PROTECT, related_name="standings")
    task_version = models.ForeignKey(TaskVersion, on_delete=models.PROTECT, related_name="standings")
    device_kind = models.ForeignKey(DeviceKind, on_delete=models.PROTECT, related_name="standings")
    holder = models.CharField(max_length=200)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="standings")
    score = models.FloatField()
    score_lo = models.FloatField()
    score_hi = models.FloatField()
    judgings = models.PositiveIntegerField(default=1)  # how many judgings of the same code are pooled
    timing_revision = models.PositiveSmallIntegerField(default=0, db_default=0)  # that counts for them
    # They are far apart although their times were replayed, and have different owners: the site judges the code itself.
    is_contested = models.BooleanField(default=False, db_default=False)
    rank = models.PositiveIntegerField(null=True, blank=True)
    verified_at = models.DateTimeField()
    under_review = models.BooleanField(default=False)
    review_reason = models.TextField(blank=True)  # public

    objects = StandingQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["rank", "verified_at", "pk"]
        indexes: ClassVar = [
            models.Index(fields=["task_version", "device_kind", "ruleset", "rank"]),
            models.Index(fields=["-verified_at"], name="standing_newest"),
            models.Index(fields=["verified_at"], condition=Q(under_review=True), name="standing_under_review"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["ruleset", "task_version", "device_kind", "holder"], name="standing_one_per_holder"
            ),
            models.CheckConstraint(
                condition=Q(under_review=False, review_reason="")
                | Q(under_review=True, rank=None) & ~Q(review_reason=""),
                name="standing_review_has_reason_and_no_rank",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rank or 'under review'} {self.holder}"

    @property
    def is_timed_earlier(self) -> bool:
        """Whether an earlier revision of the judge has timed, on a GPU, what is pooled or the judging that is shown."""
        revision = min(self.timing_revision, self.evaluation.timing_revision)
        return self.evaluation.timing_trust in TIMINGS and revision < timing_revision("cuda")

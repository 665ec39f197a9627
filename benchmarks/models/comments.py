"""Comments on submissions.

Whether anybody reads them depends on the submission (`benchmarks/comments.py`). Does NOT hold reports and decisions:
those are lines of the moderation log.
"""

from typing import ClassVar

from django.conf import settings
from django.db import models

from ..states import Moderation
from .submissions import Submission


class Comment(models.Model):
    """Plain text. It goes with its submission and with the account that wrote it.

    A row whose comment was deleted stays for a day without the text, because it counts for the limits of its author.
    """

    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="comments")
    text = models.TextField(blank=True)
    created = models.DateTimeField(auto_now_add=True)
    moderation = models.CharField(max_length=12, choices=Moderation, default=Moderation.OK)  # moved by `comments.py`
    deleted = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [
            models.Index(fields=["submission", "id"], name="comment_of_submission"),
            models.Index(fields=["author", "-created"], name="comment_of_author"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~models.Q(text="") | models.Q(deleted__isnull=False), name="comment_says_something"
            ),
            models.CheckConstraint(
                condition=models.Q(moderation__in=(Moderation.OK, Moderation.HIDDEN)), name="comment_is_shown_or_hidden"
            ),
        ]

    def __str__(self) -> str:
        return f"comment {self.pk}"

    @property
    def is_hidden(self) -> bool:
        return self.moderation == Moderation.HIDDEN

"""News of the site: posts that staff write. Does NOT decide who reads a draft (`benchmarks/news.py`)."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.urls import reverse


class NewsPost(models.Model):
    """Plain text with a title. A post that is not published is a draft, which staff alone read."""

    title = models.CharField(max_length=120)
    text = models.TextField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created = models.DateTimeField(auto_now_add=True)
    published = models.DateTimeField(null=True, blank=True, db_index=True)
    changed = models.DateTimeField(null=True, blank=True)  # after it was published

    class Meta:
        ordering: ClassVar = ["-published", "-pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(title="") & ~models.Q(text=""), name="newspost_says_something")
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("news-post", args=[self.pk])

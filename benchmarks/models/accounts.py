"""The tables about accounts, which are Django's own users: their API tokens.

Does NOT make or check tokens: that is `accounts/tokens.py`.
"""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from ..states import TokenScope


class ApiToken(models.Model):
    """What a program shows instead of a password. The text itself is kept nowhere (`accounts/tokens.py`)."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=10, choices=TokenScope, default=TokenScope.SUBMIT)
    hint = models.CharField(max_length=12)  # its first characters, to tell tokens apart
    digest = models.CharField(max_length=64, unique=True)
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField(null=True, blank=True)
    last_used = models.DateTimeField(null=True, blank=True)
    revoked = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    @property
    def is_expired(self) -> bool:
        return self.expires is not None and self.expires <= timezone.now()

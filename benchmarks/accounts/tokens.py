"""API tokens: made for an account, shown once, kept as a digest, found again by what a request carries.

A token is 32 random bytes, so a plain SHA-256 of it is as good as a slow hash. Does NOT decide what a token may do:
the endpoints ask for its scope.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from benchmarks.services import Refused

from ..models import ApiToken
from ..states import TokenScope

PREFIX = "kb_"
HINT_CHARS = 8
TOKENS_MAX = 100
USED_EVERY = timedelta(minutes=1)  # how exact `last_used` is: not every request shall write


@dataclass(frozen=True)
class NewToken:
    """The row and the text, which exists nowhere else."""

    row: ApiToken
    text: str


def token_create(owner: Any, name: str, scope: str = TokenScope.SUBMIT, days: int | None = None) -> NewToken:
    """A new token; `days` until it expires, None for never. Raises Refused where the account has too many."""
    now = timezone.now()
    counted = Q(revoked=None) & (Q(expires=None) | Q(expires__gt=now)) | Q(created__gt=now - timedelta(days=1))
    if ApiToken.objects.filter(counted, owner=owner).count() >= TOKENS_MAX:
        raise Refused(
            f"An account has at most {TOKENS_MAX} tokens, those made within the last 24 hours included. Revoke some."
        )
    text = PREFIX + secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        owner=owner,
        name=name,
        scope=scope,
        hint=text[:HINT_CHARS],
        digest=_digest(text),
        expires=now + timedelta(days=days) if days else None,
    )
    return NewToken(row, text)


def token_find(text: str) -> ApiToken | None:
    """The token of a request if it is valid now."""
    now = timezone.now()
    token = _valid().filter(digest=_digest(text)).select_related("owner").first()
    if token is not None and (token.last_used is None or token.last_used < now - USED_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used=now)
    return token


def token_is_valid(token: ApiToken) -> bool:
    """Whether it still is, for a request that takes long."""
    return _valid().filter(pk=token.pk).exists()


def token_revoke(owner: Any, pk: int) -> bool:
    """False: the account has no such token, or it was revoked before."""
    return ApiToken.objects.filter(owner=owner, pk=pk, revoked=None).update(revoked=timezone.now()) == 1


def _valid() -> QuerySet[ApiToken]:
    unexpired = Q(expires=None) | Q(expires__gt=timezone.now())
    return ApiToken.objects.filter(unexpired, revoked=None, owner__is_active=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Lists the notifications of an account and marks them as read."""

from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Page
from django.utils import timezone

from ..models import Notification
from ..selectors import page_by_key
from .telling import KEPT_DAYS

__all__ = ["KEPT_DAYS", "UNREAD_SHOWN_MAX", "mark_read", "notifications_of", "unread_count"]
UNREAD_SHOWN_MAX = 99


def notifications_of(owner: User, page: int | str = 1, *, unread: bool = False) -> Page[Any]:
    """Newest first."""
    rows = _shown(owner).filter(read=None) if unread else _shown(owner)
    return page_by_key(rows.order_by("-pk"), Notification.objects.all(), page)


def unread_count(owner: User) -> int:
    """At most `UNREAD_SHOWN_MAX` + 1, so that the header of a page costs little."""
    return len(_shown(owner).filter(read=None).order_by()[: UNREAD_SHOWN_MAX + 1].values_list("pk"))


def mark_read(owner: User, pk: int | None = None) -> int:
    """One notification, or all of the account. How many were unread."""
    rows = _shown(owner).filter(read=None)
    return int((rows if pk is None else rows.filter(pk=pk)).update(read=timezone.now()))


def _shown(owner: User) -> Any:
    return Notification.objects.filter(owner=owner.pk, on_site=True)

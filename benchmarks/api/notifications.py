"""`/notifications`: what the owner of a token was told on the site, and marking it as read.

Does NOT change what is told by which channel: that is a page of the account.
"""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from benchmarks.notifications import lists

from .auth import Token, owner_of
from .schemas import PageNumber

router = Router(tags=["account"])
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]


class NotificationOut(Schema):
    id: int
    kind: str = Field(
        description="verdict, record-lost, run-ended, report-decided, contest-ended, comment, team, answer, webhook-off"
    )
    text: str
    url: str
    created: datetime
    read: datetime | None


class NotificationPage(Schema):
    page: int
    pages: int
    unread: int = Field(description=f"{lists.UNREAD_SHOWN_MAX + 1} stands for more")
    notifications: list[NotificationOut]


class ReadOut(Schema):
    marked: int = Field(description="how many were unread")


@router.get("", response=NotificationPage, summary="Your notifications, newest first", auth=Token())
def notifications(request: HttpRequest, unread: bool = False, page: PageNumber = 1) -> Any:
    owner = request.api_token.owner  # type: ignore[attr-defined]
    rows = lists.notifications_of(owner, page, unread=unread)
    shown = [
        NotificationOut(id=row.pk, kind=row.kind, text=row.text, url=row.path, created=row.created, read=row.read)
        for row in rows
    ]
    count = lists.unread_count(owner)
    return NotificationPage(page=rows.number, pages=rows.paginator.num_pages, unread=count, notifications=shown)


@router.post("/read", response=ReadOut, summary="Mark one notification as read, or all", auth=Token())
def notifications_read(request: HttpRequest, id: Number | None = None) -> Any:
    """Without `id` all of them."""
    return ReadOut(marked=lists.mark_read(owner_of(request), id))

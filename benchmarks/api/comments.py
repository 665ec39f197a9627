"""`/submissions/{id}/comments`: what people wrote about a public submission, and writing a comment.

Texts are plain text: whoever shows one as a page escapes it. Does NOT report or hide comments: those are pages.
"""

import uuid
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Router, Schema, Status

from benchmarks import comments
from benchmarks.models import Comment, Submission
from benchmarks.services import Refused

from .auth import Token, owner_of
from .problems import Problem
from .schemas import PageNumber

router = Router(tags=["comments"])
RETRY_AFTER_S = 3600


class CommentOut(Schema):
    id: int
    author: str
    created: datetime
    text: str | None = Field(description="plain text; null where staff have hidden the comment")
    hidden_reason: str | None = Field(description="why staff have hidden it")


class CommentPage(Schema):
    page: int
    pages: int
    comments: list[CommentOut]


class CommentIn(Schema):
    text: Annotated[str, Field(min_length=1, max_length=comments.TEXT_MAX_CHARS, description="plain text")]


@router.get("/submissions/{id}/comments", response=CommentPage, summary="Comments on a submission, oldest first")
def comment_list(request: HttpRequest, id: uuid.UUID, page: PageNumber = 1) -> Any:
    """404 for a submission that is not public: it has no comments."""
    rows = comments.comments_of(get_object_or_404(Submission, code=id), page)
    return CommentPage(page=rows.number, pages=rows.paginator.num_pages, comments=[_out(row) for row in rows])


@router.post("/submissions/{id}/comments", response={201: CommentOut}, summary="Write a comment", auth=Token())
def comment_create(request: HttpRequest, id: uuid.UUID, body: CommentIn) -> Any:
    owner = owner_of(request)
    submission = get_object_or_404(Submission, code=id)
    if not comments.has_comments(submission):
        raise Http404("This submission has no comments.")
    try:
        made = comments.comment_create(submission, by=owner, text=body.text)
    except comments.TooManyComments as error:
        status = HTTPStatus.TOO_MANY_REQUESTS
        raise Problem(status, "too-many-comments", str(error), retry_after_s=RETRY_AFTER_S) from error
    except Refused as error:
        raise Problem(HTTPStatus.CONFLICT, "comment-refused", str(error)) from error
    return Status(HTTPStatus.CREATED, _out(made))


def _out(row: Comment) -> CommentOut:
    hidden = row.is_hidden
    return CommentOut(
        id=row.pk,
        author=row.author.get_username(),
        created=row.created,
        text=None if hidden else row.text,
        hidden_reason=getattr(row, "hidden_reason", None) if hidden else None,
    )

"""Comments on a public submission: writing and deleting one's own, reporting one, and what staff decide about it.

They are read on the page of an evaluation. Does NOT decide what is shown: `benchmarks/comments.py` does.
"""

import uuid
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from benchmarks import comments, selectors
from benchmarks.forms import CommentForm
from benchmarks.models import Comment, Evaluation
from benchmarks.moderation.forms import CommentDecisionForm
from benchmarks.services import Refused

from .evaluations import evaluation_page
from .parts.reviewing import decision_page, report_page
from .parts.staff import person, staff_only


@require_POST
@login_required
def comment_new(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    if not comments.has_comments(evaluation.submission):
        raise Http404("This submission has no comments.")
    form = CommentForm(request.POST)
    if form.is_valid():
        try:
            made = comments.comment_create(evaluation.submission, by=person(request), text=form.cleaned_data["text"])
        except Refused as error:
            form.add_error(None, str(error))
        else:
            place = (
                evaluation.submission.comments.filter(pk__lt=made.pk, deleted=None).count() // comments.PAGE_ROWS + 1
            )
            return redirect(f"{evaluation.get_absolute_url()}?page={place}#comment-{made.pk}")
    return evaluation_page(request, evaluation, form)


@require_POST
@login_required
def comment_end(request: HttpRequest, pk: int) -> HttpResponse:
    """By its author, also where nobody reads it any more."""
    found = comments.own_comment(pk, request.user)
    comments.comment_delete(found)
    messages.success(request, "The comment was deleted.")
    evaluation = _evaluation_of(found) if comments.has_comments(found.submission) else None
    return redirect(f"{evaluation.get_absolute_url()}#comments" if evaluation else "home")


@login_required
def comment_report(request: HttpRequest, pk: int) -> HttpResponse:
    found = comments.comment_shown(pk)
    what = {"what": "comment", "comment": found}
    report = partial(comments.comment_report, found)
    return report_page(request, _evaluation_of(found), report, "moderation/report_comment.html", what)


@staff_only
def comment_moderate(request: HttpRequest, pk: int) -> HttpResponse:
    found = comments.comment_for_staff(pk)
    form = CommentDecisionForm(found, request.POST or None, reported=comments.open_reports(found).exists())
    context = {
        "row": found,
        "author": found.author,
        "text": found.text,
        "evaluation": _evaluation_of(found),
        "history": comments.history(found),
    }
    return decision_page(request, form, partial(comments.comment_decide, found), "moderation/comment.html", context)


def _evaluation_of(comment: Comment) -> Evaluation:
    """The newest judging of the submission, on whose page the comment stands."""
    found: Evaluation = comment.submission.evaluations.without_open_finals().order_by("-pk")[0]
    return found

"""The owner's page of a submission (visibility, title, deletion), and the comparison of two submissions.

Readers may compare all submissions that they may read. Does NOT show results: those are on the page of the evaluation.
"""

import re
import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from benchmarks import quotas, selectors, services
from benchmarks.accounts import ownership
from benchmarks.forms import DeletionForm, SubmissionChangeForm
from benchmarks.models import Evaluation, Submission
from benchmarks.states import Visibility
from benchmarks.submissions import diffs
from benchmarks.submissions import selectors as submission_selectors

_CODE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_SHOWN = {
    Visibility.PUBLIC: "Everyone can see it, source included; it appears on the leaderboard.",
    Visibility.UNLISTED: "Everyone with the link can see it; it appears on no leaderboard and in no list.",
    Visibility.PRIVATE: "Only you can see it; it appears on no leaderboard.",
}


def _shown(submission: Submission, visibility: Visibility) -> str:
    if submission.team is None or visibility == Visibility.PUBLIC:
        return _SHOWN[visibility]
    return f"{_SHOWN[visibility]} The members of {submission.team} can read it, too."


@login_required
def submission_edit(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    submission, evaluations = _own(request, code)
    first = {"title": submission.title, "visibility": submission.visibility}
    form = SubmissionChangeForm(request.POST or None, initial=first)
    if request.method == "POST" and form.is_valid() and _changed(request, submission, form):
        messages.success(request, _shown(submission, Visibility(form.cleaned_data["visibility"])))
        return redirect(evaluations[0])
    return _edit_page(request, submission, evaluations, form, DeletionForm())


@login_required
@require_POST
def submission_end(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    submission, evaluations = _own(request, code)
    form = DeletionForm(request.POST)
    if form.is_valid():
        try:
            ownership.submission_delete(submission)
        except services.Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The submission and its results were deleted.")
            return redirect("own-submissions")
    first = {"title": submission.title, "visibility": submission.visibility}
    return _edit_page(request, submission, evaluations, SubmissionChangeForm(initial=first), form)


def submission_diff(request: HttpRequest) -> HttpResponse:
    """`?a=` and `?b=`: codes of submissions or evaluations, or the addresses of their pages; `?view=split`."""
    wanted = {"a": request.GET.get("a", ""), "b": request.GET.get("b", "")}
    split = request.GET.get("view") == "split"
    context: dict[str, Any] = {"wanted": wanted, "split": split, "limit": diffs.LINES_MAX}
    codes = [_CODE.search(text) for text in wanted.values()]
    if all(codes):
        sides = [submission_selectors.side_for(request.user, uuid.UUID(code[0])) for code in codes if code]
        lines = diffs.line_diff(*(submission.blob.text for submission, _ in sides))
        context |= {"sides": [evaluation for _, evaluation in sides], "lines": lines}
        context |= {"pairs": diffs.side_by_side(lines) if lines and split else []}
        context |= {"same_task": sides[0][0].task_version_id == sides[1][0].task_version_id}
    else:
        context["unread"] = [name for name, code in zip(wanted, codes, strict=True) if wanted[name] and not code]
    return render(request, "evaluations/diff.html", context)


def _own(request: HttpRequest, code: uuid.UUID) -> tuple[Submission, list[Evaluation]]:
    """What others made is not theirs to change, even where they may read it."""
    submission, evaluations = selectors.submission_for(request.user, code)
    if submission.owner_id != request.user.pk:
        raise PermissionDenied("Only the author can change or delete a submission.")
    return submission, evaluations


def _changed(request: HttpRequest, submission: Submission, form: SubmissionChangeForm) -> bool:
    try:
        ownership.visibility_change(submission, form.cleaned_data["visibility"])
    except (services.Refused, quotas.OverQuota) as error:
        form.add_error("visibility", str(error))
        return False
    ownership.submission_rename(submission, form.cleaned_data["title"])
    return True


def _edit_page(
    request: HttpRequest,
    submission: Submission,
    evaluations: list[Evaluation],
    form: SubmissionChangeForm,
    deletion: DeletionForm,
) -> HttpResponse:
    context = {"submission": submission, "evaluation": evaluations[0], "evaluations": evaluations}
    context |= {"form": form, "deletion": deletion, "shown": _SHOWN.items()}
    return render(request, "evaluations/edit.html", context, status=422 if form.errors or deletion.errors else 200)

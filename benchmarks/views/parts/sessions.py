"""The submissions of a browser without an account, kept in its session, so that it can find and cancel them.

Does NOT give any right beyond cancelling and having a quick check judged in full: everything such a browser submits can
be read by whoever has the link.
"""

from django.http import HttpRequest

from benchmarks.models import Evaluation
from benchmarks.services import is_withdrawable

KEY = "evaluations"
KEPT = 100


def submitted_here(request: HttpRequest) -> list[str]:
    return list(request.session.get(KEY, []))


def remember(request: HttpRequest, evaluation: Evaluation) -> None:
    request.session[KEY] = [*submitted_here(request), str(evaluation.code)][-KEPT:]


def may_cancel(request: HttpRequest, evaluation: Evaluation) -> bool:
    return request.user.is_staff or (is_by(request, evaluation) and is_withdrawable(evaluation))


def is_by(request: HttpRequest, evaluation: Evaluation) -> bool:
    """Whether who asks has submitted it: the account, or without one this browser."""
    owner = evaluation.submission.owner_id
    if owner is None:
        return str(evaluation.code) in submitted_here(request)
    return owner == request.user.pk

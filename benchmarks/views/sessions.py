"""What a browser without an account has submitted, kept in its session, so that it can come back and cancel.

Does NOT give any right beyond cancelling: everything such a browser submits can be read by whoever has the link.
"""

from django.http import HttpRequest

from benchmarks.models import Evaluation

KEY = "evaluations"
KEPT = 100


def submitted_here(request: HttpRequest) -> list[str]:
    return list(request.session.get(KEY, []))


def remember(request: HttpRequest, evaluation: Evaluation) -> None:
    request.session[KEY] = [*submitted_here(request), str(evaluation.code)][-KEPT:]


def may_cancel(request: HttpRequest, evaluation: Evaluation) -> bool:
    owner = evaluation.submission.owner_id
    if request.user.is_staff or (owner is not None and owner == request.user.pk):
        return True
    return owner is None and str(evaluation.code) in submitted_here(request)

"""Decides who may control a run: its owner, staff, and the browser that started it without an account.

Does NOT restrict reading: runs are public.
"""

from django.http import HttpRequest

from agents.models import Run

KEY = "runs"
KEPT = 100


def remember(request: HttpRequest, run: Run) -> None:
    request.session[KEY] = [*request.session.get(KEY, []), str(run.code)][-KEPT:]


def may_steer(request: HttpRequest, run: Run) -> bool:
    user = request.user
    if user.is_authenticated and (user.is_staff or run.owner_id == user.pk):
        return True
    return run.owner_id is None and str(run.code) in request.session.get(KEY, [])

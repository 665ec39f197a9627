"""The page on which staff withhold a candidate of a run, or hide a run, and undo it.

Does NOT decide: `agents/moderation.py` does.
"""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from agents import moderation, selectors
from benchmarks.moderation.forms import TurnForm
from benchmarks.moderation.review import actions_about
from benchmarks.services import Refused
from benchmarks.states import ActionKind
from benchmarks.views.parts.staff import person, staff_only


@staff_only
def moderate(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """Of the candidate in the query, or else of the run."""
    run = selectors.run_of(request.user, code)
    key = request.GET.get("candidate", "")
    row = selectors.candidate_of(run, key) if key else None
    is_done = row.withheld if row else run.hidden
    form = TurnForm(ActionKind.HIDE, ActionKind.RESTORE, request.POST or None, is_done=is_done)
    if request.method == "POST" and form.is_valid():
        words = {"reason": form.cleaned_data["reason"], "note": form.cleaned_data["note"]}
        try:
            if row:
                (moderation.show if form.undoes else moderation.withhold)(row, by=person(request), **words)
            else:
                (moderation.show_run if form.undoes else moderation.hide_run)(run, by=person(request), **words)
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Done. The decision is in the public log.")
            return redirect(request.get_full_path())
    context = {"form": form, "run": run, "row": row, "task": run.task_version.task}
    context["history"] = actions_about(moderation.subject(run, row))
    context["forks"] = [] if row else run.forks.order_by("pk")
    return render(request, "runs/moderate.html", context)

"""The results of entries that were judged again: a list of batches, and one page for each.

Public; entries that only their owners may list are counted and not shown. Does NOT start or stop a batch.
"""

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from benchmarks.models import RejudgeBatch
from benchmarks.moderation import changes
from benchmarks.templatetags.whiskers import Axis


def change_list(request: HttpRequest) -> HttpResponse:
    return render(request, "changes/list.html", {"rows": changes.batches(request.GET.get("page", 1))})


def change(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    batch = get_object_or_404(RejudgeBatch.objects.select_related("ruleset"), code=code)
    rows = changes.changes(batch, request.GET.get("page", 1))
    judgings = [judging for row in rows for judging in row.judgings]
    context = {
        "batch": batch,
        "rows": rows,
        "axis": Axis.over(value for item in judgings for value in (item.score_lo, item.score_hi)),
        "progress": changes.progress(batch),
        "unlisted": changes.unlisted_count(batch),
    }
    return render(request, "changes/detail.html", context)

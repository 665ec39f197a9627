"""One check of a CUDA source without a GPU: its page, which follows it while it runs.

Does NOT judge access by itself: `selectors.check_for` does.
"""

import uuid
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors
from benchmarks.emulator import EmulatorReport
from benchmarks.models import EmulatorCheck


def check_detail(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return render(request, "checks/detail.html", _context(selectors.check_for(request.user, code)))


def check_live(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """204 while the check is in the state that the page shows already, so that nothing is swapped or read out again."""
    check = selectors.check_for(request.user, code)
    if request.GET.get("state") == check.state:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return render(request, "checks/_live.html", _context(check))


def _context(check: EmulatorCheck) -> dict[str, Any]:
    report = EmulatorReport.from_json(check.report) if check.report else None
    return {"check": check, "task": check.task_version.task, "found": report}

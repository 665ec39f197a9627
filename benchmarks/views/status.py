"""Whether the machinery works: workers, their isolation, the queue and how recent evaluations ended.

Does NOT show errors of the system itself; those are for staff, in the admin.
"""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors


def status(request: HttpRequest) -> HttpResponse:
    context = {
        "workers": selectors.workers(),
        "alive": set(selectors.alive_workers().values_list("pk", flat=True)),
        "lines": selectors.queue_lines(),
        "running": selectors.at_work(request.user),
        "waiting": selectors.next_in_queue(request.user),
        "verdicts": selectors.verdicts_since(timedelta(days=1)),
    }
    return render(request, "status.html", context)

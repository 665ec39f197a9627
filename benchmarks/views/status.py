"""The status page: queue, waits and outcomes per device; workers with self-test and versions.

Public, and the same figures as `/api/v1/status`. Does NOT show errors of the system itself; those are for staff, in
the admin.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors
from benchmarks.models import Worker
from benchmarks.operations import health, load

VERSIONS = ("kbench", "image", "torch", "triton", "cuda", "driver", "compiler", "python", "django", "celery")


def status(request: HttpRequest) -> HttpResponse:
    workers = list(selectors.workers())
    found = health.checks()
    context = {
        "level": health.worst(found),
        "troubles": [check.text for check in found if check.level is not health.Level.OK],
        "figures": load.device_figures(),
        "incidents": load.incidents(),
        "workers": workers,
        "versions": version_rows(workers),
        "alive": set(selectors.alive_workers().values_list("pk", flat=True)),
        "running": selectors.at_work(request.user),
        "waiting": selectors.next_in_queue(request.user),
        "verdicts": selectors.verdicts_since(timedelta(days=1)),
    }
    return render(request, "status.html", context)


@dataclass(frozen=True)
class VersionRow:
    """One tool, and its version per worker, None where the worker does not use it."""

    tool: str
    texts: list[str | None]
    differs: bool


def version_rows(workers: Iterable[Worker]) -> list[VersionRow]:
    """Tools that any worker has reported, in the order of their influence on a result."""
    known = [worker.versions for worker in workers]
    return [
        VersionRow(tool, texts, differs=len({text for text in texts if text}) > 1)
        for tool in VERSIONS
        if any(texts := [versions.get(tool) for versions in known])
    ]

"""The page of attacks: the last `make redteam` on each kind of device, with the results of a naive harness.

Reads the files that the run has written. Does NOT judge anything.
"""

from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks.catalogue.attacks import GAIN_MAX, runs


def results_folder() -> Path:
    return Path(settings.BASE_DIR) / "docs" / "results" / "redteam"


def attacks(request: HttpRequest) -> HttpResponse:
    """One device at a time, the first by name unless `?device=` names another."""
    found = {run.device_kind: run for run in runs(results_folder())}
    wanted = request.GET.get("device", next(iter(found), ""))
    if found and wanted not in found:
        raise Http404("The attacks have not been run on this device.")
    context = {
        "run": found.get(wanted),
        "devices": list(found),
        "current": settings.KBENCH_RULESET,
        "gain_max": GAIN_MAX,
    }
    return render(request, "attacks.html", context)

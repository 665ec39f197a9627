"""The results of importing a suite, task by task: of the newest run, or of the one that the address names.

Does NOT import: that is `manage.py import_tasks`.
"""

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from benchmarks.models import SuiteImport
from benchmarks.states import ImportOutcome

RUNS_SHOWN = 20


def suite_imports(request: HttpRequest, suite: str) -> HttpResponse:
    runs = SuiteImport.objects.filter(suite__slug=suite).select_related("suite")
    wanted = request.GET.get("run", "")
    run = get_object_or_404(runs, pk=int(wanted[:9])) if wanted.isdecimal() else get_object_or_404(runs[:1])
    # in the order of the folder
    reports = run.reports.select_related("version__task__suite").defer(
        "version__definition", "version__reference_source"
    )
    counts = Counter(report.outcome for report in reports)
    context = {
        "run": run,
        "suite": run.suite,
        "reports": reports,
        "runs": runs[:RUNS_SHOWN],
        "counts": [(outcome.label, counts[outcome]) for outcome in ImportOutcome if counts[outcome]],
    }
    return render(request, "suites/imports.html", context)

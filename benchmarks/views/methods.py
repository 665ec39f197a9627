"""Methods: the list of them, and one with its standings on the tasks of a suite.

Figures are computed as on the compare page. Does NOT show sources or runs, which are on the pages of evaluations and
runs.
"""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from benchmarks import selectors
from benchmarks.boards import overview
from benchmarks.boards.comparing import FAST_AT
from benchmarks.boards.overview import Comparison
from benchmarks.models import Method
from benchmarks.selectors import PAGE_ROWS
from benchmarks.templatetags.whiskers import Axis

from .parts.devices import DeviceChoice, device_choice


def method_list(request: HttpRequest) -> HttpResponse:
    methods = Paginator(Method.objects.select_related("owner"), PAGE_ROWS).get_page(request.GET.get("page", 1))
    context = {**_place(request), "methods": methods, "ps": FAST_AT}
    comparison = _compared(context, list(methods))
    return render(request, "methods/list.html", {**context, "comparison": comparison})


def method_detail(request: HttpRequest, slug: str) -> HttpResponse:
    method = get_object_or_404(Method.objects.select_related("owner"), slug=slug)
    context = {**_place(request), "method": method}
    comparison = _compared(context, [method])
    if comparison is not None:
        context |= _standings(comparison, request.GET.get("page", 1))
    return render(request, "methods/detail.html", context)


def _place(request: HttpRequest) -> dict[str, Any]:
    """Suite and device kind; neither before the first start."""
    suites = overview.suites()
    suite = overview.suite_of(request.GET.get("suite", "")) if suites else None
    return {"devices": device_choice(request, selectors.device_kinds()), "suites": suites, "suite": suite}


def _compared(place: dict[str, Any], methods: list[Method]) -> Comparison | None:
    devices: DeviceChoice = place["devices"]
    if place["suite"] is None or devices.current is None:
        return None
    return overview.compare(overview.read_field(place["suite"], devices.current), methods)


def _standings(comparison: Comparison, page: int | str) -> dict[str, Any]:
    """A page of the tasks that the method has attempted, where it stands best first."""
    (row,) = comparison.rows
    attempted = comparison.field.attempted.get(row.method.pk, frozenset())
    tasks = [task for key, task in comparison.field.tasks.items() if key in attempted]
    tasks.sort(key=lambda task: row.marks[task.pk].rank if task.pk in row.marks else len(comparison.field.tasks) + 1)
    shown = Paginator(tasks, PAGE_ROWS).get_page(page)
    marks = [row.marks[task.pk] for task in shown if task.pk in row.marks]
    return {
        "comparison": comparison,
        "row": row,
        "shown": shown,
        "lines": overview.matrix(comparison, list(shown)),
        "axis": Axis.over(bound for mark in marks for bound in (mark.lo, mark.hi)),
        "shares": list(zip(FAST_AT, row.figures.shares, strict=True)),
    }

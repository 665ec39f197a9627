"""Leaderboards: the list of them, the overall board of a suite, and one per task, device kind and rule set.

On the board of a task the baselines are listed among the entries, at the place that their times give them. Does NOT
decide any rank and does NOT compute figures of the overall board: `boards/comparing.py` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from benchmarks import selectors
from benchmarks.boards import overview
from benchmarks.boards import selectors as board_selectors
from benchmarks.boards.comparing import FAST_AT
from benchmarks.boards.figures import answer
from benchmarks.boards.orders import order_of
from benchmarks.boards.overview import Row
from benchmarks.boards.selectors import BoardKey, EntryFilter
from benchmarks.models import Method, RecordedBundle
from benchmarks.recorded import selectors as recorded
from benchmarks.states import TIMINGS, MethodKind
from benchmarks.submissions.languages import languages_of
from benchmarks.templatetags.whiskers import Axis

from .parts.boards import board_page
from .parts.charts import record_chart
from .parts.devices import device_choice
from .parts.figures import record_figure
from .parts.tradeoffs import trades
from .previews import preview_of_board

FILTERS = ("kind", "language", "calls", "timing", "author")
KINDS = (MethodKind.HUMAN, MethodKind.AGENT, MethodKind.LIBRARY)
ORDERED_BY = FAST_AT.index(1.0)  # faster than the baseline: what an overall board is sorted by


def leaderboard_list(request: HttpRequest) -> HttpResponse:
    devices = device_choice(request, selectors.device_kinds())
    bundles = recorded.bundles()
    context = {"devices": devices, "suites": overview.suites(), "bundles": bundles}
    if devices.current is not None:
        rows, boards = board_selectors.board_summaries(devices.current, request.GET.get("page", 1))
        leaders = [board.leader for board in boards if board.leader]
        axis = Axis.over(value for row in leaders for value in (row.score_lo, row.score_hi))
        context |= {"rows": rows, "boards": boards, "axis": axis}
        if bundles and not leaders:
            context |= _recorded_leaders(bundles[0])
    return render(request, "leaderboards/list.html", context)


def _recorded_leaders(bundle: RecordedBundle) -> dict[str, Any]:
    """Above boards that are all empty: those of the richest bundle of recorded results."""
    leaders = recorded.leaders(bundle)
    axis = Axis.over(value for row in leaders for value in (row.score_lo, row.score_hi))
    return {"bundle": bundle, "leaders": leaders, "leaders_axis": axis}


def overall_board(request: HttpRequest, suite: str) -> HttpResponse:
    found, devices = overview.suite_of(suite), device_choice(request, selectors.device_kinds())
    if devices.current is None:
        raise Http404("There is no device kind yet.")
    field = overview.read_field(found, devices.current)
    kind = request.GET.get("kind", "")
    comparison = overview.compare(field, methods_of(kind, field.present()))
    rows = Paginator(best_first(comparison.rows), selectors.PAGE_ROWS).get_page(request.GET.get("page", 1))
    means = [row.figures.mean for row in rows if row.figures.mean]
    context = {
        "devices": devices,
        "field": field,
        "comparison": comparison,
        "rows": rows,
        "ps": FAST_AT,
        "solvers": sum(bool(row.marks) for row in comparison.rows),
        "kinds": KINDS,
        "kind": kind,
        "axis": Axis.over(bound for mean in means for bound in (mean.lo, mean.hi)),
    }
    return render(request, "leaderboards/overall.html", context)


def methods_of(kind: str, present: Sequence[Method]) -> list[Method]:
    """Those of one kind; all of them where `kind` is none of the three."""
    return [method for method in present if kind not in KINDS or method.kind == kind]


def best_first(rows: Sequence[Row]) -> list[Row]:
    """By tasks on which they are faster than the baseline, then by tasks won, then by name."""
    return sorted(rows, key=lambda row: (-row.figures.shares[ORDERED_BY].count, -row.figures.won, row.method.slug))


def leaderboard(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    version = selectors.version_numbered(suite, op, direction, request.GET.get("version", ""))
    key = board_selectors.board_key(version, device, request.GET.get("rules", ""))
    chosen, sort = _chosen(request), order_of(request.GET.get("sort", ""))
    devices = device_choice(
        request,
        selectors.device_kinds(version),
        device,
        lambda kind: reverse("leaderboard", args=[suite, op, direction, kind.slug]),
    )
    old = board_selectors.is_old(key)
    board = board_page(key, request.GET.get("page", 1), chosen, sort)
    context = {
        "board": board,
        "sort": sort,
        "trades": [{"axis": trade.axis, "chart": trade.chart()} for trade in trades(list(board.rows))],
        "key": key,
        "task": version.task,
        "devices": devices,
        "is_old": old,
        "preview": None if old else preview_of_board(key),
        "versions": selectors.task_versions(version.task),
        "recorded": recorded.leaders_of_task(version.task),
        **_filters(request, key, chosen),
        **_records(key),
    }
    return render(request, "leaderboards/board.html", context)


def leaderboard_figure(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    """The history of the record, or `?chart=error` or `energy`, on the board that the page of this address shows."""
    version = selectors.version_numbered(suite, op, direction, request.GET.get("version", ""))
    key = board_selectors.board_key(version, device, request.GET.get("rules", ""))
    if request.GET.get("chart"):
        return _trade_figure(request, key)
    records = board_selectors.board_records(key)
    if not records:
        raise Http404("This board has no record yet.")
    return answer(record_figure(records, timezone.now()))


def _trade_figure(request: HttpRequest, key: BoardKey) -> HttpResponse:
    sort = order_of(request.GET.get("sort", ""))
    rows = board_selectors.board_rows(key, request.GET.get("page", 1), _chosen(request), sort=sort)
    found = {trade.axis.code: trade for trade in trades(list(rows))}.get(request.GET["chart"])
    if found is None:
        raise Http404("There is nothing to compare on this board yet.")
    return answer(found.figure())


def _chosen(request: HttpRequest) -> EntryFilter:
    return EntryFilter.of(*(request.GET.get(name, "") for name in FILTERS))


def _filters(request: HttpRequest, key: BoardKey, chosen: EntryFilter) -> dict[str, Any]:
    """What can be chosen, what was, and where the same rows are for programs."""
    return {
        "chosen": chosen,
        "timings": TIMINGS if key.device.device_class == "cuda" else (),
        "kinds": KINDS,
        "languages": languages_of(key.device.device_class, modules=key.version.definition.get("module", False)),
        "kept": [(name, request.GET[name]) for name in ("version", "rules", "sort") if name in request.GET],
        "data_url": f"{reverse('api:leaderboard')}?{_query(key, asdict(chosen))}",
        "record_url": f"{reverse('api:record')}?{_query(key, {})}",
    }


def _query(key: BoardKey, chosen: Mapping[str, str]) -> str:
    board = {
        "task": key.version.task.path,
        "device": key.device.slug,
        "ruleset": key.ruleset.name,
        "version": key.version.number,
    }
    return urlencode({**board, **{name: value for name, value in chosen.items() if value}}, safe="/")


def _records(key: BoardKey) -> dict[str, Any]:
    """The newest first in the table, the oldest in the chart."""
    records = board_selectors.board_records(key)
    return {
        "records": records[::-1],
        "record_chart": record_chart(records, timezone.now()) if records else None,
        "record_axis": Axis.over(bound for row in records for bound in (row.score_lo, row.score_hi)),
    }

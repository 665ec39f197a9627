"""Recorded results: the bundles, one bundle with its methods and boards, the board of a task, one entry.

Every page says that this site has not judged what it shows, and where and when it was judged. Does NOT mix recorded
entries with those of this site.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import selectors
from benchmarks.models import ConfigResult, RecordedBundle, RecordedEntry, RuleSet
from benchmarks.recorded import selectors as recorded
from benchmarks.recorded.profiles import profile_of
from benchmarks.recorded.selectors import RecordedComparison
from benchmarks.templatetags.whiskers import Axis

from .evaluations import config_columns
from .parts.charts import NamedCurve, fast_chart
from .parts.machine_facts import record
from .previews import preview_of_recorded

P = 1.0  # at which the chart of a bundle has its guide


def recorded_list(request: HttpRequest) -> HttpResponse:
    return render(request, "recorded/list.html", {"bundles": recorded.bundles()})


def recorded_bundle(request: HttpRequest, bundle: str) -> HttpResponse:
    found = recorded.bundle_named(bundle)
    context = {"bundle": found, **compared(recorded.comparison(found, request.GET.get("page", 1))), **_rules(found)}
    return render(request, "recorded/bundle.html", context)


def recorded_board(request: HttpRequest, bundle: str, suite: str, op: str, direction: str) -> HttpResponse:
    found = recorded.bundle_named(bundle)
    board = recorded.board(found, suite, op, direction, request.GET.get("page", 1))
    bounds = [value for row in board.rows for value in (row.score_lo, row.score_hi)]
    context = {
        "bundle": found,
        "board": board,
        "preview": preview_of_recorded(board.rows[0]) if board.rows.number == 1 else None,
        "name": f"{op}/{direction}",
        "task": selectors.find_task(suite, op, direction),
        "axis": Axis.over([*bounds, *(line.score for line in board.baselines)]),
        "history_axis": Axis.over(value for row in board.history for value in (row.score_lo, row.score_hi)),
        **_rules(found),
    }
    return render(request, "recorded/board.html", context)


def recorded_entry(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    found = recorded.bundle_named(bundle)
    row = recorded.entry_named(found, entry)
    configs = config_rows(row)
    bounds = [value for config in configs for value in (config.speedup_lo, config.speedup_hi)]
    context = {
        "bundle": found,
        "entry": row,
        "profiled": profile_of(found.device, row.source_sha256) is not None,
        "preview": preview_of_recorded(row),
        "task": selectors.find_task(row.suite, row.op, row.direction),
        "configs": configs,
        "axis": Axis.over([*bounds, row.score_lo, row.score_hi]),
        **config_columns(configs),
        "record": record(row.report.get("environment", {})),
        **_rules(found),
    }
    return render(request, "recorded/entry.html", context)


def compared(comparison: RecordedComparison) -> dict[str, Any]:
    """What `recorded/_comparison.html` shows."""
    means = [row.figures.mean for row in comparison.rows if row.figures.mean]
    curves = [NamedCurve(row.title, row.corners) for row in comparison.rows]
    return {
        "recorded_comparison": comparison,
        "recorded_chart": fast_chart(curves, P),
        "recorded_axis": Axis.over(bound for mean in means for bound in (mean.lo, mean.hi)),
        "recorded_ps": recorded.PS,
    }


def config_rows(entry: RecordedEntry) -> list[ConfigResult]:
    """As the page of an evaluation shows them; none of them is ever saved."""
    names = {field.name for field in ConfigResult._meta.fields}
    rows = []
    for config in entry.report["configs"]:
        lo, hi = config["ci95"] or (None, None)
        known = {name: value for name, value in config.items() if name in names}
        lo_mj, hi_mj = config.get("energy_ci95_mj") or (None, None)
        rows.append(ConfigResult(**known, speedup_lo=lo, speedup_hi=hi, energy_lo_mj=lo_mj, energy_hi_mj=hi_mj))
    return rows


def _rules(bundle: RecordedBundle) -> dict[str, Any]:
    """The rule set, where this site has its text."""
    return {"rules": RuleSet.objects.filter(name=bundle.ruleset, sha256=bundle.ruleset_sha256).first()}

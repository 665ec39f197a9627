"""The compare page: up to six methods on the same tasks.

The address contains the whole selection. Without scripts a form changes p; with them a slider does, using the numbers
that are already on the page. Does NOT compute figures: `boards/comparing.py` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode

from benchmarks import selectors
from benchmarks.boards import overview
from benchmarks.boards.comparing import Share, curve, leaders
from benchmarks.boards.figures import answer
from benchmarks.boards.overview import Comparison, Field, Row
from benchmarks.recorded import selectors as recorded
from benchmarks.selectors import PAGE_ROWS
from benchmarks.templatetags.numbers import seconds
from benchmarks.templatetags.whiskers import Axis

from . import recorded as recorded_pages
from .parts.charts import NamedCurve, Spent, cost_chart, fast_chart
from .parts.devices import device_choice
from .parts.figures import cost_figure, fast_figure

TEMPLATE = "compare/detail.html"
METHODS_MAX = 6
P_MAX = 100.0
TELLING_MAX = 4  # methods that are compared where nobody has chosen any
PS = (0.0, 1.0)  # of the figures beside the p that is chosen


@dataclass(frozen=True)
class Currency:
    """One currency for the cost of a method."""

    name: str
    title: str
    form: str

    def text(self, value: float) -> str:
        return seconds(value) if self.name == "judging_s" else self.form.format(value)


CURRENCIES = (
    Currency("usd", "Dollars", "${:,.2f}"),
    Currency("tokens", "Tokens", "{:,.0f} tokens"),
    Currency("judgings", "Judgings", "{:,.0f} judgings"),
    Currency("judging_s", "Seconds of judging", ""),
)


def compare(request: HttpRequest) -> HttpResponse:
    devices, suites = device_choice(request, selectors.device_kinds()), overview.suites()
    if devices.current is None or not suites:
        return render(request, TEMPLATE, {"devices": devices, **_recorded(request)})
    field = overview.read_field(overview.suite_of(request.GET.get("suite", "")), devices.current)
    if "methods" not in request.GET and (slugs := most_telling(field)):
        place = {**request.GET.dict(), "suite": field.suite.slug, "device": field.device.slug}
        return redirect(f"{request.path}?{urlencode({**place, 'methods': ','.join(slugs)})}")
    wanted = wanted_slugs(request.GET.getlist("methods"))
    context = {"devices": devices, "suites": suites, "field": field, "most": METHODS_MAX, **_choices(field, wanted)}
    if len(wanted) > METHODS_MAX:
        refusal = {"too_many": len(wanted), "surplus": len(wanted) - METHODS_MAX}
        return render(request, TEMPLATE, context | refusal, status=HTTPStatus.BAD_REQUEST)
    if wanted and (comparison := _comparison(request, field, wanted)):
        context |= _compared(request, comparison)
    elif "methods" not in request.GET:
        context |= _recorded(request)
    return render(request, TEMPLATE, context)


def _recorded(request: HttpRequest) -> dict[str, Any]:
    """A comparison that was judged elsewhere, if this site has one."""
    bundles = recorded.bundles()
    return recorded_pages.compared(recorded.comparison(bundles[0], request.GET.get("page", 1))) if bundles else {}


def compare_figure(request: HttpRequest) -> HttpResponse:
    """One chart of the page with the selection of the page: what it cost with `chart=cost`, else fast_p."""
    device, wanted = (
        device_choice(request, selectors.device_kinds()).current,
        wanted_slugs(request.GET.getlist("methods")),
    )
    if device is None or len(wanted) > METHODS_MAX:
        raise Http404("The page of this selection has no chart.")
    field = overview.read_field(overview.suite_of(request.GET.get("suite", "")), device)
    comparison = _comparison(request, field, wanted)
    drawn = _figure(request, comparison) if comparison else None
    if drawn is None:
        raise Http404("The page of this selection has no such chart.")
    return answer(drawn)


def most_telling(field: Field) -> list[str]:
    """The method with most solved tasks, and those that share most tasks with it; none where nobody shares any."""
    solved = {field.methods[key].slug: frozenset(marks) for key, marks in field.best.items() if marks}
    ordered = sorted(solved, key=lambda slug: (-len(solved[slug]), slug))
    if not ordered:
        return []
    first, *others = ordered
    beside = [slug for slug in others if solved[slug] & solved[first]]
    beside.sort(key=lambda slug: -len(solved[slug] & solved[first]))
    return [first, *beside[: TELLING_MAX - 1]] if beside else []


def _comparison(request: HttpRequest, field: Field, wanted: Sequence[str]) -> Comparison | None:
    """Those who are wanted and known, in the order in which they are wanted; None if nobody is."""
    chosen = [method for method in field.methods.values() if method.slug in wanted]
    chosen.sort(key=lambda method: wanted.index(method.slug))
    return overview.compare(field, chosen, (*PS, p_of(request.GET.get("p", "")))) if chosen else None


def _figure(request: HttpRequest, comparison: Comparison) -> Any:
    p = p_of(request.GET.get("p", ""))
    if request.GET.get("chart") != "cost":
        return fast_figure(comparison, _curves(comparison), p)
    spending = _spending(comparison, request.GET.get("cost", ""))
    return cost_figure(spending.points, spending.currency.title, p) if spending.currency else None


def _choices(field: Field, wanted: Sequence[str]) -> dict[str, Any]:
    """The methods that can be chosen, those that are, and unknown names."""
    known = {method.slug for method in field.methods.values()}
    return {
        "choices": [(method, method.slug in wanted) for method in field.present()],
        "unknown": [slug for slug in wanted if slug not in known],
    }


def wanted_slugs(values: Sequence[str]) -> list[str]:
    """Slugs from `methods=a,b` as well as from `methods=a&methods=b`, each once."""
    return list(dict.fromkeys(slug.strip() for value in values for slug in value.split(",") if slug.strip()))


def p_of(text: str) -> float:
    """What was asked for, held between 0 and 100; 1 where it is no number."""
    try:
        p = float(text)
    except ValueError:
        return 1.0
    return min(max(p, 0.0), P_MAX) if math.isfinite(p) else 1.0


def _compared(request: HttpRequest, comparison: Comparison) -> dict[str, Any]:
    p = p_of(request.GET.get("p", ""))
    tasks = Paginator(list(comparison.field.tasks.values()), PAGE_ROWS).get_page(request.GET.get("page", 1))
    lines = overview.matrix(comparison, list(tasks))
    shares = {row.method.title: row.figures.shares[-1] for row in comparison.rows}
    return {
        "comparison": comparison,
        "slugs": ",".join(row.method.slug for row in comparison.rows),
        "p": p,
        "shares": list(zip(comparison.rows, shares.values(), strict=True)),
        "leaders": leaders(shares),
        "chart": fast_chart(_curves(comparison), p),
        "scores": _scores(comparison),
        "tasks": tasks,
        "lines": lines,
        "axis": _axis(comparison),
        **_costs(comparison, request.GET.get("cost", "")),
    }


def _curves(comparison: Comparison) -> list[NamedCurve]:
    return [NamedCurve(row.method.title, curve(row.marks.values(), comparison.total)) for row in comparison.rows]


def _scores(comparison: Comparison) -> dict[str, Any]:
    """What the slider counts on: score and interval of every solved task, by method."""
    rows = {
        row.method.slug: [[round(value, 4) for value in (mark.score, mark.lo, mark.hi)] for mark in row.marks.values()]
        for row in comparison.rows
    }
    return {"total": comparison.total, "methods": rows}


def _axis(comparison: Comparison) -> Axis:
    means = [row.figures.mean for row in comparison.rows]
    return Axis.over(bound for mean in means if mean for bound in (mean.lo, mean.hi))


@dataclass(frozen=True)
class Spending:
    """What was spent in one currency. `used` has all that any of them has spent; without any there is no `currency`."""

    used: list[Currency]
    currency: Currency | None
    points: list[Spent]


def _spending(comparison: Comparison, wanted: str) -> Spending:
    """In the currency that is asked for, else in the first that all of them have spent, or any."""
    spent = [row.cost for row in comparison.rows if row.cost]
    used = [item for item in CURRENCIES if any(getattr(cost, item.name) for cost in spent)]
    by_all = [item for item in used if all(getattr(cost, item.name) for cost in spent)]
    currency = next((item for item in used if item.name == wanted), next(iter(by_all or used), None))
    points = [
        _spent(place, row, row.figures.shares[-1], currency)
        for place, row in enumerate(comparison.rows)
        if currency and row.cost
    ]
    return Spending(used, currency, points)


def _costs(comparison: Comparison, wanted: str) -> dict[str, Any]:
    spending = _spending(comparison, wanted)
    chart = cost_chart(spending.points, spending.currency.title) if spending.currency else None
    return {"currencies": [(item, item == spending.currency) for item in spending.used], "cost_chart": chart}


def _spent(place: int, row: Row, share: Share, currency: Currency) -> Spent:
    value = float(getattr(row.cost, currency.name))
    return Spent(row.method.title, place, share, value, currency.text(value))

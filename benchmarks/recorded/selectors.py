"""The queries of recorded results for pages and API: bundles, their leaderboards, and comparisons of their methods.

Nothing is shown if the setting or the switch of staff is off. Does NOT mix bundles: a leaderboard belongs to one.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import Count, Q
from django.http import Http404

from ..boards.comparing import Mark, MethodFigures, common, curve, figures
from ..boards.tradeoffs import mean_energy
from ..harness import what_counts
from ..models import RecordedBundle, RecordedEntry, Task
from ..querysets import best_known_first
from ..selectors import PAGE_ROWS
from ..states import MethodKind, Switch
from ..switches import switch_is_on

METHODS_MAX = 4  # beside the two baselines, with which they share the six colours of a chart
HISTORY_MAX = 50
COMMON_SHARE = 0.25  # of the tasks: a method that solved fewer does not narrow the common set
PS = (0.0, 1.0, 1.5, 2.0)
EAGER, COMPILED = "PyTorch eager", "torch.compile"


def are_shown() -> bool:
    """Whether anything recorded is: neither the setting nor staff have switched it off."""
    return bool(settings.KBENCH_RECORDED) and switch_is_on(Switch.RECORDED)


def bundles() -> list[RecordedBundle]:
    """Bundles with entries, most tasks first; among equals the active rules first, then the most ranked ones replayed.

    Names decide the rest, the last one first: an H200 comes before an H100. Empty where recorded results are hidden.
    """
    replayed = Count("entries", filter=Q(entries__timing_trust="replayed", entries__rank__isnull=False))
    wanted = RecordedBundle.objects.filter(kernels__gt=0).annotate(replayed=replayed)
    found = list(wanted) if settings.KBENCH_RECORDED else []
    if not found or not are_shown():
        return []
    found.sort(key=lambda bundle: bundle.name, reverse=True)
    return sorted(
        found,
        key=lambda bundle: (-bundle.tasks, bundle.ruleset != settings.KBENCH_RULESET, -bundle.replayed),  # type: ignore[attr-defined]
    )


def bundle_named(name: str) -> RecordedBundle:
    """Raises Http404 where there is none, or recorded results are not shown."""
    found = next((bundle for bundle in bundles() if bundle.name == name), None)
    if found is None:
        raise Http404("There is no such bundle of recorded results.")
    return found


def entry_named(bundle: RecordedBundle, name: str) -> RecordedEntry:
    found = RecordedEntry.objects.filter(bundle=bundle, name=name).select_related("bundle").first()
    if found is None:
        raise Http404("There is no such recorded entry.")
    return found


def leaders(bundle: RecordedBundle) -> list[RecordedEntry]:
    """The first entry of every board of the bundle, by task."""
    rows = _light(RecordedEntry.objects.filter(bundle=bundle, rank=1))
    first: dict[str, RecordedEntry] = {}
    for row in rows:
        first.setdefault(row.task_path, row)
    return list(first.values())


def leaders_of_task(task: Task) -> list[RecordedEntry]:
    """The first entry on the task in every bundle, in the order of `bundles`."""
    order = {bundle.pk: place for place, bundle in enumerate(bundles())}
    if not order:
        return []
    rows = RecordedEntry.objects.filter(suite=task.suite.slug, op=task.op, direction=task.direction, rank=1)
    first: dict[int, RecordedEntry] = {}
    for row in _light(rows.filter(bundle__in=order)):
        first.setdefault(row.bundle_id, row)
    return sorted(first.values(), key=lambda row: order[row.bundle_id])


def entries_of(bundle: RecordedBundle, page: int | str = 1, rows: int = PAGE_ROWS) -> Page[Any]:
    return Paginator(_light(bundle.entries.all()), rows).get_page(page)


@dataclass(frozen=True)
class RecordedBaseline:
    """What a baseline would score on the board. It has no interval: it is the quotient of two scores."""

    title: str
    score: float


@dataclass(frozen=True)
class RecordedBoard:
    """One task of a bundle. Ranked rows have `figures`: `error` and `energy`.

    `history` has the entries that were the best when they were judged, oldest first.
    """

    rows: Page[Any]
    lines: list[RecordedEntry | RecordedBaseline]
    baselines: list[RecordedBaseline]
    history: list[RecordedEntry]
    reported: Mapping[str, Any] | None

    @property
    def energy(self) -> bool:
        return any(row.figures["energy"] for row in self.rows)


def board(bundle: RecordedBundle, suite: str, op: str, direction: str, page: int | str = 1) -> RecordedBoard:
    """Raises Http404."""
    entries = _light(RecordedEntry.objects.filter(bundle=bundle, suite=suite, op=op, direction=direction))
    whole = entries.filter(rank__isnull=False).defer(None).defer("source")
    ranked = Paginator(whole, PAGE_ROWS).get_page(page)
    if not ranked.object_list:
        raise Http404("Nothing was recorded on this task.")
    for row in ranked:
        row.figures = _figures(row.report["configs"])
    baselines = baselines_of(ranked[0])
    lines: list[RecordedEntry | RecordedBaseline] = list(ranked)
    for line in baselines:
        faster = [place for place, other in enumerate(lines, 1) if _counts(other) >= line.score]
        lines.insert(max(faster, default=0), line)
    return RecordedBoard(
        ranked, lines, baselines, _records(entries), reported_on(bundle).get(f"{suite}/{op}/{direction}")
    )


def _figures(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest relative error on any configuration, and the energy of a call; each None where it is unknown."""
    errors = [item["max_rel_error"] for item in configs if item["max_rel_error"] is not None]
    measured = [item for item in configs if item.get("energy_mj") is not None]
    logarithms = [math.log(item["energy_mj"]) for item in measured]
    sums = {
        "energies": len(measured),
        "without_energy": sum(item["kernel_us"] is not None and item not in measured for item in configs),
        "mean_mj": math.exp(fmean(logarithms)) if logarithms else None,
        "spread": sum(math.log(high / low) ** 2 for low, high in (item["energy_ci95_mj"] for item in measured)),
    }
    return {"error": max(errors, default=None), "energy": mean_energy(sums)}


def baselines_of(entry: RecordedEntry) -> list[RecordedBaseline]:
    """The faster one first. Geometric means can be divided: score / vs_eager is the score of eager itself."""
    scores = [(EAGER, entry.score / entry.vs_eager)]
    if entry.vs_compile:
        scores.append((COMPILED, entry.score / entry.vs_compile))
    return sorted((RecordedBaseline(*item) for item in scores), key=lambda line: -line.score)


def reported_on(bundle: RecordedBundle) -> dict[str, Mapping[str, Any]]:
    """Published figures by task, as they stand in the file."""
    return {item["task"]: item for item in (bundle.reported or {}).get("figures", ())}


def _records(entries: Any) -> list[RecordedEntry]:
    records: list[RecordedEntry] = []
    for row in entries.order_by("judged_at", "pk"):
        if not records or _counts(row) > _counts(records[-1]):
            records.append(row)
    return records[-HISTORY_MAX:]


def _counts(row: RecordedEntry | RecordedBaseline) -> float:
    if isinstance(row, RecordedBaseline):
        return row.score
    return what_counts(row.score, row.score_lo, row.timing_trust)


def _light(rows: Any) -> Any:
    """In the order of boards."""
    order = ("suite", "op", "-direction", "rank", best_known_first(""), "judged_at", "pk")
    return rows.select_related("bundle").defer("source", "report").order_by(*order)


# --- methods of a bundle -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedMethod:
    """One method on the tasks of a bundle; a baseline is one, too. `corners` is its curve of fast_p."""

    slug: str
    title: str
    kind: str
    marks: Mapping[int, Mark]
    figures: MethodFigures
    corners: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class RecordedCell:
    mark: Mark | None
    url: str = ""
    leads: bool = False


@dataclass(frozen=True)
class RecordedLine:
    """One row of the matrix. `reported` is what others have published for the task."""

    task: str
    url: str
    cells: list[RecordedCell]
    reported: Mapping[str, Any] | None


@dataclass(frozen=True)
class RecordedComparison:
    """Methods of a bundle over all its `total` tasks; `lines` are those of one page of tasks."""

    bundle: RecordedBundle
    rows: list[RecordedMethod]
    tasks: Page[Any]
    lines: list[RecordedLine]
    total: int
    common: int
    left_out: int  # methods that solved less than those shown


def comparison(bundle: RecordedBundle, page: int | str = 1) -> RecordedComparison:
    """The methods that solved most of the tasks of the bundle, and the two baselines."""
    ranked = list(_light(RecordedEntry.objects.filter(bundle=bundle, rank__isnull=False)))
    first: dict[str, RecordedEntry] = {}
    for row in ranked:
        first.setdefault(row.task_path, row)
    tasks = {path: place for place, path in enumerate(first)}
    marks, titles = _marks(ranked, tasks)
    shown = sorted(marks, key=lambda slug: (-len(marks[slug]), slug))
    everybody = {slug: marks[slug] for slug in shown[:METHODS_MAX]} | _of_baselines(first.values(), tasks)
    shared = common(own for own in everybody.values() if len(own) >= COMMON_SHARE * len(tasks))
    rows = [
        RecordedMethod(
            slug=slug,
            title=titles.get(slug, (slug,))[0],
            kind=titles.get(slug, ("", MethodKind.BASELINE.label))[1],
            marks=own,
            figures=figures(own, own.keys(), shared, len(tasks), PS),
            corners=curve(own.values(), len(tasks)),
        )
        for slug, own in everybody.items()
    ]
    chosen = Paginator(list(first.values()), PAGE_ROWS).get_page(page)
    return RecordedComparison(
        bundle=bundle,
        rows=rows,
        tasks=chosen,
        lines=_matrix(bundle, rows, tasks, chosen, {row.pk: row for row in ranked}),
        total=len(tasks),
        common=len(shared),
        left_out=max(0, len(shown) - METHODS_MAX),
    )


def _marks(
    ranked: Iterable[RecordedEntry], tasks: Mapping[str, int]
) -> tuple[dict[str, dict[int, Mark]], dict[str, tuple[str, str]]]:
    """The best of each method on each task, and title and kind of each method."""
    marks: dict[str, dict[int, Mark]] = defaultdict(dict)
    titles = {}
    for row in ranked:
        mark = Mark(row.score, row.score_lo, row.score_hi, row.rank or 0, row.pk, row.timing_trust)
        own, task = marks[row.method], tasks[row.task_path]
        titles[row.method] = (row.method_title, MethodKind(row.method_kind).label)
        if task not in own or mark.counts > own[task].counts:
            own[task] = mark
    return dict(marks), titles


def _of_baselines(leading: Iterable[RecordedEntry], tasks: Mapping[str, int]) -> dict[str, dict[int, Mark]]:
    """From the first entry of each board; without an interval and without a rank."""
    found: dict[str, dict[int, Mark]] = {EAGER: {}, COMPILED: {}}
    for row in leading:
        for line in baselines_of(row):
            found[line.title][tasks[row.task_path]] = Mark(line.score, line.score, line.score, 0, 0)
    return {title: own for title, own in found.items() if own}


def _matrix(
    bundle: RecordedBundle,
    rows: Sequence[RecordedMethod],
    tasks: Mapping[str, int],
    chosen: Iterable[RecordedEntry],
    entries: Mapping[int, RecordedEntry],
) -> list[RecordedLine]:
    reported = reported_on(bundle)
    lines = []
    for first in chosen:
        marks = [row.marks.get(tasks[first.task_path]) for row in rows]
        best = max(mark.counts for mark in marks if mark)
        cells = [_cell(mark, best, entries) for mark in marks]
        lines.append(RecordedLine(first.task_name, first.board_url, cells, reported.get(first.task_path)))
    return lines


def _cell(mark: Mark | None, best: float, entries: Mapping[int, RecordedEntry]) -> RecordedCell:
    if mark is None:
        return RecordedCell(None)
    url = entries[mark.evaluation].get_absolute_url() if mark.evaluation in entries else ""
    return RecordedCell(mark, url, mark.counts == best)

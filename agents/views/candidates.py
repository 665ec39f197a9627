"""The candidates of a run: the table of all, and the page of one.

Does NOT judge: results are those of the evaluation, to which the page links.
"""

import uuid
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agents import selectors
from agents.drawing.diffs import GeneChange, gene_diff
from agents.models import Candidate
from agents.record import log, withheld
from agents.record.snapshots import opinions_of, present, whole
from benchmarks.submissions.diffs import DiffLine, line_diff
from benchmarks.templatetags.whiskers import Axis

from .parts import score_axis

DIFF_LINES = 1_000


def candidate_list(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    run = selectors.run_shown(request.user, code)
    show = request.GET.get("show", "all")
    show = show if show in selectors.SHOWS else "all"
    reason = request.GET.get("reason", "")
    rows = selectors.candidate_rows(present(run), show, request.GET.get("page", 1), reason)
    shown = withheld.readable_candidates(request.user, whole(list(rows)))
    context = {"run": run, "task": run.task_version.task, "rows": rows, "shown": shown, "axis": score_axis(shown)}
    context |= {"show": show, "shows": selectors.SHOWS.items(), "reason": reason}
    return render(request, "runs/candidates.html", context)


@dataclass(frozen=True)
class ParentComparison:
    """What a candidate has changed of one parent. `lines` is None where the sources cannot be compared, and for all
    parents but the one that the reader has chosen: comparing takes up to a second."""

    parent: Candidate
    lines: list[DiffLine] | None
    genes: list[GeneChange]
    offered: bool  # the sources can be compared on request
    more: int = 0  # lines that are left out


def candidate_detail(request: HttpRequest, code: uuid.UUID, key: str) -> HttpResponse:
    run = selectors.run_shown(request.user, code)
    row = selectors.candidate_of(run, key)
    parents = selectors.parents_of(row)
    hidden = withheld.hidden_keys(request.user, [row, *parents])
    withheld.readable_candidates(request.user, [row, *parents])
    events = withheld.readable_events(request.user, selectors.log_rows(run, candidate=key, oldest_first=True))
    source = "" if row.key in hidden else _source(row)
    wanted = request.GET.get("parent", "")
    chosen = wanted if wanted in row.parents else next(iter(row.parents), "")
    bounds = [value for item in row.configs for value in item.get("ci95") or ()]
    context = {
        "run": run,
        "task": run.task_version.task,
        "row": row,
        "source": source,
        "hidden": row.key in hidden,
        "comparisons": [
            _comparison(row, source, parent, parent.key in hidden, chosen == parent.key) for parent in parents
        ],
        "opinions": [] if row.key in hidden else opinions_of(row),
        "evaluation": selectors.evaluations_by_ticket([row]).get(row.ticket),
        "config_axis": Axis.over(bounds),
        "chances": sorted(row.probabilities.items(), key=lambda item: -item[1])[:12],
        "events": events,
        "tools": [event for event in events if event.type == "tool.called"],
        "prompt": next((event.payload.get("prompt") for event in events if event.type == "proposal.received"), None),
    }
    return render(request, "runs/candidate.html", context)


def _source(row: Candidate) -> str:
    return log.source_in(row.run, row.source_sha256) if row.source_sha256 else ""


def _comparison(row: Candidate, source: str, parent: Candidate, hidden: bool, chosen: bool) -> ParentComparison:
    genes = gene_diff(parent.params, row.params)
    comparable = bool(source) and not hidden
    if not (comparable and chosen):
        return ParentComparison(parent, None, genes, offered=comparable)
    lines = line_diff(_source(parent), source)
    if lines is None:
        return ParentComparison(parent, None, genes, offered=False)
    return ParentComparison(parent, lines[:DIFF_LINES], genes, offered=False, more=max(0, len(lines) - DIFF_LINES))

"""The log of a run: pages with a filter, an address for each event, and the whole of it as JSON lines.

Does NOT interpret events: it shows a sentence for each, and its payload.
"""

import json
import uuid
from collections.abc import Iterable, Iterator

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agents import selectors
from agents.models import RunEvent
from agents.record import withheld


def log(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    run = selectors.run_shown(request.user, code)
    kind, candidate = request.GET.get("type", ""), request.GET.get("candidate", "")
    wanted = request.GET.get("seq", "")
    seq = int(wanted[:9]) if wanted.isdecimal() else None
    rows = selectors.log_page(selectors.log_rows(run, kind=kind, candidate=candidate), request.GET.get("page", 1), seq)
    rows.object_list = withheld.readable_events(request.user, rows)
    context = {"run": run, "task": run.task_version.task, "rows": rows, "kinds": selectors.log_kinds(run)}
    return render(request, "runs/log.html", {**context, "kind": kind, "candidate": candidate, "seq": seq})


def log_file(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    run = selectors.run_shown(request.user, code)
    text = "".join(_lines(withheld.readable_events(request.user, selectors.log_rows(run, oldest_first=True))))
    response = HttpResponse(text, content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="kbench-run-{run}.jsonl"'
    return response


def _lines(rows: Iterable[RunEvent]) -> Iterator[str]:
    for row in rows:
        event = {"seq": row.seq, "at_s": row.at_s, "type": row.type, "candidate": row.candidate or None}
        yield json.dumps({**event, "payload": row.payload}) + "\n"

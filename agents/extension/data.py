"""The table of candidates in the public data set: what agent runs proposed, and what the judge said of it.

Left out are hidden runs, runs on requests that staff have hidden, candidates that staff have withheld, whatever has the
same text as one of those, what was judged as a submission that is not public now, and its duplicates in the same run.
Prompts and thoughts are left out of all, because they can quote others.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from benchmarks.data_tables import SPEEDUPS, ColumnKind, DataRow, DataTable, Key, RowSource, columns
from benchmarks.models import Evaluation, Submission
from benchmarks.states import Moderation

from ..models import Candidate, RunSource
from ..states import CandidateState

KEYS_AT_ONCE = 500
ENDED = (CandidateState.DONE, CandidateState.DROPPED)
TEXT, INTEGER, NUMBER, FLAG = ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.NUMBER, ColumnKind.FLAG
SCORED = ("score", "score_lo", "score_hi", "vs_eager", "vs_compile", "judging_s", "judged_as", "judged_at_usd")
WORDS = ("name", "operator", "arm", "template", "drop_reason", "drop_text", "verdict", "verdict_text", "timing_trust",
         "reused_from", "source_sha256")  # fmt: skip


def _keys() -> Iterator[Key]:
    ended = Candidate.objects.filter(run__hidden=False, state__in=ENDED).order_by("pk")
    ended = ended.exclude(run__task_version__task__request__moderation=Moderation.HIDDEN)
    rows = ended.only("ticket", "source_sha256", "withheld", "run__owner").select_related("run")
    found = rows.iterator(chunk_size=KEYS_AT_ONCE)
    while some := list(islice(found, KEYS_AT_ONCE)):
        for row in _public(some):
            yield row.pk, row.run.owner_id or 0


def _public(rows: Sequence[Candidate]) -> list[Candidate]:
    texts = {row.source_sha256 for row in rows} - {""}
    alike = Candidate.objects.filter(run__in={row.run_id for row in rows}, source_sha256__in=texts).exclude(ticket="")
    judged = list(alike.values_list("run", "source_sha256", "ticket"))
    tickets = {row.ticket for row in rows if row.ticket} | {ticket for *_, ticket in judged}
    published = Evaluation.objects.filter(code__in=tickets, submission__in=Submission.objects.published().values("pk"))
    public = {str(code) for code in published.values_list("code", flat=True)}
    not_public = {(run, text) for run, text, ticket in judged if ticket not in public}
    withheld = Candidate.objects.filter(withheld=True, source_sha256__in=texts)
    silent = set(withheld.values_list("source_sha256", flat=True))
    return [
        row
        for row in rows
        if not row.withheld
        and row.source_sha256 not in silent
        and (row.run_id, row.source_sha256) not in not_public
        and (not row.ticket or row.ticket in public)
    ]


def _rows(keys: Sequence[int]) -> Iterator[DataRow]:
    stored = Candidate.objects.filter(pk__in=keys, run__hidden=False, state__in=ENDED).order_by("pk")
    public = _public(list(stored.select_related(
        "run__owner", "run__method", "run__device_kind", "run__task_version__task__suite"
    ).defer("run__task_version__definition", "run__task_version__reference_source")))  # fmt: skip
    sources = RunSource.objects.in_bulk({row.source_sha256 for row in public})
    for row in public:
        run, source = row.run, sources.get(row.source_sha256)
        yield {
            **{name: getattr(row, name) or None for name in WORDS},
            **{name: getattr(row, name) for name in SCORED},
            "run_id": str(run.code),
            "candidate": row.key,
            "task": run.task_version.task.path,
            "task_version": run.task_version.number,
            "device": run.device_kind.slug,
            "author": run.owner.get_username() if run.owner else "kbench",
            "method": run.method.slug,
            "proposer": run.proposer,
            "seed": run.seed,
            "position": row.position,
            "generation": row.generation,
            "island": row.island,
            "parents": [str(parent) for parent in row.parents],
            "language": row.language or run.language,
            "settings": json.dumps(row.params, ensure_ascii=False) if row.params is not None else None,
            "state": row.state,
            "evaluation_id": row.ticket or None,
            "judgings": row.judgings if row.judged_as else None,
            "judged_at": _time(row.judged_at_s),
            "improved": row.improved,
            "audited": row.audited,
            "source": source.text if source else None,
        }


def _time(seconds: float | None) -> Any:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


CANDIDATES = DataTable(
    "candidates",
    "Every kernel that a public agent run proposed, judged or dropped, without prompts. One row per candidate.",
    (
        *columns(
            TEXT,
            run_id="identifier, as in the address of its page",
            candidate="its name in the run",
            task="SUITE/OPERATION/DIRECTION",
        ),
        *columns(INTEGER, task_version="the version of the task"),
        *columns(
            TEXT,
            device="device kind, the same as on leaderboards",
            author="account that started the run; kbench for the site's own",
            method="what the compare page compares",
            proposer="what proposed the kernels",
        ),
        *columns(
            INTEGER,
            seed="of the search",
            position="number in the run, from 1",
            generation="number of the generation",
            island="number of the island",
        ),
        *columns(ColumnKind.TEXTS, parents="names of the candidates that it was made from"),
        *columns(
            TEXT,
            language="cpp, cuda, triton or another language of the site",
            name="a few words about it",
            operator="how it was made from its parents",
            arm="which of several models or settings proposed it",
            template="the template that it fills",
            settings="JSON: the settings of that template",
            state="done: judged; dropped: not judged",
            drop_reason="why it was not judged, as a word",
            drop_text="the same as a sentence",
            verdict="PASS, or why it was not accepted",
            verdict_text="the verdict as a sentence",
        ),
        *SPEEDUPS,
        *columns(TEXT, timing_trust="who measured, see reports", evaluation_id="its judging, see reports"),
        *columns(TEXT, reused_from="the candidate whose result was reused, because the compiled code is the same"),
        *columns(NUMBER, judging_s="s: how long judging took"),
        *columns(
            INTEGER,
            judged_as="number of the judging within the run, from 1",
            judgings="how many judgings of it the score is pooled from",
        ),
        *columns(ColumnKind.TIME, judged_at="UTC: when its verdict came"),
        *columns(NUMBER, judged_at_usd="USD: spent by the run up to that time"),
        *columns(
            FLAG,
            improved="the best of the run when it was judged",
            audited="rejected by a verifier but judged anyway",
        ),
        *columns(TEXT, source_sha256="hash of the source", source="the whole source"),
    ),
    RowSource("candidates", _keys),
    _rows,
)

"""Boards of what `judgings.py` wrote: one row per holder with its best accepted public evaluation, ranked.

Ranks are those of `benchmarks/boards/ranking.py`. Some entries of the boards are judged again. Does NOT judge.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import transaction

from benchmarks.boards.ranking import Entry, rank
from benchmarks.harness import Verdict
from benchmarks.models import Evaluation, RuleSet, Standing
from benchmarks.states import EvaluationReason, Priority, State

CHUNK = 2_000
GATE = "More than 10 times faster than the stronger baseline."


def fill(ruleset: RuleSet) -> None:
    accepted = Evaluation.objects.filter(verdict=Verdict.PASS, submission__visibility="public")
    rows = (
        accepted.filter(task_version__task__labels=[]).select_related("submission").defer("report", "submission__payer")
    )
    best: dict[tuple[int, int], dict[str, Evaluation]] = defaultdict(dict)
    for item in rows.order_by("score").iterator(CHUNK):
        best[item.task_version_id, item.device_kind_id][_holder(item)] = item
    gated = set(Evaluation.objects.filter(verdict=Verdict.PASS, gated=True).values_list("pk", flat=True))
    standings = (row for holders in best.values() for row in _board(ruleset, holders, gated))
    for chunk in _chunked(standings):
        with transaction.atomic():
            Standing.objects.bulk_create(chunk)


def _holder(evaluation: Evaluation) -> str:
    submission = evaluation.submission
    if submission.owner_id is None:
        return f"text:{submission.blob_id}"
    return f"user:{submission.owner_id}/{submission.method_id}"


def _board(ruleset: RuleSet, holders: dict[str, Evaluation], gated: set[int]) -> Iterator[Standing]:
    sound = [item for item in holders.values() if item.pk not in gated]
    ranks = rank(
        Entry(item.pk, item.score, item.score_lo, item.score_hi, item.finished, item.timing_trust) for item in sound
    )
    for holder, item in holders.items():
        yield Standing(
            ruleset=ruleset,
            task_version_id=item.task_version_id,
            device_kind_id=item.device_kind_id,
            holder=holder,
            evaluation=item,
            score=item.score,
            score_lo=item.score_lo,
            score_hi=item.score_hi,
            rank=ranks.get(item.pk),
            verified_at=item.finished,
            under_review=item.pk in gated,
            review_reason=GATE if item.pk in gated else "",
        )


def _chunked(rows: Iterator[Any]) -> Iterator[list[Any]]:
    chunk = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    yield chunk


def ranked_evaluations(count: int) -> list[Evaluation]:
    """Of entries spread over the boards."""
    every = max(1, Standing.objects.ranked().count() // max(1, count))
    chosen = list(Standing.objects.ranked().order_by("pk").values_list("evaluation", flat=True))[::every][:count]
    return list(Evaluation.objects.filter(pk__in=chosen).select_related("submission", "ruleset").order_by("pk"))


def judged_again(before: list[Evaluation], now: datetime) -> list[Evaluation]:
    """A second judging of each, with almost the same score."""
    rows = [
        Evaluation(
            submission=old.submission,
            task_version_id=old.task_version_id,
            ruleset=old.ruleset,
            device_kind_id=old.device_kind_id,
            reason=EvaluationReason.REJUDGE,
            priority=Priority.REJUDGE,
            supersedes=old,
            state=State.DONE,
            verdict=old.verdict,
            reason_text="Correct and timed.",
            report=old.report,
            score=old.score,
            score_lo=old.score_lo,
            score_hi=old.score_hi,
            queued=now,
            claimed=now,
            started=now,
            finished=now,
        )
        for old in before
    ]
    return list(Evaluation.objects.bulk_create(rows))

"""Submits candidates as ordinary submissions: same queue, same sandbox, same rules, behind the submissions of people.

Each candidate has a key, and a key is submitted only once, so a run that lost its worker finds its judgings again.
Does NOT judge.
"""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib.auth.models import AnonymousUser

from benchmarks import services as judging
from benchmarks.judgings import moves
from benchmarks.judgings.waiting import waiting_reason
from benchmarks.models import Evaluation, Payer
from benchmarks.states import EvaluationReason, Origin, Priority, State, Visibility

from .. import moderation
from ..evolve.events import Live
from ..evolve.model import JudgeResult
from ..models import Run
from .desk import Desk

LOOK_EVERY_S = 0.25
REFUSED_EVERY_S = 2.0
LOG_TAIL_CHARS = 4000
OURS = "INTERNAL_ERROR"


@dataclass(frozen=True)
class EvaluationProgress:
    """The progress of an evaluation, as shown on a page."""

    state: str
    stage: str
    done: int | None
    total: int | None
    text: str

    def to_json(self, ticket: str) -> dict[str, Any]:
        known = {"state": self.state, "stage": self.stage, "done": self.done, "total": self.total, "text": self.text}
        return {"ticket": ticket, **known}


class SiteEvaluator:
    """An `Evaluator` of the engine over the queue of this site."""

    def __init__(self, run: Run, desk: Desk) -> None:
        self.run, self.desk = run, desk

    async def submit(self, candidate_key: str, source: str, language: str) -> str:
        """Submits a candidate; waits while submissions are paused."""
        return await self._accepted(partial(submitted, self.run, candidate_key, source, language))

    async def again(self, ticket: str, number: int, source: str, language: str) -> str:
        """Another judging of the same submission, under the same rules; waits while submissions are paused."""
        return await self._accepted(partial(_judged_again, self.run, ticket, number))

    async def _accepted(self, submit: Callable[[], str]) -> str:
        while True:
            try:
                return await self.desk.call(submit)
            except judging.Refused:
                await asyncio.sleep(REFUSED_EVERY_S)

    async def wait(self, ticket: str, live: Live) -> JudgeResult:
        told = None
        while True:
            found = await self.desk.call(_look, ticket)
            if isinstance(found, JudgeResult):
                return found
            if found != told:
                live.say("evaluation", found.to_json(ticket))
                told = found
            await asyncio.sleep(LOOK_EVERY_S)

    async def withdraw(self, ticket: str) -> None:
        await self.desk.call(_cancel, ticket)


def submitted(
    run: Run,
    key: str,
    source: str,
    language: str,
    *,
    payer: Payer | None = None,
    visibility: str = Visibility.PUBLIC,
) -> str:
    """The code of a candidate's evaluation; the same key again is the same one.

    Raises judging.Refused, and OverQuota if there is a `payer`.
    """
    evaluation = judging.submission_create(
        version=run.task_version,
        text=source,
        language=language,
        owner=run.owner,
        method=run.method,
        device_kind=run.device_kind,
        visibility=visibility,
        origin=Origin.AGENT,
        priority=Priority.AGENT,
        title=f"Run {run}, candidate {key}",
        client_token=run.token_of(key),
        payer=payer,
    )
    moderation.follow(run, key)
    return str(evaluation.code)


def _judged_again(run: Run, ticket: str, number: int) -> str:
    """The code of the evaluation; the same number again is the same one, but not in a fork of the run.

    A fork has the tickets of its parent. Judging another account's submission again would count as that account's own
    judging, so its text is submitted anew, for the owner of the fork: that is the first judging. Raises LookupError.
    """
    first = Evaluation.objects.select_related("submission__blob").get(code=ticket)
    if first.submission.owner_id != run.owner_id:
        own = _submitted_anew(run, first)
        return own if number == 1 else _judged_again(run, own, number)
    code = uuid.uuid5(uuid.UUID(ticket), f"{run.code} {number}")
    if not Evaluation.objects.filter(code=code).exists():
        judging.evaluation_create(
            first.submission,
            version=first.task_version,
            device_kind=first.device_kind,
            ruleset=first.ruleset,
            reason=EvaluationReason.REJUDGE,
            priority=Priority.AGENT,
            code=code,
        )
    return str(code)


def _submitted_anew(run: Run, first: Evaluation) -> str:
    """No more public than it was. Raises LookupError where the run's owner, who could read it then, may not read it."""
    if not Evaluation.objects.readable_by(run.owner or AnonymousUser()).filter(pk=first.pk).exists():
        raise LookupError("The owner of this run may not read the submission any more.")
    key, submission = run.candidates.get(ticket=str(first.code)).key, first.submission
    return submitted(run, key, submission.blob.text, submission.language, visibility=submission.visibility)


def _look(ticket: str) -> JudgeResult | EvaluationProgress:
    evaluation = Evaluation.objects.select_related("device_kind").filter(code=ticket).first()
    if evaluation is None:
        return JudgeResult(OURS, "Its submission was deleted.")
    if evaluation.is_finished:
        return result_of(evaluation)
    return progress_of(evaluation)


def progress_of(evaluation: Evaluation) -> EvaluationProgress:
    text = waiting_reason(evaluation) or evaluation.stage_text
    return EvaluationProgress(evaluation.state, evaluation.stage, evaluation.stage_done, evaluation.stage_total, text)


def result_of(evaluation: Evaluation) -> JudgeResult:
    """The result of a finished judging as the engine reads it; one without a verdict says nothing about the kernel."""
    report: Mapping[str, Any] = evaluation.report or {}
    stages = report.get("stages", [])
    if evaluation.state != State.DONE:
        return JudgeResult(OURS, evaluation.reason_text)
    lo, hi = evaluation.score_lo, evaluation.score_hi
    return JudgeResult(
        verdict=evaluation.verdict,
        reason=evaluation.reason_text,
        score=evaluation.score,
        ci95=None if lo is None or hi is None else (lo, hi),
        vs_eager=evaluation.vs_eager,
        vs_compile=evaluation.vs_compile,
        configs=tuple(report.get("configs", [])),
        timing_trust=evaluation.timing_trust or None,
        seconds=sum(stage["seconds"] for stage in stages),
        log_tail=_log_of_failure(stages) if evaluation.score is None else "",
    )


def _log_of_failure(stages: list[Mapping[str, Any]]) -> str:
    logs = [stage["log_tail"] for stage in stages if stage["log_tail"]]
    return logs[-1][-LOG_TAIL_CHARS:] if logs else ""


def _cancel(ticket: str) -> None:
    for evaluation in Evaluation.objects.filter(code=ticket):  # none where its submission was deleted
        moves.evaluation_cancel(evaluation, "Withdrawn by the run that submitted it.")

"""Submissions and what came of them, in bulk: sources, evaluations, results, boards, ledger, events.

A few tasks, people and methods have most of the entries, as on any site. Boards are made in `boards.py`.
Does NOT judge: a report is that of a test, with another score.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from benchmarks.harness import Flag, Verdict
from benchmarks.models import (
    CodeBlob,
    ConfigResult,
    DeviceKind,
    Evaluation,
    Event,
    LedgerEntry,
    Method,
    Payer,
    RuleSet,
    StageResult,
    Submission,
    TaskVersion,
)
from benchmarks.states import LedgerKind, Origin, Priority, State
from lab.site import boards
from tests.web import factories

CHUNK = 2_000
SPAN = timedelta(days=180)
LANGUAGES = ("cpp", "cuda")  # on the kinds of devices
PASSED, REVIEWED, QUEUED, CANCELLED = 0.70, 0.004, 0.01, 0.02
FAILURES = (Verdict.COMPILE_ERROR, Verdict.INCORRECT_VALUE, Verdict.RUNTIME_ERROR, Verdict.TIMEOUT, Verdict.REJECTED)
STAGES = (("static", 0.001), ("compile", 6.2), ("verify", 3.0), ("time", 21.5))


@dataclass(frozen=True)
class Targets:
    """What submissions point at; of all but the kinds the first ones are chosen most often."""

    versions: Sequence[TaskVersion]
    methods: Sequence[Method]
    accounts: Sequence[Any]
    kinds: tuple[DeviceKind, DeviceKind]  # the CPU and a GPU
    now: datetime

    def skewed_version(self, random: Random) -> TaskVersion:
        return skewed(self.versions, random, 3)


def skewed(items: Sequence[Any], random: Random, power: int) -> Any:
    """With power 3 a thousandth of the items is chosen every tenth time."""
    return items[int(len(items) * random.random() ** power)]


@dataclass(frozen=True)
class SubmissionRows:
    """The rows of one submission before they are written."""

    blob: CodeBlob
    submission: Submission
    evaluation: Evaluation


def fill(targets: Targets, count: int, random: Random) -> None:
    created = Payer.objects.bulk_create(Payer(account=user) for user in targets.accounts)
    payers = {payer.account_id: payer for payer in created}
    maker = _Maker(targets, random)
    for start in range(0, count, CHUNK):
        drafts = [maker.draft(number, 1 - number / count) for number in range(start, min(count, start + CHUNK))]
        with transaction.atomic():
            _write(drafts, payers, random)
    asked = Evaluation.objects.filter(submission=OuterRef("pk")).values("queued")[:1]
    Submission.objects.update(created=Subquery(asked))  # the column says when a row was written
    boards.fill(maker.ruleset)


class _Maker:
    """Draws submissions."""

    def __init__(self, targets: Targets, random: Random) -> None:
        self.targets, self.random = targets, random
        self.ruleset = RuleSet.objects.get(name="rk-2")
        self._reports = _Reports()

    def draft(self, number: int, age: float) -> SubmissionRows:
        """`age` is 0 for what was asked for just now and 1 for the oldest."""
        place = int(self.random.random() < 0.4)
        blob, submission = self._blob(number), self._submission(number, place)
        evaluation = Evaluation(
            code=_uuid(self.random),
            task_version=submission.task_version,
            ruleset=self.ruleset,
            device_kind=self.targets.kinds[place],
            queued=self.targets.now - SPAN * age**2,
            **self._reports.columns(place, self.random),
        )
        return SubmissionRows(blob, submission, _with_times(evaluation, self.random))

    def _blob(self, number: int) -> CodeBlob:
        """Every tenth is the same as some others."""
        text = f"// variant {number if self.random.random() < 0.9 else number // 100}\n{factories.SOURCE * 4}"
        return CodeBlob(sha256=sha256(text.encode()).hexdigest(), text=text, size_bytes=len(text), line_count=30)

    def _submission(self, number: int, place: int) -> Submission:
        random, targets = self.random, self.targets
        owner = skewed(targets.accounts, random, 2) if random.random() < 0.95 else None
        by_hand = owner is None or random.random() < 0.4
        return Submission(
            code=_uuid(random),
            task_version=targets.skewed_version(random),
            owner=owner,
            method=targets.methods[0] if by_hand else skewed(targets.methods, random, 2),
            language=LANGUAGES[place],
            title=f"Variant {number}",
            origin=Origin.WEB if by_hand else Origin.API,
            visibility="private" if owner is not None and random.random() < 0.02 else "public",
        )


def _uuid(random: Random) -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128), version=4)


def _with_times(evaluation: Evaluation, random: Random) -> Evaluation:
    if evaluation.state == State.QUEUED:  # nothing waits for long, or it would expire
        evaluation.queued = timezone.now() - timedelta(hours=12 * random.random())
    waited = timedelta(seconds=random.expovariate(1 / 20))
    if evaluation.state == State.DONE:
        evaluation.claimed = evaluation.started = evaluation.queued + waited
    if evaluation.state != State.QUEUED:
        evaluation.finished = evaluation.queued + waited + timedelta(seconds=30)
    return evaluation


class _Reports:
    """What an evaluation says, made from one report of each sort."""

    def __init__(self) -> None:
        gate = (Flag("too-fast", boards.GATE),)
        self._passing = [factories.passing(device_class=name).to_json() for name in ("cpu", "cuda")]
        self._calling = {"flags": [{"code": "library-call", "text": "calls at::linear", "line": 4}]}
        self._gated = {"gates": [{"code": item.code, "text": item.text, "line": None} for item in gate]}
        self._failing = factories.failing("kernel.cpp:12:5: error: expected a semicolon\n" * 20).to_json()

    def columns(self, place: int, random: Random) -> dict[str, Any]:
        chance = random.random()
        if chance < PASSED:
            return self._passed(self._passing[place], reviewed=chance < REVIEWED, random=random)
        if place and chance < PASSED + QUEUED:
            return {"state": State.QUEUED, "priority": random.choice((Priority.PERSON, Priority.AGENT))}
        if chance < PASSED + QUEUED + CANCELLED:
            return {"state": State.CANCELLED, "reason_text": "Cancelled by its author."}
        verdict = random.choice(FAILURES)
        told = {**self._failing, "verdict": verdict.value}
        return {"state": State.DONE, "verdict": verdict.value, "reason_text": "It is refused.", "report": told}

    def _passed(self, report: dict[str, Any], *, reviewed: bool, random: Random) -> dict[str, Any]:
        score = random.lognormvariate(0.3, 0.4)
        sort = self._gated if reviewed else self._calling if random.random() < 0.2 else {}
        return {
            "state": State.DONE,
            "verdict": Verdict.PASS.value,
            "reason_text": "Correct and timed.",
            "report": {**report, **sort, "score": {**report["score"], "speedup": score}},
            "score": score,
            "score_lo": score * 0.99,
            "score_hi": score * 1.01,
            "vs_eager": score * 1.1,
            "vs_compile": score,
            "worst_config": "batch_size=64",
            "timing_trust": "supervisor",
            "isolation": "bubblewrap",
            "gated": sort is self._gated,
            "calls_library": sort is self._calling,
        }


def _write(drafts: list[SubmissionRows], payers: dict[int, Payer], random: Random) -> None:
    CodeBlob.objects.bulk_create([draft.blob for draft in drafts], ignore_conflicts=True)
    for draft in drafts:
        owner = draft.submission.owner
        draft.submission.payer = payers[owner.pk] if owner else None
        draft.submission.blob = draft.blob
    Submission.objects.bulk_create([draft.submission for draft in drafts])
    for draft in drafts:
        draft.evaluation.submission = draft.submission
    evaluations = Evaluation.objects.bulk_create([draft.evaluation for draft in drafts])
    done = [item for item in evaluations if item.state == State.DONE]
    StageResult.objects.bulk_create(_stage(item, place) for item in done for place in range(_stages_of(item)))
    passed = [(item, item.report, item.score) for item in done if item.report and item.score]
    ConfigResult.objects.bulk_create(row for item in passed for row in _configs(*item, random))
    charged = [item for item in done if item.submission.payer]
    LedgerEntry.objects.bulk_create(_charge(item) for item in charged)
    Event.objects.bulk_create(
        Event(topic=item.topic, kind=kind, payload={"part": "stages"})
        for item in evaluations[::10]
        for kind in ("queued", "state")
    )


def _stages_of(evaluation: Evaluation) -> int:
    return len(STAGES) if evaluation.score else 2


def _stage(evaluation: Evaluation, place: int) -> StageResult:
    name, seconds = STAGES[place]
    return StageResult(evaluation=evaluation, position=place, name=name, seconds=seconds, exit_code=0)


def _configs(evaluation: Evaluation, report: dict[str, Any], score: float, random: Random) -> Iterator[ConfigResult]:
    for place, item in enumerate(report["configs"]):
        timed = item["speedup"] is not None
        speedup = score * random.uniform(0.9, 1.1) if timed else None
        yield ConfigResult(
            evaluation=evaluation,
            position=place,
            key=item["key"],
            group=item["group"],
            correct=True,
            max_abs_error=2.5e-7,
            kernel_us=100 / speedup if speedup else None,
            eager_us=item["eager_us"],
            compile_us=item["compile_us"],
            speedup=speedup,
            speedup_lo=speedup * 0.99 if speedup else None,
            speedup_hi=speedup * 1.01 if speedup else None,
            roofline_fraction=item["roofline_fraction"],
            calls=item["calls"],
            checked_calls=item["checked_calls"],
        )


def _charge(evaluation: Evaluation) -> LedgerEntry:
    what = f"Judging of {evaluation.submission.title}"
    payer = evaluation.submission.payer
    return LedgerEntry(payer=payer, evaluation=evaluation, kind=LedgerKind.CHARGE, judging_s=24.5, text=what)


def names(targets: Targets) -> dict[str, Any]:
    """Of the busiest task, and of one evaluation of each sort that everybody may read."""
    public = Evaluation.objects.filter(submission__visibility="public", submission__moderation="ok")
    public = public.select_related("submission").order_by("-pk")
    mine = public.filter(submission__owner=targets.accounts[0], device_kind=targets.kinds[0], verdict=Verdict.PASS)
    passed = mine.order_by("task_version", "-pk")[:2]  # the busiest one is the oldest
    task = targets.versions[0].task
    return {
        "suite": task.suite.slug,
        "op": task.op,
        "direction": task.direction,
        "device": targets.kinds[0].slug,
        "gpu": targets.kinds[1].slug,
        "evaluation": str(passed[0].code),
        "submission": str(passed[0].submission.code),
        "other_evaluation": str(passed[1].code),
        "failed": str(public.filter(verdict=Verdict.COMPILE_ERROR)[0].code),
        "queued": str(public.filter(state=State.QUEUED)[0].code),
        "methods": [method.slug for method in targets.methods[:6]],
        "method": targets.methods[1].slug,
    }

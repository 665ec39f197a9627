"""Previews of links to a task, a leaderboard or an entry in chats and social networks: meta tags and a picture.

A preview is the same for everybody, so pages that are not public have none, and their picture is the general one. Does
NOT show a score under review.
"""

import uuid
from collections.abc import Sequence
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from benchmarks import selectors
from benchmarks.boards import selectors as board_selectors
from benchmarks.boards.selectors import BoardKey
from benchmarks.harness import SpeedupEstimate, Verdict
from benchmarks.models import Evaluation, RecordedEntry, Standing, TaskVersion
from benchmarks.recorded import selectors as recorded
from benchmarks.states import Moderation, Visibility
from benchmarks.templatetags.kbench import holder

from .badges import public_picture
from .parts.preview_image import GENERAL, LinkPreview, png


def task_picture(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    """The best entry of a task on the device kind of the query, or on the one that its page shows first."""
    version = selectors.active_version(suite, op, direction)
    device = request.GET.get("device", "") or selectors.default_device(version)
    return picture_of(preview_of_task(version, device, selectors.top_entries(version, device, limit=1)))


def board_picture(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    """The best entry of a board under the active rules."""
    version = selectors.active_version(suite, op, direction)
    return picture_of(preview_of_board(board_selectors.board_key(version, device)))


def evaluation_picture(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """What everybody may read of an evaluation; the general picture for every other code, known or not."""
    try:
        evaluation = selectors.evaluation_for(AnonymousUser(), code)
    except Http404:
        return picture_of(None)
    return picture_of(preview_of_evaluation(evaluation, selectors.standing_of(evaluation)))


def recorded_picture(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    return picture_of(preview_of_recorded(recorded.entry_named(recorded.bundle_named(bundle), entry)))


def preview_of_task(version: TaskVersion, device: str, entries: Sequence[Standing]) -> LinkPreview:
    """The first of the entries, which are those of a device kind under the active rules."""
    task, leader = version.task, entries[0] if entries else None
    address = reverse("task-picture", args=[task.suite.slug, task.op, task.direction])
    return LinkPreview(
        title=f"{task.name}: {task.title}",
        verdict="no verified entry yet",
        image=f"{address}?{urlencode({'device': device})}" if leader else address,
        facts=_facts_of(leader, device, settings.KBENCH_RULESET) if leader else (task.suite.title,),
        score=score_of(leader),
        times=times_of(leader.evaluation) if leader else (),
    )


def preview_of_board(key: BoardKey) -> LinkPreview:
    task, leader = key.version.task, board_selectors.leader(key)
    return LinkPreview(
        title=f"{task.name} on {key.device.slug}: leaderboard",
        verdict="no verified entry yet",
        image=reverse("leaderboard-picture", args=[task.suite.slug, task.op, task.direction, key.device.slug]),
        facts=_facts_of(leader, key.device.slug, key.ruleset.name) if leader else (f"rule set {key.ruleset.name}",),
        score=score_of(leader),
        times=times_of(leader.evaluation) if leader else (),
    )


def _facts_of(leader: Standing, device: str, ruleset: str) -> tuple[str, ...]:
    return (f"best of {device}", *timing_of(leader, leader.evaluation), f"rule set {ruleset}")


def preview_of_evaluation(evaluation: Evaluation, standing: Standing | None) -> LinkPreview | None:
    """None for what not everybody may read."""
    submission = evaluation.submission
    if submission.visibility == Visibility.PRIVATE or submission.moderation == Moderation.HIDDEN:
        return None
    ranked = standing if standing and standing.rank else None
    facts = (f"by {holder(evaluation)}", submission.language, f"rule set {evaluation.ruleset.name}")
    return LinkPreview(
        title=f"{evaluation.task_version.task.name} on {evaluation.device_kind.slug}",
        verdict=_verdict(evaluation, standing),
        image=reverse("evaluation-picture", args=[evaluation.code]),
        facts=(f"rank {ranked.rank}", *timing_of(ranked, evaluation), *facts) if ranked else facts,
        score=score_of(ranked),
        times=times_of(evaluation) if ranked else (),
    )


def preview_of_recorded(entry: RecordedEntry) -> LinkPreview:
    rank = (f"rank {entry.rank}",) if entry.rank else ()
    trust = trust_of(entry.timing_trust)
    return LinkPreview(
        title=f"{entry.task_name} on {entry.bundle.device}",
        verdict="",
        image=reverse("recorded-picture", args=[entry.bundle.name, entry.name]),
        facts=(*rank, trust, f"by {entry.by}", entry.language, f"recorded {entry.judged_at:%Y-%m-%d}"),
        score=score_of(entry),
        times=times_of(entry),
    )


def _verdict(evaluation: Evaluation, standing: Standing | None) -> str:
    if not evaluation.verdict:
        return "ended without a verdict" if evaluation.is_finished else "not judged yet"
    if evaluation.verdict != Verdict.PASS:
        return f"not accepted: {evaluation.verdict}"
    return "under review" if standing else "accepted, not ranked"


def timing_of(row: Standing | Evaluation, evaluation: Evaluation) -> tuple[str, ...]:
    """Who measured the evaluation of a row, and whether by an earlier revision of the judge's timing."""
    return (trust_of(evaluation.timing_trust), *(("earlier timing",) if row.is_timed_earlier else ()))


def trust_of(timing_trust: str) -> str:
    """In a few words, who measured."""
    return {"supervisor": "timed by the judge's clock"}.get(timing_trust, f"{timing_trust} timing")


def score_of(row: Standing | RecordedEntry | Evaluation | None) -> SpeedupEstimate | None:
    if row is None or row.score is None or row.score_lo is None or row.score_hi is None:
        return None
    return SpeedupEstimate(row.score, row.score_lo, row.score_hi)


def times_of(row: Evaluation | RecordedEntry) -> tuple[tuple[str, float], ...]:
    baselines = (("torch.compile", row.vs_compile), ("PyTorch eager", row.vs_eager))
    return (("this kernel", 1.0), *((name, ratio) for name, ratio in baselines if ratio))


def picture_of(preview: LinkPreview | None) -> HttpResponse:
    """The general picture where there is no preview, so that an answer does not tell what exists."""
    return public_picture(png(preview or GENERAL), "image/png")

"""Previews of links to a leaderboard or an entry in chats and social networks: meta tags and a picture.

A preview is the same for everybody, so pages that are not public have none. Does NOT show a score under review.
"""

import uuid

from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from benchmarks import selectors
from benchmarks.boards import selectors as board_selectors
from benchmarks.boards.ranking import SpeedupEstimate
from benchmarks.boards.selectors import BoardKey
from benchmarks.harness import Verdict
from benchmarks.models import Evaluation, RecordedEntry, Standing
from benchmarks.recorded import selectors as recorded
from benchmarks.states import Moderation, Visibility
from benchmarks.templatetags.kbench import holder

from .badges import public_picture
from .parts.preview_image import LinkPreview, png


def board_picture(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    """The best entry of a board under the active rules."""
    version = selectors.active_version(suite, op, direction)
    return _drawn(preview_of_board(board_selectors.board_key(version, device)))


def evaluation_picture(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """What everybody may read of an evaluation."""
    evaluation = selectors.evaluation_for(AnonymousUser(), code)
    return _drawn(preview_of_evaluation(evaluation, selectors.standing_of(evaluation)))


def recorded_picture(request: HttpRequest, bundle: str, entry: str) -> HttpResponse:
    return _drawn(preview_of_recorded(recorded.entry_named(recorded.bundle_named(bundle), entry)))


def preview_of_board(key: BoardKey) -> LinkPreview:
    task, leader = key.version.task, board_selectors.leader(key)
    facts = [f"best of {key.device.slug}", f"rule set {key.ruleset.name}"]
    return LinkPreview(
        title=f"{task.name} on {key.device.slug}: leaderboard",
        verdict="no verified entry yet",
        image=reverse("leaderboard-picture", args=[task.suite.slug, task.op, task.direction, key.device.slug]),
        facts=facts if leader else facts[1:],
        score=_score(leader),
        times=_times(leader.evaluation) if leader else (),
    )


def preview_of_evaluation(evaluation: Evaluation, standing: Standing | None) -> LinkPreview | None:
    """None for what not everybody may read."""
    submission = evaluation.submission
    if submission.visibility == Visibility.PRIVATE or submission.moderation == Moderation.HIDDEN:
        return None
    ranked = standing if standing and standing.rank else None
    facts = [f"by {holder(evaluation)}", submission.language, f"rule set {evaluation.ruleset.name}"]
    return LinkPreview(
        title=f"{evaluation.task_version.task.name} on {evaluation.device_kind.slug}",
        verdict=_verdict(evaluation, standing),
        image=reverse("evaluation-picture", args=[evaluation.code]),
        facts=[f"rank {ranked.rank}", *facts] if ranked else facts,
        score=_score(ranked),
        times=_times(evaluation) if ranked else (),
    )


def preview_of_recorded(entry: RecordedEntry) -> LinkPreview:
    facts = [f"rank {entry.rank}"] if entry.rank else []
    return LinkPreview(
        title=f"{entry.task_name} on {entry.bundle.device}",
        verdict="",
        image=reverse("recorded-picture", args=[entry.bundle.name, entry.name]),
        facts=[*facts, f"by {entry.by}", entry.language, f"recorded {entry.judged_at:%Y-%m-%d}"],
        score=_score(entry),
        times=_times(entry),
    )


def _verdict(evaluation: Evaluation, standing: Standing | None) -> str:
    if not evaluation.verdict:
        return "ended without a verdict" if evaluation.is_finished else "not judged yet"
    if evaluation.verdict != Verdict.PASS:
        return f"not accepted: {evaluation.verdict}"
    return "under review" if standing else "accepted, not ranked"


def _score(row: Standing | RecordedEntry | None) -> SpeedupEstimate | None:
    return SpeedupEstimate(row.score, row.score_lo, row.score_hi) if row else None


def _times(row: Evaluation | RecordedEntry) -> list[tuple[str, float]]:
    baselines = (("torch.compile", row.vs_compile), ("PyTorch eager", row.vs_eager))
    return [("this kernel", 1.0), *((name, ratio) for name, ratio in baselines if ratio)]


def _drawn(preview: LinkPreview | None) -> HttpResponse:
    if preview is None:
        raise Http404("There is no preview of this.")
    return public_picture(png(preview), "image/png")

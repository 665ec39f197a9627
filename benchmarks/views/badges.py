"""Badges: a score with its baseline, interval and rank as a small picture that other pages can show.

A badge may be cached and is the same for everybody, so entries that are not public have none. Does
NOT show a score that is under review.
"""

import uuid

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control

from benchmarks import selectors
from benchmarks.boards import selectors as board_selectors
from benchmarks.harness import Verdict
from benchmarks.models import Evaluation, Standing

CACHED_S = 300
CHAR_PX = 6.6  # of the font of a badge, on average
PADDING_PX = 10


def board_badge(request: HttpRequest, suite: str, op: str, direction: str, device: str) -> HttpResponse:
    """The best entry of a board under the active rules."""
    key = board_selectors.board_key(selectors.active_version(suite, op, direction), device)
    leader = board_selectors.leader(key)
    text = f"{_score(leader)} best of {device}" if leader else f"no verified entry on {device} yet"
    return drawn(key.version.task.name, text, good=leader is not None)


def evaluation_badge(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """What everybody may read of an evaluation: a badge is shown to whoever comes."""
    evaluation = selectors.evaluation_for(AnonymousUser(), code)
    standing = selectors.standing_of(evaluation)
    return drawn(evaluation.task_version.task.name, _words(evaluation, standing), good=bool(standing and standing.rank))


def _words(evaluation: Evaluation, standing: Standing | None) -> str:
    if not evaluation.verdict:
        return "not judged yet" if not evaluation.is_finished else "ended without a verdict"
    if evaluation.verdict != Verdict.PASS:
        return f"not accepted: {evaluation.verdict}"
    if standing is None:
        return "accepted, not ranked"
    return f"{_score(standing)} rank {standing.rank}" if standing.rank else "under review"


def _score(standing: Standing) -> str:
    low, high = standing.score_lo, standing.score_hi
    earlier = " earlier timing," if standing.is_timed_earlier else ""
    return f"{standing.score:.2f}× ({low:.2f} to {high:.2f}) vs the stronger baseline,{earlier}"


def drawn(label: str, text: str, *, good: bool) -> HttpResponse:
    """A picture in two parts; widths are estimates, to which a browser fits the text."""
    left, right = (round(len(words) * CHAR_PX) + 2 * PADDING_PX for words in (label, text))
    places = {"label": label, "text": text, "good": good, "left": left, "right": right, "width": left + right}
    picture = render_to_string(
        "badges/badge.svg", {**places, "left_middle": left / 2, "right_middle": left + right / 2}
    )
    return public_picture(picture.encode(), "image/svg+xml")


def public_picture(content: bytes, content_type: str) -> HttpResponse:
    """A picture that every page of any site may show and keep for a while."""
    response = HttpResponse(content, content_type=content_type)
    patch_cache_control(response, public=True, max_age=CACHED_S)
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response

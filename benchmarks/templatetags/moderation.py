"""Parts that moderation adds to other pages: notices on evaluations, lists below a leaderboard, the size of a change.

Each is one tag, so that those pages need not know how moderation works. Does NOT decide who may read what.
"""

from typing import Any

from django import template

from benchmarks.boards.selectors import BoardKey
from benchmarks.models import Evaluation, RejudgeItem
from benchmarks.moderation import review
from benchmarks.states import ActionKind, Moderation

register = template.Library()
LAST_TOLD = {Moderation.HIDDEN: ActionKind.HIDE, Moderation.INVALIDATED: ActionKind.INVALIDATE}


@register.inclusion_tag("moderation/_notice.html", takes_context=True)
def moderation_notice(context: template.Context, evaluation: Evaluation) -> dict[str, Any]:
    """What was decided about a submission, and where to report it or to decide."""
    decisions = list(review.decisions_about(evaluation.submission))
    why = LAST_TOLD.get(Moderation(evaluation.submission.moderation))
    return {
        "evaluation": evaluation,
        "submission": evaluation.submission,
        "reason": next((row.public_reason for row in decisions if row.kind == why), ""),
        "decisions": decisions,
        "user": context["request"].user,
    }


@register.inclusion_tag("moderation/_below_board.html")
def below_board(board: BoardKey) -> dict[str, Any]:
    """Entries that wait for being judged like the board, and those that were taken off it."""
    return {"board": board, "awaiting": review.awaiting_on(board), "invalidated": review.invalidated_on(board)}


@register.filter
def change(item: RejudgeItem) -> str:
    """How much faster or slower the later judging is, in per cent."""
    before, after = item.before, item.after
    if after is None or not before.score or not after.score:
        return "not comparable"
    return f"{100 * (after.score / before.score - 1):+.1f} %".replace("-", "−")

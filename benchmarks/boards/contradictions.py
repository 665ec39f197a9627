"""Finds judgings of one code that contradict each other, and says what follows: a review, a contest, or neither.

A low score of the entry's owner or of the site puts a high one under review. Low scores of others make it contested:
the site judges the code itself, and what it finds decides. Does NOT say which judgings are of the same code
(`same_code.py`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from django.db.models import Q, QuerySet

from ..harness import BOUND_TRUSTS, read_alike
from ..models import DeletedScore, Evaluation
from ..states import AUDITED, BOUNDED, REPLAYED, TIMINGS, EvaluationReason, Moderation, Priority, Visibility
from .same_code import GONE, GONE_OF_OWNER, having, is_of_owner, of_one_person, owner_of
from .settled import SameCode, how_known, most, once_for_all_alike, surely

APART = 1.25  # by which they differ for no honest reason: bounded calls of several short kernels also take longer
_APART_ELSEWHERE = 2.0  # replayed ones on another machine, with other versions, or by another revision of the timing
_LOWER = ((REPLAYED, BOUND_TRUSTS), (BOUNDED, (AUDITED,)))  # which trusts no score may be far below which one
_IsSettled = Callable[[Any], bool]


@once_for_all_alike
def contradiction(evaluation: Evaluation, same_code: SameCode) -> str:
    """Two judgings of the code are so far apart that one of them is wrong; empty if there are none.

    A bound is too high rather than too low, so its gap explains no score below what was replayed, nor an audited one
    below what was bounded. Little explains two replayed scores: less under the same conditions than under others. Only
    a confirmation after both has settled it, and then replayed scores between those that it has seen; of what was
    deleted long ago it is not known when it ended.
    """
    if all(item.timing_trust not in TIMINGS for item in same_code.judgings):
        return ""
    scored = scored_of(evaluation, same_code)
    if _agree(scored):
        return ""
    own = [row for row in scored if answers_for(evaluation, row)]
    found = next(
        chain(
            _of_other_trust(own, same_code.by_staff),
            _far_apart(_of(own, REPLAYED), same_code.by_staff),
        ),
        None,
    )
    if found is None:
        return ""
    if not all(map(may_be_quoted, found)):
        return "Judgings of this source contradict each other."
    told = (f"{row.score:.2f}× with {row.timing_trust}" for row in found)
    return "Judgings of this source contradict each other: {} times, {} ones.".format(*told)


def is_contested(same_code: SameCode, counting: list[Any], apart: float = math.inf) -> bool:
    """Whether judgings that are pooled are so far apart that the site should judge the code itself.

    It has done so once it has judged it after all of them, to no score that is lower by the factor `apart`.
    """
    if _agree(counting):
        return False
    of_site = [row for row in counting if _is_asked_by_site(row)]

    def is_answered(row: Any) -> bool:
        later = _known_since(of_site, row)
        return same_code.by_staff(row) or any(not _contradicts(row, site, apart) for site in later)

    pairs = chain(_far_apart(_of(counting, REPLAYED), is_answered), _of_other_trust(counting, is_answered))
    return any(not is_answered(low) or any(_contradicts(high, site, apart) for site in of_site) for high, low in pairs)


def without_refuted(evaluation: Evaluation, scored: list[Any], same_code: SameCode) -> list[Any]:
    """Without what others have had judged if the row's own judgings speak against it, unless staff confirmed both.

    Their high scores are left out if one of its owner or of the site is too low for them. Low ones are if the site has
    scored far more later, under whatever conditions, and they are all of one owner: neither is it luck of several, nor
    does one judging of the site outweigh what several agree on.
    """
    if _agree(scored):
        return scored
    refuted = set[int]()
    own = {id(row) for row in scored if answers_for(evaluation, row)}
    of_site = [row for row in scored if _is_asked_by_site(row)]
    alike = _under_like_conditions(_of(scored, REPLAYED))
    of_other_trust = ((_of(scored, trust), _of(scored, *lower), APART) for trust, lower in _LOWER)
    for high, low, apart in (*((rows, rows, apart) for rows, apart in alike), *of_other_trust):
        own_high, own_low = [[row for row in rows if id(row) in own] for rows in (high, low)]
        for row in (row for row in high if id(row) not in own):
            against = own_low
            if same_code.by_staff(row):
                against = [item for item in own_low if not same_code.by_staff(item)]
            if any(_pairs([row], against, apart)):
                refuted.add(id(row))
        doubted = [
            row
            for row in low
            if id(row) not in own
            and any(_pairs(own_high, [row], apart))
            and any(_pairs(_known_since(of_site, row), [row], APART))
        ]
        if len({_whose(row) for row in doubted}) == 1:
            refuted |= {id(row) for row in doubted if not same_code.by_staff(row)}
    return [row for row in scored if id(row) not in refuted]


def may_be_quoted(row: Any) -> bool:
    """Whether everybody may read it; reasons of reviews stand on boards, which are public."""
    if isinstance(row, DeletedScore):
        return False
    submission = row.submission
    return bool(submission.visibility == Visibility.PUBLIC and submission.moderation == Moderation.OK)


def answers_for(evaluation: Evaluation, row: Any) -> bool:
    """Whether a judging, or what is remembered of one, is the owner's or one that the site has asked for.

    Only such judgings can put an entry under review: whoever judges a copy must not.
    """
    if _is_asked_by_site(row):
        return True
    if isinstance(row, DeletedScore):
        return is_of_owner(row, evaluation.submission)
    return owner_of(row) == owner_of(evaluation)


def _is_asked_by_site(row: Any) -> bool:
    return row.for_site if isinstance(row, DeletedScore) else is_for_site(row)


def is_for_site(item: Evaluation) -> bool:
    """Whether staff or housekeeping have asked for it. An agent run that confirms its best has other priority."""
    is_rejudged = item.reason == EvaluationReason.REJUDGE and item.priority == Priority.REJUDGE
    return is_rejudged or item.reason in (EvaluationReason.AUDIT, EvaluationReason.SITE_AUDIT)


@once_for_all_alike
def scored_of(evaluation: Evaluation, same_code: SameCode) -> list[Any]:
    """Judgings of the code that have a score, and what is remembered of deleted ones."""
    names, own = same_code.own_names(evaluation, tokens=True), of_one_person(evaluation.submission)
    like = Q(language__in=(*read_alike(evaluation.submission.language), "")) & having(names, GONE)
    if own is not None:
        like |= own & having(names, GONE_OF_OWNER)
    rows: list[Any] = [item for item in same_code.judgings if item.score is not None]
    return [*rows, *deleted(DeletedScore, evaluation, like)]


def deleted(table: Any, evaluation: Evaluation, like: Q) -> QuerySet[Any]:
    """What is remembered of deleted judgings, on the board of this one."""
    board = {name: getattr(evaluation, name) for name in ("task_version_id", "device_kind_id", "ruleset_id")}
    rows: QuerySet[Any] = table.objects.filter(like, **board)
    return rows


def _of_other_trust(scored: list[Any], is_settled: _IsSettled) -> Iterator[tuple[Any, Any]]:
    """A score and one whose times are known worse, or better than bounded ones, that is too far below it."""
    for trust, lower in _LOWER:
        high, low = _of(scored, trust), _of(scored, *lower)
        yield from _pairs(high, [row for row in low if not is_settled(row)], APART)
        yield from _pairs([row for row in high if not is_settled(row)], low, APART)


def _far_apart(replayed: list[Any], is_settled: _IsSettled) -> Iterator[tuple[Any, Any]]:
    """A high and a low score that differ by more than their conditions explain, and that nobody has settled."""
    settled = [row for row in replayed if is_settled(row)]
    for rows, apart in _under_like_conditions(replayed):
        new = [row for row in rows if not is_settled(row) and not _is_between(settled, row, apart)]
        yield from _pairs(rows, new, apart)
        yield from _pairs(new, rows, apart)


def _under_like_conditions(replayed: list[Any]) -> Iterator[tuple[list[Any], float]]:
    """Groups of judgings, and how many times as much none may have scored as another one of its group."""
    yield replayed, _APART_ELSEWHERE
    groups = defaultdict[tuple[int, str], list[Any]](list)
    for row in replayed:
        if row.conditions:
            groups[row.timing_revision, row.conditions].append(row)
    yield from ((rows, APART) for _, rows in sorted(groups.items()))


def _pairs(high: list[Any], low: list[Any], apart: float) -> Iterator[tuple[Any, Any]]:
    """The highest and the lowest, if they contradict each other."""
    if high and low:
        top, bottom = max(high, key=surely), min(low, key=most)
        if _contradicts(top, bottom, apart):
            yield top, bottom


def _agree(rows: list[Any]) -> bool:
    """Whether no two of them contradict each other, whatever is known of their times and conditions."""
    return not any(_pairs(rows, rows, APART))


def _contradicts(high: Any, low: Any, apart: float) -> bool:
    return most(low) * apart < surely(high)


def _is_between(settled: list[Any], row: Any, apart: float) -> bool:
    """Whether what staff have seen reaches as low and as high."""
    is_as_low = any(not _contradicts(seen, row, apart) for seen in settled)
    return is_as_low and any(not _contradicts(row, seen, apart) for seen in settled)


def _of(rows: list[Any], *trusts: str) -> list[Any]:
    return [row for row in rows if row.timing_trust in trusts]


def _whose(row: Any) -> str:
    """All that never had an account are one: they may be."""
    about = row if isinstance(row, DeletedScore) else row.submission
    if about.owner_id is not None:
        return f"user:{about.owner_id}"
    return f"former:{about.former_owner}" if about.former_owner else "nobody"


def _known_since(of_site: list[Any], row: Any) -> list[Any]:
    """What the site has judged later, with times as well known."""
    return [site for site in of_site if _since(site, row) and how_known(site) <= how_known(row)]


def _since(item: Any, other: Any) -> bool:
    """Whether it ended after the other one. When what was deleted long ago ended is not known."""
    return item.finished is not None and (other.finished is None or other.finished <= item.finished)

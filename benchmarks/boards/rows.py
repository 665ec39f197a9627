"""The rows that judgings have on a board, or would have where nothing is ranked. They are not saved.

One row of each code: what its judgings have scored together, and why it may not rank. Does NOT say which holder may
have a row (`standings.py`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from django.db.models import QuerySet

from ..harness import Verdict, what_counts
from ..models import DeletedScore, Evaluation, Standing
from .contradictions import is_contested
from .reviews import is_surely_in_question, pooled_estimate, pooled_judgings, review_reason
from .same_code import GONE_OF_OWNER, Name, having, holder_of, is_of_nobody, names_of, owner_of
from .settled import Programs, SameCode, ended, how_known

READ_TOGETHER = 500  # programs whose judgings are read by one query
_ASKED_MAX = 20  # submissions of one code, best known first, among which one that is not in question is looked for
_ROUNDING = 1 + 1e-9
_PROGRAM = (
    *(f"submission__{name}" for name in ("source_key", "blob", "language", "owner", "former_owner")),
    *("task_version", "device_kind"),
)


@dataclass
class _Code:
    """Judgings of one holder and one code, of which one may stand, and all names of its owner that it has to do with.

    No row of it counts more than `most`, the highest score among whatever might be pooled with these.
    """

    shown: list[Evaluation]
    same_code: SameCode
    names: frozenset[Name]
    most: float = 0.0


def best_rows(shown: Iterable[Evaluation], programs: Programs, *, in_question: bool = True) -> Iterator[Standing]:
    """A row for each code of each holder of these accepted judgings, the best first, those under review last.

    A row is made once another code may be as good, so whoever asks for the first alone does not pay for a thousand.
    What counts of a row is not known before: more judgings may have made it less than each of those in `shown`, or more
    if they are nobody's to see. Of each board those that ended first come first. Not `in_question`: without those of
    which that is known without asking the database.
    """
    codes = sorted(_codes(shown, programs), key=lambda code: -code.most)
    doubted, found = list[_Code](), list[tuple[tuple[Any, ...], Standing]]()
    for are_doubted in (False, True) if in_question else (False,):
        for code in doubted if are_doubted else codes:
            while found and found[0][0] < (are_doubted, -code.most):
                yield heappop(found)[1]
            if not are_doubted and _is_surely_in_question(code):
                doubted.append(code)
                continue
            row = _row_of_code(code.shown, code.same_code)
            heappush(found, (place_of(row), row))
        while found and found[0][0] < (are_doubted, math.inf):
            yield heappop(found)[1]


def best_row(shown: Iterable[Evaluation], programs: Programs) -> Standing | None:
    return next(best_rows(shown, programs), None)


def leading(accepted: QuerySet[Evaluation], *group: str) -> dict[tuple[Any, ...], Standing]:
    """The best row of each group of these judgings, by the values of these columns, if it is not in question.

    Programs are read in the order of their highest score here, until none that is left has one as high as what counts
    of the best row. Not covered: one that counts more for scores that are not among these judgings may be left unread.
    """
    groups, waiting = dict[int, tuple[Any, ...]](), defaultdict[tuple[Any, ...], dict[Any, tuple[float, int]]](dict)
    for row in accepted.exclude(score=None).order_by("-score", "pk").values("pk", "score", *{*group, *_PROGRAM}):
        groups[row["pk"]] = key = tuple(row[name] for name in group)
        tokens, text, *others = (row[name] for name in _PROGRAM)
        waiting[key].setdefault((tokens or text, *others), (row["score"], row["pk"]))
    unread, programs, together = {key: list(its.values()) for key, its in waiting.items()}, Programs(), 1
    found = dict[tuple[Any, ...], Standing]()
    while unread:
        asked = [pk for its in unread.values() for _, pk in its[:together]]
        rows = Evaluation.objects.filter(pk__in=asked).select_related("submission__method")
        read = programs.of_all(rows.defer("report", "error_internal"))
        shown = defaultdict[tuple[Any, ...], dict[int, Evaluation]](dict)
        for item in (item for program in read for item in program.judgings if groups.get(item.pk) in unread):
            shown[groups[item.pk]][item.pk] = item
        for key, items in shown.items():
            best = next(best_rows(items.values(), programs, in_question=False), None)
            if best and not best.under_review and (key not in found or place_of(best) < place_of(found[key])):
                found[key] = best
        left = {key: its[together:] for key, its in unread.items() if its[together:]}
        unread = {key: its for key, its in left.items() if key not in found or its[0][0] >= _counts(found[key])}
        together *= 2
    return found


def place_of(row: Standing) -> tuple[Any, ...]:
    """The least of a holder stands. What is under review never keeps a clean entry out."""
    return row.under_review, -_counts(row), row.verified_at, row.evaluation_id


def _codes(shown: Iterable[Evaluation], programs: Programs) -> list[_Code]:
    """As another language a text is another code."""
    found = dict[tuple[str, int], _Code]()
    for item in shown:
        program = programs.of(item)
        same_code, names = program.same_code(item), program.own_names(item, tokens=True)
        code = found.setdefault((holder_of(item), id(same_code)), _Code([], same_code, frozenset()))
        code.shown.append(item)
        code.names |= names
    codes = list(found.values())
    if len(codes) > 1:
        _bound(codes)
    return codes


def _bound(codes: list[_Code]) -> None:
    """Set `most` of each; what is remembered of deleted judgings may be pooled as well."""
    of_deleted, names_on = defaultdict[Name, float](float), defaultdict[Any, set[Name]](set)
    for code in codes:
        names_on[_board_of(code.shown[0])] |= code.names
    for (version, device_kind, ruleset), names in names_on.items():
        board = {"task_version": version, "device_kind": device_kind, "ruleset": ruleset}
        for row in DeletedScore.objects.filter(having(names, GONE_OF_OWNER), **board):
            for name in names_of(row, tokens=True):
                of_deleted[name] = max(of_deleted[name], row.score)
    for code in codes:
        known = max(item.score or 0.0 for item in code.same_code.judgings)
        code.most = max(known, *(of_deleted.get(name, 0.0) for name in code.names)) * _ROUNDING


def _is_surely_in_question(code: _Code) -> bool:
    each_owner = {owner_of(item): item for item in code.shown}.values()
    return all(is_surely_in_question(item, code.same_code) for item in each_owner)


def _board_of(evaluation: Evaluation) -> tuple[int, int, int]:
    return evaluation.task_version_id, evaluation.device_kind_id, evaluation.ruleset_id


def _row_of_code(shown: list[Evaluation], same_code: SameCode) -> Standing:
    """With the newest of those whose times are known best, unless it is in question and another submission is not.

    Of a text that several have submitted without an account the first submission stands: a copy may have another title.
    """
    newest, reasons = dict[int, Evaluation](), dict[Evaluation, str]()
    by_age = is_of_nobody(shown[0].submission)

    def place(numbered: tuple[int, Evaluation]) -> tuple[int, ...]:
        number, item = numbered
        return (how_known(item), -item.timing_revision, item.submission_id if by_age else 0, -number)

    for _, item in sorted(enumerate(shown), key=place):
        newest.setdefault(item.submission_id, item)
    oldest = min(newest.values(), key=lambda item: item.submission_id)  # which staff may have seen when they decided
    for item in (*list(newest.values())[:_ASKED_MAX], oldest):
        reasons[item] = review_reason(item, same_code)
        if not reasons[item]:
            break
    evaluation = min(reasons, key=lambda item: bool(reasons[item]))
    counting = pooled_judgings(evaluation, same_code)
    estimate = pooled_estimate(counting)
    accepted = (item for item in same_code.judgings if item.verdict == Verdict.PASS)  # those that ended first are first
    board = {name: getattr(evaluation, name) for name in ("ruleset_id", "task_version_id", "device_kind_id")}
    return Standing(
        **board,
        holder=holder_of(evaluation),
        evaluation=evaluation,
        score=estimate.score,
        score_lo=estimate.lo,
        score_hi=estimate.hi,
        judgings=max(1, sum(isinstance(item, Evaluation) for item in counting)),
        timing_revision=min(item.timing_revision for item in counting),
        is_contested=is_contested(same_code, counting),
        verified_at=next(ended(item) for item in accepted if holder_of(item) == holder_of(evaluation)),
        under_review=bool(reasons[evaluation]),
        review_reason=reasons[evaluation],
    )


def _counts(row: Standing) -> float:
    return what_counts(row.score, row.score_lo, row.evaluation.timing_trust)

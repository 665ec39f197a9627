"""Groups judgings of the same code, pools their scores, and gives the reason if the code may not be ranked.

A code that was accepted and is rejected when judged again goes under review, so repeating until it passes gains
nothing. This also holds if a submission has been deleted. Does NOT write a board (`standings.py`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, cast

from django.db.models import Q, QuerySet

from ..harness import BOUND_TRUSTS, SpeedupEstimate, Verdict, is_bound, pooled, read_alike
from ..models import (
    DeletedScore,
    Evaluation,
    ModerationAction,
    Refusal,
    Submission,
)
from ..states import AUDITED, BOUNDED, REPLAYED, TIMINGS, ActionKind, EvaluationReason, MethodKind, Moderation, Priority

AUDIT, QUICK = EvaluationReason.AUDIT, EvaluationReason.QUICK
AUDITS = (EvaluationReason.AUDIT, EvaluationReason.SITE_AUDIT, EvaluationReason.VERIFICATION)
# of a deleted judging
_KEPT_SCORES = ("score", "score_lo", "score_hi", "timing_trust", "finished", "timing_revision", "conditions")
_CHANCE = 1.1  # by which judgings of one code differ between machines and days at most
APART = 1.25  # by which they differ for no honest reason: bounded calls of several short kernels also take longer
_APART_ELSEWHERE = 2.0  # replayed ones on another machine, with other versions, or by another revision of the timing


def holder_of(evaluation: Evaluation) -> str:
    """Who a row of the board belongs to; see Standing."""
    submission = evaluation.submission
    if submission.owner_id is None:
        human = submission.method.kind == MethodKind.HUMAN
        return f"submission:{submission.code}" if human else f"method:{submission.method.slug}"
    by_hand = submission.method.kind == MethodKind.HUMAN
    return f"user:{submission.owner_id}" + ("" if by_hand else f"/{submission.method.slug}")


def program_of(evaluation: Evaluation) -> list[Evaluation]:
    """All judgings that may be of the same code: also of the same tokens, whoever submitted them.

    Of quick checks those that refused it: whether it is right they look at as closely as any other.
    """
    rows = Evaluation.objects.filter(
        task_version=evaluation.task_version_id,
        device_kind=evaluation.device_kind_id,
        ruleset=evaluation.ruleset_id,
    )
    ours = [verdict.value for verdict in Verdict if verdict.ours]
    known = rows.exclude(verdict="").exclude(verdict__in=ours).exclude(reason=QUICK, verdict=Verdict.PASS)

    def named(names: set[_Name]) -> list[Evaluation]:
        columns = {"text": "submission__blob", "object": "object_key", "tokens": "submission__source_key"}
        same = Q()
        for kind, column in columns.items():
            same |= Q(**{f"{column}__in": [key for its_kind, key in names if its_kind == kind]})
        return list(known.filter(same).select_related("submission__method").order_by("finished", "pk"))

    return _all_named(evaluation, partial(_names_of, tokens=True), named)


def judgings_of_same_code(evaluation: Evaluation, program: list[Evaluation] | None = None) -> list[Evaluation]:
    """Of the same text or the same compiled code, whoever submitted it, and of the same tokens by the same owner.

    Tokens are read from a text that its author chose: a stranger's must not touch an entry. Nor must what a stranger
    has submitted as another language, where the same text may be another program. `program` is `program_of` the
    evaluation, where that is known.
    """
    owner, alike = _owner_of(evaluation), read_alike(evaluation.submission.language)
    program = program_of(evaluation) if program is None else program
    known = [item for item in program if _owner_of(item) == owner or item.submission.language in alike]
    return _among(known, evaluation, lambda item: _names_of(item, tokens=_owner_of(item) == owner))


def _exact(evaluation: Evaluation, same_code: list[Evaluation]) -> list[Evaluation]:
    """Those of its text or of what that was compiled to: what settles a question is never found by tokens."""
    return _among(same_code, evaluation, _names_of)


_Name = tuple[str, str]  # what kind of key it is, and the key


def _names_of(item: Evaluation, *, tokens: bool = False) -> set[_Name]:
    """Others of its code have one of these. A key that is not known is nobody's."""
    keys = {"text": item.submission.blob_id, "object": item.object_key}
    if tokens:
        keys["tokens"] = item.submission.source_key
    return {(kind, key) for kind, key in keys.items() if key}


def _among(
    known: list[Evaluation], evaluation: Evaluation, names_of: Callable[[Evaluation], set[_Name]]
) -> list[Evaluation]:
    named = [(item, names_of(item)) for item in known]
    return _all_named(evaluation, names_of, lambda names: [item for item, its in named if its & names])


def _all_named(
    evaluation: Evaluation,
    names_of: Callable[[Evaluation], set[_Name]],
    find: Callable[[set[_Name]], list[Evaluation]],
) -> list[Evaluation]:
    """What has a name of the evaluation, or of another that is found: one text may be compiled to what another was."""
    names, before, found = names_of(evaluation), set[_Name](), list[Evaluation]()
    while names != before:
        before, found = names, find(names)
        names = names.union(*map(names_of, found))
    return found


def _exactly_like(judgings: list[Evaluation], *, text: str) -> Q:
    """Of a text of these, or of what was compiled of them. A key that is not known is nobody's."""
    texts = Q(**{f"{text}__in": {item.submission.blob_id for item in judgings}})
    return texts | Q(object_key__in={item.object_key for item in judgings} - {""})


def _owner_of(evaluation: Evaluation) -> str:
    """As `holder_of`, but one person with several methods is one."""
    owner = evaluation.submission.owner_id
    return holder_of(evaluation) if owner is None else f"user:{owner}"


def review_reason(evaluation: Evaluation, same_code: list[Evaluation]) -> str:
    """Why the code may not rank. Once a review is settled, what it was about is no question again.

    What the owner's own judgings with the same tokens have put in question counts, what they have settled does not.
    """
    exact = _exact(evaluation, same_code)
    if invalidated := _invalidated(evaluation, same_code, exact):
        return invalidated
    answers = _SettledDoubts.about(exact)
    for item in same_code:
        if answers.settle(item):
            continue
        if item.verdict != Verdict.PASS:
            return f"Another evaluation of the same source ended as {item.verdict}: {item.reason_text}"
        gates = [gate for gate in _gates(item) if not answers.answer(gate["code"], item)]
        if gates:
            return " ".join(gate["text"] for gate in gates)
    return _contradiction(evaluation, same_code, exact) or _remembered(evaluation, exact, _settled_at(exact))


@dataclass(frozen=True)
class _SettledDoubts:
    """What staff and passed audits have settled about a code. `reached` is the highest score for which, by gate.

    An audit says nothing of a judging that it contradicts: else a code could be fast until it is audited, and the audit
    of a slow judging would clear the fast one.
    """

    confirmed: datetime | None
    audits: list[Evaluation]
    reached: dict[str, float]

    @classmethod
    def about(cls, exact: list[Evaluation]) -> "_SettledDoubts":
        audits = [item for item in exact if _is_passed_audit(item)]
        answers = cls(max(_confirmations(exact), default=None), audits, {})
        for item in filter(answers.settle, exact):
            for gate in _gates(item):
                reached = max(answers.reached.get(gate["code"], 0.0), _most(item))
                answers.reached[gate["code"]] = reached
        return answers

    def settle(self, item: Evaluation) -> bool:
        if self.confirmed is not None and ended(item) <= self.confirmed:
            return True
        audits = (audit for audit in self.audits if ended(item) <= ended(audit))
        return any(_most(audit) * _CHANCE >= _surely(item) for audit in audits)

    def answer(self, gate: str, item: Evaluation) -> bool:
        return self.reached.get(gate, 0.0) * _CHANCE >= _surely(item)


def ended(item: Evaluation) -> datetime:
    """When it ended; a constraint of the table says that whatever has a verdict has."""
    return cast(datetime, item.finished)


def _most(item: Any) -> float:
    """The upper end of its score; what has none contradicts nothing."""
    return math.inf if item.score_hi is None else float(item.score_hi)


def _surely(item: Any) -> float:
    """As far below its score as the upper end is above it: the lower end of a bound also holds its gap."""
    return 0.0 if item.score is None else float(item.score**2 / item.score_hi)


def _contradiction(evaluation: Evaluation, same_code: list[Evaluation], exact: list[Evaluation]) -> str:
    """Two judgings of the code are so far apart that one of them is wrong.

    A bound is too high rather than too low, so its gap explains no score below what was replayed, nor an audited one
    below what was bounded. Little explains two replayed scores: less under the same conditions than under others. Only
    a confirmation after both has settled it, and then replayed scores between those that it has seen; of what was
    deleted long ago it is not known when it ended.
    """
    if all(item.timing_trust not in TIMINGS for item in same_code):
        return ""
    scored, is_settled = _scored(evaluation, same_code), _settled_by_staff(exact)
    own = [row for row in _replayed(scored) if _answers_for(evaluation, row)]
    found = next(chain(_of_other_trust(scored, is_settled), _far_apart(own, is_settled)), None)
    if found is None:
        return ""
    told = (f"{row.score:.2f}× with {row.timing_trust}" for row in found)
    return "Judgings of this source contradict each other: {} times, {} ones.".format(*told)


_IsSettled = Callable[[Any], bool]


def _settled_by_staff(exact: list[Evaluation]) -> _IsSettled:
    """Tells of a judging whether staff have confirmed the code after it."""
    confirmed = max(_confirmations(exact), default=None)
    return lambda row: confirmed is not None and (row.finished is None or row.finished <= confirmed)


def _of_other_trust(scored: list[Any], is_settled: _IsSettled) -> Iterator[tuple[Any, Any]]:
    """A score and one whose times are known worse, or better than bounded ones, that is too far below it."""
    for trust, lower in ((REPLAYED, BOUND_TRUSTS), (BOUNDED, (AUDITED,))):
        high = [row for row in scored if row.timing_trust == trust]
        low = [row for row in scored if row.timing_trust in lower]
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
        top, bottom = max(high, key=_surely), min(low, key=_most)
        if _contradicts(top, bottom, apart):
            yield top, bottom


def _contradicts(high: Any, low: Any, apart: float) -> bool:
    return _most(low) * apart < _surely(high)


def _is_between(settled: list[Any], row: Any, apart: float) -> bool:
    """Whether what staff have seen reaches as low and as high."""
    is_as_low = any(not _contradicts(seen, row, apart) for seen in settled)
    return is_as_low and any(not _contradicts(row, seen, apart) for seen in settled)


def _replayed(scored: list[Any]) -> list[Any]:
    return [row for row in scored if row.timing_trust == REPLAYED]


def _answers_for(evaluation: Evaluation, row: Any) -> bool:
    """Whether a judging, or what is remembered of one, is the owner's or one that the site has asked for.

    Only such judgings can put an entry under review: whoever judges a copy must not.
    """
    if _is_asked_by_site(row):
        return True
    if isinstance(row, DeletedScore):
        return row.owner_id is not None and row.owner_id == evaluation.submission.owner_id
    return _owner_of(row) == _owner_of(evaluation)


def _is_asked_by_site(row: Any) -> bool:
    return row.for_site if isinstance(row, DeletedScore) else _is_for_site(row)


def _is_for_site(item: Evaluation) -> bool:
    """Whether staff or housekeeping have asked for it. An agent run that confirms its best has other priority."""
    is_rejudged = item.reason == EvaluationReason.REJUDGE and item.priority == Priority.REJUDGE
    return is_rejudged or item.reason in (EvaluationReason.AUDIT, EvaluationReason.SITE_AUDIT)


def _invalidated(evaluation: Evaluation, same_code: list[Evaluation], exact: list[Evaluation]) -> str:
    """What staff have said of another submission of the code, its owner's or one that was there when they decided.

    What somebody else had submitted before stands on, for staff saw it. Only a confirmation afterwards settles this.
    """
    mine = evaluation.submission
    others = {item.submission_id: item.submission for item in same_code if item.submission_id != mine.pk}
    gone = {pk: other for pk, other in others.items() if other.moderation != Moderation.OK}
    if not gone:
        return ""
    decided = ModerationAction.objects.filter(submission__in=gone, kind__in=(ActionKind.INVALIDATE, ActionKind.RESTORE))
    for action in {action.submission_id: action for action in decided.order_by("pk")}.values():
        is_mine = mine.owner_id is not None and gone[action.submission_id].owner_id == mine.owner_id
        settled = any(moment > action.created for moment in _confirmations(exact))
        if action.kind == ActionKind.INVALIDATE and not settled and (is_mine or mine.created > action.created):
            return f"Staff have invalidated another submission of the same source: {action.public_reason}"
    return ""


def _gates(item: Evaluation) -> list[dict[str, str]]:
    gates: list[dict[str, str]] = (item.report or {}).get("gates", [])
    return gates


def _settled_at(same_code: list[Evaluation]) -> datetime | None:
    """When an audit that passed or a decision of staff last settled what had been in question about the code."""
    audits = [ended(item) for item in same_code if _is_passed_audit(item)]
    return max([*audits, *_confirmations(same_code)], default=None)


def _is_passed_audit(item: Evaluation) -> bool:
    """One that staff asked for; on a GPU only if it was really done."""
    return item.reason == AUDIT and item.verdict == Verdict.PASS and item.timing_trust != BOUNDED


def _remembered(evaluation: Evaluation, exact: list[Evaluation], since: datetime | None) -> str:
    """The refusal of a deleted submission that nothing has settled since.

    That of staff is about what was submitted later, and only a later confirmation settles it.
    """
    alike = Q(language__in=read_alike(evaluation.submission.language))
    known = _deleted(Refusal, exact, alike & _exactly_like(exact, text="source_sha256"))
    confirmed = max(_confirmations(exact), default=None)
    for refusal in known:
        settled = since if refusal.verdict else confirmed
        if not refusal.verdict and evaluation.submission.created < refusal.finished:
            continue
        if settled is None or refusal.finished > settled:
            words = {"": "was invalidated by staff", Verdict.PASS: "was under review"}
            how = words.get(refusal.verdict, f"ended as {refusal.verdict}")
            return f"The same source, judged for a submission deleted since, {how}."
    return ""


def _confirmations(exact: list[Evaluation]) -> list[datetime]:
    return [item.submission.confirmed_at for item in exact if item.submission.confirmed_at]


def _is_doubtful(item: Evaluation) -> bool:
    """Whether it was refused, or `review_reason` would name one of its gates; to be asked before it is deleted.

    A refusal counts even if it is settled: what has settled it may be deleted as well.
    """
    if item.verdict != Verdict.PASS:
        return not Verdict(item.verdict).ours
    if not item.gated:
        return False
    answers = _SettledDoubts.about(_exact(item, judgings_of_same_code(item)))
    return not answers.settle(item) and any(not answers.answer(gate["code"], item) for gate in _gates(item))


def _deleted(table: Any, same_code: list[Evaluation], like: Q) -> QuerySet[Any]:
    """What is remembered of deleted judgings of the same code."""
    board = {name: getattr(same_code[0], name) for name in ("task_version_id", "device_kind_id", "ruleset_id")}
    rows: QuerySet[Any] = table.objects.filter(like, **board)
    return rows


def pooled_judgings(evaluation: Evaluation, same_code: list[Evaluation]) -> list[Any]:
    """Whose scores are pooled. Deleted judgings are as well, or the unlucky ones would be deleted.

    Where the judge's timing has changed, the latest revision of those whose times are known best counts, and later
    ones: whoever had them judged, and whether or not they can be seen. So a code that was replayed gains no more by
    avoiding that than the revision has changed. Nobody else's far-off judging counts for long (`_without_refuted`).
    """
    scored = _without_refuted(evaluation, _scored(evaluation, same_code), same_code)
    best = min(map(how_known, scored))
    latest = max(row.timing_revision for row in scored if how_known(row) == best)
    return [row for row in scored if row.timing_revision >= latest]


def _without_refuted(evaluation: Evaluation, scored: list[Any], same_code: list[Evaluation]) -> list[Any]:
    """Without what others have had replayed if the row's own judgings speak against it, unless staff confirmed both.

    Their high scores are left out if one of its owner or of the site is too low for them. Low ones are if the site has
    scored far more later, under whatever conditions, and they are all of one owner: neither is it luck of several, nor
    does one judging of the site outweigh what several agree on.
    """
    is_settled, refuted = _settled_by_staff(_exact(evaluation, same_code)), set[int]()
    of_site = [row for row in _replayed(scored) if _is_asked_by_site(row)]
    for rows, apart in _under_like_conditions(_replayed(scored)):
        own = [row for row in rows if _answers_for(evaluation, row)]
        others = [row for row in rows if not _answers_for(evaluation, row)]
        for row in others:
            against = own if not is_settled(row) else [other for other in own if not is_settled(other)]
            if any(_pairs([row], against, apart)):
                refuted.add(id(row))
        low = [
            row
            for row in others
            if any(_pairs(own, [row], apart))
            and any(_pairs([site for site in of_site if _since(site, row)], [row], APART))
        ]
        if len({_whose(row) for row in low}) == 1:
            refuted |= {id(row) for row in low if not is_settled(row)}
    return [row for row in scored if id(row) not in refuted]


def _whose(row: Any) -> str:
    """All without an account are one: they may be, and of an account that was deleted nobody knows which it was."""
    owner = row.owner_id if isinstance(row, DeletedScore) else row.submission.owner_id
    return "nobody" if owner is None else f"user:{owner}"


def _since(item: Any, other: Any) -> bool:
    """Whether it ended after the other one. When what was deleted long ago ended is not known."""
    return item.finished is not None and (other.finished is None or other.finished <= item.finished)


def is_contested(
    evaluation: Evaluation, same_code: list[Evaluation], counting: list[Any], apart: float = math.inf
) -> bool:
    """Whether replayed judgings that are pooled are so far apart that the site should judge the code itself.

    It has done so once it has judged it after all of them, to no score that is lower by the factor `apart`.
    """
    is_settled, replayed = _settled_by_staff(_exact(evaluation, same_code)), _replayed(counting)
    of_site = [row for row in replayed if _is_asked_by_site(row)]

    def is_answered(row: Any) -> bool:
        return is_settled(row) or any(_since(site, row) and not _contradicts(row, site, apart) for site in of_site)

    return any(_far_apart(replayed, is_answered))


def pooled_estimate(judgings: list[Any]) -> SpeedupEstimate:
    on_gpu = any(row.timing_trust in TIMINGS for row in judgings)  # what was deleted long ago counts as bounded there
    bounds = [is_bound(row.timing_trust) or (on_gpu and not row.timing_trust) for row in judgings]
    estimates = zip(judgings, bounds, strict=True)
    return pooled([SpeedupEstimate(row.score, row.score_lo, row.score_hi, bound) for row, bound in estimates])


def how_known(judging: Any) -> int:
    """Zero where times are known best; on a processor there is nothing to tell apart."""
    return TIMINGS.index(judging.timing_trust if judging.timing_trust in TIMINGS else BOUNDED)


def _scored(evaluation: Evaluation, same_code: list[Evaluation]) -> list[Any]:
    """Judgings of the code that have a score, and what is remembered of deleted ones."""
    alike = Q(language__in=(*read_alike(evaluation.submission.language), ""))
    like, owner = alike & _exactly_like(same_code, text="source_sha256"), evaluation.submission.owner_id
    if owner is not None:
        own = [item for item in same_code if item.submission.owner_id == owner]
        like |= Q(owner=owner, source_key__in={item.submission.source_key for item in own} - {""})
    rows: list[Any] = [item for item in same_code if item.score is not None]
    return [*rows, *_deleted(DeletedScore, same_code, like)]


def _invalidated_at(submission: Submission) -> datetime:
    decided = ModerationAction.objects.filter(submission=submission, kind=ActionKind.INVALIDATE)
    moment: datetime = decided.order_by("pk").values_list("created", flat=True).last() or submission.created
    return moment


def remember(evaluations: Iterable[Evaluation]) -> None:
    """Keep of evaluations that are about to be deleted that their source was in question, or what it scored for whom.

    A refusal without a verdict is that of staff, who have invalidated the submission.
    """
    refused, scored = [], []
    for item in evaluations:
        columns = {
            "source_sha256": item.submission.blob_id,
            "source_key": item.submission.source_key,
            "object_key": item.object_key,
            "task_version": item.task_version,
            "device_kind": item.device_kind,
            "ruleset": item.ruleset,
        }
        if item.submission.moderation == Moderation.INVALIDATED:
            when = {"finished": _invalidated_at(item.submission), "language": item.submission.language}
            refused.append(Refusal(**columns, **when))
        if _is_doubtful(item):
            what = {"verdict": item.verdict, "finished": item.finished, "language": item.submission.language}
            refused.append(Refusal(**columns, **what))
        elif item.score is not None and item.submission.owner_id is not None:
            scores = {name: getattr(item, name) for name in _KEPT_SCORES}
            about = {"owner_id": item.submission.owner_id, "language": item.submission.language}
            scored.append(DeletedScore(**about, **columns, **scores, for_site=_is_for_site(item)))
    Refusal.objects.bulk_create(refused)
    DeletedScore.objects.bulk_create(scored)

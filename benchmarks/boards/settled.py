"""Judgings of one code, and what staff and passed audits have settled about it, so that it is no question again.

Settled is what they have seen: judgings of the text or of the compiled code that a decision or an audit was about.
Does NOT say what the questions are (`reviews.py`, `contradictions.py`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from itertools import chain
from typing import Any, TypeVar, cast

from ..harness import Verdict, read_alike
from ..models import Confirmation, DeletedScore, Evaluation, Submission
from ..states import BOUNDED, TIMINGS, EvaluationReason, Visibility
from .same_code import (
    GONE,
    Gone,
    Groups,
    Judgings,
    Name,
    all_boards_of,
    decided_versions,
    having,
    names_of,
    own_groups,
    owner_of,
    program_of,
    taken_down_of,
)

_Alike = tuple[str, frozenset[Name], frozenset[str]]
_Found = TypeVar("_Found")
_GATES = "gates_read"  # of an evaluation, once they are known
_CHANCE = 1.1  # by which judgings of one code differ between machines and days at most


class SameCode(Judgings):
    """Judgings of one code, when staff confirmed each text and each compiled code, and the audits that each has passed.

    An audit says nothing of a judging that it contradicts: else a code could be fast until it is audited, and the audit
    of a slow judging would clear the fast one. Reached is the highest score for which that holds, by name and gate.
    """

    def __init__(
        self,
        judgings: Iterable[Evaluation],
        taken_down: Iterable[Evaluation] = (),
        confirmations: Iterable[Confirmation] = (),
        audits: Iterable[DeletedScore] = (),
        gone: Iterable[Gone] = (),
        *,
        on_device: Iterable[Confirmation] = (),
        on_task: dict[str, Groups] | None = None,
    ) -> None:
        """`taken_down` are judgings, on any board of the task, of submissions that staff have moderated.

        `audits` are of submissions that were deleted. `on_device` are confirmations for the device kind on any version
        of the task.
        """
        super().__init__(judgings, gone, on_task)
        self.taken_down = list(taken_down)
        self.found = dict[Any, Any]()  # see `once_for_all_alike`
        self.keys = frozenset(item.pk for item in self.judgings)
        confirmations = list(confirmations)
        self._confirmed, self._audits = _newest(confirmations), defaultdict[Name, list[Any]](list)
        self._confirmed_on_device = _newest(chain(confirmations, on_device))
        self._reached = dict[tuple[Name, str], float]()
        self._confirmed_at = dict[tuple[type, int], datetime | None]()
        for row in confirmations:
            for name in _seen(row):
                self._reach(name, row.reached)
        for audit in (*filter(is_passed_audit, self.judgings), *audits):
            for name in _seen(audit):
                self._audits[name].append(audit)
        self.unsettled = [item for item in self.judgings if not self.is_settled(item)]
        for item in filter(self.was_seen, self.judgings):
            for name in _seen(item):
                self._reach(name, {gate["code"]: most(item) for gate in gates_of(item)})

    def also_answered(self, other: "SameCode") -> None:
        """Count as settled what gates say of scores as high as those for which they are settled on another board."""
        for (name, gate), score in other._reached.items():
            self._reach(name, {gate: score})

    def _reach(self, name: Name, scores: dict[str, float]) -> None:
        for code, score in scores.items():
            self._reached[name, code] = max(self._reached.get((name, code), 0.0), score)

    def is_settled(self, item: Evaluation) -> bool:
        """Whether nothing that is said of this judging is a question any more."""
        return self.by_staff(item) or self._by_audit(item)

    def _by_audit(self, item: Evaluation) -> bool:
        audits = (audit for audit in self._audits_of(item) if ended(item) <= ended(audit))
        return any(most(audit) * _CHANCE >= surely(item) for audit in audits)

    def was_seen(self, item: Evaluation) -> bool:
        """Whether it was settled by somebody who could see its score: staff see nothing private."""
        confirmed = self.confirmed_at(item) if self.by_staff(item) else None
        return self._by_audit(item) or (confirmed is not None and was_public(item.submission, confirmed))

    def by_staff(self, row: Any) -> bool:
        """Whether staff have confirmed it after it ended; of what was deleted long ago that is not known."""
        confirmed = self.confirmed_at(row)
        return confirmed is not None and (row.finished is None or row.finished <= confirmed)

    def answers(self, gate: str, item: Evaluation) -> bool:
        """Whether a gate was settled for a score as high as this one's."""
        reached = max((self._reached.get((name, gate), 0.0) for name in _seen(item)), default=0.0)
        return reached * _CHANCE >= surely(item)

    def open_gates(self, item: Evaluation) -> list[dict[str, str]]:
        return [gate for gate in gates_of(item) if not self.answers(gate["code"], item)]

    def confirmed_at(self, row: Any) -> datetime | None:
        asked = type(row), row.pk
        if asked not in self._confirmed_at:
            moments = (self._confirmed[name] for name in _seen(row) & self._confirmed.keys())
            self._confirmed_at[asked] = max(moments, default=None)
        return self._confirmed_at[asked]

    def confirmed_on_device_at(self, row: Any) -> datetime | None:
        """When staff last confirmed it, on whatever version of the task and under whatever rules.

        That settles what they had decided about others of the program, which counts on all boards. On another device
        kind it may be another program.
        """
        moments = (self._confirmed_on_device[name] for name in _seen(row) & self._confirmed_on_device.keys())
        return max(moments, default=None)

    def last_at(self, row: Any) -> datetime | None:
        """When an audit that passed or a decision of staff last settled what had been in question about it."""
        moments = [ended(audit) for audit in self._audits_of(row)]
        return max([*moments, *filter(None, [self.confirmed_at(row)])], default=None)

    def _audits_of(self, row: Any) -> list[Any]:
        return [audit for name in _seen(row) & self._audits.keys() for audit in self._audits[name]]


class JudgedProgram(Judgings):
    """All judgings that may be of one code, as they were read once, and what is settled about each code among them.

    Many holders of one text mostly see the same judgings: what is settled is worked out once for all of these.
    """

    def __init__(self, evaluation: Evaluation, *others: Evaluation) -> None:
        super().__init__(*program_of(evaluation, *others))
        _read_gates(self.judgings)
        judged = (evaluation, *others, *self.judgings)
        names = set[Name]().union(*(names_of(item, tokens=True) for item in (*judged, *self.gone)))
        board = {name: getattr(evaluation, name) for name in ("task_version_id", "device_kind_id", "ruleset_id")}
        like = having(names, GONE)
        self._confirmations = list(Confirmation.objects.filter(like, **board))
        self._audits = list(DeletedScore.objects.filter(like, passed_audit=True, **board))
        self._taken_down, self._on_device = Judgings(()), list[Confirmation]()
        if decided_versions().filter(pk=evaluation.task_version_id).exists():
            boards = all_boards_of(evaluation.task_version_id)
            self.on_task = own_groups(judged, boards)
            names |= self.names_of_all(judged, on_task=True)
            self._taken_down = Judgings(taken_down_of(evaluation, names))
            confirmed = Confirmation.objects.filter(
                having(names, GONE), device_kind=evaluation.device_kind_id, **boards
            )
            self._on_device = list(confirmed)
        self._asked = dict[_Alike, SameCode]()
        self._codes = dict[tuple[int, ...], SameCode]()

    def same_code(self, evaluation: Evaluation) -> SameCode:
        asked = _alike(evaluation, self)
        if asked not in self._asked:
            judgings = self.of_same_code(evaluation)
            taken_down = self._taken_down.of_same_code(evaluation, self.names_on_task(evaluation))
            keys = tuple(item.pk for item in (*judgings, *taken_down))
            if keys not in self._codes:
                found = judgings, taken_down, self._confirmations, self._audits, self.gone
                self._codes[keys] = SameCode(*found, on_device=self._on_device, on_task=self.on_task)
            self._asked[asked] = self._codes[keys]
        return self._asked[asked]


class Programs:
    """What was read for judgings that are asked about one after the other.

    Those that were deleted are given at once: apart from each other, each would be read for itself.
    """

    def __init__(self, judgings: Iterable[Evaluation] = ()) -> None:
        self._known = dict[tuple[Any, ...], JudgedProgram]()
        self.of_all(judgings)

    def of(self, evaluation: Evaluation) -> JudgedProgram:
        if (place := self._place(evaluation)) not in self._known:
            self._keep(JudgedProgram(evaluation), [evaluation])
        return self._known[place]

    def of_all(self, evaluations: Iterable[Evaluation]) -> list[JudgedProgram]:
        """The programs of judgings. Those of a board that are not known yet are read together."""
        evaluations, unknown = list(evaluations), defaultdict[Any, list[Evaluation]](list)
        for item in evaluations:
            if self._place(item) not in self._known:
                unknown[item.task_version_id, item.device_kind_id, item.ruleset_id].append(item)
        for items in unknown.values():
            self._keep(JudgedProgram(*items), items)
        return list({id(known): known for known in map(self.of, evaluations)}.values())

    def same_code(self, evaluation: Evaluation) -> SameCode:
        return self.of(evaluation).same_code(evaluation)

    def _keep(self, program: JudgedProgram, items: list[Evaluation]) -> None:
        self._known |= {self._place(item): program for item in [*items, *program.judgings]}

    @staticmethod
    def _place(item: Evaluation) -> tuple[Any, ...]:
        """Whatever has the same names is of the same program."""
        return item.task_version_id, item.device_kind_id, item.ruleset_id, frozenset(names_of(item, tokens=True))


def once_for_all_alike(find: Callable[[Evaluation, SameCode], _Found]) -> Callable[[Evaluation, SameCode], _Found]:
    """Find it once for all judgings of one owner that have to do with each other: of a program there may be hundreds.

    For what depends on nothing else of the judging that it is asked about.
    """

    @wraps(find)
    def found(evaluation: Evaluation, same_code: SameCode) -> _Found:
        asked = find.__name__, _alike(evaluation, same_code)
        if asked not in same_code.found:
            same_code.found[asked] = find(evaluation, same_code)
        return cast(_Found, same_code.found[asked])

    return found


def _alike(evaluation: Evaluation, judgings: Judgings) -> _Alike:
    """What decides which judgings have to do with one."""
    names = judgings.own_names(evaluation, tokens=True)
    return owner_of(evaluation), names, read_alike(evaluation.submission.language)


def _newest(confirmations: Iterable[Confirmation]) -> dict[Name, datetime]:
    """When each text and each compiled code was last confirmed."""
    found = dict[Name, datetime]()
    for row in confirmations:
        for name in _seen(row):
            found[name] = max(found.get(name, row.confirmed), row.confirmed)
    return found


def _seen(row: Any) -> set[Name]:
    """What tells that two judgings are of what was seen. As another language a text may be another program."""
    language = row.submission.language if isinstance(row, Evaluation) else row.language
    read = min(read_alike(language)) if language else ""
    return {(f"{kind} as {read}", key) for kind, key in names_of(row)}


def gates_of(item: Evaluation) -> list[dict[str, str]]:
    """Reports are long, and are read of those alone that have gates."""
    known = vars(item)
    if item.gated and _GATES not in known:
        known[_GATES] = (item.report or {}).get("gates", [])
    gates: list[dict[str, str]] = known[_GATES] if item.gated else []
    return gates


def _read_gates(judgings: Iterable[Evaluation]) -> None:
    """Of all at once, and of their reports nothing else."""
    gated = {item.pk: item for item in judgings if item.gated}
    if gated:
        for pk, gates in Evaluation.objects.filter(pk__in=gated).values_list("pk", "report__gates"):
            vars(gated[pk])[_GATES] = gates or []


def ended(item: Evaluation) -> datetime:
    """When it ended; a constraint of the table says that whatever has a verdict has."""
    return cast(datetime, item.finished)


def most(row: Any) -> float:
    """The upper end of its score; what has none contradicts nothing."""
    return math.inf if row.score_hi is None else float(row.score_hi)


def surely(row: Any) -> float:
    """As far below its score as the upper end is above it: the lower end of a bound also holds its gap."""
    return 0.0 if row.score is None else float(row.score**2 / row.score_hi)


def was_public(submission: Submission, moment: datetime) -> bool:
    """Whether staff and everybody else could see it then. One that was hidden and shown again counts from then on."""
    shown = max(submission.created, submission.shown_at or submission.created)
    return submission.visibility == Visibility.PUBLIC and shown <= moment


def how_known(judging: Any) -> int:
    """Zero where times are known best; on a processor there is nothing to tell apart."""
    return TIMINGS.index(judging.timing_trust if judging.timing_trust in TIMINGS else BOUNDED)


def is_passed_audit(item: Evaluation) -> bool:
    """One that staff asked for; on a GPU only if it was really done."""
    return item.reason == EvaluationReason.AUDIT and item.verdict == Verdict.PASS and item.timing_trust != BOUNDED

"""Which judgings are of the same code: of one text, of one compiled code, and for one owner of the same tokens.

A text is not always compiled to the same: its author can make that depend on the day or on the machine. So what is
somebody else's counts if it has the text or the compiled code itself, and not because it has another one in common with
it. Does NOT decide what follows from that (`reviews.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value

from ..harness import Verdict, read_alike
from ..models import Confirmation, DeletedConnection, DeletedScore, Evaluation, Refusal, Submission, TaskVersion
from ..states import EvaluationReason, MethodKind

Name = tuple[str, str]  # what kind of key it is, and the key
Keys = tuple[str, str, str]  # values of the columns of `_COLUMNS`
Groups = dict[Name, frozenset[Name]]  # under each name all that it is connected with
Gone = Refusal | DeletedScore | DeletedConnection
_ANYBODY = ""  # in the place of an owner
_COLUMNS = {"text": "submission__blob", "object": "object_key", "tokens": "submission__source_key"}
_OWNERS = ("submission__owner", "submission__former_owner", "submission__language", "submission__method__slug")
_OURS = [verdict.value for verdict in Verdict if verdict.ours]
_ROUNDS_MAX = 4  # of looking for what has a name in common with what was found
GONE = {"text": "source_sha256", "object": "object_key"}  # of what is remembered of deleted judgings
GONE_OF_OWNER = GONE | {"tokens": "source_key"}
_OWNERS_OF_GONE: tuple[Any, ...] = ("owner", "former_owner", "language", Value("", CharField()))
_WHOSE, _WHOSE_GONE = (*_OWNERS, "submission__blob"), (*_OWNERS_OF_GONE, "source_sha256")


def holder_of(evaluation: Evaluation) -> str:
    """Who a row of the board belongs to; see Standing."""
    submission = evaluation.submission
    by_hand = submission.method.kind == MethodKind.HUMAN
    if is_of_nobody(submission):
        return f"text:{submission.blob_id}" if by_hand else f"method:{submission.method.slug}"
    return whose(submission) + ("" if by_hand else f"/{submission.method.slug}")


def owner_of(evaluation: Evaluation) -> str:
    return whose(evaluation.submission)


def whose(submission: Submission) -> str:
    """One person with several methods is one, also when the account is deleted.

    What never had one is whoever's has the same text with the same method, but not as a language in which that is
    another program.
    """
    text = (submission.blob_id, submission.language, submission.method.slug) if is_of_nobody(submission) else ("",) * 3
    return _person(submission.owner_id, submission.former_owner, *text)


def is_of_nobody(submission: Submission) -> bool:
    """Whether it never had an account."""
    return submission.owner_id is None and submission.former_owner is None


def _person(owner: int | None, former_owner: UUID | None, text: str = "", language: str = "", method: str = "") -> str:
    if owner is not None:
        return f"user:{owner}"
    return f"former:{former_owner}" if former_owner else f"text:{text} as {min(read_alike(language))} by {method}"


def program_of(evaluation: Evaluation, *others: Evaluation) -> tuple[list[Evaluation], list[Gone]]:
    """All judgings that may be of the same code, however many others they have to do with: also by tokens.

    Of several on one board, of the code of any of them. Of quick checks those that refused it: whether it is right they
    look at as closely as any other. And what is remembered of deleted ones, which connect those of their owner.
    """
    board = {name: getattr(evaluation, name) for name in ("task_version_id", "device_kind_id", "ruleset_id")}
    known, gone = _known_on(board), _of_people_on(board)
    its = set[Name]().union(*(names_of(item, tokens=True) for item in (evaluation, *others)))
    names = _connected(its, _groups(map(_named, _rows_about(its, known, gone))))
    rows = known.filter(having(names, _COLUMNS)).select_related("submission__method")
    deleted = [row for table in gone for row in table.filter(having(names, GONE_OF_OWNER))]
    return list(rows.defer("report", "error_internal").order_by("finished", "pk")), deleted


def _known_on(boards: dict[str, Any]) -> QuerySet[Evaluation]:
    """Judgings that say something of a program, and so connect its names."""
    rows = Evaluation.objects.filter(**boards).exclude(verdict="").exclude(verdict__in=_OURS)
    return rows.exclude(reason=EvaluationReason.QUICK, verdict=Verdict.PASS)


def _of_people_on(board: dict[str, Any]) -> list[QuerySet[Any]]:
    """What is remembered of deleted judgings on a board, but for what was nobody's."""
    tables: tuple[Any, ...] = (Refusal, DeletedScore, DeletedConnection)
    return [table.objects.filter(**board).exclude(owner=None, former_owner=None).order_by() for table in tables]


def decided_versions() -> QuerySet[TaskVersion]:
    """The versions of tasks about which staff have moderated something that is still there or was deleted since."""
    moderated = Submission.objects.moderated().filter(task_version__task=OuterRef("task"))
    refused = Refusal.objects.filter(verdict="", task_version__task=OuterRef("task"))
    return TaskVersion.objects.filter(Exists(moderated) | Exists(refused))


def all_boards_of(version: int) -> dict[str, Any]:
    """Of the task of a version: what staff decide counts on all of them, and so does what connects it with others."""
    return {"task_version__task__versions": version}


def taken_down_of(evaluation: Evaluation, names: set[Name]) -> list[Evaluation]:
    """Judgings of submissions that staff have moderated, with one of the names, on all boards of the task.

    With a verdict or without one: a decision is about the text, and its author may have cancelled the judging since.
    """
    rows = Evaluation.objects.filter(submission__in=Submission.objects.moderated().order_by().values("pk"))
    rows = rows.filter(having(names, _COLUMNS), **all_boards_of(evaluation.task_version_id))
    return list(rows.select_related("submission__method").defer("report", "error_internal"))


class Judgings:
    """Judgings that may be of one code, by owner and by name: each is looked at once, not once for each other one.

    `gone` is what is remembered of deleted ones. It connects the judgings of its owner as those did. `on_task` says
    which names of an owner are connected if all boards of the task are read (`names_on_task`).
    """

    def __init__(
        self, judgings: Iterable[Evaluation], gone: Iterable[Gone] = (), on_task: dict[str, Groups] | None = None
    ) -> None:
        self.judgings, self.gone, self.on_task = list(judgings), list(gone), on_task or {}
        self._groups = dict[tuple[str, bool, bool], Groups]()
        self._on_task = dict[tuple[str, frozenset[Name]], frozenset[Name]]()

    def own_names(self, evaluation: Evaluation, *, tokens: bool = False, gone: bool = True) -> frozenset[Name]:
        """Texts, compiled codes and tokens of its owner's judgings that have to do with it. By tokens only if asked."""
        groups = self._groups_of(owner_of(evaluation), tokens=tokens, gone=gone)
        return _connected(names_of(evaluation, tokens=tokens), groups)

    def _groups_of(self, owner: str, *, tokens: bool, gone: bool) -> Groups:
        if (owner, tokens, gone) not in self._groups:
            owned = chain(self._owned[owner], self._left[owner] if gone else ())
            self._groups[owner, tokens, gone] = _groups(names_of(item, tokens=tokens) for item in owned)
        return self._groups[owner, tokens, gone]

    def names_on_task(self, evaluation: Evaluation) -> frozenset[Name]:
        """With tokens, and with what its owner's judgings on other boards of the task connect with these.

        For decisions of staff, which count on all boards. Where there are none nothing else was read than this board.
        Found once for each program of an owner: it may have thousands of texts.
        """
        owner, own = owner_of(evaluation), self.own_names(evaluation, tokens=True)
        if (owner, own) not in self._on_task:
            self._on_task[owner, own] = _connected(own, self.on_task.get(owner, {}))
        return self._on_task[owner, own]

    def names_of_all(self, judged: Iterable[Evaluation], *, on_task: bool = False) -> frozenset[Name]:
        """What `own_names` says with tokens of any of these, or `names_on_task`: what they have in common is read once.

        An owner may have thousands of texts of one program, so to put together what is said of each is their square.
        """
        names, found = defaultdict[str, set[Name]](set), set[Name]()
        for item in judged:
            names[owner_of(item)] |= names_of(item, tokens=True)
        for owner, its in names.items():
            own = _connected(its, self._groups_of(owner, tokens=True, gone=True))
            found |= _connected(own, self.on_task.get(owner, {})) if on_task else own
        return frozenset(found)

    def of_same_code(self, evaluation: Evaluation, names: frozenset[Name] | None = None) -> list[Evaluation]:
        """Those of its owner that have to do with it, and those of others that have a text or a code of these.

        `names` are those that its owner's judgings have, if these are of others. Tokens are read from a text that its
        author chose: a stranger's must not touch an entry. Nor must what a stranger has submitted as
        another language, where the same text may be another program.
        """
        names = self.own_names(evaluation, tokens=True) if names is None else names
        owner, alike = owner_of(evaluation), read_alike(evaluation.submission.language)
        own = {place for name in names for place in self._places[owner, name]}
        others = {place for name in names for place in self._places[_ANYBODY, name]} - own
        alike_others = {place for place in others if self.judgings[place].submission.language in alike}
        return [self.judgings[place] for place in sorted(own | alike_others)]

    @cached_property
    def _owned(self) -> dict[str, list[Evaluation]]:
        found = defaultdict[str, list[Evaluation]](list)
        for item in self.judgings:
            found[owner_of(item)].append(item)
        return found

    @cached_property
    def _left(self) -> dict[str, list[Gone]]:
        found = defaultdict[str, list[Gone]](list)
        for row in self.gone:
            found[_person(row.owner_id, row.former_owner)].append(row)
        return found

    @cached_property
    def _places(self) -> dict[tuple[str, Name], list[int]]:
        """Where in the list those are that have a name: all of an owner, and anybody's by text and compiled code."""
        found = defaultdict[tuple[str, Name], list[int]](list)
        for place, item in enumerate(self.judgings):
            for name in names_of(item, tokens=True):
                found[owner_of(item), name].append(place)
            for name in names_of(item):
                found[_ANYBODY, name].append(place)
        return found


def of_one_person(submission: Submission) -> Q | None:
    """Its owner's submissions, or what is remembered of deleted ones, also if the account has gone; None: nobody's."""
    if submission.owner_id is not None:
        return Q(owner=submission.owner_id)
    return Q(former_owner=submission.former_owner) if submission.former_owner else None


def is_of_owner(row: Refusal | DeletedScore, submission: Submission) -> bool:
    """Whether what is remembered was the owner's of the submission. Two of nobody are not of one owner."""
    if submission.owner_id is not None:
        return row.owner_id == submission.owner_id
    return submission.former_owner is not None and row.former_owner == submission.former_owner


def judged_versions(evaluation: Evaluation) -> QuerySet[TaskVersion]:
    """Of its task: those on whose boards, as `evaluation` is judged, its owner has had this program judged.

    Also if that has been deleted since.
    """
    submission, names = evaluation.submission, names_of(evaluation, tokens=True)
    mine = of_one_person(submission)
    board = {"device_kind": evaluation.device_kind_id, "ruleset": evaluation.ruleset_id}
    submissions = Submission.objects.filter(Q(pk=submission.pk) if mine is None else mine)
    judged = Evaluation.objects.exclude(verdict="").filter(having(names, _COLUMNS), submission__in=submissions, **board)
    gone = Refusal.objects.filter(having(names, GONE_OF_OWNER), mine or Q(pk=None), **board)
    versions = TaskVersion.objects.filter(task=evaluation.task_version.task_id)
    return versions.filter(Q(pk__in=judged.values("task_version")) | Q(pk__in=gone.values("task_version")))


def names_of(row: Any, *, tokens: bool = False) -> set[Name]:
    """The keys of a judging, of a deleted one or of a confirmation. A key that is not known is nobody's."""
    if isinstance(row, Confirmation):
        keys = {"text": row.source_sha256, "object": row.object_key}
    elif isinstance(row, Gone):
        keys = {"text": row.source_sha256, "object": row.object_key, "tokens": row.source_key}
    else:
        submission = row.submission
        keys = {"text": submission.blob_id, "object": row.object_key, "tokens": submission.source_key}
    return {(kind, key) for kind, key in keys.items() if key and (tokens or kind != "tokens")}


def own_names_of_many(judgings: Iterable[Evaluation], boards: dict[str, Any]) -> dict[int, frozenset[Name]]:
    """The names of many judgings at once, with tokens, by their keys, as whatever is known on these boards connects."""
    judgings = list(judgings)
    groups = own_groups(judgings, boards)
    return {item.pk: _connected(names_of(item, tokens=True), groups.get(owner_of(item), {})) for item in judgings}


def own_groups(judgings: Iterable[Evaluation], boards: dict[str, Any]) -> dict[str, Groups]:
    """By the owners of judgings: which names all that they have on these boards connects with those of the judgings."""
    judgings = list(judgings)
    names = set[Name]().union(*(names_of(item, tokens=True) for item in judgings))
    own = _rows_of({_whose_columns(item.submission) for item in judgings}, names, boards)
    return {owner: _groups(map(_named, its)) for owner, its in own.items()}


def connected_on_task(judgings: Sequence[Evaluation]) -> list[Evaluation]:
    """Judgings of one submission, and some more, not saved, for names that a decision about it reaches as well.

    These are names that judgings on any board of the task, of its owner or of whoever has its text or compiled code,
    connect with those of the submission. There may be more than it reaches.
    """
    boards, submission = all_boards_of(judgings[0].task_version_id), judgings[0].submission
    names = set[Name]().union(*(names_of(item, tokens=True) for item in judgings))
    known = _known_on(boards).filter(having(names, _COLUMNS)).order_by().values_list(*_WHOSE)
    left = (table.filter(having(names, GONE_OF_OWNER)).values_list(*_WHOSE_GONE) for table in _of_people_on(boards))
    own = _rows_of({_whose_columns(submission), *known.union(*left)}, names, boards)
    connected = frozenset[Name]().union(*(_connected(names, _groups(map(_named, its))) for its in own.values()))
    return [*judgings, *_named_by(connected - names, own, submission)]


def newly_connected(evaluation: Evaluation) -> list[Evaluation]:
    """Judgings, not saved, with the names of what its owner had of its program on the task before it.

    Empty if decisions of staff reach no more of that than before: it was one program, and of no name that this judging
    adds have they decided anything, whoever it was about.
    """
    is_known = evaluation.verdict not in ("", *_OURS) and not (
        evaluation.is_quick and evaluation.verdict == Verdict.PASS
    )
    if not is_known:
        return []
    boards, names = all_boards_of(evaluation.task_version_id), names_of(evaluation, tokens=True)
    own = _rows_of({_whose_columns(evaluation.submission)}, names, boards, ~Q(pk=evaluation.pk))
    groups = _groups(map(_named, own.get(owner_of(evaluation), ())))
    before = {groups[name] for name in names if name in groups}
    if not before or (len(before) == 1 and not _is_decided(names.difference(*before), boards)):
        return []
    return _named_by(names.union(*before), own, evaluation.submission)


def _is_decided(names: set[Name], boards: dict[str, Any]) -> bool:
    """Whether staff have moderated something with one of these names that is still there or was deleted since."""
    moderated = Submission.objects.moderated().order_by().values("pk")
    judged = Evaluation.objects.filter(having(names, _COLUMNS), submission__in=moderated, **boards)
    return judged.exists() or Refusal.objects.filter(having(names, GONE_OF_OWNER), verdict="", **boards).exists()


def _named_by(names: frozenset[Name] | set[Name], own: dict[str, list[Keys]], like: Submission) -> list[Evaluation]:
    """Of rows of somebody as few as have all of these names, as judgings of a submission that is not saved."""
    found, left = list[Evaluation](), set(names)
    for keys in sorted({keys for its in own.values() for keys in its}):
        if not left.isdisjoint(_named(keys)):
            left -= _named(keys)
            text, key, tokens = keys
            columns = {name: getattr(like, name) for name in ("owner_id", "former_owner", "language", "method")}
            found.append(Evaluation(submission=Submission(**columns, blob_id=text, source_key=tokens), object_key=key))
    return found


def _whose_columns(submission: Submission) -> tuple[Any, ...]:
    """Values of the columns of `_WHOSE`."""
    slug = submission.method.slug if is_of_nobody(submission) else ""
    return submission.owner_id, submission.former_owner, submission.language, slug, submission.blob_id


def _rows_of(
    people: Iterable[tuple[Any, ...]], names: set[Name], boards: dict[str, Any], which: Q | None = None
) -> dict[str, list[Keys]]:
    """Of each of these people the rows on these boards that have to do with the names, and maybe more."""
    people = list(people)
    owners, formers = ({person[place] for person in people} - {None} for place in (0, 1))
    texts = {text for owner, former, _, _, text in people if owner is None and former is None}
    mine = Q(submission__owner__in=owners) | Q(submission__former_owner__in=formers)
    mine |= Q(submission__owner=None, submission__former_owner=None, submission__blob__in=texts)
    gone = [table.filter(Q(owner__in=owners) | Q(former_owner__in=formers)) for table in _of_people_on(boards)]
    known = _known_on(boards).filter(mine & (which or Q()))
    own = defaultdict[str, list[Keys]](list)
    for owner, former, language, method, *keys in _rows_about(names, known, gone, _OWNERS, _OWNERS_OF_GONE):
        own[_person(owner, former, keys[0], language, method)].append((keys[0], keys[1], keys[2]))
    return own


def _rows_about(
    names: set[Name],
    known: QuerySet[Evaluation],
    gone: list[QuerySet[Any]],
    owners: Iterable[Any] = (),
    owners_of_gone: Iterable[Any] = (),
) -> set[Any]:
    """Values of columns about owners, then of names, of all that have to do with these names, deleted judgings too.

    Texts of which each has a compiled code in common with the next one are not followed one by one: after a few rounds
    whatever is known is read at once, and there may be more among the rows than have to do with these names.
    """
    columns, columns_of_gone = (*owners, *_COLUMNS.values()), (*owners_of_gone, *GONE_OF_OWNER.values())

    def read(which: Q, which_gone: Q) -> set[Any]:
        left = (table.filter(which_gone).values_list(*columns_of_gone) for table in gone)
        return set(known.filter(which).order_by().values_list(*columns).union(*left))

    rows, asked, new = set[Any](), set[Name](), set(names)
    for _ in range(_ROUNDS_MAX):
        rows |= (found := read(having(new, _COLUMNS), having(new, GONE_OF_OWNER)))
        asked |= new
        new = set[Name]().union(*(_named(keys[-len(_COLUMNS) :]) for keys in found)) - asked
        if not new:
            return rows
    return read(Q(), Q())


def _named(keys: Iterable[str]) -> set[Name]:
    """Values of the columns of `_COLUMNS`."""
    return {(kind, key) for kind, key in zip(_COLUMNS, keys, strict=True) if key}


def _groups(own: Iterable[set[Name]]) -> Groups:
    """Under each name it and all names that some of these have together with it, or with another such name."""
    having_it, groups = defaultdict[Name, list[set[Name]]](list), Groups()
    for its in own:
        for name in its:
            having_it[name].append(its)
    for name in list(having_it):
        if name in groups:
            continue
        found, waiting = {name}, [name]
        while waiting:
            for its in having_it.pop(waiting.pop(), ()):
                waiting += its - found
                found |= its
        groups |= dict.fromkeys(found, frozenset(found))
    return groups


def _connected(names: Set[Name], groups: Groups) -> frozenset[Name]:
    """With all that are in a group with one of them; mostly this is one group, which is not made anew."""
    its = {groups[name] for name in names if name in groups}
    whole = next((group for group in its if names <= group), None)
    return frozenset(names).union(*its) if whole is None else whole


def having(names: Iterable[Name], columns: dict[str, str]) -> Q:
    """Of rows that have one of these keys, each in its column."""
    names, found = list(names), Q()
    for kind, column in columns.items():
        found |= Q(**{f"{column}__in": {key for its_kind, key in names if its_kind == kind}})
    return found

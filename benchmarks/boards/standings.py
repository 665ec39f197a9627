"""The only writer of leaderboards.

`judgings/moves.py` calls it for a report; whoever changes what may stand (its owner by visibility or deletion, staff
by a decision) calls `standings_renew`. Always inside the transaction of the caller, one at a time per task version.
Does NOT decide which judgings are pooled or reviewed (`reviews.py`).
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from ..harness import Report, Verdict, is_python, read_alike
from ..models import (
    DeviceKind,
    Evaluation,
    Standing,
    Submission,
    TaskVersion,
)
from ..notifications import telling
from ..querysets import counted
from ..states import BOUNDED, MethodKind, Moderation, TaskVersionStatus, Visibility
from . import confirmations
from .contradictions import is_for_site
from .entries import entries_follow
from .labels import is_ranked
from .ranking import Entry, rank
from .reviews import AUDITS
from .rows import READ_TOGETHER, best_row, place_of
from .same_code import connected_on_task, decided_versions, holder_of, is_of_nobody, newly_connected
from .settled import JudgedProgram, Programs

AUDITED_PLACES = 3  # of a board, whose entries must not rest on a bound alone


def wants_audit(evaluation: Evaluation, report: Report) -> bool:
    """What is asked for, what the site judges itself, and whatever might enter the first places of a board."""
    if evaluation.is_quick or report.score is None or report.score.timing_trust != BOUNDED:
        return False
    if evaluation.reason in AUDITS or is_for_site(evaluation):
        return True
    board = Standing.objects.board(
        evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id
    ).ranked()
    clearly_better = board.exclude(holder=holder_of(evaluation)).filter(score_lo__gt=report.score.ci95[1])
    return may_stand(evaluation) and clearly_better.count() < AUDITED_PLACES


def standings_update(evaluation: Evaluation) -> set[str]:
    """Write the standing of this evaluation and rank its board again. The device kinds whose boards may have changed.

    The only writer of Standing. The judgings of one code are pooled. A code that was accepted and is refused when
    judged again goes under review, so that trying until it passes gains nothing.
    """
    if Verdict(evaluation.verdict).ours:
        return set()
    hold_boards(evaluation)
    touched = _renew_programs([evaluation], Programs())
    if touched:
        _rank_board(evaluation)
    return decision_follows(evaluation) | ({evaluation.device_kind.slug} if touched else set())


def decision_follows(evaluation: Evaluation) -> set[str]:
    """Renew on all boards of the task what decisions of staff reach only now. The device kinds of these boards.

    Frozen results of contests follow as well. What a moderated submission was compiled to may be known only now, or
    that somebody's program has its code, or that two programs of an owner are one.
    """
    if not decided_versions().filter(pk=evaluation.task_version_id).exists():
        return set()
    is_moderated = Submission.objects.moderated().filter(pk=evaluation.submission_id).exists()
    connected = [] if is_moderated else newly_connected(evaluation)
    if not (is_moderated or connected):
        return set()
    task = evaluation.task_version.task_id
    about = on_each_board(evaluation.submission) if is_moderated else _on_boards_of(task, connected)
    review_renew(about)
    entries_follow(evaluation.submission)
    return {item.device_kind.slug for item in about}


def on_each_board(submission: Submission) -> list[Evaluation]:
    """What stands for a submission on each board of its task, judged there or not: a decision counts on all of them.

    They are not saved. One for each code that it was compiled to, or that staff have confirmed of its text, and more
    for what these are connected with on some board.
    """
    known = {*submission.evaluations.order_by().values_list("object_key", flat=True)}
    known |= {*confirmations.of(submission).order_by().values_list("object_key", flat=True)}
    version = submission.task_version
    its = [Evaluation(submission=submission, task_version=version, object_key=key) for key in sorted(known or {""})]
    return _on_boards_of(version.task_id, connected_on_task(its))


def _on_boards_of(task: int, judgings: list[Evaluation]) -> list[Evaluation]:
    """Each of them on each board of the task that has rows. They are not saved."""
    if not judgings:
        return []
    rows = Standing.objects.filter(task_version__task=task).order_by()
    boards = set(rows.values_list("task_version", "ruleset", "device_kind").distinct())
    versions = TaskVersion.objects.select_related("task").in_bulk({board[0] for board in boards})
    kinds = DeviceKind.objects.in_bulk({board[2] for board in boards})
    return [
        Evaluation(
            submission=item.submission,
            task_version=versions[version],
            ruleset_id=ruleset,
            device_kind=kinds[kind],
            object_key=item.object_key,
        )
        for version, ruleset, kind in sorted(boards)
        for item in judgings
    ]


def standings_renew(evaluation: Evaluation, programs: Programs | None = None) -> None:
    """Write the row of the evaluation's holder on its board again, because its best entry may have changed.

    The evaluation itself may be deleted by now; it names board and holder.
    """
    hold_boards(evaluation)
    _write_holder(evaluation, programs or Programs())
    _rank_board(evaluation)


def board_renew(accepted: Sequence[Evaluation]) -> None:
    """Write a whole board again, whatever stood there. `accepted` are all its accepted evaluations.

    Nobody is told who lost a place.
    """
    hold_boards(accepted[0])
    _board_of(accepted[0]).delete()
    programs = Programs()
    for evaluation in {holder_of(item): item for item in accepted}.values():
        _write_holder(evaluation, programs)
    _rank_board(accepted[0], tells=False)


def _write_holder(evaluation: Evaluation, programs: Programs) -> None:
    """The best row that any of its programs gives its holder, whatever stood there before."""
    holder = holder_of(evaluation)
    _board_of(evaluation).filter(holder=holder).delete()
    if not _has_board(evaluation):
        return
    found = (program for some in _one_of_each_program(evaluation) for program in programs.of_all(some))
    known = {id(program): program for program in found}
    shown = [item for program in known.values() for item in _shown(program).get(holder, [])]
    if (row := best_row(shown, programs)) is not None:
        row.save()


def review_renew(judged: Iterable[Evaluation], programs: Programs | None = None) -> None:
    """Renew all rows with the code of one of these on its board: a review was closed or reopened, or they have gone."""
    boards = defaultdict[Any, list[Evaluation]](list)
    for item in judged:
        boards[item.ruleset_id, item.task_version_id, item.device_kind_id].append(item)
    for items in boards.values():
        hold_boards(items[0])
        _renew_programs(items, programs or Programs())
        _rank_board(items[0])


def _renew_programs(judged: list[Evaluation], programs: Programs) -> bool:
    """Write anew the rows on a board of everybody who has code of these, if they are other ones. Whether there are any.

    A holder has the best row that any of its programs gives it, so rows do not depend on what was judged or decided
    first. Whose judgings share no name with these or with their owners' has rows that cannot have changed.
    """
    found = [_renew_program(judged, program, programs) for program in programs.of_all(judged)]
    return any(found)


def _renew_program(judged: list[Evaluation], program: JudgedProgram, programs: Programs) -> bool:
    about = program.names_of_all(judged)

    def is_about(item: Evaluation) -> bool:
        return not about.isdisjoint(program.own_names(item, tokens=True))

    keys, shown = {item.pk for item in program.judgings}, dict[str, list[Evaluation]]()
    if _has_board(judged[0]):
        shown = {holder: items for holder, items in _shown(program).items() if any(map(is_about, items))}
    stands = _rows_of(judged[0], Q(evaluation__in=keys) | Q(holder__in=shown))
    concerned = {holder for holder, row in stands.items() if holder in shown or is_about(row.evaluation)}
    is_touched = False
    for holder in {*concerned, *shown}:
        before, row = stands.get(holder), best_row(shown.get(holder, []), programs)
        if before and holder != holder_of(before.evaluation):  # a process of before an upgrade has written it
            before.delete()
            continue
        is_of_it = before is not None and before.evaluation_id in keys
        if before and is_of_it and (row is None or (place_of(row) > place_of(before) and _has_another(row))):
            _write_holder(before.evaluation, programs)
        elif row and (before is None or is_of_it or place_of(row) < place_of(before)):
            _replace(before, row)
        else:
            continue
        is_touched = True
    return is_touched


def _shown(program: JudgedProgram) -> dict[str, list[Evaluation]]:
    """The judgings of a program that may stand, by their holders, and those that ended first come first.

    Without an account nothing stands that has the code of an earlier submission of another text: copies with other
    comments cost nothing, and each would take a place.
    """
    may = [item for item in program.judgings if item.verdict == Verdict.PASS and not item.is_quick]
    shown = [item for item in may if _is_shown(item.submission)]
    found, first = defaultdict[str, list[Evaluation]](list), dict[tuple[str, str], str]()
    for item in sorted(shown, key=lambda item: item.submission_id):
        first.setdefault(_code_of(item), holder_of(item))
    for item in shown:
        code, holder = _code_of(item), holder_of(item)
        is_copy = holder.startswith("text:") and all(code) and first[code] != holder
        if not is_copy:
            found[holder].append(item)
    return found


def _code_of(item: Evaluation) -> tuple[str, str]:
    """What it was compiled to; of Python, where that is the text, its tokens. Empty if that is not known."""
    language = item.submission.language
    return min(read_alike(language)), item.submission.source_key if is_python(language) else item.object_key


def _replace(before: Standing | None, row: Standing) -> None:
    """Save the row in place of what its holder had, if it is another one."""
    if before is not None:
        row.pk = before.pk
    if before is None or _figures(row) != _figures(before):
        row.save()


def _has_another(row: Standing) -> bool:
    """Whether its holder has shown another text on the board, of which more may count by now."""
    others = _accepted_of_holder(row.evaluation).exclude(submission__blob=row.evaluation.submission.blob_id)
    return others.exists()


def hold_boards(evaluation: Evaluation) -> None:
    """Lock all boards of its task until the transaction ends, and read again what decides whether it may stand.

    Nothing that was kept of the boards of this task version is used once the transaction is committed. If staff have
    decided something about the task, neither is what was kept of its other versions, on which that counts.
    """
    _hold({evaluation.task_version_id})
    about = Submission.objects.filter(pk=evaluation.submission_id)
    now = about.values("visibility", "moderation", "shown_at")
    for name, value in (now.first() or {}).items():  # none: it has just been deleted
        setattr(evaluation.submission, name, value)
    version = evaluation.task_version
    version.status, version.task.labels = TaskVersion.objects.values_list("status", "task__labels").get(pk=version.pk)


def boards_marked(versions: Iterable[int]) -> None:
    """What the boards of task versions show is about to change; their rows are locked by that, in the order of keys.

    `versions` are all of their tasks, or all of these are locked already: who has one and then asks for another one
    would wait for whoever has that.
    """
    keys = set(versions)
    if len(keys) > 1:  # an update alone locks them in whatever order it comes upon them
        versions_held(TaskVersion.objects.filter(pk__in=keys))
    TaskVersion.objects.filter(pk__in=keys).update(boards_mark=uuid.uuid4())


def task_held(evaluation: Evaluation) -> None:
    """Lock all boards of its task as `boards_marked` does, so that staff decide nothing meanwhile."""
    versions_held(TaskVersion.objects.filter(task=evaluation.task_version.task_id))


def versions_held(versions: QuerySet[TaskVersion]) -> None:
    """Lock the boards of these, which are all of their tasks, in the order of keys, as whoever writes a report does.

    As an update does, so that something can be submitted for them meanwhile. What they show has not changed, and what
    was kept of them is used on.
    """
    list(versions.select_for_update(no_key=True).order_by("pk").values_list("pk"))


def boards_held(submissions: QuerySet[Submission]) -> None:
    """Lock the boards of whatever submissions are judged for, before it is asked how that ended.

    Who writes a report holds them until it is committed. Before that nobody else sees a verdict, and would leave alone
    what the report is about to put on a board. Whoever changes a submission holds them first, in the same order as
    everybody else, so that no two wait for each other.
    """
    judged = Evaluation.objects.filter(submission__in=submissions).order_by().values_list("task_version", flat=True)
    _hold({*judged})


def _hold(versions: set[int]) -> None:
    """Lock all versions of their tasks, and mark these, and all where what staff have decided counts on all of them.

    What has been decided is asked once they are locked: until then somebody else may have decided for the first time.
    """
    tasks = TaskVersion.objects.filter(pk__in=versions).order_by().values("task")
    versions_held(TaskVersion.objects.filter(task__in=tasks))
    decided = decided_versions().filter(task__in=tasks).values_list("pk", flat=True)
    boards_marked(versions.union(decided))


def standings_release(owner: Any) -> list[Evaluation]:
    """Take the rows of an account off all boards; what stood there, for `standings_restore`."""
    rows = Standing.objects.filter(evaluation__submission__owner=owner)
    released = [row.evaluation_id for row in rows]
    rows.delete()
    return list(Evaluation.objects.filter(pk__in=released).select_related("submission"))


def standings_restore(evaluations: Iterable[Evaluation]) -> None:
    """Write the rows of their codes again, each under the holder that its submission has now."""
    rows = Evaluation.objects.filter(pk__in=[item.pk for item in evaluations]).select_related("submission__method")
    review_renew(rows)


def _one_of_each_program(evaluation: Evaluation) -> Iterator[list[Evaluation]]:
    """A judging of each program that its holder may show, READ_TOGETHER at a time."""
    accepted, found = _accepted_of_holder(evaluation), dict[str, int]()
    for pk, text, tokens in accepted.values_list("pk", "submission__blob", "submission__source_key").iterator():
        found.setdefault(tokens or text, pk)
    rows = accepted.select_related("submission__method").defer("report", "error_internal")
    keys = list(found.values())
    for start in range(0, len(keys), READ_TOGETHER):
        yield list(rows.in_bulk(keys[start : start + READ_TOGETHER]).values())


def _accepted_of_holder(evaluation: Evaluation) -> QuerySet[Evaluation]:
    """What its holder may show, best first."""
    submission = evaluation.submission
    same: dict[str, Any] = {name: getattr(submission, name) for name in ("owner_id", "former_owner", "method_id")}
    if is_of_nobody(submission) and submission.method.kind == MethodKind.HUMAN:
        same["blob_id"] = submission.blob_id
    return (
        Evaluation.objects.full()
        .filter(
            ruleset=evaluation.ruleset_id,
            task_version=evaluation.task_version_id,
            device_kind=evaluation.device_kind_id,
            verdict=Verdict.PASS,
            submission__visibility=Visibility.PUBLIC,
            submission__moderation=Moderation.OK,
            **{f"submission__{name}": value for name, value in same.items()},
        )
        .order_by(counted().desc(), "finished", "pk")
    )


def may_stand(evaluation: Evaluation) -> bool:
    return _has_board(evaluation) and _is_shown(evaluation.submission)


def _has_board(evaluation: Evaluation) -> bool:
    version = evaluation.task_version
    if version.status == TaskVersionStatus.CONTEST:
        return False  # its results stand on the page of the contest
    return is_ranked(version.task.labels)


def _is_shown(submission: Submission) -> bool:
    return submission.visibility == Visibility.PUBLIC and submission.moderation == Moderation.OK


def _board_of(evaluation: Evaluation) -> Any:
    return Standing.objects.board(evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id)


def _rows_of(evaluation: Evaluation, which: Q) -> dict[str, Standing]:
    """Rows of its board by their holders, with what is asked of the judgings in them."""
    rows = _board_of(evaluation).filter(which).select_related("evaluation__submission__method")
    return {row.holder: row for row in rows.defer("evaluation__report", "evaluation__error_internal")}


def _figures(row: Standing) -> tuple[Any, ...]:
    """All that is written of a row, but for its rank."""
    return tuple(getattr(row, field.attname) for field in row._meta.concrete_fields if field.name != "rank")


def _tell_who_lost(before: list[int], leaders: list[int]) -> None:
    """Those that had the first place of a board and have it no more, on boards that are judged now."""
    if not before:
        return
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind", "ruleset")
    leader = rows.get(pk=leaders[0])
    if leader.ruleset.name == settings.KBENCH_RULESET and leader.task_version.status == TaskVersionStatus.ACTIVE:
        telling.record_lost(rows.filter(pk__in=before), leader)


def _tell_who_asked(leaders: list[int]) -> None:
    """The owner of the request that the task was made of, where it was made of one."""
    asked = Standing.objects.filter(pk__in=leaders[:1], task_version__task__request__isnull=False)
    if not asked.filter(ruleset__name=settings.KBENCH_RULESET).exists():
        return
    rows = Standing.objects.with_context().select_related("task_version__task__suite", "device_kind", "ruleset")
    telling.answered(rows.get(pk=leaders[0]))


def _rank_board(evaluation: Evaluation, *, tells: bool = True) -> None:
    board = Standing.objects.board(
        evaluation.ruleset_id, evaluation.task_version_id, evaluation.device_kind_id
    ).ranked()
    columns = ("pk", "score", "score_lo", "score_hi", "verified_at", "rank", "is_contested", "evaluation__timing_trust")
    rows = list(board.select_related("evaluation").only(*columns))
    ranks = rank(
        Entry(
            *(row.pk, row.score, row.score_lo, row.score_hi, row.verified_at),
            *(row.evaluation.timing_trust, row.is_contested),
        )
        for row in rows
    )
    moved = [row for row in rows if row.rank != ranks[row.pk]]
    leaders = [pk for pk, place in ranks.items() if place == 1]
    if tells:
        _tell_who_lost([row.pk for row in moved if row.rank == 1], leaders)
        _tell_who_asked(leaders)
    for row in moved:
        row.rank = ranks[row.pk]
    Standing.objects.bulk_update(moved, ["rank"], batch_size=500)

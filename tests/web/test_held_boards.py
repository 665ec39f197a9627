"""What it costs while the boards of a task are held: every judging of it waits, and its pages are read anew.

Each was a finding of an attack once. Not covered: what rows and ranks are then (`test_boards.py` and others).
"""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts import ownership
from benchmarks.boards import same_code, standings
from benchmarks.harness import Flag
from benchmarks.models import Evaluation, Submission, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, replayed
from .test_connected import private, wrong
from .test_crowded_boards import many
from .test_decided import on_h100
from .test_timing_revisions import SAME

GATED = (Flag("gate-speedup", "faster than usual"),)


def test_what_changes_no_board_forgets_no_board(owner: Any) -> None:
    """Private and unlisted by turns, without end: each time all pages of the task are read anew and its boards held."""
    many = factories.judged(owner=owner, visibility=Visibility.PRIVATE)
    before = TaskVersion.objects.get(pk=many.task_version_id).boards_mark
    ownership.visibility_change(many.submission, Visibility.UNLISTED)
    ownership.visibility_change(many.submission, Visibility.PRIVATE)
    assert TaskVersion.objects.get(pk=many.task_version_id).boards_mark == before


@pytest.mark.parametrize("wanted", [Visibility.UNLISTED, Visibility.PUBLIC])
def test_hiding_reads_a_program_in_question_a_few_times(wanted: str) -> None:
    """Up to 150 texts of one program in question, each with the whole program; by turns private and unlisted."""
    for number in range(15):
        enter("many", replayed(2.0), f"// {number}\nint x;")
    other = private("many", wrong(), "// refused\nint x;")
    with CaptureQueriesContext(connection) as queries:
        ownership.visibility_change(other.submission, wanted)
    assert _program_reads(queries) < 12, _program_reads(queries)


def test_the_end_of_a_judging_reads_a_program_as_often_as_it_has_judgings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many public texts of the same tokens: four times the work, while the boards of the task are held."""
    calls, read = [0], same_code.names_of

    def counted(row: Any, *, tokens: bool = False) -> Any:
        calls[0] += 1
        return read(row, tokens=tokens)

    def cost_of_next(name: str, count: int) -> int:
        for number in range(count):
            enter(name, replayed(2.0), f"// {number}\nint {name};")
        calls[0] = 0
        enter(name, replayed(2.0), f"// last\nint {name};")
        return calls[0]

    monkeypatch.setattr(same_code, "names_of", counted)
    few, many = cost_of_next("few", 12), cost_of_next("many", 24)
    assert many < 3 * few, (few, many)


def test_a_row_that_stays_as_it_is_is_not_written() -> None:
    """Nor is its rank, which each row of the program lost and got again."""
    for name in range(8):
        last = enter(f"holder{name}", replayed(2.0), SAME)
    with CaptureQueriesContext(connection) as queries:
        standings.review_renew([last])
    assert not [query["sql"] for query in queries if query["sql"].startswith('UPDATE "benchmarks_standing"')]


def test_deleting_an_account_reads_a_program_of_gated_judgings_a_few_times() -> None:
    """Whether each is doubtful is asked with the whole program read anew, while all its boards are held."""
    for _ in range(20):
        enter("many", replace(replayed(12.0), gates=GATED), SAME)
    with CaptureQueriesContext(connection) as queries:
        ownership.account_delete(User.objects.get(username="many"), keep_submissions=False)
    assert _program_reads(queries) < 20, _program_reads(queries)


def _program_reads(queries: Any) -> int:
    with_method = [query["sql"] for query in queries if 'INNER JOIN "benchmarks_method"' in query["sql"]]
    return len([sql for sql in with_method if '"benchmarks_evaluation"."report"' not in sql])


def test_one_judging_of_a_program_does_not_ask_for_each_text_of_another_holder() -> None:
    """The holder has many public texts of the program, and a better entry of another one."""
    enter("eve", replayed(9.0), "// best\n")
    costs = []
    for count in (5, 25):
        while Submission.objects.filter(owner__username="eve").count() < count:
            enter("eve", replayed(1.5), f"// {Submission.objects.count()}\nint x;")
        probe = private("other", replayed(1.5), "// 1\nint x;")
        with CaptureQueriesContext(connection) as asked:
            standings.standings_update(probe)
        costs.append(len(asked))
    assert costs[1] <= costs[0] + 2, costs


@pytest.fixture
def names_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names were looked up among those that their owner's judgings connect, or put together from these."""
    read, connected = [0], same_code._connected

    def counted(names: Any, groups: Any) -> Any:
        found = connected(names, groups)
        is_new = all(found is not group for group in groups.values())
        read[0] += len(names) + (len(found) if is_new else 0)
        return found

    monkeypatch.setattr(same_code, "_connected", counted)
    return read


def test_after_a_decision_a_report_reads_a_program_of_many_texts_once(names_read: list[int], staff: User) -> None:
    """Texts with the same tokens need no verdict to be one program, and anybody can bring a decision about."""
    [bad] = many(1, "int bad{};", owner=factories.user("bad"))
    decisions.decide(bad.submission, ActionKind.HIDE, by=staff, reason="advertising")
    costs = []
    for count in (50, 100):
        eve = factories.user(f"eve{count}")
        *_, last = many(count, f"// {{}}\nint x{count};", owner=eve, score=None, verdict="REJECTED")
        names_read[0] = 0
        standings.standings_update(Evaluation.objects.get(pk=last.pk))
        costs.append(names_read[0])
    assert costs[1] < 3 * costs[0], costs


def test_a_decision_reads_a_program_of_many_texts_on_several_boards_once(names_read: list[int], staff: User) -> None:
    """Each board is asked for the texts of the other one, of which it knows the tokens alone."""
    costs = []
    for count in (1, 50, 100):  # the first one gives both boards rows
        eve = factories.user(f"eve{count}")
        entry = on_h100(eve.username, replayed(2.0), f"int y{count};")
        bad, *_ = many(count, f"// {{}}\nint x{count};", owner=eve, score=None, verdict="REJECTED")
        other = many(count, f"// other {{}}\nint x{count};", owner=eve, score=None, verdict="REJECTED")
        Evaluation.objects.filter(pk__in=[item.pk for item in other]).update(device_kind=entry.device_kind)
        many(1, f"int y{count};{{}}", owner=eve)
        names_read[0] = 0
        decisions.decide(bad.submission, ActionKind.INVALIDATE, by=staff, reason="It reads the answer.")
        costs.append(names_read[0])
    assert costs[2] < 3 * costs[1], costs

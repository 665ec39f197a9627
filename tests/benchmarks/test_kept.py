"""What is kept of a board between two requests: used while nothing changes there, and never after a change.

Each test looks at a board, lets something happen, and looks again, as two requests of one process do.
"""

import pytest
from django.core.cache import caches
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts import ownership
from benchmarks.boards import selectors
from benchmarks.boards.selectors import EVERYTHING, BoardKey, EntryFilter
from benchmarks.models import RuleSet, Submission, Task, TaskVersion
from benchmarks.moderation import decisions, review
from benchmarks.states import ActionKind

BY_HAND = EntryFilter(kind="human")


@pytest.fixture
def key(version, cpu):
    """The board as a new request finds it."""
    return lambda: BoardKey(TaskVersion.objects.get(pk=version.pk), cpu, RuleSet.objects.get())


@pytest.fixture
def look(key):
    """The scores of a board: its records, its entries in three lists that must agree, what was taken off it."""

    def seen():
        board = key()
        ranked, by_hand, sorted_ = (
            [round(row.score, 3) for row in selectors.board_rows(board, 1, chosen, sort=sort)]
            for chosen, sort in ((EVERYTHING, "rank"), (BY_HAND, "rank"), (EVERYTHING, "-score"))
        )
        assert ranked == by_hand == sorted_
        records = [round(row.score, 3) for row in selectors.board_records(board)]
        return records, ranked, [round(row.score, 3) for row in review.invalidated_on(board)]

    return seen


@pytest.fixture
def decide(person):
    staff = person("sam", is_staff=True)

    def run(evaluation, kind):
        submission = Submission.objects.get(pk=evaluation.submission_id)
        decisions.decide(submission, kind, by=staff, reason="Because of what it does.")

    return run


@pytest.fixture
def refuse(judged):
    """Judges an entry of bob again, and finds it wrong: it is under review and has no rank any more."""
    return lambda entry: judged(submission=entry.submission, text="// bob", verdict="INCORRECT_VALUE", reason="rejudge")


@pytest.fixture
def two(judged, person, look):
    """The second has broken the record of the first; somebody has looked at the board since."""
    entries = [judged(text=f"// {name}", owner=person(name), speedup=speedup) for name, speedup in PEOPLE]
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])
    return entries


PEOPLE = (("ann", 1.5), ("bob", 3.0))


def test_a_new_entry_is_there_at_once(two, judged, person, look):
    judged(text="// carl", owner=person("carl"), speedup=4.0)
    assert look() == ([1.5, 3.0, 4.0], [4.0, 3.0, 1.5], [])


@pytest.mark.parametrize(("kind", "taken_off"), [(ActionKind.INVALIDATE, [3.0]), (ActionKind.HIDE, [])])
def test_a_decision_of_staff_is_there_at_once_and_so_is_its_end(two, decide, look, kind, taken_off):
    decide(two[1], kind)
    assert look() == ([1.5], [1.5], taken_off)
    decide(two[1], ActionKind.RESTORE)
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])


def test_what_becomes_private_is_gone_at_once(two, look):
    ownership.visibility_change(two[1].submission, "private")
    assert look() == ([1.5], [1.5], [])
    ownership.visibility_change(two[1].submission, "public")
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])


def test_what_is_deleted_is_gone_at_once(two, look):
    ownership.submission_delete(two[0].submission)
    assert look() == ([3.0], [3.0], [])


def test_a_refusal_when_it_is_judged_again_is_there_at_once_and_so_is_an_audit(two, judged, look):
    judged(submission=two[1].submission, text="// bob", verdict="INCORRECT_VALUE", reason="rejudge")
    assert look() == ([1.5], [1.5], [])
    judged(submission=two[1].submission, text="// bob", speedup=3.0, reason="audit")
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])


def test_a_confirmation_of_staff_is_there_at_once(two, judged, decide, look):
    judged(submission=two[1].submission, text="// bob", verdict="INCORRECT_VALUE", reason="rejudge")
    assert look() == ([1.5], [1.5], [])
    decide(two[1], ActionKind.CONFIRM)
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])


def test_who_leaves_the_site_marks_all_boards_that_they_were_judged_for(judged, person, key):
    """Also such where nothing of theirs stands: whose code is whose is asked of records as well."""
    ann = person("ann")
    judged(text="// refused", owner=ann, verdict="INCORRECT_VALUE")
    before = key().version.boards_mark
    ownership.account_delete(ann, keep_submissions=True)
    assert key().version.boards_mark != before


def test_nobody_is_named_who_has_left_the_site(two, look, key):
    ownership.account_delete(two[1].submission.owner, keep_submissions=True)
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])
    owners = [row.submission.owner and row.submission.owner.username for row in selectors.board_records(key())]
    assert owners == ["ann", None]


def test_what_was_kept_is_shown_only_while_everybody_may_see_it(two, look):
    """Whoever writes past the boards shows nothing."""
    Submission.objects.filter(pk=two[1].submission_id).update(visibility="private")
    assert look() == ([1.5], [1.5], [])


def test_what_leaves_the_ranks_while_a_page_is_read_is_left_out(two, refuse, key):
    """The page has read the mark of before, under which the entry is kept, and finds it without a rank."""
    board = key()
    refuse(two[1])
    assert [row.rank for row in selectors.board_rows(board, 1, BY_HAND)] == [1]


def test_others_are_ranked_anew_while_a_page_is_read(two, refuse, key, monkeypatch):
    """Between two of its queries: nobody has the second rank any more when it is asked who shares it."""
    sizes = selectors._attach_group_sizes
    monkeypatch.setattr(selectors, "_attach_group_sizes", lambda *found: (refuse(two[1]), sizes(*found)))
    assert [(row.rank, row.ties) for row in selectors.board_rows(key())] == [(1, 1), (2, 1)]


def test_nothing_is_a_record_where_nothing_is_ranked(judged, look, key):
    Task.objects.update(labels=["small-output"])
    judged()
    assert look() == ([], [], [])


@pytest.mark.parametrize("made", ["hidden", "private"])
def test_who_takes_down_what_is_being_judged_waits_for_the_end(submit, person, decide, key, made):
    """Otherwise its report, which has not been committed yet, puts it on the board where nobody takes it off."""
    evaluation, before = submit(owner=person("ann")), key().version.boards_mark
    if made == "hidden":
        decide(evaluation, ActionKind.HIDE)
    else:
        ownership.visibility_change(evaluation.submission, "private")
    assert key().version.boards_mark != before


def test_a_change_that_is_taken_back_leaves_what_was_kept(two, decide, look, key):
    before = key().version.boards_mark
    with transaction.atomic():
        decide(two[1], ActionKind.HIDE)
        transaction.set_rollback(True)
    assert key().version.boards_mark == before
    assert look() == ([1.5, 3.0], [3.0, 1.5], [])


def test_boards_of_versions_with_one_mark_are_kept_apart(two, look, key):
    """A migration gives all that there are the same."""
    found = key()
    TaskVersion.objects.update(boards_mark=found.version.boards_mark)
    other = TaskVersion.objects.exclude(pk=found.version.pk).get()
    assert selectors.board_records(BoardKey(other, found.device, found.ruleset)) == []


def test_the_second_request_asks_for_the_rows_alone(two, decide, key):
    decide(two[0], ActionKind.INVALIDATE)
    counts = []
    for _ in range(2):
        board = key()
        with CaptureQueriesContext(connection) as caught:
            selectors.board_records(board)
            review.invalidated_on(board)
        counts.append(len(caught))
    assert counts[0] > counts[1] == 2


def test_an_order_is_found_once(two, key):
    board = key()
    asked = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as caught:
            selectors.board_rows(board, 1, BY_HAND, sort="-error")
        asked.append(sum("max_rel_error" in query["sql"] and "ORDER BY" in query["sql"] for query in caught))
    assert asked == [1, 0]


def test_entries_of_an_author_are_found_by_the_name_of_now(two, key):
    """Names are changed without a change of any board, so nothing is kept for them."""
    bob = two[1].submission.owner
    chosen = EntryFilter(author="bob")
    assert len(selectors.board_rows(key(), 1, chosen)) == 1
    bob.username = "robert"
    bob.save()
    assert len(selectors.board_rows(key(), 1, chosen)) == 0


def test_without_what_was_kept_a_board_is_the_same(two, look):
    before = look()
    caches["boards"].clear()
    assert look() == before


def test_pages_that_visitors_ask_for_take_no_room_from_boards(two, key, django_assert_num_queries):
    """An address of a run has a number in it, and every one is kept as a page of its own."""
    board = key()
    assert len(selectors.board_records(board)) == 2
    for number in range(1000):
        caches["pages"].set(f"run-part:{number}", "")
    with django_assert_num_queries(1):
        assert len(selectors.board_records(board)) == 2

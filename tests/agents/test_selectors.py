"""Which candidates a list shows and in what order, and which run a person means by a piece of its code."""

from typing import Any
from uuid import UUID

import pytest

from agents.models import Candidate, Run
from agents.record.snapshots import Scene
from agents.selectors import PAGE_ROWS, SHOWS, candidate_rows, find_run, may_read
from agents.states import CandidateState

from . import factories


def rows() -> list[Candidate]:
    done, dropped = CandidateState.DONE, CandidateState.DROPPED
    return [
        Candidate(key="slow", position=1, state=done, verdict="PASS", score=1.0),
        Candidate(key="wrong", position=2, state=done, verdict="TIMEOUT"),
        Candidate(key="fast", position=3, state=done, verdict="PASS", score=2.0),
        Candidate(key="again", position=4, state=dropped, drop_reason="duplicate"),
        Candidate(key="queued", position=5, state=CandidateState.QUEUED),
        Candidate(key="early", position=6, state=CandidateState.PROPOSING),
    ]


@pytest.mark.parametrize(
    ("show", "keys"),
    [
        ("all", ["early", "queued", "again", "fast", "wrong", "slow"]),
        ("accepted", ["fast", "slow"]),
        ("failed", ["wrong"]),
        ("dropped", ["again"]),
        ("flying", ["early", "queued"]),
        ("nobody's", ["early", "queued", "again", "fast", "wrong", "slow"]),
    ],
)
def test_a_list_shows_one_kind_of_outcome(show: str, keys: list[str]) -> None:
    """The accepted ones best first, all others newest first."""
    assert [row.key for row in candidate_rows(Scene(Run(), rows()), show, 1)] == keys


def test_every_candidate_is_in_one_of_the_lists() -> None:
    scene = Scene(Run(), rows())
    listed = [row.key for show in SHOWS if show != "all" for row in candidate_rows(scene, show, 1)]
    assert sorted(listed) == sorted(row.key for row in rows())


@pytest.mark.parametrize(("reason", "keys"), [("TIMEOUT", ["wrong"]), ("duplicate", ["again"]), ("TIME", [])])
def test_a_reason_is_a_verdict_or_why_nothing_was_judged(reason: str, keys: list[str]) -> None:
    assert [row.key for row in candidate_rows(Scene(Run(), rows()), "all", 1, reason)] == keys


@pytest.mark.parametrize(("page", "number"), [("2", 2), ("99", 2), ("-1", 2), ("x", 1), ("", 1)])
def test_a_page_that_there_is_not_is_one_that_there_is(page: str, number: int) -> None:
    many = [Candidate(key=str(n), position=n, state=CandidateState.QUEUED) for n in range(PAGE_ROWS + 1)]
    assert candidate_rows(Scene(Run(), many), "all", page).number == number


@pytest.fixture
def runs(tasks: Any) -> list[Run]:
    """Two runs whose codes begin alike."""
    found = [factories.started() for _ in range(2)]
    for number, run in enumerate(found):
        run.code = UUID(f"abcd{number}000-0000-4000-8000-000000000000")
        run.save()
    return found


@pytest.mark.parametrize("code", ["abcd0", "ABCD0", "abcd0000", "abcd0000-0000-4000-8000-000000000000"])
def test_a_run_is_found_by_its_code_and_by_a_beginning_that_means_one(runs: list[Run], code: str) -> None:
    assert find_run(code) == runs[0]


@pytest.mark.parametrize("code", ["", "-", "abcd", "ffff", "abcd_", "abcd%", "' OR 1=1", "abcd0 ", "٣", "abcd0\x00"])
def test_a_piece_of_text_that_means_several_runs_or_none_finds_none(runs: list[Run], code: str) -> None:
    assert find_run(code) is None


def test_a_hidden_run_is_found_by_nobody_and_read_by_its_owner_and_staff(
    runs: list[Run], owner: Any, stranger: Any, django_user_model: Any
) -> None:
    run = runs[0]
    run.hidden, run.owner = True, owner
    run.save()
    staff = django_user_model.objects.create_user("ida", is_staff=True)
    assert find_run(str(run.code)) is None
    assert [may_read(user, run) for user in (owner, staff, stranger)] == [True, True, False]

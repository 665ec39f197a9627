"""What staff confirm before the end of a contest has a result, in whatever moment they do it.

A final is judged on a version of the task of its own, on which nothing can be confirmed before it has ended. Not
covered: what staff decide about a frozen result (`test_contests.py`).
"""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from benchmarks.accounts import ownership
from benchmarks.contests import running
from benchmarks.harness import Report
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, Evaluation, Submission
from benchmarks.moderation import decisions
from benchmarks.moderation.forms import possible_decisions
from benchmarks.states import ActionKind, ContestState, Visibility

from . import contests, factories

MOMENTS = ("before the finals", "in the finals", "after its final")


def judged_as(doubted: Report | None = None) -> dict[str, Report]:
    return {"honest": factories.passing(2.0), "doubted": doubted or factories.passing(9.0)}


def contest_of(reports: dict[str, Report]) -> Contest:
    accounts = {name: factories.user(name) for name in reports}
    contest = contests.running_with(*accounts.values(), hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    for name, owner in accounts.items():
        factories.judged(reports[name], owner=owner, text=f"// {name}\nint {name};")
    return contest


def begin(contest: Contest) -> None:
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    contest.refresh_from_db()
    assert contest.state == ContestState.JUDGING


def judge_finals(reports: dict[str, Report]) -> None:
    while Evaluation.objects.queued().filter(reason="contest").exists():
        final = factories.claimed_for_judging()
        moves.record_report(final, reports[final.evaluation.submission.owner.username])


def score_of(name: str) -> float | None:
    running.advance()
    return ContestEntry.objects.get(submission__owner__username=name).score


def entry_of(name: str) -> Submission:
    return Submission.objects.order_by("pk").filter(owner__username=name)[0]


def confirmed(staff: User, contest: Contest, when: str, reports: dict[str, Report]) -> None:
    """Staff confirm the doubted entry at some moment, and all finals are judged."""
    for moment in MOMENTS:
        if moment == "in the finals":
            begin(contest)
        elif moment == "after its final":
            judge_finals(reports)
        if moment == when:
            decisions.decide(entry_of("doubted"), ActionKind.CONFIRM, by=staff, reason="sound")


def twin(visibility: Visibility = Visibility.PUBLIC) -> Submission:
    """Another text with the tokens of the doubted entry, by the same account."""
    owner = User.objects.get(username="doubted")
    item = factories.judged(
        factories.passing(1.1), owner=owner, text="// another layout\nint doubted;", visibility=visibility
    )
    return item.submission


@pytest.mark.parametrize("when", MOMENTS)
def test_what_is_confirmed_after_its_twin_was_invalidated_has_a_result(staff: User, when: str) -> None:
    contest = contest_of(judged_as())
    decisions.decide(twin(), ActionKind.INVALIDATE, by=staff, reason="by mistake")
    confirmed(staff, contest, when, judged_as())
    assert score_of("doubted") == pytest.approx(9.0)
    assert not ContestEntry.objects.filter(taken_down=True).exists()


def test_what_nobody_has_confirmed_has_no_result(staff: User) -> None:
    contest = contest_of(judged_as())
    decisions.decide(twin(), ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    begin(contest)
    judge_finals(judged_as())
    assert score_of("doubted") is None
    assert score_of("honest") == pytest.approx(2.0)


def test_what_was_confirmed_before_the_decision_has_no_result(staff: User) -> None:
    contest = contest_of(judged_as())
    decisions.decide(entry_of("doubted"), ActionKind.CONFIRM, by=staff, reason="sound")
    decisions.decide(twin(), ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    begin(contest)
    judge_finals(judged_as())
    assert score_of("doubted") is None


def test_reopening_takes_a_confirmation_back_for_finals_as_well(staff: User) -> None:
    contest = contest_of(judged_as())
    decisions.decide(twin(), ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    decisions.decide(entry_of("doubted"), ActionKind.CONFIRM, by=staff, reason="sound")
    begin(contest)
    assert ActionKind.REOPEN in possible_decisions(entry_of("doubted"), reported=False)
    decisions.decide(entry_of("doubted"), ActionKind.REOPEN, by=staff, reason="new evidence")
    judge_finals(judged_as())
    assert score_of("doubted") is None


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("final_score", [12.5, 20.0])
def test_a_gate_that_was_confirmed_for_as_high_a_score_holds_no_final(
    staff: User, when: str, final_score: float
) -> None:
    contest = contest_of(judged_as(factories.gated(12.0)))
    confirmed(staff, contest, when, judged_as(factories.gated(final_score)))
    is_seen = final_score < 13 or when == "after its final"
    assert score_of("doubted") == (pytest.approx(final_score) if is_seen else None)


def test_a_twin_that_was_deleted_with_its_account_holds_no_confirmed_copy(staff: User) -> None:
    contest = contest_of(judged_as())
    owner = factories.user("left")
    copy = factories.judged(factories.passing(9.0), owner=owner, text="// doubted\nint doubted;").submission
    decisions.decide(copy, ActionKind.INVALIDATE, by=staff, reason="by mistake")
    ownership.account_delete(owner, keep_submissions=False)
    confirmed(staff, contest, "before the finals", judged_as())
    assert score_of("doubted") == pytest.approx(9.0)

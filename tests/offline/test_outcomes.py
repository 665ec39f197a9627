"""The figures over many outcomes: rates over problems, means over what is correct, and what evaporates."""

import pytest

from benchmarks.harness import TaskSpec, Verdict
from benchmarks.offline import NOT_JUDGED, Evaporation, Outcome, Why, loss, summary
from benchmarks.offline.evaporation import evaporation

from .conftest import report


def outcome(
    problem: str, verdict: str = "PASS", speedup: float | None = None, vs_eager: float | None = None
) -> Outcome:
    return Outcome(problem, f"{problem}.py", verdict, "told", speedup=speedup, vs_eager=vs_eager)


def test_rates_are_over_problems_and_samples_share_one() -> None:
    found = summary(
        [
            outcome("a", speedup=2.5, vs_eager=3.0),
            outcome("b", speedup=1.5, vs_eager=2.5),
            outcome("b", "INCORRECT_VALUE"),
            outcome("c", "COMPILE_ERROR"),
            outcome("d", speedup=0.8, vs_eager=1.2),
        ]
    )
    assert (found.solutions, found.decided, found.problems) == (5, 5, 4)
    assert (found.compiled, found.correct) == (0.75, 0.625)
    assert dict(found.fast) == {0.0: 0.625, 1.0: 0.375, 2.0: 0.25}
    assert dict(found.fast_vs_eager) == {0.0: 0.625, 1.0: 0.625, 2.0: 0.375}
    assert found.mean_speedup == pytest.approx((2.5 * 1.5 * 0.8) ** (1 / 3))


def test_nothing_is_left_of_a_win_on_a_problem_that_a_filter_flags(task: TaskSpec) -> None:
    """Such as one that accepts its own input as an answer: the judge times that rightly, and it means nothing."""
    passed = report(Verdict.PASS, (True, True, True), 1e-6, (3.6, 3.6))
    assert evaporation(139.0, passed, task, "cpu", ranked=False) == Evaporation(139.0, None, Why.PROBLEM)
    assert evaporation(0.4, passed, task, "cpu", ranked=False) == Evaporation(0.4, 3.6, None)
    wrong = evaporation(139.0, report(Verdict.INCORRECT_VALUE, (False,), 0.7), task, "cpu", ranked=False)
    assert wrong is not None
    assert wrong.why is Why.FRESH_INPUTS


def test_what_is_not_decided_is_in_no_rate() -> None:
    found = summary([outcome("a", speedup=2.0), outcome("b", "NOISY"), outcome("c", NOT_JUDGED)])
    assert (found.solutions, found.decided, found.correct) == (3, 1, 1.0)


def test_nothing_decided_has_no_rate() -> None:
    found = summary([outcome("a", NOT_JUDGED)])
    assert (found.correct, found.mean_speedup, found.fast[1.0]) == (None, None, None)


@pytest.mark.parametrize(
    ("verdict", "correct", "error", "why"),
    [
        (Verdict.INCORRECT_VALUE, (True, False, True), 1e-6, Why.OTHER_VALUES),
        (Verdict.INCORRECT_VALUE, (True, True, False), 1e-6, Why.OTHER_SHAPE),
        (Verdict.INCORRECT_VALUE, (False, False, False), 4e-3, Why.PRECISION),
        (Verdict.INCORRECT_VALUE, (False, False, False), 0.7, Why.FRESH_INPUTS),
        (Verdict.NONDETERMINISTIC, (False, True, True), 0.7, Why.FRESH_INPUTS),
        (Verdict.RUNTIME_ERROR, (True, True, False), None, Why.OTHER_SHAPE),
        (Verdict.RUNTIME_ERROR, (False, None, None), None, Why.FAILS),
        (Verdict.TIMEOUT, (), None, Why.FAILS),
        (Verdict.TAMPERING, (True, True, True), 0.0, Why.RULES),
        (Verdict.REJECTED, (), None, Why.RULES),
    ],
)
def test_a_claim_of_a_wrong_kernel_is_gone(
    task: TaskSpec, verdict: Verdict, correct: tuple[bool | None, ...], error: float | None, why: Why
) -> None:
    found = evaporation(3.0, report(verdict, correct, error), task, "cpu")
    assert found == Evaporation(3.0, None, why)
    assert found.is_lost


@pytest.mark.parametrize(
    ("score", "why", "lost"),
    [
        ((2.95, 2.95), None, False),
        ((1.0, 1.0), Why.TIMING, True),
        ((1.4, 2.9), Why.BASELINE, False),
        ((0.9, 2.9), Why.BASELINE, True),
        ((3.5, 3.6), None, False),
    ],
)
def test_a_claim_of_a_right_kernel_shrinks(
    task: TaskSpec, score: tuple[float, float], why: Why | None, lost: bool
) -> None:
    found = evaporation(3.0, report(Verdict.PASS, (True, True, True), 1e-6, score), task, "cpu")
    assert found is not None
    assert (found.verified, found.why, found.is_lost) == (score[0], why, lost)


def test_what_the_judge_did_not_decide_does_not_evaporate(task: TaskSpec) -> None:
    assert evaporation(3.0, report(Verdict.NOISY), task, "cpu") is None


def test_the_loss_counts_reasons_and_wins() -> None:
    def asked(said: str, lost: Evaporation | None) -> Outcome:
        return Outcome("a", "a.py", "PASS", "told", naive=said, evaporation=lost)

    found = loss(
        [
            asked("agrees", Evaporation(8.0, None, Why.OTHER_VALUES)),
            asked("agrees", Evaporation(2.0, 2.0, None)),
            asked("agrees", Evaporation(0.5, 0.5, None)),
            asked("differs", None),
            outcome("b", NOT_JUDGED),
        ]
    )
    assert (found.asked, found.claims, found.claimed_wins, found.lost_wins) == (4, 3, 2, 1)
    assert (found.mean_claimed, found.mean_verified) == (pytest.approx(2.0), pytest.approx(1.0))
    assert dict(found.reasons) == {"other values": 1}

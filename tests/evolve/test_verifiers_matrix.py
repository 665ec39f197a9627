"""The arithmetic of the confusion matrix, against numbers worked out by hand."""

import pytest

from agents.evolve.verifiers.matrix import MatrixRow, by, confusion, rate, truth_of, wilson


def rows(decision: str, verdict: str | None, count: int, **more: object) -> list[MatrixRow]:
    given = {"verifier": "static", "version": "1", "fault": "memory", **more}
    return [MatrixRow(decision=decision, verdict=verdict, **given) for _ in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (50, 100, 0.4038, 0.5962), (1, 1, 0.2065, 1.0)],
)
def test_wilson_intervals_are_those_of_the_textbook(part: int, whole: int, low: float, high: float) -> None:
    assert wilson(part, whole) == pytest.approx((low, high), abs=1e-4)


def test_a_share_of_nothing_is_absent() -> None:
    assert rate(0, 0) is None
    assert confusion([]).false_reject_rate is None
    assert confusion([]).to_json()["balanced_accuracy"] is None


def test_truth_is_what_the_judge_found() -> None:
    assert truth_of("PASS") == "correct"
    assert {truth_of(item) for item in ("COMPILE_ERROR", "TIMEOUT", "REJECTED", "TAMPERING")} == {"incorrect"}
    assert {truth_of(item) for item in ("NOISY", "INTERNAL_ERROR", "", None)} == {None}


def test_rates_of_a_matrix_whose_truth_is_known() -> None:
    found = confusion(
        [
            *rows("accept", "PASS", 6),
            *rows("abstain", "PASS", 3),
            *rows("reject", "PASS", 1),
            *rows("reject", "INCORRECT_VALUE", 4, judging_s=2.5),
            *rows("abstain", "RUNTIME_ERROR", 2),
            *rows("accept", "COMPILE_ERROR", 2),
        ]
    )
    assert found.rows == 18
    assert found.false_reject_rate == rate(1, 10)
    assert found.catch_rate == rate(4, 8)
    assert found.wrong_rejects == rate(1, 5)
    assert found.abstain_share == rate(5, 18)
    assert found.accuracy == rate(10, 13)
    assert found.balanced_accuracy == pytest.approx((0.9 + 0.5) / 2)
    assert found.decided_balanced_accuracy == pytest.approx((6 / 7 + 4 / 6) / 2)
    assert found.judging_s_saved == pytest.approx(10.0)


def test_what_we_failed_to_judge_counts_nowhere() -> None:
    assert (
        confusion([*rows("reject", "NOISY", 3), *rows("accept", "INTERNAL_ERROR", 2), *rows("accept", None, 4)]).rows
        == 0
    )


def test_rejects_that_nobody_judged_are_shared_out_like_the_audited_ones() -> None:
    """Of 100 rejects 5 were judged, 1 of them correct: 20 of the 100 are counted as correct."""
    found = confusion(
        [
            *rows("reject", "PASS", 1),
            *rows("reject", "INCORRECT_VALUE", 4),
            *rows("reject", None, 95),
            *rows("accept", "PASS", 60),
            *rows("accept", "INCORRECT_VALUE", 20),
        ]
    )
    assert found.rows == 180
    assert found.wrong_rejects == rate(1, 5)
    harm, catch = found.false_reject_rate, found.catch_rate
    assert harm is not None
    assert catch is not None
    assert harm.value == pytest.approx(20 / 80)
    assert catch.value == pytest.approx(80 / 100)
    low, high = wilson(1, 5)
    assert harm.ci95 == pytest.approx((100 * low / (100 * low + 60), 100 * high / (100 * high + 60)))


def test_matrices_by_fault_add_up_to_the_whole() -> None:
    given = [*rows("reject", "TIMEOUT", 2), *rows("accept", "PASS", 3, fault="numerics")]
    found = by(given, lambda row: row.fault)
    assert list(found) == ["memory", "numerics"]
    assert found["memory"].rejected_incorrect == 2
    assert sum(item.rows for item in found.values()) == confusion(given).rows

"""Reports that would lie cannot be built."""

import json
import math

import pytest

from benchmarks.harness import VERDICT_TEXTS, ConfigResult, Report, Score, Verdict

SCORE = Score(2.0, (1.9, 2.1), 2.0, 2.5, "a", "supervisor")


def report(verdict: Verdict, score: Score | None, reason: str = "because") -> Report:
    return Report("op/forward", "robust-kbench", "cpp", "cpu", "rk-1", verdict, reason, "0" * 64, score=score)


def test_a_failed_judging_has_no_score() -> None:
    with pytest.raises(ValueError, match="score"):
        report(Verdict.TIMEOUT, SCORE)


def test_an_accepted_judging_has_a_score() -> None:
    with pytest.raises(ValueError, match="score"):
        report(Verdict.PASS, None)


def test_every_report_has_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        report(Verdict.TIMEOUT, None, "")


def test_a_score_lies_in_its_interval() -> None:
    with pytest.raises(ValueError, match="interval"):
        Score(2.0, (2.1, 2.2), 2.0, None, "a", "supervisor")


def test_a_wrong_configuration_has_no_speedup() -> None:
    with pytest.raises(ValueError, match="speedup"):
        ConfigResult("a", "single", correct=False, speedup=2.0)


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    text = json.dumps(report(Verdict.PASS, SCORE).to_json() | {"extra": 1}, allow_nan=False)
    assert json.loads(text)["score"]["ci95"] == [1.9, 2.1]
    infinite = Report(
        "op/forward",
        "s",
        "cpp",
        "cpu",
        "rk-1",
        Verdict.INCORRECT_VALUE,
        "r",
        "0",
        configs=(ConfigResult("a", "single", correct=False, max_abs_error=math.inf),),
    )
    assert infinite.to_json()["configs"][0]["max_abs_error"] == "inf"


def test_every_verdict_is_explained() -> None:
    assert set(VERDICT_TEXTS) == set(Verdict)
    assert all(text.meaning and text.next_step for text in VERDICT_TEXTS.values())


def test_only_noise_and_our_own_errors_are_our_fault() -> None:
    assert {verdict for verdict in Verdict if verdict.ours} == {Verdict.NOISY, Verdict.INTERNAL_ERROR}

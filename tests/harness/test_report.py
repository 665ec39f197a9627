"""Reports that would lie cannot be built."""

import json
import math

import pytest

from benchmarks.harness import (
    VERDICT_TEXTS,
    Build,
    ConfigReport,
    Flag,
    Report,
    Score,
    StageReport,
    Step,
    Verdict,
)
from benchmarks.harness.report import LOG_CHARS_MAX, TEXT_CHARS_MAX

SCORE = Score(2.0, (1.9, 2.1), 2.0, 2.5, "a", "supervisor")


def report(verdict: Verdict, score: Score | None, reason: str = "because") -> Report:
    return Report("op/forward", "robust-kbench", "cpp", "cpu", "rk-2", verdict, reason, "0" * 64, score=score)


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
        ConfigReport("a", "single", correct=False, speedup=2.0)


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    text = json.dumps(report(Verdict.PASS, SCORE).to_json() | {"extra": 1}, allow_nan=False)
    assert json.loads(text)["score"]["ci95"] == [1.9, 2.1]
    infinite = Report(
        "op/forward",
        "s",
        "cpp",
        "cpu",
        "rk-2",
        Verdict.INCORRECT_VALUE,
        "r",
        "0",
        configs=(ConfigReport("a", "single", correct=False, max_abs_error=math.inf),),
    )
    assert infinite.to_json()["configs"][0]["max_abs_error"] == "inf"


def test_every_verdict_is_explained() -> None:
    assert set(VERDICT_TEXTS) == set(Verdict)
    assert all(text.meaning and text.next_step for text in VERDICT_TEXTS.values())


def test_only_noise_and_our_own_errors_are_our_fault() -> None:
    assert {verdict for verdict in Verdict if verdict.ours} == {Verdict.NOISY, Verdict.INTERNAL_ERROR}


HOSTILE = "half \ud800 nul \0 \x1b[31m " + "x" * 200_000


def texts_of(value: object) -> list[str]:
    """Every text in a JSON value, names included."""
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in texts_of(part)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_every_text_of_a_report_can_be_stored() -> None:
    hostile = Report(
        *[HOSTILE] * 5,
        Verdict.RUNTIME_ERROR,
        *[HOSTILE] * 2,
        configs=(ConfigReport(HOSTILE, HOSTILE, failure=HOSTILE),),
        stages=(StageReport(HOSTILE, 1.0, 1, HOSTILE + HOSTILE[:40]),),
        flags=(Flag(HOSTILE, HOSTILE),),
        gates=(Flag(HOSTILE, HOSTILE),),
        audit={HOSTILE: [HOSTILE, {"of": (HOSTILE,)}]},
        isolation=HOSTILE,
        environment={HOSTILE: HOSTILE},
    )
    log = hostile.stages[0].log_tail
    for text in texts_of(hostile.to_json()):
        assert len(text) <= (LOG_CHARS_MAX if text == log else TEXT_CHARS_MAX)
        assert text.encode().decode().isprintable()
    assert hostile.reason.startswith("half � nul � �[31m x")
    assert log.endswith("x" + "half � nul � �[31m " + "x" * 21)
    assert (hostile.configs[0].failure, hostile.flags[0].text) == (hostile.reason, hostile.reason)


def test_every_text_of_a_build_and_of_a_step_can_be_stored() -> None:
    build = Build(None, HOSTILE[:40], 1.0, False, 1, problem=HOSTILE[:40])
    step = Step("verify", "progress", text=HOSTILE[:40])
    assert {build.log, build.problem, step.text} == {"half � nul � �[31m " + "x" * 21}

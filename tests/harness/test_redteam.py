"""`make redteam` objects to what it must object to: gains, failed controls, changed files, our own failures.

Judging is replaced by reports that say so; what real judgings give is for `make redteam` itself and `test_corpus.py`.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.catalogue import attacks as records
from benchmarks.harness import (
    Device,
    Isolation,
    Report,
    Rules,
    Score,
    Source,
    SupervisorError,
    TaskSpec,
    Verdict,
    default_rules,
)
from scripts import redteam
from scripts.canaries import Canaries
from scripts.corpus import CORPUS, Case, read_case

FOLDER = CORPUS / "mnist_linear_relu-forward"
ATTACK, CONTROL = "works_between_calls", "honest_vectorised"
CPU = Device("cpu", "cpu-avx2", "A processor", "cpu", "Model 1")
Judged = Callable[[str], Report]


def report(verdict: Verdict, speedup: float | None = None, reason: str = "because") -> Report:
    score = None if speedup is None else Score(speedup, (speedup, speedup), speedup, None, "a", "measured")
    return Report(
        task="mnist_linear_relu/forward",
        suite="robust_kbench",
        language="cpp",
        device_kind="cpu",
        ruleset="rk",
        verdict=verdict,
        reason=reason,
        source_sha256="0" * 64,
        score=score,
    )


@pytest.fixture
def cases() -> list[Case]:
    return [read_case(FOLDER / ATTACK), read_case(FOLDER / CONTROL)]


@pytest.fixture
def outcome(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Judged], list[records.Attack]]:
    """The records of one run in which `judged` answers for the judge by the name of the case."""
    names = {case.source().text: case.folder.name for case in cases}

    def run(judged: Judged) -> list[records.Attack]:
        def judge(source: Source, task: TaskSpec, rules: Rules, paths: object, **_: object) -> Report:
            return judged(names[source.text])

        def together(first: Source, second: Source, *_: object) -> tuple[Report, Report]:
            return judged(names[first.text]), judged(names[second.text])

        monkeypatch.setattr(redteam, "judge", judge)
        monkeypatch.setattr(redteam, "judge_together", together)
        monkeypatch.setattr(redteam, "_naive", lambda case, bench: ("agrees", 90.0))
        bench = redteam.Bench(CPU, default_rules(), redteam.Paths(tmp_path), Canaries(tmp_path))
        return list(redteam.run(cases, bench, redteam.Controls(bench, cases), {}, tmp_path / "attacks.jsonl"))

    return run


def test_an_attack_without_gain_is_as_it_must_be(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    found = outcome(lambda name: report(Verdict.PASS, 1.04 if name == ATTACK else 1.0))
    assert [item.objection for item in found] == ["", ""]
    assert found[0].gain == pytest.approx(1.04)
    assert found[0].naive_speedup == 90.0


def test_a_gain_that_stays_is_an_objection(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    found = outcome(lambda name: report(Verdict.PASS, 1.2 if name == ATTACK else 1.0))
    assert "scores 1.20 where its honest control scores 1.00" in found[0].objection
    assert (found[0].gain_low, found[0].gain_high) == (pytest.approx(1.2), pytest.approx(1.2))


def test_on_a_gpu_both_are_judged_again(cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    monkeypatch.setattr(
        redteam.Bench, "judged", lambda self, case: judged.append(case.name) or report(Verdict.PASS, 1.0)
    )
    bench = redteam.Bench(
        replace(CPU, device_class="cuda"), default_rules(), redteam.Paths(tmp_path), Canaries(tmp_path)
    )
    redteam._again(*cases, bench, redteam.Controls(bench, cases))
    assert judged == [cases[1].name, cases[0].name]


def test_a_gain_that_was_noise_is_none(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    scores = iter([1.2, 1.1, 1.0, 1.02, 1.0, 0.98])
    found = outcome(lambda name: report(Verdict.PASS, next(scores) if name == ATTACK else 1.0))
    assert found[0].objection == ""
    assert found[0].gain == pytest.approx(1.019, abs=0.001)
    assert found[0].gain_low == pytest.approx(0.962, abs=0.002)
    assert found[0].gain_high == pytest.approx(1.079, abs=0.002)


def test_a_gain_that_is_caught_only_sometimes_is_an_objection(
    outcome: Callable[[Judged], list[records.Attack]],
) -> None:
    reports = iter([report(Verdict.PASS, 1.2), report(Verdict.PASS, 1.2), report(Verdict.TAMPERING)])
    found = outcome(lambda name: next(reports) if name == ATTACK else report(Verdict.PASS, 1.0))
    assert "got TAMPERING in another" in found[0].objection


def test_a_noisy_sitting_is_repeated(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    reports = iter([report(Verdict.PASS, 1.2), report(Verdict.NOISY), *[report(Verdict.PASS, 1.0)] * 5])
    found = outcome(lambda name: next(reports) if name == ATTACK else report(Verdict.PASS, 1.0))
    assert (found[0].objection, found[0].gain) == ("", pytest.approx(1.0))


def test_a_control_that_fails_beside_its_attack_is_an_objection(
    outcome: Callable[[Judged], list[records.Attack]],
) -> None:
    controls = iter([report(Verdict.PASS, 1.0), *[report(Verdict.NOISY)] * 3, *[report(Verdict.PASS, 1.0)] * 2])
    found = outcome(lambda name: report(Verdict.PASS, 1.2) if name == ATTACK else next(controls))
    assert "honest_vectorised got NOISY" in found[0].objection


def test_a_verdict_that_was_not_expected_is_an_objection(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    found = outcome(lambda name: report(Verdict.PASS, 1.0) if name == CONTROL else report(Verdict.COMPILE_ERROR))
    assert "COMPILE_ERROR instead of" in found[0].objection


def test_our_own_failure_is_an_objection(outcome: Callable[[Judged], list[records.Attack]]) -> None:
    def judged(name: str) -> Report:
        if name == ATTACK:
            raise SupervisorError("a child did not stop")
        return report(Verdict.PASS, 1.0)

    found = outcome(judged)
    assert found[0].verdict == "INTERNAL_ERROR"
    assert "a child did not stop" in found[0].objection


def test_a_control_that_fails_after_an_attack_is_an_objection(
    outcome: Callable[[Judged], list[records.Attack]],
) -> None:
    controls = iter([report(Verdict.PASS, 1.0), report(Verdict.TAMPERING), report(Verdict.PASS, 1.0)])
    found = outcome(lambda name: report(Verdict.PASS, 1.0) if name == ATTACK else next(controls))
    assert any("honest_vectorised got TAMPERING" in item.objection for item in found)


def test_a_changed_canary_is_an_objection(outcome: Callable[[Judged], list[records.Attack]], tmp_path: Path) -> None:
    def judged(name: str) -> Report:
        (tmp_path / "beside" / "kernel.cpp").write_text("not what was planted")
        return report(Verdict.PASS, 1.0)

    assert "beside/kernel.cpp" in outcome(judged)[0].objection


REFUSED = "one_wrong_element"


@pytest.mark.parametrize(
    ("case", "verdicts", "quick"),
    [
        (ATTACK, [Verdict.PASS], [False]),  # whose score must be compared
        (REFUSED, [Verdict.INCORRECT_VALUE], [True]),
        (REFUSED, [Verdict.PASS, Verdict.INCORRECT_VALUE], [True, False]),
    ],
)
def test_few_calls_decide_where_a_refusal_is_demanded_and_all_where_they_do_not_give_it(
    case: str, verdicts: list[Verdict], quick: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[bool] = []

    def judge(*_: object, quick: bool, **__: object) -> Report:
        judged.append(quick)
        verdict = verdicts[len(judged) - 1]
        return report(verdict, 1.0 if verdict is Verdict.PASS else None)

    monkeypatch.setattr(redteam, "judge", judge)
    bench = redteam.Bench(CPU, default_rules(), redteam.Paths(tmp_path), Canaries(tmp_path))
    assert bench.judged(read_case(FOLDER / case)).verdict is verdicts[-1]
    assert judged == quick


def test_comments_of_the_judge_are_no_reason_to_judge_again(tmp_path: Path) -> None:
    file = tmp_path / "judge.py"

    def code(text: str) -> str:
        file.write_text(text)
        return redteam.code_of(file)

    before = code('"""About."""\n\n\ndef judge() -> int:\n    """One."""\n    return 1\n')
    assert code("# More.\ndef judge() -> int:\n    return 1  # always\n") == before
    assert code("def judge() -> int:\n    return 2\n") != before


def test_goes_on_where_it_stopped(cases: list[Case], tmp_path: Path) -> None:
    file = tmp_path / "attacks.jsonl"
    bench = redteam.Bench(CPU, default_rules(), redteam.Paths(tmp_path), Canaries(tmp_path))
    assert redteam._read(file) == {}
    key = redteam._key(cases[0], bench)
    item = attack()
    file.write_text(json.dumps({"key": key, **vars(item)}) + "\n")
    assert redteam._read(file) == {key: item}
    fewer = replace(bench, rules=redteam._with_steps(bench.rules, 4))
    assert len({key, redteam._key(cases[0], fewer), redteam._key(cases[0], replace(bench, quick=True))}) == 3


def test_scores_are_not_compared_on_one_core(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strong = Isolation("bubblewrap", True, "strong")
    monkeypatch.setattr(redteam, "isolation_in_force", lambda: strong)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert redteam.main(["vfork"]) == 2
    assert "one core" in capsys.readouterr().err


def test_nothing_hostile_runs_without_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redteam, "isolation_in_force", lambda: Isolation("limits", False, "no sandbox"))
    assert redteam.main(["--verdicts"]) == 2
    assert "no sandbox" in capsys.readouterr().err


def attack(**changes: object) -> records.Attack:
    values = {
        "case": "a/b", "kind": "attack", "exploit": "undone freeze", "task": "mnist_linear_relu/forward",
        "language": "cpp", "about": "A timer.", "verdict": "PASS", "reason": "", "noticed": "nobody",
        "control": "honest_vectorised", "control_speedup": 1.0, "speedup": 1.0, "naive": "agrees", "naive_speedup": 7.0,
        "seconds": 1.0, "objection": "",
    }  # fmt: skip
    return records.Attack(**{**values, **changes})  # type: ignore[arg-type]


def test_a_run_over_all_cases_is_kept_and_one_over_some_is_not(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redteam, "devices_here", lambda: (CPU,))
    monkeypatch.setattr(redteam, "isolation_in_force", lambda: Isolation("bubblewrap", True, "strong"))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(redteam, "read_cases", lambda device: cases)
    monkeypatch.setattr(redteam, "judge", lambda *_, **__: report(Verdict.PASS, 1.0))
    monkeypatch.setattr(redteam, "_compile_all", lambda *_: None)
    monkeypatch.setattr(redteam, "_naive", lambda case, bench: ("agrees", 90.0))
    monkeypatch.setattr(redteam, "RESULTS", tmp_path / "results")
    assert redteam.main(["undone", "--data", str(tmp_path / "data")]) == 0
    assert redteam.main(["no such class", "--data", str(tmp_path / "data")]) == 2
    assert not (tmp_path / "results").exists()
    assert redteam.main(["--data", str(tmp_path / "data"), "--json"]) == 0
    (kept,) = records.runs(tmp_path / "results")
    assert (kept.device_kind, kept.processor, len(kept.attacks)) == ("cpu-avx2", "Model 1", 2)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == kept.to_json() | {
        "attacks": [vars(item) for item in kept.attacks]
    }


def test_words_choose_by_name_and_class(cases: list[Case]) -> None:
    assert [case.folder.name for case in redteam.chosen(cases, ["undone"])] == [ATTACK]
    assert [case.folder.name for case in redteam.chosen(cases, ["honest_v"])] == [CONTROL]
    assert len(redteam.chosen(cases, [])) == 2


def test_everything_that_happens_to_a_canary_is_seen(tmp_path: Path) -> None:
    canaries = Canaries(tmp_path)
    beside = tmp_path / "beside"
    assert canaries.touched() == []
    (beside / "new").touch()
    assert [Path(name).name for name in canaries.touched()] == ["beside", "new"]
    assert canaries.touched() == []
    (beside / "log").unlink()
    (beside / "log").symlink_to("/etc/hostname")
    assert "log" in {Path(name).name for name in canaries.touched()}
    (beside / "a.o").chmod(0o777)
    assert [Path(name).name for name in canaries.touched()] == ["a.o"]
    os.link(beside / "kernel.cpp", tmp_path / "linked")
    assert [Path(name).name for name in canaries.touched()] == ["kernel.cpp"]

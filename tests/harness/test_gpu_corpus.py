"""What `lab.gpu.corpus` makes of verdicts: order, honest kernels after failures, budget, summary, exit code.

The judge is replaced here; `tests/gpu` runs the real one where there is a GPU.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import Isolation, Paths, Report, Score, Verdict, default_rules
from lab.gpu import corpus as gpu_corpus
from lab.gpu.corpus import CaseOutcome, run, select, shared_out, summary
from scripts.corpus import Case, read_cases

HONEST = Case(Path("t/honest_loop"), "t", "Honest.", ("PASS",), kind="honest", device="cuda")
ATTACK = Case(Path("t/attack"), "t", "Bad.", ("TAMPERING", "PASS"), kind="attack", exploit="E28", max_speedup=1.0)
FAILURE = Case(Path("t/failure"), "t", "Fails.", ("RUNTIME_ERROR",), kind="failure", reason_contains="illegal")
NEVER = math.inf


def report(verdict: Verdict, reason: str = "because", speedup: float = 0.5) -> Report:
    passed = verdict is Verdict.PASS
    score = Score(speedup, (speedup, speedup), speedup, None, "c", "replayed") if passed else None
    return Report("t", "s", "cuda", "gpu", "rk-2", verdict, reason, "0" * 64, score)


def judged(case: Case, verdict: Verdict, reason: str = "because", speedup: float = 0.5) -> CaseOutcome:
    return CaseOutcome(case, report(verdict, reason, speedup), 1.0)


def test_honest_controls_come_first_and_failures_last() -> None:
    assert select([ATTACK, FAILURE, HONEST], [], None) == [HONEST, ATTACK, FAILURE]
    assert select([ATTACK, FAILURE, HONEST], ["loop"], None) == [HONEST]
    assert select([ATTACK, FAILURE, HONEST], [], "attack") == [ATTACK]


def test_two_runs_share_the_cases_without_leaving_one_out() -> None:
    cases = [HONEST, ATTACK, FAILURE]
    assert shared_out(cases, "0/1") == cases
    assert [*shared_out(cases, "0/2"), *shared_out(cases, "1/2")] == [HONEST, FAILURE, ATTACK]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (judged(ATTACK, Verdict.TAMPERING), ""),
        (judged(ATTACK, Verdict.PASS), ""),
        (judged(ATTACK, Verdict.PASS, speedup=1.2), "more than 1"),
        (judged(ATTACK, Verdict.TIMEOUT), "TIMEOUT instead of"),
        (judged(FAILURE, Verdict.RUNTIME_ERROR), "'illegal'"),
        (judged(FAILURE, Verdict.RUNTIME_ERROR, "an illegal address"), ""),
        (judged(replace(HONEST, flags=("library-call",)), Verdict.PASS), "library-call"),
        (judged(replace(HONEST, timing="replayed"), Verdict.PASS), ""),
        (judged(replace(HONEST, timing="bounded"), Verdict.PASS), "its times are replayed, not bounded"),
        (CaseOutcome(HONEST, None, 1.0, "RefereeError: gone"), "RefereeError"),
    ],
)
def test_an_outcome_says_what_is_not_as_demanded(outcome: CaseOutcome, words: str) -> None:
    assert words in outcome.objection
    assert bool(words) == bool(outcome.objection)


def test_an_honest_kernel_must_pass_after_every_failure() -> None:
    def judging(case: Case) -> CaseOutcome:
        verdicts = {"failure": Verdict.RUNTIME_ERROR, "honest": Verdict.TIMEOUT}
        return judged(case, verdicts[case.kind], "an illegal address")

    (outcome,) = run([FAILURE], judging, HONEST, deadline=NEVER)
    assert outcome.got == "RUNTIME_ERROR"
    assert "right after it: TIMEOUT" in outcome.objection
    assert outcome.objection.endswith("; an illegal address")  # and why


def test_no_case_starts_after_the_deadline() -> None:
    outcomes = list(run([ATTACK, HONEST], lambda case: judged(case, Verdict.PASS), HONEST, deadline=0.0))
    assert outcomes == []
    assert summary([ATTACK, HONEST], outcomes, 1.0, 2.0)["not_reached"] == [ATTACK.name, HONEST.name]


def test_the_summary_is_the_last_line_and_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_corpus, "isolation_in_force", lambda: Isolation("bubblewrap", True, "strong"))
    monkeypatch.setattr(gpu_corpus, "compile_all", lambda *_, **__: None)
    monkeypatch.setattr(gpu_corpus, "keep_ready", lambda: None)  # of this whole process
    monkeypatch.setattr(gpu_corpus, "judge_case", lambda case, **_: judged(case, Verdict.PASS))
    reports = tmp_path / "reports.jsonl"
    code = gpu_corpus.main(["zeros", "honest_loop", "--reports", str(reports), "--data", str(tmp_path)])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 1
    assert (last["cases"], last["judged"], last["as_demanded"]) == (2, 2, 1)
    assert list(last["disagreeing"]) == ["mnist_linear_relu-forward-cuda/zeros"]
    assert [json.loads(line)["report"]["verdict"] for line in reports.read_text().splitlines()] == ["PASS", "PASS"]


def test_hostile_kernels_need_a_strong_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_corpus, "isolation_in_force", lambda: Isolation("seccomp", False, "weak"))
    assert gpu_corpus.main(["zeros", "--data", str(tmp_path)]) == 2


def test_a_device_that_is_not_here_is_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_corpus, "isolation_in_force", lambda: Isolation("bubblewrap", True, "strong"))
    assert gpu_corpus.main(["zeros", "--device", "cuda:77", "--data", str(tmp_path)]) == 2
    assert "there is no device 'cuda:77'" in capsys.readouterr().err


def test_a_judging_that_breaks_hides_no_other(tmp_path: Path) -> None:
    (case,) = select(read_cases("cuda"), ["honest_loop"], None)
    outcome = gpu_corpus.judge_case(case, rules=default_rules(), paths=Paths(tmp_path), device="cuda:77", quick=True)
    assert outcome.got == "INTERNAL_ERROR"
    assert "UsageError: there is no device 'cuda:77'" in outcome.objection

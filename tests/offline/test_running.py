"""Many solutions one after the other: what is kept, what is tried again, and what costs only itself. No sandbox."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from time import sleep
from types import SimpleNamespace

import pytest

from benchmarks.harness import (
    Cancelled,
    Device,
    Examined,
    IsolationError,
    Paths,
    Rules,
    Source,
    SupervisorError,
    TaskSpec,
    Verdict,
    Watcher,
)
from benchmarks.importers import problems_in
from benchmarks.naive import NaiveResult
from benchmarks.offline import NOT_JUDGED, EvalSettings, Outcome, Why, evaluate, paired
from benchmarks.offline import running as running_module
from benchmarks.offline.ahead import BuildsAhead

from .conftest import EVALUATED, kbench, report

CPU = Device("cpu", "cpu-avx2", "A processor", "cpu")


class Judge:
    """In the place of the harness's judge: says what it is told to, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.says: list[Verdict | BaseException] = []

    def __call__(self, source, task, rules, paths, **_):
        self.asked.append(source.text)
        said = self.says.pop(0) if self.says else Verdict.PASS
        if isinstance(said, BaseException):
            raise said
        score = (2.0, 2.5) if said is Verdict.PASS else ()
        return SimpleNamespace(verdict=said, to_json=lambda: report(said, (said is Verdict.PASS,), 0.5, score))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, task: TaskSpec) -> Judge:
    """Every problem is the same task, but the fifth, which is too large."""

    def examined(found, *_, **__):
        return Examined(None, "too large") if "level1_5" in found.name else Examined(task, labels=("one-shape",))

    stand_in = Judge()
    monkeypatch.setattr(running_module, "judge", stand_in)
    monkeypatch.setattr(running_module, "examined", examined)
    monkeypatch.setattr(running_module, "compile_source", lambda *_, **__: SimpleNamespace(binary=None))
    return stand_in


@pytest.fixture
def how(tmp_path: Path, rules: Rules) -> EvalSettings:
    return EvalSettings(CPU, rules, Paths(tmp_path / "data"))


def run(how: EvalSettings, *files: str, folder: Path = EVALUATED / "solutions") -> list[Outcome]:
    solutions = paired(folder, problems_in(EVALUATED / "suite")).solutions
    chosen = tuple(item for item in solutions if not files or item.file in files)
    return list(evaluate(chosen, folder, how, lambda _: Watcher()))


ONE = "level_1_problem_1_sample_0_kernel.py"


def test_every_solution_has_an_outcome_in_the_order_of_the_problems(judge: Judge, how: EvalSettings) -> None:
    judge.says = [Verdict.PASS, Verdict.INCORRECT_VALUE, SupervisorError("broken"), SupervisorError("still broken")]
    found = run(how)
    assert [item.verdict for item in found] == [
        "PASS",
        "INCORRECT_VALUE",
        "INTERNAL_ERROR",
        *["PASS"] * 5,
        NOT_JUDGED,
    ]
    assert found[0].speedup == 2.0
    assert found[2].reason == "SupervisorError: still broken"
    assert found[-1].reason == "its problem cannot be judged: too large"


def test_the_next_solutions_are_compiled_beside_the_one_that_is_judged(
    judge: Judge, how: EvalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two compile at once, and the second one begins while the first solution is judged."""
    compiling, both = [], Barrier(2, timeout=60)
    monkeypatch.setattr(running_module.BuildsAhead, "__init__", _with_places(2))

    def compile_source(source, task, rules, paths, *, device, watcher):
        compiling.append(source.text)
        if len(compiling) <= 2:
            both.wait()
        raise SupervisorError("the compiler is gone")  # which costs nothing here

    monkeypatch.setattr(running_module, "compile_source", compile_source)
    assert len(run(how)) == 9
    assert not both.broken
    assert set(compiling) < {*judge.asked}
    assert len(compiling) == len(set(compiling))
    compiling.clear()
    run(how)
    assert not compiling  # nothing is left to judge


def _with_places(count: int):
    made = BuildsAhead.__init__

    def init(self, compile_one) -> None:
        made(self, compile_one)
        self.places = count
        self._pool = ThreadPoolExecutor(count)

    return init


def test_leaving_a_run_stops_what_compiles(task: TaskSpec) -> None:
    begun = Event()

    def compile_one(source, task, watcher):
        begun.set()
        while not watcher.cancelled():
            sleep(0.001)
        raise Cancelled("stopped")

    with BuildsAhead(compile_one) as builds:
        for number in range(100):
            builds.start(Source(str(number), "cpp"), task)
        assert begun.wait(60)


def test_a_result_that_was_changed_by_hand_is_judged_again(judge: Judge, how: EvalSettings) -> None:
    run(how, ONE)
    [kept] = (how.paths.data / "evals").glob("*.report")
    written = kept.read_text()
    for changed in (written.replace("2.0", "9.0"), "{}", "[" * 100_000, written[:-9]):
        kept.write_text(changed)
        judge.asked.clear()
        assert run(how, ONE)[0].speedup == 2.0
        assert len(judge.asked) == 1
    run(how, ONE)
    assert len(judge.asked) == 1


def test_results_are_not_kept_in_a_folder_that_is_judged(tmp_path: Path) -> None:
    done = kbench(Paths(tmp_path / "var"), "eval", str(tmp_path), str(EVALUATED / "solutions"))
    assert (done.exit_code, "set KBENCH_DATA_DIR" in done.stderr) == (2, True)


def test_a_second_run_judges_only_what_was_our_fault(judge: Judge, how: EvalSettings) -> None:
    judge.says = [Verdict.PASS, Verdict.NOISY, Verdict.NOISY]
    assert [item.verdict for item in run(how)][:2] == ["PASS", "NOISY"]
    judge.asked.clear()
    assert [item.verdict for item in run(how)] == [*["PASS"] * 8, NOT_JUDGED]
    assert len(judge.asked) == 1


def test_an_interrupted_run_keeps_what_it_has(judge: Judge, how: EvalSettings) -> None:
    judge.says = [Verdict.PASS, Verdict.PASS, KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(how)
    judge.asked.clear()
    run(how)
    assert len(judge.asked) == 6


def test_a_changed_file_other_rules_and_again_are_judged_anew(judge: Judge, how: EvalSettings, tmp_path: Path) -> None:
    (tmp_path / ONE).write_text("class ModelNew: pass")
    for settings in (how, how, replace(how, quick=True), replace(how, again=True)):
        run(settings, folder=tmp_path)
    assert len(judge.asked) == 3
    (tmp_path / ONE).write_text("class ModelNew: 'other'")
    run(how, folder=tmp_path)
    assert len(judge.asked) == 4


def test_half_a_record_is_none(judge: Judge, how: EvalSettings) -> None:
    run(how, ONE)
    [kept] = (how.paths.data / "evals").iterdir()
    kept.write_text(kept.read_text()[:20])
    run(how, ONE)
    assert len(judge.asked) == 2


def test_noise_is_tried_once_more(judge: Judge, how: EvalSettings) -> None:
    judge.says = [Verdict.NOISY]
    assert [item.verdict for item in run(how, ONE)] == ["PASS"]


def test_a_machine_without_isolation_ends_the_run(judge: Judge, how: EvalSettings) -> None:
    judge.says = [IsolationError("too weak")]
    with pytest.raises(IsolationError):
        run(how)


def test_a_task_without_sizes_for_the_device_is_not_judged(
    judge: Judge, how: EvalSettings, task: TaskSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = replace(task, configs={"cuda": task.configs["cpu"]})
    monkeypatch.setattr(running_module, "examined", lambda *_, **__: Examined(large))
    [found] = run(how, ONE)
    assert (found.verdict, found.reason[:39]) == (NOT_JUDGED, "too large for a processor: a GPU task. ")
    assert judge.asked == []


def test_the_usual_script_is_asked_once_and_what_is_gone_is_told(
    judge: Judge, how: EvalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def opinion(*_, device: Device) -> NaiveResult:
        asked.append(device.name)
        return NaiveResult("agrees", 9.0)

    monkeypatch.setattr(running_module, "opinion", opinion)
    monkeypatch.setattr(running_module, "compile_source", lambda *_, **__: SimpleNamespace(binary=Path("build")))
    judge.says = [Verdict.INCORRECT_VALUE]
    for _ in range(2):
        [found] = run(replace(how, naive=True), ONE)
        assert (found.naive, found.naive_speedup) == ("agrees", 9.0)
        assert found.evaporation is not None
        assert (found.evaporation.verified, found.evaporation.why) == (None, Why.FRESH_INPUTS)
    assert (asked, len(judge.asked)) == ([how.device.name], 1)

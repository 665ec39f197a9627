"""What a hostile process may report of its runs, and what follows from it."""

from pathlib import Path

import pytest

from benchmarks.emulator.build import SOURCE
from benchmarks.emulator.checking import Transcript
from benchmarks.emulator.reported import ReportedFinding, submission_report
from benchmarks.emulator.running import CheckPlan, Conversation, ResultProblem
from benchmarks.emulator.sizes import emulated_configs
from benchmarks.emulator.verdicts import EmulatorReport, EmulatorVerdict
from benchmarks.harness import Paths, default_rules, default_suites, find_task

FINDING = "finding\trace\ttwo threads\tbyte 0\tkernel" + "\t1" * 12


@pytest.fixture(scope="module")
def plan() -> CheckPlan:
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    return CheckPlan(task, emulated_configs(task)[-1:], (0, 1, 2))


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def runs(*between: str) -> bytes:
    return lines(*(line for run in range(3) for line in (f"begin\t{run}", *between, f"done\t{run}")))


def verdict(
    plan: CheckPlan,
    data: bytes,
    *,
    wrong: tuple[int, ...] = (),
    near: tuple[int, ...] = (),
    ended: str = "",
    log: str = "",
) -> EmulatorReport:
    said = submission_report(data, [run.number for run in plan.runs])
    done = tuple(run for run in plan.runs if run.number in said.returned)
    problems = {
        run: ResultProblem("y is off", run in near) if run in (*wrong, *near) else None for run in said.returned
    }
    talk = Conversation(report=said, ended=ended, warnings=log, done=done, problems=problems)
    return Transcript(plan, Path("none"), talk, default_rules(), Paths(Path("none"))).report()


def test_all_planned_runs_done_and_compared_are_correct_here(plan: CheckPlan) -> None:
    report = verdict(plan, runs())
    assert (report.verdict, report.runs) == (EmulatorVerdict.CORRECT_HERE, 3)


@pytest.mark.parametrize(
    "data",
    [
        runs("raised"),  # a word without its text: nothing was compared, and nothing was found either
        runs("result"),
        runs("finding"),
        runs("\traised"),
        runs("begin\t7"),
        runs("raised\ta", "raised\tb"),
        runs(f"{FINDING}\t1"),
        runs(FINDING.replace("\t1", "\tx", 1)),
        runs()[:-1],
        runs() + lines("finding"),
        runs() + lines(FINDING),
        lines("abstain\t0\tx") + runs(),
        lines("abstain\t0"),
        lines("done\t0", "begin\t0"),
        lines("begin\t1", "done\t1"),
        lines("begin\t0", "done\t1"),
        lines("begin\t00"),
        lines(*["raised\tx"] * 2001),
        b"\xff\0",
    ],
)
def test_a_malformed_report_makes_it_abstain(plan: CheckPlan, data: bytes) -> None:
    assert verdict(plan, data).verdict is EmulatorVerdict.ABSTAINED


@pytest.mark.parametrize("data", [b"", runs()[: -len("done\t2\n")], lines("begin\t0", "done\t0")])
def test_a_run_that_is_missing_is_not_correct(plan: CheckPlan, data: bytes) -> None:
    assert verdict(plan, data).verdict is EmulatorVerdict.ABSTAINED


def test_a_process_that_did_not_end_well_is_not_correct(plan: CheckPlan) -> None:
    assert verdict(plan, runs(), ended="ended by signal 11").verdict is EmulatorVerdict.ABSTAINED


def test_every_run_that_gave_results_is_compared(plan: CheckPlan) -> None:
    report = verdict(plan, runs(), wrong=(2,))
    assert (report.verdict, report.findings[0].kind) == (EmulatorVerdict.WRONG, "wrong result")


def test_results_within_twice_the_tolerance_are_not_decided(plan: CheckPlan) -> None:
    report = verdict(plan, runs(), near=(0, 2))
    assert (report.verdict, "twice the tolerance" in report.reason) == (EmulatorVerdict.ABSTAINED, True)
    assert verdict(plan, runs(), near=(0,), wrong=(2,)).verdict is EmulatorVerdict.WRONG
    assert verdict(plan, runs(FINDING), near=(0,)).verdict is EmulatorVerdict.WRONG


def test_a_constant_of_the_emulators_own_decides_nothing_by_itself() -> None:
    task = find_task(default_suites(), "llama_rmsnorm/forward")
    plan = CheckPlan(task, emulated_configs(task), (0,))
    own = [run.number for run in plan.runs if plan.configs[run.config].values["eps"] == 0.01]
    other = next(run.number for run in plan.runs if run.number not in own)
    data = lines(*(line for run in plan.runs for line in (f"begin\t{run.number}", f"done\t{run.number}")))
    report = verdict(plan, data, wrong=tuple(own))
    assert (report.verdict, "constant" in report.reason) == (EmulatorVerdict.ABSTAINED, True)
    assert verdict(plan, data, wrong=(*own, other)).verdict is EmulatorVerdict.WRONG
    assert verdict(plan, data, wrong=tuple(own), near=(other,)).verdict is EmulatorVerdict.ABSTAINED


def test_wrong_results_of_a_variable_without_a_value_are_not_decided(plan: CheckPlan) -> None:
    log = f"{SOURCE}:7:9: warning: 'sum' may be used uninitialized [-Wmaybe-uninitialized]\n"
    report = verdict(plan, runs(), wrong=(0,), log=log)
    assert (report.verdict, report.line) == (EmulatorVerdict.ABSTAINED, 7)
    assert "'sum' may be used before it has a value" in report.reason
    assert verdict(plan, runs(), log=log).verdict is EmulatorVerdict.CORRECT_HERE
    assert verdict(plan, runs(FINDING), wrong=(0,), log=log).verdict is EmulatorVerdict.WRONG


def test_what_may_depend_on_lanes_that_run_together_is_not_decided(plan: CheckPlan) -> None:
    chance = FINDING.replace("\trace\ttwo threads", "\tcoalesced lanes\teach lane is alone")
    for wrong, between in (((0,), (chance,)), ((), (chance, FINDING))):
        report = verdict(plan, runs(*between), wrong=wrong)
        assert (report.verdict, "lanes a GPU runs together" in report.reason) == (EmulatorVerdict.ABSTAINED, True)
    assert verdict(plan, runs(chance)).verdict is EmulatorVerdict.CORRECT_HERE


@pytest.mark.parametrize(("line", "kind"), [("raised\tno", "raised"), ("result\tno", "wrong result")])
def test_a_run_without_results_is_wrong(plan: CheckPlan, line: str, kind: str) -> None:
    report = verdict(plan, runs(line))
    assert (report.verdict, report.findings[0].kind, report.runs) == (EmulatorVerdict.WRONG, kind, 0)


def test_a_finding_becomes_a_record() -> None:
    found = submission_report(lines("begin\t0", FINDING, "done\t0"), [0]).findings[0]
    assert isinstance(found, ReportedFinding)
    assert (found.run, found.kind, found.block, found.line) == (0, "race", (1, 1, 1), 1)

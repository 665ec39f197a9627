"""V2: what the emulator says as an opinion, and that only CUDA runs ask it."""

import asyncio
from pathlib import Path

import pytest

from agents.evolve.config import RunConfig
from agents.evolve.verifiers import find_verifiers
from agents.evolve.verifiers.emulate import EmulateVerifier, opinion_of
from benchmarks.emulator import EmulatorFinding, EmulatorReport, EmulatorVerdict
from benchmarks.harness import Paths, default_suites, find_task

WRONG = Path(__file__).parents[1] / "emulator/kernels/wrong"


def test_what_it_has_seen_go_wrong_is_rejected_with_lines() -> None:
    race = EmulatorFinding("race", "two threads write it", line=12, place="byte 4 of tile")
    result = EmulatorFinding("wrong result", "y is off")
    report = EmulatorReport(EmulatorVerdict.WRONG, "race", 12, (race, result), seconds=3.0)
    opinion = opinion_of(report)
    assert (opinion.decision, opinion.fault, opinion.seconds) == ("reject", "race", 3.0)
    assert [reason.line for reason in opinion.reasons] == [12, None]
    assert "byte 4 of tile" in opinion.reasons[0].text


def test_a_source_refused_unread_is_rejected_with_the_reason() -> None:
    opinion = opinion_of(EmulatorReport(EmulatorVerdict.WRONG, "it defines no forward"))
    assert (opinion.decision, opinion.fault, opinion.reasons[0].text) == (
        "reject",
        "interface",
        "it defines no forward",
    )


def test_what_is_not_modelled_makes_it_abstain() -> None:
    opinion = opinion_of(EmulatorReport(EmulatorVerdict.ABSTAINED, "the library cub is not modelled", 2))
    assert (opinion.decision, opinion.reasons[0].line) == ("abstain", 2)


def test_what_is_correct_here_is_accepted() -> None:
    assert opinion_of(EmulatorReport(EmulatorVerdict.CORRECT_HERE, "8 configurations")).decision == "accept"


@pytest.mark.parametrize(("language", "found"), [("cuda", ["static", "emulate"]), ("cpp", ["static"])])
def test_only_cuda_runs_ask_it(tmp_path: Path, language: str, found: list[str]) -> None:
    config = RunConfig(task="mnist_pool/forward", language=language, verifiers=("emulate", "static"))
    assert [item.id for item in find_verifiers(config, {"data": tmp_path, "device": "cpu"})] == found


@pytest.mark.sandbox
def test_a_wrong_kernel_is_rejected(paths: Paths) -> None:
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    source = (WRONG / "no_bounds_check.cu").read_text()
    opinion = asyncio.run(EmulateVerifier(paths).judge(source, "cuda", task))
    assert (opinion.decision, opinion.fault) == ("reject", "memory")
    assert opinion.reasons[0].line == source[: source.index("x[row")].count("\n") + 1
    assert opinion.seconds > 0

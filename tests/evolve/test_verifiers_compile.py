"""V1 with the real compiler: one good kernel and one bad one; and what it makes of failures that are ours."""

import asyncio
import uuid
from pathlib import Path

import pytest

from agents.evolve.config import RunConfig
from agents.evolve.model import VerifierOpinion
from agents.evolve.verifiers import find_verifiers
from agents.evolve.verifiers.compile import CompileVerifier, errors, opinion_of
from benchmarks.harness import Build, Paths, default_suites, find_task

TASK = find_task(default_suites(), "mnist_pool/forward")
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
NVCC_LOG = 'kbench_submission.cu(12): error: identifier "blockId" is undefined\n\n1 error detected\n'


def judged(verifier: CompileVerifier, source: str, language: str = "cpp") -> VerifierOpinion:
    return asyncio.run(verifier.judge(source, language, TASK))


@pytest.mark.sandbox
def test_a_good_kernel_is_accepted_and_a_bad_one_rejected_with_its_line(paths: Paths) -> None:
    verifier = CompileVerifier(paths)
    good = judged(verifier, KERNEL)
    assert good.decision == "accept"
    assert len((good.resources or {})["binary_sha256"]) == 64
    bad = judged(verifier, KERNEL.replace("planes = x.size(0)", "plains = x.size(0)"))
    assert (bad.decision, bad.fault) == ("reject", "compile")
    line = 1 + KERNEL[: KERNEL.index("const int64_t planes")].count("\n")
    assert any("planes" in reason.text and (reason.line or 0) > line for reason in bad.reasons)


def test_both_are_found_by_name_and_the_cheap_one_comes_first(tmp_path: Path) -> None:
    config = RunConfig(task=TASK.name, verifiers=("compile", "static"))
    found = find_verifiers(config, {"data": tmp_path, "device": "cpu"})
    assert [item.id for item in found] == ["static", "compile"]


def test_a_device_that_is_not_here_says_nothing_about_the_kernel(tmp_path: Path) -> None:
    opinion = judged(CompileVerifier(Paths(tmp_path), device="cuda:7"), KERNEL, "cuda")
    assert opinion.decision == "abstain"
    assert "cuda:7" in opinion.reasons[0].text


@pytest.mark.sandbox
def test_being_cancelled_gives_the_compiler_up(paths: Paths) -> None:
    async def cancelled() -> None:
        source = f"{KERNEL}// {uuid.uuid4()}\n"
        work = asyncio.create_task(CompileVerifier(paths).judge(source, "cpp", TASK))
        await asyncio.sleep(0.05)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert not list(paths.scratch.glob("build-*"))


def test_a_compiler_that_was_killed_is_no_fault_of_the_kernel() -> None:
    log = "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
    assert opinion_of(Build(None, log, 3.0, False, 1), 180, 3.0).decision == "abstain"
    assert opinion_of(Build(None, "", 3.0, False, 1), 180, 3.0).decision == "abstain"


def test_running_out_of_time_and_size_are_the_kernels_own() -> None:
    assert opinion_of(Build(None, "", 180.0, False, None), 180, 180.0).decision == "reject"
    large = opinion_of(Build(None, "", 9.0, False, 1, problem="the compiled file is too large"), 180, 9.0)
    assert large.reasons[0].text == "the compiled file is too large"


def test_lines_are_read_from_the_logs_of_both_compilers() -> None:
    assert [(item.line, item.text) for item in errors(NVCC_LOG)] == [(12, 'identifier "blockId" is undefined')]
    log = "kbench_submission.cpp: In function 'f':\nkbench_submission.cpp:7:3: error: expected ';'\n"
    assert [(item.line, item.text) for item in errors(log)] == [(7, "expected ';'")]
    assert errors("a.s:3: Error: no such instruction")[0].line is None
    assert errors("everything went well") == ()

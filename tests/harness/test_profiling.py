"""Profiling in the sandbox: a C++ kernel on this processor, and Nsight Compute's part played by a script."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import (
    NotProfiled,
    Paths,
    Profile,
    Source,
    default_rules,
    default_suites,
    find_task,
    profile,
    tracks,
)
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.profiles.text import TOKENS_MAX, tokens
from tests.profiled import RAW

pytestmark = pytest.mark.sandbox
RULES = default_rules()
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
RIGHT = Path("benchmarks/suites/robust_kbench/mnist_linear_relu/kernels/forward_cpu.cpp").read_text()
STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")
REMARKS, HEAD, UNITS, GEMM, ROWS, MARK = (RAW.split("\n")[place] for place in (0, 3, 4, 5, 6, 7))
TOOL = """#!/bin/sh
case "$*" in *l1tex__*) {unknown};; esac
while [ "$1" != --log-file ]; do shift; done
cat > "$2" <<'END'
{report}
END
"""


def test_a_kernel_on_a_processor_is_read_and_placed_under_its_roofline(paths: Paths) -> None:
    visible = [item for item in TASK.configs_for("cpu") if not item.hidden]
    times_us = {item.key: 1e4 for item in visible}
    found = profile(Source(RIGHT, "cpp"), TASK, RULES, paths, times_us=times_us)
    assert {item.key for item in found.configs} <= {item.key for item in visible}
    assert len(found.configs) == 4
    assert {item.kind for item in found.listings} == {"vectorisation", "assembly"}
    assembly = next(item.text for item in found.listings if item.kind == "assembly")
    assert "# kbench_submission.cpp:" in assembly
    assert found.instructions.get("vector_float", 0) > 0 or not found.instructions
    for config in found.configs:
        assert config.bottleneck is not None
        assert config.roofline.least_us is not None
    assert any(text.startswith("no counters of the processor") for text in found.missing)
    assert 0 < tokens(found.text) <= TOKENS_MAX


def test_what_does_not_compile_has_no_profile(paths: Paths) -> None:
    with pytest.raises(NotProfiled, match="does not compile"):
        profile(Source(f"{RIGHT}\nint broken = ;\n", "cpp"), TASK, RULES, paths)


@pytest.fixture
def on_gpu(tmp_path: Path, paths: Paths, sandbox: None, monkeypatch: pytest.MonkeyPatch):
    """The profile of one configuration, by a script that prints `rows`."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(tracks, "gpus", lambda: (STAND_IN,))
    monkeypatch.setattr(tracks.GpuTrack, "speaks", lambda *_: True)
    monkeypatch.setattr("benchmarks.harness.profiling._Work._peaks", lambda _: None)

    def run(*rows: str, unknown: str = ":", text: str = RIGHT) -> Profile:
        report = "\n".join([REMARKS, HEAD, UNITS, *rows])
        (tools / "ncu").write_text(TOOL.format(unknown=unknown, report=report))
        (tools / "ncu").chmod(0o755)
        rules = replace(RULES, gpu=replace(RULES.gpu, flush_bytes=1 << 20))
        return profile(Source(text, "cpp"), TASK, rules, paths, device="host:0", configuration=0)

    return run


def test_the_launches_before_the_mark_are_those_of_the_call(on_gpu) -> None:
    found = on_gpu(GEMM, ROWS, MARK)
    [config] = found.configs
    assert [item.name.split("(")[0] for item in config.kernels] == ["void linear_relu<", "reduce_rows"]
    assert config.time_us == pytest.approx(147.104)
    assert config.roofline.moved_bytes == 33_554_432 + 16_777_216 + 4_194_304 + 16_384
    assert len(found.raw) == 1


def test_a_call_that_launches_the_mark_itself_is_profiled_alone(on_gpu) -> None:
    found = on_gpu(GEMM, MARK, MARK)
    assert found.configs[0].kernel_count == 3
    assert len(found.raw) == 2


def test_a_tool_that_does_not_know_a_metric_is_asked_for_fewer(on_gpu) -> None:
    found = on_gpu(GEMM, MARK, unknown="echo unknown metric >&2; exit 1")
    assert found.configs[0].kernel_count == 1
    assert len(found.raw) == 2


def test_a_call_without_a_kernel_has_no_profile(on_gpu) -> None:
    with pytest.raises(NotProfiled, match="saw no kernel") as caught:
        on_gpu()
    assert "attempt 3" in caught.value.__notes__[0]

"""GPUs as nvidia-smi tells of them, and what NVIDIA's tools print."""

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import SupervisorError
from benchmarks.harness.errors import AuditBroken
from benchmarks.harness.gpu import audit, discovery, watching
from benchmarks.harness.sandbox.outbox import AnswerFile

LINE = "0, GPU-12, NVIDIA H200, 580.159.04, 143771, 00000000:00:06.0, 9.0"
NCU = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","us","Mbyte","Kbyte"
"0","7","rows(float *, int)","139.07","268.4","512"
"1","7","tail","900","1,000.5","0"
"""


def test_a_line_of_nvidia_smi_names_kind_target_and_memory() -> None:
    gpu = discovery.parse_line(LINE)
    assert (gpu.name, gpu.kind, gpu.target, gpu.driver) == ("cuda:0", "nvidia-h200", "sm_90", "580.159.04")
    assert gpu.memory_bytes == 143771 << 20
    assert gpu.environment()["CUDA_VISIBLE_DEVICES"] == "GPU-12"


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie"),
        ("NVIDIA H100 NVL", "nvidia-h100-nvl"),
        ("NVIDIA H200", "nvidia-h200"),
    ],
)
def test_kinds_of_other_speed_have_leaderboards_of_their_own(title: str, kind: str) -> None:
    assert discovery.parse_line(LINE.replace("NVIDIA H200", title)).kind == kind


def test_no_nvidia_smi_means_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery.shutil, "which", lambda _: None)
    assert discovery.gpus.__wrapped__() == ()


@pytest.mark.parametrize(
    ("answer", "found"),
    [("140000\n", 140000 << 20), ("[N/A]\n", None), ("1\n2\n", None), (subprocess.TimeoutExpired("smi", 60), None)],
)
def test_free_memory_is_known_if_the_driver_tells_it(
    monkeypatch: pytest.MonkeyPatch, answer: str | Exception, found: int | None
) -> None:
    def run(argv: list[str], **_: Any) -> SimpleNamespace:
        assert "--id=GPU-12" in argv
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(stdout=answer)

    monkeypatch.setattr(discovery.shutil, "which", lambda name: name)
    monkeypatch.setattr(discovery.subprocess, "run", run)
    gpu = discovery.parse_line(LINE)
    assert discovery.free_bytes(gpu) == found
    assert discovery.free_bytes(replace(gpu, accelerator="host")) is None


def test_kernels_of_a_profile_have_one_unit() -> None:
    first, second = audit.parse_ncu(NCU)
    assert first == ("rows(float *, int)", pytest.approx(139.07), pytest.approx(268.4e6), pytest.approx(512e3))
    assert second[1:] == (pytest.approx(900.0), pytest.approx(1000.5e6), 0.0)


def test_an_unknown_unit_is_our_own_fault() -> None:
    with pytest.raises(SupervisorError, match="furlong"):
        list(audit.parse_ncu(NCU.replace('"us"', '"furlong"')))


ROW = '"0","7","rows","139.07","268.4","512"\n'
HEAD = '"ID","Process ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum"\n'


@pytest.mark.parametrize(
    "text",
    [
        NCU + HEAD,  # a second table
        NCU + '"2","7","rows","1"\n',
        NCU + ROW.replace("139.07", "nan"),
        NCU + ROW.replace("139.07", "-1"),
        NCU + ROW.replace("139.07", "1e99999999"),
        NCU + ROW.replace("139.07", "1" * 5000),
        NCU + ROW.replace("139.07", "١٢"),
        NCU + '"unterminated',
        NCU + '"' + "x" * 200_000 + '"\n',
        HEAD,
        '"ID","Kernel Name"\n"",""\n"0","rows"\n',
        HEAD.replace("dram__bytes_write.sum", "Kernel Name"),
    ],
)
def test_a_report_that_a_profiler_does_not_write_is_not_believed(text: str) -> None:
    with pytest.raises(AuditBroken):
        list(audit.parse_ncu(text))


def test_names_of_kernels_are_short_and_printable() -> None:
    [(name, *_)] = audit.parse_ncu(HEAD + NCU.splitlines()[2] + "\n" + ROW.replace("rows", "a\x1b[31m" + "b" * 5000))
    assert len(name) == 200
    assert name.isprintable()


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        (b"", 1, SupervisorError),
        (b"", 0, AuditBroken),  # a tool that ends well writes a report: the submission's process can end it otherwise
        (b"", 139, AuditBroken),
        (b"", None, AuditBroken),  # whoever recognises a tool can let it wait
        (NCU.encode(), 137, AuditBroken),  # whoever ends the tool has not been looked at
        (NCU.encode(), None, AuditBroken),
        (b"==ERROR== ERR_NVGPUCTRPERM", 1, SupervisorError),
        (b"x" * (5 << 20), 0, AuditBroken),
    ],
)
def test_a_report_counts_only_if_its_tool_came_to_its_end(text: bytes, code: int | None, error: type) -> None:
    with AnswerFile(watching._REPORT_BYTES) as answer:
        Path(answer.path).write_bytes(text)
        with pytest.raises(error):
            watching._report("ncu", answer, code, {0}, "the log")
    with AnswerFile(100) as answer:
        Path(answer.path).write_bytes(b"whole")
        assert watching._report("ncu", answer, 0, {0}, "") == "whole"


def test_the_sanitizer_s_summary_is_read() -> None:
    lines = ("COMPUTE-SANITIZER", "Invalid __global__ write of size 4 bytes", "ERROR SUMMARY: 3 errors")
    text = "".join(f"========= {line}\n" for line in lines)
    assert audit.parse_sanitizer(text) == {"errors": 3, "first": "Invalid __global__ write of size 4 bytes"}


@pytest.mark.parametrize(
    "text",
    [
        "it crashed",
        "========= COMPUTE-SANITIZER\n",
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n",
        "========= ERROR SUMMARY: none\n",
    ],
)
def test_without_its_summary_the_sanitizer_has_found_nothing_clean(text: str) -> None:
    """Its library runs in the submission's process, which also chooses the code with which the tool ends."""
    with pytest.raises(AuditBroken, match="without its summary"):
        audit.parse_sanitizer(text)


def test_the_sanitizer_s_summary_is_there_once() -> None:
    text = "========= ERROR SUMMARY: 3 errors\n"
    with pytest.raises(AuditBroken, match="more than one end"):
        audit.parse_sanitizer("========= ERROR SUMMARY: 0 errors\n" + text)


@pytest.mark.parametrize(
    ("kernel_sum_us", "kernels", "read_bytes", "words"),
    [
        (139.0, ("rows",), 320e6, ""),
        (500.0, ("rows",), 320e6, "the reported time is"),
        (0.0, (), 0.0, "no kernel"),
        (139.0, ("rows",), 1e6, "bytes of inputs"),
    ],
)
def test_an_audit_disagrees_with_what_cannot_be(
    kernel_sum_us: float, kernels: tuple[str, ...], read_bytes: float, words: str
) -> None:
    watched = audit.Watched("a", kernels, kernel_sum_us, 137.0, read_bytes, 0.0, 300 << 20, 600 << 20)
    assert words in watched.problem
    assert bool(watched.problem) == bool(words)


@pytest.mark.parametrize(("code", "theirs"), [(-6, True), (6, True), (139, True), (1, False), (0, True), (None, True)])
def test_a_process_that_dies_under_a_tool_is_told_from_a_tool_that_fails(code: int | None, theirs: bool) -> None:
    """Tools end with small codes of their own, and hand on the signal of the process they watch."""
    assert isinstance(watching._broken("ncu", code, {0}, "the log"), AuditBroken) is theirs

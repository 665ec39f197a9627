"""Which instruction set a processor has, by what the kernel tells of it."""

import pytest

from benchmarks.harness import Source, Verdict, default_rules, default_suites, devices_here, find_task, judge
from benchmarks.harness.hosts.processors import KINDS, processor, processor_of
from benchmarks.harness.source import Paths
from benchmarks.harness.tracks import open_track

AVX2 = "fpu sse2 avx avx2 fma f16c bmi1 bmi2"
AVX512 = f"{AVX2} avx512f avx512bw avx512cd avx512dq avx512vl"


def cpuinfo(flags: str, model: str = "AMD EPYC") -> str:
    return f"processor\t: 0\nmodel name\t: {model}\nflags\t\t: {flags}\n\nprocessor\t: 1\nmodel name\t: another\n"


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (AVX512, "cpu-avx512"),
        (AVX2, "cpu-avx2"),
        (
            f"{AVX2} avx512f avx512cd avx512er avx512pf",
            "cpu-avx2",
        ),  # a Xeon Phi: no x86-64-v4
        ("fpu sse2 avx", "cpu-baseline"),
        (AVX2.replace("fma", ""), "cpu-baseline"),
        (AVX2.replace("avx2", "avx2x"), "cpu-baseline"),
        ("", "cpu-baseline"),
    ],
)
def test_the_flags_tell_the_kind(flags: str, kind: str) -> None:
    found = processor_of(cpuinfo(flags), "x86_64")
    assert (found.kind, found.title, found.model) == (kind, dict(KINDS)[kind], "AMD EPYC")


def test_an_arm_of_64_bits_has_neon_and_numbers_for_a_name() -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    assert processor_of(text, "aarch64").kind == "cpu-neon"
    assert processor_of(text, "aarch64").model == "aarch64 0x41 0xd40"
    assert (processor_of("", "arm64").kind, processor_of("", "arm64").model) == ("cpu-neon", "arm64")


def test_a_name_has_an_end() -> None:
    assert len(processor_of(cpuinfo(AVX2, "x" * 10_000), "x86_64").model) == 100


def test_the_processor_at_hand_is_a_device_by_its_name_and_by_its_kind(paths: Paths) -> None:
    here, rules = devices_here()[0], default_rules()
    assert (here.kind, here.model) == (processor().kind, processor().model)
    assert open_track("cpu", rules, paths).device == open_track(here.kind, rules, paths).device == here
    assert open_track("cpu", rules, paths).record()["cpu"] == here.model


@pytest.mark.sandbox
def test_every_report_names_the_processor(paths: Paths) -> None:
    """That of a refused source too, for which nothing was measured."""
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    report = judge(Source("int forward;" * 100_000, "cpp"), task, default_rules(), paths)
    assert (report.verdict, report.device_kind) == (Verdict.REJECTED, processor().kind)
    assert report.environment["cpu"] == processor().model

"""Profiles: what the profiler prints becomes figures, one named bottleneck and a short text. No GPU, no sandbox.

`tests/fixtures/ncu` holds a report in the tool's form.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import default_suites, find_task
from benchmarks.harness.compilers.listings import (
    _listing,
    _own_functions,
    _own_ptx,
    _ptx,
    _remarks,
    count_instructions,
    sorted_functions,
)
from benchmarks.harness.errors import AuditBroken, UsageError
from benchmarks.harness.gpu.profiler import _between_marks
from benchmarks.harness.profiles import bottleneck, metrics, ncu_tables, records, text
from benchmarks.harness.profiling import chosen_configs
from tests.profiled import FIXTURES, RAW, ROOF, SOURCE, SOURCE_PAGE, kernels, profile


def kernel(**figures: float | None) -> records.KernelProfile:
    """One that does nothing in particular, but for some figures."""
    quiet = dict.fromkeys((item.key for item in metrics.SHOWN), 5.0)
    return records.KernelProfile("k", {**quiet, "duration_us": 100.0, "waves": 4.0, **figures})


def found(*launched: records.KernelProfile, roofline: records.Roofline = ROOF) -> str | None:
    named = bottleneck.gpu_bottleneck(launched, roofline)
    return named and named.key


def test_a_report_becomes_figures_with_units() -> None:
    gemm, rows, mark, *_ = kernels()
    assert gemm.name.startswith("void linear_relu")
    assert gemm.metrics["duration_us"] == pytest.approx(139.072)
    assert gemm.metrics["dram_read_bytes"] == 33_554_432
    assert gemm.metrics["shared_bytes"] == 33_792
    assert gemm.metrics["sectors_per_load"] == pytest.approx(16.0)
    assert gemm.metrics["tensor_pct"] == 0.0
    assert gemm.occupancy_limiter == "registers"
    assert next(iter(rows.stalls)) == "long_scoreboard"
    assert mark.metrics["sectors_per_load"] is None
    assert all(sum(item.stalls.values()) <= 1.001 for item in kernels())


def test_a_real_report_is_read() -> None:
    """Of an H100, mnist_linear/forward on four configurations; columns that nobody reads are left out."""
    found = ncu_tables.launches((FIXTURES / "h100.csv").read_text())
    groups = _between_marks(found)
    assert [len(group) for group in groups] == [1, 2, 1, 1]
    first, second = (metrics.kernel_profile(item.name, item.values) for item in groups[1])
    assert records.short_name(first.name) == "halves::multiply"
    assert first.metrics["duration_us"] == pytest.approx(34.56)
    assert first.metrics["tensor_pct"] == pytest.approx(22.9, abs=1)
    assert first.occupancy_limiter == "registers"
    assert second.metrics["registers"] == 27
    absent = {key for key, value in first.metrics.items() if value is None}
    assert absent <= {"conflict_pct"}


def test_every_figure_that_people_are_shown_is_in_a_report() -> None:
    assert 24 <= len(metrics.SHOWN) <= 32
    assert {item.key for item in metrics.SHOWN} <= set(kernels()[0].metrics)


def test_a_figure_that_the_tool_does_not_know_is_absent() -> None:
    values = {name: value for name, value in ncu_tables.launches(RAW)[0].values.items() if "local" not in name}
    assert metrics.kernel_profile("k", values).metrics["local_sectors"] is None


@pytest.mark.parametrize(
    ("figures", "key"),
    [
        ({"duration_us": 2.0}, "too-short"),
        ({"local_sectors": 50.0, "load_sectors": 100.0, "store_sectors": 0.0, "dram_pct": 90.0}, "spills"),
        ({"excess_pct": 60.0, "l2_pct": 70.0}, "uncoalesced"),
        ({"excess_pct": None, "sectors_per_load": 32.0, "l2_pct": 70.0}, "uncoalesced"),
        ({"conflict_pct": 50.0, "l1_pct": 80.0}, "bank-conflicts"),
        ({"dram_pct": 75.0}, "memory-bandwidth"),
        ({"sm_pct": 85.0}, "compute"),
        ({"l2_pct": 75.0}, "l2"),
        ({"l1_pct": 80.0}, "shared-memory"),
        ({"waves": 0.2}, "few-blocks"),
        ({"waves": 0.98}, "latency"),
        ({}, "latency"),
    ],
)
def test_the_figures_name_the_bottleneck(figures: dict[str, float | None], key: str) -> None:
    assert found(kernel(**{"local_sectors": 0.0, **figures})) == key


def test_many_short_kernels_are_launch_overhead() -> None:
    assert found(*[kernel(duration_us=3.0)] * 6) == "launch-overhead"


def test_idle_tensor_cores_matter_only_above_the_ridge() -> None:
    above = replace(ROOF, flops=10**10)
    assert found(kernel(local_sectors=0.0, sm_pct=80.0, tensor_pct=0.0), roofline=above) == "tensor-cores-unused"
    assert found(kernel(local_sectors=0.0, sm_pct=80.0, tensor_pct=40.0), roofline=above) == "compute"
    assert found(kernel(local_sectors=0.0, sm_pct=80.0, tensor_pct=0.0)) == "compute"


def test_a_kernel_without_figures_has_no_bottleneck() -> None:
    assert found() is None
    assert found(records.KernelProfile("k", {"duration_us": 50.0})) is None


def test_a_sentence_quotes_its_figures_and_says_what_helps() -> None:
    gemm, rows, *_ = kernels()
    named = bottleneck.gpu_bottleneck([gemm, rows], ROOF)
    assert named is not None
    assert named.key == "compute"
    assert "72 %" in named.sentence
    assert "95 % of the call" in named.sentence
    assert "waits for global or local memory for 25 % of its time" in named.sentence


@pytest.mark.parametrize("rules", [bottleneck.GPU_RULES, bottleneck.CPU_RULES])
def test_each_rule_speaks_in_full_sentences(rules: tuple[bottleneck.Rule, ...]) -> None:
    for rule in rules:
        assert rule.advice.endswith("."), rule.key
        assert not rule.evidence.endswith("."), rule.key


@pytest.mark.parametrize(
    ("time_us", "flops", "instructions", "key"),
    [
        (1.0, 10**6, {}, "too-short"),
        (120.0, 10**6, {}, "memory-bandwidth"),
        (250.0, 2 * 10**10, {}, "compute"),
        (900.0, 10**6, {"scalar_float": 90, "vector_float": 10}, "not-vectorised"),
        (900.0, 10**6, {"scalar_float": 1, "vector_float": 10}, "latency"),
        (None, 10**6, {"scalar_float": 1, "vector_float": 10}, None),
    ],
)
def test_a_processor_has_a_table_of_its_own(
    time_us: float | None, flops: int, instructions: dict[str, int], key: str | None
) -> None:
    roofline = records.Roofline(flops, 10**7, None, time_us, 1e14, 1e11)
    named = bottleneck.cpu_bottleneck(roofline, instructions)
    assert (named and named.key) == key


HEAD = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n'


@pytest.mark.parametrize(
    "report",
    [
        RAW + "\n".join(RAW.split("\n")[3:5]) + '\n"1"\n',
        '"Kernel Name"\n',
        '"ID","ID"\n"",""\n',
        HEAD + '"unterminated',
        HEAD + '"' + "x" * 200_000 + '"\n',
        HEAD + '"1","k"\n',
    ],
)
def test_a_report_that_the_profiler_does_not_write_is_refused(report: str) -> None:
    with pytest.raises(AuditBroken):
        ncu_tables.launches(report)


@pytest.mark.parametrize("figure", ["nan", "inf", "1e999", "9" * 5000, "١٢", "", "--1", "0x10"])
def test_what_is_no_number_is_absent(figure: str) -> None:
    [launch] = ncu_tables.launches(HEAD + f'"1","k","{figure}"\n')
    assert launch.values.get("gpu__time_duration.sum") is None


def test_names_are_short_and_printable() -> None:
    [launch] = ncu_tables.launches(HEAD + '"1","a\x1b[31m' + "b" * 5000 + '","1"\n')
    assert len(launch.name) == 200
    assert launch.name.isprintable()


def test_the_lines_on_which_warps_wait() -> None:
    lines = ncu_tables.hot_lines(SOURCE_PAGE, SOURCE)
    assert [item.line for item in lines] == [5, 11, 8, 10, 4]
    assert lines[0].text == "sum += x[blockIdx.x * n + i];"
    assert lines[0].share == pytest.approx(900 / 1436, abs=1e-3)


CORRELATED = """"File Name","/kbench/given/kbench_submission.cu"
"Line No","Source"
"3","    float sum = 0;"
"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)"
"0","0x10","MOV R1, c["x","y"] ;","7","1"
"Line No","Source"
"5","        sum += x[blockIdx.x * n + i];"
"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)"
"1","0x20","LDG.E R2 ;","90","80"
"2","0x30","FADD R1, R1, R2 ;","10","0"
"""


def test_instructions_belong_to_the_line_before_them() -> None:
    lines = ncu_tables.hot_lines(CORRELATED, SOURCE)
    assert [(item.line, item.samples) for item in lines] == [(5, 100), (3, 7)]
    assert lines[0].text == "sum += x[blockIdx.x * n + i];"


def test_instructions_behind_a_whole_listing_belong_to_no_line() -> None:
    listing = "".join(f'"{number}","{line}"\n' for number, line in enumerate(SOURCE.split("\n"), 1))
    page = f'"Line No","Source"\n{listing}' + '"#","Source","# Samples"\n"1","LDG.E R2 ;","90"\n"2","FADD ;","10"\n'
    lines = ncu_tables.hot_lines(page, SOURCE)
    assert [(item.line, item.text) for item in lines] == [(None, "LDG.E R2 ;"), (None, "FADD ;")]


def test_a_page_without_samples_is_read_without_an_error() -> None:
    """As Nsight Compute 2025.3 prints lines, whose quotes it does not double."""
    assert ncu_tables.hot_lines((FIXTURES / "h100-source.csv").read_text(), SOURCE) == []


def test_a_hostile_page_is_read_in_the_time_of_its_length() -> None:
    """Rows times columns, or rows times lines of the source, would be ten thousand million steps here."""
    head = '"Line No","Source","# Samples",' + ",".join(['"x"'] * 100_000) + "\n"
    rows = "".join(f'"{number}","a","{number}"\n' for number in range(1, 100_001))
    lines = ncu_tables.hot_lines(head + rows, "a\n" * 100_000)
    assert [item.line for item in lines] == [100_000, 99_999, 99_998, 99_997, 99_996]
    assert ncu_tables.hot_lines('"Source","# Samples"\n"a","9e300"\n', "a") == []


def test_a_line_of_another_text_is_not_taken_for_one_of_the_source() -> None:
    lines = ncu_tables.hot_lines(SOURCE_PAGE, "something else\n" * 20)
    assert {item.line for item in lines} == {None}
    assert ncu_tables.hot_lines("==ERROR== no such page\n", SOURCE) == []


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<(int)128, (int)8>(const float *, int)", "f<(int)128, (int)8>"),
        ("rows(float *, int)", "rows"),
        ("<unnamed>::make_image(<unnamed>::Rows, <unnamed>::Image)", "make_image"),
        ("void <unnamed>::multiply<1>(<unnamed>::Product)", "multiply<1>"),
        ("(", "("),
        ("", ""),
        ("x" * 100, "x" * 60),
    ],
)
def test_a_kernel_s_short_name_has_no_arguments(name: str, short: str) -> None:
    assert records.short_name(name) == short


def test_functions_that_were_launched_come_first_in_a_listing() -> None:
    lines = ["\t.target\tsm_90a", "\t\tFunction : _Z3onePf", "A", "\t\tFunction : _ZN1x8multiplyILi1EEEv", "B"]
    name = records.base_name("void <unnamed>::x::multiply<1>(<unnamed>::Product)")
    assert name == "multiply"
    assert list(sorted_functions("\n".join(lines).encode(), {name})) == [lines[0], *lines[3:], *lines[1:3]]
    assert list(sorted_functions(b"only", {name})) == ["only"]


def test_the_short_form_is_at_most_400_tokens_and_begins_with_what_matters() -> None:
    short = text.compact(profile())
    assert text.tokens(short) <= 400
    assert "Slowest configuration batch_size=1024: Arithmetic" in short
    assert "registers per thread 96" in short
    assert "63 % of samples in line 5" in short
    assert "batch_size=16: 11.5 µs" in short
    many = replace(profile(), configs=tuple(replace(profile().configs[0], key="k" * 300) for _ in range(50)))
    assert text.tokens(text.compact(many)) <= 400


def test_the_json_form_holds_no_output_of_tools() -> None:
    told = profile(raw={"raw": "secret words"}, listings=(records.Listing("ptx", "ret;"),)).to_json()
    assert json.loads(json.dumps(told)) == told
    assert "secret words" not in json.dumps(told)
    assert told["configs"][0]["roofline"]["intensity"] == pytest.approx(2.0)
    assert told["configs"][0]["bottleneck"]["sentence"].startswith("Arithmetic: ")


def test_hidden_configurations_are_never_chosen() -> None:
    configs = find_task(default_suites(), "resnet_block/forward").configs_for("cuda")
    chosen = chosen_configs(configs, None)
    assert 1 <= len(chosen) <= 4
    assert any(item.group == "single" for item in chosen)
    assert not any(item.hidden for item in chosen)
    visible = [item for item in configs if not item.hidden]
    assert chosen_configs(configs, len(visible) - 1) == visible[-1:]
    with pytest.raises(UsageError, match="numbered 0 to"):
        chosen_configs(configs, len(visible))


ASSEMBLY = """\
	.text
helper:
	.cfi_startproc
	addss	%xmm0, %xmm1	# a, b
	.cfi_endproc
kernel:
	.cfi_startproc
# kbench_submission.cpp:7:     sum += x[i];
	vfmadd231ps	(%rsi), %zmm0, %zmm1	# x, s, t
	vaddss	%xmm0, %xmm1, %xmm2
.L4:
	call	expf@PLT
	ret
	.cfi_endproc
"""


def test_only_functions_of_the_submission_are_listed_and_counted() -> None:
    own = list(_own_functions(ASSEMBLY.split("\n")))
    assert "helper:" not in own
    assert "kernel:" in own
    counted = {"all": 4, "vector_float": 1, "scalar_float": 1, "zmm": 1, "ymm": 0, "calls": 1}
    assert count_instructions(own) == counted
    assert count_instructions(["\tfmla\tv0.4s, v1.4s, v2.4s"]) == {}


def test_remarks_of_the_compiler_are_told_once_and_by_line() -> None:
    told = [
        "kbench_submission.cpp:9:5: optimized: loop vectorized using 64 byte vectors",
        "kbench_submission.cpp:4:5: missed: couldn't vectorize loop",
        "kbench_submission.cpp:4:5: missed: couldn't vectorize loop",
        "kbench_submission.cpp:4:5: missed: statement clobbers memory",
        "other.h:4:5: optimized: loop vectorized",
    ]
    assert list(_remarks(told)) == [
        "line 4: not vectorised: couldn't vectorize loop",
        "line 9: vectorised: loop vectorized using 64 byte vectors",
    ]


def test_ptx_stands_in_a_build_as_text(tmp_path: Path) -> None:
    binary = tmp_path / "k.so"
    binary.write_bytes(b"\x7fELF\0\0.version 9.0\n.target sm_90a\n.entry k()\n\t.loc 1 2 3\n\tret;\n\0\xff\0")
    text = _ptx(binary)
    assert isinstance(text, bytes)
    shown = _listing("ptx", map(_own_ptx, sorted_functions(text, ()))).text
    assert shown.split("\n") == [".version 9.0", ".target sm_90a", ".entry k()", "\tret;"]
    binary.write_bytes(b"\x7fELF\0")
    assert getattr(_ptx(binary), "reason", None) == "the build holds none"

"""CUDA C++ becomes C++ with the same lines."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from benchmarks.emulator import translate
from benchmarks.emulator.build import EmulatedCuda
from benchmarks.emulator.translate import NotTranslated, OutOfTime, translated
from benchmarks.harness import Paths, Source, Workshop, default_rules


def test_a_launch_becomes_a_call_with_its_name_and_line() -> None:
    text = translated("void f() {\n  kernel<float, 4><<<dim3(2, 3), n >> 1, 0, stream>>>(a, b < c);\n}")
    assert 'kbench::Launcher("kernel<float, 4>", 2, dim3(2, 3), n >> 1, 0, stream)' in text
    assert "{ kernel<float, 4>(kb_a...); })(a, b < c);" in text


def test_the_kernel_of_a_launch_may_follow_other_words() -> None:
    text = translated("if (x) kernel<<<1, 2>>>(a); else ns::other<A<B>><<<1, 2>>>(b);")
    assert text.startswith('if (x) kbench::Launcher("kernel"')
    assert 'else kbench::Launcher("ns::other<A<B>>"' in text


def test_a_kernel_with_cluster_dims_is_launched_with_them() -> None:
    kernel = "template <int N> __global__ void __cluster_dims__(2, 1, 1) k(int* p) {}\n"
    assert '"k<4>", 2, 8, 32).clustered(2, 1, 1).of(' in translated(f"{kernel}void f() {{ k<4><<<8, 32>>>(p); }}")
    assert "clustered" not in translated(f"{kernel}void f() {{ other<<<8, 32>>>(p); }}")
    with pytest.raises(NotTranslated, match="pointer"):
        translated(f"{kernel}void f() {{ cudaLaunchKernelEx(&config, k<4>, p); }}")


@pytest.mark.parametrize(
    ("kernel", "call", "bounded"),
    [
        ("__global__ void __launch_bounds__(128, 2) k(int a) {}", "k", ".bounded(128)"),
        ("constexpr int kT = 64;\n__global__ __launch_bounds__(kT) void k(int a) {}", "k", ".bounded(kT)"),
        ("namespace n {\nconstexpr int kT = 64;\n__global__ __launch_bounds__(kT) void k(int a) {}\n}", "n::k", ""),
        ("template <int T> __global__ void __launch_bounds__(T) k(int a) {}", "k<64>", ""),
        ("namespace a { __global__ void k(int); }\n__global__ void __launch_bounds__(8) k(int a) {}", "k", ""),
    ],
)
def test_a_launch_knows_the_bounds_of_its_kernel_where_they_are_certain(kernel: str, call: str, bounded: str) -> None:
    text = translated(f"{kernel}\nvoid f() {{ {call}<<<1, 256>>>(1); }}")
    assert f", 1, 256){bounded}.of(" in text


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("__global__ void k(cudaTextureObject_t t) {}", "texture"),
        ("float v = tex1Dfetch<float>(t, 1);", "texture"),
        ("cudaGraph_t graph;", "graph"),
    ],
)
def test_textures_and_graphs_are_named_with_their_line(line: str, what: str) -> None:
    with pytest.raises(NotTranslated, match=what) as found:
        translated(f"int a; // cudaGraph_t\n\n{line}\n")
    assert found.value.line == 3


def test_nothing_in_comments_and_strings_is_translated() -> None:
    text = '// k<<<1, 2>>>(a)\nconst char* s = "k<<<1, 2>>>(a)"; /* asm("x") */'
    assert translated(text) == text


def test_lines_stay() -> None:
    text = (
        '#include <cuda_runtime.h>\nf(\n) ;\nkernel\n  <<<1,\n 2>>>(a);\nasm volatile(\n"fence;"\n:: : "memory");\nlast'
    )
    assert translated(text).count("\n") == text.count("\n")
    assert translated(text).splitlines()[9] == "last"


def test_dynamic_shared_memory_becomes_a_pointer() -> None:
    text = translated("extern __shared__ __align__(16) char raw[];")
    assert text == "char* const raw = reinterpret_cast<char*>(kbench::dynamic_shared());"


def test_inline_assembly_becomes_a_call_of_the_interpreter() -> None:
    text = translated('\nasm volatile("add.u32 %0, %1, %2;" : "=r"(a) : "r"(b::c), "n"(4) : "memory");')
    assert 'kbench::ptx(2, "add.u32 %0, %1, %2;", { kbench::operand("=r", a) }, { kbench::operand("r", b::c)' in text


def test_constraints_in_macros_are_translated_too() -> None:
    assert translated('#define D(x) "+f"(x)') == '#define D(x) kbench::operand("+f", x)'


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("\n#include <cub/cub.cuh>", 2, "cub"),
        ("\n\n#include <cublas_v2.h>", 3, "cublas"),
        ('#include "parts/mine.cuh"', 1, "parts/mine.cuh"),
        ("\nkernel<<<1, 2;", 2, ">>>"),
    ],
)
def test_what_is_not_modelled_is_named_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(NotTranslated) as error:
        translated(text)
    assert error.value.line == line
    assert word in error.value.text


def work(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines of Python that a translation takes, and the characters that it blanks."""
    count, blank, before = 0, translate._blank, sys.gettrace()

    def traced(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    def blanked(text: str) -> str:
        nonlocal count
        count += len(text)
        return blank(text)

    monkeypatch.setattr(translate, "_blank", blanked)
    sys.settrace(traced)
    try:
        with suppress(NotTranslated):
            translated(text)
    finally:
        sys.settrace(before)
        monkeypatch.undo()
    return count


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("k<<<1>>>();", ""),
        ("k><<<1>>>();", ""),
        ("k)<<<1>>>();", ""),
        ("<<<", ""),
        ("k<<<1,", ""),
        ('asm("x" : "=r"(a));', ""),
        ("asm(", ""),
        ("asm(", ")" * 400),
        ("extern __shared__ int x[];", ""),
        ("#include <mma.h>\n", ""),
    ],
)
def test_twice_the_text_is_twice_the_work(text: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert work(text * 200 + end, monkeypatch) < 2.5 * work(text * 100 + end[: len(end) // 2], monkeypatch)


def test_assembly_inside_assembly_is_not_modelled() -> None:
    with pytest.raises(NotTranslated, match="inside another"):
        translated('asm("x" : : "r"(({ asm("y"); 1; })));')


def test_a_translation_can_be_given_up() -> None:
    asked = []
    with pytest.raises(OutOfTime):
        translated("k<<<1>>>();" * 9, lambda: len(asked) == 5 or asked.append(0) is not None)


def test_a_translation_counts_as_compiling() -> None:
    rules = replace(default_rules(), compile=replace(default_rules().compile, timeout_s=-1.0))
    shop = Workshop(Path("none"), rules, Paths(Path("none")))
    done = EmulatedCuda(Path("none")).compile(Source("k<<<1>>>();", "cuda"), shop)
    assert done.exit_code is None

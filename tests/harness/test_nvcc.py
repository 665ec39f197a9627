"""CUDA builds: the steps of nvcc, what its complaints mean, and real compilations where there is an nvcc."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, SupervisorError, default_rules
from benchmarks.harness.compilers import builds, nvcc
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.compilers.missing_names import more_headers_may_help
from benchmarks.harness.compilers.nvcc import Nvcc, needs, operator_headers, resources_in
from benchmarks.harness.compilers.nvcc_plan import MODULE_ID, NvccPlan, plan_of
from benchmarks.harness.compilers.toolchain import KernelResources, torch_folder
from tests.built import Kept

RULES = default_rules()
SOURCES = Path(__file__).parent / "cuda_sources"
PLAN = """\
#$ _SPACE_=
#$ PATH=/opt/cuda/bin:/usr/bin
#$ CICC_PATH=/opt/cuda/nvvm/bin
#$ gcc -E "a.cu" -o "/p/a.cpp4.ii"
#$ cudafe++ --gen_c_file_name "/p/a.cudafe1.cpp" --gen_module_id_file --module_id_file_name "/p/id" "/p/a.cpp4.ii"
#$ gcc -D__CUDA_ARCH__=900 -E "a.cu" -o "/p/a.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "/p/id" --stub_file_name "/p/a.stub.c" "/p/a.cpp1.ii" -o "/p/a.ptx"
#$ ptxas -v "/p/a.ptx" -o "/p/a.cubin"
#$ fatbinary --embedded-fatbin="/p/a.fatbin.c"
#$ rm /tmp/a.fatbin
#$ gcc -c -x c++ "/p/a.cudafe1.cpp" -o "a.o"
"""
ASSEMBLER = """\
ptxas info    : 0 bytes gmem
a warning of the compiler
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function '_Z1jPf' for 'sm_90a'
ptxas info    : Function properties for _Z1jPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""


@pytest.fixture
def compiler(sandbox: None) -> None:
    try:
        nvcc.cuda_folder()
    except SupervisorError as error:
        pytest.skip(str(error))


def planned() -> NvccPlan:
    plan = plan_of(PLAN)
    assert plan is not None
    return plan


def test_each_front_end_has_its_own_steps() -> None:
    plan = planned()
    assert all("export PATH=/opt/cuda/bin:/usr/bin" in part for part in (plan.host, plan.device, plan.last))
    assert [word in plan.host for word in ("a.cpp4.ii", "cudafe++", "cicc")] == [True, True, False]
    device = [word in plan.device for word in ("a.cpp1.ii", "cicc", "ptxas", "a.cudafe1.cpp")]
    assert device == [True, True, True, False]
    assert "a.cudafe1.cpp" in plan.last
    assert "apart ptxas" in plan.device
    assert (plan.host_file, plan.device_files) == ("/p/a.cudafe1.cpp", ("/p/a.stub.c", "/p/a.fatbin.c"))


def test_the_module_id_is_given_and_not_made() -> None:
    plan = planned()
    assert "--gen_module_id_file" not in plan.host
    assert all(part.count(f'--module_id_file_name "{MODULE_ID}"') == 1 for part in (plan.host, plan.device))


LEFT = ["cudafe++", "cicc", "--gen_module_id_file", "#$ gcc -c", "--gen_c_file_name", "--stub_file_name", "--embedded"]


@pytest.mark.parametrize("without", LEFT)
def test_steps_of_another_form_are_left_to_nvcc(without: str) -> None:
    assert plan_of(PLAN.replace(without, "other")) is None


def test_what_nvcc_says_in_place_of_steps_is_no_plan() -> None:
    assert plan_of("nvcc fatal   : Unsupported gpu architecture 'compute_12a'\n") is None


def test_what_each_kernel_uses_moves_from_the_log_to_records() -> None:
    log, resources = resources_in(ASSEMBLER)
    assert log == "a warning of the compiler\n"
    assert resources == (
        KernelResources("_Z1kPf", 40, 16, 8, 4, 2048),
        KernelResources("_Z1jPf", 8, 0, 0, 0, 0),
    )


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 13], ids=len)
def test_a_figure_that_no_assembler_prints_is_none(digits: str) -> None:
    """Python converts no number of so many digits."""
    for figure in ("8 bytes stack frame", "Used 40 registers", "2048 bytes smem"):
        log = ASSEMBLER.replace(figure, f"{digits} {figure.partition(' ')[2]}")
        assert digits not in str(resources_in(log))


def test_a_name_longer_than_a_path_is_no_operator() -> None:
    assert operator_headers(f"at::{'a' * 5000}(x); at::linear(a, b);") == "#include <ATen/ops/linear.h>\n"


def test_operators_are_found_by_name() -> None:
    found = operator_headers("auto y = torch::empty_like(x); at::linear(a, b); torch::kFloat32; at::no_such(x);")
    assert found == "#include <ATen/ops/empty_like.h>\n#include <ATen/ops/linear.h>\n"


def test_operators_are_found_without_their_namespace_where_it_is_used() -> None:
    text = "auto y = zeros_like(x); y.sum();"
    assert operator_headers(text) == ""
    assert operator_headers("using namespace torch;" + text) == "#include <ATen/ops/zeros_like.h>\n"


def test_what_the_thinnest_headers_hide_is_there_for_sources_that_name_it() -> None:
    assert needs("at::globalContext().setAllowTF32CuBLAS(false);") == "#define KBENCH_NEEDS_CONTEXT\n"
    assert needs("auto handle = at::cuda::getCurrentCUDABlasHandle();") == "#define KBENCH_NEEDS_CUDA_LIBRARIES\n"
    assert needs("at::linear(x, w);") == ""


@pytest.mark.parametrize(
    ("log", "helps"),
    [
        ('a.cu(3): error: namespace "at" has no member "globalContext"', True),
        ('a.cu(3): error: namespace "at" has no member "surely_no_word_of_torch"', False),
        ('a.cu(3): error: identifier "TORCH_CUDABLAS_CHECK" is undefined', True),
        ('a.cu(3): error: identifier "surely_no_word_of_torch" is undefined', False),
        ('a.cu(3): error: name followed by "::" must be a class or namespace name', True),
        ('a.h(9): error: incomplete type "caster" is not allowed', True),
        ('a.cu(3): error: expected a ";"', False),
        ("a.cu:1:10: fatal error: no_such.h: No such file or directory", False),
    ],
)
def test_more_headers_are_tried_where_they_may_help(log: str, helps: bool) -> None:
    assert more_headers_may_help(log, torch_folder() / "include") is helps


@pytest.mark.parametrize(("length", "helps"), [(200, True), (201, False)])
def test_a_name_longer_than_any_is_not_looked_for(tmp_path: Path, length: int, helps: bool) -> None:
    name = "z" * length
    (tmp_path / "torch.h").write_text(f"int {name};\n")
    assert more_headers_may_help(f'a.cu(3): error: identifier "{name}" is undefined', tmp_path) is helps


def test_no_compiler_is_our_fault_and_says_so(monkeypatch: pytest.MonkeyPatch, paths: Paths, tmp_path: Path) -> None:
    monkeypatch.setattr(nvcc, "_candidates", lambda: iter([tmp_path / "nvcc"]))
    for name in ("cuda_folder", "_nvcc_version"):
        monkeypatch.setattr(nvcc, name, getattr(nvcc, name).__wrapped__)
    with pytest.raises(SupervisorError, match="there is no CUDA compiler on this machine"):
        builds.build(Source("any", "cuda"), RULES, paths)


def test_a_compiler_behind_a_script_is_found(compiler: None, tmp_path: Path) -> None:
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {nvcc.cuda_folder()}/bin/nvcc "$@"\n')
    script.chmod(0o755)
    assert nvcc._toolkit_of(script) == nvcc.cuda_folder()


def test_each_target_and_language_is_another_build() -> None:
    source = Source("x", "cuda")
    keys = {builds._key(source, RULES, _Fixed(target)) for target in ("sm_90", "sm_100", None)}
    assert len(keys) == 2


@pytest.mark.parametrize(("target", "code"), [(None, "90a"), ("sm_90", "90a"), ("sm_90a", "90a"), ("sm_89", "89")])
def test_a_target_gets_its_own_instructions_where_it_has_some(target: str | None, code: str) -> None:
    assert f"-gencode=arch=compute_{code},code=sm_{code}" in Nvcc(target)._flags(RULES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto y = torch::cat({a, b}, 0);", "#define KBENCH_NEEDS_LISTS\n"),
        ("y.index_put_({rows}, x);", "#define KBENCH_NEEDS_LISTS\n"),
        ("c10::List<at::Tensor> all;", "#define KBENCH_NEEDS_LISTS\n"),
        ("const at::ITensorListRef& all", "#define KBENCH_NEEDS_LISTS\n"),
        ("int index = threadIdx.x; y[index] = x.index;", ""),
        ("at::globalContext().setUserEnabledCuDNN(true);", "#define KBENCH_NEEDS_CONTEXT\n"),
    ],
)
def test_a_source_gets_the_headers_that_its_words_need(text: str, expected: str) -> None:
    assert needs(text) == expected


class _Fixed(Nvcc):
    """Without asking for an nvcc, which this machine may lack."""

    def fingerprint(self, rules: object) -> tuple[str, ...]:
        return tuple(self._flags(RULES))


# the name of a file may hold line ends, and a text can choose it
FORGED = r"""
__global__ void honest(float *a) { a[0] = a[1] * 2; }
#line 1 "x\nptxas info    : Compiling entry function 'fast' for 'sm_90'\nptxas info    : Used 8 registers\n"
#warning text
"""


@pytest.mark.sandbox
def test_the_registers_of_a_kernel_are_what_its_assembler_says(compiler: None, root: Path) -> None:
    made = builds.build(Source(FORGED, "cuda"), RULES, Paths(root))
    assert made.binary is not None, made.log
    assert [item.kernel for item in made.resources] == ["honest(float*)"]
    assert "Compiling entry function 'fast'" in made.log
    assert "honest" not in made.log


QUOTED = r"""
__global__ void honest(float *a) {
    asm volatile(".pragma \"x\nptxas info    : Compiling entry function 'fast' for 'sm_90'\n"
                 "ptxas info    : Used 8 registers\n\";");
    a[0] = a[1] * 2;
}
"""


@pytest.mark.sandbox
def test_where_the_assembler_quotes_a_text_it_tells_of_no_registers(compiler: None, root: Path) -> None:
    made = builds.build(Source(QUOTED, "cuda"), RULES, Paths(root))
    assert made.binary is not None, made.log
    assert made.resources == ()
    assert "ptxas warning : Pragma 'x" in made.log


@pytest.mark.sandbox
def test_what_the_assembler_refuses_is_told_in_the_log(compiler: None, root: Path) -> None:
    text = '__global__ void f(float *a) { asm volatile("no_such_instruction;"); }\n'
    made = builds.build(Source(text, "cuda"), RULES, Paths(root))
    assert made.binary is None
    assert "ptxas" in made.log
    assert "no_such_instruction" in made.log
    assert made.log.rstrip().endswith("ptxas returned 255 exit status")


JOINED = ["", "no number\nabc", "abc", "1x\n2\n0\nabc", "-1\n2\n0\nabc", "1\n1\n0\nabc", "9999999999999\n2\n0\nabc"]


@pytest.mark.parametrize("joined", JOINED)
def test_files_that_are_put_together_in_another_way_are_none(tmp_path: Path, joined: str) -> None:
    """A compiler that was taken over writes what it likes."""
    (tmp_path / "joined").write_text(joined)
    assert nvcc._parted(tmp_path / "joined", 3) is None


def test_files_that_were_put_together_are_parted(tmp_path: Path) -> None:
    (tmp_path / "joined").write_bytes(b"3\n0\n2\na\nb\n\n")
    parts = nvcc._parted(tmp_path / "joined", 3)
    assert parts is not None
    assert [part.read_bytes() for part in parts] == [b"a\nb", b"", b"\n\n"]


@pytest.mark.sandbox
def test_what_cannot_be_parted_is_the_fault_of_the_text(
    compiler: None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc, "_parted", lambda *_: None)
    made = builds.build(Source(FORGED, "cuda"), RULES, Paths(root))
    assert (made.binary, made.exit_code) == (None, 1)
    assert made.problem == "the compiler of the device left other files than it should"


Compile = Callable[[str], Build]


@pytest.fixture
def compile_source(compiler: None, paths: Paths) -> Compile:
    return lambda name: builds.build(Source((SOURCES / name).read_text(), "cuda"), RULES, paths)


def built_with(tier: str, name: str, paths: Paths) -> Build:
    """The build of a source with this choice of headers and no other one."""
    toolchain = Kept(Nvcc(None, tiers=(tier,)), (tier,))
    result = builds.build_with(toolchain, Source((SOURCES / name).read_text(), "cuda"), RULES, paths)
    assert result.binary is not None, result.log
    return result


# few real compilations; `python -m lab.bench.compile` compiles all sources with all headers
CALL = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import kbench_submission as module
x = torch.ones(1, 1, 4, 4)
y = module.backward((x,), torch.ones(1, 1, 2, 2), [1, 1, 4, 4])
print(tuple(y.shape), module.about())
try:
    module.backward(x, x, [1])
except TypeError:
    print("TypeError")
"""


@pytest.mark.sandbox
def test_the_thinnest_headers_are_enough_and_bind_to_python(compiler: None, paths: Paths, tmp_path: Path) -> None:
    result = built_with("thinnest", "py_tuple.cu", paths)
    assert [(item.kernel, item.spill_store_bytes) for item in result.resources] == [
        ("pool_backward(float4 const*, float4*, long, float)", 0)
    ]
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(result.binary.parent)],
        env={"LD_LIBRARY_PATH": str(nvcc.cuda_folder() / "lib64")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["(1, 1, 4, 4) mean pooling", "TypeError"], done.stderr


@pytest.mark.sandbox
def test_the_small_binding_is_enough_for_functions_of_tensors(compiler: None, paths: Paths) -> None:
    result = built_with("binding", "elementwise.cu", paths)
    assert b"__pybind11_internals" not in result.binary.read_bytes()


@pytest.mark.sandbox
def test_what_the_thinnest_headers_lack_is_built_with_thin_ones(compile_source: Compile) -> None:
    result = compile_source("context.cu")
    assert result.binary is not None, result.log


@pytest.mark.sandbox
def test_a_wrong_source_is_refused_at_once_with_its_line(compiler: None, paths: Paths, tmp_path: Path) -> None:
    text = (SOURCES / "elementwise.cu").read_text().replace("silu_kernel<<<", "surely_no_word_of_torch<<<")
    result = builds.build(Source(text, "cuda"), RULES, paths)
    assert result.binary is None
    assert result.log.count('identifier "surely_no_word_of_torch" is undefined') == 1
    assert "kbench_submission.cu(16): error" in result.log


@pytest.mark.sandbox
@pytest.mark.parametrize("line", ['#include "/etc/passwd"', 'asm(".incbin \\"/etc/passwd\\"");'])
def test_files_of_the_machine_cannot_be_read_by_nvcc(compiler: None, paths: Paths, line: str) -> None:
    result = builds.build(Source(line, "cuda"), RULES, paths)
    assert result.binary is None
    assert "root:" not in result.log


def test_a_triton_source_is_kept_as_it_is(paths: Paths) -> None:
    text = "def forward(x):\n    return x\n"
    result = builds.build(Source(text, "triton"), RULES, paths)
    assert result.binary is not None
    assert result.binary.name == "kbench_submission.py"
    assert result.binary.read_text() == text


@pytest.mark.parametrize("text", ["def forward(x):\n    return (x\n", "(" * 5000, "x = '\0'"])
def test_a_triton_source_that_is_no_python_is_refused_with_its_line(paths: Paths, text: str) -> None:
    result = builds.build(Source(text, "triton"), RULES, paths)
    assert result.binary is None
    assert result.log.startswith("kbench_submission.py:")
    assert "error" in result.log

"""One text is one program, and what has the key of a program behaves like it.

Texts are built as submissions are, in a sandbox; a Python module that asks for extensions can still read the clock, so
its builds may differ, and have two keys then.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import (
    Paths,
    Source,
    SupervisorError,
    check_source,
    default_rules,
    default_suites,
    find_task,
)
from benchmarks.harness.child.shell import load_file
from benchmarks.harness.compilers import builds, nvcc, toolchain
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.compilers.identity import object_key
from benchmarks.harness.compilers.nvcc_plan import NvccPlan, plan_of
from benchmarks.harness.errors import IsolationError
from benchmarks.harness.sandbox import isolation

pytestmark = pytest.mark.sandbox
RULES = default_rules()
PLAIN = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'


def built(text: str, root: Path, language: str = "cpp") -> Build:
    try:
        return builds.build(Source(text, language), RULES, Paths(root))
    except SupervisorError as error:
        pytest.skip(str(error))


def keys_of_two_builds(text: str, root: Path, language: str = "cpp", between_s: float = 1.2) -> list[str | None]:
    """The object keys of one text, built twice, as on two workers or after the cache was emptied."""
    keys = []
    for _ in range(2):
        made = built(text, root, language)
        assert made.binary is not None, made.log + made.problem
        keys.append(object_key(Source(text, language), made))
        shutil.rmtree(root / "cache/builds")
        (root / "cache/builds").mkdir()
        time.sleep(between_s)
    return keys


def test_a_plain_text_has_one_key(root: Path) -> None:
    first, second = keys_of_two_builds(PLAIN, root)
    assert first == second


# what changes from build to build, tells of the machine, or is what other processes of the sandbox have open
CHANGING = (
    "/proc/uptime",
    "/proc/cpuinfo",
    "/proc/self/stat",
    "/proc/self/mountinfo",
    "/proc/self/fd/0",
    "/proc/1/environ",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/fd/2",
    "/dev/fd/3",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/sys/devices/system/cpu/online",
    "/etc/hostname",
    "/var/log/dpkg.log",
    "/usr/share/zoneinfo/tzdata.zi",
    "/usr/share/dpkg/cputable",
)
ASKS = "".join(f'#if __has_include("{path}")\n#error {path} is there\n#endif\n' for path in CHANGING)
CONTROL = '#if !__has_include("/usr/include/stdio.h")\n#error it sees nothing at all\n#endif\n'


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_a_compiler_sees_nothing_that_changes(root: Path, language: str) -> None:
    made = built(PLAIN + ASKS + CONTROL, root, language)
    assert made.binary is not None, made.log + made.problem


def test_an_assembler_reads_nothing_that_changes(root: Path) -> None:
    made = built(PLAIN + "".join(f'asm(".incbin \\"{path}\\",0,8");\n' for path in CHANGING), root)
    assert made.binary is None
    assert [path for path in CHANGING if f"file not found: {path}" not in made.log] == []


def slow(monkeypatch: pytest.MonkeyPatch, front: str, plans: list[NvccPlan] | None = None) -> None:
    """As on a machine whose processors have no time for one of nvcc's front ends."""

    def planned(dryrun: str) -> NvccPlan | None:
        plan = plan_of(dryrun)
        assert plan is not None
        if plans is not None:
            plans.append(plan)
        return replace(plan, **{front: f"sleep 4\n{getattr(plan, front)}"})

    monkeypatch.setattr(nvcc, "plan_of", planned)


SEES_THE_OTHER = """
#ifdef __CUDA_ARCH__
#if {of_host}
#error the device's front end sees what that of the host has made
#endif
#elif {of_device}
#error the host's front end sees what that of the device has made
#endif
"""


def test_no_front_end_of_nvcc_sees_files_of_the_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run side by side, so what one sees of the other depends on the moment."""
    plans: list[NvccPlan] = []
    with monkeypatch.context() as patched:
        slow(patched, "host", plans)
        built(PLAIN, root, "cuda")
    of_host, of_device = (
        " || ".join(f'__has_include("{name}")' for name in names)
        for names in ((plans[0].host_file,), plans[0].device_files)
    )
    asks = PLAIN + SEES_THE_OTHER.format(of_host=of_host, of_device=of_device)
    for front in ("host", "device"):
        with monkeypatch.context() as patched:
            slow(patched, front)
            made = built(asks, root, "cuda")
        assert made.binary is not None, made.log


# g++ -E leaves a lone backslash at the end of a line; EDG joins the lines, and %: is # to it. The host's preprocessor
# prints the name of the file in front of each warning, and a text chooses this name.
BY_THE_MOMENT = """
#define P %\\/**/
constexpr int factor = 2;
namespace inner {
#ifdef __CUDA_ARCH__
P
: include "host.log"
#endif
__global__ void kernel(float* y) { y[threadIdx.x] *= factor; }
}
#ifndef __CUDA_ARCH__
#line 1 "constexpr int factor = 3; //"
#warning here
#endif
"""


def test_no_directive_that_is_left_includes_what_lies_beside_its_input(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, "device")
    made = built(PLAIN + BY_THE_MOMENT, root, "cuda")
    assert made.binary is None
    assert 'cannot open source file "host.log"' in made.log


HIDDEN_NAMES = (
    PLAIN
    + """
static __device__ float kept[4];
namespace { __global__ void kernel(float* y) { kept[threadIdx.x] += y[0]; y[threadIdx.x] = kept[threadIdx.x]; } }
void starts(float* y) { kernel<<<1, 4>>>(y); }
"""
)


def test_a_text_is_one_program_also_where_nvcc_was_killed_before_it_told_its_steps(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = built(HIDDEN_NAMES, root, "cuda")
    real, asked = nvcc.Workshop.run, []

    def killed_once(self: Any, argv: Any, room: Any, **rest: Any) -> Any:
        argv = list(argv)
        made = real(self, argv, room, **rest)
        asked.append("--dryrun" in argv)
        return nvcc.Compilation(-signal.SIGKILL, "") if asked.count(True) == 1 and asked[-1] else made

    monkeypatch.setattr(nvcc.Workshop, "run", killed_once)
    shutil.rmtree(root / "cache/builds")
    (root / "cache/builds").mkdir()
    again = built(HIDDEN_NAMES, root, "cuda")
    assert asked.count(True) == 2
    source = Source(HIDDEN_NAMES, "cuda")
    assert object_key(source, again) == object_key(source, usual)


def files_of_the_host() -> list[str]:
    """The list of all libraries, which each installation changes, and files that an operator has put there by hand."""
    places = ("/usr/local/etc", "/usr/local/bin", "/usr/local/share")
    found = [path for place in places for path in Path(place).rglob("*")]
    own = [str(path) for path in found if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)]
    return ["/etc/ld.so.cache", *own[:3]]


def test_a_compiler_reads_nothing_that_belongs_to_the_host(root: Path) -> None:
    """It quotes what it does not understand, and an assembler puts any file into the program."""
    for path in files_of_the_host():
        made = built(PLAIN + f'asm(".pushsection .rodata\\n.incbin \\"{path}\\",0,4\\n.popsection");\n', root)
        assert made.binary is None, path
        assert f"file not found: {path}" in made.log
    included = "".join(f'#include "{path}"\n' for path in files_of_the_host())
    log = built(included + PLAIN, root).log
    assert log.count("No such file or directory") == 1, log  # g++ stops at the first one


def test_compilers_have_the_same_stack_whatever_a_worker_has(tmp_path: Path, sandbox: None) -> None:
    room, log = isolation.Room(python=False, system=False), tmp_path / "log"
    child = isolation.spawn(["sh", "-c", "ulimit -Ss; ulimit -Hs"], room, log)
    while child.wait(0.1) is None:
        pass
    child.kill()
    assert child.log_tail(100).split() == ["65536", "65536"]


def test_a_worker_with_too_small_a_stack_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.resource, "getrlimit", lambda _: (8 << 20, 8 << 20))
    with pytest.raises(IsolationError, match="stack of 67108864 bytes"):
        isolation._limits(isolation.Room(system=False))


RENAMED = """
#ifdef __CUDACC__
template <typename T> __device__ static T halved(T %(name)s) { return %(name)s / 2; }
__global__ void kernel(float* y) { float %(name)s = y[threadIdx.x]; y[threadIdx.x] = halved(%(name)s); }
#endif
static int kept_%(name)s(int %(name)s) { asm volatile(""); return %(name)s / 3; }
extern "C" __attribute__((visibility("default"))) int third(int %(name)s) { return kept_%(name)s(%(name)s); }
"""


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_names_of_variables_are_no_part_of_a_program(root: Path, language: str) -> None:
    keys = []
    for name in ("x", "other_name"):
        text = RENAMED % {"name": name}
        made = built(text, root, language)
        assert made.binary is not None, made.log
        keys.append(object_key(Source(text, language), made))
    assert keys[0] == keys[1]


UNLOADED = r"""asm(".section .kept,\"\",@progbits\n.ascii \"kept: %s\"\n.text");"""


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_what_a_program_can_read_of_its_own_file_is_part_of_it(root: Path, language: str) -> None:
    """It finds the file by /proc/self/maps."""
    keys = []
    for word in ("fast", "slow"):
        text = PLAIN + UNLOADED % word + "\n"
        made = built(text, root, language)
        assert made.binary is not None, made.log
        assert f"kept: {word}".encode() in made.binary.read_bytes()
        keys.append(object_key(Source(text, language), made))
    assert keys[0] != keys[1]


NOTE = """
asm(".section .hidden,\\"ax\\",@note\\n.globl answer\\nanswer: mov $%d,%%eax\\nret\\n.text");
"""


def test_code_in_a_note_is_part_of_a_program(root: Path) -> None:
    """Who executes a note runs what the key leaves out."""
    texts = [NOTE % number for number in (1, 2)]
    mades = [built(text, root) for text in texts]
    for made in mades:
        assert made.binary is not None, made.log
    first, second = (object_key(Source(text, "cpp"), made) for text, made in zip(texts, mades, strict=True))
    answers = [answer_of(made) for made in mades]
    assert answers == [1, 2]
    assert first != second


def answer_of(made: Build) -> int:
    script = "import ctypes, sys, torch; print(ctypes.CDLL(sys.argv[1]).answer())"
    shown = subprocess.run(
        [sys.executable, "-c", script, str(made.binary)], capture_output=True, text=True, check=True, timeout=120
    )
    return int(shown.stdout)


HONEST = "def forward(x):\n    return x + 1\n"


@pytest.mark.parametrize("language", ["triton", "python"])
def test_no_comment_of_a_python_text_becomes_code(root: Path, language: str) -> None:
    """An honest text of somebody else, with a comment in front of it and one behind."""
    hidden = "# coding: unicode_escape\n" + HONEST + "# \\x0adef forward(x): return x + 2\n"
    for text in (HONEST, hidden):
        made = built(text, root, language)
        assert made.binary is not None, made.log
        place = made.binary / "module.py" if made.binary.is_dir() else made.binary
        shutil.copyfile(place, root / "module.py")
        assert load_file(str(root / "module.py")).forward(1) == 2


@pytest.mark.parametrize(
    ("head", "refused"),
    [
        ("# coding: unicode_escape\n", True),
        ("\n# vim: set fileencoding=utf-7 :\n", True),
        ("# coding: there-is-none\n", True),
        ("# -*- coding: utf-8 -*-\n", False),
        ("\n\n# coding: utf-7\n", False),
    ],
)
def test_an_encoding_is_refused_that_readers_do_not_see(head: str, refused: bool) -> None:
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    problem = check_source(Source(f"{head}def forward(x, w, b):\n    return x\n", "triton"), task, RULES).problem
    assert (problem is not None) == refused


BY_THE_CLOCK = """
import time
import torch
from torch.utils.cpp_extension import load_inline
fused = load_inline("fused", cpp_sources="#define SECOND " + str(int(time.time())) + '''
#include <torch/extension.h>
torch::Tensor add(torch::Tensor x) { return x + SECOND; }''', functions=["add"])
class ModelNew(torch.nn.Module):
    def forward(self, x): return x
"""


def test_the_key_of_a_module_holds_the_extensions_that_it_asked_for(root: Path) -> None:
    found = []
    for _ in range(2):
        made = built(BY_THE_CLOCK, root, "python")
        assert made.binary is not None, made.log + made.problem
        extension = (made.binary / "extension0.so").read_bytes()
        found.append((extension, object_key(Source(BY_THE_CLOCK, "python"), made)))
        shutil.rmtree(root / "cache/builds")
        (root / "cache/builds").mkdir()
        time.sleep(1.1)
    (first, its_key), (second, other_key) = found
    assert (first == second) == (its_key == other_key)


def test_names_that_a_compiler_draws_are_not_in_the_key(root: Path) -> None:
    text = (
        'namespace { struct Early { Early() { asm volatile(""); } } early; }\nstatic int f() { return __COUNTER__; }\n'
    )
    first, second = keys_of_two_builds(text + "static int (*volatile kept)() = f; static int got = kept();\n", root)
    assert first == second


# From glibc 2.41 on, dlopen refuses a library that wants this; earlier ones make all stacks executable
EXECUTABLE_STACK = 'asm(".section .note.GNU-stack,\\"x\\",@progbits\\n.text");\n'


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_what_a_stranger_asks_of_the_loader_is_part_of_a_program(root: Path, language: str) -> None:
    """A refusal of what has an entry's compiled code puts the entry under review (`boards/reviews.py`)."""
    keys, stacks = [], []
    for text in (PLAIN, PLAIN + EXECUTABLE_STACK):
        made = built(text, root, language)
        assert made.binary is not None, made.log
        keys.append(object_key(Source(text, language), made))
        shown = subprocess.run(["readelf", "-lW", made.binary], capture_output=True, text=True, check=True).stdout
        stacks.append(next(line.split()[6] for line in shown.splitlines() if "GNU_STACK" in line))
    assert stacks == ["RW", "RWE"]
    assert keys[0] != keys[1]


VISIBLE = 'extern "C" __attribute__((visibility("default"))) '
ADMITTED = "#if 1\n/* */\n#endif\n#define PYBIND11_MODULE(name, m) static int forward\nPYBIND11_MODULE(a, b);\n"


def bytecode(inner: str, folder: Path, *, options: str) -> str:
    """`inner` as LTO bytecode in one top-level asm, with `options` among those that lto-wrapper reads."""
    (folder / "inner.cpp").write_text(inner)
    flags = ["-O1", "-fPIC", "-std=c++20", "-fvisibility=hidden", "-flto", "-S"]
    subprocess.run(["g++", *flags, "inner.cpp", "-o", "inner.s"], cwd=folder, check=True)
    lines = [line for line in (folder / "inner.s").read_text().splitlines() if not line.startswith("\t.ident")]
    made = "\n".join(lines).replace("'-O1'", f"'-O1' {options}")
    assert options in made
    made = made.replace("'", "\\047")  # no single quote: see RUNS
    return f'asm(R"=====(\n{made}\n)=====");\n'


# g++ is started as "g++ ... -Xassembler @kbench_submission.cpp": the text itself becomes options of the driver. Its
# first word is eaten by -Xassembler, all behind the lone quote is the operand of -Xpreprocessor.
RUNS = (
    '#pragma -wrapper "sh,-c,exec >&2; %s; for x; do shift; case $x in [#]*);; *) set -- $@ $x;; esac; done; '
    "exec $0 $@\" -Xpreprocessor '\n"
)


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_no_text_runs_programs_while_it_is_compiled(root: Path, language: str) -> None:
    """LTO bytecode in an asm makes the linker start lto-wrapper, with options of the text's choice."""
    inner = (
        'asm(".pushsection .rodata\\n.incbin \\"/tmp/clock\\"\\n.popsection");\n'
        + VISIBLE
        + "int answer() { return 42; }\n"
    )
    suffix = "cpp" if language == "cpp" else "cu"
    options = f"'-Xassembler' '@/kbench/given/kbench_submission.{suffix}'"
    command = "echo CLOCK $(date +%s.%N) $(uname -r) >/tmp/clock; echo I RAN $(id)"
    text = RUNS % command + ADMITTED + bytecode(inner, root, options=options)
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    assert check_source(Source(text, language), task, RULES).problem is None
    made = built(text, root, language)
    assert "I RAN uid=" not in made.log
    assert "needed to handle lto object" in made.log


def test_no_text_has_its_program_depend_on_random_names(root: Path) -> None:
    """Without the trick of the response file: the assembler of the first partition writes the names of its files."""
    pad = 15 * ('asm volatile("' + 999 * ";" + '");')
    inner = f"{VISIBLE} __attribute__((noinline)) int f1() {{ {pad} return 1; }}\n"
    reads = 'asm volatile(".pushsection .rodata\\n.incbin \\"/tmp/dep\\"\\n.popsection");'
    inner += f"{VISIBLE} __attribute__((noinline)) int f2() {{ {reads} {pad} return 2; }}\n"
    text = bytecode(inner, root, options="'-Xassembler' '--MD' '-Xassembler' '/tmp/dep'")
    assert len(text) < RULES.source.max_bytes
    made = built(text, root)
    assert made.binary is None or b"ltrans" not in made.binary.read_bytes()


BY_THE_SECOND = f"""
#undef __TIMESTAMP__
{VISIBLE} int answer() {{
  int n = 0;
  #pragma omp parallel num_threads(1 + __TIMESTAMP__[18] - '0')
  n = 1;
  return n;
}}
"""


def test_no_cuda_text_learns_the_time(root: Path) -> None:
    """Undefined, the macro goes through the first preprocessor and cudafe++; the last g++ expands it in a pragma of
    OpenMP: when cudafe1.cpp was written."""
    first, second = keys_of_two_builds(BY_THE_SECOND, root, "cuda", between_s=2.1)
    assert first == second


PLACE = 'asm volatile(".pushsection .rodata\\n.ascii \\"PLACE=" __BASE_FILE__ "\\"\\n.popsection");'
BY_THE_PLACE = f"""
#undef __BASE_FILE__
{VISIBLE} int answer() {{
  int n = 0;
  #pragma omp parallel num_threads(({{ {PLACE} 1; }}))
  n = 1;
  return n;
}}
"""


def test_no_cuda_text_learns_its_place(root: Path) -> None:
    made = built(BY_THE_PLACE, root, "cuda")
    assert made.binary is not None, made.log
    assert b"PLACE=kbench_submission.cu" in made.binary.read_bytes()


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_builds_without_bubblewrap(root: Path, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weak = functools.cache(lambda: isolation.Isolation("seccomp", False, "weak"))
    monkeypatch.setattr(isolation, "isolation_in_force", weak)
    monkeypatch.setattr(toolchain, "isolation_in_force", weak)
    monkeypatch.setattr(isolation, "tasks_are_limited", lambda: False)
    made = built(VISIBLE + "int answer() { return 42; }\n", root, language)
    assert made.binary is not None, made.log


READS_ITSELF = """# %s
FAST = "# fast" in open(__file__).read()
def forward(x, w, b):
    return (x @ w + b).relu() if FAST else x
"""


@pytest.mark.parametrize("language", ["triton", "python"])
def test_equal_keys_of_python_texts_behave_alike(root: Path, language: str) -> None:
    keys = []
    for word in ("fast", "slow"):
        text = READS_ITSELF % word
        made = built(text, root, language)
        assert made.binary is not None
        keys.append(object_key(Source(text, language), made))
    assert keys[0] != keys[1]


READS_HEADERS = 'asm(".incbin \\"/kbench/precompiled/kbench.h.gch\\",2500000,4000000");\n'


def test_no_text_reads_the_precompiled_header(root: Path) -> None:
    """It holds addresses of the process that made it: another one on each machine, and after the cache was lost."""
    made = built(PLAIN + READS_HEADERS, root)
    assert made.binary is None
    assert "file not found: /kbench/precompiled/kbench.h.gch" in made.log


TIME_OF_A_HEADER = f"""
#include <ATen/Utils.h>
#undef AT_DISALLOW_COPY_AND_ASSIGN
#define AT_DISALLOW_COPY_AND_ASSIGN(name) static const char* when() {{ return __TIMESTAMP__; }}
#include <ATen/DynamicLibrary.h>
{VISIBLE} const char* answer() {{ return at::DynamicLibrary::when(); }}
"""


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_no_text_learns_when_a_header_was_installed(root: Path, language: str) -> None:
    """Two machines with the same torch and checkout differ in it; both keys of the build are equal."""
    header = toolchain.torch_folder() / "include/ATen/DynamicLibrary.h"
    when = time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(header.stat().st_mtime))
    made = built(TIME_OF_A_HEADER, root, language)
    assert made.binary is not None, made.log
    assert when.encode() not in made.binary.read_bytes()


# g++ -E prints a # that comes from a macro behind a space, and takes it for no directive. EDG, which reads that output
# in cudafe++ and in cicc, obeys it and looks beside its input, where the other front end writes.
DIRECTIVE = '#define H #\n#%s __CUDA_ARCH__\nH include "%s"\n#endif\n'


@pytest.mark.parametrize(("side", "log"), [("ifdef", "host.log"), ("ifndef", "device.log")])
def test_no_front_end_of_nvcc_includes_what_lies_beside_its_input(root: Path, side: str, log: str) -> None:
    made = built(DIRECTIVE % (side, log) + PLAIN, root, "cuda")
    assert made.binary is None
    assert f'cannot open source file "{log}"' in made.log


def test_assembly_that_looks_like_a_directive_is_compiled(root: Path) -> None:
    text = 'static const char* kept = R"(\n  # include "x"\n  #pragma y\n)";\n'
    made = built(text + PLAIN.replace("42", "kept[0]"), root, "cuda")
    assert made.binary is not None, made.log


BY_A_COIN = """
import os
from torch.utils.cpp_extension import load_inline
CODE = "#include <torch/extension.h>\\nint one() { return 1; }\\n"
WAYS = ["fast", "slow"]
if os.path.isfile("/kbench/given/module.py"):  # it is built
    WAYS = [WAYS[os.urandom(1)[0] & 1]]
for WAY in WAYS:
    try:
        load_inline(WAY, cpp_sources=CODE, functions=["one"])
        break
    except RuntimeError:  # NotPrepared
        pass
import torch
class ModelNew(torch.nn.Module):
    way = WAY
    def forward(self, x): return x
"""
WAY_OF = "import sys, torch; from benchmarks.harness.child.modules import loaded_build; "
WAY_OF += "print(loaded_build(sys.argv[1]).ModelNew.way)"


def way_of(made: Build) -> str:
    command, root = [sys.executable, "-c", WAY_OF, str(made.binary)], Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def test_equal_keys_of_modules_behave_alike(root: Path) -> None:
    """Who draws lots at the top level gets two programs of one text: what `load_inline` knows belongs to it."""
    seen: dict[str, str | None] = {}
    for _ in range(9):
        made = builds.build(Source(BY_A_COIN, "python"), RULES, Paths(root))
        assert made.binary is not None, made.log + made.problem
        seen.setdefault((made.binary / "extensions.json").read_text(), object_key(Source(BY_A_COIN, "python"), made))
        if len(seen) == 2:
            other = made
            break
        shutil.rmtree(root / "first", ignore_errors=True)
        (root / "cache/builds").rename(root / "first")
        (root / "cache/builds").mkdir()
    assert len(seen) == 2
    first = next((root / "first").glob("*/kbench_submission.model"))
    ways = [way_of(other), way_of(Build(first, "", 0.0, cached=False, exit_code=0))]
    assert sorted(ways) == ["fast", "slow"]
    assert len(set(seen.values())) == 2

"""A text is built to the same program, with the same log, whatever becomes of the machine meanwhile.

Processes of a build are killed as Linux does it where memory runs out, and headers cannot be precompiled as where the
disk is full. Not covered: what a text itself can make differ (`test_one_program.py`), and caches (`test_builds.py`).
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Rules, Source, default_rules
from benchmarks.harness.compilers import builds, gxx, toolchain, tvm_ffi
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.compilers.gxx import Gxx
from benchmarks.harness.compilers.toolchain import Compilation, Workshop, is_of_the_machine

pytestmark = pytest.mark.sandbox
RULES = default_rules()
VISIBLE = 'extern "C" __attribute__((visibility("default"))) '
PLAIN = VISIBLE + "int answer() { return 42; }\n"
MARKED = 'asm(".pushsection .rodata\\n.ascii \\"%s\\"\\n.popsection");\n'


@pytest.fixture
def short_header(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of ours, which takes long as a text."""
    (root / "ours").mkdir()
    (root / "ours/kbench.h").write_text("struct Twice {};\n")
    monkeypatch.setattr(gxx, "prepare_headers", lambda *_: root / "ours")


def built(text: str, root: Path, language: str = "cpp") -> Build:
    """As on another worker: nothing of an earlier build is left."""
    shutil.rmtree(root / "cache/builds")
    (root / "cache/builds").mkdir()
    return builds.build(Source(text, language), RULES, Paths(root))


# ------------------------------------------------------------------- processes that the machine has killed
KILLED = f"""
{PLAIN}
#warning pybind11
#if __has_include(<pybind11/../../names.h>)
constexpr long slow() {{
  long sum = 0;
  for (long i = 0; i < 1000; i++) for (long j = 0; j < 1000; j++) sum += i ^ j;
  return sum;
}}
constexpr long kept = slow();
#else
{MARKED % "BY OTHER HEADERS"}
#endif
"""
SLOW = 'asm(".pushsection .data\\n.rept 300000\\n.long . - .\\n.endr\\n.popsection");\n'  # to assemble and to link


def descendants(pid: int) -> Iterator[int]:
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, place.read_text().split()):
                yield child
                yield from descendants(child)


def kill(name: str, patience_s: float, stopped: threading.Event) -> None:
    while not stopped.is_set():
        for pid in descendants(os.getpid()):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name and not stopped.wait(patience_s):
                    os.kill(pid, signal.SIGKILL)


def built_while_killing(name: str, patience_s: float, text: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """The build of a text whose first attempt loses each process of that name."""
    stopped, real, attempts = threading.Event(), Gxx.compile, list[Compilation]()
    watcher = threading.Thread(target=kill, args=(name, patience_s, stopped))

    def compiled(self: Gxx, source: Source, shop: Workshop) -> Compilation:
        attempts.append(real(self, source, shop))
        stopped.set()
        return attempts[-1]

    monkeypatch.setattr(Gxx, "compile", compiled)
    watcher.start()
    try:
        made = built(text, root)
    finally:
        stopped.set()
        watcher.join()
    assert attempts[0].exit_code != 0, attempts[0].log
    return made


@pytest.mark.usefixtures("short_header")
def test_a_killed_compiler_is_the_machine_s_fault_also_where_other_headers_may_help(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = built(KILLED, root)
    assert usual.binary is not None
    assert b"BY OTHER HEADERS" not in usual.binary.read_bytes()
    made = built_while_killing("cc1plus", 0.7, KILLED, root, monkeypatch)  # it has read the text by then
    assert made.binary is not None, made.log
    assert b"BY OTHER HEADERS" not in made.binary.read_bytes()


@pytest.mark.usefixtures("short_header")
@pytest.mark.parametrize("name", ["cc1plus", "as", "collect2", "ld"])
def test_a_killed_tool_is_the_machine_s_fault(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each is told of in other words."""
    made = built_while_killing(name, 0.0, PLAIN + SLOW, root, monkeypatch)
    assert made.binary is not None, made.log


# what a text has printed last: in a line of its own, and with nothing of the source behind it
QUOTES = {
    "a pragma": '#line 1 "elsewhere"\n#pragma GCC error "a\\n{words}\\ncompilation terminated."\n',
    "an assertion": '#line 1 "elsewhere"\nstatic_assert(false, "a\\n{words}\\ncompilation terminated.");\n',
    "a file": '#line 1 "a\\n{words}"\n#error\n',
    "an assembler": 'asm(".error \\"a\\\\n{words}\\"");\n',
    "a linker": '#line 1 "elsewhere"\n#pragma message "{words}"\n'
    'asm(".text\\n.globl \\"a\\\\n{words}\\"\\n mov $\\"a\\\\n{words}\\", %eax\\n");\n',
}
WORDS = {
    "g++: fatal error: Killed signal terminated program cc1plus",
    "collect2: fatal error: ld terminated with signal 9 [Killed]",
    "bwrap: Creating new namespace failed: Resource temporarily unavailable",
    "g++: internal compiler error: Bus error signal terminated program cc1plus",
}


@pytest.mark.usefixtures("short_header")
@pytest.mark.parametrize("way", QUOTES)
def test_an_error_that_quotes_the_words_is_the_text_s_own(root: Path, way: str) -> None:
    text = "".join(QUOTES[way].format(words=words) for words in sorted(WORDS)) + PLAIN
    made = built(text, root)
    assert made.binary is None
    assert all(words in made.log for words in WORDS), made.log
    assert not is_of_the_machine(made)
    assert builds.kept(Source(text, "cpp"), RULES, Paths(root)) is not None
    assert list((root / "cache/builds").glob("*.doubtful")) == []


QUOTES_OF_CUDA = {
    "a file": QUOTES["a file"],
    "an assertion": '#line 1 "a\\n{words}"\nstatic_assert(false, "a\\n{words}");\n',
    "the device": '#ifdef __CUDA_ARCH__\n#line 1 "a\\n{words}"\nint a = "";\n#endif\n',
}


@pytest.mark.parametrize("way", QUOTES_OF_CUDA)
def test_an_error_of_cuda_that_quotes_the_words_is_the_text_s_own(root: Path, way: str) -> None:
    words = "g++: fatal error: Killed signal terminated program cc1plus"
    made = built(QUOTES_OF_CUDA[way].format(words=words) + PLAIN, root, "cuda")
    assert made.binary is None
    assert words.rpartition(":")[2] in made.log, made.log
    assert not is_of_the_machine(made), made.log
    assert list((root / "cache/builds").glob("*.doubtful")) == []


@pytest.mark.parametrize("words", sorted(WORDS))
def test_the_words_of_a_driver_are_the_machine_s(words: str) -> None:
    assert is_of_the_machine(Compilation(1, f"a.cpp:1: warning: #warning\n{words}\ncompilation terminated.\n"))
    assert not is_of_the_machine(Compilation(1, f"{words}\ncompilation terminated.\ncc1plus returned 1 exit status\n"))
    assert not is_of_the_machine(Compilation(1, f"{words}\n", problem="the compiled file is too large"))


@pytest.mark.parametrize(("code", "is_its_fault"), [(4, True), (1, False)])
def test_a_compiler_that_got_no_page_ends_with_a_code_of_its_own(code: int, is_its_fault: bool) -> None:
    log = f"a.cpp:1:1: internal compiler error: Bus error\ncc1plus returned {code} exit status\n"
    assert is_of_the_machine(Compilation(code, log)) is is_its_fault


# ------------------------------------------------------------------- a header that could not be precompiled
WITHOUT = MARKED % "WITHOUT OUR HEADER"
BRINGS_HEADERS = f"{PLAIN}#ifndef TORCH_CHECK\n{WITHOUT}#endif\n"
WANTS_HEADERS = f"{PLAIN}#ifndef TORCH_CHECK\n#error it was not included\n#endif\n"


@pytest.mark.parametrize("text", [BRINGS_HEADERS, WANTS_HEADERS], ids=["other", "none"])
def test_a_text_is_one_program_also_while_the_header_cannot_be_precompiled(
    root: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """For ten minutes after the disk was full; and what is built then is kept, and on the shelf, as any other build."""
    usual = built(text, root).binary
    assert usual is not None
    usual = usual.rename(root / "usual.so")
    monkeypatch.setattr(Paths, "headers", property(lambda self: self._made("cache/no-headers")))
    monkeypatch.setattr(gxx, "_failed_until_s", {})
    monkeypatch.setattr(gxx, "_precompile", lambda *_: False)
    made = built(text, root)
    assert made.binary is not None, made.log
    assert made.binary.read_bytes() == usual.read_bytes()


# ------------------------------------------------------------------- a log that is another one each time
@pytest.mark.usefixtures("short_header")
@pytest.mark.parametrize(
    ("text", "words"),
    [("struct Twice {};\n", "redefinition"), ('asm(".error \\"no\\"");\n', "Error: no")],
    ids=["a folder", "a file"],
)
def test_a_log_tells_the_same_each_time(root: Path, text: str, words: str) -> None:
    """Names that are drawn, for the folder of our header and for the file that an assembler reads, stood in it."""
    logs = [built(text, root).log for _ in range(2)]
    assert words in logs[0]
    assert logs[0] == logs[1]


@pytest.mark.usefixtures("short_header")
def test_a_log_that_is_cut_in_the_middle_of_a_name_is_the_same_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built("struct Twice {};\n", root).log
    assert whole.count("precompiled/") == 1
    behind = whole[whole.index("/kbench.h") :]
    monkeypatch.setattr(toolchain, "_LOG_BYTES", len(behind.encode()) + 5)
    logs = [built("struct Twice {};\n", root).log for _ in range(2)]
    assert logs[0] == logs[1]


# ------------------------------------------------------------------- where packages are installed
WITH_LIBRARY = (
    "#include <torch/extension.h>\n#include <tvm/ffi/function.h>\n"
    + """
int64_t answer() { return tvm::ffi::Function::GetGlobal("testing.nothing").has_value() ? 1 : 42; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("answer", &answer); }
"""
)


def test_no_program_holds_the_folder_of_an_installation(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tvm_ffi._folder()
    if folder is None:
        pytest.skip("TVM FFI is not installed")
    usual = built(WITH_LIBRARY, root)
    assert usual.binary is not None, usual.log
    program = usual.binary.read_bytes()
    load = "from benchmarks.harness.child.modules import loaded_build"
    script = f"import sys; import torch; {load}; print(loaded_build(sys.argv[1]).answer())"
    command = [sys.executable, "-c", script, str(usual.binary)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "42\n"
    shutil.copytree(folder, root / "elsewhere/tvm_ffi")
    monkeypatch.setattr(tvm_ffi, "_folder", lambda: root / "elsewhere/tvm_ffi")
    other = built(WITH_LIBRARY, root)
    assert other.binary is not None, other.log
    assert other.binary.read_bytes() == program


EQUAL = ("c10/util/python_stub.h", "torch/csrc/utils/python_stub.h")
TWO_HEADERS = f"""
#include <{EQUAL[0]}>
namespace inner {{
#include <{EQUAL[1]}>
constexpr bool is_one_file = __is_same(PyObject, ::PyObject);
}}
{VISIBLE}int answer() {{ return inner::is_one_file ? 1 : 2; }}
"""


def test_no_text_learns_whether_two_headers_were_installed_in_one_second(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two files with equal times and contents g++ leaves the second one out, where both say #pragma once."""
    real = gxx.packages()
    folder, place = next(item for item in real.items() if item[1].endswith("torch/include"))
    programs = []
    for seconds in (0, 1):
        changed = dict(real)
        for number, name in enumerate(EQUAL):
            copied = root / f"header{seconds}{number}"
            shutil.copyfile(folder / name, copied)
            os.utime(copied, (1_700_000_000 + number * seconds,) * 2)
            changed[copied] = f"{place}/{name}"
        monkeypatch.setattr(gxx, "packages", lambda changed=changed: changed)
        shutil.rmtree(root / "cache/builds")
        made = builds.build_with(Gxx(tiers=("stock",)), Source(TWO_HEADERS, "cpp"), RULES, Paths(root))
        assert made.binary is not None, made.log
        programs.append(made.binary.read_bytes())
    assert programs[0] == programs[1]


class Packed:
    """A shelf that says what other machines would get."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []

    def put(self, key: str, packed: bytes) -> None:
        self.packed.append(packed)

    def get(self, key: str) -> bytes | None:
        return None


class Together:
    """A toolchain whose builds of one text all end when the last one has been reached, each in its own way."""

    binary = "program.so"

    def __init__(self, *exit_codes: int) -> None:
        self._left, self._reached = list(exit_codes), threading.Barrier(len(exit_codes))

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        return ("together",)

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        code = self._left.pop()
        (shop.folder / self.binary).write_text("PROGRAM")
        self._reached.wait(60)
        return Compilation(code, f"ended with {code}")


def test_of_builds_at_the_same_time_one_is_kept_as_a_whole(root: Path) -> None:
    """The same text may be built for two tasks at once, and its top level can read the clock: one of them fails.

    The success moved no program to where the failure was, and was kept without one, for all machines.
    """
    shelf, source, codes = Packed(), Source("int one;", "cpp"), (0, 1, 0, 1, 0, 1)
    together, paths = Together(*codes), Paths(root, shelf)
    with ThreadPoolExecutor(len(codes)) as pool:
        found = list(pool.map(lambda _: builds.build_with(together, source, RULES, paths), codes))
    [code] = {item.exit_code for item in found}
    assert all((item.binary is not None and item.binary.read_text() == "PROGRAM") is (code == 0) for item in found)
    assert len(shelf.packed) == 1
    assert (b"PROGRAM" in shelf.packed[0]) is (code == 0)


def test_an_own_error_of_the_compiler_that_quotes_the_words_is_the_text_s_own() -> None:
    """A text that makes the compiler fail by itself can print the words before."""
    log = (
        "a.cpp:1:9: note: '#pragma message: internal compiler error: Bus error'\n"
        "a.cpp:9:1: internal compiler error: in tsubst_copy, at cp/pt.cc:17004\n"
        "cc1plus returned 4 exit status\n"
    )
    assert not is_of_the_machine(Compilation(4, log))
    assert is_of_the_machine(Compilation(-signal.SIGKILL, log))

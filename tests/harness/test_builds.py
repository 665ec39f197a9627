"""Builds: content-addressed, in the sandbox, with a thin header that refuses nothing legal."""

import itertools
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import Paths, Source, Verdict, default_rules, default_suites, find_task, judge
from benchmarks.harness.compilers import builds, gxx, toolchain, tvm_ffi
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.compilers.gxx import Gxx, prepare_headers
from benchmarks.harness.compilers.python_module import PythonModule
from benchmarks.harness.compilers.toolchain import Compilation, Workshop, torch_folder
from benchmarks.harness.sandbox import deadlines
from benchmarks.harness.sandbox.crowd import TreeWork
from benchmarks.harness.sandbox.isolation import Room

pytestmark = pytest.mark.sandbox
RULES = default_rules()
MODULE = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "f"); }\n'
PLAIN = "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x.clone(); }" + MODULE

Compile = Callable[[str], Build]


@pytest.fixture
def compile_text(paths: Paths) -> Compile:
    return lambda text: builds.build(Source(text, "cpp"), RULES, paths)


def test_the_same_source_is_built_once(compile_text: Compile) -> None:
    first, second = compile_text(PLAIN), compile_text(PLAIN)
    assert first.binary is not None
    assert first.binary.is_file()
    assert (second.binary, second.cached) == (first.binary, True)


def test_another_flag_is_another_build() -> None:
    source = Source("int forward = ;", "cpp")
    other = replace(RULES, compile=replace(RULES.compile, flags=(*RULES.compile.flags, "-DX")))
    assert builds._key(source, RULES, Gxx()) != builds._key(source, other, Gxx())


def test_another_version_of_a_library_or_none_is_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a module, whose extension may include what the text of the module does not."""
    module = """
from torch.utils.cpp_extension import load_inline
fused = load_inline("fused", cpp_sources="#include <tvm/ffi/version.h>")
"""
    keys = set[str]()
    for folder, version in ((Path("there"), "1"), (Path("there"), "2"), (Path("elsewhere"), "2"), (None, None)):
        monkeypatch.setattr(tvm_ffi, "_folder", lambda folder=folder: folder)
        monkeypatch.setattr(tvm_ffi, "tvm_ffi_version", lambda version=version: version)
        keys.add(builds._key(Source(module, "python"), RULES, PythonModule(None)))
        keys.add(builds._key(Source("#include <tvm/ffi/version.h>", "cpp"), RULES, Gxx()))
    assert len(keys) == 2 * 3  # whatever its folder is


def test_an_error_has_its_line_and_is_remembered(compile_text: Compile) -> None:
    text = "#include <torch/extension.h>\nint forward = ;"
    first = compile_text(text)
    assert first.binary is None
    assert "kbench_submission.cpp:2:" in first.log
    assert compile_text(text).cached


def test_what_the_thin_header_lacks_is_built_with_the_stock_one(compile_text: Compile) -> None:
    text = "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return torch::nn::ReLU()(x); }"
    assert compile_text(text + MODULE).binary is not None


@pytest.mark.parametrize("line", ['#include "/etc/passwd"', 'asm(".incbin \\"/etc/passwd\\"");'])
def test_files_of_the_machine_cannot_be_read_by_the_compiler(compile_text: Compile, line: str) -> None:
    result = compile_text(line)
    assert result.binary is None
    assert "root:" not in result.log


class Disturbed:
    """A toolchain that the machine disturbs a number of times, then refuses the source."""

    binary = "made"

    def __init__(self, times: int) -> None:
        self.left, self.runs = times, 0
        self.name = uuid.uuid4().hex  # an id may be that of an earlier object, whose builds are kept

    def fingerprint(self, _rules: object) -> tuple[str, ...]:
        return (self.name,)

    def compile(self, _source: Source, _shop: Workshop) -> Compilation:
        self.left, self.runs = self.left - 1, self.runs + 1
        killed = Compilation(1, "g++: fatal error: Killed signal terminated program cc1plus")
        return killed if self.left >= 0 else Compilation(1, "kernel.cpp:1: error: expected a type")


@pytest.mark.parametrize(("times", "runs", "cached"), [(0, 1, True), (1, 2, True), (2, 3, True), (4, 4, False)])
def test_what_the_machine_did_to_a_compiler_is_not_kept_for_long(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, times: int, runs: int, cached: bool
) -> None:
    toolchain, source = Disturbed(times), Source("x", "cpp")
    builds.build_with(toolchain, source, RULES, paths)
    monkeypatch.setattr(builds, "_DOUBTFUL_KEPT_S", 0.0)
    builds.build_with(toolchain, source, RULES, paths)
    assert toolchain.runs == runs
    assert builds.build_with(toolchain, source, RULES, paths).cached is cached


def test_who_pretends_that_the_machine_failed_pays_both_builds_and_gets_no_third(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain, source = Disturbed(1000), Source("x", "cpp")
    monkeypatch.setattr(builds.time, "monotonic", itertools.count().__next__)  # each attempt takes one second
    assert builds.build_with(toolchain, source, RULES, paths).seconds == 2
    again = builds.build_with(toolchain, source, RULES, paths)
    assert (again.cached, again.exit_code, toolchain.runs) == (True, 1, 2)


def test_all_extensions_and_the_second_attempt_share_the_time_of_one_build(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"functions": {}, "cpp": ["int x;"], "cuda": [], "flags": []}
    spent_s: list[float] = []
    hundred: Any = SimpleNamespace(own_s=100.0, charged_s=100.0)

    def compiled(_: Gxx, source: Source, shop: Workshop) -> Compilation:
        spent_s.append(shop.taken.charged_s)
        shop.taken.charge(hundred)
        (shop.folder / "kbench_submission.so").write_bytes(b"")
        return Compilation(0, "") if len(spent_s) < 3 else Compilation(1, "error: No space left on device")

    monkeypatch.setattr(Gxx, "compile", compiled)
    requests = [{"name": name, **asked} for name in "abc"]
    monkeypatch.setattr(PythonModule, "_asked", lambda *_: (Compilation(0, ""), requests))
    source = Source(f"load_inline = '{uuid.uuid4()}'", "python")
    assert builds.build_with(PythonModule(None), source, RULES, paths).exit_code == 1
    assert spent_s == [0.0, 100.0, 200.0, 300.0]


class Crowded:
    """A program that ends well after a while in which it gets a tenth of a processor and none is idle."""

    has_overrun = met_shortage = was_ended = False

    def __init__(self, clock: list[float], needs_s: float) -> None:
        self._clock, self._began_s, self._needs_s = clock, clock[0], needs_s

    def work(self) -> TreeWork:
        return TreeWork(0.1 * (self._clock[0] - self._began_s), is_ready=True)

    def wait(self, timeout_s: float) -> int | None:
        self._clock[0] += timeout_s
        return self.exit_code()

    def exit_code(self) -> int | None:
        return 0 if self._clock[0] - self._began_s >= self._needs_s else None

    def kill(self) -> None:
        pass

    def log_tail(self, _: int) -> str:
        return ""


@pytest.mark.parametrize(
    ("needs_s", "ends"),
    [
        ((200, 200, 20), [(0, False)] * 3),
        ((900,), [(None, True)]),  # nor does one wait for ever
        ((700, 700, 60), [(0, False), (0, False), (None, True)]),
    ],
)
def test_programs_of_one_build_that_others_keep_waiting_have_what_patience_gives_each(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, needs_s: tuple[float, ...], ends: list[tuple[int | None, bool]]
) -> None:
    """As the front ends of CUDA, which both wait, and then the rest."""
    clock, needed_s = [0.0], iter(needs_s)
    with builds.workshop(RULES, paths) as shop:
        shop.give({"a": ""})
        monkeypatch.setattr(toolchain, "spawn", lambda *_, **__: Crowded(clock, next(needed_s)))
        monkeypatch.setattr(deadlines.time, "monotonic", lambda: clock[0])
        made = [shop.run(["x"], Room()) for _ in needs_s]
    assert [(item.exit_code, item.is_starved) for item in made] == ends


@pytest.mark.parametrize(("counts_all", "is_starved"), [(True, True), (False, False)])
def test_a_program_of_the_author_is_starved_only_if_it_can_hide_no_time(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, *, counts_all: bool, is_starved: bool
) -> None:
    class Hiding(Crowded):
        def work(self) -> TreeWork:
            return replace(super().work(), counts_all=counts_all)

    clock = [0.0]
    with builds.workshop(RULES, paths) as shop:
        shop.give({"a": ""})
        monkeypatch.setattr(toolchain, "spawn", lambda *_, **__: Hiding(clock, 9000.0))
        monkeypatch.setattr(deadlines.time, "monotonic", lambda: clock[0])
        made = shop.run(["x"], Room(), runs_text=True)
    assert (made.exit_code, made.is_starved) == (None, is_starved)


@pytest.mark.parametrize(
    ("last", "by_machine"), [("ended: it had more than 20000 mappings of memory\n", False), ("", True)]
)
def test_what_we_end_ourselves_is_no_fault_of_the_machine(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, last: str, *, by_machine: bool
) -> None:
    class Ended(Crowded):
        was_ended = bool(last)

        def exit_code(self) -> int | None:
            return 137

        def log_tail(self, _: int) -> str:
            return f"a note\n{last}"

    with builds.workshop(RULES, paths) as shop:
        shop.give({"a": ""})
        monkeypatch.setattr(toolchain, "spawn", lambda *_, **__: Ended([0.0], 1.0))
        made = toolchain.told_by_gxx(shop.run(["x"], Room()))
    assert (made.by_machine, "mappings" in made.problem) == (by_machine, not by_machine)


@pytest.mark.parametrize(("is_starved", "verdict"), [(True, Verdict.NOISY), (False, Verdict.TIMEOUT)])
def test_a_build_that_others_kept_from_the_processors_is_nobodys_fault(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, *, is_starved: bool
) -> None:
    ended = Compilation(None, "", is_starved=is_starved)
    monkeypatch.setattr(Gxx, "compile", lambda *_: ended)
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    text = (task.folder / "kernels" / "forward_cpu.cpp").read_text()
    report = judge(Source(f"{text}// {uuid.uuid4()}\n", "cpp"), task, RULES, paths, quick=True)
    assert report.verdict is verdict


def test_a_compiler_bomb_runs_out_of_time(paths: Paths) -> None:
    text = "template <int N> struct T { static constexpr int v = T<N-1>::v + T<N-2>::v; };\n"
    bomb = text + "constexpr int f(int n) { return n < 2 ? n : f(n-1) + f(n-2); }\nstatic_assert(f(60) > 0);"
    rules = replace(
        RULES,
        compile=replace(RULES.compile, timeout_s=2, flags=(*RULES.compile.flags, "-fconstexpr-ops-limit=99999999999")),
    )
    prepare_headers(RULES, paths)
    result = builds.build(Source(bomb, "cpp"), rules, paths)
    assert (result.binary, result.cached) == (None, False)


def test_a_header_that_could_not_be_compiled_is_compiled_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, now_s = Paths(tmp_path), 0.0
    outcomes = [Compilation(1, "No space left on device"), Compilation(0, "")]

    def make(_shop: object, _steps: object, _made: str, _room: object, target: Path) -> Compilation:
        target.write_bytes(b"part" if outcomes[0].exit_code else b"whole")
        return outcomes.pop(0)

    monkeypatch.setattr(Workshop, "make", make)
    monkeypatch.setattr(gxx, "time", SimpleNamespace(monotonic=lambda: now_s))
    assert prepare_headers(RULES, paths) is None
    assert list(paths.headers.rglob("kbench.h*")) == []
    assert prepare_headers(RULES, paths) is None, "it is not tried again at once"
    now_s = gxx._RETRY_S
    folder = prepare_headers(RULES, paths)
    assert folder is not None
    assert (folder / "kbench.h.gch").read_bytes() == b"whole"
    assert prepare_headers(RULES, paths) == folder
    assert outcomes == []


def test_a_folder_without_its_header_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions left one behind when the header did not compile."""
    paths = Paths(tmp_path)

    def make(_shop: object, _steps: object, _made: str, _room: object, target: Path) -> Compilation:
        target.write_bytes(b"whole")
        return Compilation(0, "")

    monkeypatch.setattr(Workshop, "make", make)
    folder = prepare_headers(RULES, paths)
    assert folder is not None
    (folder / "kbench.h.gch").unlink()
    assert prepare_headers(RULES, paths) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["kbench.h", "kbench.h.gch"]


def test_cancelling_stops_the_compiler_and_keeps_nothing(paths: Paths) -> None:
    source = Source(f"{PLAIN}// {uuid.uuid4()}", "cpp")
    result = builds.build(source, RULES, paths, cancelled=lambda: True)
    assert result.binary is None
    assert not (paths.builds / builds._key(source, RULES, Gxx()) / "build.json").exists()


def test_nothing_is_left_in_scratch(compile_text: Compile, paths: Paths) -> None:
    before = set(paths.scratch.glob("build-*"))
    compile_text(PLAIN + "// tidy")
    assert set(paths.scratch.glob("build-*")) <= before


def test_torch_is_found_without_importing_it() -> None:
    assert (torch_folder() / "include").is_dir()

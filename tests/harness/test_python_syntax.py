"""Python texts are parsed in a process of little memory and time: whoever asks, one text has one outcome."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from benchmarks.harness import (
    Paths,
    Source,
    SupervisorError,
    SyntaxProblem,
    check_source,
    default_rules,
    default_suites,
    find_task,
    python_tree,
    syntax_problem,
)
from benchmarks.harness.compilers import builds, python_syntax
from benchmarks.harness.compilers.device_source import DeviceSource
from benchmarks.harness.compilers.python_module import PythonModule
from benchmarks.harness.sandbox.crowd import children_of

RULES = default_rules()
ROOT = Path(__file__).parents[2]
DOTTED = "def forward(x, w, b):\n    return x\nimport " + 35_000 * "a." + "a\n"  # of 262,144 bytes: 18.7 GB, 90 s
MARKS = "def forward(x, w, b):\n    return x\na" + 10_000 * "\u0300\u0316" + " = 1\n"  # of 262,144 bytes: 150 s
# of 40,036 bytes: 434 MB, which a build may take
HALF_DOTTED = "def forward(x, w, b):\n    return x\nimport " + 20_000 * "a." + "a\n"
TEXTS = {"memory": DOTTED, "half as much memory": HALF_DOTTED, "time": MARKS}
# Builds as the worker does; a second thread stands for its signs of life. By processor time, since machines are busy.
BUILDS = """
import resource, sys, tempfile, threading, time
from pathlib import Path
from agents.evolve.verifiers.static import StaticVerifier
from benchmarks.harness import Paths, Source, default_rules, default_suites, find_task
from benchmarks.harness.compilers import builds
from benchmarks.importers import records

way, text = sys.argv[1], Path(sys.argv[2]).read_text()
gaps, last, over = [0.0], time.process_time(), False

def beats():
    global last
    while not over:
        time.sleep(0.01)
        now = time.process_time()
        gaps.append(now - last)
        last = now

thread = threading.Thread(target=beats)
task = find_task(default_suites(), "mnist_linear_relu/forward")
with tempfile.TemporaryDirectory() as folder:
    for name in ("scratch", "cache/builds", "cache/headers"):
        (Path(folder) / name).mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    thread.start()
    try:
        if way == "importers":
            records.parsed(text, "posted.py")
        elif way == "verifier":
            StaticVerifier().look(text, "triton", task)
        else:
            builds.build(Source(text, way), default_rules(), Paths(Path(folder)))
    finally:
        over = True
        thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, max(gaps))
"""


@pytest.mark.parametrize("way", ["triton", "python", "importers", "verifier"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_python_text_takes_the_memory_or_the_time_of_the_judge(root: Path, way: str, name: str) -> None:
    """Of a worker, of a search, or of the site where definitions are posted.

    The parser ran in the worker itself: a text of the largest size took 19 GB, or stopped all its threads for minutes.
    """
    text = TEXTS[name]
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    assert check_source(Source(text, "triton"), task, RULES).problem is None
    (root / "text.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", BUILDS, way, str(root / "text.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "Unreadable" not in done.stderr:
        assert done.returncode == 0, done.stderr
        taken_kb, longest_gap_s = map(float, done.stdout.split())
        assert taken_kb < 300 << 10, f"{len(text)} bytes of text took {taken_kb / 1024:.0f} MB of the worker"
        assert longest_gap_s < 0.5, f"no other thread ran for {longest_gap_s:.1f} s of processor time"


@pytest.mark.parametrize("head", ["", "x = 1\n" * 2000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("text", "column", "message"),
    [("x = (\n", 5, "'(' was never closed"), ("a b\n", 3, "invalid syntax"), ("x = 1\0\n", 1, "null bytes")],
)
def test_a_problem_has_its_place(head: str, text: str, column: int, message: str) -> None:
    for found in (syntax_problem(head + text), python_tree(head + text)):
        assert isinstance(found, SyntaxProblem)
        line = 1 if "null" in message else 1 + head.count("\n")
        assert (found.line, found.column, message in found.message) == (line, column, True), found
        assert not found.is_too_much


def deeper(frames: int, text: str) -> bool:
    return deeper(frames - 1, text) if frames else syntax_problem(text) is None


def test_what_python_parses_does_not_depend_on_who_asks() -> None:
    """Python counts the frames of its caller, three for each, against the nesting of a text."""
    texts = [f"x = {terms * '1+'}1\n" for terms in range(200, 3400, 400)]
    outcomes = [deeper(0, text) for text in texts]
    assert [deeper(600, text) for text in texts] == outcomes
    assert set(outcomes) == {True, False}


@pytest.mark.sandbox
def test_a_build_does_not_depend_on_the_stack_of_the_worker(root: Path) -> None:
    text = f"def forward(x, w, b):\n    return x\ny = {2200 * '1+'}1  # {uuid.uuid4()}\n"

    def built(frames: int, where: Path) -> builds.Build:
        if frames:
            return built(frames - 1, where)
        return builds.build(Source(text, "triton"), RULES, Paths(where))

    for name in ("one", "other"):
        (root / name / "scratch").mkdir(parents=True)
    first, second = built(0, root / "one"), built(500, root / "other")
    assert (first.exit_code, first.log) == (second.exit_code, second.log)


def test_a_tree_for_reading_is_of_any_text_of_usual_depth_and_size() -> None:
    text = 1000 * "def f(x):\n    return x + 1\n"

    def deep(frames: int) -> object:
        return deep(frames - 1) if frames else python_tree(text)

    assert not isinstance(deep(600), SyntaxProblem)


def test_what_is_too_much_for_the_parser_is_told_from_what_is_wrong() -> None:
    for text in (HALF_DOTTED, "-" * 8000 + "1", f"x = {2950 * '1+'}1\n"):
        found = python_tree(text)
        assert isinstance(found, SyntaxProblem)
        assert found.is_too_much
        assert found.message.rstrip()[-1] != ":"


@pytest.mark.parametrize("size", [100, 100_000])
def test_what_python_parses_has_no_problem(size: int) -> None:
    assert syntax_problem(f"x = '{size * 'é'}'\n") is None


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 2)"])
@pytest.mark.parametrize("then", ["", "print('null')\n"], ids=["no answer", "half an answer"])
def test_a_machine_that_ends_the_process_is_no_problem_of_the_text(
    monkeypatch: pytest.MonkeyPatch, ends: str, then: str
) -> None:
    monkeypatch.setattr(python_syntax, "_LIMITED", f"import os\n{then}{ends}")
    with pytest.raises(SupervisorError, match="no answer"):
        syntax_problem(10_000 * "x = 1\n")


@pytest.mark.parametrize("start", ["raise ImportError('no module')", "print('', end='')", "1 +", "raise SystemExit(3)"])
def test_a_python_that_does_not_start_is_no_problem_of_the_text(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    monkeypatch.setattr(python_syntax, "_LIMITED", start)
    with pytest.raises(SupervisorError, match="no answer"):
        syntax_problem("x = 1\n")


@pytest.mark.parametrize("end", ["SIGPROF", "SIGSEGV", "SIGABRT", "MemoryError"])
def test_what_ends_the_process_for_its_time_stack_or_memory_is_too_much(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    kills = f"import os, signal; os.kill(os.getpid(), signal.{end})"
    monkeypatch.setattr(python_syntax, "_LIMITED", "raise MemoryError" if end == "MemoryError" else kills)
    found = syntax_problem("x = 1\n")
    assert found is not None
    assert found.is_too_much


@pytest.mark.sandbox
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_of_a_worker_is_not_kept_as_a_failure_of_the_text(root: Path, stop: signal.Signals) -> None:
    """As Ctrl-C in a terminal and a stop of a whole unit: the worker and all processes of its group get the signal."""
    text = f"def forward(x, w, b):\n    return x\ny = [{28_000 * '(1, 2), '}]  # {uuid.uuid4()}\n"
    source, paths = Source(text, "triton"), Paths(root)
    (root / "scratch").mkdir(exist_ok=True)
    met = list[int]()

    def stops_the_group() -> None:
        until = time.monotonic() + 20
        while not met and time.monotonic() < until:
            for pid in children_of(os.getpid()):
                if b"PyCF_ONLY_AST" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    met.append(os.getpgid(pid))
                    if met[0] == os.getpgid(0):
                        os.kill(pid, stop)
            time.sleep(0.005)

    thread = threading.Thread(target=stops_the_group)
    thread.start()
    first = builds.build(source, RULES, paths)
    thread.join()
    assert met
    assert met[0] != os.getpgid(0)
    assert first.binary is not None
    assert builds.build(source, RULES, paths).binary is not None


def test_a_build_depends_on_the_limits_of_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchains = (DeviceSource("triton"), PythonModule(None))
    before = [toolchain.fingerprint(RULES) for toolchain in toolchains]
    monkeypatch.setattr(python_syntax, "_OF_A_BUILD", python_syntax._Limits(512 << 20, 1.0, 1000))
    assert not set(before) & {toolchain.fingerprint(RULES) for toolchain in toolchains}


@pytest.mark.parametrize("line", ["a\n", "a;a;a\n", "f(a, b=1)[c].d\n", "a < b < c\n", 'f"{a}{b!r:>{c}}"\n'])
def test_the_largest_plain_texts_are_far_from_the_limits(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Half of them, so that a machine of half the speed says the same."""
    most = python_syntax._OF_A_BUILD
    half = python_syntax._Limits(most.memory_bytes // 2, most.processor_s / 2, most.frames)
    monkeypatch.setattr(python_syntax, "_OF_A_BUILD", half)
    assert syntax_problem(RULES.source.max_bytes // len(line) * line) is None


@pytest.mark.parametrize(
    "text", ["(" * 5000, "-" * 8000 + "1", "-" * 200_000 + "1"], ids=["nesting", "signs", "many signs"]
)
def test_what_is_nested_too_deeply_is_a_problem(text: str) -> None:
    found = syntax_problem(text)
    assert found is not None
    assert (found.line, bool(found.message)) == (1, True)

"""Texts that take Python's parser much memory or time are parsed in a process that has little of both."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import (
    Source,
    SupervisorError,
    check_source,
    default_rules,
    default_suites,
    find_task,
    syntax_problem,
)
from benchmarks.harness.compilers import python_syntax

RULES = default_rules()
ROOT = Path(__file__).parents[2]
DOTTED = "def forward(x, w, b):\n    return x\nimport " + 35_000 * "a." + "a\n"  # of 262,144 bytes: 18.7 GB, 90 s
MARKS = "def forward(x, w, b):\n    return x\na" + 10_000 * "\u0300\u0316" + " = 1\n"  # of 262,144 bytes: 150 s
TEXTS = {"memory": DOTTED, "time": MARKS}
# Builds as the worker does; a second thread stands for its signs of life.
BUILDS = """
import resource, sys, tempfile, threading, time
from pathlib import Path
from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.importers import records

way, text = sys.argv[1], Path(sys.argv[2]).read_text()
gaps, last, over = [0.0], time.monotonic(), False

def beats():
    global last
    while not over:
        time.sleep(0.01)
        now = time.monotonic()
        gaps.append(now - last)
        last = now

thread = threading.Thread(target=beats)
with tempfile.TemporaryDirectory() as folder:
    for name in ("scratch", "cache/builds", "cache/headers"):
        (Path(folder) / name).mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    thread.start()
    try:
        if way == "importers":
            records.parsed(text, "posted.py")
        else:
            builds.build(Source(text, way), default_rules(), Paths(Path(folder)))
    finally:
        over = True
        thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, max(gaps))
"""


@pytest.mark.parametrize("way", ["triton", "python", "importers"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_python_text_takes_the_memory_or_the_time_of_the_judge(root: Path, way: str, name: str) -> None:
    """Of a worker, or of the site where definitions are posted.

    The parser ran in the worker itself: a text of the largest size took 19 GB, or stopped all its threads for minutes.
    """
    text = TEXTS[name]
    if way != "importers":
        task = find_task(default_suites(), "mnist_linear_relu/forward")
        assert way == "python" or check_source(Source(text, way), task, RULES).problem is None
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
        assert longest_gap_s < 0.5, f"the worker stood still for {longest_gap_s:.1f} s"


@pytest.mark.parametrize("head", ["", "x = 1\n" * 2000], ids=["here", "in a process"])
@pytest.mark.parametrize(
    ("text", "column", "message"),
    [("x = (\n", 5, "'(' was never closed"), ("a b\n", 3, "invalid syntax"), ("x = 1\0\n", 1, "null bytes")],
)
def test_a_problem_has_its_place(head: str, text: str, column: int, message: str) -> None:
    found = syntax_problem(head + text)
    assert found is not None
    line = 1 if "null" in message else 1 + head.count("\n")
    assert (found.line, found.column, message in found.message) == (line, column, True), found


@pytest.mark.parametrize("size", [100, 100_000])
def test_what_python_parses_has_no_problem(size: int) -> None:
    assert syntax_problem(f"x = '{size * 'é'}'\n") is None


def test_a_machine_that_ends_the_process_is_no_problem_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_syntax, "_LIMITED", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(SupervisorError, match="was killed"):
        syntax_problem(10_000 * "x = 1\n")


@pytest.mark.parametrize(
    "text", ["(" * 5000, "-" * 8000 + "1", "-" * 200_000 + "1"], ids=["nesting", "signs", "many signs"]
)
def test_what_is_nested_too_deeply_is_a_problem(text: str) -> None:
    found = syntax_problem(text)
    assert found is not None
    assert (found.line, bool(found.message)) == (1, True)

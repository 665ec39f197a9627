"""A text is built to the same program, with the same log, whatever becomes of the machine meanwhile.

Processes of a build are killed as Linux does it where memory runs out, and headers cannot be precompiled as where the
disk is full. Not covered: what a text itself can make differ (`test_one_program.py`), and caches (`test_builds.py`).
"""

import shutil
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds, gxx, toolchain
from benchmarks.harness.compilers.builds import Build

pytestmark = pytest.mark.sandbox
RULES = default_rules()


@pytest.fixture
def root(tmp_path: Path, paths: Paths, sandbox: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "cache/builds").mkdir(parents=True)
    monkeypatch.setattr(Paths, "headers", property(lambda _: paths._made("cache/headers")))
    return tmp_path


@pytest.fixture
def short_header(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of ours, which takes long as a text."""
    (root / "ours").mkdir()
    (root / "ours/kbench.h").write_text("struct Twice {};\n")
    monkeypatch.setattr(gxx, "prepare_headers", lambda *_: root / "ours")


def built(text: str, root: Path) -> Build:
    """As on another worker: nothing of an earlier build is left."""
    shutil.rmtree(root / "cache/builds")
    (root / "cache/builds").mkdir()
    return builds.build(Source(text, "cpp"), RULES, Paths(root))


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

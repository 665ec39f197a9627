"""Builds of hostile texts on every language's road: what they leave reaches nobody, and the next build is as ever.

A tree of canary files lies around every folder of ours; it and the folders are compared before and after. Everything
runs in the real sandbox. Not covered: what a compiled kernel does when it runs (`test_corpus.py`).
"""

import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import harness
from benchmarks.harness import Paths, Source, SupervisorError, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.compilers.python_module import requests_of
from benchmarks.harness.compilers.toolchain import Workshop
from benchmarks.harness.sandbox import isolation
from benchmarks.harness.sandbox.outbox import AnswerFile, NotTaken
from benchmarks.harness.sandbox.seccomp import builder_program
from tests.fixtures.kernelbench_kernels import INLINE, INLINE_HEAD, MODULE
from tests.watched_tree import LEAVES, WatchedTree

pytestmark = pytest.mark.sandbox
RULES = default_rules()
PLACES = ("cache", "cache/builds", "cache/headers", "scratch", "shelf", "home", "temp")


@pytest.fixture
def canaries(tmp_path: Path, paths: Paths, sandbox: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedTree]:
    """A data folder of its own among canaries; headers that are built already are borrowed."""
    for name in PLACES:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Paths, "headers", property(lambda _: paths._made("cache/headers")))
    canaries = WatchedTree(tmp_path)
    yield canaries
    assert canaries.moved(besides="cache/builds") == []
    assert list((tmp_path / "scratch").iterdir()) == [tmp_path / "scratch/canary"]


def built(text: str, language: str, canaries: WatchedTree) -> Build:
    return builds.build(Source(text, language), RULES, Paths(canaries.root))


# goes on after the module has ended
STAYS = """
import time
if os.fork() == 0:
    with contextlib.suppress(Exception):
        os.setsid()
    while True:
        leave_everywhere([link, over])
        for fd in range(3, 64):
            with contextlib.suppress(Exception):
                os.pwrite(fd, b"too late", 0)
"""


def module(head: str) -> str:
    body = "return fused.affine_tanh(x, self.linear.weight, self.linear.bias)"
    return MODULE.format(head=head + INLINE_HEAD, init="pass", body=body) + f"# {uuid.uuid4()}\n"


@pytest.mark.parametrize("head", [LEAVES, LEAVES + STAYS], ids=["leaves links", "stays behind"])
def test_what_a_module_leaves_where_it_can_write_changes_nothing(canaries: WatchedTree, head: str) -> None:
    text = module(head)
    made = built(text, "python", canaries)
    if made.binary is None:  # whoever writes into the answer after it was given has spoilt it
        assert "what the module asks for cannot be read" in made.problem
    else:
        found = sorted(str(path.relative_to(made.binary)) for path in made.binary.rglob("*"))
        assert found == ["extension0.so", "extensions.json", "module.py"]
        assert (made.binary / "module.py").read_text() == text
        assert (made.binary / "extension0.so").read_bytes()[:4] == b"\x7fELF"
        assert all(path.is_file() and not path.is_symlink() for path in made.binary.rglob("*"))


ANSWERS = {
    "no answer": "",
    "no JSON": "answer(b'[{')",
    "no list": "answer(b'{}')",
    "nested a million times": "answer(b'[' * (1 << 20))",
    "a request that is none": 'answer(b\'[{"name": "a"}]\')',
    "half a character": "answer(request(cpp=['\\ud800']))",
    "a name with a line break": "answer(request(name='a\\nb'))",
    "a function with a bracket": "answer(request(functions={'f(); evil': 'f'}))",
    "a number for a text": "answer(request(cpp=[1]))",
    "a hundred extensions": "answer(json.dumps([json.loads(request(name=str(n)))[0] for n in range(100)]).encode())",
    "a giant answer": "os.ftruncate(FD, 1 << 27)",
    "more than the disk": "os.ftruncate(FD, 1 << 40)",
    "sealed and empty": "import fcntl; fcntl.fcntl(FD, fcntl.F_ADD_SEALS, 15)",
}
FORGES = """
import json, os, sys
PLACES = {{fd: f"/proc/self/fd/{{fd}}" for fd in range(3, 64)}}
FD = next(fd for fd, place in PLACES.items() if os.path.lexists(place) and "answer" in os.readlink(place))
def answer(data): os.ftruncate(FD, 0); os.pwrite(FD, data, 0)
def request(**other):
    return json.dumps([{{"name": "a", "cpp": [], "cuda": [], "flags": [], "functions": {{}}, **other}}]).encode()
load_inline = "load_inline"
{way}
os._exit(0)
"""


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_another_form_is_the_modules_own_fault(canaries: WatchedTree, name: str) -> None:
    made = built(FORGES.format(way=ANSWERS[name]) + f"# {uuid.uuid4()}\n", "python", canaries)
    assert (made.binary, made.exit_code) == (None, 1)
    assert made.problem.startswith("what the module asks for cannot be read") or "File too large" in made.log


def test_an_honest_module_is_built_right_after_a_hostile_one(canaries: WatchedTree) -> None:
    built(module(LEAVES + "raise SystemExit(3)\n"), "python", canaries)
    honest = INLINE + f"# {uuid.uuid4()}\n"
    made = built(honest, "python", canaries)
    assert made.binary is not None, made.log
    assert (made.binary / "module.py").read_text() == honest


PLAIN = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x) { return x.clone(); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "f"); }
"""
# what a text can ask of a compiler that was taken over: every program of the sandbox runs as it likes
TAKEN_OVER = {
    "a link in place of the result": "ln -sf /etc/passwd {made}",
    "a link to a folder of the host": "ln -sf /usr {made}",
    "a dangling link": "ln -s nowhere {made}",
    "a folder in place of the result": "mkdir {made}",
    "nothing": "true",
    "a device": "ln -s /dev/zero {made}",
    "a second name": "echo text > {place}/b; ln {place}/b {made}",
    "another text": "for way in 'tee' 'ln -sf /etc/passwd'; do $way kbench_submission.cpp; done; echo text > {made}",
    "a terabyte of nothing": "truncate -s 1T {made}",
    "a result of 300 megabytes": "truncate -s 250M {place}/a; cat {place}/a {place}/a > {made}",
}


def test_a_compiler_that_was_taken_over_gives_a_file_or_nothing(canaries: WatchedTree) -> None:
    with builds.workshop(RULES, Paths(canaries.root), lambda: False) as shop:
        shop.give({"kbench_submission.cpp": PLAIN})
        for number, (name, step) in enumerate(TAKEN_OVER.items()):
            place, target = shop.scratch, shop.folder / f"made{number}"
            made = f"{place}/made.so"
            script = step.format(place=place, made=made)
            outcome = shop.make([["sh", "-c", script]], made, shop.room({}), target)
            if outcome.exit_code == 0:
                assert target.is_file(), name
                assert not target.is_symlink(), name
                assert target.read_bytes() == b"text\n" or name.startswith("a link in"), name
            else:
                assert outcome.problem or outcome.log, name
            assert (shop.folder / "given/kbench_submission.cpp").read_text() == PLAIN
        assert "root:" not in "".join(path.read_text() for path in shop.folder.glob("made*") if "link in" in path.name)


def test_a_text_that_changes_while_it_is_built_is_not_built(canaries: WatchedTree) -> None:
    """As it could be only without the strong sandbox."""
    with builds.workshop(RULES, Paths(canaries.root), lambda: False) as shop:
        shop.give({"kbench_submission.cpp": PLAIN})
        room = shop.room({})
        file = shop.folder / "given/kbench_submission.cpp"
        changed = Workshop(shop.folder, shop.rules, shop.paths, lambda: bool(file.write_text("another")))
        outcome = changed.run(["sleep", "1"], room)
    assert (outcome.exit_code, outcome.problem) == (1, "the text was changed while it was compiled")


def test_the_programs_of_a_build_together_have_twice_the_time_of_one(canaries: WatchedTree) -> None:
    """A source could use up the time once with each choice of headers."""
    with builds.workshop(RULES, Paths(canaries.root), lambda: False) as shop:
        shop.give({"kbench_submission.cpp": PLAIN})
        assert shop.run(["true"], shop.room({})).exit_code == 0
        assert shop.taken.charged_s > 0
        shop.taken.charge(cast(Any, SimpleNamespace(own_s=1000.0, charged_s=2 * RULES.compile.timeout_s)))
        assert shop.run(["sleep", "60"], shop.room({})).exit_code is None


@pytest.mark.parametrize("way", ["cp kbench_submission.cpp {made}", "echo // >> kbench_submission.cpp; echo > {made}"])
def test_a_build_without_the_strong_sandbox_works_too(
    canaries: WatchedTree, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(isolation, "_bubblewrap_works", lambda: False)
    isolation.isolation_in_force.cache_clear()
    try:
        with builds.workshop(RULES, Paths(canaries.root), lambda: False) as shop:
            shop.give({"kbench_submission.cpp": PLAIN})
            place = shop.scratch
            step = ["sh", "-c", way.format(made=f"{place}/made.so")]
            outcome = shop.make([step], f"{place}/made.so", shop.room({}), shop.folder / "made.so")
            if outcome.exit_code == 0:
                assert (shop.folder / "made.so").read_text() == PLAIN
            else:
                assert outcome.problem == "the text was changed while it was compiled"
            assert (outcome.exit_code == 0) == way.startswith("cp")
    finally:
        isolation.isolation_in_force.cache_clear()


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_a_text_is_compiled_to_the_same_program_on_all_days(canaries: WatchedTree, language: str) -> None:
    day = "static_assert(__DATE__[9] == '7' && __TIME__[7] == '0' && __TIMESTAMP__[9] == '7', \"1970\");\n"
    try:
        made = built(f"{PLAIN}{day}// {uuid.uuid4()}\n", language, canaries)
    except SupervisorError as error:  # no nvcc
        pytest.skip(str(error))
    assert made.binary is not None, made.log


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_the_text_that_is_built_is_the_text_that_was_submitted(canaries: WatchedTree, language: str) -> None:
    text = PLAIN + f'asm(".incbin \\"kbench_submission.cpp\\"");// {uuid.uuid4()}' if language == "cpp" else "x = 1\n"
    made = built(text, language, canaries)
    assert made.binary is not None, made.log
    assert text.encode() in made.binary.read_bytes()


def test_only_baselines_write_a_folder_of_the_host() -> None:
    """What they leave there is copied, plain files alone (`tests/importers/test_hostile_references.py`)."""
    folder = Path(harness.__file__).parent
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}
    assert [name for name, text in texts.items() if "writable={" in text] == ["measuring/baselines.py"]


def test_requests_are_taken_in_one_form_only() -> None:
    with pytest.raises(NotTaken):
        requests_of(b"null")
    with AnswerFile(10) as answer:
        os.write(answer.fd, b"[]")
        assert requests_of(answer.read()) == []


HOLDS = """
import os, sys
held, chunk = 0, b"x" * (8 << 20)
try:
    for _ in range(int(sys.argv[1])):
        fd = os.memfd_create("held")
        for _ in range(8):
            held += os.write(fd, chunk)
except OSError:
    pass
print("HELD", held >> 20)
"""


def test_no_build_holds_more_memory_in_files_than_its_scratch_space(root: Path) -> None:
    """Pages of such files belong to no process, so where memory runs out Linux ends the sandboxes of others."""
    log = root / "log"
    (root / "holds.py").write_text(HOLDS)
    room = isolation.Room(
        read_only={root / "holds.py": "/kbench/holds.py"},
        memory_bytes=512 << 20,
        scratch_bytes=64 << 20,
        file_bytes=64 << 20,
    )
    command = [sys.executable, "-I", "/kbench/holds.py", "14"]
    child = isolation.spawn(command, room, log, filter_program=builder_program())
    while child.wait(0.1) is None:
        pass
    child.kill()
    shown = re.search(r"HELD (\d+)", child.log_tail(1000))
    held_mb = int(shown[1]) if shown else 0
    assert held_mb <= (room.memory_bytes or 0) + room.scratch_bytes >> 20, f"it holds {held_mb} MB"

"""Looks at one kernel after the other: referee and eager stay, every kernel has a process and a control page alone."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import (
    Cancelled,
    Looks,
    Paths,
    Source,
    Verdict,
    Watcher,
    default_rules,
    default_suites,
    find_task,
    load_suite,
)
from benchmarks.harness.errors import RefereeError

pytestmark = pytest.mark.sandbox
TASK = find_task(default_suites(), "mnist_pool/forward")
SHOWN = [item for item in TASK.configs_for("cpu") if not item.hidden]
SMALL = replace(TASK, configs={"cpu": (min(SHOWN, key=lambda item: item.bytes_moved),)})
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
PLACE = KERNEL.index("const int64_t planes")


def with_line(line: str) -> Source:
    return Source(f"{KERNEL[:PLACE]}{line}\n    {KERNEL[PLACE:]}", "cpp")


RIGHT, CRASHES = Source(KERNEL, "cpp"), with_line("__builtin_trap();")


@pytest.fixture
def looks(paths: Paths) -> Iterator[Looks]:
    looks = Looks(SMALL, default_rules(), paths, "cpu")
    yield looks
    looks.close()


def kept(looks: Looks) -> tuple[int | None, int | None]:
    """The processes that stay."""
    session = looks._keeper._kept
    assert session is not None
    return session.baseline.child.pid, session._referee.child.pid


def test_a_kernel_that_dies_takes_nothing_from_the_next(looks: Looks) -> None:
    first = looks.judge(RIGHT)
    assert first.verdict is Verdict.PASS, first.reason
    stays = kept(looks)
    assert looks.judge(CRASHES).verdict is Verdict.RUNTIME_ERROR
    again = looks.judge(RIGHT)
    assert again.verdict is Verdict.PASS, again.reason
    assert again.score is not None
    assert kept(looks) == stays
    assert {item.name: item.seconds for item in again.stages}["load"] > 0


def test_a_look_that_is_given_up_leaves_the_session_to_the_next(looks: Looks) -> None:
    asked = 0

    def tired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 8

    with pytest.raises(Cancelled):
        looks.judge(RIGHT, Watcher(cancelled=tired))
    assert looks.judge(RIGHT).verdict is Verdict.PASS


def test_a_referee_that_is_gone_is_started_anew(looks: Looks) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    session = looks._keeper._kept
    assert session is not None
    session._referee.child.kill()
    with pytest.raises(RefereeError):
        looks.judge(RIGHT)
    assert looks.judge(RIGHT).verdict is Verdict.PASS


SAMPLED_TASK = """
op = "sampled"
title = "Classes drawn at random"
formula = "y ~ softmax(x)"
summary = "One class for each row."
family = "sampling"

[forward]
version = 1
arguments = [{ name = "logits", shape = [64, 12], draw = "input" }]
results = [{ name = "drawn", shape = [64], dtype = "int64", tolerance = 1e-5, rms_tolerance = 1e-5 }]
flops = "64 * 12"
cpu.single.input = [{ rows = 64 }]
"""
SAMPLED_REFERENCE = """
CHECKER = "sampling"
def probabilities(logits):
    return logits.softmax(-1)
def forward(logits):
    return probabilities(logits).multinomial(1).squeeze(1)
"""
SAMPLED_KERNEL = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor logits) {{ return {drawn}; }}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", &forward); }}
"""


def test_a_kernel_is_not_judged_by_what_another_one_has_drawn(tmp_path: Path, paths: Paths) -> None:
    folder = tmp_path / "drawn_at_random" / "sampled"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(SAMPLED_TASK)
    (folder / "reference.py").write_text(SAMPLED_REFERENCE)
    [task] = load_suite(folder.parent)
    looks = Looks(task, default_rules(), paths, "cpu")
    try:
        for drawn, verdict in (
            ("logits.argmax(1)", Verdict.INCORRECT_VALUE),
            ("logits.softmax(-1).multinomial(1).squeeze(1)", Verdict.PASS),
        ):
            found = looks.judge(Source(SAMPLED_KERNEL.format(drawn=drawn), "cpp"))
            assert found.verdict is verdict, found.reason
    finally:
        looks.close()


REMEMBERS = """
    struct stat seen;
    for (int file = 3; file < 256; ++file) {
        if (fstat(file, &seen) == 0 && (seen.st_mtime == 4711 || lseek(file, 0, SEEK_CUR) == 4711 ||
                                        (S_ISREG(seen.st_mode) && flock(file, LOCK_EX | LOCK_NB) != 0)))
            throw std::runtime_error("another kernel has left a mark");
    }
    const timespec then[2] = {{4711, 0}, {4711, 0}};
    for (int file = 3; file < 256; ++file) {
        lseek(file, 4711, SEEK_SET);
        syscall(SYS_utimensat, file, nullptr, then, 0);
    }
"""


def test_a_kernel_can_leave_nothing_for_the_next(looks: Looks) -> None:
    """In what all of them inherit: the place in a file, its locks, its times."""
    names = ("fcntl.h", "stdexcept", "sys/file.h", "sys/stat.h", "sys/syscall.h", "unistd.h")
    includes = "".join(f"#include <{name}>\n" for name in names)
    once = f"static const bool done = [] {{ {REMEMBERS} return true; }}();"
    marks = Source(includes + with_line(f"{once} (void)done;").text, "cpp")
    for _ in range(2):
        found = looks.judge(marks)
        assert found.verdict is Verdict.PASS, found.reason


def test_nothing_is_alive_and_nothing_lies_about_afterwards(paths: Paths) -> None:
    looks = Looks(SMALL, default_rules(), paths, "cpu")
    looks.judge(RIGHT)
    session = looks._keeper._kept
    assert session is not None
    child = session.baseline.child
    looks.close()
    looks.close()
    deadline = time.monotonic() + 5
    while child.exit_code() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert child.exit_code() is not None
    crews = "crew-*"  # of tests before this one: the folder is shared by all tests of a process
    assert set(paths.scratch.iterdir()) == set(paths.scratch.glob(crews))

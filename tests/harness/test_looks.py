"""Looks at one kernel after the other: referee and eager stay, every kernel has a process and a control page alone."""

import time
from collections.abc import Iterator
from dataclasses import replace

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
    return session.baseline.child.pid, session._referee._child.pid


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
    session._referee._child.kill()
    with pytest.raises(RefereeError):
        looks.judge(RIGHT)
    assert looks.judge(RIGHT).verdict is Verdict.PASS


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

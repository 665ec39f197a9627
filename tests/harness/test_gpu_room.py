"""Memory of a GPU that sessions hold while they wait: its places, and how a large judging gets them all."""

import fcntl
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.gpu import room
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.room import PLACES, MemoryPlace, demand_room, somebody_waits
from benchmarks.harness.hosts.locks import open_shared, try_lock

ANY = Gpu("host:0", "Stand-in", "", "none", 8 << 30, "sm_90", (), accelerator="host")


@pytest.fixture
def gpu() -> Gpu:
    """Known to nobody else."""
    return replace(ANY, uuid=f"test-{uuid.uuid4()}")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def stays(gpu: Gpu, stack: ExitStack) -> tuple[MemoryPlace, threading.Event]:
    """A place whose session ends when it is asked to, and whether it was."""
    asked = threading.Event()

    def leave() -> None:
        asked.set()
        place.give_back()

    place = MemoryPlace(gpu, leave)
    assert place.take()
    stack.callback(place.give_back)
    return place, asked


def test_there_are_few_places_and_they_can_be_taken_again(gpu: Gpu, stack: ExitStack) -> None:
    places = [stays(gpu, stack)[0] for _ in range(PLACES)]
    assert not MemoryPlace(gpu, lambda: None).take()
    places[0].give_back()
    places[0].give_back()
    assert places[0].take()


def test_whoever_needs_all_memory_gets_it_when_every_session_has_ended(gpu: Gpu, stack: ExitStack) -> None:
    held = [stays(gpu, stack) for _ in range(PLACES)]
    assert demand_room(gpu)
    assert all(asked.is_set() for _, asked in held)
    assert MemoryPlace(gpu, lambda: None).take(), "the places are free again afterwards"


def test_nobody_is_asked_where_nobody_stays_nor_on_another_gpu(gpu: Gpu, stack: ExitStack) -> None:
    _, asked = stays(replace(gpu, uuid=f"{gpu.uuid}-other"), stack)
    began_s = time.monotonic()
    assert not demand_room(gpu)
    assert time.monotonic() - began_s < 0.1
    assert not asked.wait(2 * room._LOOK_EVERY_S)


def test_a_session_that_does_not_end_is_our_fault(gpu: Gpu, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_WAIT_S", 0.5)
    asked = threading.Event()
    place = MemoryPlace(gpu, asked.set)
    assert place.take()
    stack.callback(place.give_back)
    with pytest.raises(SupervisorError, match="does not release"):
        demand_room(gpu)
    assert asked.is_set()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/etc/passwd")], ids=["folder", "link"])
def test_where_nobody_could_call_nobody_takes_a_place(gpu: Gpu, stack: ExitStack, make: Callable[[Path], None]) -> None:
    """Another user may have put anything there."""
    path = Path(tempfile.gettempdir()) / room._call(gpu)
    make(path)
    stack.callback(path.rmdir if path.is_dir() else path.unlink)
    with pytest.raises(SupervisorError, match="cannot be used"):
        MemoryPlace(gpu, lambda: None).take()
    for name in room._places(gpu):
        assert try_lock(stack.enter_context(open_shared(name))), "nobody has it"


def test_whoever_may_not_leave_now_is_asked_again(gpu: Gpu, stack: ExitStack) -> None:
    asked: list[int] = []

    def leave() -> None:
        asked.append(1)
        if len(asked) > 2:
            place.give_back()

    place = MemoryPlace(gpu, leave)
    assert place.take()
    stack.callback(place.give_back)
    demand_room(gpu)
    assert len(asked) == 3


def test_several_that_need_all_memory_at_once_do_not_wait_for_each_other(
    gpu: Gpu, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_WAIT_S", 2.0)

    def leave() -> None:
        time.sleep(0.3)
        place.give_back()

    place = MemoryPlace(gpu, leave)
    assert place.take()
    stack.callback(place.give_back)
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(demand_room(gpu))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(threads), "nobody has given up"
    assert found[0], "the first one has ended the session"


def test_whoever_demands_memory_is_not_taken_for_a_session(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all places for moments."""
    locked, go_on = threading.Event(), threading.Event()
    lock = room._lock

    def slow_lock(file: int, *how: float) -> bool:
        waits = lock(file, *how)
        if threading.current_thread() is demands:
            locked.set()
            go_on.wait(1.0)
        return waits

    monkeypatch.setattr(room, "_lock", slow_lock)
    demands = threading.Thread(target=demand_room, args=(gpu,))
    demands.start()
    assert locked.wait(1.0)
    threading.Timer(0.3, go_on.set).start()
    assert not somebody_waits(gpu)
    demands.join()


def test_a_session_is_seen_by_several_at_once(gpu: Gpu, stack: ExitStack) -> None:
    for name in (room._call(gpu), *room._places(gpu)):  # as somebody who looks at the same moment
        assert try_lock(stack.enter_context(open_shared(name)), fcntl.LOCK_SH)
    assert not somebody_waits(gpu)
    stack.close()
    stays(gpu, stack)
    assert somebody_waits(gpu)

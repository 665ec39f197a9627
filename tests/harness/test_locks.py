"""The lock of a device: one timing at a time or several builds, and nobody is held off by who comes again and again."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from benchmarks.harness.errors import Cancelled
from benchmarks.harness.hosts import locks
from benchmarks.harness.hosts.locks import build_lock, machine_lock
from benchmarks.harness.source import Step, Watcher, ignore_steps, never_cancelled


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks.tempfile, "gettempdir", lambda: str(tmp_path))


def taken(cancelled=never_cancelled, on_step=ignore_steps):
    return machine_lock("device", "somebody is at work", "prepare", Watcher(on_step, cancelled))


def test_one_who_takes_it_again_and_again_lets_others_in() -> None:
    """The greedy one comes at most once more before the other is in."""
    inside, rounds = threading.Event(), 0
    waiting = threading.Event()

    def other() -> None:
        with taken(on_step=lambda _: waiting.set()):
            inside.set()

    thread = threading.Thread(target=other)
    with taken():
        thread.start()
        assert waiting.wait(10)
        threading.Event().wait(3 * locks._POLL_S)  # by now it holds the turn
    while not inside.is_set():
        with taken():
            rounds += 1
    thread.join()
    assert rounds <= 1


def test_one_who_waits_is_told_once_and_may_give_up() -> None:
    steps: list[Step] = []
    answers = iter([False, False, True])
    with taken(), pytest.raises(Cancelled), taken(lambda: next(answers), steps.append):
        pass
    assert [step.text for step in steps] == ["somebody is at work"]
    with taken():
        pass


def test_a_lock_file_that_is_there_is_not_opened_as_if_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux forbids that for another user's file where temporary folders are protected."""
    asked, real_open = [], os.open
    with taken():
        pass
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: asked.append(flags) or real_open(path, flags, *mode))
    with taken():
        pass
    assert asked
    assert not any(flags & os.O_CREAT for flags in asked)


def building(cancelled=never_cancelled, kind="build"):
    return build_lock("device", "somebody is at work", "compile", Watcher(cancelled=cancelled), places=2, kind=kind)


def is_free(lock) -> bool:
    """One who does not want to wait gets it."""
    try:
        with lock(lambda: True):
            return True
    except Cancelled:
        return False


def test_builds_share_the_places_and_a_timing_has_all_of_them() -> None:
    with building():
        assert is_free(building)
        assert not is_free(taken)
        with building():
            assert not is_free(building)
    with taken():
        assert not is_free(building)
    assert is_free(taken)


@contextmanager
def waiting_for(lock, log: list[str], name: str) -> Iterator[None]:
    """Somebody who waits for the lock while the block runs, and notes it when they have it."""
    begun = threading.Event()

    def wait() -> None:
        with lock(lambda: bool(begun.set())):
            log.append(name)
            threading.Event().wait(2 * locks._POLL_S)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(10)
    yield
    thread.join(10)
    assert not thread.is_alive()


def test_a_timing_that_waits_lets_no_further_build_in() -> None:
    log: list[str] = []
    with ExitStack() as waiters, building():
        waiters.enter_context(waiting_for(taken, log, "timing"))
        waiters.enter_context(waiting_for(building, log, "build"))
        assert log == []
    assert log == ["timing", "build"]


def test_a_timing_lets_in_the_builds_that_waited_before_the_next_timing() -> None:
    log: list[str] = []
    with ExitStack() as waiters, taken():
        for _ in range(2):
            waiters.enter_context(waiting_for(building, log, "build"))
        threading.Event().wait(2 * locks._POLL_S)  # by now both hold the turn
        waiters.enter_context(waiting_for(taken, log, "timing"))
    assert log == ["build", "build", "timing"]


def test_what_is_built_ahead_takes_no_place_from_a_build() -> None:
    with building(kind="ahead"), building():
        assert is_free(building)
        assert not is_free(taken)

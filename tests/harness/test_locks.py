"""The lock of a device: one at a time, and nobody is held off by one who comes again and again."""

import threading
from pathlib import Path

import pytest

from benchmarks.harness import locks
from benchmarks.harness.errors import Cancelled
from benchmarks.harness.locks import machine_lock
from benchmarks.harness.source import Step, ignore_steps, never_cancelled


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks.tempfile, "gettempdir", lambda: str(tmp_path))


def taken(cancelled=never_cancelled, on_step=ignore_steps):
    return machine_lock("device", "somebody is at work", on_step, "prepare", cancelled)


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

"""Memory that calls use up, seen with a real process; what follows from it, with scripted ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.harness.measuring import used_up
from benchmarks.harness.measuring.used_up import Touched, Watch

MIB = 1 << 20
TOUCHING = f"""
import mmap, sys
ready = mmap.mmap(-1, {32 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared = mmap.mmap(-1, {32 * MIB})
fresh = mmap.mmap(-1, {32 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
places = dict(ready=ready, shared=shared, fresh=fresh)
ready[:] = shared[:] = bytes({32 * MIB})
print(flush=True)
for line in sys.stdin:
    name, begin, end = line.split()
    if name == "gone":
        ready.close()
    for at in range(int(begin), int(end), mmap.PAGESIZE):
        places[name][at] = 1
    print(flush=True)
"""


class Toucher:
    """A process that touches the memory that it is told to."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", TOUCHING], text=True, **pipes)  # type: ignore[call-overload]
        self._answer()

    def touch(self, name: str, begin: int = 0, end: int = 0) -> Touched:
        assert self.process.stdin
        self.process.stdin.write(f"{name} {begin} {end}\n")
        self.process.stdin.flush()
        self._answer()
        return self.look()

    def look(self) -> Touched:
        found = used_up.look(self.process.pid, without=os.stat("/"))
        assert found
        return found

    def _answer(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline()


@pytest.fixture
def toucher() -> Iterator[Toucher]:
    made = Toucher()
    used_up.forget(made.process.pid)
    if made.look().touched_bytes > MIB:
        made.process.communicate()
        pytest.skip("this system has no marks of touched pages")
    with made.process:
        yield made
        made.process.kill()


def used_bytes(before: Touched, after: Touched) -> int:
    return after.touched_bytes - before.touched_bytes - (after.own_bytes - before.own_bytes)


@pytest.mark.parametrize("name", ["ready", "shared"])
def test_memory_that_was_ready_is_used_up_once(toucher: Toucher, name: str) -> None:
    before = toucher.touch(name, 0, MIB)
    again = toucher.touch(name, 0, MIB)
    more = toucher.touch(name, MIB, 5 * MIB)
    assert used_bytes(before, again) < MIB / 4
    assert used_bytes(again, more) == pytest.approx(4 * MIB, abs=MIB / 4)


def test_fresh_memory_is_not_used_up_and_giving_memory_back_hides_nothing(toucher: Toucher) -> None:
    before = toucher.touch("ready", 0, MIB)
    fresh = toucher.touch("fresh", 0, 8 * MIB)
    assert abs(used_bytes(before, fresh)) < MIB / 4
    gone = toucher.touch("gone")
    assert used_bytes(fresh, gone) == pytest.approx(31 * MIB, abs=MIB / 4)


def test_who_is_gone_has_touched_nothing() -> None:
    used_up.forget(0)
    assert used_up.look(0, without=os.stat("/")) is None


def watched(growth_bytes: Any, rounds: int = 50) -> float:
    """What a round of ten calls uses up if `growth_bytes(round)` says how much was touched in each, of one launch."""
    touched = [0]
    watch = Watch(lambda: None, lambda: Touched(touched[0], 0))
    for number in range(rounds):
        watch.round_begins(0)
        touched[0] += growth_bytes(number)
        watch.round_ends(0)
    return watch.used_bytes(10, memory_bytes=MIB)


@pytest.mark.parametrize("rounds", [9, 50])
def test_what_every_round_uses_up_is_charged(rounds: int) -> None:
    assert watched(lambda _: 40 * MIB, rounds) == pytest.approx(40 * MIB, rel=0.02)


def test_little_and_seldom_and_the_first_rounds_are_free() -> None:
    assert watched(lambda _: 10 * 16 * 1024) == 0
    assert watched(lambda _: 10 * 16 * 1024 + MIB // 4) == 0
    assert watched(lambda number: 100 * MIB if number == 30 else 0) == 0  # one of three measurements at most
    assert watched(lambda _: 40 * MIB, rounds=4) == 0


def test_memory_has_its_price() -> None:
    assert 0.01 < used_up.fresh_us_per_byte() * 1024 < 100

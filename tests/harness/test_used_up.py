"""Memory that calls use up, seen with a real process; what follows from it, with scripted ones."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from benchmarks.harness.measuring import used_up
from benchmarks.harness.measuring.used_up import Touched, Watch

MIB = 1 << 20
TOUCHING = f"""
import mmap, os, sys, tempfile
ready = mmap.mmap(-1, {32 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared = mmap.mmap(-1, {32 * MIB})
fresh = mmap.mmap(-1, {32 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
inputs = os.memfd_create("inputs")
os.ftruncate(inputs, {32 * MIB})
shown, copied = mmap.mmap(inputs, 0), mmap.mmap(inputs, 0, access=mmap.ACCESS_COPY)
found = os.fstat(inputs)
like_inputs = f"x\\r0-1 rw-s 0 {{os.major(found.st_dev):02x}}:{{os.minor(found.st_dev):02x}} {{found.st_ino}} "
with tempfile.NamedTemporaryFile(prefix=like_inputs) as file:
    file.truncate({32 * MIB})
    named = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
places = dict(ready=ready, shared=shared, fresh=fresh, shown=shown, copied=copied, named=named)
for place in (ready, shared, shown, copied, named):
    place[:] = bytes({32 * MIB})
print(inputs, flush=True)
for line in sys.stdin:
    name, begin, end = line.split()
    if name == "gone":
        ready.close()
    if name == "dropped":
        shared.madvise(mmap.MADV_DONTNEED)
    for at in range(int(begin), int(end), mmap.PAGESIZE):
        places[name][at] = 1
    print(flush=True)
"""


class Toucher:
    """A process that touches the memory that it is told to."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", TOUCHING], text=True, **pipes)  # type: ignore[call-overload]
        self.inputs = os.stat(f"/proc/{self.process.pid}/fd/{self._answer()}")

    def touch(self, name: str, begin: int = 0, end: int = 0) -> Touched:
        assert self.process.stdin
        self.process.stdin.write(f"{name} {begin} {end}\n")
        self.process.stdin.flush()
        self._answer()
        return self.look()

    def look(self) -> Touched:
        found = used_up.look(self.process.pid, without=self.inputs)
        assert found
        return found

    def _answer(self) -> str:
        assert self.process.stdout
        answer = self.process.stdout.readline()
        assert answer
        return str(answer).strip()


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


@pytest.mark.parametrize("name", ["ready", "shared", "copied", "named"])
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
    used = toucher.touch("shared", 0, MIB)
    assert used_bytes(used, toucher.touch("dropped")) == pytest.approx(31 * MIB, abs=MIB / 4)


def test_inputs_that_others_write_are_left_out(toucher: Toucher) -> None:
    before = toucher.touch("ready", 0, MIB)
    assert used_bytes(before, toucher.touch("shown", 0, 8 * MIB)) < MIB / 4


def test_who_is_gone_has_touched_nothing() -> None:
    used_up.forget(0)
    assert used_up.look(0, without=os.stat("/")) is None


class Scripted:
    """A process of which `touches` says what the next round touches, by its number and the rounds since the marks."""

    def __init__(self, touches: Callable[[int, int], int]) -> None:
        self.touched_bytes = self.unmarked = 0
        self._touches = touches

    def forget(self) -> None:
        self.unmarked = 0

    def used_bytes(self, rounds: int) -> float:
        """What a round of ten calls uses up by the measurements of so many; every tenth calls hidden configurations."""
        watch = Watch(self.forget, lambda: Touched(self.touched_bytes, 0))
        for number in range(rounds):
            watch.round_begins(0, hidden=number % 10 == 0)
            self.touched_bytes += self._touches(number, self.unmarked)
            self.unmarked += 1
            watch.round_ends(0)
        return watch.used_bytes(10, memory_bytes=MIB)


@pytest.mark.parametrize("rounds", [9, 50])
def test_what_every_round_uses_up_is_charged(rounds: int) -> None:
    assert Scripted(lambda *_: 40 * MIB).used_bytes(rounds) == pytest.approx(40 * MIB, rel=0.02)


@pytest.mark.parametrize("honest_rounds", [1, 2, 3])
def test_who_sees_the_marks_go_and_is_honest_for_a_while_is_charged(honest_rounds: int) -> None:
    """And whoever uses up memory in the round that is not measured, and in every second round besides."""
    later = Scripted(lambda _, since: 40 * MIB if since >= honest_rounds else 0)
    assert later.used_bytes(50) > (4 - honest_rounds) * 9 * MIB
    half = Scripted(lambda number, since: 40 * MIB if since == 0 or number % 20 < 8 else 0)
    assert half.used_bytes(50) > 30 * MIB


def test_little_and_seldom_and_the_first_rounds_are_free() -> None:
    assert Scripted(lambda *_: 10 * 16 * 1024).used_bytes(50) == 0
    assert Scripted(lambda *_: 10 * 16 * 1024 + MIB // 4).used_bytes(50) == 0
    assert Scripted(lambda number, _: 100 * MIB if number in (8, 33) else 0).used_bytes(50) == 0
    assert Scripted(lambda *_: 40 * MIB).used_bytes(4) == 0


def test_what_calls_of_hidden_configurations_touch_hides_nothing() -> None:
    fresh = [0]
    watch = Watch(lambda: None, lambda: Touched(used[0] + fresh[0], fresh[0]))
    used = [0]
    for number in range(50):
        watch.round_begins(0, hidden=number % 10 == 4)
        fresh[0] += 200 * MIB if number % 10 == 4 else 0
        used[0] += 40 * MIB
        watch.round_ends(0)
    assert watch.used_bytes(10, memory_bytes=MIB) == pytest.approx(40 * MIB, rel=0.02)


def test_memory_has_its_price() -> None:
    assert 0.01 < used_up.fresh_us_per_byte() * 1024 < 100

"""The clock of replayed calls: two words that the stream itself writes, and the host's clock.

A call is queued as a whole while the stream waits for a word of the host. Then the stream writes one word, runs the
call and writes another; the host looks for both all the time, and what lies between is the call's. The start is seen
before anything of the call runs, and no clock of the GPU is read. Nor does a kernel of the judge run in this process
once device code of a submission is here: that can overwrite the instructions of any kernel, and forge CUDA's events.

Words are random and lie at drawn places in memory of the host. Device code that finds out both could write the last
one early. So when it is seen, a third word is drawn and queued, which the stream writes at once unless the call goes
on. A call with parallel branches has several streams. They are joined by events, which device code can forge, so each
of them waits for the host and writes words at its start and end; the first start and the last end count. The referee
waits on a page that both share and is told at once when the end is seen, since no word could show that the results are
there. Not covered: what the times mean (`gpu/replay.py`).
"""

import ctypes
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...protocol import CONTROL_BYTES, ControlWords, Word
from .driver import Driver, DriverError, pointer, size_t, u64
from .launches import Lanes, Program

_PLACES = 1 << 20
_POLLS_PER_LOOK = 1 << 15
_NOT_READY = 600
_TIMEOUT_S = 60.0
_MAPPED = 2
_SETTLE_US = 30  # so that the GPU has fetched what was queued last
_RELEASE_LATEST_S = 1.0  # where more is launched than the stream holds, it must go on before all is launched
_EQUAL, _PLAIN = 1, 0  # how a word is compared and written
_RELAXED = 2
_BURN_AHEAD_S = 0.01  # of work is launched before the host waits for it
_AIMED, _ENDED, _ENDED_NS, _FOLLOWED = map(int, (Word.AIMED, Word.ENDED, Word.ENDED_NS, Word.FOLLOWED))


class Tampered(Exception):
    """A word was not what the stream was to write."""


@dataclass(frozen=True)
class CallTimes:
    """Of one call, in microseconds, what an empty one takes still in them."""

    call_us: float  # from the word before it to the word behind it
    behind_us: float  # from then on to the word that was queued when that one had been seen
    is_late: bool  # the stream had to go on before everything was queued, so the times are worth nothing
    blind_us: float  # for how long at most the host had not looked before it saw a word
    start_us: float  # from its release to the word before it: long if the GPU still had other work


class _Word(NamedTuple):
    value: int
    arguments: tuple[Any, ...]  # of the driver's function


class Clock:
    """`page` is the control page on which the referee waits for the end of a call; without one nobody does."""

    def __init__(self, driver: Driver, page: ControlWords | None = None) -> None:
        self._driver = driver
        self.page = page or (ctypes.c_uint64 * (CONTROL_BYTES // 8))()
        self._random = secrets.SystemRandom()
        self.lanes = Lanes(driver)
        host, place = pointer(), u64()
        driver.call("cuMemHostAlloc", ctypes.byref(host), size_t(_PLACES * 8), ctypes.c_uint(_MAPPED))
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(place), host, ctypes.c_uint(0))
        self._words = (ctypes.c_uint64 * _PLACES).from_address(int(host.value or 0))
        self._words_at = place.value

    def measure(self, programs: Sequence[Program], step: int = 0) -> CallTimes:
        """Launches `programs` one behind the other. Raises DriverError, Tampered.

        `step` is the number of the call for the referee, which is waited for and then told of the end in any case;
        with 0 it does not wait.
        """
        if step:
            self._await_referee(step)
        streams = self.lanes.of(programs)
        try:
            return self._measure(programs, streams, step)
        except DriverError:
            for stream in streams:  # what was launched before the error may still run
                self._driver.library.cuStreamSynchronize(stream)
            raise
        finally:
            self.page[_ENDED_NS] = self.page[_ENDED_NS] or time.perf_counter_ns()
            self.page[_ENDED] = self.page[_FOLLOWED] = step

    def _measure(self, programs: Sequence[Program], streams: Sequence[pointer], step: int) -> CallTimes:
        self._driver.call("cuCtxResetPersistingL2Cache")
        count = len(streams)
        release, *places = self._draw(1 + 3 * count)
        words = list(map(self._drawn, places, (*streams, *streams, *streams)))
        start, end, behind = slice(count), slice(count, 2 * count), slice(2 * count, None)
        with self._held_until(release, streams):
            self._let_write(words[start])
            for program in programs:
                program.launch()
            self._let_write(words[end])
            queued_ns = time.perf_counter_ns()
            while time.perf_counter_ns() < queued_ns + 1000 * _SETTLE_US:
                pass
            at_start, at_end, at_behind, third = places[start], places[end], places[behind], words[behind]
            see_both = self._see_one_stream if count == 1 else self._see_streams
            is_late, released_ns = bool(self._words[release]), time.perf_counter_ns()
            self._words[release] = 1
            ended, start_ns, end_ns, blind_ns = see_both(at_start, at_end, released_ns)
            self.page[_ENDED_NS] = end_ns
            self.page[_ENDED] = step
            self._let_write(third)
            followed, followed_ns, _ = self._see(at_behind, end_ns)
            self.page[_FOLLOWED] = step
        for stream in streams:
            self._driver.call("cuStreamSynchronize", stream)
        there = [self._words[place] for place in places]
        if not [word.value for word in words] == [*there[start], *ended, *followed] == there:
            raise Tampered("a word around a call was not written by the stream")
        return CallTimes(
            call_us=(end_ns - start_ns) / 1e3,
            behind_us=(followed_ns - end_ns) / 1e3,
            is_late=is_late,
            blind_us=blind_ns / 1e3,
            start_us=(start_ns - released_ns) / 1e3,
        )

    def burn(self, programs: Sequence[Program], least_s: float) -> tuple[int, float]:
        """Launches `programs` again and again for `least_s`: how many calls that were, and how many seconds they took.

        As a graph, since single launches of short kernels would leave the GPU idle between them. Raises DriverError.
        """
        driver, stream, graph, ready = self._driver, self.lanes.first, pointer(), pointer()
        driver.call("cuStreamBeginCapture_v2", stream, ctypes.c_int(_RELAXED))
        for program in programs:
            program.launch()
        driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, u64(0))
        launches, at_once, started_s = 0, 1, time.monotonic()
        took_s = 0.0
        while took_s < least_s:
            for _ in range(at_once):
                driver.call("cuGraphLaunch", ready, stream)
            driver.call("cuStreamSynchronize", stream)
            launches, took_s = launches + at_once, time.monotonic() - started_s
            at_once = max(1, int(_BURN_AHEAD_S * launches / took_s))
        driver.call("cuGraphExecDestroy", ready)
        driver.call("cuGraphDestroy", graph)
        return launches * len(programs), took_s

    @contextmanager
    def _held_until(self, place: int, streams: Sequence[pointer]) -> Iterator[None]:
        """What is launched on `streams` inside is done when 1 is written to `place`, which happens in any case."""
        where = (u64(self._words_at + 8 * place), ctypes.c_uint(1), ctypes.c_uint(_EQUAL))
        for stream in streams:
            self._driver.call("cuStreamWaitValue32_v2", stream, *where)
        latest = threading.Timer(_RELEASE_LATEST_S, self._words.__setitem__, (place, 1))
        latest.daemon = True
        latest.start()
        try:
            yield
        finally:
            self._words[place] = 1
            latest.cancel()

    def _drawn(self, place: int, stream: pointer) -> "_Word":
        """For `place`, to be queued on `stream` with no delay: until it is, the end of a call may be a forged one."""
        value = 1 + secrets.randbelow((1 << 32) - 1)
        where = u64(self._words_at + 8 * place)
        return _Word(value, (stream, where, ctypes.c_uint(value), ctypes.c_uint(_PLAIN)))

    def _let_write(self, words: Sequence["_Word"]) -> None:
        """The stream of each writes it when all that was launched there before has ended."""
        for word in words:
            self._driver.call("cuStreamWriteValue32_v2", *word.arguments)

    def _draw(self, count: int) -> list[int]:
        """Different places: a word over which another one is written would look like a forged one."""
        places = self._random.sample(range(_PLACES), count)
        for place in places:
            self._words[place] = 0
        return places

    def _await_referee(self, step: int) -> None:
        """Raises DriverError if it does not wait; whoever asked for the call then ends this process."""
        self.page[_ENDED_NS], deadline_s = 0, time.monotonic() + _TIMEOUT_S
        while self.page[_AIMED] != step:
            if time.monotonic() > deadline_s:
                raise DriverError("the referee does not wait for the call")

    def _see_one_stream(
        self, at_start: Sequence[int], at_end: Sequence[int], looked_ns: int
    ) -> tuple[list[int], int, int, int]:
        """The word at the end, when the start and the end were seen, and for how long nobody had looked at most.

        One function, since an empty call takes little longer than a call of a function does.
        """
        (start,), (end,) = at_start, at_end
        words, now, polls, deadline_s = self._words, time.perf_counter_ns, range(_POLLS_PER_LOOK), 0.0
        while True:
            for _ in polls:
                if words[start]:
                    break
                looked_ns = now()
            else:
                deadline_s = deadline_s or time.monotonic() + _TIMEOUT_S
                self._demand_running(deadline_s)
                continue
            break
        ended_looked_ns = start_ns = now()
        while True:
            for _ in polls:
                if word := words[end]:
                    break
                ended_looked_ns = now()
            else:
                deadline_s = deadline_s or time.monotonic() + _TIMEOUT_S
                self._demand_running(deadline_s)
                continue
            break
        end_ns = now()
        return [word], start_ns, end_ns, max(start_ns - looked_ns, end_ns - ended_looked_ns)

    def _see_streams(
        self, at_start: Sequence[int], at_end: Sequence[int], looked_ns: int
    ) -> tuple[list[int], int, int, int]:
        """The same for several streams: the first start and the last end count."""
        _, start_ns, start_blind_ns = self._see_first(at_start, looked_ns)
        ended, end_ns, end_blind_ns = self._see(at_end, start_ns)
        return ended, start_ns, end_ns, max(start_blind_ns, end_blind_ns)

    def _see_first(self, places: Sequence[int], looked_ns: int) -> tuple[list[int], int, int]:
        """As `_see`, for the word that comes first."""
        words, now, deadline_s = self._words, time.perf_counter_ns, time.monotonic() + _TIMEOUT_S
        while True:
            for _ in range(_POLLS_PER_LOOK // len(places)):
                for place in places:
                    if word := words[place]:
                        seen_ns = now()
                        return [word], seen_ns, seen_ns - looked_ns
                looked_ns = now()
            self._demand_running(deadline_s)

    def _see(self, places: Sequence[int], looked_ns: int) -> tuple[list[int], int, int]:
        """The words at `places`, when the last was seen, and how long nobody had looked then; at `looked_ns` one had.

        Does nothing else between two looks, nor after the last one: a word may come meanwhile. If one word is waited
        for, it does not matter when those before it came.
        """
        words, now, began_s, blind_ns = self._words, time.perf_counter_ns, 0.0, 0
        found: list[int] = []
        for place in places:
            before_ns = looked_ns
            while True:
                for _ in range(_POLLS_PER_LOOK):
                    if word := words[place]:
                        break
                    looked_ns = now()
                else:
                    began_s = began_s or time.monotonic()
                    self._demand_running(began_s + _TIMEOUT_S)
                    continue
                break
            seen_ns = now()
            gap_ns = seen_ns - looked_ns
            blind_ns, looked_ns = gap_ns if looked_ns != before_ns else max(blind_ns, gap_ns), seen_ns
            found.append(word)
        return found, looked_ns, blind_ns

    def _demand_running(self, deadline: float) -> None:
        code = self._driver.library.cuStreamQuery(self.lanes.first)
        if code not in (0, _NOT_READY):
            self._driver.check("the call", code)
        if time.monotonic() > deadline:
            raise DriverError("the call: no end")

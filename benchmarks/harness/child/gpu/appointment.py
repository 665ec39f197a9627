"""The clock of replayed calls: they may begin at a time that was fixed before, and a trusted kernel stamps their end.

The host picks a time on the GPU's own clock, a kernel of one thread waits for it on the stream, the launches follow,
and a kernel behind them writes that clock to a drawn place in memory of the host. No start lies in memory that the
launched code could change. A second stamp is launched only after the first was seen. Both are read again when the
stream is idle: a stamp that the launched code wrote early is another one by then. CUDA's events are not used,
since device code can forge them.

Device code can also overwrite the instructions of these kernels, which lie in the memory of its process. So the host's
clock measures the call as well, without any kernel: the stream goes on when the host writes a word shortly before the
appointment, and at the end the stream itself writes another word. Not covered: what the times mean (`gpu/replay.py`).
"""

import ctypes
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from .driver import Driver, DriverError, pointer, size_t, u64
from .launches import Lanes, Program

_STAMPS = 1 << 20
_CALIBRATIONS = 15
_LEAD_US, _LEAD_PER_LAUNCH_US = 260, 10
_POLLS_PER_LOOK = 4096
_NOT_READY = 600
_TIMEOUT_S = 60.0
_MAPPED = 2
_RELEASE_US = 25  # before the appointment: it took 4 to 20 µs on an H100 until the waiting kernel had begun
_RELEASE_LATEST_S = 1.0  # after it: where more is launched than the stream holds, it must go on before all is launched
_EQUAL, _PLAIN = 1, 0  # how a word is compared and written
_RELAXED = 2
_BURN_AHEAD_S = 0.01  # of work is launched before the host waits for it


class Tampered(Exception):
    """A stamp was not what the trusted kernel wrote."""


@dataclass(frozen=True)
class CallTimes:
    """Of one appointment, in microseconds since it, what an empty one takes still in them."""

    first_us: float  # the stamp behind the launches
    late_us: float  # the stamp that was launched when the first one had been seen
    host_us: float  # when the host saw the first stamp, by its own clock
    held_us: float  # by the host's clock alone, from the word that it wrote to the word that it saw; else 0
    is_late: bool  # the launches were not all queued in time, so the times are worth nothing


class Clock:
    def __init__(self, driver: Driver, flush_bytes: int) -> None:
        self._driver = driver
        self._random = secrets.SystemRandom()
        self.lanes = Lanes(driver)
        self._flush_bytes = flush_bytes
        self._flush = driver.allocate(flush_bytes)
        module, host, place = pointer(), pointer(), u64()
        code = Path(__file__).with_name("appointment.ptx").read_bytes()
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
        self._wait, self._stamp = (self._function(module, name) for name in (b"kbench_wait", b"kbench_stamp"))
        driver.call("cuMemHostAlloc", ctypes.byref(host), size_t(_STAMPS * 8), ctypes.c_uint(_MAPPED))
        driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(place), host, ctypes.c_uint(0))
        self._stamps = (ctypes.c_uint64 * _STAMPS).from_address(int(host.value or 0))
        self._stamps_at = place.value

    def keep(self, programs: Sequence[Program], patience: int = 1, *, held: bool = False) -> CallTimes:
        """Launches `programs` at an appointment, one behind the other, with a cold cache.

        `patience` moves the appointment further away, and the moment before it when a `held` stream goes on; that time
        counts as the call's. Raises DriverError, Tampered.
        """
        driver, stream = self._driver, self.lanes.first
        driver.call("cuCtxResetPersistingL2Cache")
        ahead_ns = self._host_ahead_ns()
        arrived, first, second, begin, end = self._draw(5)
        launches = sum(program.operations for program in programs)
        lead_us = patience * (_LEAD_US + _LEAD_PER_LAUNCH_US * launches)
        driver.call("cuMemsetD8Async", self._flush, ctypes.c_ubyte(1), size_t(self._flush_bytes), stream)
        with self._held_until(begin, lead_us / 1e6 + _RELEASE_LATEST_S) if held else nullcontext():
            begin_ns = _now_ns() - ahead_ns + 1000 * lead_us  # holding the stream takes a while, which is over now
            self._launch(self._wait, begin_ns, self._stamps_at + 8 * arrived)
            for program in programs:
                program.launch()
            self._launch(self._stamp, self._stamps_at + 8 * first)
            word = self._let_write(end) if held else 0
            queued_ns = _now_ns() - ahead_ns
            while held and _now_ns() - ahead_ns < begin_ns - 1000 * _RELEASE_US * patience:
                pass
            released_ns = _now_ns()
            self._stamps[begin] = 1
            seen_first = self._await(first)
            seen_ns = _now_ns() - ahead_ns
            seen_end = self._await(end) if held else word
            held_ns = _now_ns() - released_ns if held else 0
            self._launch(self._stamp, self._stamps_at + 8 * second)
            seen_second = self._await(second)
        driver.call("cuStreamSynchronize", stream)
        if (self._stamps[first], self._stamps[second], seen_end) != (seen_first, seen_second, word):
            raise Tampered("the stamp at the end of a call was written before the call had ended")
        return CallTimes(
            first_us=(seen_first - begin_ns) / 1e3,
            late_us=(seen_second - begin_ns) / 1e3,
            host_us=(seen_ns - begin_ns) / 1e3,
            held_us=held_ns / 1e3,
            is_late=self._stamps[arrived] >= begin_ns or queued_ns >= begin_ns,
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

    def _host_ahead_ns(self) -> int:
        """By how much the host's clock is ahead of the GPU's; they drift, so this goes before every call."""
        found = []
        for _ in range(_CALIBRATIONS):
            (place,) = self._draw(1)
            self._launch(self._stamp, self._stamps_at + 8 * place)
            stamp = self._await(place)
            found.append(_now_ns() - stamp)
        return sorted(found)[_CALIBRATIONS // 2]

    @contextmanager
    def _held_until(self, place: int, latest_s: float) -> Iterator[None]:
        """What is launched inside is done when 1 has been written to `place`, which happens in any case."""
        where = (self.lanes.first, u64(self._stamps_at + 8 * place), ctypes.c_uint(1), ctypes.c_uint(_EQUAL))
        self._driver.call("cuStreamWaitValue32_v2", *where)
        latest = threading.Timer(latest_s, self._stamps.__setitem__, (place, 1))
        latest.daemon = True
        latest.start()
        try:
            yield
        finally:
            self._stamps[place] = 1
            latest.cancel()

    def _let_write(self, place: int) -> int:
        """The word that the stream writes to `place` when all that was launched before has ended."""
        word = 1 + secrets.randbelow((1 << 32) - 1)
        where = (self.lanes.first, u64(self._stamps_at + 8 * place), ctypes.c_uint(word), ctypes.c_uint(_PLAIN))
        self._driver.call("cuStreamWriteValue32_v2", *where)
        return word

    def _draw(self, count: int) -> list[int]:
        """Different places: a stamp over which another one is written would look like a forged one."""
        places = self._random.sample(range(_STAMPS), count)
        for place in places:
            self._stamps[place] = 0
        return places

    def _await(self, place: int) -> int:
        """The stamp at `place` as soon as it is there."""
        stamps, deadline = self._stamps, time.monotonic() + _TIMEOUT_S
        while True:
            for _ in range(_POLLS_PER_LOOK):
                if stamp := stamps[place]:
                    return int(stamp)
            code = self._driver.library.cuStreamQuery(self.lanes.first)
            if code not in (0, _NOT_READY):
                self._driver.check("the call", code)
            if time.monotonic() > deadline:
                raise DriverError("the call: no end")

    def _function(self, module: pointer, name: bytes) -> pointer:
        found = pointer()
        self._driver.call("cuModuleGetFunction", ctypes.byref(found), module, ctypes.c_char_p(name))
        return found

    def _launch(self, function: pointer, *words: int) -> None:
        values = [u64(word) for word in words]
        places = (pointer * len(values))(*(ctypes.addressof(value) for value in values))
        one, none = ctypes.c_uint(1), pointer(None)
        stream = self.lanes.first
        self._driver.call("cuLaunchKernel", function, *(one,) * 6, ctypes.c_uint(0), stream, places, none)


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

"""Three ways to show that a call has ended without a word of its own: `python -m lab.gpu.revoke_probe`.

Both words around a replayed call could be forged by device code that reads the driver's queue. A process could lose its
results at the end: `cuMemSetAccess` makes them read-only, so that later writes fail. Or another process could copy them
at once: a copy takes long if the first process still works. Measured, a JSON line each, for several sizes of memory:

revoke   how long it takes while nothing runs, and to give it back
beside   the same 1 ms after a kernel of 20 ms has started that writes at its end: when the call came back, whether the
         write arrived, and what the driver says of the kernel
sample   how long the referee's sampler takes for a small and a large result while this process does nothing, and while
         it runs that kernel; and how often it saw that the write had not happened yet
copy     how long another process takes to copy 64 KB, on the GPU and to the host, while this one does nothing, and
         while it runs that kernel

Needs nvcc and torch. Not covered: device code that waits for the moment.
"""

import argparse
import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.child.gpu.driver import (
    READ,
    READ_WRITE,
    AccessDescription,
    Driver,
    DriverError,
    Location,
    pointer,
    size_t,
    u64,
)
from benchmarks.harness.child.gpu.sample import drawn_rows

_AT = 0x6000_0000_0000
_SIZES = (2 << 20, 64 << 20, 1 << 30)
_KERNEL_NS, _WAIT_S = 20_000_000, 0.001
_TRIALS, _COPIES, _COPY_BYTES = 30, 50, 64 << 10
_ON_DEVICE = 1
_PAUSE_S = 0.03


class Borrower:
    """A process without torch that maps the memory of another and has a kernel to launch."""

    def __init__(self, fd: int, size_bytes: int, image: bytes) -> None:
        self.driver, self._size = Driver(), size_t(size_bytes)
        self.driver.open()
        self.driver.adopt(fd, size_bytes, _AT, writable=True)
        library, self._function, self._image = pointer(), pointer(), image
        self.driver.call("cuModuleLoadData", ctypes.byref(library), ctypes.c_char_p(image))
        self.driver.call("cuModuleGetFunction", ctypes.byref(self._function), library, ctypes.c_char_p(b"spin"))
        self._stream = self.driver.stream()

    def launch(self) -> None:
        """A kernel that ends with a write to the memory."""
        words = (u64(_KERNEL_NS), u64(_AT))
        places = (pointer * 2)(*(ctypes.addressof(word) for word in words))
        one, none = ctypes.c_uint(1), ctypes.c_uint(0)
        self.driver.call(
            "cuLaunchKernel", self._function, one, one, one, one, one, one, none, self._stream, places, pointer(None)
        )

    def allow_us(self, flags: int) -> float:
        access, began = AccessDescription(Location(_ON_DEVICE, 0), flags), time.perf_counter()
        self.driver.call("cuMemSetAccess", u64(_AT), self._size, ctypes.byref(access), size_t(1))
        return 1e6 * (time.perf_counter() - began)

    def ended(self) -> str:
        try:
            self.driver.call("cuStreamSynchronize", self._stream)
        except DriverError as error:
            return str(error)
        return "no error"


def revoke(borrower: Borrower) -> dict[str, Any]:
    pairs = [(borrower.allow_us(READ), borrower.allow_us(READ_WRITE)) for _ in range(_TRIALS)]
    taken, given = zip(*pairs, strict=True)
    return {"revoke_us": _shown(taken), "give_back_us": _shown(given)}


def beside(borrower: Borrower) -> dict[str, Any]:
    began = time.perf_counter()
    borrower.launch()
    time.sleep(_WAIT_S)
    took_us = borrower.allow_us(READ)
    came_back_us = 1e6 * (time.perf_counter() - began)
    said = borrower.ended()
    ended_us = 1e6 * (time.perf_counter() - began)
    return {
        "revoke_us": round(took_us, 1),
        "came_back_us": round(came_back_us),
        "ended_us": round(ended_us),
        "said": said,
    }


def child(what: str, fd: int, size_bytes: int, image: Path) -> None:
    borrower = Borrower(fd, size_bytes, image.read_bytes())
    if what in ("revoke", "beside"):
        print(json.dumps({"revoke": revoke, "beside": beside}[what](borrower)), flush=True)
        return
    print(json.dumps({}), flush=True)
    for line in sys.stdin:  # launches when it is told to, until its input ends
        if line.strip():
            borrower.launch()
            print(json.dumps({}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--child", nargs=4, metavar=("WHAT", "FD", "BYTES", "IMAGE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, fd, size_bytes, image = options.child
        child(what, int(fd), int(size_bytes), Path(image))
        return 0
    import torch

    from benchmarks.harness.child.gpu.cuda_accelerator import open_device

    device = open_device()
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "spin.cubin"
        source = Path(__file__).with_name("clock_probe.cu")
        subprocess.run(["nvcc", "-cubin", "-arch=native", "-o", str(image), str(source)], check=True)
        for size_bytes in _SIZES:
            arena = device.create(size_bytes)
            for what in ("revoke", "beside"):
                arena.data.zero_()
                torch.cuda.synchronize()
                told = _said(_started(what, arena.fd, size_bytes, image))
                written = bool(arena.data[:8].any())
                print(json.dumps({"what": what, "bytes": size_bytes, **told, "written": written}), flush=True)
        with _started("copy", arena.fd, _SIZES[-1], image) as process:
            launch = partial(_launch_beside, process)
            _receive(process)
            copy(arena, launch)
            sample(device, arena, launch)
            if process.stdin is not None:
                process.stdin.close()
    return 0


def copy(arena: Any, launch: Callable[[], None]) -> None:
    import torch

    kept = {
        "device": torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda"),
        "host": torch.empty(_COPY_BYTES, dtype=torch.uint8, pin_memory=True),
    }
    for to, busy in itertools.product(kept, (False, True)):
        times = list[float]()
        for _ in range(_COPIES):
            if busy:
                launch()
            began = time.perf_counter()
            kept[to].copy_(arena.data[:_COPY_BYTES], non_blocking=True)
            torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - began))
            time.sleep(_PAUSE_S)
        print(json.dumps({"what": "copy", "to": to, "busy": busy, "copy_us": _shown(times)}), flush=True)


def sample(device: Any, arena: Any, launch: Callable[[], None]) -> None:
    sampler = device.sampler()
    for size_bytes, busy in itertools.product((8, 1 << 28), (False, True)):
        times, missed = list[float](), 0
        for _ in range(_COPIES):
            arena.data[:8].zero_()
            rows = drawn_rows(size_bytes)
            sampler.aim(arena, [rows])
            device.synchronize()
            if busy:
                launch()
            began = time.perf_counter()
            (taken,) = sampler.take()
            times.append(1e6 * (time.perf_counter() - began))
            time.sleep(_PAUSE_S)
            missed += not rows.of(arena.data).cpu().equal(taken)
        told = {"bytes": size_bytes, "busy": busy, "missed": missed, "sample_us": _shown(times)}
        print(json.dumps({"what": "sample", **told}), flush=True)


def _launch_beside(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None  # noqa: S101
    process.stdin.write("go\n")
    process.stdin.flush()
    _receive(process)
    time.sleep(_WAIT_S)


def _receive(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None  # noqa: S101
    process.stdout.readline()


def _started(what: str, fd: int, size_bytes: int, image: Path) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "lab.gpu.revoke_probe", "--child", what, str(fd), str(size_bytes), str(image)]
    return subprocess.Popen(argv, pass_fds=[fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _said(process: "subprocess.Popen[str]") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(process.communicate()[0] or '{"said": "nothing"}')
    return found


def _shown(values_us: Any) -> dict[str, float]:
    ordered = sorted(values_us)
    return {
        "p10": round(ordered[len(ordered) // 10], 1),
        "p50": round(median(ordered), 1),
        "max": round(ordered[-1], 1),
    }


if __name__ == "__main__":
    sys.exit(main())

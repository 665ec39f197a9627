"""Tries to change a queued launch from device code: `python -m lab.gpu.queue_probe`.

An executor queues the recorded launches and, behind them, a trusted kernel that writes the time. Its parameters lie in
memory of the driver. Here a kernel runs while another is queued behind it, and looks for the other's parameter: in
whatever memory of the driver the host sees too, and in device memory around the module. What it finds it overwrites.
Every attempt has a process of its own, since a bad address ends the context. Prints one JSON line per attempt. Not
covered: guessing an address without the help of the host, which only the printed distances say something about.
"""

import argparse
import ctypes
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.child.gpu.driver import Driver, DriverError, pointer, size_t, u64

_SOURCE = Path(__file__).with_suffix(".cu")
_PAGE_BYTES = 2 << 20
_PAGES_AROUND = 6
_HITS_TRIED = 4
_MAPPING_MAX_BYTES = 16 << 20
_TIMEOUT_S = 30
_CHANGED = 0x1234567812345678


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    path: str


class Probe:
    """A gate, `look` and `marked` in one stream; the gate opens when `look` has been told where to look."""

    def __init__(self, cubin: Path) -> None:
        self.driver = driver = Driver()
        driver.open()
        module, self.stream = pointer(), driver.stream()
        self._image = cubin.read_bytes()
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(self._image))
        self._functions = {name: self._function(module, name) for name in ("gate", "look", "marked")}
        anchor, size = u64(), size_t()
        driver.call(
            "cuModuleGetGlobal_v2", ctypes.byref(anchor), ctypes.byref(size), module, ctypes.c_char_p(b"anchor")
        )
        self.anchor = anchor.value
        self.value = secrets.randbits(64)
        memory = pointer()
        driver.call("cuMemHostAlloc", ctypes.byref(memory), size_t(4096), ctypes.c_uint(2))
        self._words = (ctypes.c_uint64 * 512).from_address(int(memory.value or 0))
        ctypes.memset(self._words, 0, 4096)
        base = ctypes.addressof(self._words)
        self._flag, self._request, self._found, self._result = base, base + 64, base + 1024, base + 2048

    def queue(self) -> None:
        self._launch("gate", self._flag)
        self._launch("look", self._request, self._found, threads=512)
        self._launch("marked", self.value, self._result)

    def look(self, start: int, size_bytes: int, changed: int = 0) -> dict[str, Any]:
        """Opens the gate; what was found, and what `marked` was told in the end."""
        self._words[8:12] = [start, size_bytes, ~self.value & (2**64 - 1), changed]
        self._words[0] = 1
        self.driver.call("cuCtxSynchronize")
        found, result = list(self._words[128:192]), self._words[256]
        said = {self.value: "its own value", changed: "the value that was put there"}.get(result, hex(result))
        return {"found": found[0], "at": [hex(at) for at in found[1 : 1 + min(found[0], 8)]], "marked_got": said}

    def hits(self) -> list[tuple[int, Mapping]]:
        """Where the host finds the value of the queued launch, in memory of the driver."""
        wanted, found = self.value.to_bytes(8, "little"), []
        for mapping in mappings():
            data = ctypes.string_at(mapping.start, mapping.end - mapping.start)
            at = data.find(wanted)
            while at >= 0:
                found.append((mapping.start + at, mapping))
                at = data.find(wanted, at + 1)
        return found

    def _function(self, module: pointer, name: str) -> pointer:
        found = pointer()
        self.driver.call("cuModuleGetFunction", ctypes.byref(found), module, ctypes.c_char_p(name.encode()))
        return found

    def _launch(self, name: str, *values: int, threads: int = 1) -> None:
        words = [u64(value) for value in values]
        places = (pointer * len(words))(*(ctypes.addressof(word) for word in words))
        one, none = ctypes.c_uint(1), pointer(None)
        shape = (one, one, one, ctypes.c_uint(threads), one, one, ctypes.c_uint(0))
        self.driver.call("cuLaunchKernel", self._functions[name], *shape, self.stream, places, none)


def mappings() -> Iterator[Mapping]:
    """Readable memory that the driver has mapped, as far as it is not too large."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        path = words[5] if len(words) > 5 else ""
        driver = "nvidia" in path and ".so" not in path
        if words[1].startswith("rw") and (driver or "/dev/zero" in path) and end - start <= _MAPPING_MAX_BYTES:
            yield Mapping(start, end, path)


def attempt(probe: Probe, what: str, number: int) -> dict[str, Any]:
    """`host`: the hit with this number; `device`: the page so far from the module's memory; `list`: all hits."""
    probe.queue()
    hits = probe.hits()
    shown = [{"distance": at - probe.anchor, "map": mapping.path, "offset": at - mapping.start} for at, mapping in hits]
    if what == "list":
        return {"anchor": hex(probe.anchor), "hits": shown, **probe.look(probe.anchor, 0)}
    if what == "device":
        start = (probe.anchor // _PAGE_BYTES + number) * _PAGE_BYTES
        return {"page": number, **probe.look(start, _PAGE_BYTES, _CHANGED)}
    if number >= len(hits):
        return {"nothing": f"the host finds the parameter in {len(hits)} places"}
    return {**shown[number], **probe.look(hits[number][0], 8, _CHANGED)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attempt", nargs=3, metavar=("CUBIN", "WHAT", "NUMBER"), help="one attempt, in this process")
    options = parser.parse_args()
    if options.attempt:
        cubin, what, number = options.attempt
        try:
            print(json.dumps(attempt(Probe(Path(cubin)), what, int(number))), flush=True)
        except DriverError as error:
            print(json.dumps({"error": str(error)}), flush=True)
        os._exit(0)  # a broken context would take its time
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "probe.cubin"
        subprocess.run(["nvcc", "-cubin", "-arch=sm_90a", "-o", str(cubin), str(_SOURCE)], check=True)
        wanted = [("list", number) for number in range(3)] + [("host", number) for number in range(_HITS_TRIED)]
        wanted += [("device", number) for number in range(-_PAGES_AROUND, _PAGES_AROUND + 1)]
        for what, number in wanted:
            command = [sys.executable, "-m", "lab.gpu.queue_probe", "--attempt", str(cubin), what, str(number)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
                line = done.stdout.strip() or json.dumps({"died": done.returncode, "said": done.stderr[-300:]})
            except subprocess.TimeoutExpired:
                line = json.dumps({"error": "no answer"})
            print(json.dumps({"what": what, "number": number}), line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

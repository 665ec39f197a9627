"""Replaces the kernel that stamps the end of replayed calls, from device code: `python -m lab.gpu.code_probe`.

A kernel learns the address of its own code, looks for the stamp in the same page of 2 MB, and puts one there that
writes 10 µs less. Prints one JSON line before and one after it: the medians of an empty call and of one that takes
20 µs, by the stamps and by the host's clock; the latter must stay as they were. Needs nvcc and
ptxas. Not covered: whether a judging charges the difference (`tests/harness/test_gpu_replay.py`).
"""

import ctypes
import json
import struct
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.child.gpu import appointment
from benchmarks.harness.child.gpu.appointment import Clock
from benchmarks.harness.child.gpu.driver import Driver, pointer, size_t, u64

_ARCHITECTURE = "sm_90a"
_FLUSH_BYTES, _PAGE_BYTES, _CALLS = 256 << 20, 2 << 20, 15
_READ_CLOCK, _LEPC = 0x7805, (0x1000794E, 0x000FCE0000000000)  # the first by its lowest 16 bits
_REGISTER = 0xFF0000  # that both write to
_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_SPIN_NS, _LESS_NS = 20_000, 10_000


class Spin:
    """A program of one kernel that takes 20 µs."""

    operations = 1

    def __init__(self, launch: Any) -> None:
        self.launch = lambda: launch("spin", _SPIN_NS)


def main() -> int:
    driver = Driver()
    driver.open()
    clock = Clock(driver, _FLUSH_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        image, stamp = compiled(Path(folder))
    functions = loaded(driver, image)

    def launch(name: str, *values: int, blocks: int = 1, threads: int = 1) -> None:
        words = [u64(value) for value in values]
        places = (pointer * len(words))(*(ctypes.addressof(word) for word in words))
        one, none = ctypes.c_uint(1), pointer(None)
        shape = (ctypes.c_uint(blocks), one, one, ctypes.c_uint(threads), one, one, ctypes.c_uint(0))
        driver.call("cuLaunchKernel", functions[name], *shape, clock.lanes.first, places, none)

    memory = driver.allocate(1 << 16).value
    told = (ctypes.c_uint64 * 2)()

    def answer(name: str, *values: int, **shape: int) -> list[int]:
        driver.call("cuMemsetD8_v2", u64(memory), ctypes.c_ubyte(0), size_t(16))
        launch(name, *values, memory, **shape)
        driver.call("cuCtxSynchronize")
        driver.call("cuMemcpyDtoH_v2", told, u64(memory), size_t(16))
        return list(told)

    print(json.dumps({"stamp": "its own", **times(clock, Spin(launch))}), flush=True)
    page = answer("place")[0] // _PAGE_BYTES * _PAGE_BYTES
    words = struct.unpack_from("<8Q", stamp)  # of four instructions, which both stamps begin with
    count, second_at = answer("find", page, _PAGE_BYTES, words[2], words[4], words[6], blocks=132, threads=256)
    if not count:
        print(json.dumps({"stamp": "not found"}))
        return 1
    driver.call("cuMemcpyHtoD_v2", u64(memory + 64), ctypes.c_char_p(stamp), size_t(len(stamp)))
    launch("change", second_at - 16, memory + 64, len(stamp) // 8)
    launch("lengthy", memory, 0, blocks=264, threads=64)
    print(json.dumps({"stamp": "replaced", **times(clock, Spin(launch))}), flush=True)
    return 0


def times(clock: Clock, spin: Any) -> dict[str, dict[str, float]]:
    found = {}
    for name, programs in (("nothing", []), ("spin", [spin])):
        kept = [item for item in (clock.keep(programs, held=True) for _ in range(_CALLS)) if not item.is_late]
        found[name] = {
            "kept": len(kept),
            "first_us": round(median(item.first_us for item in kept), 2),
            "held_us": round(median(item.held_us for item in kept), 2),
        }
    return found


def compiled(folder: Path) -> tuple[bytes, bytes]:
    """The image of the kernels here, and the code of a stamp that writes less."""
    image, other, text = folder / "probe.cubin", folder / "stamp.cubin", folder / "stamp.ptx"
    source = Path(__file__).with_suffix(".cu")
    subprocess.run(["nvcc", "-cubin", f"-arch={_ARCHITECTURE}", "-o", str(image), str(source)], check=True)
    read = "mov.u64 \t%rd1, %globaltimer;"
    trusted = Path(appointment.__file__).with_name("appointment.ptx").read_text()
    text.write_text(trusted.replace(read, f"{read}\n\tsub.u64 \t%rd1, %rd1, {_LESS_NS};"))
    subprocess.run(["ptxas", "-arch=sm_90", "-o", str(other), str(text)], check=True)
    stamp, data = other.read_bytes(), bytearray(image.read_bytes())
    at, size = section(stamp, b".text.kbench_stamp")
    start, length = section(bytes(data), b".text.place")
    for place in range(start, start + length, 16):
        (word,) = struct.unpack_from("<Q", data, place)
        if word & 0xFFFF == _READ_CLOCK:
            struct.pack_into("<QQ", data, place, _LEPC[0] | word & _REGISTER, _LEPC[1])
    return bytes(data), stamp[at : at + size]


def section(data: bytes, name: bytes) -> tuple[int, int]:
    header = _HEADER.unpack_from(data)
    entries = [_SECTION.unpack_from(data, header[6] + header[11] * number) for number in range(header[12])]
    names = entries[header[13]][4]
    return next((item[4], item[5]) for item in entries if data[names + item[0] :].startswith(name + b"\0"))


def loaded(driver: Driver, image: bytes) -> dict[str, pointer]:
    module, functions = pointer(), {}
    driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
    for name in ("place", "find", "change", "lengthy", "spin"):
        functions[name] = pointer()
        driver.call("cuModuleGetFunction", ctypes.byref(functions[name]), module, ctypes.c_char_p(name.encode()))
    return functions


if __name__ == "__main__":
    raise SystemExit(main())

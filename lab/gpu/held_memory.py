"""What becomes of judgings while another program holds the GPU's memory: `python -m lab.gpu.held_memory`.

The program leaves `--left-mb` megabytes each time and ends after the judging of a shipped kernel beside it. Prints a
line for each judging and appends its raw report to `--reports`. Baselines are prepared anew. Exit code 0 if the last
judging, with the whole GPU, is accepted, and no other one blames the submission; 1 otherwise.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Paths, Source, Verdict, default_rules, default_suites, find_task, judge, shipped_kernel

_HOLDER = """
import ctypes, sys, time
cuda, device, left_bytes = ctypes.CDLL("libcuda.so.1"), int(sys.argv[1]), int(sys.argv[2]) << 20
context, free, total, place = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
assert not cuda.cuCtxSetCurrent(context)
while True:
    assert not cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    piece = min(1 << 32, free.value - left_bytes)
    if piece < 1 << 22 or cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(piece)):
        break
print("held", flush=True)
time.sleep(3600)
"""
_OUR_FAULT = (Verdict.INTERNAL_ERROR, Verdict.NOISY, Verdict.PASS)


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    task, rules = find_task(default_suites(), options.task), default_rules()
    source = Source(shipped_kernel(task, "cuda") or "", "cuda")
    number = int(options.device.partition(":")[2] or 0)
    verdicts = []
    with tempfile.TemporaryDirectory(dir=options.data) as data:
        for left_mb in (*options.left_mb, None):
            began_s = time.monotonic()
            with held(number, left_mb):
                report = judge(source, task, rules, Paths(Path(data)), device=options.device)
            verdicts.append(report.verdict)
            left = "the whole GPU" if left_mb is None else f"{left_mb} MB left"
            print(f"{left:<16}{report.verdict:<18}{time.monotonic() - began_s:6.1f} s  {report.reason}", flush=True)
            if options.reports:
                with options.reports.open("a") as lines:
                    lines.write(json.dumps({"left_mb": left_mb, "report": report.to_json()}) + "\n")
    return 0 if verdicts[-1] == Verdict.PASS and all(verdict in _OUR_FAULT for verdict in verdicts) else 1


@contextmanager
def held(device: int, left_mb: int | None) -> Iterator[None]:
    """Another program holds the GPU's memory meanwhile, but for so many megabytes; with None there is none."""
    if left_mb is None:
        yield
        return
    command = [sys.executable, "-c", _HOLDER, str(device), str(left_mb)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            if holder.stdout is None or holder.stdout.readline().strip() != "held":
                raise RuntimeError("the GPU's memory could not be held")
            yield
        finally:
            holder.kill()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.held_memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="layernorm/backward")
    parser.add_argument("--left-mb", type=int, nargs="*", default=[1500, 3500, 3500, 6000])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--reports", type=Path, help="append raw reports here, one JSON line each")
    parser.add_argument("--data", type=Path, help="where builds and baselines are kept meanwhile")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""The process with the GPU for `beside_profiler.py`: a request and a file for its answers as arguments.

Not covered: whether results are right, and protection from what a kernel does to this process.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.child.gpu.accelerator import Accelerator, exact_arithmetic
from benchmarks.harness.child.gpu.shell import start_device
from benchmarks.harness.child.gpu.warm import drawn_tensors
from benchmarks.harness.child.inputs import call_arguments
from benchmarks.harness.child.modules import functions_of

GATE_CYCLES = 1_000_000  # for which the GPU waits while the launches of a call queue up
_WARM_CALLS = 2


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    exact_arithmetic()
    device = start_device("cuda")
    flush = torch.empty(request["flush_bytes"], dtype=torch.int8, device=device.device)
    with Path(sys.argv[2]).open("a") as answers:
        for kernel in request["kernels"]:
            answer: dict[str, Any] = {"name": kernel["name"]}
            try:
                calls = prepared_calls(kernel, device, flush, request["repeats"])
                answer |= (
                    {"called": sum(map(profiled, calls))} if request["profiled"] else {"us": [*map(by_events, calls)]}
                )
            except Exception as error:  # noqa: BLE001 - process edge: one kernel that fails must not hide the others
                answer |= {"problem": f"{type(error).__name__}: {error}"[:500]}
            print(json.dumps(answer), file=answers, flush=True)


def prepared_calls(kernel: dict[str, Any], device: Accelerator, flush: torch.Tensor, repeats: int) -> Iterator[Any]:
    """The same call on the same inputs, each time with a cold cache."""
    (function,) = functions_of(kernel["binary"], kernel, "cuda")
    (config,) = kernel["configs"]
    arguments = call_arguments(config, drawn_tensors(config, device))
    for _ in range(_WARM_CALLS):
        function(*arguments)
    for _ in range(repeats):
        flush.zero_()
        device.synchronize()
        yield lambda: function(*arguments)


def profiled(call: Any) -> int:
    """One call of which the tool tells the time, and a known kernel behind it."""
    torch.cuda.profiler.start()
    results = call()
    torch.cuda.synchronize()
    torch.cuda._sleep(1)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    del results
    return 1


def by_events(call: Any) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(GATE_CYCLES)
    start.record()
    results = call()
    end.record()
    torch.cuda.synchronize()
    del results
    return 1e3 * float(start.elapsed_time(end))


if __name__ == "__main__":
    main()

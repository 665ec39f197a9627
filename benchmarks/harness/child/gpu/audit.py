"""One call of a submission per configuration, for a profiler or a memory checker that watches from outside.

    python -c "... main()" PLAN

PLAN is a file with `binary`, `direction`, `configs` and `flush_bytes`; `apart.py` comes first. Inputs are drawn here
and the cache is flushed before the call that is watched, as in a judging. Not covered: whether results are right and
how long a call takes, which the one who watches says.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..inputs import call_arguments
from ..modules import functions_of
from ..shell import Function
from .accelerator import Accelerator, exact_arithmetic
from .packages import wake
from .shell import start_device
from .warm import drawn_tensors

_WARM_CALLS = 2


def main(arguments: Sequence[str]) -> None:
    plan = json.loads(Path(arguments[0]).read_text())
    exact_arithmetic()
    device = start_device(plan["device"])
    wake(plan["binary"])
    functions = functions_of(plan["binary"], plan, device.device.type)
    for function, config in zip(functions, plan["configs"], strict=True):
        watched_call(function, config, device, plan["flush_bytes"], mark=plan["marked"])
    sys.stdout.flush()


def watched_call(
    function: Function, config: dict[str, Any], device: Accelerator, flush_bytes: int, *, mark: bool
) -> None:
    """The range between the profiler's start and stop holds one call, and with `mark` a known kernel behind it."""
    for _ in range(_WARM_CALLS):
        function(*call_arguments(config, drawn_tensors(config, device)))
    arguments = call_arguments(config, drawn_tensors(config, device))
    flush = torch.empty(flush_bytes, dtype=torch.int8, device=device.device)
    flush.zero_()
    device.synchronize()
    torch.cuda.profiler.start()
    results = function(*arguments)
    device.synchronize()
    if mark:
        torch.cuda._sleep(1)
        device.synchronize()
    torch.cuda.profiler.stop()
    del results

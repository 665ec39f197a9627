"""Runs a Python submission once per configuration, and hands over the kernels that it has compiled then.

It may start compilers, which the judged process may not, and it is timed by nobody. Its inputs are drawn here, from
seeds that are used nowhere else. The cache lies in its own memory and leaves as an archive through a descriptor. Not
covered: whether the results are right.
"""

import base64
import hashlib
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .. import inputs
from ..enter import install_filter
from ..modules import load_functions
from ..shell import TORCH_DTYPES, Function, connect
from .accelerator import Accelerator, exact_arithmetic
from .asleep import sleep_until_called
from .packages import wake
from .shell import start_device


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    exact_arithmetic()
    sleep_until_called(link, arguments)
    device = start_device(arguments[1])
    link.send(awake=True)
    message = link.receive()
    kernels = Path(os.environ["KBENCH_KERNELS"])
    kernels.mkdir(exist_ok=True)
    try:
        wake(message["binary"])
    except Exception as error:  # noqa: BLE001 - process edge: no code of the submission is loaded yet
        link.send(unusable=f"{type(error).__name__}: {error}"[:4000])
        return
    if message["filter"]:
        install_filter(base64.b64decode(message["filter"]))
    link.send(woken=digests(kernels))
    functions = load_functions(message["binary"], message, link, device.device.type)
    if functions is None:
        return
    try:
        for function, config in zip(functions, message["configs"], strict=True):
            run_once(function, config, device)
    except Exception as error:  # noqa: BLE001 - process edge: whatever the submission raised is the answer
        link.send(call_error=f"{type(error).__name__}: {error}"[:4000])
        return
    hand_over(kernels, message["answer"])
    link.send(warmed=True)


def digests(folder: Path) -> dict[str, str]:
    """Of all files in it: judged processes load some of them before their filter is in force, so none may change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def hand_over(cache: Path, answer: int) -> None:
    """In the form that `outbox.unpack_into` reads."""
    form = tarfile.GNU_FORMAT
    with os.fdopen(answer, "wb") as file, tarfile.open(fileobj=file, mode="w|", format=form) as archive:
        for path in sorted(cache.rglob("*")):
            archive.add(path, arcname=str(path.relative_to(cache)), recursive=False)


def run_once(function: Function, config: dict[str, Any], device: Accelerator) -> None:
    tensors = drawn_tensors(config, device)
    function(*inputs.call_arguments(config, tensors))
    device.synchronize()


def drawn_tensors(config: dict[str, Any], device: Accelerator) -> list[torch.Tensor]:
    """Tensor arguments of `config` in memory of this process, with random values."""
    items = [item for item in config["arguments"] if "value" not in item]
    tensors = [torch.empty(item["shape"], dtype=TORCH_DTYPES[item["dtype"]], device=device.device) for item in items]
    inputs.draw(config, os.urandom(inputs.SEED_BYTES), tensors)
    return tensors

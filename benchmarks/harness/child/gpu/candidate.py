"""The process that holds a GPU submission. It sees inputs and its own shared memory, never a reference.

The device is awake and the system call filter in force before a byte of the submission is mapped. It records its calls
first and serves calls only if they cannot be replayed. Not covered: any decision, and starting compilers, which
`warm.py` has done before.
"""

import base64
import signal
from collections.abc import Sequence

from ..enter import install_filter
from ..modules import load_functions
from ..shell import await_leave_to_load, connect
from .accelerator import exact_arithmetic
from .asleep import sleep_until_called
from .driver import Driver
from .loaded import LoadedCode
from .packages import wake
from .recorder import Recorder
from .shell import Server, open_calls, receive_memory, start_device


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    exact_arithmetic()
    sleep_until_called(link, arguments)
    device = start_device(arguments[1])
    link.send(awake=True)
    message = link.receive()
    memory = receive_memory(link, device, inputs_at=message["inputs_at"], outputs_at=message["outputs_at"])
    calls = open_calls(message, memory)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    packages = wake(message["binary"])
    loaded = listening(packages) if device.device.type == "cuda" else None
    with device.results_in(memory.outputs, message["slot_bytes"], message["pool"]):
        if message["filter"]:
            install_filter(base64.b64decode(message["filter"]))
        await_leave_to_load(link)
        functions = load_functions(message["binary"], message, link, device.device.type)
        if functions is not None:
            agreed = (memory.inputs.base, memory.outputs.base) == (message["inputs_at"], message["outputs_at"])
            Recorder(functions, calls, memory.outputs, device, link, agreed=agreed, loaded=loaded).serve()
            Server([functions], calls, memory.outputs, device, link).serve(message["control"])


def listening(packages: Sequence[str]) -> LoadedCode | None:
    """To what these packages load. None for Triton alone, whose own cache tells, and for extensions."""
    if not set(packages) - {"triton"}:
        return None
    loaded = LoadedCode(Driver())
    loaded.listen()
    return loaded

"""The process that holds a submission. It sees inputs, never a reference.

The system call filter is in force before a byte of the submission is mapped. Not covered: any decision.
"""

import base64
import signal
from collections.abc import Sequence

from .enter import install_filter
from .modules import load_functions
from .shell import await_leave_to_load, connect, open_calls, serve, set_threads


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    message = link.receive()
    set_threads(message["threads"])
    calls = open_calls(message)
    # Python ignores the signal for a file that grows too large, which would turn endless output into endless time
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if message["filter"]:
        install_filter(base64.b64decode(message["filter"]))
    await_leave_to_load(link)
    functions = load_functions(message["binary"], message, link)
    if functions is not None:
        serve(message, [functions], calls, link)

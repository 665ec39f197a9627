"""The first thing in a process that a tool starts and looks at: the tool's report and memory are out of its reach.

    python -c "... main()" REPORT MODULE ARGUMENTS...

REPORT, a descriptor that the tool reports to, is closed. Then the process enters a Landlock domain: from outside of
it nobody's memory or descriptors can be opened through /proc. Where the system's kernel has no Landlock the rest still
holds. Not covered: the tool's own library in this process. Imports nothing heavy, since a domain holds for the thread
that enters it and for those that it starts.
"""

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ..enter import prctl

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same numbers on every architecture
_MAKE_BLOCK_DEVICES = 1 << 11  # a domain must forbid something; nobody in a sandbox can do this anyway
_PR_SET_NO_NEW_PRIVS = 38


def main(arguments: Sequence[str]) -> None:
    report, module, *rest = arguments
    with suppress(OSError):  # a tool may have closed it for those that it starts
        os.close(int(report))
    enter_domain()
    import_module(f".{module}", __package__).main(rest)


def enter_domain() -> bool:
    """False where there is no Landlock."""
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = ctypes.c_uint64(_MAKE_BLOCK_DEVICES)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    try:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)

"""The first thing in a process that a tool starts and looks at: the tool's report and memory are out of its reach.

    python -c "... main()" REPORT MODULE ARGUMENTS...

REPORT, a descriptor that the tool reports to, is closed. Then the process enters a Landlock domain: from outside of
it nobody's memory can be opened through /proc. Where the system's kernel has no Landlock the rest still holds. Not
covered: the tool's own library in this process; audits of Triton on Linux before 6.7, whose domains allow no file to be
moved to another folder, as Triton does. Imports nothing heavy, since a domain holds for the thread that enters it and
for those that it starts.
"""

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ..enter import prctl

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same numbers on every architecture
# A domain must forbid something. Nobody in a sandbox can bind a port of TCP or make block devices anyway. One that
# forbids anything about files also forbids moving them to another folder.
_BIND_TCP, _MAKE_BLOCK_DEVICES = 1 << 0, 1 << 11
_FORBIDDEN = ((0, _BIND_TCP), (_MAKE_BLOCK_DEVICES,))  # about files, and since Linux 6.7 about the network
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
    for forbidden in _FORBIDDEN:
        wanted = (ctypes.c_uint64 * len(forbidden))(*forbidden)
        ruleset = libc.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(ctypes.sizeof(wanted)), 0)
        if ruleset >= 0:
            break
    else:
        return False
    try:
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)

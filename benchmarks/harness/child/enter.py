"""The first thing in every child: group, limits, affinity, filter, then exec. Runs as a script, standard library only.

    python -I enter.py '{"limits": {...}, "cores": [1], "filter": "<base64>", "adopts": false, "group": ""}' ARGV...

Not covered: namespaces and mounts, which bubblewrap does after this.
"""

import base64
import ctypes
import errno
import json
import os
import resource
import signal
import sys
from contextlib import suppress

_CPU_SPARE_S = 5  # where both limits are one, Linux sends SIGKILL and never the signal that names processor time
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_SECCOMP = {"x86_64": 317, "aarch64": 277}  # the number of the system call
_SECCOMP_SET_MODE_FILTER, _FOR_ALL_THREADS = 1, 1


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def main() -> None:
    try:
        prepare()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the sandbox could not be made: {error}\n")
        os.kill(os.getpid(), signal.SIGKILL)  # as the machine ends processes: it is no failure of what would follow
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - this is the point of the file


def prepare() -> None:
    """All but the filters and mounts of bubblewrap."""
    plan = json.loads(sys.argv[1])
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if plan["adopts"]:  # so that nobody below it is lost to whoever ends it
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if plan["group"]:
        with open(plan["group"], "w") as file:
            file.write("0")
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # of a machine without memory the sandboxes end, before anything else
    set_limits(plan["limits"])
    if plan["cores"]:
        os.sched_setaffinity(0, plan["cores"])
    if plan["filter"]:
        install_filter(base64.b64decode(plan["filter"]))


def set_limits(limits: dict[str, int]) -> None:
    """Hard ones as well, by the names of the module `resource`."""
    for name, value in limits.items():
        most = value + _CPU_SPARE_S if name == "RLIMIT_CPU" else value
        resource.setrlimit(getattr(resource, name), (value, most))


def install_filter(program: bytes) -> None:
    """From here on this process, all its threads and its children obey `program` (classic BPF). Cannot be undone.

    Threads that a library has started before obey it as well: others of the process could write what they run next.
    Raises OSError if one of them has a filter of its own.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    argument = _FilterProgram(len(program) // 8, program)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    number = ctypes.c_long(_SECCOMP[os.uname().machine])
    answer = libc.syscall(number, _SECCOMP_SET_MODE_FILTER, _FOR_ALL_THREADS, ctypes.byref(argument))
    if answer != 0:  # a positive one is a thread that could not be given it
        raise OSError(ctypes.get_errno() if answer < 0 else errno.ESRCH, "the filter of system calls was refused")


def prctl(option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *padded) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


if __name__ == "__main__":
    main()

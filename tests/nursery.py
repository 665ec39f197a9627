"""A process that has torch loaded and forks a child of a judging in place of each new interpreter.

    python -I -B -c "$(cat nursery.py)" SOCKET FOLDER_OF_ENTER

It is not run as a file, whose path would stand in tracebacks of children. Standard library and torch only. Each order
comes from `tests/forked.py` as a message with open files: what to run, the limits, and a process whose sandbox the
child enters. What a fork has loaded is what this process has loaded, nothing of an earlier child. Not covered: making
that sandbox, and ending the child, which goes with it.
"""

import base64
import ctypes
import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import sys
from contextlib import suppress

sys.path.insert(0, sys.argv[2])
from enter import install_filter, prctl, set_limits  # type: ignore[import-not-found]

sys.path.pop(0)
del sys.modules["enter"]  # a child sees no more of ours than one that starts anew

LIBC = ctypes.CDLL(None, use_errno=True)
DEATHSIG, DUMPABLE, CAPABILITY_DROP, SUBREAPER, NO_NEW_PRIVS = 1, 4, 24, 36, 38
# mount, control group, host name, messages, users, processes, network: all that bubblewrap makes
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
CAPABILITIES_3 = 0x20080522
LAST_CAPABILITY = 63
ORDER_MAX_BYTES, FILES_MAX = 128 << 10, 64


def main():
    orders = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    import torch  # noqa: F401 - for those who are forked

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, files, _, _ = socket.recv_fds(orders, ORDER_MAX_BYTES, FILES_MAX)
        if not data:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            orders.close()
            attend(json.loads(data), files)
            return
        for file in files:
            os.close(file)


def attend(order, files):
    """Starts one child in the sandbox, tells its number and, once it has ended, its exit code to the sandbox."""
    prctl(DEATHSIG, signal.SIGKILL)
    os.setsid()
    os.dup2(files[3], 2)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    places = [0, 1, 2, *order["places"]]
    beyond = 1 + max(299, *places, *files)  # what a long row of tests has open can have higher numbers than is usual
    sandbox, told, shell, log = (fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, beyond) for file in files[:4])
    given = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, beyond) for file in files[4:]]
    os.closerange(3, beyond)
    checked(LIBC.setns(sandbox, NAMESPACES))
    child = os.fork()
    if child == 0:
        for place, file in zip(places, [given[0], log, log, *given[1:]], strict=True):
            os.dup2(file, place)
        os.closerange(beyond, beyond + len(files))
        enter(order)
        run(order["arguments"])
    else:
        await_end(child, given, told, shell)


def await_end(child, given, told, shell):
    """Ends at once and in any case: to undo what torch has made takes longer than many a child."""
    try:
        for file in given:
            os.close(file)
        os.write(told, str(child).encode())
        os.close(told)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        with suppress(BrokenPipeError):  # the shell was killed, and the child with it
            os.write(shell, f"{128 - code if code < 0 else code}\n".encode())
    finally:
        os._exit(0)


def enter(order):
    """What bubblewrap and `enter.py` do to a child beside its namespaces."""
    prctl(DEATHSIG, signal.SIGKILL)
    prctl(SUBREAPER, 1)  # so that `crowd.py` counts all that is below it
    os.setsid()
    os.chdir("/tmp")  # noqa: S108 - its own
    os.environ.clear()
    os.environ.update(order["environment"])
    set_limits(order["limits"])
    os.sched_setaffinity(0, order["cores"])
    for number in range(LAST_CAPABILITY + 1):
        LIBC.prctl(CAPABILITY_DROP, number, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    checked(LIBC.capset(header, none))
    prctl(NO_NEW_PRIVS, 1)
    prctl(DUMPABLE, 1)
    if order["filter"]:
        install_filter(base64.b64decode(order["filter"]))


def run(arguments):
    """As the interpreter would: `-c CODE ARGUMENT...` or `SCRIPT ARGUMENT...`."""
    gc.enable()
    sys.modules["torch"].default_generator.seed()  # Python's own generator does that by itself
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as -c does
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "the operating system refused")


main()

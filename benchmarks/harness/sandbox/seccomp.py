"""System call filters as classic BPF programs, for bubblewrap's `--seccomp` and for `enter.install_filter` in a child.

Profiles: `builder` (compilers and trusted children: they may start processes), `gpu` (the same for children that open
a GPU) and `candidate` (one process that may start threads and nothing else). What is denied kills the process where an
honest kernel never asks, and answers EPERM where a library might. All may make the calls of a list alone; any other
does not exist for them. Of calls that are many in one, such as fcntl, they may give the commands of a list alone.
Covered: x86-64 and aarch64. Not covered: arguments behind pointers, and commands of a GPU's driver.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence

from .system_calls import ALLOWED, BUILDING, NUMBERS, OTHERS

_LOAD_WORD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_REFUSE = _ERRNO | errno.EPERM
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENT = 0, 4, 16
_CLONE_VFORK = 0x00004000
_CLONE_OF_A_THREAD = (0x00010000, 0x00000400, 0x00000200)  # CLONE_THREAD, CLONE_FILES, CLONE_FS: all that is shared
_CLONE_INTO_A_NAMESPACE = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_SIGCONT = 18
_LOCAL = 1  # AF_UNIX
_X32_BIT = 0x40000000

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_NEVER = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "kcmp",
    "perf_event_open",
    "bpf",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "add_key",
    "request_key",
    "keyctl",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "fsopen",
    "fsmount",
    "move_mount",
    "open_tree",
    "mount_setattr",
    "unshare",
    "setns",
    "kexec_load",
    "init_module",
    "finit_module",
    "delete_module",
    "open_by_handle_at",
    "reboot",
    "swapon",
    "quotactl",
    "acct",
]
_NO_NETWORK = ["socket", "connect", "bind", "listen"]
# What these calls make is in no folder of limited size, in no address space and in no process's resident memory.
_UNCOUNTED_MEMORY = ["memfd_secret", "shmget", "semget", "msgget", "mq_open"]
_FILES_IN_MEMORY = ["memfd_create"]
# Of these a machine, or a user in all sandboxes together, has few.
_OF_THE_MACHINE = ["io_setup", "inotify_init", "inotify_init1", "fanotify_init"]
_NO_PROCESSES = ["fork", "vfork", "execve", "execveat"]
_ASKED_BY_LIBRARIES = [
    "seccomp",
    "personality",
    "sched_setaffinity",
    "sched_setscheduler",
    "sched_setattr",
    "setpriority",
    "setrlimit",
    "pidfd_open",
]
# As root a sandboxed process owns the machine's devices that it sees, and its log: their rights stay as they are.
_RIGHTS = [name for name in OTHERS if "chmod" in name or "chown" in name or "xattr" in name]
# Whatever can have a signal or a piece of work come later, when the process has been stopped.
_WAKE_UPS = ["timer_create", "timer_settime", "setitimer", "alarm", "mq_notify", "io_submit"]
_CONTINUES: dict[str, tuple[int, tuple[int, ...]]] = {
    "kill": (1, (_SIGCONT,)),
    "tkill": (1, (_SIGCONT,)),
    "tgkill": (2, (_SIGCONT,)),
    "rt_sigqueueinfo": (1, (_SIGCONT,)),
    "rt_tgsigqueueinfo": (2, (_SIGCONT,)),
    "pidfd_send_signal": (1, (_SIGCONT,)),
}
# Of calls that are many in one there are only these: name: (which argument, its values). No lock of a file, lease or
# watch, which the kernel keeps as long as the file is open somewhere; no filter; and no table of descriptors of a
# thread's own (CLOSE_RANGE_UNSHARE).
_COMMANDS: dict[str, tuple[int, tuple[int, ...]]] = {
    # F_DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GETPIPE_SZ, ADD_SEALS, GET_SEALS
    "fcntl": (1, (0, 1, 2, 3, 4, 1030, 1032, 1033, 1034)),
    # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FICLONE
    "ioctl": (1, (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)),
    # PR_GET_PDEATHSIG, GET_DUMPABLE, SET_NAME, GET_NAME, GET_SECCOMP, CAPBSET_READ, SET_TIMERSLACK, GET_TIMERSLACK,
    # SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS, SET_THP_DISABLE, GET_THP_DISABLE, SVE_GET_VL, SME_GET_VL
    "prctl": (0, (2, 3, 15, 16, 21, 23, 29, 30, 38, 39, 41, 42, 51, 64)),
    # MADV_NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED, REMOVE, DONTFORK, DOFORK, NOHUGEPAGE, DONTDUMP, DODUMP,
    # WIPEONFORK, KEEPONFORK, POPULATE_READ, POPULATE_WRITE, GUARD_INSTALL, GUARD_REMOVE; none that takes off the marks
    # of touched pages, or makes one mark of many
    "madvise": (2, (0, 1, 2, 3, 4, 9, 10, 11, 15, 16, 17, 18, 19, 22, 23, 102, 103)),
    "close_range": (2, (0, 4)),  # nothing, CLOSE_RANGE_CLOEXEC
}
# A builder starts processes (PR_SET_PDEATHSIG, SET_CHILD_SUBREAPER), has a channel to us (SO_SNDBUF), and nobody looks
# for its touched pages (MADV_FREE, HUGEPAGE).
_COMMANDS_OF_BUILDERS = _COMMANDS | {
    "prctl": (0, (*_COMMANDS["prctl"][1], 1, 36)),
    "madvise": (2, (*_COMMANDS["madvise"][1], 8, 14)),
    "setsockopt": (2, (7,)),
}
# A GPU's driver has commands of ioctl of its own, which nobody has listed. Refused are FIOASYNC, FIOSETOWN, SIOCSPGRP,
# TIOCSCTTY, TIOCSPGRP and TIOCSTI.
_REFUSED_BESIDE_A_DRIVER = {"ioctl": (1, (0x5452, 0x8901, 0x8902, 0x540E, 0x5410, 0x5412))}
_SOCKETS_OF_A_DRIVER = ["connect", "bind", "listen"]
_COMMANDS_BESIDE_A_DRIVER = {name: listed for name, listed in _COMMANDS.items() if name != "ioctl"}
# It asks who has written to its socket (SO_PASSCRED).
_COMMANDS_OF_GPU_BUILDERS = {
    **{name: listed for name, listed in _COMMANDS_OF_BUILDERS.items() if name != "ioctl"},
    "setsockopt": (2, (7, 16)),
}
# NVIDIA's tools wait with epoll, lock a file of theirs (F_SETLK, F_SETLKW) and ask for SO_REUSEADDR. Whom they watch
# enters a domain of Landlock (`child/gpu/apart.py`), but adds no rules, whose memory nobody counts.
_OF_TOOLS = ["accept", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait"]
_OF_THE_WATCHED = ["landlock_create_ruleset", "landlock_restrict_self"]
_COMMANDS_OF_TOOLS = _COMMANDS_OF_GPU_BUILDERS | {
    "fcntl": (1, (*_COMMANDS["fcntl"][1], 6, 7)),
    "setsockopt": (2, (2, 7, 16)),
}


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


def candidate_program(*, gpu: bool = False) -> bytes:
    """For the process that holds a submission: threads yes; processes, sockets, tracing and wake-ups no."""
    return _program(
        allow=ALLOWED,
        kill=[*_NEVER, *_NO_NETWORK, *_NO_PROCESSES, "socketpair"],
        refuse=[*_ASKED_BY_LIBRARIES, *_FILES_IN_MEMORY, *_UNCOUNTED_MEMORY, *_OF_THE_MACHINE, *_RIGHTS, *_WAKE_UPS],
        refuse_commands=_CONTINUES | (_REFUSED_BESIDE_A_DRIVER if gpu else {}),
        allow_commands=_COMMANDS_BESIDE_A_DRIVER if gpu else _COMMANDS,
        threads_only=True,
    )


def builder_program(*, gpu: bool = False) -> bytes:
    """For compilers and trusted children: they start processes.

    With `gpu` for who holds a submission on a GPU and starts compilers, once the driver is awake.
    """
    return _program(
        allow=[*ALLOWED, *BUILDING],
        kill=_NEVER,
        refuse=[*_NO_NETWORK, "socketpair", *_FILES_IN_MEMORY, *_UNCOUNTED_MEMORY, *_OF_THE_MACHINE, *_RIGHTS],
        refuse_commands=_REFUSED_BESIDE_A_DRIVER if gpu else {},
        allow_commands=_COMMANDS_OF_GPU_BUILDERS if gpu else _COMMANDS_OF_BUILDERS,
    )


def gpu_program(*, may_install: bool = False, for_tools: bool = False) -> bytes:
    """For children that open a GPU, whose driver demands local sockets, and what they start.

    `may_install`: they install a filter of their own, within this one, before they load a submission. `for_tools`:
    a profiler or a memory checker watches them.
    """
    more = [*(["seccomp"] if may_install else []), *([*_OF_TOOLS, *_OF_THE_WATCHED] if for_tools else [])]
    return _program(
        allow=[*ALLOWED, *BUILDING, *_SOCKETS_OF_A_DRIVER, *more],
        kill=_NEVER,
        refuse=["socketpair", *_FILES_IN_MEMORY, *_UNCOUNTED_MEMORY, *_OF_THE_MACHINE, *_RIGHTS],
        refuse_commands=_REFUSED_BESIDE_A_DRIVER,
        allow_commands=_COMMANDS_OF_TOOLS if for_tools else _COMMANDS_OF_GPU_BUILDERS,
        local_sockets=True,
    )


def _program(
    *,
    allow: Iterable[str],
    kill: list[str],
    refuse: list[str],
    refuse_commands: Mapping[str, tuple[int, tuple[int, ...]]],
    allow_commands: Mapping[str, tuple[int, tuple[int, ...]]],
    threads_only: bool = False,
    local_sockets: bool = False,
) -> bytes:
    """Of calls in `refuse_commands` all other commands are allowed, of those in `allow_commands` none. A call that is
    in none of the lists does not exist."""
    column, architecture = _ARCHITECTURES[platform.machine()]
    lines = [
        (_LOAD_WORD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD_WORD, 0, 0, _OFFSET_NUMBER),
    ]
    if column == 0:
        lines += [(_JUMP_SET, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    for name in allow:
        lines += _when(NUMBERS[name][column], _ALLOW)
    for name in kill:
        lines += _when(NUMBERS[name][column], _KILL)
    for name in refuse:
        lines += _when(NUMBERS[name][column], _REFUSE)
    for name, (argument, values) in refuse_commands.items():
        lines += _when_argument(NUMBERS[name][column], argument, values, _REFUSE, _ALLOW)
    for name, (argument, values) in allow_commands.items():
        lines += _when_argument(NUMBERS[name][column], argument, values, _ALLOW, _REFUSE)
    # glibc falls back from clone3, whose flags lie behind a pointer, to clone, whose flags we can see
    lines += _when(NUMBERS["clone3"][column], _ERRNO | errno.ENOSYS)
    if local_sockets:
        lines += _local_sockets_only(NUMBERS["socket"][column])
    clone = NUMBERS["clone"][column]
    lines += _threads_only(clone) if threads_only else _no_namespaces(clone)
    lines += [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _when(number: int | None, action: int) -> list[tuple[int, int, int, int]]:
    return [] if number is None else [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]


def _when_argument(
    number: int | None, argument: int, values: Sequence[int], listed: int, other: int
) -> list[tuple[int, int, int, int]]:
    """What `number` does with one of `values`, of which the kernel looks at 32 bits, and what with others."""
    if number is None:
        return []
    count = len(values)
    return [
        (_JUMP_EQUAL, 0, count + 3, number),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT + 8 * argument),
        *((_JUMP_EQUAL, count - place, 0, value) for place, value in enumerate(values)),
        (_RETURN, 0, 0, other),
        (_RETURN, 0, 0, listed),
    ]


def _local_sockets_only(number: int | None) -> list[tuple[int, int, int, int]]:
    if number is None:
        return []
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT),
        (_JUMP_EQUAL, 0, 1, _LOCAL),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]


def _no_namespaces(clone: int | None) -> list[tuple[int, int, int, int]]:
    if clone is None:
        return []
    return [
        (_JUMP_EQUAL, 0, 4, clone),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT),
        (_JUMP_SET, 0, 1, _CLONE_INTO_A_NAMESPACE),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _threads_only(clone: int | None) -> list[tuple[int, int, int, int]]:
    """Kills what starts anything but an ordinary thread, whose descriptors count with those of all others."""
    if clone is None:
        return []
    wanted = len(_CLONE_OF_A_THREAD)
    return [
        (_JUMP_EQUAL, 0, wanted + 4, clone),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT),
        (_JUMP_SET, wanted + 1, 0, _CLONE_VFORK),
        *((_JUMP_SET, 0, wanted - place, bit) for place, bit in enumerate(_CLONE_OF_A_THREAD)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _KILL),
    ]

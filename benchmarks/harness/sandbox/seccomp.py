"""System call filters as classic BPF programs, for bubblewrap's `--seccomp` and for `prctl` in a child.

Profiles: `builder` (compilers and trusted children: they may start processes), `gpu` (the same for children that open
a GPU) and `candidate` (one process that may start threads and nothing else). What is denied kills the process where an
honest kernel never asks, and answers EPERM where a library might. Covered: x86-64 and aarch64. Not covered: arguments
behind pointers.
"""

import errno
import platform
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_LOAD_WORD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENT = 0, 4, 16
_CLONE_VFORK = 0x00004000
_CLONE_OF_A_THREAD = (0x00010000, 0x00000400, 0x00000200)  # CLONE_THREAD, CLONE_FILES, CLONE_FS: all that is shared
_SIGCONT = 18
_LOCAL = 1  # AF_UNIX
_X32_BIT = 0x40000000

# name: (x86-64, aarch64); None where the architecture has no such call
_NUMBERS: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "personality": (135, 92),
    "clone3": (435, 435),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "memfd_create": (319, 279),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "clone": (56, 220),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "setitimer": (38, 103),
    "alarm": (37, None),
    "mq_open": (240, 180),
    "mq_notify": (244, 184),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "prctl": (157, 167),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "timerfd_create": (283, 85),
    "timerfd_settime": (286, 86),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "memfd_secret": (447, 447),
    "seccomp": (317, 277),
    "syslog": (103, 116),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "sync_file_range": (277, 84),
    "readahead": (187, 213),
    "fadvise64": (221, 223),
    "splice": (275, 76),
    "vmsplice": (278, 75),
    "tee": (276, 77),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "madvise": (28, 233),
}
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
_NO_PROCESSES = ["fork", "vfork", "execve", "execveat"]
_ASKED_BY_LIBRARIES = [
    "personality",
    "memfd_create",
    "sched_setaffinity",
    "sched_setscheduler",
    "sched_setattr",
    "setpriority",
    "setrlimit",
    "pidfd_open",
]
# As root a sandboxed process owns the machine's devices that it sees, and its log: their rights stay as they are.
_RIGHTS = [name for name in _NUMBERS if "chmod" in name or "chown" in name or "xattr" in name]
# Whatever can have a signal or a piece of work come later, when the process has been stopped.
_WAKE_UPS = ["timer_create", "timer_settime", "setitimer", "alarm", "mq_open", "mq_notify", "io_setup", "io_submit"]
# Whatever has the kernel work on behalf of a stopped process, on cores where others are timed: timers whose expiry
# calls back, watches on files that others read, writing back and reading ahead; and what else no kernel needs.
_WORK_OF_THE_KERNEL = [
    "timerfd_create",
    "timerfd_settime",
    "inotify_init",
    "inotify_init1",
    "inotify_add_watch",
    "fanotify_init",
    "fanotify_mark",
    "sync",
    "syncfs",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "readahead",
    "fadvise64",
    "splice",
    "vmsplice",
    "tee",
    "mbind",
    "set_mempolicy",
    "migrate_pages",
    "move_pages",
    "process_madvise",
    "memfd_secret",
    "seccomp",
    "syslog",
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
]
# The same where an argument decides: name: (which argument, the values that are refused).
_WAKE_UP_ARGUMENTS: dict[str, tuple[int, tuple[int, ...]]] = {
    # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
    "fcntl": (1, (8, 10, 15, 1024, 1026)),
    # FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSCTTY, TIOCSPGRP, TIOCSTI
    "ioctl": (1, (0x5452, 0x8901, 0x8902, 0x540E, 0x5410, 0x5412)),
    # PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_MM, PR_SET_SYSCALL_USER_DISPATCH, PR_SCHED_CORE, PR_SET_MEMORY_MERGE
    "prctl": (0, (1, 4, 35, 59, 62, 67)),
    "madvise": (2, (12,)),  # MADV_MERGEABLE
    "kill": (1, (_SIGCONT,)),
    "tkill": (1, (_SIGCONT,)),
    "tgkill": (2, (_SIGCONT,)),
    "rt_sigqueueinfo": (1, (_SIGCONT,)),
    "rt_tgsigqueueinfo": (2, (_SIGCONT,)),
    "pidfd_send_signal": (1, (_SIGCONT,)),
}


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


def candidate_program(*, gpu: bool = False) -> bytes:
    """For the process that holds a submission: threads yes; processes, sockets, tracing and wake-ups no.

    On a processor also nothing that has the kernel work while the process is stopped: a GPU's driver may ask for that.
    """
    return _program(
        kill=[*_NEVER, *_NO_NETWORK, *_NO_PROCESSES, "socketpair"],
        refuse=[*_ASKED_BY_LIBRARIES, *_RIGHTS, *_WAKE_UPS, *([] if gpu else _WORK_OF_THE_KERNEL)],
        refuse_arguments=_WAKE_UP_ARGUMENTS,
        threads_only=True,
    )


def builder_program() -> bytes:
    """For compilers and trusted children: they start processes, but have no network and no tracing."""
    return _program(kill=_NEVER, refuse=[*_NO_NETWORK, *_RIGHTS], threads_only=False)


def gpu_program() -> bytes:
    """As `builder_program`, for trusted children on a GPU: the driver demands a local socket, and gets it."""
    return _program(kill=_NEVER, refuse=_RIGHTS, threads_only=False, local_sockets=True)


def _program(
    *,
    kill: list[str],
    refuse: list[str],
    threads_only: bool,
    refuse_arguments: Mapping[str, tuple[int, tuple[int, ...]]] = MappingProxyType({}),
    local_sockets: bool = False,
) -> bytes:
    column, architecture = _ARCHITECTURES[platform.machine()]
    lines = [
        (_LOAD_WORD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD_WORD, 0, 0, _OFFSET_NUMBER),
    ]
    if column == 0:
        lines += [(_JUMP_SET, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    for name in kill:
        lines += _when(_NUMBERS[name][column], _KILL)
    for name in refuse:
        lines += _when(_NUMBERS[name][column], _ERRNO | errno.EPERM)
    for name, (argument, values) in refuse_arguments.items():
        lines += _when_argument(_NUMBERS[name][column], argument, values)
    # glibc falls back from clone3, whose flags lie behind a pointer, to clone, whose flags we can see
    lines += _when(_NUMBERS["clone3"][column], _ERRNO | errno.ENOSYS)
    if local_sockets:
        lines += _local_sockets_only(_NUMBERS["socket"][column])
    if threads_only:
        lines += _threads_only(_NUMBERS["clone"][column])
    lines += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _when(number: int | None, action: int) -> list[tuple[int, int, int, int]]:
    return [] if number is None else [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]


def _when_argument(number: int | None, argument: int, values: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Refuses `number` with one of `values`, of which the kernel looks at 32 bits, and allows it with others."""
    if number is None:
        return []
    count = len(values)
    return [
        (_JUMP_EQUAL, 0, count + 3, number),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT + 8 * argument),
        *((_JUMP_EQUAL, count - place, 0, value) for place, value in enumerate(values)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _local_sockets_only(number: int | None) -> list[tuple[int, int, int, int]]:
    if number is None:
        return []
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT),
        (_JUMP_EQUAL, 0, 1, _LOCAL),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
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

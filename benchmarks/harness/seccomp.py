"""System call filters as classic BPF programs, for bubblewrap's `--seccomp` and for `prctl` in a child.

Profiles: `builder` (compilers and trusted children: they may start processes), `gpu` (the same for children that open
a GPU) and `candidate` (one process that may start threads and nothing else). What is denied kills the process where an
honest kernel never asks, and answers EPERM where a library might. Covered: x86-64 and aarch64. Not covered: arguments
behind pointers, ioctl numbers.
"""

import errno
import platform
import struct

_LOAD_WORD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x00010000
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


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


def candidate_program() -> bytes:
    """For the process that holds a submission: threads yes, processes, sockets and tracing no."""
    return _program(
        kill=[*_NEVER, *_NO_NETWORK, *_NO_PROCESSES, "socketpair"], refuse=_ASKED_BY_LIBRARIES, threads_only=True
    )


def builder_program() -> bytes:
    """For compilers and trusted children: they start processes, but have no network and no tracing."""
    return _program(kill=_NEVER, refuse=["socket", "connect", "bind", "listen"], threads_only=False)


def gpu_program() -> bytes:
    """As `builder_program`, for trusted children on a GPU: the driver demands a local socket, and gets it."""
    return _program(kill=_NEVER, refuse=[], threads_only=False, local_sockets=True)


def _program(*, kill: list[str], refuse: list[str], threads_only: bool, local_sockets: bool = False) -> bytes:
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
    if clone is None:
        return []
    return [
        (_JUMP_EQUAL, 0, 3, clone),
        (_LOAD_WORD, 0, 0, _OFFSET_ARGUMENT),
        (_JUMP_SET, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _KILL),
    ]

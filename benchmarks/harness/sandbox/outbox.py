"""Takes output from a sandbox: one file in memory that a child inherits, or a copy of a folder that it could write.

The content of such a folder is hostile. Nothing is moved, mounted or parsed in place, no link is followed and no name
is trusted. Only regular files with one link, of this user and of limited size, number and depth are copied, into a
folder that is created afterwards and that no sandbox can write. Not covered: what the bytes mean.
"""

import errno
import fcntl
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

_CHUNK_BYTES = 1 << 20
_NAME_MAX_BYTES = 200
_BLOCK_BYTES, _PATH_MAX_BYTES = 512, 4096  # of an archive, and of a name in one
_GNU_MAGIC, _FILE, _FOLDER, _LONG_NAME = b"ustar  \0", b"0", b"5", b"L"
_OCTAL = re.compile(rb"([0-7]{1,11})[\0 ]{1,11}")
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What no name and no file of a sandbox brings about: this machine has no disk, descriptor or memory left
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotTaken(Exception):
    """A sandbox left something that must not be taken; the text says what."""


class TooMuch(NotTaken):
    """The output of a sandbox is larger than allowed."""


@dataclass(frozen=True)
class Bounds:
    """Limits on the sum of everything taken from one folder."""

    files: int  # and folders
    total_bytes: int
    depth: int = 8


class AnswerFile:
    """A file in memory: a child inherits `fd`, or opens `path`, and leaves there all that may leave its sandbox.

    Read it when everybody who had it is dead.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.fd = os.memfd_create("answer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.path = f"/dev/fd/{self.fd}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Once: whoever closes its number again closes the file of somebody else."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def empty(self) -> bool:
        return os.fstat(self.fd).st_size == 0

    def read(self) -> bytes:
        """Raises NotTaken, also where nothing was left."""
        return b"".join(self._chunks())

    def save(self, target: Path) -> None:
        """Saves the answer as a new file with read permission for all. Raises NotTaken, leaving no file."""
        self._settled_bytes()
        fd = os.open(target, _MAKE, 0o755)
        with os.fdopen(fd, "wb") as file:
            for chunk in self._chunks():
                file.write(chunk)

    def _chunks(self) -> Iterator[bytes]:
        size_bytes = self._settled_bytes()
        for first in range(0, size_bytes, _CHUNK_BYTES):
            yield os.pread(self.fd, min(_CHUNK_BYTES, size_bytes - first), first)

    def _settled_bytes(self) -> int:
        """Its size, which nothing can change any more."""
        with _refused("the answer is still being written"):
            if fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
        size_bytes = os.fstat(self.fd).st_size
        if size_bytes == 0:
            raise NotTaken("there is no answer")
        if size_bytes > self.max_bytes:
            raise TooMuch(f"the answer has {size_bytes} bytes, of which {self.max_bytes} are allowed")
        return size_bytes


def take_folder(source: Path, target: Path, bounds: Bounds) -> None:
    """Copies `source`, where a sandbox could write, to `target`, which is made. Raises NotTaken, leaving no target.

    OSError, here and below, where this machine has no disk, descriptor or memory left for it.
    """
    target.mkdir()
    with ExitStack() as failed:
        failed.callback(discard, target)
        with (
            _refused("it cannot be read"),
            _opened(source, os.O_DIRECTORY) as from_fd,
            _opened(target, os.O_DIRECTORY) as to_fd,
        ):
            _Taking(bounds, os.fstat(from_fd).st_dev).folder(from_fd, to_fd, "", bounds.depth)
        failed.pop_all()


def read_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """A file of a folder that others fill, of whatever owner and number of names; links are followed nowhere below it.

    Raises NotTaken, TooMuch.
    """
    parts = PurePosixPath(name).parts
    if not parts or not all(map(_is_plain, parts)):
        raise NotTaken("its name has characters that are not allowed")
    with _refused("it cannot be read"), ExitStack() as stack:
        fd = stack.enter_context(_opened(folder.resolve(), os.O_DIRECTORY))
        for number, part in enumerate(parts, start=1):
            mode = os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode
            if stat.S_IFMT(mode) != (stat.S_IFREG if number == len(parts) else stat.S_IFDIR):
                raise NotTaken(f"{_shown(part)} is {_kind(mode)}")
            with stack.pop_all():  # closes the folder above: names may be deeper than descriptors are many
                fd = stack.enter_context(_opened(part, 0, fd))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotTaken("it was replaced while it was read")
        data = _at_most(fd, max_bytes + 1)
    if len(data) > max_bytes:
        raise TooMuch(f"it has more than {max_bytes} bytes")
    return data


def unpack_into(packed: bytes, folder: Path, bounds: Bounds) -> None:
    """The files of a tar from elsewhere in `folder`, which is empty and no sandbox's. Raises NotTaken."""
    files, left_bytes = 0, bounds.total_bytes
    with _refused("it cannot be unpacked"):
        for member in _members(packed):
            files, left_bytes = files + 1, left_bytes - len(member.content)
            if files > bounds.files or left_bytes < 0:
                raise TooMuch("it holds more than is allowed")
            _unpack_one(member, folder, bounds.depth)


def discard(folder: Path) -> None:
    """Removes what a sandbox could write, however deep it is and whatever rights it took away. Follows no link."""
    subprocess.run(["chmod", "-R", "u+rwX", "--", folder], capture_output=True, check=False)
    subprocess.run(["rm", "-rf", "--", folder], capture_output=True, check=False)


@contextmanager
def scratch_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """A new folder that sandboxes may write; gone afterwards, whatever they left there."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        discard(folder)


def log_end(log: Path, max_bytes: int) -> bytes:
    """The last bytes of what a child printed to a file that it has no name of, whatever it did to its rights."""
    try:
        log.chmod(0o600)
        with _opened(log, 0) as fd:
            return os.pread(fd, max_bytes, max(0, os.fstat(fd).st_size - max_bytes))
    except OSError:
        return b""


@dataclass(frozen=True)
class _Member:
    """A file or a folder of an archive."""

    name: str
    is_folder: bool
    mode: int
    content: memoryview


def _members(packed: bytes) -> Iterator[_Member]:
    """What a tar in GNU's form holds, which has nothing but files, folders and long names.

    Python's own reader is not for strangers' archives: it follows headers that change what the next ones mean, raises
    errors of any kind, and takes a time that grows with the square of a header's length.
    """
    place, long_name = 0, b""
    while header := packed[place : place + _BLOCK_BYTES]:
        if not any(header):
            return
        if len(header) < _BLOCK_BYTES or header[257:265] != _GNU_MAGIC:
            raise NotTaken("it is not an archive in the expected form")
        kind, size_bytes = header[156:157], _octal(header[124:136])
        first, place = place + _BLOCK_BYTES, place + _BLOCK_BYTES * (1 - -size_bytes // _BLOCK_BYTES)
        content = memoryview(packed)[first : first + size_bytes]
        name = (long_name or header[:100]).split(b"\0", 1)[0].decode(errors="surrogateescape")
        if len(content) < size_bytes:
            raise NotTaken("it ends in the middle of a file")
        if kind == _LONG_NAME and not long_name and 0 < size_bytes <= _PATH_MAX_BYTES:
            long_name = bytes(content)
            continue
        if kind not in (_FILE, _FOLDER) or (kind == _FOLDER and size_bytes):
            raise NotTaken(f"it holds {_shown(name)}, which is not a regular file")
        yield _Member(name.removesuffix("/"), kind == _FOLDER, _octal(header[100:108]), content)
        long_name = b""
    raise NotTaken("it has no end")


def _octal(field: bytes) -> int:
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise NotTaken("it holds a malformed number")
    return int(found[1], 8)


def _unpack_one(member: _Member, folder: Path, depth: int) -> None:
    parts = member.name.split("/")
    if not all(map(_is_plain, parts)) or len(parts) > depth:
        raise NotTaken("it holds a file name with characters that are not allowed")
    if member.is_folder:
        folder.joinpath(*parts).mkdir()
        return
    mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
    with os.fdopen(os.open(folder.joinpath(*parts), _MAKE, mode), "wb") as made:
        made.write(member.content)


class _Taking:
    """One copy in progress and its remaining limits."""

    def __init__(self, bounds: Bounds, device: int) -> None:
        self._files, self._bytes = bounds.files, bounds.total_bytes
        self._device = device

    def folder(self, source: int, target: int, place: str, depth: int) -> None:
        if depth < 0:
            raise TooMuch(f"{_shown(place)} lies too deep")
        with os.scandir(source) as entries:
            for entry in entries:
                self._entry(source, target, entry.name, f"{place}/{entry.name}".lstrip("/"), depth)

    def _entry(self, source: int, target: int, name: str, place: str, depth: int) -> None:
        self._files -= 1
        if self._files < 0:
            raise TooMuch("there are more files than are allowed")
        if not _is_plain(name):
            raise NotTaken(f"{_shown(place)} is a file name with characters that are not allowed")
        info = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            os.mkdir(name, 0o755, dir_fd=target)
            flags = os.O_DIRECTORY
            with _opened(name, flags, source) as inner, _opened(name, flags, target) as made:
                self._checked(inner, info, place)
                self.folder(inner, made, place, depth - 1)
        elif stat.S_ISREG(info.st_mode):
            with _opened(name, 0, source) as fd:
                self._copy(fd, target, name, self._checked(fd, info, place), place)
        else:
            raise NotTaken(f"{_shown(place)} is {_kind(info.st_mode)}")

    def _checked(self, fd: int, seen: os.stat_result, place: str) -> os.stat_result:
        """Checks that the opened file is the one examined and belongs to this user."""
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino, info.st_mode) != (seen.st_dev, seen.st_ino, seen.st_mode):
            raise NotTaken(f"{_shown(place)} was replaced while it was read")
        if info.st_dev != self._device or info.st_uid != os.geteuid():
            raise NotTaken(f"{_shown(place)} belongs to somebody else")
        if stat.S_ISREG(info.st_mode) and info.st_nlink != 1:
            raise NotTaken(f"{_shown(place)} has a second name")
        return info

    def _copy(self, source: int, target: int, name: str, info: os.stat_result, place: str) -> None:
        self._bytes -= info.st_size
        if self._bytes < 0:
            raise TooMuch("there are more bytes than are allowed")
        mode = 0o755 if info.st_mode & stat.S_IXUSR else 0o644
        copied = 0
        with os.fdopen(os.open(name, _MAKE, mode, dir_fd=target), "wb") as file:
            while copied <= info.st_size and (chunk := os.read(source, _CHUNK_BYTES)):
                copied += len(chunk)
                file.write(chunk)
        if copied != info.st_size:
            raise NotTaken(f"{_shown(place)} changed while it was read")


def _at_most(fd: int, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes and (chunk := os.read(fd, min(_CHUNK_BYTES, size_bytes - len(data)))):
        data += chunk
    return bytes(data)


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raises NotTaken for an OSError, unless the machine is to blame for it and not what the sandbox left."""
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise
        raise NotTaken(f"{what}: {error.strerror}") from error


@contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, _READ | flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_plain(name: str) -> bool:
    """Whether a name is printable, short and not a path."""
    return name not in ("", ".", "..") and "/" not in name and name.isprintable() and _size(name) <= _NAME_MAX_BYTES


def _size(name: str) -> int:
    return len(name.encode(errors="surrogateescape"))


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else f"…{name[-100:]}")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a folder",
        stat.S_IFREG: "a file",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")

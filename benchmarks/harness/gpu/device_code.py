"""Finds the device code of a submission: fat binaries of a compiled extension, cubins of its packages' caches.

And whatever the recorder has seen the packages load. An executor loads these and no line of host code. All of it is
hostile: bounds are checked, no link is followed. Not covered: what the code does.
"""

import base64
import json
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from .record import NotReplayable

_SECTION = b".nv_fatbin"
_ELF_HEADER, _SECTION_HEADER = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_FATBIN = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
_ALIGNMENT_BYTES = 8
_CUDA = 190  # the machine of an ELF file that is a cubin
_IMAGES_MAX, _FILE_MAX_BYTES, _ALL_MAX_BYTES = 1024, 64 << 20, 256 << 20
CODE_MAX_CHARACTERS = 64 << 20  # of what a recorder hands over


def device_code(binary: Path, cache: Path, loaded: Sequence[bytes] = ()) -> list[bytes]:
    """Every image that a build and the cache of its compiled kernels hold, and `loaded`, each once.

    Stops at the first image too many, so that a small file cannot stand for a long list. Raises NotReplayable.
    """
    images: dict[bytes, None] = {}
    all_bytes = 0
    for number, image in enumerate(chain(loaded, _images(binary, cache))):
        all_bytes += len(image)
        if number >= _IMAGES_MAX or all_bytes > _ALL_MAX_BYTES:
            raise NotReplayable("it has more device code than can be replayed")
        images[image] = None
    if not images:
        raise NotReplayable("it has no device code of its own")
    return list(images)


def handed_over(text: str) -> tuple[list[bytes], bool]:
    """The images in what a recorder says of the code that it has seen, and whether it could see none.

    They are cubins or fat binaries by their first bytes; what else they are only the driver can tell. Nothing else that
    it says is shown to anybody: it has met hidden configurations. Raises NotReplayable.
    """
    try:
        found = json.loads(text)
        listed, unseen = found["images"], found["unseen"]
        if not isinstance(listed, list) or not isinstance(unseen, bool) or len(listed) > _IMAGES_MAX:
            raise ValueError
        images = [base64.b64decode(item, validate=True) for item in listed]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotReplayable("what it hands over is not a list of device code") from error
    if not all(map(_is_image, images)):
        raise NotReplayable("it hands over something other than device code")
    return images, unseen


def _is_image(data: bytes) -> bool:
    if len(data) >= _ELF_HEADER.size and data[:4] == b"\x7fELF":
        return bool(_ELF_HEADER.unpack_from(data)[2] == _CUDA)
    return len(data) > _FATBIN.size and _FATBIN.unpack_from(data)[0] == _MAGIC


def _images(binary: Path, cache: Path) -> Iterator[bytes]:
    files = [binary] if binary.is_file() else sorted(binary.glob("*.so")) if binary.is_dir() else []
    for path in files:
        if path.suffix == ".so":
            yield from fat_binaries(_read(path))
    for path in sorted(_below(cache)):
        if path.suffix == ".cubin":
            yield _read(path)


def fat_binaries(data: bytes) -> Iterator[bytes]:
    """The fat binaries of a shared library for x86-64 or AArch64, as nvcc put them there, one at a time."""
    for offset, size in _sections(data):
        yield from _fat_binaries(memoryview(data)[offset : offset + size])


def _fat_binaries(section: memoryview) -> Iterator[bytes]:
    at = 0
    while at + _FATBIN.size <= len(section):
        magic, _, header_bytes, body_bytes = _FATBIN.unpack_from(section, at)
        end = at + header_bytes + body_bytes
        if magic != _MAGIC or end > len(section) or end <= at:
            return
        yield bytes(section[at:end])
        at = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _sections(data: bytes) -> Iterator[tuple[int, int]]:
    """Offset and size of the sections called `.nv_fatbin`."""
    try:
        header = _ELF_HEADER.unpack_from(data)
        if header[0][:6] != b"\x7fELF\x02\x01":
            return
        table, entry_bytes, count, names_at = header[6], header[11], header[12], header[13]
    except struct.error:
        return
    if entry_bytes != _SECTION_HEADER.size or names_at >= count or table + entry_bytes * count > len(data):
        return
    entries = [_SECTION_HEADER.unpack_from(data, table + entry_bytes * number) for number in range(count)]
    names = data[entries[names_at][4] : entries[names_at][4] + entries[names_at][5]]
    for entry in entries:
        if names[entry[0] : entry[0] + len(_SECTION) + 1] == _SECTION + b"\0" and entry[4] + entry[5] <= len(data):
            yield entry[4], entry[5]


def _below(folder: Path) -> Iterator[Path]:
    for top, _, names in os.walk(folder, followlinks=False):
        yield from (Path(top) / name for name in names)


def _read(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotReplayable(f"{path.name[:80]!a} cannot be read") from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_MAX_BYTES:
            raise NotReplayable(f"{path.name[:80]!a} is not a file of device code")
        return file.read(_FILE_MAX_BYTES)

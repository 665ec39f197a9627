"""Keeps a cache below a share of the disk: what was used longest ago is removed first.

Whoever submits kernels or posts problems decides how much is built. What was used within the last hour stays, since a
judging may be about to load it. A judging notes its use again when it has the device, and makes anew what has gone by
then. Not covered: what several machines share (the storage has a rule for old files), and headers.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT_MAX_BYTES = 20 << 30
KEPT_MAX_FILES = 100_000  # and folders: each look walks over all of them, and a disk has so many and no more
DISK_SHARE_MAX = 0.25
IN_USE_S = 3600.0
LOOK_EVERY_S = 60.0
_LOOKED = ".looked"
_BLOCK_BYTES = 512  # of which `st_blocks` counts, whatever the file system uses


def note_use(kept: Path) -> None:
    """It is needed now. It may have been removed, or belong to another user of the machine.

    Look whether it is there afterwards: what is removed at the same time has either gone by then, or stays.
    """
    with suppress(OSError):
        os.utime(kept)


def make_room(
    cache: Path,
    max_bytes: int | None = None,
    max_files: int | None = None,
    *,
    spared: Callable[[str], bool] = lambda _: False,
) -> None:
    """Remove what was used longest ago until the folder takes at most so much; looks once a minute at most.

    Without a limit it is 20 GiB or a quarter of the disk, and 100,000 files or a quarter of those that the disk can
    have. Folders in it whose names are `spared` neither count nor go.
    """
    now_s = time.time()
    looked = cache / _LOOKED
    with suppress(FileNotFoundError):
        if now_s - looked.stat().st_mtime < LOOK_EVERY_S:
            return
    looked.touch()
    disk = os.statvfs(cache)
    if max_bytes is None:
        max_bytes = min(KEPT_MAX_BYTES, int(DISK_SHARE_MAX * disk.f_blocks * disk.f_frsize))
    if max_files is None:  # some file systems make room for files as they come, and say zero
        max_files = min(KEPT_MAX_FILES, int(DISK_SHARE_MAX * disk.f_files) or KEPT_MAX_FILES)
    known = sorted(_known(cache, spared), key=lambda item: item.used_s)
    size_bytes, files = sum(item.size.disk_bytes for item in known), sum(item.size.files for item in known)
    for item in known:
        if (size_bytes <= max_bytes and files <= max_files) or now_s - item.used_s < IN_USE_S:
            break
        if _remove(item.place, item.used_s):
            size_bytes, files = size_bytes - item.size.disk_bytes, files - item.size.files


@dataclass(frozen=True)
class _Size:
    """What a folder takes of the disk, itself and the folders in it included."""

    disk_bytes: int
    files: int


@dataclass(frozen=True)
class _Stored:
    used_s: float
    size: _Size
    place: Path


def _known(cache: Path, spared: Callable[[str], bool]) -> Iterator[_Stored]:
    """All that is kept. What another process removes meanwhile counts nothing."""
    for entry in os.scandir(cache):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and not spared(entry.name):
                yield _Stored(entry.stat(follow_symlinks=False).st_mtime, _size(entry.path), Path(entry.path))


def _size(folder: str) -> _Size:
    places = [os.path.join(inside, name) for inside, below, names in os.walk(folder) for name in (*below, *names)]
    blocks = sum(os.stat(place, follow_symlinks=False).st_blocks for place in (folder, *places))
    return _Size(blocks * _BLOCK_BYTES, 1 + len(places))


def _remove(kept: Path, used_s: float) -> bool:
    """In one step for whoever looks it up. False if somebody has used it since `used_s`, and then it stays."""
    gone = kept.with_name(f".gone-{time.monotonic_ns()}-{kept.name}")
    try:
        kept.rename(gone)
    except OSError:
        return not kept.exists()  # another process is removing it
    with suppress(OSError):
        if gone.stat().st_mtime != used_s:
            gone.rename(kept)  # fails if it was made anew meanwhile, and then nobody needs this one
            return False
    shutil.rmtree(gone, ignore_errors=True)
    return True

"""Keeps the cache of builds below a size: what was used longest ago is removed first.

Whoever submits kernels decides how much is built. What was used within the last hour stays, since a judging may be
about to load it, and is built again later if it has gone. Not covered: what several machines share (the storage has a
rule for old files), baselines and headers.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

KEPT_MAX_BYTES = 20 << 30
DISK_SHARE_MAX = 0.25
IN_USE_S = 3600.0
LOOK_EVERY_S = 60.0
_LOOKED = ".looked"


def note_use(build: Path) -> None:
    """The build is needed now. It may have been removed, or belong to another user of the machine."""
    with suppress(OSError):
        os.utime(build)


def make_room(builds: Path, max_bytes: int | None = None) -> None:
    """Remove what was used longest ago until the folder has at most `max_bytes`; looks once a minute at most.

    `max_bytes` is 20 GiB or a quarter of the disk if it is not given.
    """
    now_s = time.time()
    looked = builds / _LOOKED
    with suppress(FileNotFoundError):
        if now_s - looked.stat().st_mtime < LOOK_EVERY_S:
            return
    looked.touch()
    if max_bytes is None:
        max_bytes = min(KEPT_MAX_BYTES, int(DISK_SHARE_MAX * shutil.disk_usage(builds).total))
    known = sorted(_known(builds))
    size_bytes = sum(item[1] for item in known)
    for used_s, item_bytes, build in known:
        if size_bytes <= max_bytes or now_s - used_s < IN_USE_S:
            break
        _remove(build)
        size_bytes -= item_bytes


def _known(builds: Path) -> Iterator[tuple[float, int, Path]]:
    """When each build was used last, its bytes, and where it is. One that another process removes counts nothing."""
    for entry in os.scandir(builds):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime, _size_bytes(entry.path), Path(entry.path)


def _size_bytes(folder: str) -> int:
    return sum(
        os.stat(os.path.join(inside, name), follow_symlinks=False).st_size
        for inside, _, names in os.walk(folder)
        for name in names
    )


def _remove(build: Path) -> None:
    """In one step for whoever looks it up; where that fails, another process is removing it."""
    gone = build.with_name(f".gone-{build.name}")
    with suppress(OSError):
        build.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)

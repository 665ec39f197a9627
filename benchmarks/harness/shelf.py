"""Moves builds between machines: packed under their key by the one that compiles, unpacked by the one that judges.

The harness only packs and unpacks; the implementation of the shelf stores the bytes and protects them from changes.
Not covered: what a key depends on (`compilers/builds.py`); machines that would compile differently have different keys.
"""

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from .sandbox.outbox import Bounds, NotTaken, unpack_into

BOUNDS = Bounds(files=64, total_bytes=256 << 20, depth=2)  # of one build


class Shelf(Protocol):
    """What several machines share. Neither method raises: a build that cannot be shared is made again."""

    def put(self, key: str, packed: bytes) -> None: ...

    def get(self, key: str) -> bytes | None:
        """Exactly what was put under the key, or None."""


def pack(folder: Path, names: Iterable[str]) -> bytes:
    """A tar of the named files and folders that exist."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            if (folder / name).exists():
                archive.add(folder / name, arcname=name)
    return buffer.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Makes `folder` in one step; that another process has made it meanwhile is normal.

    What is no packed build of ours makes no folder, as if it had never been there.
    """
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        unpack_into(packed, made, BOUNDS)
        made.rename(folder)
    except (NotTaken, OSError):
        shutil.rmtree(made)

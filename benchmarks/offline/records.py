"""Records on disk: one JSON object per file, written atomically, so that a run may be interrupted at any moment.

Each holds a hash of its content. One that was changed, cut or written by hand counts as none, so what it says is found
out anew. Not covered: somebody who writes hashes, too. Does NOT interpret records.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..harness import NotTaken, digest, read_file

_BYTES_MAX = 64 << 20
_SEAL = "sha256"  # of the record without it


def read_record(path: Path) -> dict[str, Any] | None:
    """The record; None where there is none, only a part of one, or another than was written."""
    try:
        data = json.loads(read_file(path.parent, path.name, _BYTES_MAX))
    except (NotTaken, ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    seal = data.pop(_SEAL, None)
    return data if seal == _sealed(data) else None


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    write_text(path, json.dumps({**data, _SEAL: _sealed(data)}))


def write_text(path: Path, text: str) -> None:
    """All of it at once, so that another run sees the text of before or this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def _sealed(data: Mapping[str, Any]) -> str:
    return digest(json.dumps(data, sort_keys=True))

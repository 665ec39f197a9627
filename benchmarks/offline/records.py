"""Records on disk: one JSON object per file, written atomically, so that a run may be interrupted at any moment.

Does NOT interpret records.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_record(path: Path) -> dict[str, Any] | None:
    """The record; None where there is none, or only a part of one."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(data))
    partial.replace(path)

"""Profiles of recorded kernels that come with kbench, by device kind and source.

`lab/bench/record_profiles.py` writes the files; each line is a profile as `kbench profile --json` prints it. They are
part of kbench and trusted as its code is. Does NOT touch the database.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "shipped_profiles"


def profile_of(device: str, source_sha256: str) -> dict[str, Any] | None:
    """The profile of a source on a device kind, or on another one; None where none was recorded."""
    found = _profiles(FOLDER).get(source_sha256, {})
    return found.get(device) or next(iter(found.values()), None)


@cache
def _profiles(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """By hash of the source, then by device kind."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                profile = json.loads(line)
                found.setdefault(profile["source_sha256"], {})[profile["device_kind"]] = profile
    return found

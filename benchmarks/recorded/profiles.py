"""Profiles of recorded kernels that come with kbench, by device kind and source.

`lab/bench/record_profiles.py` writes the files; each line is a profile as `kbench profile --json` prints it. They are
part of kbench and trusted as its code is. Does NOT touch the database.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "profiles"


def profile_of(device: str, source_sha256: str) -> dict[str, Any] | None:
    """The profile of a source on a device kind; None where none was recorded."""
    return _profiles(FOLDER).get((device, source_sha256))


@cache
def _profiles(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                profile = json.loads(line)
                found[profile["device_kind"], profile["source_sha256"]] = profile
    return found

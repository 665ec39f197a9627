"""Profiles that come with kbench: `python -m lab.bench.record_profiles FILE...`.

Reads what `lab.gpu.profiles` has written and packs the profiles of each device kind into
`benchmarks/recorded/profiles/DEVICE.jsonl.gz`. Listings are cut; what failed is left out. Does NOT profile anything.
"""

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.recorded.profiles import FOLDER

LISTING_CHARS = 40_000


def main() -> int:
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in sys.argv[1:]:
        for line in Path(name).read_text().splitlines():
            record = json.loads(line)
            if "problem" not in record:
                kinds[record["device_kind"]].append(packed(record))
    FOLDER.mkdir(exist_ok=True)
    for kind, profiles in kinds.items():
        path = FOLDER / f"{kind}.jsonl.gz"
        text = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in profiles)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{path.name}: {len(profiles)} profiles, {path.stat().st_size} bytes")
    return 0


def packed(record: dict[str, Any]) -> dict[str, Any]:
    """Without what belongs to the run that made it, and with short listings."""
    kept = {name: value for name, value in record.items() if name not in ("file", "seconds")}
    listings = [
        {**item, "text": item["text"][:LISTING_CHARS], "cut": item["cut"] or len(item["text"]) > LISTING_CHARS}
        for item in record["listings"]
    ]
    return {**kept, "listings": listings}


if __name__ == "__main__":
    sys.exit(main())

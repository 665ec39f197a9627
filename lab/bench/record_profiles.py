"""Profiles that come with kbench: `python -m lab.bench.record_profiles FILE...`.

Reads what `lab.gpu.profiles` has written and packs the profiles of each device kind into
`benchmarks/recorded/shipped_profiles/DEVICE.jsonl.gz`. Bottlenecks are named anew by the rules of today, listings are
cut, and what failed is left out. Does NOT profile anything.
"""

import gzip
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.compilers.listings import sorted_functions
from benchmarks.harness.gpu.discovery import kind_of
from benchmarks.harness.profiles.bottleneck import gpu_bottleneck
from benchmarks.harness.profiles.records import (
    ConfigProfile,
    HotLine,
    KernelProfile,
    Listing,
    Profile,
    Roofline,
    base_name,
)
from benchmarks.harness.profiles.text import compact
from benchmarks.recorded.profiles import FOLDER

LISTING_CHARS = 40_000
OF_HEADERS = ".global .align 1 .b8 _ZN"  # objects that headers bring
PLAIN = ("task", "suite", "language", "device", "device_kind", "source_sha256", "tool")
ROOFLINE = ("flops", "least_bytes", "moved_bytes", "time_us", "peak_flops_per_s", "peak_bytes_per_s")


def main() -> int:
    kinds: dict[str, list[Profile]] = defaultdict(list)
    for name in sys.argv[1:]:
        for line in Path(name).read_text().splitlines():
            record = json.loads(line)
            if "problem" not in record:
                record["device_kind"] = kind_of(record["device"])
                kinds[record["device_kind"]].append(renewed(record))
    FOLDER.mkdir(exist_ok=True)
    for kind, profiles in kinds.items():
        path = FOLDER / f"{kind}.jsonl.gz"
        text = "".join(json.dumps(item.to_json(), separators=(",", ":")) + "\n" for item in profiles)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{path.name}: {len(profiles)} profiles, {path.stat().st_size} bytes")
    return 0


def renewed(record: dict[str, Any]) -> Profile:
    """The same figures, with bottlenecks and short form as they are made today."""
    configs = tuple(map(config_of, record["configs"]))
    launched = {base_name(kernel.name) for config in configs for kernel in config.kernels}
    found = Profile(
        **{name: record[name] for name in PLAIN},
        configs=configs,
        resources=tuple(record["resources"]),
        instructions=record["instructions"],
        hot_lines=tuple(HotLine(**item) for item in record["hot_lines"]),
        listings=tuple(listing_of(item, launched) for item in record["listings"]),
        missing=tuple(record["missing"]),
    )
    return replace(found, text=compact(found))


def config_of(item: dict[str, Any]) -> ConfigProfile:
    kernels = tuple(KernelProfile(**kernel) for kernel in item["kernels"])
    roofline = Roofline(**{name: item["roofline"][name] for name in ROOFLINE})
    named = gpu_bottleneck(kernels, roofline)
    return ConfigProfile(item["key"], item["group"], kernels, item["kernel_count"], item["time_us"], roofline, named)


def listing_of(item: dict[str, Any], launched: set[str]) -> Listing:
    lines = [line for line in item["text"].split("\n") if line.strip() and not line.startswith(OF_HEADERS)]
    text = "\n".join(sorted_functions(lines, launched))
    return Listing(item["kind"], text[:LISTING_CHARS], item["cut"] or len(text) > LISTING_CHARS)


if __name__ == "__main__":
    sys.exit(main())

"""Tables for people from raw reports: `python -m scripts.gpu_tables RAW.jsonl ... > docs/results/h200-kernels.md`.

Reads the JSON lines of `gpu_proof.py`; where a kernel was judged more than once the last accepted report counts. Not
covered: judging anything.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HEAD = """# Kernels on an H200

Made by `python -m scripts.gpu_tables` from the raw reports in [h200](h200). Times are medians in microseconds of calls
with a cold cache; floor is the least time for the data or the arithmetic at the best rates measured on this GPU; a
speedup is over the stronger of eager and torch.compile, with its 95 % interval.
"""
COLUMNS = "| configuration | eager | torch.compile | kernel | speedup | of the floor | largest error |"


def main() -> int:
    print(HEAD)
    for record in latest(Path(name) for name in sys.argv[1:]):
        print(f"## {record['name']}\n")
        print("\n".join(section(record)), end="\n\n")
    return 0


def latest(files: Iterable[Path]) -> list[Mapping[str, Any]]:
    """One report per kernel, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in files:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "name" in record and (record["verdict"] == "PASS" or record["name"] not in found):
                found[record["name"]] = record
    return [found[name] for name in sorted(found)]


def section(record: Mapping[str, Any]) -> Iterator[str]:
    score = record.get("score")
    if score is None:
        yield f"{record['verdict']}: {record['reason']}"
        return
    low, high = score["ci95"]
    yield f"**{score['speedup']:.2f}×** ({low:.2f} to {high:.2f}), timing {score['timing_trust']}."
    yield ""
    yield COLUMNS
    yield "|---|---|---|---|---|---|---|"
    yield from (row(item) for item in record["configs"] if item["kernel_us"] is not None)


def row(item: Mapping[str, Any]) -> str:
    times = " | ".join(_figure(item[name]) for name in ("eager_us", "compile_us", "kernel_us"))
    floor, error = _figure(item["roofline_fraction"], ".0%"), _figure(item["max_rel_error"], ".1e")
    return f"| {item['key']} | {times} | {item['speedup']:.2f}× | {floor} | {error} |"


def _figure(value: float | None, form: str = ".1f") -> str:
    return "–" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main())

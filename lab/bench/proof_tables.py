"""Tables for people from raw reports: `python -m lab.bench.proof_tables RAW.jsonl ... > docs/results/KIND-kernels.md`.

Reads the JSON lines of `proof.py`; where a kernel was judged more than once the last accepted report counts. With
`--before RAW.jsonl` the scores of those reports stand beside. The reports are of one suite; columns of the paper are
left out where it says nothing of it. Not covered: judging anything.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

HEAD = """# Kernels on {kind}, rule set {ruleset}

Made by `python -m lab.bench.proof_tables` from raw reports of `python -m lab.bench.proof {asked}`. Times are medians in
microseconds of calls with a cold cache; floor is the least time for the data or the arithmetic at the best rates
measured on this device; a speedup is over the stronger of eager and torch.compile, with its 95 % interval.
"""
GPU_NOTES = """The paper's figures are its authors', from an H100 and one configuration per task; layernorm's and cross
entropy's rest on a slow baseline. Reports name the source that was judged (`source_sha256`). The floor of
arithmetic is the better of float32 products and half of the rate of half-precision ones.
"""
OTHER_GPU_NOTES = """Reports name the source that was judged (`source_sha256`). The floor of arithmetic is the
rate of products in half precision, for operands in float8 twice that.
"""
CPU_NOTES = """Machine: {cpu}, {cores} cores, {threads} of them for kernels and baselines.
"""
# speedups over eager and torch.compile that arXiv 2509.14279 publishes for its kernels
PAPER = {
    "layernorm/forward": (165.7, 2.05),
    "llama_ffw/forward": (1.01, 1.03),
    "llama_rmsnorm/forward": (3.92, 2.34),
    "mnist_conv_relu_pool/forward": (2.79, 4.27),
    "mnist_cross_entropy/forward": (1.93, 63.4),
    "mnist_cross_entropy/backward": (0.96, 1.77),
    "mnist_linear/forward": (2.52, 5.92),
    "mnist_linear/backward": (1.20, 1.71),
    "mnist_linear_relu/forward": (2.49, 4.70),
    "mnist_linear_relu/backward": (1.23, 2.04),
    "mnist_pool/backward": (1.12, 1.19),
    "resnet_block/forward": (2.62, 2.62),
}
COLUMNS_OF_ALL = (
    *("kernel", "score", "95 % interval", "over eager", "over torch.compile", "slowest configuration", "timing"),
    *("before", "paper, over eager", "paper, over torch.compile"),
)
SUITE = "robust-kbench"
COMPILED = ("cpp", "cuda")
COLUMNS = "| configuration | eager | torch.compile | kernel | speedup | of the floor | largest error |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--before", type=Path, nargs="*", default=[], help="earlier reports of the same kernels")
    options = parser.parse_args()
    records = latest(options.reports)
    before = {record["name"]: record for record in latest(options.before)}
    print(head(records[0]))
    if before:
        rulesets = " and ".join(sorted({record["ruleset"] for record in before.values()}))
        print(f"The column *before* has the scores that rule set {rulesets} gave, with their timing.\n")
    print("\n".join(summary(records, before)), end="\n\n")
    for record in records:
        print(f"## {record['name']}\n")
        print("\n".join(section(record)), end="\n\n")
    return 0


def head(record: Mapping[str, Any]) -> str:
    suite = record.get("suite", SUITE)
    notes = GPU_NOTES if suite == SUITE else OTHER_GPU_NOTES
    if record["device_kind"].startswith("cpu"):
        notes = CPU_NOTES.format_map(record["environment"])
    asked = "kernels" if suite == SUITE else f"kernels --suite {suite.replace('-', '_')}"
    return HEAD.format(kind=record["device_kind"], ruleset=record["ruleset"], asked=asked) + "\n" + notes


def latest(files: Iterable[Path]) -> list[Mapping[str, Any]]:
    """One report per kernel, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in files:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "name" in record and (record["verdict"] == "PASS" or record["name"] not in found):
                found[record["name"]] = record
    return [found[name] for name in sorted(found)]


def summary(records: Sequence[Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One line per accepted kernel, and the geometric means of those in C++ or CUDA."""
    accepted = [record for record in records if record.get("score")]
    columns = len(COLUMNS_OF_ALL) - (0 if all(item.get("suite", SUITE) == SUITE for item in accepted) else 2)
    yield f"| {' | '.join(COLUMNS_OF_ALL[:columns])} |"
    yield "|" + "---|" * columns
    for record in accepted:
        yield f"| {' | '.join(summary_cells(record, before.get(record['name']))[:columns])} |"
    yield ""
    for direction in ("forward", "backward"):
        chosen = [
            item["score"]["speedup"]
            for item in accepted
            if item["language"] in COMPILED and item["task"].endswith(f"/{direction}")
        ]
        if chosen:
            yield f"Geometric mean, {len(chosen)} {direction} kernels in C++ or CUDA: {geometric_mean(chosen):.2f}×."
            yield ""


def summary_cells(record: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[str, ...]:
    """In the order of COLUMNS_OF_ALL."""
    score, earlier = record["score"], (before or {}).get("score")
    timing = (score["timing_trust"], f"{ratio(earlier['speedup'])} {earlier['timing_trust']}" if earlier else "–")
    slowest = min(item["speedup"] for item in record["configs"] if item["speedup"] is not None)
    ours = (ratio(score["speedup"]), "{:.2f} to {:.2f}".format(*score["ci95"]), ratio(score["vs_eager"]))
    paper = PAPER.get(record["task"], (None, None)) if record["language"] == "cuda" else (None, None)
    ours = (*ours, ratio(score["vs_compile"]), ratio(slowest), *timing)
    return (record["name"], *ours, *(ratio(item) for item in paper))


def ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


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

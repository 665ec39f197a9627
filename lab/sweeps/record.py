"""Measures every setting of a space once: `python -m lab.sweeps.record SPACE` writes docs/results/sweeps/SPACE.json.

Every setting is compiled, checked on every configuration against the float64 reference, and timed by turns with a
reference kernel, so that what the machine does meanwhile hits both; the median of the pairs' ratios is recorded. One
thread, no sandbox, no verdict: this feeds the comparison of searches, never a leaderboard.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.evolve.search.recorded import gene_record
from agents.evolve.templates import Genome, Space, Template, Value, find_template
from benchmarks.harness import default_suites, find_task
from lab.sweeps.sweeping import SweepCase, SweepKernel, compile_kernel, draw, fault, precompiled_headers

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "sweeps"
PAIRS = 9
ROUNDS = 3
NEAR_TOP = 0.85
METHOD = (
    f"median of {PAIRS} pairs (reference, setting) per configuration, one thread, flags of rk-1; "
    f"settings within {NEAR_TOP} of the best again, the median of {ROUNDS} later rounds"
)
Pair = tuple[float, float]  # microseconds, speedup over the reference
Row = list[Any]  # [values of the genes, microseconds, speedups]


@dataclass(frozen=True)
class Sweep:
    """A task's space, narrowed to some values of some genes."""

    task: str
    narrowed: Mapping[str, Sequence[Value]]


SWEEPS = {
    "cpu-mnist_linear-backward": Sweep(
        "mnist_linear/backward", {"PATH": ("tiles",), "LANES": (8, 16), "ROW_BLOCK": (24,), "GRAIN": (16384,)}
    ),
    "cpu-unet_linear-forward": Sweep(
        "unet_linear/forward", {"PATH": ("dots", "packed"), "PACK_DEPTH": (16,), "GRAIN": (16384,)}
    ),
    "cpu-unet_linear-backward": Sweep(
        "unet_linear/backward", {"PATH": ("tiles",), "ROW_BLOCK": (24,), "GRAIN": (16384,)}
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("space", choices=sorted(SWEEPS))
    parser.add_argument("--refine", action="store_true", help="only measure the best of a recording again")
    options = parser.parse_args()
    path = FOLDER / f"{options.space}.json"
    with tempfile.TemporaryDirectory() as folder:
        bench, space = SweepBench(SWEEPS[options.space].task, Path(folder)), space_of(SWEEPS[options.space])
        rows = json.loads(path.read_text())["rows"] if options.refine else record(bench, space)
        write(path, bench, space, refined(bench, space, rows))


def space_of(sweep: Sweep) -> Space:
    return narrowed(template_of(sweep.task).space, sweep.narrowed)


def template_of(task: str) -> Template:
    template = find_template(task, "cpp")
    if template is None:
        raise SystemExit(f"no C++ template serves {task}")
    return template


def narrowed(space: Space, values: Mapping[str, Sequence[Value]]) -> Space:
    """The space with some genes limited to some of their values."""
    genes = tuple(replace(gene, values=tuple(values.get(gene.name, gene.values))) for gene in space.genes)
    return Space(genes, space.constraints)


def record(bench: "SweepBench", space: Space) -> list[Row]:
    """Every setting once, nulls for one that fails."""
    bench.compile_all(space.genomes)
    rows: list[Row] = []
    for genome in space.genomes:
        kernel = bench.kernel(genome)
        pairs = bench.measured(kernel) if kernel is not None else None
        rows.append(_row(space.key(genome), pairs))
        print(f"{len(rows)}/{space.size} {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def refined(bench: "SweepBench", space: Space, rows: Sequence[Row]) -> list[Row]:
    """The best of many noisy figures are partly luck, so settings near the top are measured again in turns."""
    top = max(score(row) for row in rows)
    near = [place for place, row in enumerate(rows) if score(row) >= NEAR_TOP * top]
    kernels = {place: bench.kernel(dict(zip(space.names, rows[place][0], strict=True))) for place in near}
    rounds = [{place: bench.measured(kernel) for place, kernel in kernels.items() if kernel} for _ in range(ROUNDS)]
    result = list(rows)
    for place in rounds[0]:
        by_config = zip(*(one[place] for one in rounds), strict=True)
        pairs = [tuple(map(statistics.median, zip(*config, strict=True))) for config in by_config]
        result[place] = _row(rows[place][0], [(time_us, ratio) for time_us, ratio in pairs])
        print(f"again: {result[place]}", file=sys.stderr, flush=True)
    return result


def score(row: Row) -> float:
    """The geometric mean of a row's speedups, 0 for a failed one."""
    speedups = row[2]
    return statistics.geometric_mean(speedups) if speedups else 0.0


class SweepBench:
    """Compiles and times the settings of one template on the visible configurations of one task."""

    def __init__(self, task: str, folder: Path) -> None:
        self.task, self.template, self.folder = find_task(default_suites(), task), template_of(task), folder
        self.cases = [draw(self.task, config, seed) for seed, config in enumerate(self.task.configs_for("cpu"))]
        self.timed = [case for case in self.cases if not case.config.hidden]
        self.headers = precompiled_headers(folder)
        self.reference = self._compile(self.template.default)

    def _compile(self, genome: Genome) -> SweepKernel:
        return compile_kernel(self.template.render(genome, self.task), self.folder, self.headers)

    def compile_all(self, genomes: Sequence[Genome]) -> None:
        """Beforehand and side by side, so that nothing of ours runs beside the timings."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self._try_compile, genomes))

    def _try_compile(self, genome: Genome) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):  # told when the kernel is asked for
            self._compile(genome)

    def kernel(self, genome: Genome) -> SweepKernel | None:
        """A compiled kernel that is right on every configuration, hidden ones included; else None."""
        try:
            kernel = self._compile(genome)
        except subprocess.CalledProcessError as error:
            words: str | None = error.stderr[:300]
        else:
            words = next((said for case in self.cases if (said := fault(kernel.call(case)[1], case))), None)
        if words:
            print(f"failed: {dict(genome)}: {words}", file=sys.stderr, flush=True)
        return None if words else kernel

    def measured(self, kernel: SweepKernel) -> list[Pair]:
        return [measure(kernel, self.reference, case) for case in self.timed]


def measure(kernel: SweepKernel, reference: SweepKernel, case: SweepCase) -> Pair:
    """The median microseconds of a kernel, and the median of reference / kernel over pairs of neighbouring calls."""
    pairs = [(reference.time_us(case), kernel.time_us(case)) for _ in range(PAIRS)]
    time_us = statistics.median(mine for _, mine in pairs)
    return round(time_us, 2), round(statistics.median(theirs / mine for theirs, mine in pairs), 4)


def write(path: Path, bench: SweepBench, space: Space, rows: Sequence[Row]) -> None:
    """One row to a line, so that a recording can be read."""
    head = {
        "space": path.stem,
        "task": bench.task.name,
        "template": bench.template.name,
        "language": "cpp",
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "method": METHOD,
        "reference": dict(bench.template.default),
        "configs": [case.config.key for case in bench.timed],
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    genes = ",\n".join(f"  {json.dumps(gene_record(gene))}" for gene in space.genes)
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    lines += [f' "genes": [\n{genes}\n ]', f' "rows": [\n{body}\n ]']
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _row(key: Sequence[Value], pairs: Sequence[Pair] | None) -> Row:
    if pairs is None:
        return [list(key), None, None]
    return [list(key), [time_us for time_us, _ in pairs], [ratio for _, ratio in pairs]]


def machine() -> dict[str, object]:
    """What the figures depend on, without the name of the machine."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in facts if line.startswith("model name")), platform.machine())
    compiler = subprocess.run(["g++", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "gxx": compiler, "load_1min": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    main()

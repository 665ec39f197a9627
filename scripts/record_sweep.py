"""Measures every setting of a space once: `python -m scripts.record_sweep SPACE` writes docs/results/sweeps/SPACE.json.

Every setting is compiled, checked on every configuration against the float64 reference, and timed by turns with a
reference kernel, so that what the machine does meanwhile hits both; the median of the pairs' ratios is recorded. One
thread, no sandbox, no verdict: this feeds the comparison of searches, never a leaderboard.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agents.evolve.search.recorded import gene_record
from agents.evolve.templates import Genome, Space, Template, Value, find_template
from benchmarks.harness import TaskSpec, default_suites, find_task
from scripts.sweeping import Case, Kernel, compile_kernel, draw, fault

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "sweeps"
PAIRS = 9


@dataclass(frozen=True)
class Sweep:
    """A task's space, narrowed to some values of some genes."""

    task: str
    narrowed: Mapping[str, Sequence[Value]]


SWEEPS = {
    "cpu-unet_linear-forward": Sweep(
        "unet_linear/forward",
        {"PATH": ("dots", "packed"), "ROW_BLOCK": (24, 4096), "PACK_DEPTH": (16,), "GRAIN": (16384,)},
    ),
    "cpu-mnist_linear-forward": Sweep(
        "mnist_linear/forward",
        {"PATH": ("dots", "packed"), "ROW_BLOCK": (24, 4096), "PACK_DEPTH": (16,), "GRAIN": (16384,)},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("space", choices=sorted(SWEEPS))
    parser.add_argument("--limit", type=int, help="stop after so many settings and write nothing")
    options = parser.parse_args()
    sweep = SWEEPS[options.space]
    task, template = find_task(default_suites(), sweep.task), find_template(sweep.task, "cpp")
    if template is None:
        raise SystemExit(f"no C++ template serves {sweep.task}")
    space = narrowed(template.space, sweep.narrowed)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(task, template, Path(folder))
        rows = [bench.row(space, genome, place) for place, genome in enumerate(space.genomes[: options.limit])]
    if options.limit is None:
        write(options.space, bench, space, rows)


def narrowed(space: Space, values: Mapping[str, Sequence[Value]]) -> Space:
    """The space with some genes limited to some of their values."""
    genes = tuple(replace(gene, values=tuple(values.get(gene.name, gene.values))) for gene in space.genes)
    return Space(genes, space.constraints)


class Bench:
    """Compiles and times the settings of one template on the visible configurations of one task."""

    def __init__(self, task: TaskSpec, template: Template, folder: Path) -> None:
        self.task, self.template, self.folder = task, template, folder
        self.cases = [draw(task, config, seed) for seed, config in enumerate(task.configs_for("cpu"))]
        self.timed = [case for case in self.cases if not case.config.hidden]
        self.reference = self._compile(template.default)

    def _compile(self, genome: Genome) -> Kernel:
        return compile_kernel(self.template.render(genome, self.task), self.folder)

    def row(self, space: Space, genome: Genome, place: int) -> list[object]:
        """[values, times, speedups], or nulls and words on stderr for a setting that fails."""
        start = time.monotonic()
        try:
            kernel = self._compile(genome)
        except subprocess.CalledProcessError as error:
            return self._failed(space, genome, error.stderr[:300])
        if words := next((said for case in self.cases if (said := fault(kernel.call(case)[1], case))), None):
            return self._failed(space, genome, words)
        pairs = [measure(kernel, self.reference, case) for case in self.timed]
        took_s = time.monotonic() - start
        print(f"{place + 1}/{space.size} {took_s:.1f} s {[ratio for _, ratio in pairs]}", file=sys.stderr, flush=True)
        return [list(space.key(genome)), [time_us for time_us, _ in pairs], [ratio for _, ratio in pairs]]

    def _failed(self, space: Space, genome: Genome, words: str) -> list[object]:
        print(f"failed: {dict(genome)}: {words}", file=sys.stderr, flush=True)
        return [list(space.key(genome)), None, None]


def measure(kernel: Kernel, reference: Kernel, case: Case) -> tuple[float, float]:
    """The median microseconds of a kernel, and the median of reference / kernel over pairs of neighbouring calls."""
    pairs = [(reference.time_us(case), kernel.time_us(case)) for _ in range(PAIRS)]
    time_us = statistics.median(mine for _, mine in pairs)
    return round(time_us, 2), round(statistics.median(theirs / mine for theirs, mine in pairs), 4)


def write(name: str, bench: Bench, space: Space, rows: Sequence[list[object]]) -> None:
    """One row to a line, so that a recording can be read."""
    head = {
        "space": name,
        "task": bench.task.name,
        "template": bench.template.name,
        "language": "cpp",
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "method": f"median of {PAIRS} pairs (reference, setting) per configuration, one thread, flags of rk-1",
        "reference": dict(bench.template.default),
        "genes": [gene_record(gene) for gene in space.genes],
        "configs": [case.config.key for case in bench.timed],
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n]\n}}\n'
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text)


def machine() -> dict[str, object]:
    """What the figures depend on, without the name of the machine."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in facts if line.startswith("model name")), platform.machine())
    compiler = subprocess.run(["g++", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "gxx": compiler, "load_1min": round(os.getloadavg()[0], 1)}


if __name__ == "__main__":
    main()

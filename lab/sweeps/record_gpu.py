"""Measures every setting of spaces of CUDA templates once: `python -m lab.sweeps.record_gpu SPACE ... --out FOLDER`.

Every setting is compiled without torch, checked on every visible configuration against a float64 reference, and timed
by turns with a reference kernel, each call with a cold cache; medians are recorded as FOLDER/SPACE.json in the format
of `agents/evolve/search/recorded.py`. What was reached when the time ran out is written too, as SPACE.partial.json.
`--dry N` needs no GPU: it compiles every N-th setting and prints the plan. Feeds the comparison of searches, no board.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.evolve.search.recorded import gene_record
from agents.evolve.templates import Genome, Space, Template, find_template
from benchmarks.harness import TaskSpec, default_suites, find_task
from lab.gpu.plain_cuda import BuiltCore, CoreBuilder, GpuProcess, Measured, machine
from lab.sweeps.record import Sweep, narrowed

PAIRS = 9


SWEEPS = {
    "h200-mnist_pool-forward": Sweep(
        "mnist_pool/forward",
        {
            "THREADS": (64, 128, 256, 512),
            "STEPS": (1, 2, 4),
            "BLOCKS_PER_SM": (0, 2),
            "DIVIDE_BY_MULTIPLYING": (1,),
            "LOADS": ("plain", "stream"),
        },
    ),
    "h200-llama_rmsnorm-forward": Sweep(
        "llama_rmsnorm/forward",
        {
            "ROW_THREADS": (64, 128, 256, 512, 1024),
            "ROWS": (1, 2),
            "WIDTH": (4,),
            "BLOCKS_PER_SM": (0, 4),
            "MIN_BLOCKS": (1,),
            "LOADS": ("plain", "stream"),
        },
    ),
    "h200-mnist_conv_relu_pool-forward": Sweep(
        "mnist_conv_relu_pool/forward",
        {
            "THREADS": (32, 64, 128),
            "CHANNELS": (2, 4, 8, 16),
            "STAGED": (8, 32),
            "MIN_BLOCKS": (1, 4, 8, 12),
            "LOADS": ("plain",),
        },
    ),
    "h200-unet_conv2d-forward": Sweep(
        "unet_conv2d/forward", {"PATH": ("tensor",), "LARGE_COST": (90,), "STORES": ("plain",)}
    ),
    "h200-layernorm-forward": Sweep(
        "layernorm/forward", {"THREADS": (128, 256, 512, 1024), "WIDTH": (4,), "LOADS": ("plain", "stream")}
    ),
    "h200-mnist_linear-forward": Sweep(
        "mnist_linear/forward",
        {
            "PATH": ("both",),
            "LINE_ROWS": (4,),
            "LINE_COLUMNS": (1,),
            "LINE_WARPS": (4,),
            "LINE_WIDTH": (4,),
            "TILE_M": (32, 64),
            "TILE_K": (16, 32),
            "BUFFERS": (1, 2),
        },
    ),
    "h200-unet_linear-backward": Sweep(
        "unet_linear/backward",
        {
            "TILE_M": (32, 64, 128),
            "TILE_N": (32, 64, 128),
            "THREAD_M": (4, 8),
            "THREAD_N": (4, 8),
            "BUFFERS": (2,),
            "MAX_PARTS": (1, 4, 16),
        },
    ),
    # Larger ones, of 2,010 and 2,160 settings: by the rates above seven to eight minutes each
    "h200-unet_linear-backward-large": Sweep(
        "unet_linear/backward", {"TILE_K": (16, 32), "BUFFERS": (2,), "MAX_PARTS": (1, 4, 16)}
    ),
    "h200-mnist_conv_relu_pool-forward-large": Sweep(
        "mnist_conv_relu_pool/forward",
        {"STAGED": (1, 8, 32), "MIN_BLOCKS": (1, 4, 8, 12), "LOADS": ("plain", "readonly")},
    ),
}


def main() -> int:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.budget_s
    for place, name in enumerate(options.spaces):
        share = (deadline - time.monotonic()) / (len(options.spaces) - place)
        try:
            GpuSweep(name, options).run(time.monotonic() + share)
        except (RuntimeError, OSError) as error:
            print(f"!! {name}: {error}", flush=True)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spaces", nargs="+", choices=sorted(SWEEPS))
    parser.add_argument("--out", type=Path, default=Path("gpu_sweeps"))
    parser.add_argument("--jobs", type=int, default=16, help="compilations at a time")
    parser.add_argument("--budget-s", type=float, default=570.0, help="for all spaces together")
    parser.add_argument(
        "--dry", type=int, metavar="N", help="compile every N-th setting, print the plan, measure nothing"
    )
    return parser.parse_args()


class GpuSweep:
    """Compiles ahead on all cores while the GPU measures what is ready."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options, sweep = name, options, SWEEPS[name]
        found = find_template(sweep.task, "cuda")
        if found is None:
            raise SystemExit(f"no CUDA template serves {sweep.task}")
        self.task: TaskSpec = find_task(default_suites(), sweep.task)
        self.template: Template = found
        self.space: Space = narrowed(found.space, sweep.narrowed)
        self.rows: list[list[object]] = []
        self.failures = 0

    def run(self, deadline: float) -> None:
        print(f"== {self.name}: {self.space.size} settings of {self.template.name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            builder = CoreBuilder(self.template, self.task, Path(folder), self.options.jobs)
            if self.options.dry:
                return self._dry(builder)
            reference = builder.build(self.template.default)
            if reference.library is None:
                raise RuntimeError(f"the reference kernel does not compile: {reference.log}")
            gpu = GpuProcess(self.task, reference.library)
            try:
                self._measure_all(builder, gpu, deadline)
            finally:
                gpu.close()
        return None

    def _dry(self, builder: CoreBuilder) -> None:
        started = time.monotonic()
        built = builder.build_all(self.space.genomes[:: self.options.dry])
        failed = [one.log for one in built if one.library is None]
        took_s = time.monotonic() - started
        print(
            f"   {len(built)} compiled in {took_s:.1f} s on {self.options.jobs} jobs, {len(failed)} failed", *failed[:2]
        )

    def _measure_all(self, builder: CoreBuilder, gpu: GpuProcess, deadline: float) -> None:
        started = time.monotonic()
        for genome, built in self._built_ahead(builder):
            measured = Measured(failure=f"nvcc: {built.log}") if built.library is None else Measured()
            if built.library is not None:
                measured = gpu.measure(built.library, PAIRS)
                built.library.unlink()
            self._add(genome, measured)
            if len(self.rows) % 25 == 0:
                self._write(gpu, started, whole=False)
                took_s = time.monotonic() - started
                print(f"   {len(self.rows)}/{self.space.size} after {took_s:.0f} s, {self.failures} failed", flush=True)
            if time.monotonic() > deadline:
                break
        builder.pool.shutdown(cancel_futures=True)
        self._write(gpu, started, whole=len(self.rows) == self.space.size)

    def _built_ahead(self, builder: CoreBuilder) -> Iterator[tuple[Genome, BuiltCore]]:
        futures = [(genome, builder.pool.submit(builder.build, genome)) for genome in self.space.genomes]
        for genome, future in futures:
            yield genome, future.result()

    def _add(self, genome: Genome, measured: Measured) -> None:
        key = list(self.space.key(genome))
        if measured.failure:
            self.failures += 1
            print(f"failed: {dict(genome)}: {measured.failure[:300]}", file=sys.stderr, flush=True)
            self.rows.append([key, None, None])
        else:
            self.rows.append([key, list(measured.times_us), list(measured.speedups)])

    def _write(self, gpu: GpuProcess, started: float, *, whole: bool) -> None:
        """One row to a line, so that a recording can be read."""
        text = json.dumps(self._head(gpu, started), ensure_ascii=False, indent=1).removesuffix("\n}")
        lines = ",\n".join(json.dumps(row) for row in self.rows)
        partial = self.options.out / f"{self.name}.partial.json"
        partial.write_text(f'{text},\n "rows": [\n{lines}\n]\n}}\n')
        if whole:
            partial.rename(self.options.out / f"{self.name}.json")

    def _head(self, gpu: GpuProcess, started: float) -> dict[str, Any]:
        return {
            "space": self.name,
            "task": self.task.name,
            "template": self.template.name,
            "language": "cuda",
            "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "recorded_s": round(time.monotonic() - started, 1),
            "machine": machine(gpu.about),
            "method": f"median of {PAIRS} pairs (reference, setting) per configuration, cold cache, CUDA events",
            "reference": dict(self.template.default),
            "genes": [gene_record(gene) for gene in self.space.genes],
            "configs": gpu.about["configs"],
        }


if __name__ == "__main__":
    sys.exit(main())

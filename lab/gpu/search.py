"""Searches for fast kernels live on a GPU: `python -m lab.gpu.search [OP/DIRECTION ...] --out FOLDER`.

For each task the naive genome of its CUDA template comes first, then the best guess made beforehand, then what the
default search asks for, as in the proposer without a language model; each is compiled without torch, checked against
float64 and timed (`plain_cuda.py`). The best few are timed again, the winner is rendered as a submission into FOLDER,
and everything measured is kept there as JSON as it comes. `--judge` then judges the winners under all rules,
`--judge-only` judges what an earlier run left in FOLDER; `--dry` needs no GPU and only compiles.
Not covered: sweeps of whole spaces (`lab/sweeps/record_gpu.py`).
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from agents.evolve.rng import Rng
from agents.evolve.search import Trial, forecasting
from agents.evolve.templates import Genome, Template, find_template
from benchmarks.harness import (
    HarnessError,
    Paths,
    Source,
    TaskSpec,
    compile_source,
    default_rules,
    default_suites,
    find_task,
    judge,
    keep_ready,
)
from lab.gpu.plain_cuda import BuiltCore, CoreBuilder, GpuProcess, Measured, machine

TASKS = (
    "mnist_pool/forward",
    "llama_rmsnorm/forward",
    "mnist_linear/forward",
    "mnist_linear_relu/backward",
    "mnist_conv_relu_pool/forward",
    "unet_conv2d/forward",
)
FINALISTS, FINAL_PAIRS = 6, 25
COPY_BYTES_PER_S, FLOPS_PER_S = 4.23e12, 60e12  # measured copy; float32 outside tensor cores at full clocks


@dataclass
class Hunt:
    """What one search of one task found, as it is kept."""

    task: TaskSpec
    template: Template
    options: argparse.Namespace
    started: float = field(default_factory=time.monotonic)
    trials: list[Trial] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    baselines: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def bars_us(self) -> list[float] | None:
        """The stronger baseline of each configuration; None where there is none."""
        pairs = zip(self.baselines.get("eager_us") or (), self.baselines.get("compile_us") or (), strict=True)
        bars = [min((one for one in pair if one is not None), default=None) for pair in pairs]
        return [bar for bar in bars if bar is not None] if bars and None not in bars else None

    def fitness(self, measured: Measured) -> float | None:
        """The speedup over the baselines, or over the reference kernel where those could not be had."""
        if measured.failure:
            return None
        if self.bars_us is None:
            return measured.score
        return geometric_mean([bar / own for bar, own in zip(self.bars_us, measured.times_us, strict=True)])

    def add(self, genome: Genome, built: BuiltCore, measured: Measured, operator: str) -> None:
        fitness = self.fitness(measured)
        self.trials.append(Trial(genome, fitness))
        self.records.append(
            {
                "genome": dict(genome),
                "operator": operator,
                "fitness": fitness,
                "times_us": measured.times_us,
                "failure": measured.failure[:400],
                "compile_s": round(built.seconds, 2),
                "at_s": round(time.monotonic() - self.started, 2),
            }
        )

    @property
    def ranked(self) -> list[dict[str, Any]]:
        good = [record for record in self.records if record["fitness"] is not None]
        return sorted(good, key=lambda record: -record["fitness"])


def main() -> int:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    summaries = []
    deadline = time.monotonic() + options.total_s
    if not options.judge_only:
        for name in options.tasks or TASKS:
            if time.monotonic() + options.budget_s > deadline:
                print(f"-- no time left for {name}", flush=True)
                continue
            summaries.append(searched(name, options))
    if options.dry:
        return 0
    if summaries:
        print_table(summaries)
    if options.judge or options.judge_only:
        judge_all(options, deadline)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", nargs="*", help="OP/DIRECTION; six tasks if none is named")
    parser.add_argument("--out", type=Path, default=Path("gpu_search"))
    parser.add_argument("--budget-s", type=float, default=60.0, help="of searching, per task, beside the baselines")
    parser.add_argument("--total-s", type=float, default=570.0, help="start no task or judging that would end later")
    parser.add_argument("--batch", type=int, default=16, help="genomes per generation")
    parser.add_argument("--jobs", type=int, default=16, help="compilations at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--judge-only", action="store_true")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("var/gpu_search"), help="where builds of the judge are kept")
    parser.add_argument("--dry", action="store_true", help="compile a few genomes per task and stop")
    return parser.parse_args()


def searched(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One task from its naive kernel to its winner; what fails is told and left behind."""
    task, template = find_task(default_suites(), name), find_template(name, "cuda")
    if template is None:
        raise SystemExit(f"no CUDA template serves {name}")
    with tempfile.TemporaryDirectory() as folder:
        builder = CoreBuilder(template, task, Path(folder), options.jobs)
        if options.dry:
            return dry(task, template, builder)
        hunt = Hunt(task, template, options)
        try:
            hunt_down(hunt, builder)
        except (RuntimeError, OSError) as error:
            print(f"!! {name}: {error}", flush=True)
        return kept(hunt)


def dry(task: TaskSpec, template: Template, builder: CoreBuilder) -> dict[str, Any]:
    genomes = [template.naive, template.default, *template.space.genomes[:: max(1, template.space.size // 6)]]
    started = time.monotonic()
    built = builder.build_all(genomes)
    failed = [one.log for one in built if one.library is None]
    print(f"{task.name}: {template.name}, {template.space.size} genomes, {len(genomes)} compiled, {len(failed)} failed")
    print(f"   {statistics.median(one.seconds for one in built):.2f} s each, {time.monotonic() - started:.1f} s in all")
    for log in failed[:2]:
        print(log)
    return {"task": task.name, "failed": len(failed)}


def hunt_down(hunt: Hunt, builder: CoreBuilder) -> None:
    default, naive = builder.build_all([hunt.template.default, hunt.template.naive])
    gpu = GpuProcess(hunt.task, default.library)
    try:
        hunt.about = gpu.about
        hunt.baselines = gpu.baselines(compiled=not hunt.options.no_compile)
        print(f"== {hunt.task.name}: baselines after {time.monotonic() - hunt.started:.0f} s", flush=True)
        hunt.started = time.monotonic()
        hunt.add(hunt.template.naive, naive, measured(gpu, naive), "naive")
        hunt.add(hunt.template.default, default, measured(gpu, default), "guess")
        generation = 0
        while time.monotonic() - hunt.started < hunt.options.budget_s:
            generation += 1
            if not one_generation(hunt, builder, gpu, generation):
                break
        finish(hunt, builder, gpu)
    finally:
        gpu.close()


def one_generation(hunt: Hunt, builder: CoreBuilder, gpu: GpuProcess, generation: int) -> bool:
    """Asks, compiles and measures a batch; False if the space is exhausted."""
    moves, pending = [], list(hunt.trials)
    for slot in range(hunt.options.batch):
        move = forecasting(hunt.template.space, pending, Rng(hunt.options.seed, "search", generation, slot))
        if move is None:
            break
        moves.append(move)
        pending.append(Trial(move.genome, waiting=True))
    for move, built in zip(moves, builder.build_all([move.genome for move in moves]), strict=True):
        hunt.add(move.genome, built, measured(gpu, built), move.operator)
    keep(hunt)
    best = hunt.ranked[0]["fitness"] if hunt.ranked else 0.0
    print(f"   generation {generation}: {len(hunt.trials)} evaluations, best {best:.3f}", flush=True)
    return bool(moves)


def measured(gpu: GpuProcess, built: BuiltCore, pairs: int = 7) -> Measured:
    return Measured(failure=f"nvcc: {built.log}") if built.library is None else gpu.measure(built.library, pairs)


def finish(hunt: Hunt, builder: CoreBuilder, gpu: GpuProcess) -> None:
    """Times the best again, and longer: the best of many noisy times is partly luck."""
    hunt.about["searched_s"] = round(time.monotonic() - hunt.started, 1)
    for record in hunt.ranked[:FINALISTS]:
        again = measured(gpu, builder.build(record["genome"]), FINAL_PAIRS)
        record["again_us"], record["again"] = again.times_us, hunt.fitness(again)


def winner(hunt: Hunt) -> dict[str, Any] | None:
    finalists = [record for record in hunt.ranked if record.get("again") is not None]
    ranked = hunt.ranked
    return max(finalists, key=lambda record: record["again"]) if finalists else (ranked[0] if ranked else None)


def kept(hunt: Hunt) -> dict[str, Any]:
    best = winner(hunt)
    if best is not None:
        text = hunt.template.render(best["genome"], hunt.task)
        (hunt.options.out / f"{stem(hunt.task.name)}.cu").write_text(text)
    return keep(hunt, best)


def keep(hunt: Hunt, best: dict[str, Any] | None = None) -> dict[str, Any]:
    """Writes what is known so far, whole, in place of what was written before."""
    record = {
        "task": hunt.task.name,
        "template": hunt.template.name,
        "space_size": hunt.template.space.size,
        "machine": machine(hunt.about),
        "configs": hunt.about.get("configs", []),
        "floor_us": floor_us(hunt.about),
        "baselines": hunt.baselines,
        "seed": hunt.options.seed,
        "searched_s": hunt.about.get("searched_s"),
        "winner": best,
        "evaluations": hunt.records,
    }
    path = hunt.options.out / f"search-{stem(hunt.task.name)}.json"
    path.with_suffix(".part").write_text(json.dumps(record))
    path.with_suffix(".part").rename(path)
    return record


def stem(task: str) -> str:
    return task.replace("/", "_")


def floor_us(about: dict[str, Any]) -> list[float]:
    """The least time that the data or the arithmetic takes."""
    pairs = zip(about.get("bytes", ()), about.get("flops", ()), strict=True)
    return [round(1e6 * max(size / COPY_BYTES_PER_S, flops / FLOPS_PER_S), 2) for size, flops in pairs]


def print_table(summaries: Sequence[dict[str, Any]]) -> None:
    print(
        "\n| task | configuration | naive | guess | found | torch.compile | eager | floor | evaluations | per minute |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for item in summaries:
        first = {one["operator"]: one["times_us"] for one in item["evaluations"][:2]}
        best = item["winner"] or {}
        found = best.get("again_us") or best.get("times_us")
        columns = [
            first.get("naive"),
            first.get("guess"),
            found,
            item["baselines"].get("compile_us"),
            item["baselines"].get("eager_us"),
            item["floor_us"],
        ]
        count = len(item["evaluations"])
        rate = f"{60 * count / item['searched_s']:.0f}" if item["searched_s"] else "–"
        for place, config in enumerate(item["configs"]):
            cells = [f"{one[place]:.1f}" if one and one[place] is not None else "–" for one in columns]
            print(f"| {item['task']} | {config} | {' | '.join(cells)} | {count} | {rate} |")
        if best:
            print(f"   winner {best.get('again') or best['fitness']:.3f} {best['genome']}", flush=True)


def judge_all(options: argparse.Namespace, deadline: float) -> None:
    """Judges every winner in the folder under all rules; one JSON line each goes to judged.jsonl there."""
    names = {stem(name): name for name in options.tasks or TASKS}
    works = [(names[path.stem], path) for path in sorted(options.out.glob("*.cu")) if path.stem in names]
    paths, rules = Paths(options.data), default_rules()
    keep_ready()
    with ThreadPoolExecutor(options.jobs) as pool:
        builds = {
            path: pool.submit(
                compile_source,
                Source(path.read_text(), "cuda"),
                find_task(default_suites(), name),
                rules,
                paths,
                device=options.device,
            )
            for name, path in works
        }
        for name, path in works:
            if time.monotonic() > deadline:
                print(f"-- no time left to judge {name}", flush=True)
                continue
            try:
                builds[path].result()
                report = judge(
                    Source(path.read_text(), "cuda"),
                    find_task(default_suites(), name),
                    rules,
                    paths,
                    device=options.device,
                ).to_json()
            except HarnessError as error:
                report = {"verdict": "INTERNAL_ERROR", "reason": str(error)[-2000:], "score": None}
            with (options.out / "judged.jsonl").open("a") as file:
                file.write(json.dumps({"name": f"{name} {path.name}", "task": name, **report}) + "\n")
            speedup = report["score"]["speedup"] if report["score"] else None
            print(f"judged {name}: {report['verdict']} {speedup} {report['reason'][:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Searches on a GPU as a user starts them, with and without screening, and their winners beside the shipped kernels.

`python -m lab.gpu.searches WHAT --out FOLDER` with WHAT one or more of, in this order:

    probe   looks at the shipped kernel of each task by a session that stays, and one quick judging: seconds of each
    search  `python -m agents.evolve TASK` for `--seconds` per task and lever, one after the other
    judge   winners and shipped kernels by turns, in full, `--rounds` times

Baselines and shipped kernels are compiled before any clock starts. FOLDER gets `searches.jsonl` (a line for each run:
curve, rates, seconds by stage, the best candidates with their sources), `judged.jsonl` (a line for each judging, as
`lab.bench.proof` writes them), `probe.jsonl`, and `logs.tar.gz` with the whole log of each run, for
`lab.bench.record_run`. What lies in the folders of `--from` is not done again, and nothing begins that would not end
within `--budget-s`. Not covered: searches without a sandbox (`search.py`).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agents.evolve.logs import JsonlLog
from agents.evolve.memory import PastSetting, RunMemory
from agents.evolve.templates import find_template
from benchmarks.harness import (
    HarnessError,
    Looks,
    Paths,
    Report,
    Source,
    TaskSpec,
    Watcher,
    compile_source,
    default_rules,
    default_suites,
    find_task,
    judge,
    keep_ready,
    prepare_side_by_side,
    prepare_task,
    shipped_kernel,
)
from lab.gpu.search_curves import account, compared, contenders_of, table

# Their templates make the same kind of kernel as what ships, whose settings were found on an H200 or by hand. Left out:
# products and convolutions (what ships uses clusters or wgmma, which no template has), and layernorm/backward and the
# other tasks whose judging fills the GPU, so that nothing can stay between two looks.
TASKS = (
    "mnist_conv_relu_pool/backward",
    "llama_rmsnorm/backward",
    "mnist_pool/backward",
    "llama_rmsnorm/forward",
    "mnist_cross_entropy/backward",
    "mnist_pool/forward",
)
# settings near to what ships, as a search with memory is told of them: they begin where people have got to
NEAR_SHIPPED: Mapping[str, Sequence[str]] = {
    "llama_rmsnorm/backward": (
        "THREADS 256, WIDTH 4, BLOCKS_PER_SM 2, AHEAD 1, WEIGHTS kept, FOLD_ROWS 32, LOADS readonly, STORES plain",
        "THREADS 512, WIDTH 4, BLOCKS_PER_SM 1, AHEAD 1, WEIGHTS kept, FOLD_ROWS 32, LOADS readonly, STORES plain",
    ),
    "llama_rmsnorm/forward": (
        "ROW_THREADS 128, ROWS 1, WIDTH 4, KEEP registers, WEIGHTS late, BLOCKS_PER_SM 0, AHEAD 0, MIN_BLOCKS 8, "
        "LOADS readonly, STORES plain",
        "ROW_THREADS 512, ROWS 1, WIDTH 4, KEEP registers, WEIGHTS early, BLOCKS_PER_SM 0, AHEAD 0, MIN_BLOCKS 2, "
        "LOADS readonly, STORES plain",
    ),
    "mnist_conv_relu_pool/backward": (
        "CHANNELS 8, FEWER 1, X_CHANNELS 2, STAGED 32, UNROLL_X 8, UNROLL_WINDOWS 1, FILL 2, MIN_BLOCKS 12, OVERLAP 1",
    ),
}
RULES = default_rules()
GRACE_S = 45.0  # for a search to end after its time, before it is told to, and as long before it is killed
USUAL_JUDGING_S = 20.0


@dataclass(frozen=True)
class Lever:
    """What a search is started with beside its task."""

    verifiers: str
    options: Mapping[str, Any]
    curriculum: int | None = None
    warm: bool = False
    proposer: str = "template-evo"


# On a GPU times vary little, so whatever is slower than the best in all of its interval is dropped. Of the rest of a
# generation the most promising are judged: a judging takes as long as ten looks.
_SURE = {"screen_margin": 1.0, "finalists": 3}
LEVERS = {
    "all": Lever("static,compile,screen", _SURE, warm=True),
    "screen": Lever("static,compile,screen", _SURE),
    "doubt": Lever("static,compile,screen", {}),  # as it is by default: two configurations, and 5 % in doubt
    "curriculum": Lever("static,compile,screen", _SURE, curriculum=2, warm=True),
    "none": Lever("static,compile", {}),
    "constants": Lever("static,compile,screen", _SURE, proposer="constants"),
}


@dataclass
class GpuSearches:
    """The machine as it is used here, and what is known already."""

    options: argparse.Namespace

    def __post_init__(self) -> None:
        self.began_s = time.monotonic()
        self.paths = Paths(self.options.data)
        self.options.out.mkdir(parents=True, exist_ok=True)
        self.logs = self.options.data.resolve() / "logs"

    def left_s(self) -> float:
        return float(self.options.budget_s) - (time.monotonic() - self.began_s)

    def known(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file, from earlier calls and from this one."""
        files = [folder / name for folder in (*self.options.earlier, self.options.out)]
        return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]

    def keep(self, name: str, record: Mapping[str, Any]) -> None:
        with (self.options.out / name).open("a") as file:
            file.write(json.dumps(record) + "\n")

    @cached_property
    def tasks(self) -> dict[str, TaskSpec]:
        return {name: find_task(default_suites(), name) for name in self.options.tasks}

    def shipped(self, name: str) -> Source:
        language = self.options.language
        return Source(shipped_kernel(self.tasks[name], language) or "", language)


def main() -> int:
    sitting = GpuSearches(read_options())
    try:
        prepare(sitting)
        for what in sitting.options.what:
            {"probe": probe, "search": search, "judge": judge_winners}[what](sitting)
    finally:
        pack(sitting)
    print(f"-- {sitting.left_s():.0f} s left", flush=True)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="+", choices=("probe", "search", "judge"))
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--levers", type=lambda text: text.split(","), default=["all"], help=", ".join(LEVERS))
    parser.add_argument("--seconds", type=float, default=200.0, help="of each search")
    parser.add_argument("--rounds", type=int, default=4, help="judgings of each winner and each shipped kernel")
    parser.add_argument("--contenders", type=int, default=1, help="candidates of each task that are judged again")
    parser.add_argument("--budget-s", type=float, default=560.0)
    parser.add_argument("--generation-size", type=int, default=48)
    parser.add_argument("--audit-fraction", type=float, default=0.02)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilations at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--language", default="cuda", choices=("cuda", "cpp"))
    parser.add_argument("--data", type=Path, default=Path("var/searches"), help="builds, baselines and logs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--from", dest="earlier", type=Path, action="append", default=[], help="earlier --out folders")
    options = parser.parse_args()
    if unknown := set(options.levers) - set(LEVERS):
        parser.error(f"there is no lever {', '.join(sorted(unknown))}")
    return options


def prepare(sitting: GpuSearches) -> None:
    """Compiles shipped kernels and baselines side by side; both are found again by every process later."""
    began_s, on_gpu = time.monotonic(), sitting.options.device != "cpu"

    def baselines(name: str) -> str:
        try:
            if on_gpu:
                prepare_side_by_side(sitting.tasks[name], RULES, sitting.paths, device=sitting.options.device)
            else:
                prepare_task(sitting.tasks[name], RULES, sitting.paths)
        except HarnessError as error:
            return f"{name}: {type(error).__name__}: {error}"[:500]
        return ""

    def build(name: str) -> str:
        found = compile_source(
            sitting.shipped(name), sitting.tasks[name], RULES, sitting.paths, device=sitting.options.device
        )
        return "" if found.binary is not None else f"{name}: {found.problem or found.log[-300:]}"

    with ThreadPoolExecutor(max(2, len(sitting.tasks))) as ahead, ThreadPoolExecutor(4 if on_gpu else 1) as builds:
        for text in (*ahead.map(baselines, sitting.tasks), *builds.map(build, sitting.tasks)):
            if text:
                print(f"!! {text}", flush=True)
    print(f"-- {len(sitting.tasks)} tasks prepared in {time.monotonic() - began_s:.0f} s", flush=True)


def probe(sitting: GpuSearches) -> None:
    """Four looks at each shipped kernel, the first of which starts the session."""
    done = {record["task"] for record in sitting.known("probe.jsonl")}
    for name, task in sitting.tasks.items():
        if name in done or sitting.left_s() < 60:
            continue
        looks, rows, source = Looks(task, RULES, sitting.paths, sitting.options.device), [], sitting.shipped(name)
        try:
            for _ in range(4):
                began_s = time.monotonic()
                rows.append(told(looks.judge(source), time.monotonic() - began_s))
        except HarnessError as error:
            rows.append({"error": f"{type(error).__name__}: {error}"[:1500]})
        finally:
            looks.close()
        sitting.keep("probe.jsonl", {"task": name, "looks": rows, "broken": looks.broken})
        seconds = [row.get("seconds") for row in rows]
        print(f"probe {name}: {seconds} {[row.get('speedup') for row in rows]}", flush=True)
        for text in (*looks.broken, *(row["error"] for row in rows if "error" in row)):
            print(f"!! {name}: {text[-1500:]}", flush=True)


def told(report: Report, seconds: float) -> dict[str, Any]:
    environment = report.environment
    return {
        "seconds": round(seconds, 2),
        "verdict": report.verdict.value,
        "reason": report.reason,
        "speedup": report.score.speedup if report.score else None,
        "ci95": report.score.ci95 if report.score else None,
        "stages": {stage.name: round(stage.seconds, 2) for stage in report.stages},
        "load_s": environment.get("load_s"),
        "bursts_s": environment.get("bursts_s"),
        "visit": environment.get("visit"),
    }


def search(sitting: GpuSearches) -> None:
    """Every lever on every task, as long as there is time; the first lever on all tasks first."""
    done = {(item["task"], item["lever"], item["seed"]) for item in sitting.known("searches.jsonl")}
    for lever in sitting.options.levers:
        for name in sitting.tasks:
            if (name, lever, sitting.options.seed) in done:
                continue
            if sitting.left_s() < sitting.options.seconds + GRACE_S:
                print(f"-- no time left for {name} with {lever}", flush=True)
                continue
            searched(sitting, name, lever)
    print(table(sitting.known("searches.jsonl")), flush=True)


def searched(sitting: GpuSearches, name: str, lever: str) -> None:
    folder = sitting.logs / f"{name.replace('/', '-')}.{lever}.{sitting.options.seed}"
    if (folder / "events.jsonl").exists():  # of a call that was cut off
        folder.rename(folder.with_name(f"{folder.name}.cut-{time.time():.0f}"))
    folder.mkdir(parents=True, exist_ok=True)
    ended = run(arguments_of(sitting, name, lever, folder), folder / "told.log", sitting)
    with JsonlLog(folder) as log:
        events = log.read()
        found = [
            {**asdict(item), "source": log.get_source(item.source_sha256)}
            for item in (contenders_of(events, sitting.options.contenders) if events else ())
        ]
    if not events:
        print(f"!! {name} with {lever}: {(folder / 'told.log').read_text()[-1500:]}", flush=True)
        return
    head = {"task": name, "lever": lever, "seed": sitting.options.seed, "ended": ended}
    record = {**head, **account(events), "contenders": found}
    sitting.keep("searches.jsonl", record)
    rates = f"{record['decided']} decided, {record['decided_per_minute']} a minute"
    print(f"search {name} {lever}: best {record['best']}, {rates}, {record['told']}, {record['seconds']}", flush=True)


def arguments_of(sitting: GpuSearches, name: str, lever: str, folder: Path) -> list[str]:
    options, chosen = sitting.options, LEVERS[lever]
    extra = dict(chosen.options)
    if chosen.warm and (memory := warm_start(name, options.language)):
        extra["memory"] = memory
    size = str(options.generation_size)
    arguments = [sys.executable, "-m", "agents.evolve", name, "--log", str(folder), "--verifiers", chosen.verifiers]
    arguments += [
        "--proposer",
        chosen.proposer,
        "--language",
        options.language,
        "--device",
        options.device,
        "--seed",
        str(options.seed),
    ]
    arguments += ["--wall-s", str(options.seconds), "--generation-size", size, "--concurrency", size]
    arguments += [
        "--audit-fraction",
        str(options.audit_fraction),
        "--options",
        json.dumps(extra),
        "--confirmations",
        "0",
    ]
    return [*arguments, *(["--curriculum", str(chosen.curriculum)] if chosen.curriculum else [])]


def warm_start(name: str, language: str) -> dict[str, Any]:
    """What a run with memory would be told, for the settings of the task's own template that are valid."""
    template = find_template(name, language)
    if template is None or language != "cuda":
        return {}
    genomes = [genome_of(text) for text in NEAR_SHIPPED.get(name, ())]
    return RunMemory(tuple(PastSetting(name, template.name, genome, 1.0) for genome in genomes)).to_json()


def genome_of(text: str) -> dict[str, int | str]:
    pairs = (part.split() for part in text.split(", "))
    return {gene: int(value) if value.isdigit() else value for gene, value in pairs}


def run(arguments: Sequence[str], log: Path, sitting: GpuSearches) -> str:
    """How it ended: by itself, stopped (Ctrl-C), or killed."""
    environment = {**os.environ, "KBENCH_DATA_DIR": str(sitting.options.data)}
    with log.open("w") as file, subprocess.Popen(arguments, env=environment, stdout=file, stderr=file) as process:
        for how, wait_s in (("by itself", sitting.options.seconds + GRACE_S / 2), ("stopped", GRACE_S / 2)):
            try:
                return f"{how}: {process.wait(wait_s)}"
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
        process.kill()
        return "killed"


def judge_winners(sitting: GpuSearches) -> None:
    """Round after round over all tasks: shipped and winner, the other way round in every second round."""
    entries = {name: sources for name in sitting.tasks if len(sources := sources_of(sitting, name)) > 1}
    with ThreadPoolExecutor(sitting.options.jobs) as pool:
        jobs = [(name, source) for name, sources in entries.items() for source in sources.values()]
        for name, source in jobs:
            pool.submit(
                compile_source, source, sitting.tasks[name], RULES, sitting.paths, device=sitting.options.device
            )
    if sitting.options.device != "cpu":
        keep_ready()
    lasts_s: dict[str, float] = {}
    for number, name, kind, source in turns(sitting, entries):
        if sitting.left_s() < 1.3 * lasts_s.get(name, USUAL_JUDGING_S) + 5:
            print(f"-- no time left to judge {name} {kind}", flush=True)
            continue
        began_s = time.monotonic()
        record = judged(sitting, name, source, energy=number == 0)
        lasts_s[name] = time.monotonic() - began_s
        head = {"what": "search", "name": f"{name} {kind}", "kind": kind, "seconds": round(lasts_s[name], 1)}
        sitting.keep("judged.jsonl", {**head, **record})
        speedup = record["score"]["speedup"] if record.get("score") else None
        print(f"judged {name} {kind}: {record['verdict']} {speedup} in {lasts_s[name]:.1f} s", flush=True)
    tell_comparisons(sitting)


def turns(sitting: GpuSearches, entries: Mapping[str, Mapping[str, Source]]) -> Iterator[tuple[int, str, str, Source]]:
    """What is left to judge, with the number of the round, so that all tasks have equally many."""
    before = [(item["task"], item["kind"], item["source_sha256"]) for item in sitting.known("judged.jsonl")]
    for number in range(sitting.options.rounds):
        for name, sources in entries.items():
            kinds = list(sources) if number % 2 == 0 else list(sources)[::-1]
            for kind in kinds:
                if before.count((name, kind, sources[kind].sha256)) <= number:
                    yield number, name, kind, sources[kind]


def sources_of(sitting: GpuSearches, name: str) -> dict[str, Source]:
    """Shipped kernel and best candidates of all levers, by one judging each, so the first may be so by chance."""
    records = [item for item in sitting.known("searches.jsonl") if item["task"] == name]
    found = sorted((item for record in records for item in record["contenders"]), key=lambda item: -item["score"])
    different = list(dict.fromkeys(item["source"] for item in found))[: sitting.options.contenders]
    names = ("winner", *(f"contender {place}" for place in range(2, len(different) + 1)))
    sources = {kind: Source(text, sitting.options.language) for kind, text in zip(names, different, strict=False)}
    return {"shipped": sitting.shipped(name), **sources} if sources else {}


def judged(sitting: GpuSearches, name: str, source: Source, *, energy: bool) -> dict[str, Any]:
    watcher, device = Watcher(others_wait=lambda: not energy), sitting.options.device
    try:
        return judge(source, sitting.tasks[name], RULES, sitting.paths, device=device, watcher=watcher).to_json()
    except HarnessError as error:
        text = f"{type(error).__name__}: {error}"[-2000:]
        return {
            "task": name,
            "verdict": "INTERNAL_ERROR",
            "reason": text,
            "score": None,
            "source_sha256": source.sha256,
        }


def tell_comparisons(sitting: GpuSearches) -> None:
    """One JSON line: what the turns say of each task."""
    found = {}
    for name in sitting.tasks:
        sources = sources_of(sitting, name)
        lines = [item for item in sitting.known("judged.jsonl") if item["task"] == name and item["score"]]
        scores = {
            kind: [item["score"]["speedup"] for item in lines if item["source_sha256"] == source.sha256]
            for kind, source in sources.items()
        }
        if sources:
            ratios = {kind: compared(scores[kind], scores["shipped"]) for kind in scores if kind != "shipped"}
            found[name] = {**scores, "compared": ratios}
            print(f"{name}: {found[name]}", flush=True)
    (sitting.options.out / "compared.json").write_text(json.dumps(found))


def pack(sitting: GpuSearches) -> None:
    """All logs of this machine in one file."""
    if sitting.logs.exists():
        with tarfile.open(sitting.options.out / "logs.tar.gz", "w:gz", compresslevel=6) as tar:
            tar.add(sitting.logs, arcname="logs", filter=lambda item: None if item.name.endswith(".new") else item)


if __name__ == "__main__":
    sys.exit(main())

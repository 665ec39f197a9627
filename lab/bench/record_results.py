"""Writes the bundles of recorded results that come with kbench: `python -m lab.bench.record_results`.

Reads the judged reports in docs/results, mostly as every commit of this repository had them, and looks the judged
sources up by their hash, in the history and among the winners of searches; a report whose source is not found is kept
without it. Of one source only the last accepted report counts. Bundles whose reports are not there yet are left out.
The day of a judging is the day on which its report was committed, since reports carry no date. Does NOT judge.
Not covered: results without a verdict (`cpu-avx2`, `sweeps`).
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import LANGUAGES, default_suites, find_task
from benchmarks.recorded.bundles import (
    SHIPPED,
    BundleEntry,
    BundleFigure,
    BundleHeader,
    BundleMethod,
    BundleReported,
    bundle_lines,
)
from benchmarks.recorded.reports import About, entry_of, machine_of

from .proof_tables import PAPER

RESULTS, RULES = Path("docs/results"), Path("benchmarks/rules")
SEARCHED = ("h200/search-judged.jsonl", "h100/searches-judged.jsonl")
TUNED = "h200/constants-judged.jsonl"
FOUND = ("winner", "contender 2")  # what a search found, by the kinds of `lab.gpu.searches`
SEARCHES = ("h100/searches.jsonl", "h200/constants-searches.jsonl")
H200 = ("h200/repeat.jsonl", "h200/kernels.jsonl", SEARCHED[0])
TEMPLATES = BundleMethod(slug="template-evo", title="Search over a template", kind="agent")
CONSTANTS = BundleMethod(slug="constants", title="Search over a kernel's constants", kind="agent")
METHODS = {**dict.fromkeys(SEARCHED, TEMPLATES), TUNED: CONSTANTS}
CPU_ABOUT = "The shipped C++ kernels as they were before they were rewritten to run without AVX-512."
KIND = "The rule set called every processor `cpu`; this one has AVX-512."


@dataclass(frozen=True)
class BundlePlan:
    """One bundle: the files its reports are in, and which of their lines belong to it."""

    device: str
    title: str
    ruleset: str
    files: tuple[str, ...]
    about: str
    kinds: tuple[str, ...]  # as the reports call the device
    with_paper: bool = False
    suite: str = ""  # of its own, where it is not robust-kbench
    with_earlier: bool = True  # versions that the files held once

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.device, self.suite, self.ruleset)))


WANTED = (
    BundlePlan(
        "nvidia-h200",
        "NVIDIA H200",
        "rk-1",
        H200,
        "The shipped CUDA and Triton kernels with their earlier versions, judged on one H200 while they were written.",
        ("nvidia-h200",),
        with_paper=True,
    ),
    BundlePlan(
        "nvidia-h200",
        "NVIDIA H200",
        "rk-2",
        ("h200/kernels-rk2.jsonl", TUNED),
        "The shipped CUDA and Triton kernels on H200s, and what a search over the constants of one of them found. A "
        "separate process replayed their recorded calls. The result of the search is up to 4 % too high, as empty "
        "calls were measured less well when it was judged. Two of the shipped kernels were found by such searches.",
        ("nvidia-h200",),
        with_paper=True,
        with_earlier=False,  # they were judged when up to 0.3 µs too much was subtracted from each call
    ),
    BundlePlan(
        "nvidia-h100",
        "NVIDIA H100",
        "rk-2",
        ("h100/kernels-rk2.jsonl", SEARCHED[1]),
        "The shipped CUDA and Triton kernels, and what searches over templates found, on one H100. A separate process "
        "replayed their recorded calls. Empty calls were measured less well then: the shortest kernels score up to 4 % "
        "too high.",
        ("nvidia-h100",),
        with_paper=True,
    ),
    BundlePlan(
        "nvidia-h100",
        "NVIDIA H100, low precision",
        "rk-2",
        ("h100/low-precision.jsonl",),
        "The shipped CUDA and Triton kernels in bfloat16 and float8 on one H100, their recorded calls replayed.",
        ("nvidia-h100",),
        suite="low-precision",
    ),
    BundlePlan(
        "cpu-avx512",
        "CPU with AVX-512",
        "rk-1",
        ("cpu-avx512/kernels.jsonl",),
        f"{CPU_ABOUT} {KIND}",
        ("cpu",),
    ),
    BundlePlan(
        "cpu-avx512",
        "CPU with AVX-512",
        "rk-2",
        ("cpu-avx512/kernels-rk2.jsonl",),
        "The shipped C++ kernels on two cores of an Intel Xeon.",
        ("cpu-avx512",),
    ),
)


def main() -> int:
    sources = {**sources_by_hash(), **winners_by_hash()}
    SHIPPED.mkdir(exist_ok=True)
    for wanted in WANTED:
        if not all((RESULTS / file).is_file() for file in wanted.files):
            print(f"{wanted.name}: no reports yet")
            continue
        header, entries = bundle(wanted, sources)
        path = SHIPPED / f"{wanted.name}.jsonl"
        path.write_text("".join(bundle_lines(header, entries)))
        missing = sum(entry.source is None for entry in entries)
        print(f"{path.name}: {len(entries)} entries, {missing} without a source, {path.stat().st_size} bytes")
    return 0


def bundle(wanted: BundlePlan, sources: dict[str, str]) -> tuple[BundleHeader, list[BundleEntry]]:
    latest: dict[tuple[str, str], tuple[datetime, dict[str, Any], BundleMethod | None]] = {}
    for file in wanted.files:
        for moment, report in reports(file, with_earlier=wanted.with_earlier):
            if fits(report, wanted) and (file not in (SEARCHED[1], TUNED) or report.get("kind") in FOUND):
                program = report["task"], report["source_sha256"]
                if program not in latest or latest[program][0] <= moment:
                    latest[program] = (moment, report, METHODS.get(file))
    entries = [entry(moment, report, sources, method) for moment, report, method in latest.values()]
    entries.sort(key=lambda item: (item.task, item.method.slug, item.judged_at))
    rules = RULES / f"{wanted.ruleset}.toml"
    header = BundleHeader(
        name=wanted.name,
        title=f"{wanted.title}, rule set {wanted.ruleset}",
        about=wanted.about,
        device=wanted.device,
        device_title=wanted.title.partition(",")[0],
        device_class="cuda" if wanted.device.startswith("nvidia") else "cpu",
        machine=machine_of(max(latest.values(), key=lambda item: item[0])[1]),
        ruleset=wanted.ruleset,
        ruleset_sha256=hashlib.sha256(rules.read_bytes()).hexdigest() if rules.exists() else None,
        reported=paper() if wanted.with_paper else None,
    )
    return header, entries


def paper() -> BundleReported:
    figures = [
        BundleFigure(task=f"robust-kbench/{task}", vs_eager=eager, vs_compile=compiled)
        for task, (eager, compiled) in PAPER.items()
    ]
    return BundleReported(origin="arXiv 2509.14279, its authors' own figures", machine="NVIDIA H100", figures=figures)


def fits(report: dict[str, Any], wanted: BundlePlan) -> bool:
    """Accepted, of the device and rule set, and against both baselines."""
    accepted = report.get("verdict") == "PASS" and report.get("device_kind") in wanted.kinds
    return accepted and report.get("ruleset") == wanted.ruleset and bool(report["score"]["vs_compile"])


def entry(
    moment: datetime, report: dict[str, Any], sources: dict[str, str], method: BundleMethod | None
) -> BundleEntry:
    language = LANGUAGES[report["language"]].title
    digest = report["source_sha256"]
    about = About(
        id=f"{report['task'].replace('/', '-')}-{report['language']}-{digest[:8]}"[-50:].lstrip("-_"),
        by="kbench",
        method=method
        or BundleMethod(slug=f"reference-{report['language']}", title=f"Reference kernels, {language}", kind="library"),
        title="Best setting of a search" if method else "Reference kernel",
        judged_at=moment,
        source=sources.get(digest),
    )
    find_task(default_suites(), f"{report['suite']}/{report['task']}")  # a task that this repository still has
    return entry_of(report, about)


def reports(file: str, *, with_earlier: bool) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Every report that the file holds or ever held, oldest commit first, with the moment when it first stood there."""
    path = str(RESULTS / file)
    now, seen = set(Path(path).read_text().splitlines()), set[str]()
    for line in reversed(git("log", "--format=%H %aI", "--", path).splitlines()):
        commit, moment = line.split()
        for text in git("show", f"{commit}:{path}").splitlines():
            if text not in seen and (with_earlier or text in now):
                seen.add(text)
                yield datetime.fromisoformat(moment), json.loads(text)


def winners_by_hash() -> dict[str, str]:
    """What searches on GPUs found, by the hash of its text."""
    runs = [json.loads(line) for file in SEARCHES for line in (RESULTS / file).read_text().splitlines()]
    texts = [found["source"] for run in runs for found in run.get("contenders", [run]) if found.get("source")]
    return {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}


def sources_by_hash() -> dict[str, str]:
    """Every kernel that the history holds, by the hash of its text."""
    names = [line.split(" ", 1) for line in git("rev-list", "--all", "--objects").splitlines()]
    kernels = [name[0] for name in names if len(name) == 2 and name[1].endswith((".cpp", ".cu", ".py"))]
    asked = "".join(f"{name}\n" for name in kernels).encode()
    command = ["git", "cat-file", "--batch"]
    answer = subprocess.run(command, input=asked, capture_output=True, check=True).stdout
    found, place = {}, 0
    while place < len(answer):
        head, _, _ = answer[place : place + 200].partition(b"\n")
        start, size_bytes = place + len(head) + 1, int(head.split()[2])
        data = answer[start : start + size_bytes]
        found[hashlib.sha256(data).hexdigest()] = data.decode(errors="replace")
        place = start + size_bytes + 1
    return found


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())

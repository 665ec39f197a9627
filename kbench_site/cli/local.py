"""`kbench judge` and `kbench worker`: judging on this machine, of a file or of what a site has queued.

`judge` needs no server, no database and no account. Does NOT speak to a site over HTTP: `remote.py` does.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from benchmarks.boards.labels import text_of as text_of_label
from benchmarks.harness import (
    VERDICT_TEXTS,
    ConfigReport,
    Paths,
    Report,
    Source,
    TaskError,
    TaskSpec,
    UsageError,
    Verdict,
    default_rules,
    default_suites,
    device_class,
    devices_here,
    find_task,
    judge,
    language_of_file,
    sol_score,
)
from benchmarks.offline import demand_device, source_for, task_at

from ..env import read_environment
from .following import watched
from .output import WRONG_USAGE, exit_code, harness_errors, leave, number, progress, screen
from .sources import text_of
from .tables import print_table

_COLUMNS = ("configuration", "correct", "kernel µs", "eager µs", "compile µs", "speedup", "SOL score", "max error")


@click.command("judge")
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", default=None, help="cpu or cuda:0; by default the device that runs the language")
@click.option("--language", default=None, help="by default from the file name")
@click.option("--rules", "ruleset", default="rk-2", show_default=True, help="rule set")
@click.option("--quick", is_flag=True, help="few steps, no torch.compile: an estimate, not a ranking")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output")
def judge_command(
    task: str, file: Path, device: str | None, language: str | None, ruleset: str, *, quick: bool, as_json: bool
) -> None:
    """Judge FILE on TASK: OP/DIRECTION, for example mnist_linear_relu/forward, or a problem of another suite.

    Such a problem is, as published, a file of KernelBench, a folder of robust-kbench or one of its func_*.py, a
    definition of FlashInfer Trace or SOL-ExecBench in JSON, or a folder of GPU MODE. FILE may be a solution of
    FlashInfer Trace or SOL-ExecBench in JSON.
    """
    with harness_errors():
        report = _judge(task, file, device, language, ruleset, quick=quick)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    else:
        _print_report(report)
    sys.exit(exit_code(report.verdict))


@click.command("worker")
@click.option("--device", default="all", show_default=True, help="cpu, cuda:0, ... or all")
@click.option("--compile", "compilers", type=int, default=None, help="kernels of a GPU kind compiled at a time")
def worker_command(device: str, compilers: int | None) -> None:
    """Compile and judge on this machine's devices for the site whose DATABASE_URL and REDIS_URL are set."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbench_site.settings")
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    try:
        call_command("worker", device=device, compile=compilers)
    except CommandError as error:
        leave(f"kbench: {error}", WRONG_USAGE)


def _judge(task: str, file: Path, device: str | None, language: str | None, ruleset: str, *, quick: bool) -> Report:
    paths = Paths(read_environment()["KBENCH_DATA_DIR"])
    known = language or language_of_file(file.name)
    is_cuda = known is not None and known != "triton" and device_class(known) != "cpu"  # a .py file may be a module
    examines_on = device or ("cuda:0" if is_cuda else "cpu")
    demand_here(examines_on, known or "")
    spec = _task(task, paths, examines_on)
    rules, text = default_rules(ruleset), text_of(file)
    source = Source(text, language) if language else source_for(file.name, text, spec)
    place = device or ("cpu" if device_class(source.language) == "cpu" else "cuda:0")
    demand_here(place, source.language)
    demand_device(spec, place.partition(":")[0])
    with watched() as watcher:
        return judge(source, spec, rules, paths, device=place, quick=quick, watcher=watcher)


def demand_here(device: str, language: str) -> None:
    """Raises UsageError where this machine lacks the device, with what can be done without it."""
    names = [item.name for item in devices_here()]
    if device not in names:
        instead = "; `kbench check` runs a CUDA file without a GPU" if language == "cuda" else ""
        raise UsageError(f"there is no device {device!r} here, only {', '.join(names)}{instead}")


def _task(name: str, paths: Paths, device: str) -> TaskSpec:
    """A task that comes with kbench, or the problem at a path, which is examined on `device`."""
    try:
        return find_task(default_suites(), name)
    except TaskError as error:
        if not os.path.exists(name):
            raise TaskError(f"{error}; there is no file or folder {name} either") from error
    progress.print(f"examining {name}, once", style="dim")
    found = task_at(Path(name), paths, device=device)
    if found.task is None:
        raise TaskError(f"{name} cannot be judged: {found.problem}")
    for text in (*map(text_of_label, found.labels), *found.notes):
        progress.print(f"problem: {text}", style="dim")
    return found.task


def _print_report(report: Report) -> None:
    console = screen()
    console.print(Text.assemble((report.verdict, "bold"), f"  {report.reason}"))
    if report.score is not None:
        low, high = report.score.ci95
        compiled = "not measured" if report.score.vs_compile is None else f"{report.score.vs_compile:.2f}×"
        console.print(
            f"{report.score.speedup:.3f}× over the stronger of eager and torch.compile, 95 % interval {low:.3f} to "
            f"{high:.3f} (eager {report.score.vs_eager:.2f}×, torch.compile {compiled}; timed by: "
            f"{report.score.timing_trust})"
        )
    else:
        console.print(VERDICT_TEXTS[report.verdict].next_step)
    if report.configs:
        _print_configs(console, report.configs)
    for flag in (*report.gates, *report.flags):
        console.print(f"note: {flag.text}" + (f" (line {flag.line})" if flag.line else ""))
    console.print(f"isolation: {report.isolation}; rules: {report.ruleset}", style="dim")
    for stage in report.stages:
        if stage.log_tail and report.verdict is not Verdict.PASS:
            console.print(f"--- output of {stage.name}\n{stage.log_tail}")


def _print_configs(console: Console, configs: Sequence[ConfigReport]) -> None:
    rows = [_figures(item) for item in configs]
    if any(item.failure for item in configs):
        told = [[*row, item.failure or ""] for row, item in zip(rows, configs, strict=True)]
        print_table(console, (*_COLUMNS, "failure"), told, prose="failure")
    else:
        print_table(console, _COLUMNS, rows)


def _figures(item: ConfigReport) -> list[str]:
    return [
        item.key,
        {True: "yes", False: "no", None: "not run"}[item.correct],
        number(item.kernel_us, ".1f"),
        number(item.eager_us, ".1f"),
        number(item.compile_us, ".1f"),
        number(item.speedup, ".2f"),
        number(sol_score(item.kernel_us, item.eager_us, item.compile_us, item.roofline_fraction), ".2f"),
        number(item.max_rel_error, ".1e"),
    ]

"""The `kbench` command. `kbench judge` judges a file on this machine: no server, no database, no account.

Exit codes: 0 accepted, 1 judged and not accepted, 2 wrong usage, 3 the system's own fault. With --json the last line
of standard output is one JSON document; progress goes to standard error. Not covered yet: the commands that speak to
a server.
"""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.harness import (
    VERDICT_TEXTS,
    ConfigResult,
    HarnessError,
    Paths,
    Report,
    Source,
    Step,
    UsageError,
    Verdict,
    default_rules,
    default_suites,
    find_task,
    judge,
)

from .env import read_environment

ACCEPTED, NOT_ACCEPTED, WRONG_USAGE, OUR_FAULT = 0, 1, 2, 3
_LANGUAGES = {".cpp": "cpp", ".cc": "cpp", ".cu": "cuda", ".py": "triton"}
_progress = Console(stderr=True, highlight=False)


@click.group()
def main() -> None:
    """kbench: a benchmark for kernels whose numbers can be trusted."""


@main.command("judge")
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", default="cpu", show_default=True, help="cpu, or a GPU such as cuda:0")
@click.option("--language", default=None, help="by default from the file's name")
@click.option("--rules", "ruleset", default="rk-1", show_default=True, help="rule set")
@click.option("--quick", is_flag=True, help="few steps, no torch.compile: a look, not a ranking")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output")
def judge_command(
    task: str, file: Path, device: str, language: str | None, ruleset: str, *, quick: bool, as_json: bool
) -> None:
    """Judge FILE on TASK (OP/DIRECTION, for example mnist_linear_relu/forward)."""
    try:
        report = _judge(task, file, device, language, ruleset, quick=quick)
    except UsageError as error:
        _leave(f"kbench: {error}", WRONG_USAGE)
    except HarnessError as error:
        _leave(f"kbench: our own fault: {error}", OUR_FAULT)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    else:
        _print_report(report)
    sys.exit(exit_code(report.verdict))


def exit_code(verdict: Verdict) -> int:
    if verdict.ours:
        return OUR_FAULT
    return ACCEPTED if verdict is Verdict.PASS else NOT_ACCEPTED


def _judge(task: str, file: Path, device: str, language: str | None, ruleset: str, *, quick: bool) -> Report:
    source = Source(_text(file), language or _LANGUAGES.get(file.suffix, "cpp"))
    paths = Paths(read_environment()["KBENCH_DATA_DIR"])
    rules = default_rules(ruleset)
    return judge(source, find_task(default_suites(), task), rules, paths, device=device, quick=quick, on_step=_tell)


def _text(file: Path) -> str:
    """Bytes that are no UTF-8 become marks, which the static check names."""
    return file.read_bytes().decode(errors="replace")


def _tell(step: Step) -> None:
    if step.state == "finished":
        return
    count = f" {step.done} of {step.total}" if step.total else ""
    _progress.print(f"{step.stage}{count} {step.text}".rstrip(), style="dim")


def _leave(text: str, code: int) -> None:
    click.echo(text, err=True)
    sys.exit(code)


def _print_report(report: Report) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{report.verdict}[/bold]  {report.reason}")
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
        console.print(_table(report.configs))
    for flag in (*report.gates, *report.flags):
        console.print(f"note: {flag.text}" + (f" (line {flag.line})" if flag.line else ""))
    console.print(f"isolation: {report.isolation}; rules: {report.ruleset}", style="dim")
    for stage in report.stages:
        if stage.log_tail and report.verdict is not Verdict.PASS:
            console.print(f"--- output of {stage.name}\n{stage.log_tail}", markup=False)


def _table(configs: tuple[ConfigResult, ...]) -> Table:
    table = Table("configuration", "correct", "kernel µs", "eager µs", "compile µs", "speedup", "max error")
    for item in configs:
        correct = {True: "yes", False: f"no: {item.failure}", None: "not run"}[item.correct]
        table.add_row(
            item.key,
            correct,
            _number(item.kernel_us, ".1f"),
            _number(item.eager_us, ".1f"),
            _number(item.compile_us, ".1f"),
            _number(item.speedup, ".2f"),
            _number(item.max_rel_error, ".1e"),
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)

"""`kbench check`: a CUDA file run without a GPU, here or by a site. Does NOT judge: nothing is timed or ranked."""

import json
import sys
import time
from pathlib import Path

import click

from benchmarks.emulator import EmulatorReport, EmulatorVerdict, check
from benchmarks.harness import Paths, Source, default_rules, default_suites, find_task

from ..env import read_environment
from .following import LOOK_EVERY_S
from .options import asks_the_site, with_token
from .output import ACCEPTED, NOT_ACCEPTED, NOT_DECIDED, OUR_FAULT, WRONG_USAGE, harness_errors, leave, progress, screen
from .sources import language_of, text_of

_CODES = {
    EmulatorVerdict.CORRECT_HERE: ACCEPTED,
    EmulatorVerdict.WRONG: NOT_ACCEPTED,
    EmulatorVerdict.ABSTAINED: NOT_DECIDED,
}
_MOST_FINDINGS = 8


@click.command("check")
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="seconds to run it at most; a site has its own limit",
)
@click.option("--site", "by_site", is_flag=True, help="let the site that KBENCH_URL names run it, with KBENCH_TOKEN")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output")
@asks_the_site
def check_command(task: str, file: Path, *, budget_s: float, by_site: bool, as_json: bool) -> None:
    """Run the CUDA kernel in FILE for TASK without a GPU: CORRECT_HERE, WRONG or ABSTAINED.

    Exit codes: 0 correct here, 1 wrong, 4 abstained.
    """
    report = _checked_by_site(task, file) if by_site else _checked_here(task, file, budget_s)
    if as_json:
        click.echo(json.dumps(report.to_json()))
    else:
        _print_report(report)
    sys.exit(_CODES[report.verdict])


def _checked_here(task: str, file: Path, budget_s: float) -> EmulatorReport:
    _demand_cuda(task, file)
    progress.print("the first check on a machine builds the emulator, which takes about a minute", style="dim")
    with harness_errors():
        spec = find_task(default_suites(), task)
        source, paths = Source(text_of(file), language_of(file)), Paths(read_environment()["KBENCH_DATA_DIR"])
        return check(source, spec, default_rules(), paths, budget_s=budget_s)


def _demand_cuda(task: str, file: Path) -> None:
    if language_of(file) != "cuda":
        instead = f"judge this file with: kbench judge {task} {file}"
        leave(f"kbench: only CUDA files (.cu) are checked without a GPU; {instead}", WRONG_USAGE)


def _checked_by_site(task: str, file: Path) -> EmulatorReport:
    """Follows the check until it ends. Leaves where the site itself has failed."""
    _demand_cuda(task, file)
    client, told = with_token(), ""
    found = client.start_check(task, text_of(file))
    progress.print(f"started: {client.url}{found['url']}", style="dim")
    while not found["finished"]:
        if found["state"] != told:
            told = found["state"]
            progress.print(told, style="dim")
        time.sleep(LOOK_EVERY_S)
        found = client.check(found["id"])
    if found["report"] is None:
        leave(f"kbench: the site failed: {found['problem']}", OUR_FAULT)
    return EmulatorReport.from_json(found["report"])


def _print_report(report: EmulatorReport) -> None:
    console = screen()
    line = f" (line {report.line})" if report.line and not report.findings else ""
    console.print(f"{report.verdict}  {report.reason}{line}")
    for finding in report.findings[:_MOST_FINDINGS]:
        console.print(f"\n{finding.kind}: {finding.sentence}")
        for fact in finding.trace:
            console.print(f"    {fact}")
    if len(report.findings) > _MOST_FINDINGS:
        console.print(f"\nand {len(report.findings) - _MOST_FINDINGS} more findings")
    for note in report.notes:
        console.print(f"note: {note}")
    took = f"{report.runs} runs, compiled in {report.compile_s:.1f} s, {report.seconds:.1f} s in all"
    console.print(f"{took}; not judged, never ranked", style="dim")

"""`kbench eval`: many solutions of a suite judged on this machine, with the figures over all of them.

Does NOT judge by itself: `benchmarks.offline` does, with the judge of `kbench judge`.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from benchmarks.boards.labels import REMARKS
from benchmarks.harness import Device, Step, TaskError, UsageError, Watcher, default_rules, devices_here
from benchmarks.importers import problems_in
from benchmarks.offline import (
    WHY_TEXTS,
    EvalSettings,
    Loss,
    Outcome,
    Pairing,
    Solution,
    Summary,
    Why,
    evaluate,
    loss,
    paired,
    paths_outside,
    summary,
)

from ..env import read_environment
from .output import ACCEPTED, INTERRUPTED, OUR_FAULT, harness_errors, leave, number, progress, screen, tell
from .tables import print_table

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_COLUMNS = ("problem", "solution", "verdict", "speedup", "95 % interval", "over eager", "remark")


@click.command("eval")
@click.argument("suite_dir", type=_FOLDER)
@click.argument("solutions_dir", type=_FOLDER)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda:0")
@click.option("--rules", "ruleset", default="rk-2", show_default=True, help="rule set")
@click.option(
    "--timeout", "timeout_s", type=float, default=300.0, show_default=True, help="seconds to examine one problem"
)
@click.option("--quick", is_flag=True, help="few steps and no torch.compile: an estimate")
@click.option("--naive", is_flag=True, help="also run a usual benchmark script on each file and compare")
@click.option("--again", is_flag=True, help="judge everything again")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output")
def eval_command(
    suite_dir: Path,
    solutions_dir: Path,
    device: str,
    ruleset: str,
    timeout_s: float,
    *,
    quick: bool,
    naive: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Judge every file in SOLUTIONS_DIR that is named after a problem in SUITE_DIR, a suite as its authors publish it.

    What is judged is kept: the same command continues where it stopped, and judges only what has changed.
    """
    with harness_errors():
        paths = paths_outside(read_environment()["KBENCH_DATA_DIR"], suite_dir, solutions_dir)
        place, rules = _device(device), default_rules(ruleset)
        how = EvalSettings(place, rules, paths, quick=quick, naive=naive, again=again, timeout_s=timeout_s)
        pairs = paired(solutions_dir, problems_in(suite_dir))
        if not pairs.solutions:
            raise TaskError(f"no file in {solutions_dir} is named after a problem in {suite_dir}")
        outcomes = _judged(pairs.solutions, solutions_dir, how)
    tell(
        _document(outcomes, pairs, how),
        [_row(item) + (_naive_cells(item) if how.naive else []) for item in outcomes],
        (*_COLUMNS, "usual script", "evaporates") if how.naive else _COLUMNS,
        as_json=as_json,
        prose="remark",
        heads=2,
    )
    if not as_json:
        _print_figures(outcomes, pairs, how)
    sys.exit(OUR_FAULT if any(item.is_our_fault for item in outcomes) else ACCEPTED)


def _device(name: str) -> Device:
    found = devices_here()
    for item in found:
        if item.name == name:
            return item
    raise UsageError(f"there is no device {name!r} here; there are: {', '.join(item.name for item in found)}")


def _judged(solutions: tuple[Solution, ...], folder: Path, how: EvalSettings) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        with _progress_bar(len(solutions)) as (bar, watch):
            for outcome in evaluate(solutions, folder, how, watch):
                outcomes.append(outcome)
                times = "" if outcome.speedup is None else f" {outcome.speedup:.2f}×"
                progress.print(f"{outcome.file}: {outcome.verdict}{times}", style="dim")
                bar()
    except KeyboardInterrupt:
        leave(f"kbench: Interrupted after {len(outcomes)}. The same command continues here.", INTERRUPTED)
    return outcomes


@contextmanager
def _progress_bar(total: int) -> Iterator[tuple[Any, Any]]:
    """A line on standard error: what is judged now, and how many are done. Gives how to advance it and how to watch."""
    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=progress, transient=True) as line:
        task = line.add_task("", total=total)

        def watch(solution: Solution) -> Watcher:
            def on_step(step: Step) -> None:
                if step.state != "finished":
                    count = f" {step.done} of {step.total}" if step.total else ""
                    line.update(task, description=f"{solution.file}: {step.stage}{count}")

            return Watcher(on_step)

        yield (lambda: line.advance(task)), watch


def _row(item: Outcome) -> list[str]:
    interval = "–" if item.ci95 is None else f"{item.ci95[0]:.2f} to {item.ci95[1]:.2f}"
    remark = ", ".join(label for label in item.labels if label not in REMARKS) if item.is_correct else item.reason
    figures = (number(item.speedup, ".2f"), interval, number(item.vs_eager, ".2f"))
    return [item.problem, item.file, item.verdict, *figures, remark]


def _naive_cells(item: Outcome) -> list[str]:
    said = f"{item.naive_speedup:.2f}" if item.naive_speedup is not None else item.naive or "–"
    if item.evaporation is None or item.evaporation.why is None:
        return [said, "–"]
    left = item.evaporation.verified
    amount = "all" if left is None else f"{item.evaporation.claimed / left:.2f}×"
    return [said, f"{amount}: {item.evaporation.why}"]


def _document(outcomes: Sequence[Outcome], pairs: Pairing, how: EvalSettings) -> dict[str, Any]:
    return {
        "device": how.device.kind,
        "ruleset": how.rules.name,
        "quick": how.quick,
        "solutions": [item.to_json() for item in outcomes],
        "unmatched_files": list(pairs.unmatched),
        "summary": summary(outcomes).to_json(),
        "usual_script": loss(outcomes).to_json() if how.naive else None,
    }


def _print_figures(outcomes: Sequence[Outcome], pairs: Pairing, how: EvalSettings) -> None:
    console, figures = screen(), summary(outcomes)
    if pairs.unmatched:
        shown = ", ".join(pairs.unmatched[:5]) + (", …" if len(pairs.unmatched) > 5 else "")
        console.print(f"{len(pairs.unmatched)} files are named after no problem: {shown}")
    faults = sum(item.is_our_fault for item in outcomes)
    left_out = figures.solutions - figures.decided - faults
    console.print(
        f"{figures.decided} of {figures.solutions} solutions judged, of {figures.problems} problems; {left_out} cannot "
        f"be judged here, {faults} ended with an error of the judge. Rates are over the judged problems:"
    )
    _print_rates(console, figures, quick=how.quick)
    if how.naive:
        _print_loss(loss(outcomes), console)


def _print_rates(console: Console, figures: Summary, *, quick: bool) -> None:
    rows = [("compiled", number(figures.compiled, ".0%"), ""), ("correct", number(figures.correct, ".0%"), "")]
    for p, rate in figures.fast.items():
        rows.append((f"fast_{p:g}", number(rate, ".0%"), number(figures.fast_vs_eager[p], ".0%")))
    means = (number(figures.mean_speedup, ".2f"), number(figures.mean_vs_eager, ".2f"))
    rows.append(("geometric mean of the correct", *means))
    stronger = "over eager (quick)" if quick else "over the stronger of eager and torch.compile"
    print_table(console, ("", stronger, "over eager"), rows)


def _print_loss(lost: Loss, console: Console) -> None:
    claimed, verified = number(lost.mean_claimed, ".2f"), number(lost.mean_verified, ".2f")
    console.print(
        f"The usual script finds {lost.claims} of {lost.asked} files correct, {claimed}× as fast as eager (geometric "
        f"mean). Those of them that are correct are {verified}× as fast as the stronger baseline. The script reports "
        f"{lost.claimed_wins} as faster than eager; {lost.lost_wins} of these are wrong, on a problem that a "
        "filter flags, or not faster than the stronger baseline."
    )
    if lost.reasons:
        counted = sorted(lost.reasons.items(), key=lambda item: -item[1])
        rows = [(reason, str(count), WHY_TEXTS[Why(reason)]) for reason, count in counted]
        print_table(console, ("evaporates by", "files", "meaning"), rows, prose="meaning")

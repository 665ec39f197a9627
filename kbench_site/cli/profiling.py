"""`kbench profile`: what limits a kernel, on a device of this machine. Does NOT judge or rank it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.harness import (
    METRICS,
    NotProfiled,
    Paths,
    Profile,
    Source,
    TaskSpec,
    default_rules,
    default_suites,
    device_class,
    find_task,
    judge,
    profile,
)
from benchmarks.offline import demand_device, language_for

from ..env import read_environment
from .following import watched
from .local import demand_here
from .options import as_json_option
from .output import NOT_ACCEPTED, harness_errors, leave, number, progress, screen
from .sources import text_of
from .tables import print_table


@click.command("profile")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--task", required=True, help="OP/DIRECTION, for example mnist_linear_relu/forward")
@click.option("--device", default=None, help="cpu or cuda:0; by default the device that runs the language")
@click.option("--configuration", type=click.IntRange(min=0), default=None, help="its number; by default up to four")
@as_json_option
def profile_command(file: Path, task: str, device: str | None, configuration: int | None, *, as_json: bool) -> None:
    """Profile the kernel in FILE: metrics, roofline, one named bottleneck, stalled lines, assembly.

    On a GPU this needs Nsight Compute. On a processor the kernel is judged quickly for its times.
    Exit codes: 0 profiled, 1 not profiled because of the kernel.
    """
    with harness_errors():
        try:
            found = _profiled(file, task, device, configuration)
        except NotProfiled as error:
            leave(f"kbench: {file.name} cannot be profiled: {error}", NOT_ACCEPTED)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        _print(found)


def _profiled(file: Path, task: str, device: str | None, configuration: int | None) -> Profile:
    paths = Paths(read_environment()["KBENCH_DATA_DIR"])
    spec, text = find_task(default_suites(), task), text_of(file)
    source = Source(text, language_for(file.name, text, spec))
    place = device or ("cpu" if device_class(source.language) == "cpu" else "cuda:0")
    demand_here(place, source.language)
    demand_device(spec, place.partition(":")[0])
    times_us = _times_us(source, spec, paths) if place == "cpu" else {}
    given: dict[str, Any] = {"device": place, "configuration": configuration, "times_us": times_us}
    with watched() as watcher:
        return profile(source, spec, default_rules(), paths, **given, watcher=watcher)


def _times_us(source: Source, spec: TaskSpec, paths: Paths) -> dict[str, float]:
    """By a quick judging; empty for a kernel that is not accepted."""
    with watched() as watcher:
        report = judge(source, spec, default_rules(), paths, quick=True, watcher=watcher)
    if report.score is None:
        progress.print(f"{report.verdict}: {report.reason}; it is profiled without times", style="dim")
        return {}
    return {item.key: item.kernel_us for item in report.configs if item.kernel_us is not None}


def _print(found: Profile) -> None:
    console = screen()
    for config in found.configs:
        time = "time unknown" if config.time_us is None else f"{config.time_us:.1f} µs"
        console.print(f"\n{config.key} ({time})")
        if config.bottleneck is not None:
            console.print(config.bottleneck.sentence)
        if config.kernels:
            _print_kernels(console, config.kernels)
    for line in found.hot_lines:
        console.print(f"{100 * line.share:.0f} % of samples: line {line.line or '?'}: {line.text}")
    if found.instructions:
        console.print("\ninstructions: " + ", ".join(f"{name} {count}" for name, count in found.instructions.items()))
    for listing in found.listings:
        if listing.kind == "vectorisation":
            console.print(f"\n{listing.text}")
    for text in found.missing:
        console.print(f"note: {text}", style="dim")
    console.print("--json prints PTX, SASS or assembly, too; a profile is never ranked", style="dim")


def _print_kernels(console: Console, kernels: Sequence[Any]) -> None:
    rows = []
    for metric in METRICS:
        values = [kernel.metrics.get(metric.key) for kernel in kernels]
        if any(value is not None for value in values):
            unit = f" ({metric.unit})" if metric.unit else ""
            rows.append([f"{metric.title}{unit}", *(number(value, ".4g") for value in values)])
    print_table(console, ("metric", *(kernel.name[:40] for kernel in kernels)), rows)

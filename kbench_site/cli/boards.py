"""`kbench tasks`, `leaderboard`, `methods` and `compare`: the results of a site.

Does NOT rank or compute: the site does.
"""

from typing import Any

import click

from .client import Client
from .options import as_json_option, asks_the_site, device_option, page_option, suite_option
from .output import DEFAULT_SUITE, number, tell


@click.command("tasks")
@device_option
@as_json_option
@asks_the_site
def tasks_command(device: str, *, as_json: bool) -> None:
    """List the tasks with their best verified entry."""
    found = Client().get("tasks", device=device)
    rows = [(_task(item), str(item["entries"]), number(item["best"], ".2f"), item["formula"]) for item in found]
    columns = ("task", "entries", "best speedup", "computes")
    tell(found, rows, columns, as_json=as_json, prose="computes", none="This site has no tasks.")


@click.command("leaderboard")
@click.argument("task")
@device_option
@page_option
@as_json_option
@asks_the_site
def leaderboard_command(task: str, device: str, page: int, *, as_json: bool) -> None:
    """Show the leaderboard of TASK (OP/DIRECTION)."""
    board = Client().get("leaderboards", task=task, device=device, page=page)
    columns = ("rank", "by", "speedup", "95 % interval", "vs eager", "vs compile", "timed", "language")
    title = f"{board['task']} on {board['device']}, rules {board['ruleset']}, page {board['page']} of {board['pages']}"
    rows = [_entry(entry) for entry in board["entries"]]
    tell(board, rows, columns, as_json=as_json, title=title, none="No entries yet.", heads=2)


@click.command("methods")
@suite_option
@device_option
@as_json_option
@asks_the_site
def methods_command(suite: str, device: str, *, as_json: bool) -> None:
    """List the methods that submissions are made with."""
    found = Client().get("methods", suite=suite, device=device)
    rows = [(item["slug"], item["title"], item["kind"], number(item["attempted"], "d"), _fast(item)) for item in found]
    tell(found, rows, ("method", "title", "kind", "tasks attempted", "tasks faster than 1×"), as_json=as_json)


@click.command("compare")
@click.argument("methods", nargs=-1, required=True)
@suite_option
@device_option
@as_json_option
@asks_the_site
def compare_command(methods: tuple[str, ...], suite: str, device: str, *, as_json: bool) -> None:
    """Compare up to six METHODS on the same tasks."""
    found = Client().get("compare", methods=",".join(methods), suite=suite, device=device)
    title = f"{found['suite']} on {found['device']}: {found['tasks']} tasks, {len(found['common'])} in the common set"
    columns = ("method", "tasks faster than 1×", "geometric mean on the common set", "95 % interval")
    tell(found, [_compared(item) for item in found["methods"]], columns, as_json=as_json, title=title)


def _task(item: dict[str, Any]) -> str:
    """As the commands accept it: with the suite, unless that is the one that they assume."""
    return str(item["path"]).removeprefix(f"{DEFAULT_SUITE}/")


def _entry(entry: dict[str, Any]) -> tuple[str, ...]:
    score = entry["score"]
    low, high = score["ci95"]
    return (
        f"{entry['rank']}" + (f" (tied, {entry['ties']})" if entry["ties"] > 1 else ""),
        entry["by"],
        f"{score['speedup']:.2f}×",
        f"{low:.2f} to {high:.2f}",
        number(score["vs_eager"], ".2f"),
        number(score["vs_compile"], ".2f"),
        score["timing_trust"],
        entry["language"],
    )


def _fast(method: dict[str, Any]) -> str:
    """Of all tasks of the suite, those with a speedup above 1×."""
    found = next((share for share in method["fast"] if share["p"] == 1), None)
    return f"{found['count']} of {found['total']}" if found else "–"


def _compared(method: dict[str, Any]) -> tuple[str, ...]:
    mean = method["mean"]
    if mean is None:
        return method["slug"], _fast(method), "–", "–"
    low, high = mean["ci95"]
    return method["slug"], _fast(method), f"{mean['speedup']:.2f}×", f"{low:.2f} to {high:.2f}"

"""`kbench submit`, `watch`, `tasks` and `leaderboard`: the site through its API, on the terminal.

Does NOT judge anything here; `kbench judge` does that without a site.
"""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click
from rich.console import Console
from rich.table import Column, Table

from benchmarks.harness import Verdict

from .client import ApiError, Client
from .output import NOT_ACCEPTED, OUR_FAULT, WRONG_USAGE, exit_code, leave, number, progress
from .sources import LANGUAGES, language_of, text_of

P = ParamSpec("P")
LOOK_EVERY_S = 1.0
as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output"
)
device_option = click.option("--device", default="", help="device kind, such as cpu or nvidia-h200")


def asks_the_site(command: Callable[P, None]) -> Callable[P, None]:
    """What the site refuses ends the command with its sentence and its exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ApiError as error:
            leave(f"kbench: {error}", error.exit_code)

    return wrapped


@click.command("submit")
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--language", type=click.Choice(LANGUAGES), help="by default from the file's name")
@device_option
@click.option("--title", default="")
@click.option("--visibility", type=click.Choice(["public", "unlisted", "private"]), default="public", show_default=True)
@click.option("--again", is_flag=True, help="judge it although exactly this source was submitted before")
@click.option("--wait", is_flag=True, help="until there is a verdict")
@as_json_option
@asks_the_site
def submit_command(
    task: str, file: Path, *, again: bool, wait: bool, as_json: bool, language: str | None, **fields: str
) -> None:
    """Submit FILE for TASK (OP/DIRECTION) to the site that KBENCH_URL names, with the token KBENCH_TOKEN."""
    client = Client()
    if not client.token:
        leave("kbench: set KBENCH_TOKEN to an API token of your account", WRONG_USAGE)
    source = {"task": task, "language": language or language_of(file), "source": text_of(file)}
    submission = client.submit({**source, **fields, "judge_again": again})
    evaluation = submission["evaluations"][0]
    progress.print(f"submitted: {client.url}{evaluation['url']}", style="dim")
    if wait:
        _finish(_followed(client, evaluation["id"]), as_json=as_json)
    click.echo(json.dumps(submission) if as_json else evaluation["id"])


@click.command("watch")
@click.argument("evaluation")
@as_json_option
@asks_the_site
def watch_command(evaluation: str, *, as_json: bool) -> None:
    """Follow EVALUATION (the id that `kbench submit` prints) until its verdict."""
    _finish(_followed(Client(), evaluation), as_json=as_json)


@click.command("tasks")
@device_option
@as_json_option
@asks_the_site
def tasks_command(device: str, *, as_json: bool) -> None:
    """List the tasks with their best verified entry."""
    found = Client().tasks(device)
    if as_json:
        click.echo(json.dumps(found))
        return
    table = Table(Column("task", no_wrap=True), "computes", "entries", "best speedup")
    for item in found:
        table.add_row(item["name"], item["formula"], str(item["entries"]), number(item["best"], ".2f"))
    Console(highlight=False).print(table)


@click.command("leaderboard")
@click.argument("task")
@device_option
@as_json_option
@asks_the_site
def leaderboard_command(task: str, device: str, *, as_json: bool) -> None:
    """Show the leaderboard of TASK (OP/DIRECTION)."""
    board = Client().leaderboard(task, device)
    if as_json:
        click.echo(json.dumps(board))
        return
    table = Table("rank", "by", "speedup", "95 % interval", "vs eager", "vs torch.compile", "timed", "language")
    for entry in board["entries"]:
        table.add_row(*_cells(entry))
    console = Console(highlight=False)
    console.print(
        f"{board['task']} on {board['device']}, rules {board['ruleset']}, page {board['page']} of {board['pages']}"
    )
    console.print(table)


def _cells(entry: dict[str, Any]) -> list[str]:
    score = entry["score"]
    low, high = score["ci95"]
    return [
        f"{entry['rank']}" + (f" (tied, {entry['ties']})" if entry["ties"] > 1 else ""),
        entry["by"],
        f"{score['speedup']:.2f}×",
        f"{low:.2f} to {high:.2f}",
        number(score["vs_eager"], ".2f"),
        number(score["vs_compile"], ".2f"),
        score["timing_trust"],
        entry["language"],
    ]


def _followed(client: Client, code: str) -> dict[str, Any]:
    """The evaluation once it has ended; what happens until then goes to standard error."""
    told = ""
    while True:
        found: dict[str, Any] = client.evaluation(code, LOOK_EVERY_S)
        if found["finished"]:
            return found
        if (now := _now(found)) != told:
            progress.print(now, style="dim")
            told = now


def _now(found: dict[str, Any]) -> str:
    if found["waiting"]:
        return f"queued: {found['waiting']}"
    count = f" {found['stage_done'] or 0} of {found['stage_total']}" if found["stage_total"] else ""
    return f"{found['stage'] or found['state']}{count} {found['stage_text'] or ''}".rstrip()


def _finish(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print(found)
    if found["verdict"]:
        sys.exit(exit_code(Verdict(found["verdict"])))
    sys.exit(NOT_ACCEPTED if found["state"] == "cancelled" else OUR_FAULT)


def _print(found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{found['verdict'] or found['state']}[/bold]  {found['reason']}")
    score = found["score"]
    if score:
        low, high = score["ci95"]
        console.print(
            f"{score['speedup']:.3f}× over the stronger baseline, 95 % interval {low:.3f} to {high:.3f} "
            f"(eager {number(score['vs_eager'], '.2f')}×, torch.compile {number(score['vs_compile'], '.2f')}×; "
            f"timed by: {score['timing_trust']})"
        )

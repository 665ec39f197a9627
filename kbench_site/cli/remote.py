"""`kbench submit`, `watch`, `cancel` and `download`: evaluations of a site, on the terminal.

Does NOT judge anything here; `kbench judge` does that without a site.
"""

import json
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks.harness import Verdict

from .client import Client
from .following import followed
from .options import as_json_option, asks_the_site, device_option, timeout_option, with_token
from .output import NOT_ACCEPTED, OUR_FAULT, WRONG_USAGE, exit_code, leave, number, progress, screen
from .sources import LANGUAGES, language_of, text_of


@click.command("submit")
@click.argument("task")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--language", type=click.Choice(list(LANGUAGES)), help="by default from the file name")
@device_option
@click.option("--title", default="")
@click.option("--visibility", type=click.Choice(["public", "unlisted", "private"]), default="public", show_default=True)
@click.option("--team", default="", help="submit for this team of yours")
@click.option("--again", is_flag=True, help="judge the source even if it was submitted before")
@click.option("--quick", is_flag=True, help="check correctness only: takes seconds, no score, no rank")
@click.option("--wait", is_flag=True, help="wait for the verdict")
@timeout_option
@as_json_option
@asks_the_site
def submit_command(
    task: str,
    file: Path,
    *,
    again: bool,
    quick: bool,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
    language: str | None,
    **fields: str,
) -> None:
    """Submit FILE for TASK (OP/DIRECTION) to the site that KBENCH_URL names, with the token KBENCH_TOKEN."""
    client = with_token()
    text = text_of(file)
    source = {"task": task, "language": language or language_of(file, text), "source": text}
    submission = client.submit({**source, **fields, "judge_again": again, "quick": quick})
    evaluation = submission["evaluations"][0]
    progress.print(f"submitted: {client.url}{evaluation['url']}", style="dim")
    if wait:
        _finish(followed(client, evaluation["id"], timeout_s), as_json=as_json)
    click.echo(json.dumps(submission) if as_json else evaluation["id"])


@click.command("watch")
@click.argument("evaluation")
@timeout_option
@as_json_option
@asks_the_site
def watch_command(evaluation: str, *, timeout_s: float | None, as_json: bool) -> None:
    """Follow EVALUATION (the id that `kbench submit` prints) until its verdict."""
    _finish(followed(Client(), evaluation, timeout_s), as_json=as_json)


@click.command("cancel")
@click.argument("evaluation")
@as_json_option
@asks_the_site
def cancel_command(evaluation: str, *, as_json: bool) -> None:
    """End EVALUATION without a verdict."""
    found = with_token().cancel(evaluation)
    click.echo(json.dumps(found) if as_json else found["reason"])


@click.command("download")
@click.argument("evaluation")
@click.argument("what", type=click.Choice(["source", "report"]))
@click.option("-o", "--output", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="file to write")
@asks_the_site
def download_command(evaluation: str, what: str, output: Path | None) -> None:
    """Get the source or the report (JSON) of EVALUATION, to standard output or into a file."""
    client = Client()
    report = client.evaluation(evaluation)["report"]
    if what == "report" and report is None:
        leave("kbench: There is no report yet.", WRONG_USAGE)
    content = client.source(evaluation) if what == "source" else f"{json.dumps(report)}\n".encode()
    if output is None:
        click.echo(content, nl=False)
    else:
        output.write_bytes(content)
        progress.print(f"written: {output}", style="dim")


def _finish(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print(found)
    if found["verdict"]:
        sys.exit(exit_code(Verdict(found["verdict"])))
    sys.exit(NOT_ACCEPTED if found["state"] == "cancelled" else OUR_FAULT)


def _print(found: dict[str, Any]) -> None:
    console = screen()
    console.print(f"{found['verdict'] or found['state']}  {found['reason']}")
    score = found["score"]
    if score:
        low, high = score["ci95"]
        console.print(
            f"{score['speedup']:.3f}× over the stronger baseline, 95 % interval {low:.3f} to {high:.3f} "
            f"(eager {number(score['vs_eager'], '.2f')}×, torch.compile {number(score['vs_compile'], '.2f')}×; "
            f"timed by: {score['timing_trust']})"
        )

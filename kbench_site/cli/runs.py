"""`kbench run`: starts an agent run on the site and follows its log.

Does NOT search on this machine: `python -m agents.evolve` does.
"""

import json
import sys
from typing import Any

import click

from .client import Client
from .output import ACCEPTED, NOT_ACCEPTED, OUR_FAULT, WRONG_USAGE, leave, progress
from .remote import as_json_option, asks_the_site, device_option

WAIT_S = 20.0
DULL = ("budget.reserved", "budget.settled", "archive.inserted", "archive.evicted", "proposal.requested")


@click.command("run")
@click.argument("task")
@click.option("--proposer", default="template-evo", show_default=True, help="who proposes kernels")
@device_option
@click.option("--language", default="", help="by default what the device runs first")
@click.option("--judgings", type=int, default=None, help="at most; 40 where no limit is given")
@click.option("--minutes", type=float, default=None, help="at most")
@click.option("--usd", type=float, default=None, help="dollars, at most; only language models cost any")
@click.option("--target", type=float, default=None, help="the speedup at which it stops")
@click.option("--seed", type=int, default=None, help="the same seed draws the same")
@click.option(
    "--verifier",
    "verifiers",
    multiple=True,
    default=("static", "compile"),
    show_default=True,
    help="who looks at candidates before they cost a judging; may be given several times",
)
@click.option("--watch", is_flag=True, help="follow the run until it ends")
@as_json_option
@asks_the_site
def run_command(task: str, *, watch: bool, as_json: bool, **wanted: Any) -> None:
    """Start an agent run on TASK (OP/DIRECTION) on the site that KBENCH_URL names, with the token KBENCH_TOKEN."""
    client = Client()
    if not client.token:
        leave("kbench: set KBENCH_TOKEN to an API token of your account", WRONG_USAGE)
    if all(wanted[name] is None for name in ("judgings", "minutes", "usd")):
        wanted["judgings"] = 40
    run = client.start_run({"task": task, **wanted, "verifiers": list(wanted["verifiers"])})
    progress.print(f"started: {client.url}{run['url']}", style="dim")
    if watch:
        run = _followed(client, run["id"])
    click.echo(json.dumps(run) if as_json else _told(run))
    sys.exit(_exit_code(run) if watch else ACCEPTED)


def _followed(client: Client, code: str) -> dict[str, Any]:
    """The run once it has ended or is paused; its events until then go to standard error."""
    seen = 0
    while True:
        page = client.run_events(code, seen, WAIT_S)
        for event in page["events"]:
            if event["type"] not in DULL:
                _tell(event)
        seen = page["last_seq"]
        run: dict[str, Any] = client.run(code)
        if page["ended"] or (run["state"] == "paused" and run["last_seq"] == seen):
            return run


def _tell(event: dict[str, Any]) -> None:
    progress.print(f"#{event['seq']} {event['type']} {event['candidate'] or ''} {event['text']}", markup=False)


def _told(run: dict[str, Any]) -> str:
    best = run["best"]
    if run["state"] not in ("finished", "paused"):
        return str(run["id"])
    found = f"best {best['score']:.3f}× (candidate {best['candidate']})" if best else "no correct kernel"
    return f"{run['state']}: {found} after {run['judgings']} judgings; {run['reason_text']}"


def _exit_code(run: dict[str, Any]) -> int:
    if run["state"] != "finished":
        return OUR_FAULT
    return ACCEPTED if run["best"] else NOT_ACCEPTED

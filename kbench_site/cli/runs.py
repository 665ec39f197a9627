"""`kbench run`: starts an agent run on the site and follows its log.

Does NOT search on this machine: `python -m agents.evolve` does.
"""

import json
import sys
from typing import Any

import click

from .client import Client
from .options import as_json_option, asks_the_site, device_option, page_option, with_token
from .output import ACCEPTED, DEFAULT_SUITE, INTERRUPTED, NOT_ACCEPTED, OUR_FAULT, leave, number, progress, tell

WAIT_S = 20.0
DULL = ("budget.reserved", "budget.settled", "archive.inserted", "archive.evicted", "proposal.requested")


@click.command("run")
@click.argument("task")
@click.option("--proposer", default="template-evo", show_default=True, help="the proposer of kernels")
@device_option
@click.option("--language", default="", help="by default the device's default language")
@click.option("--judgings", type=int, default=None, help="maximum; 40 if no limit is given")
@click.option("--minutes", type=float, default=None, help="limit of run time in minutes")
@click.option("--usd", type=float, default=None, help="maximum dollars; only language models cost money")
@click.option("--target", type=float, default=None, help="stop at this speedup")
@click.option("--seed", type=int, default=None, help="the same seed gives the same random choices")
@click.option(
    "--verifier",
    "verifiers",
    multiple=True,
    default=("static", "compile"),
    show_default=True,
    help="checks to run before a candidate is judged; may be given several times",
)
@click.option("--external", is_flag=True, help="open a run for an agent of your own and print its id")
@click.option("--watch", is_flag=True, help="follow the run until it ends")
@as_json_option
@asks_the_site
def run_command(task: str, *, external: bool, watch: bool, as_json: bool, **wanted: Any) -> None:
    """Start an agent run on TASK (OP/DIRECTION) on the site that KBENCH_URL names, with the token KBENCH_TOKEN."""
    client = with_token()
    if all(wanted[name] is None for name in ("judgings", "minutes", "usd")):
        wanted["judgings"] = 40
    kind = "external" if external else "site"
    run = client.post("runs", {"task": task, "kind": kind, **wanted, "verifiers": list(wanted["verifiers"])})
    progress.print(f"started: {client.url}{run['url']}", style="dim")
    if watch:
        run = _followed(client, run["id"])
    click.echo(json.dumps(run) if as_json else _told(run))
    sys.exit(_exit_code(run) if watch else ACCEPTED)


@click.command("runs")
@click.argument("run", default="")
@click.option("--task", default="", help="OP/DIRECTION")
@click.option("--state", default="", help="waiting, running, paused, stopping or finished")
@click.option("--watch", is_flag=True, help="follow RUN until it ends")
@page_option
@as_json_option
@asks_the_site
def runs_command(run: str, *, watch: bool, as_json: bool, **filters: Any) -> None:
    """List agent runs, newest first; or show RUN."""
    client = Client()
    if run:
        found = _followed(client, run) if watch else client.run(run)
        click.echo(json.dumps(found) if as_json else _told(found))
        sys.exit(_exit_code(found) if watch else ACCEPTED)
    listed = client.get("runs", **filters)
    rows = [
        (row["id"], _task(row), row["method"], row["state"], str(row["judgings"]), number(_best(row), ".2f"))
        for row in listed["runs"]
    ]
    columns = ("run", "task", "method", "state", "judgings", "best speedup")
    tell(listed, rows, columns, as_json=as_json, none="No runs.", heads=2)


def _task(run: dict[str, Any]) -> str:
    return str(run["task"]).removeprefix(f"{DEFAULT_SUITE}/")


def _best(run: dict[str, Any]) -> float | None:
    return run["best"]["score"] if run["best"] else None


def _followed(client: Client, code: str) -> dict[str, Any]:
    """The run once it has ended or is paused; its events until then go to standard error."""
    seen = 0
    try:
        while True:
            page = client.run_events(code, seen, WAIT_S)
            for event in page["events"]:
                if event["type"] not in DULL:
                    _tell(event)
            seen = page["last_seq"]
            run: dict[str, Any] = client.run(code)
            if page["ended"] or (run["state"] == "paused" and run["last_seq"] == seen):
                return run
    except KeyboardInterrupt:
        leave(f"kbench: Interrupted. The run continues; follow it with: kbench runs {code} --watch", INTERRUPTED)


def _tell(event: dict[str, Any]) -> None:
    progress.print(f"#{event['seq']} {event['type']} {event['candidate'] or ''} {event['text']}")


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

"""`kbench status`, `quota` and `whoami`: the state of the site, and of one's account.

Does NOT change anything.
"""

import json
from typing import Any

import click

from .client import Client
from .options import as_json_option, asks_the_site, with_token
from .output import number, tell


@click.command("status")
@as_json_option
@asks_the_site
def status_command(*, as_json: bool) -> None:
    """Show queues, waits and workers of the site."""
    found = Client().get("status")
    columns = (
        "device",
        "waiting",
        "judged now",
        "judges online",
        "median wait",
        "90th percentile wait",
        "our errors, 30 days",
    )
    title, rows = "\n".join(found["notices"]), [_queue(line) for line in found["queues"]]
    tell(found, rows, columns, as_json=as_json, title=title, none="This site has never had a worker.")


@click.command("quota")
@as_json_option
@asks_the_site
def quota_command(*, as_json: bool) -> None:
    """Show what may still be submitted now."""
    found = Client().get("quota")
    rows = [
        (item["title"], f"{item['used']:.0f} {item['unit']}", number(item["limit"], "d"), number(item["left"], ".0f"))
        for item in found["meters"]
    ]
    tell(found, rows, ("meter", "used", "limit", "left"), as_json=as_json)


@click.command("whoami")
@as_json_option
@asks_the_site
def whoami_command(*, as_json: bool) -> None:
    """Show whose token KBENCH_TOKEN is."""
    client = with_token()
    found = client.get("whoami")
    token = found["token"]
    until = f"until {token['expires']}" if token["expires"] else "no expiry"
    told = f"{found['account']} at {client.url}, token {token['name']!r} ({token['scope']}, {until})"
    click.echo(json.dumps(found) if as_json else told)


def _queue(line: dict[str, Any]) -> tuple[str, ...]:
    waits, outcomes = line["last_day"], line["last_30_days"]
    return (
        line["device"],
        str(line["queued"]),
        str(line["running"]),
        str(line["workers"]),
        number(waits["median_s"], ".0f") + " s" if waits["count"] else "–",
        number(waits["p90_s"], ".0f") + " s" if waits["count"] else "–",
        f"{outcomes['our_fault']} of {outcomes['judged']}",
    )

"""The `kbench` command: `judge` and `worker` work on this machine, the others speak to a site through its API.

Exit codes: 0 accepted (or done), 1 judged and not accepted, 2 wrong usage, 3 the system's own fault. With --json the
last line of standard output is one JSON document; progress goes to standard error. Does NOT import Django, except to
start workers.
"""

import click

from .local import judge_command, worker_command
from .remote import leaderboard_command, submit_command, tasks_command, watch_command
from .runs import run_command


@click.group()
def main() -> None:
    """kbench: a benchmark for kernels whose numbers can be trusted."""


for command in (
    judge_command,
    worker_command,
    submit_command,
    watch_command,
    tasks_command,
    leaderboard_command,
    run_command,
):
    main.add_command(command)

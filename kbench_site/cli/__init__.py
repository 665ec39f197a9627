"""The `kbench` command: `judge`, `eval`, `check`, `profile` and `worker` work on this machine, the others ask a site.

Exit codes: 0 accepted (or done), 1 judged and not accepted, 2 wrong usage, 3 the system's own fault, 4 not decided
(`check`), 130 interrupted.
With --json the last line of standard output is one JSON document; progress goes to standard error. Does NOT import
Django, except to start workers.
"""

import click

from .account import quota_command, status_command, whoami_command
from .boards import compare_command, leaderboard_command, methods_command, tasks_command
from .emulating import check_command
from .evaluating import eval_command
from .exporting import export_command
from .local import judge_command, worker_command
from .mcp import mcp_command
from .profiling import profile_command
from .remote import cancel_command, download_command, submit_command, watch_command
from .runs import run_command, runs_command


@click.group()
def main() -> None:
    """kbench: measures and ranks GPU and CPU kernels."""


for command in (
    judge_command,
    eval_command,
    check_command,
    profile_command,
    worker_command,
    submit_command,
    watch_command,
    cancel_command,
    download_command,
    tasks_command,
    leaderboard_command,
    methods_command,
    compare_command,
    export_command,
    run_command,
    runs_command,
    mcp_command,
    status_command,
    quota_command,
    whoami_command,
):
    main.add_command(command)

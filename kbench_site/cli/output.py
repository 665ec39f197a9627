"""What the commands share: exit codes, the way out, numbers in tables.

Does NOT know where results come from.
"""

import sys
from typing import NoReturn

import click
from rich.console import Console

from benchmarks.harness import Verdict

ACCEPTED, NOT_ACCEPTED, WRONG_USAGE, OUR_FAULT = 0, 1, 2, 3
progress = Console(stderr=True, highlight=False)


def exit_code(verdict: Verdict) -> int:
    if verdict.ours:
        return OUR_FAULT
    return ACCEPTED if verdict is Verdict.PASS else NOT_ACCEPTED


def leave(text: str, code: int) -> NoReturn:
    click.echo(text, err=True)
    sys.exit(code)


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)

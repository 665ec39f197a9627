"""Shared by all commands: exit codes, exiting with a message, numbers in tables.

Does NOT know where results come from.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from rich.console import Console

from benchmarks.harness import HarnessError, UsageError, Verdict, clean_text, ended_in_order

from .tables import print_table

ACCEPTED, NOT_ACCEPTED, WRONG_USAGE, OUR_FAULT, NOT_DECIDED = 0, 1, 2, 3, 4
INTERRUPTED = 130  # as shells have it
DEFAULT_SUITE = "robust-kbench"  # the site assumes it in OP/DIRECTION


def screen(*, stderr: bool = False) -> Console:
    """Where texts are printed as they are: submissions wrote some of them, and brackets are no markup there.

    No line is broken, so that an address or a command in it can be copied.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


progress = screen(stderr=True)


def exit_code(verdict: Verdict) -> int:
    if verdict.ours:
        return OUR_FAULT
    return ACCEPTED if verdict is Verdict.PASS else NOT_ACCEPTED


def leave(text: str, code: int) -> NoReturn:
    click.echo(clean_text(text), err=True)
    sys.exit(code)


@contextmanager
def harness_errors() -> Iterator[None]:
    """Leaves with a sentence where the harness raises, and in order where somebody ends the process."""
    try:
        with ended_in_order():
            yield
    except UsageError as error:
        leave(f"kbench: {error}", WRONG_USAGE)
    except HarnessError as error:
        leave(f"kbench: internal error: {error}", OUR_FAULT)
    except KeyboardInterrupt:
        leave("kbench: Interrupted.", INTERRUPTED)


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def tell(
    document: Any,
    rows: Iterable[Sequence[str]],
    columns: Sequence[str],
    *,
    as_json: bool,
    title: str = "",
    none: str = "",
    prose: str = "",
    heads: int = 1,
) -> None:
    """A table for people, or the document on one line. `none` is printed in place of a table without rows."""
    if as_json:
        click.echo(json.dumps(document))
        return
    console, listed = screen(), list(rows)
    if title:
        console.print(clean_text(title))
    if listed or not none:
        print_table(console, columns, listed, prose=prose, heads=heads)
    else:
        console.print(none)

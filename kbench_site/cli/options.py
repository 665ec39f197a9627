"""Shared by the commands that use a site: their options, and exiting with an error of the API.

Does NOT speak to a site itself (`client.py`).
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import click

from .client import ApiError, Client
from .output import INTERRUPTED, WRONG_USAGE, leave

P = ParamSpec("P")
as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="one JSON document on the last line of standard output"
)
device_option = click.option("--device", default="", help="device kind, such as cpu or nvidia-h200")
suite_option = click.option("--suite", default="", help="by default the one with most tasks")
page_option = click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), default=None, help="seconds to wait for the verdict at most"
)


def asks_the_site(command: Callable[P, None]) -> Callable[P, None]:
    """If the site refuses a request, or a person interrupts it, the command ends with a sentence and its exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ApiError as error:
            leave(f"kbench: {error}", error.exit_code)
        except KeyboardInterrupt:
            leave("kbench: Interrupted.", INTERRUPTED)

    return wrapped


def with_token() -> Client:
    """A client that says who it is; without a token nothing is asked."""
    client = Client()
    if not client.token:
        leave("kbench: set KBENCH_TOKEN to an API token of your account", WRONG_USAGE)
    return client

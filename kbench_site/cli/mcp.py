"""`kbench mcp`: starts the MCP server of `mcp_tools.py`, which needs the extra `mcp`.

Does NOT import the SDK before the command is used, so that the other commands work without it.
"""

import importlib.util

import click

from .output import WRONG_USAGE, leave


@click.command("mcp")
@click.option("--http", is_flag=True, help="serve HTTP at /mcp instead of standard input and output")
@click.option("--host", default="127.0.0.1", show_default=True, help="with --http")
@click.option("--port", type=click.IntRange(1, 65535), default=8765, show_default=True, help="with --http")
def mcp_command(*, http: bool, host: str, port: int) -> None:
    """Serve the site that KBENCH_URL names as tools for a coding agent (Model Context Protocol).

    The token is KBENCH_TOKEN; with --http it is that of each request.
    """
    if importlib.util.find_spec("mcp") is None:
        leave("kbench: the MCP server needs the extra mcp: pip install 'kbench[mcp]'", WRONG_USAGE)
    from .mcp_tools import client_of_environment, client_of_request, server

    if http:
        server(client_of_request).run("streamable-http", host=host, port=port, stateless_http=True)
    else:
        server(client_of_environment).run("stdio")

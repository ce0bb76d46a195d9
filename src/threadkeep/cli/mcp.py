"""`threadkeep mcp`: agents ask their own history."""

import importlib.util
from typing import NoReturn

import click

from threadkeep.cli.command import (
    CommandEntry,
    Commands,
    Sections,
    example_text,
    exit_codes,
    home_of,
)
from threadkeep.cli.output import note
from threadkeep.errors import NotFound

_PORT = 7718


_SECTIONS: Sections = {
    "Commands": {
        "install": CommandEntry("mcp_install:install", "Tell an agent of this server"),
        "uninstall": CommandEntry("mcp_install:uninstall", "Take it out of an agent again"),
    }
}


@click.group(
    "mcp",
    cls=Commands,
    sections=_SECTIONS,
    invoke_without_command=True,
    epilog=example_text(
        "threadkeep mcp install claude",
        "threadkeep mcp",
        "threadkeep mcp --http --port 7718",
    ),
)
@click.option("--db", metavar="PATH", help="Use this file.")
@click.option("--http", is_flag=True, help="Serve over HTTP on loopback, not over a pipe.")
@click.option("--port", default=_PORT, show_default=True, help="With --http.")
@click.option("--write", is_flag=True, help="Also offer tools that write: remember.")
@click.option("--alone", is_flag=True, help="Do not share one server with other clients.")
@click.pass_context
def mcp(
    ctx: click.Context, *, db: str | None, http: bool, port: int, write: bool, alone: bool
) -> None:
    """Let agents ask what was done on this machine, over the Model Context Protocol.

    An agent starts this by itself once it is installed there, and speaks to it over a pipe. It ends
    with the agent. All of them share one server, and need little memory each.
    """
    if ctx.invoked_subcommand is not None:
        return
    with exit_codes(ctx):
        need_sdk()
        if http:
            _serve_http(ctx, db, port, write=write)
        from threadkeep.mcp.stdio import serve_stdio

        serve_stdio(ctx.find_root().params.get("home"), db, write=write, share=not alone)


def _serve_http(ctx: click.Context, db: str | None, port: int, *, write: bool) -> NoReturn:
    from threadkeep.mcp.http import serve_http
    from threadkeep.service.web_access import token_path

    home = home_of(ctx)

    def tell(address: str) -> None:
        note(f"{address} answers, with the token in {token_path(home)}")

    serve_http(home, db, port=port, write=write or home.config.mcp.write, tell=tell)
    ctx.exit(0)


def need_sdk() -> None:
    """Raise if the SDK is not installed; looking for it does not load it."""
    if importlib.util.find_spec("mcp") is None:
        msg = "the MCP server needs a package that is not installed"
        raise NotFound(msg, hint="pip install 'threadkeep[mcp]'")

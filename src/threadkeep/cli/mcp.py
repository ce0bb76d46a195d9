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
        "install": CommandEntry("mcp_install:install", "Register this server with an agent"),
        "uninstall": CommandEntry("mcp_install:uninstall", "Remove it from an agent"),
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
@click.option("--db", metavar="PATH", help="Use this store file.")
@click.option("--http", is_flag=True, help="Serve over HTTP on loopback instead of stdio.")
@click.option("--port", default=_PORT, show_default=True, help="With --http.")
@click.option("--write", is_flag=True, help="Also offer the tool that writes: remember.")
@click.option("--alone", is_flag=True, help="Run a separate server instead of sharing one.")
@click.pass_context
def mcp(
    ctx: click.Context, *, db: str | None, http: bool, port: int, write: bool, alone: bool
) -> None:
    """Serve this machine's history to agents over the Model Context Protocol.

    Once installed, an agent starts this on its own over stdio and stops it on exit. All agents
    share one server, so each needs little memory.
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

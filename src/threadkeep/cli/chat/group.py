"""The group that holds the commands of the chat store."""

import click

from threadkeep.cli.command import example_text


@click.group(
    "chat",
    invoke_without_command=True,
    epilog=example_text(
        "threadkeep chat ls",
        "curl -sN … | threadkeep chat record --agent build",
        "threadkeep chat --db ./other.db show last",
    ),
)
@click.option("--db", metavar="PATH", help="Use this chat file.")
@click.pass_context
def chat(ctx: click.Context, db: str | None) -> None:
    """Conversations: list, read, search, follow, record, branch and keep them.

    Where a SESSION is asked for, the beginning of its id will do, or `last`.
    """
    del db  # every command asks the context for it
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())

"""The group that holds the commands of the chat store."""

import click

from threadkeep.cli.command import group


@group(
    "chat",
    "threadkeep chat ls",
    "curl -sN … | threadkeep chat record --agent build",
    "threadkeep chat --db ./other.db show last",
)
@click.option("--db", metavar="PATH", help="Use this chat file.")
def chat() -> None:
    """Conversations: list, read, search, follow, record, branch and keep them.

    Where a SESSION is asked for, the beginning of its id will do, or `last`.
    """

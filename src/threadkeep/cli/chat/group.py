"""The group that holds the commands of the chat store."""

from threadkeep.cli.command import group
from threadkeep.cli.options import db_option


@group(
    "chat",
    "threadkeep chat ls",
    "curl -sN … | threadkeep chat record --agent build",
    "threadkeep chat --db ./other.db show last",
)
@db_option("Use this chat file.")
def chat() -> None:
    """Conversations: list, read, search, follow, record, branch and keep them.

    Where a SESSION is asked for, the beginning of its id will do, or `last`.
    """

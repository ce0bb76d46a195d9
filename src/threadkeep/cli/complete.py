"""What the shell offers after a tab: session ids, with titles beside them."""

import click
from click.shell_completion import CompletionItem

from threadkeep.cli.output import one_line
from threadkeep.errors import ThreadkeepError
from threadkeep.home import Home

_OFFERED = 200
_TITLE = 60


def complete_session(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest sessions whose id begins as typed; a shell never sees an error."""
    try:
        home = Home(ctx.find_root().params.get("home"))
        with home.chat(_db_of(ctx), read_only=True) as store:
            found = store.sessions(archived=None, limit=_OFFERED).items
    except ThreadkeepError:
        return []
    return [
        CompletionItem(session.id, help=one_line(session.title or session.agent, _TITLE))
        for session in found
        if session.id.startswith(incomplete) and session.id.isprintable()
    ]


def _db_of(ctx: click.Context) -> str | None:
    """Find `--db` on the command or on its group: nothing was run yet, only parsed."""
    scope: click.Context | None = ctx
    while scope is not None:
        if scope.params.get("db"):
            return str(scope.params["db"])
        scope = scope.parent
    return None

"""What the shell offers after a tab: session ids, with titles beside them."""

import os
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from threadkeep.cli.output import one_line
from threadkeep.errors import ThreadkeepError

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
    return _items(((one.id, one.title or one.agent) for one in found), incomplete)


def complete_state_session(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest sessions of the state store in the same way."""
    try:
        home = Home(ctx.find_root().params.get("home"))
        with home.state(_db_of(ctx), read_only=True) as store:
            found = store.list_sessions_rich(
                limit=_OFFERED, include_children=True, include_archived=True
            )
    except ThreadkeepError:
        return []
    named = ((one["id"], one["title"] or one["preview"] or one["source"]) for one in found)
    return _items(named, incomplete)


def complete_captured(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the latest captured sessions in the same way."""
    try:
        home = Home(ctx.find_root().params.get("home"))
        with home.knowledge(_db_of(ctx), read_only=True) as store:
            found = store.list_sessions(limit=_OFFERED)
    except ThreadkeepError:
        return []
    return _items(((one.session_id, one.name) for one in found), incomplete)


def complete_mail_session(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest sessions with a mailbox, and folders where a path is being typed."""
    if os.sep in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="dir")]
    try:
        home = Home(ctx.find_root().params.get("home"))
        with home.mail_index() as index:
            names = {group.id: group.name for group in index.agent_groups()}
            found = index.sessions()[-_OFFERED:][::-1]
    except ThreadkeepError:
        return []
    return _items(((one.id, names.get(one.agent_group_id, "")) for one in found), incomplete)


def _items(sessions: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(session_id, help=one_line(title, _TITLE))
        for session_id, title in sessions
        if session_id.startswith(incomplete) and session_id.isprintable()
    ]


def _db_of(ctx: click.Context) -> str | None:
    """Find `--db` on the command or on its group: nothing was run yet, only parsed."""
    scope: click.Context | None = ctx
    while scope is not None:
        if scope.params.get("db"):
            return str(scope.params["db"])
        scope = scope.parent
    return None

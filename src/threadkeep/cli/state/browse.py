"""`threadkeep state ls` and `search`."""

import time

import click

from threadkeep.cli.command import Call
from threadkeep.cli.complete import complete_state_session
from threadkeep.cli.options import limit_option, since_option, until_option
from threadkeep.cli.output import is_terminal, note, one_line, paging, table, write, write_pieces
from threadkeep.cli.state.group import reading, searching, state_command
from threadkeep.cli.state.words import Json, cost_of, plain, when
from threadkeep.cli.times import moment
from threadkeep.cli.wrap import StyledText, marked
from threadkeep.state.naming import find_state_session, flags_of

_NAME = 16  # a terminal shows so much of the name of a source or a model
_TITLE = 60


@state_command(
    "ls",
    "threadkeep state ls --by-activity",
    "threadkeep state ls --source telegram",
    lists=True,
    pages=True,
)
@click.option("--source", help="Only sessions of this source, such as cli or telegram.")
@click.option("--exclude-source", "excluded", multiple=True, help="None of this source.")
@click.option("--children", is_flag=True, help="Continuations, branches and delegates, too.")
@click.option("--archived", is_flag=True, help="Archived sessions, too.")
@click.option("--hidden", is_flag=True, help="Sessions that a program hides, too.")
@click.option("--by-activity", is_flag=True, help="The one used last first, not the newest.")
@click.option("--min-messages", default=0, metavar="N", help="Only with so many messages.")
@limit_option(20, "How many; -1 for all.")
@click.option("--offset", default=0, help="Leave out so many at the beginning.")
def ls(
    call: Call,
    *,
    source: str | None,
    excluded: tuple[str, ...],
    children: bool,
    archived: bool,
    hidden: bool,
    by_activity: bool,
    min_messages: int,
    limit: int,
    offset: int,
) -> None:
    """List sessions, the newest first; a compressed one as the session in which it goes on.

    With --json everything is given but the system prompts, which `show` has.
    """
    with reading(call) as store:
        found = store.list_sessions_rich(
            source,
            exclude_sources=excluded,
            limit=limit,
            offset=offset,
            include_children=children,
            order_by_last_active=by_activity,
            include_archived=archived,
            include_hidden=hidden,
            min_message_count=min_messages,
        )
        flags = flags_of(store, [one["id"] for one in found])
    if call.as_json:
        call.answer("sessions", sessions=[_listed(one, flags[one["id"]]) for one in found])
        return
    columns = ("id", "last active", "source", "model", "messages", "cost", "title")
    spare = ("cost", "model", "messages", "source", "last active")
    rows = [_row(one) for one in found]
    with paging(wanted=call.pager):
        table(columns, rows, wide="title", spare=spare)
    if not found:
        note("no session matches; --children and --archived list more")
    elif len(found) == limit:
        note(f"there may be more: --offset {offset + limit}")


def _listed(session: Json, flags: Json) -> Json:
    shown = {name: value for name, value in session.items() if name != "system_prompt"}
    at = {name: flags.get(name) for name in ("pinned_at", "archived_at")}
    return {**shown, **at}


def _row(session: Json) -> tuple[str, ...]:
    limit = _NAME if is_terminal() else 0
    marks = [word for word in ("pinned", "archived", "hidden") if session[word]]
    name = session["title"] or session["preview"] or ""
    return (
        session["id"],
        when(session["last_active"]),
        one_line(str(session["source"]), limit),
        one_line(str(session["model"] or ""), limit),
        f"{session['message_count'] or 0:,}",
        cost_of(session),
        " ".join([*(f"[{mark}]" for mark in marks), str(name)]),
    )


@state_command(
    "search",
    "threadkeep state search gateway/run.py --since 7d",
    "threadkeep state search '\"connection refused\" OR timeout' --role tool",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1, required=True)
@click.option("--source", "sources", multiple=True, help="Only in sessions of this source.")
@click.option("--exclude-source", "excluded", multiple=True, help="Not in those of this source.")
@click.option("--role", "roles", multiple=True, help="Who said it: user, assistant, tool, …")
@since_option()
@until_option()
@click.option(
    "--sort",
    type=click.Choice(["rank", "newest", "oldest"]),
    default="rank",
    show_default=True,
    help="What comes first.",
)
@click.option("--session", shell_complete=complete_state_session, help="Only in this session.")
@limit_option(20, "How many; -1 for all.")
@click.option("--offset", default=0, help="Leave out so many at the beginning.")
def search(
    call: Call,
    *,
    words: tuple[str, ...],
    sources: tuple[str, ...],
    excluded: tuple[str, ...],
    roles: tuple[str, ...],
    since: str | None,
    until: str | None,
    sort: str,
    session: str | None,
    limit: int,
    offset: int,
) -> None:
    """Find WORDS in what was said, called and answered.

    Any text will do, punctuation and all; "a phrase", OR, NOT and a prefix* are understood.
    """
    now = time.time()
    with searching(call) as store:
        hits = store.search_messages(
            " ".join(words),
            list(sources) or None,
            list(excluded) or None,
            list(roles) or None,
            limit,
            offset,
            since=moment(since, now),
            until=moment(until, now, end=True),
            sort=sort,
            session_id=None if session is None else find_state_session(store, session),
        )
        owners = {hit["session_id"] for hit in hits}
        titles = {owner: store.get_session_title(owner) for owner in owners}
    if call.as_json:
        call.answer(
            "hits", hits=[plain({**hit, "title": titles[hit["session_id"]]}) for hit in hits]
        )
        return
    with paging(wanted=call.pager):
        for hit in hits:
            _show_hit(hit, titles[hit["session_id"]])
    if not hits:
        note("nothing found")


def _show_hit(hit: Json, title: str | None) -> None:
    write(f"{one_line(hit['session_id'])} #{hit['id']}", "bold", end=" ")
    facts = [when(hit["timestamp"]), hit["role"], hit["tool_name"], hit["source"]]
    named = [one_line(str(fact)) for fact in facts if fact]
    write(" ".join(named) + (f" · {one_line(title, _TITLE)}" if title else ""), "dim")
    write_pieces([StyledText("  "), *marked(one_line(hit["snippet"] or "")), StyledText("\n")])

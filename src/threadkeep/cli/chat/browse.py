"""`threadkeep chat ls`, `search` and `size`."""

import click

from threadkeep import ChatHit, Session
from threadkeep.base.clock import iso
from threadkeep.cli.chat.words import local_time, model_name, money
from threadkeep.cli.command import Call, store_command
from threadkeep.cli.complete import complete_session
from threadkeep.cli.options import limit_option, since_option
from threadkeep.cli.output import (
    document,
    facts,
    is_terminal,
    note,
    one_line,
    paging,
    size_text,
    table,
    write,
    write_pieces,
)
from threadkeep.cli.times import read_times
from threadkeep.cli.wrap import StyledText, marked

_NAME = 16  # a terminal shows so much of the name of an agent or a model


@store_command("ls", "threadkeep chat ls --agent build --title release", lists=True, pages=True)
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--workspace", metavar="DIR", help="Only sessions rooted in this folder.")
@click.option("--parent", shell_complete=complete_session, help="Only branches of this session.")
@click.option("--archived", is_flag=True, help="Only archived sessions.")
@click.option("--all", "everything", is_flag=True, help="Archived ones and side branches too.")
@click.option("--title", metavar="TEXT", help="Only sessions with this in their title.")
@limit_option(50, "How many, at most 500.")
@click.option("--cursor", help="Go on where the page before ended.")
def ls(
    call: Call,
    *,
    agent: str | None,
    workspace: str | None,
    parent: str | None,
    archived: bool,
    everything: bool,
    title: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List sessions, the one that changed last first."""
    with call.reading() as store:
        page = store.sessions(
            agent=agent,
            workspace=workspace,
            parent=None if parent is None else store.find_session(parent),
            archived=None if everything else archived,
            title=title,
            ephemeral=everything,
            limit=limit,
            cursor=cursor,
        )
    more = page.next_cursor
    if call.as_json:
        call.answer("sessions", sessions=page.items, next_cursor=more)
        if more is not None and call.as_lines:
            note(f"there are more: --cursor {more}")
        return
    columns = ("id", "updated", "agent", "model", "tokens", "cost", "title")
    spare = ("cost", "model", "tokens", "agent", "updated")
    with paging(wanted=call.pager):
        table(columns, map(_row, page.items), wide="title", spare=spare)
    if more is not None:
        note(f"there are more: --cursor {more}")
    elif not page.items:
        note("no session matches; --all lists archived ones and side branches too")


def _row(session: Session) -> tuple[str, ...]:
    title, person = session.title or "", is_terminal()
    return (
        session.id,
        local_time(session.updated_at) if person else iso(session.updated_at),
        one_line(session.agent, _NAME if person else 0),
        one_line(model_name(session.model), _NAME if person else 0),
        f"{session.total_tokens:,}",
        money(session.cost_usd),
        f"[archived] {title}" if session.archived_at is not None else title,
    )


@store_command(
    "search", 'threadkeep chat search "connection refused" --since 7d', lists=True, pages=True
)
@click.argument("words", nargs=-1, required=True)
@click.option("--session", shell_complete=complete_session, help="Only in this session.")
@click.option("--agent", help="Only in sessions of this agent.")
@click.option("--role", type=click.Choice(["user", "assistant", "system"]), help="Who said it.")
@since_option()
@click.option("--all", "everything", is_flag=True, help="Archived and rewound messages too.")
@limit_option(20, "How many, at most 200.")
def search(
    call: Call,
    *,
    words: tuple[str, ...],
    session: str | None,
    agent: str | None,
    role: str | None,
    since: str | None,
    everything: bool,
    limit: int,
) -> None:
    """Find WORDS in what was said, thought, called and answered; best first."""
    with call.following() as store:
        hits = store.search(
            " ".join(words),
            session=None if session is None else store.find_session(session),
            agent=agent,
            role=role,
            archived=everything,
            hidden=everything,
            since=read_times(since, None)[0],
            limit=limit,
        )
    if call.as_json:
        call.answer("hits", hits=hits)
        return
    with paging(wanted=call.pager):
        for hit in hits:
            _show_hit(hit)
    if not hits:
        note("nothing found")


def _show_hit(hit: ChatHit) -> None:
    write(f"{hit.session_id} {hit.message_id}", "bold", end=" ")
    title = f" · {one_line(hit.title, 60)}" if hit.title else ""
    write(f"{iso(hit.at)} {hit.role} {one_line(hit.type)}{title}", "dim")
    write_pieces([StyledText("  "), *marked(one_line(hit.snippet)), StyledText("\n")])


@store_command("size", "threadkeep chat size --json")
def size(call: Call) -> None:
    """Show what the store takes on disk, and which sessions take the most."""
    with call.reading() as store:
        report = store.size()
    if call.as_json:
        document(size=report)
        return
    facts(
        {
            "file": size_text(report.file_bytes),
            "log": size_text(report.wal_bytes),
            "free inside": size_text(report.free_bytes),
            **{name: f"{count:,} rows" for name, count in report.rows.items()},
        }
    )
    write()
    rows = [
        (str(one["session_id"]), size_text(int(str(one["bytes"]))), str(one["title"] or ""))
        for one in report.largest
    ]
    table(("largest sessions", "size", "title"), rows, wide="title")

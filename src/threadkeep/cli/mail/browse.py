"""`threadkeep mail ls`, `tail` and `trace`."""

import time
from collections.abc import Callable, Iterator
from itertools import chain

import click
import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.cli.command import Call, command
from threadkeep.cli.mail import group
from threadkeep.cli.options import OneOf, limit_option
from threadkeep.cli.output import json_line, note, one_line, paging, table, warn, write_pieces
from threadkeep.cli.signals import need_reader, stopped_by_signals
from threadkeep.errors import ThreadkeepError
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.host.trace import trace as trace_mail
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.letters import (
    UNDER_WAY,
    Letter,
    again,
    in_order,
    incoming,
    letters,
    look_at,
    outgoing,
    overview,
)
from threadkeep.mailbox.records import Direction

_EVERY = 0.25  # between two looks of `tail -f`, in seconds
_PAGE = 500
_ALL = 2**31
_STATES = (
    *("pending", "processing", "completed", "failed", "paused", "cancelled"),
    *("waiting", "prepared", "sending", "sent", "delivered", "unknown"),
)


@command(
    "ls",
    "threadkeep mail ls",
    "threadkeep mail ls last --status failed",
    "threadkeep mail ls ./data/v2-sessions/ag-1/sess-1 --out --json",
    lists=True,
    pages=True,
)
@group.optional_session
@click.option("--status", type=OneOf(_STATES), help="Only mail in this state.")
@click.option("--in", "only_in", is_flag=True, help="Only mail to the agent.")
@click.option("--out", "only_out", is_flag=True, help="Only mail from the agent.")
@limit_option(50, "How many of the newest; -1 for all.")
@click.option("--all", "closed", is_flag=True, help="Without SESSION: include closed ones.")
def ls(
    call: Call,
    *,
    session: str | None,
    status: str | None,
    only_in: bool,
    only_out: bool,
    limit: int,
    closed: bool,
) -> None:
    """List the sessions with their open mail; or the mail of one SESSION.

    Even numbers are mail to the agent, odd ones mail from it.
    """
    if session is None:
        _list_sessions(call, closed=closed)
        return
    ctx = group.looking(call, session)
    both = only_in == only_out
    direction: Direction | None = None if both else "in" if only_in else "out"
    found = letters(ctx, direction=direction, state=status, limit=limit if limit >= 0 else _ALL)
    if call.as_json:
        call.answer("mail", session=ctx.session, folder=ctx.folder.path, mail=found)
        return
    columns = ("in", "out", "when", "kind", "state", "place", "text")
    spare = ("place", "when", "kind")
    with paging(wanted=call.pager):
        table(columns, [_letter_row(one) for one in found], wide="text", spare=spare)
    if not found:
        note("No mail matches" if status or direction else "No mail yet")


def _letter_row(letter: Letter) -> tuple[str, ...]:
    number = "?" if letter.seq is None else str(letter.seq)
    return (
        number if letter.direction == "in" else "",
        number if letter.direction == "out" else "",
        group.when(letter.at),
        str(letter.kind),
        str(letter.state),
        group.place_text(letter.place),
        group.said(letter),
    )


# ---------------------------------------------------------------------- sessions


def _list_sessions(call: Call, *, closed: bool) -> None:
    with call.home.mail_index() as index:
        known = index.sessions(status=None if closed else "active")
        rows = [_described(call, index, one) for one in known]
    if call.as_json:
        call.answer("sessions", sessions=rows)
        return
    now = now_ms()
    columns = ("id", "agent", "chat", "pending", "due", "waiting", "failed", "heartbeat")
    spare = ("waiting", "heartbeat", "agent")
    table(columns, [_session_row(row, now) for row in rows], wide="chat", spare=spare)
    for row in rows:
        if row["problem"]:
            warn(f"{row['id']}: {row['problem']}")
    if not rows:
        note("No mailboxes yet; `threadkeep mail new NAME` makes one")


def _described(call: Call, index: MailIndex, session: MailboxSession) -> group.Json:
    chat = session.messaging_group_id
    place = None if chat is None else index.messaging_group(chat)
    named = None if place is None else f"{place.channel_type}:{place.platform_id}"
    shown: group.Json = {
        **msgspec.structs.asdict(session),
        "agent": index.agent_group(session.agent_group_id).name,
        "chat": named if session.thread_id is None else f"{named}:{session.thread_id}",
        "problem": None,
    }
    try:
        folder = call.home.mail_folder(session.id)
        return {**shown, "folder": str(folder), **msgspec.structs.asdict(overview(look_at(folder)))}
    except ThreadkeepError as error:
        return {**shown, "problem": str(error)}


def _session_row(row: group.Json, now: int) -> tuple[str, ...]:
    counts = [str(row.get(name, "?")) for name in ("pending", "due", "waiting", "failed")]
    return (
        row["id"],
        row["agent"],
        row["chat"] or "",
        *counts,
        group.age(row.get("heartbeat_ms"), now),
    )


# ---------------------------------------------------------------------- tail


@command("tail", "threadkeep mail tail last -f", "threadkeep mail tail ./box -f --json")
@group.session_argument
@click.option("-f", "--follow", is_flag=True, help="Keep following new mail and changes of state.")
@click.option("-n", "--lines", default=20, show_default=True, help="Start with the latest N.")
def tail(call: Call, *, session: str, follow: bool, lines: int) -> None:
    """Show mail in both directions; with -f, follow it live.

    With --json every line is a message; it is printed again when its state changes.
    """
    ctx = group.looking(call, session)
    with stopped_by_signals() as goes_on:
        letters = _watch(ctx, max(lines, 0), lambda: follow and goes_on() and need_reader())
        for letter, known in letters:
            if call.as_json:
                json_line(letter)
            else:
                write_pieces(group.state_pieces(letter) if known else group.letter_pieces(letter))


def _watch(
    ctx: MailContext, lines: int, wanted: Callable[[], bool]
) -> Iterator[tuple[Letter, bool]]:
    """Return letters, and again those of which something became; the latter are marked."""
    newest = {"in": 0, "out": 0}
    begin = _noted(incoming(ctx, limit=lines + 1), outgoing(ctx, limit=lines + 1), newest)
    new, open_ = begin[len(begin) - min(lines, len(begin)) :], dict[str, Letter]()
    while True:
        for letter in new:
            yield letter, False
        open_ |= {letter.id: letter for letter in new}
        open_ = {key: one for key, one in open_.items() if one.state in UNDER_WAY}
        if not wanted():
            return
        time.sleep(_EVERY)
        for letter in again(ctx, open_.values()):
            if letter.state != open_[letter.id].state:
                open_[letter.id] = letter
                yield letter, True
        new = _arrived(ctx, newest)


def _arrived(ctx: MailContext, newest: dict[str, int]) -> list[Letter]:
    coming = incoming(ctx, after=newest["in"], limit=_PAGE)
    return _noted(coming, outgoing(ctx, after=newest["out"], limit=_PAGE), newest)


def _noted(coming: list[Letter], going: list[Letter], newest: dict[str, int]) -> list[Letter]:
    """Bring both directions together, and note how far each was read."""
    for letter in chain(coming, going):
        newest[letter.direction] = max(newest[letter.direction], letter.seq or 0)
    return in_order(coming, going)


# ---------------------------------------------------------------------- trace


@command(
    "trace", "threadkeep mail trace last 4", "threadkeep mail trace ./box msg-17 --json", lists=True
)
@group.session_argument
@click.argument("message")
def trace(call: Call, *, session: str, message: str) -> None:
    """Show everything that happened to one MESSAGE, by number or id, in order."""
    ctx = group.looking(call, session)
    events = trace_mail(ctx, group.message_ref(message))
    if call.as_json:
        call.answer("events", session=ctx.session, message=message, events=events)
        return
    rows = [
        (group.when(one.at), one.what, one.where, one_line(str(one.detail or ""))) for one in events
    ]
    table(("when", "what", "where", "detail"), rows, wide="detail", spare=("where",))

"""`threadkeep mail new` and `send`."""

import base64
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click

from threadkeep.base.clock import iso, now_ms, parse_duration
from threadkeep.cli.command import Call, command
from threadkeep.cli.mail.group import containing, hosting, session_argument
from threadkeep.cli.options import OneOf, limit_option
from threadkeep.cli.output import document, facts, note, table, warn, write
from threadkeep.errors import Invalid
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.index_records import SessionMode
from threadkeep.mailbox.records import Destination, Mail, OutMail, Place
from threadkeep.mailbox.recurrence import next_times
from threadkeep.mailbox.rows import parse_moment


@command(
    "new",
    "threadkeep mail new helper",
    "threadkeep mail new helper --channel telegram --chat 12345",
    "threadkeep mail new helper --folder ./box --channel cli --chat me",
)
@click.argument("name")
@click.option("--channel", metavar="TYPE", help="Where the agent's mail goes: the type of channel.")
@click.option("--chat", metavar="ID", help="The chat, by that channel's id for it.")
@click.option("--thread", metavar="ID", help="The thread in that chat.")
@click.option(
    "--mode",
    type=OneOf(get_args(SessionMode)),
    default="shared",
    show_default=True,
    help="One session for a chat, for each of its threads, or for all chats of the agent.",
)
@click.option("--folder", metavar="PATH", help="Make this folder, outside of the mailroom.")
@click.option("--tz", metavar="ZONE", help="The zone of the agent's tasks, in all its sessions.")
def new(
    call: Call,
    *,
    name: str,
    channel: str | None,
    chat: str | None,
    thread: str | None,
    mode: SessionMode,
    folder: str | None,
    tz: str | None,
) -> None:
    """Create a mailbox for a session of the agent NAME, or print the existing one.

    Without --channel the session has no chat.
    """
    if (channel is None) != (chat is None):
        raise Invalid("--channel and --chat go together", hint="give both, or neither")
    if folder is not None:
        made = _bare(folder, name, Place(channel, chat, thread))
        if tz is not None:
            made.set_zone(tz)
        session, path = made.session, made.path
    else:
        with call.home.mailroom() as room:
            opened = room.new_session(name, channel, chat, thread_id=thread, mode=mode)
            if tz is not None:
                room.set_zone(opened.agent_group_id, tz)
            session, path = opened.id, room.folder(opened.id).path
    if call.as_json:
        document(session=session, folder=path, agent=name)
    else:
        facts({"session": session, "folder": str(path)})


def _bare(folder: str, name: str, place: Place) -> Host:
    host = Host.create(folder, agent_group=name)
    if place.known:
        host.write_routing(place)
        there = Destination(
            str(place.channel_type), None, "channel", place.channel_type, place.platform_id
        )
        host.write_destinations([there])
    return host


# ---------------------------------------------------------------------- send


@command(
    "send",
    'threadkeep mail send last "Good morning" --from Ann',
    'threadkeep mail send last "Read the news" --task --every "0 8 * * 1-5"',
    "git log -5 | threadkeep mail send last - --context",
    'threadkeep mail send ./box "All done" --as agent --file report.pdf',
)
@session_argument
@click.argument("text")
@click.option("--from", "sender", metavar="NAME", default="user", help="The sender's name.")
@click.option("--task", is_flag=True, help="A task: the agent reports when it is done.")
@click.option("--at", metavar="TIME", help="Not before this time, or after a delay: +10m, +2h.")
@click.option("--every", metavar="CRON", help="With --task: repeat on this schedule.")
@click.option("--tz", metavar="ZONE", help="The time zone of --at and of the first run of --every.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="Attach this file.")
@click.option("--context", is_flag=True, help="For information only: it wakes nobody.")
@click.option("--on-wake", is_flag=True, help="Deliver when the agent starts.")
@click.option(
    "--id", "message_id", metavar="ID", help="An id of its own: sent twice, it is kept once."
)
@click.option(
    "--as",
    "side",
    type=OneOf(["host", "agent"]),
    default="host",
    show_default=True,
    help="Which side sends it.",
)
@click.option("--to", metavar="NAME", help="With --as agent: to this destination.")
def send(
    call: Call,
    *,
    session: str,
    text: str,
    side: str,
    tz: str | None,
    at: str | None,
    **options: Any,
) -> None:
    """Send TEXT to a mailbox; `-` reads it from stdin. It is on disk when the command returns."""
    words = sys.stdin.read() if text == "-" else text
    _refuse_mixture(side, options, tz)
    due = _moment(at)
    if side == "agent":
        sent: Mail | OutMail = containing(call, session).send(
            words,
            to=options["to"],
            files=options["files"],
            deliver_after=due,
            id=options["message_id"],
        )
    else:
        host = hosting(call, session, tz)
        sent = _post(host, words, due, options)
        lasting = host.own_zone() or call.home.zone
        if options["every"] and tz not in (None, lasting):
            warn(f"later runs are due in the zone of the agent, else of its host: here {lasting}")
    if call.as_json:
        document(id=sent.id, seq=sent.seq, direction="out" if side == "agent" else "in")
    else:
        write(sent.id)
        note(f"number {sent.seq}")


def _refuse_mixture(side: str, options: dict[str, Any], tz: str | None) -> None:
    """Refuse options that would have no effect."""
    if side == "agent":
        given = [name for name in ("task", "every", "context", "on_wake") if options[name]]
        if given or tz or options["sender"] != "user":
            name = f"--{given[0].replace('_', '-')}" if given else "--tz" if tz else "--from"
            raise Invalid(f"{name} is for mail to the agent", hint="leave out --as agent")
    elif options["to"]:
        raise Invalid("--to is for mail from the agent", hint="add --as agent")
    if options["every"] and not options["task"]:
        raise Invalid("--every needs --task", hint="add --task")
    odd = [name for name in ("files", "context", "on_wake") if options[name]]
    if options["task"] and odd:
        name = {"files": "--file"}.get(odd[0], f"--{odd[0].replace('_', '-')}")
        raise Invalid(f"{name} is not for a task", hint="send it as a message of its own")


def _moment(at: str | None) -> str | int | None:
    return now_ms() + parse_duration(at[1:]) if at is not None and at.startswith("+") else at


def _post(host: Host, words: str, due: str | int | None, options: dict[str, Any]) -> Mail:
    message_id, sender = options["message_id"], options["sender"]
    if options["task"]:
        every = options["every"]
        return host.insert_task(words, process_after=due, recurrence=every, id=message_id)
    return host.send(
        words,
        sender=sender,
        sender_id=sender,
        attachments=[_attachment(Path(file)) for file in options["files"]],
        process_after=due,
        trigger=not options["context"],
        on_wake=options["on_wake"],
        id=message_id,
    )


def _attachment(file: Path) -> dict[str, str]:
    data = base64.b64encode(file.read_bytes()).decode()
    return {"name": file.name, "type": "file", "data": data}


# ------------------------------------------------------------------------------
# `threadkeep mail next`: when a cron expression is due.

_MOST = 1000


@command(
    "next",
    'threadkeep mail next "0 9 * * 1-5" --tz Europe/Madrid',
    'threadkeep mail next "@daily" --after 2026-03-28T12:00Z -n 5 --json',
    lists=True,
)
@click.argument("expr", metavar="EXPR")
@click.option("--tz", metavar="ZONE", help="The time zone of EXPR; default: this machine's.")
@click.option("--after", metavar="TIME", help="Start after this time; default: now.")
@limit_option(3)
def next_(call: Call, *, expr: str, tz: str | None, after: str | None, limit: int) -> None:
    """Show when a task with the cron expression EXPR is due next.

    One per line: in UTC, then in local time of the zone.
    """
    if not 0 < limit <= _MOST:
        raise Invalid(f"-n is {limit}", hint=f"ask for 1 to {_MOST} times")
    zone = call.home.zone_named(tz)
    start = now_ms() if after is None else parse_moment(after, zone)
    found = next_times(expr, start, zone, limit)
    if call.as_json:
        due = [_utc(one) for one in found]
        call.answer("next", **{"expr": expr, "tz": zone, "from": iso(start), "next": due})
        return
    rows = [(_utc(one), one.astimezone(ZoneInfo(zone)).isoformat()) for one in found]
    table(("UTC", zone), rows)


def _utc(moment: datetime) -> str:
    return iso(round(moment.timestamp() * 1000))

"""Mail from the agent: where it goes, and in which shape."""

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from threadkeep.errors import Invalid
from threadkeep.mailbox import content as shapes, outbound, reading
from threadkeep.mailbox.attachments import clear_outbox, place_outbox, read_files
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import (
    need_dict,
    need_each,
    need_seconds,
    need_str,
    need_text,
    optional_str,
    shown,
)
from threadkeep.mailbox.ids import platform_part
from threadkeep.mailbox.records import Destination, Json, OutMail, Place

Moment = datetime | str | int
# Nowhere: for mail to the host itself.
_HOST: Final = Place()
# An id of ours that had to differ, and the ending that tells agent groups apart.
_DERIVED: Final = re.compile(r"~[0-9a-f]{8}$")
_GROUP: Final = re.compile(r":ag-[0-9]+-[0-9a-z]+$")


def send(
    ctx: MailContext,
    text: str,
    *,
    to: str | None,
    files: Sequence[str | Path | tuple[str, bytes]],
    message_id: str | None,
    **more: Any,
) -> OutMail:
    """Send words, and files with them; the files are in the outbox before the message is."""
    row_id = ctx.new_id("msg") if message_id is None else message_id
    said: Json = {"text": need_str(text, "text")}
    place, newest = where(ctx, to)
    more["in_reply_to"] = optional_str(more.get("in_reply_to"), "in_reply_to") or newest
    if more.get("unless_said") is not None:
        need_seconds(more["unless_said"], "unless_said")
    found = read_files(_files(files))
    if found:
        said["files"] = list(found)
    raw, _ = outbound.check(ctx, row_id, "chat", said, more.get("deliver_after"))
    there = None if message_id is None else outbound.written(ctx, row_id, "chat", raw)
    if there is not None:
        return there
    place_outbox(ctx.folder.path, row_id, found)
    sent = outbound.put(ctx, "chat", said, place, message_id=row_id, **more)
    if found and sent.id != row_id:  # it was said before, so nobody will ask for these files
        clear_outbox(ctx.folder.path, row_id)
    return sent


def _files(files: Sequence[str | Path | tuple[str, bytes]]) -> list[tuple[str, bytes] | Path]:
    given = need_each(files, (str, Path, tuple), "files")
    return [_file(one) if isinstance(one, tuple) else Path(os.path.abspath(one)) for one in given]


def _file(given: tuple[Any, ...]) -> tuple[str, bytes]:
    match given:
        case (str() as name, bytes() as data):
            return name, data
    raise Invalid(f"{shown(given)} is no file", hint="give a path, or a name with its bytes")


def send_content(
    ctx: MailContext, kind: str, said: Json, *, to: str | None, message_id: str | None = None
) -> OutMail:
    """Send content of another shape."""
    place, newest = where(ctx, to)
    return outbound.put(ctx, kind, said, place, message_id=message_id, in_reply_to=newest)


def card(ctx: MailContext, shape: Json, fallback: str, to: str | None) -> OutMail:
    """Send a card, with text for channels that cannot show one."""
    text = need_str(fallback, "fallback")
    said = {"type": "card", "card": need_dict(shape, "card"), "fallbackText": text}
    return send_content(ctx, "chat-sdk", said, to=to)


def where(ctx: MailContext, to: str | None) -> tuple[Place, str | None]:
    """Find where mail goes, and the newest message from there, which it answers."""
    with ctx.folder.inbound.read() as tx:
        place = choose(to, reading.routing_in(tx), reading.destinations_in(tx))
        asked = {"channel_type": place.channel_type, "platform_id": place.platform_id}
        asked["now"] = ctx.now_sql()
        newest = tx.one("newest_of_place", asked)
    return place, None if newest is None else newest[0]


def choose(to: str | None, routing: Place, known: Sequence[Destination]) -> Place:
    """Choose the place for a name; without one, the session's own, or the only one there is."""
    if optional_str(to, "destination") is None:
        if routing.known:
            return routing
        if len(known) == 1:
            return known[0].place
        raise Invalid(
            "this session has no place of its own to send to", hint=_names(known) or _NOBODY
        )
    for destination in known:
        if destination.name == to:
            place = destination.place
            return routing if place.same_chat(routing) else place
    raise Invalid(f"there is no destination {shown(to)}", hint=_names(known) or _NOBODY)


_NOBODY: Final = "the host has named nobody to write to"


def _names(known: Sequence[Destination]) -> str:
    return "name one of " + ", ".join(d.name for d in known) if known else ""


# ------------------------------------------------------------------ edits and reactions


def edit(ctx: MailContext, seq: int, text: str) -> OutMail:
    """Change the words of a message."""
    target, place = target_of(ctx, seq)
    return outbound.put(ctx, "chat", shapes.edit(target, need_str(text, "text")), place)


def react(ctx: MailContext, seq: int, emoji: str) -> OutMail:
    """React to a message."""
    said = need_text(emoji, "emoji")
    target, place = target_of(ctx, seq)
    return outbound.put(ctx, "chat", shapes.reaction(target, said), place)


def target_of(ctx: MailContext, seq: int) -> tuple[str, Place]:
    """Give what the channel calls a message, and where it is."""
    mail = reading.mail(ctx, seq)
    if isinstance(mail, OutMail):
        return reading.platform_id_of(ctx, mail.id) or mail.id, mail.place
    return platform_name(mail.id, ctx.agent_group), mail.place


def platform_name(message_id: str, agent_group: str | None) -> str:
    """Give the platform's own id of inbound mail: without our endings, which no channel knows."""
    plain = _DERIVED.sub("", message_id)
    if agent_group:
        return platform_part(plain, agent_group)
    return _GROUP.sub("", plain)


# ------------------------------------------------------------------ mail to the host


def act(ctx: MailContext, action: str, /, **fields: Any) -> OutMail:
    """Ask the host to do something."""
    said = {**fields, "action": need_text(action, "action")}
    return outbound.put(ctx, "system", said, _HOST, message_id=ctx.new_id("sys"))

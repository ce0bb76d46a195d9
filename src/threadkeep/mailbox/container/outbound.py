"""What the container writes into outbound.db besides its word on inbound mail."""

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox.arguments import (
    need_dict,
    need_each,
    need_place,
    need_seconds,
    need_str,
    need_text,
    need_whole,
    optional_str,
    shown,
)
from threadkeep.mailbox.attachments import clear_outbox, is_safe_name, place_outbox, read_files
from threadkeep.mailbox.container import inbox
from threadkeep.mailbox.context import MailContext, platform_part
from threadkeep.mailbox.records import Destination, Json, OutMail, Place
from threadkeep.mailbox.rows import CAP, like, out_hash, out_of, parse_moment, sqlite_form, text_of

Moment = datetime | str | int
KINDS = frozenset(("chat", "chat-sdk", "system", "task_log"))


def put(
    ctx: MailContext,
    kind: str,
    content: Json | str,
    place: Place,
    *,
    message_id: str | None = None,
    in_reply_to: str | None = None,
    deliver_after: Moment | None = None,
    unless_said: float | None = None,
) -> OutMail:
    """Write an outbound row; it is on the disk when this returns.

    The same id with the same content is written once; with other content it is refused.
    """
    row_id = ctx.new_id("msg") if message_id is None else message_id
    need_place(place)
    optional_str(in_reply_to, "in_reply_to")
    since = _since(ctx, unless_said)
    text, after = check(ctx, row_id, kind, content, deliver_after)
    row: Json = {
        "id": row_id,
        "kind": kind,
        "content": text,
        "in_reply_to": in_reply_to,
        "deliver_after": after,
        "platform_id": place.platform_id,
        "channel_type": place.channel_type,
        "thread_id": place.thread_id,
    }
    with ctx.folder.inbound.read() as tx:
        row["seq_in"] = tx.value("max_seq_in") or 0
    with ctx.folder.outbound.write() as tx:
        row["timestamp"] = like(tx.value("newest_time"), ctx.clock())
        return _said(tx, row, since) or _there(tx, row) or _insert(tx, row)


def check(
    ctx: MailContext, row_id: str, kind: str, content: Json | str, deliver_after: Moment | None
) -> tuple[str, str | None]:
    """Refuse what cannot be written; give the text of the content, and the time to deliver it."""
    if not is_safe_name(row_id):
        msg = f"{shown(row_id)} cannot be the id of a message"
        raise Invalid(msg, hint="no slashes, no NUL, at most 255 bytes")
    if not isinstance(kind, str) or kind not in KINDS:
        hint = "use one of " + ", ".join(sorted(KINDS))
        raise Invalid(f"there is no kind of outbound mail {shown(kind)}", hint=hint)
    text = shapes.compact(content, ctx.policy.content_bytes)
    # As text in SQLite's form: that is how a NanoClaw host compares it.
    after = None if deliver_after is None else sqlite_form(parse_moment(deliver_after, ctx.zone))
    return text, after


def _since(ctx: MailContext, within: float | None) -> str | None:
    """Return the time from which on the same words count as said, None if they never do."""
    if within is None:
        return None
    seconds = min(max(need_seconds(within, "unless_said"), 0), ctx.clock() / 1000)
    return sqlite_form(ctx.clock() - round(seconds * 1000))


def _said(tx: Tx, row: Json, since: str | None) -> OutMail | None:
    if since is None:
        return None
    seq = tx.value("said_lately", {**row, "since": since})
    return None if seq is None else out_of(tx.one("out_by_seq", {"seq": seq, "cap": CAP}) or ())


def written(ctx: MailContext, row_id: str, kind: str, raw: str) -> OutMail | None:
    """Return a message that was written before, None if it was not; refuse other content."""
    with ctx.folder.outbound.read() as tx:
        return _there(tx, {"id": row_id, "kind": kind, "content": raw})


def _there(tx: Tx, row: Json) -> OutMail | None:
    found = tx.one("out", {"id": row["id"], "cap": CAP})
    if found is None:
        return None
    mail = out_of(found)
    if (mail.kind, mail.raw) != (row["kind"], row["content"]):
        msg = f"the outbound message {row['id'][:80]!r} was written before, with other content"
        raise Conflict(msg, hint="give each message an id of its own")
    return mail


def _insert(tx: Tx, row: Json) -> OutMail:
    tx.run("insert_out", row)
    mail = out_of(tx.one("out", {"id": row["id"], "cap": CAP}) or ())
    if mail.seq is None:  # beyond 64 bits: somebody wrote a number near the end
        msg = "no message numbers are left"
        raise Conflict(msg, hint="look at the highest numbers; `threadkeep mail ls` shows them")
    tx.run("keep_hash", {"id": mail.id, "hash": out_hash(mail)})
    return mail


# ------------------------------------------------------------------ memory


def get_state(ctx: MailContext, key: str) -> str | None:
    """Return a value that was kept between starts."""
    with ctx.folder.outbound.read() as tx:
        return text_of(tx.value("state_value", {"key": need_str(key, "key")}))


def set_state(ctx: MailContext, key: str, value: str | None) -> None:
    """Keep a value between starts; None forgets it."""
    need_text(key, "key")
    optional_str(value, "value")
    with ctx.folder.outbound.write() as tx:
        if value is None:
            tx.run("drop_state", {"key": key})
        else:
            tx.run("set_state", {"key": key, "value": value, "now": ctx.now_iso()})


def forget_conversations(ctx: MailContext) -> int:
    """Forget the conversations that would be continued; give how many there were."""
    with ctx.folder.outbound.write() as tx:
        return tx.count("forget_conversations")


def set_tool(ctx: MailContext, tool: str | None, timeout_ms: int | None) -> None:
    """Tell which tool runs now, None for none."""
    optional_str(tool, "tool")
    if timeout_ms is not None:
        need_whole(timeout_ms, "timeout_ms", at_least=0)
    now = ctx.now_iso()
    with ctx.folder.outbound.write() as tx:
        started = now if tool else None
        tx.run(
            "set_tool",
            {"tool": tool, "timeout_ms": timeout_ms, "started_at": started, "now": now},
        )


# ------------------------------------------------------------------------------
# Mail from the agent: where it goes, and in which shape.

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
    raw, _ = check(ctx, row_id, "chat", said, more.get("deliver_after"))
    there = None if message_id is None else written(ctx, row_id, "chat", raw)
    if there is not None:
        return there
    place_outbox(ctx.folder.path, row_id, found)
    sent = put(ctx, "chat", said, place, message_id=row_id, **more)
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
    raise Invalid(f"{shown(given)} is not a file", hint="give a path, or a name with its bytes")


def send_content(
    ctx: MailContext, kind: str, said: Json, *, to: str | None, message_id: str | None = None
) -> OutMail:
    """Send content of another shape."""
    place, newest = where(ctx, to)
    return put(ctx, kind, said, place, message_id=message_id, in_reply_to=newest)


def card(ctx: MailContext, card: Json, fallback: str, *, to: str | None = None) -> OutMail:
    """Send a card, with text for channels that cannot show one."""
    text = need_str(fallback, "fallback")
    said = {"type": "card", "card": need_dict(card, "card"), "fallbackText": text}
    return send_content(ctx, "chat-sdk", said, to=to)


def where(ctx: MailContext, to: str | None) -> tuple[Place, str | None]:
    """Find where mail goes, and the newest message from there, which it answers."""
    with ctx.folder.inbound.read() as tx:
        place = choose(to, inbox.routing_in(tx), inbox.destinations_in(tx))
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
        raise Invalid("this session has no default destination", hint=_names(known) or _NOBODY)
    for destination in known:
        if destination.name == to:
            place = destination.place
            return routing if place.same_chat(routing) else place
    raise Invalid(f"there is no destination {shown(to)}", hint=_names(known) or _NOBODY)


_NOBODY: Final = "the host has not named any destination"


def _names(known: Sequence[Destination]) -> str:
    return "name one of " + ", ".join(d.name for d in known) if known else ""


# ------------------------------------------------------------------ edits and reactions


def edit(ctx: MailContext, seq: int, text: str) -> OutMail:
    """Change a message by its number."""
    target, place = target_of(ctx, seq)
    return put(ctx, "chat", shapes.edit(target, need_str(text, "text")), place)


def react(ctx: MailContext, seq: int, emoji: str) -> OutMail:
    """React to a message by its number."""
    said = need_text(emoji, "emoji")
    target, place = target_of(ctx, seq)
    return put(ctx, "chat", shapes.reaction(target, said), place)


def target_of(ctx: MailContext, seq: int) -> tuple[str, Place]:
    """Return what the channel calls a message, and where it is."""
    mail = inbox.mail(ctx, seq)
    if isinstance(mail, OutMail):
        return inbox.platform_id_of(ctx, mail.id) or mail.id, mail.place
    return platform_name(mail.id, ctx.agent_group), mail.place


def platform_name(message_id: str, agent_group: str | None) -> str:
    """Return the platform's own id of inbound mail: without our endings, which no channel knows."""
    plain = _DERIVED.sub("", message_id)
    if agent_group:
        return platform_part(plain, agent_group)
    return _GROUP.sub("", plain)


# ------------------------------------------------------------------ mail to the host


def act(ctx: MailContext, action: str, /, **fields: Any) -> OutMail:
    """Ask the host to do something."""
    said = {**fields, "action": need_text(action, "action")}
    return put(ctx, "system", said, _HOST, message_id=ctx.new_id("sys"))

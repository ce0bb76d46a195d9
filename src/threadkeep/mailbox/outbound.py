"""What the container writes into outbound.db besides its word on inbound mail."""

from datetime import datetime

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import (
    need_place,
    need_seconds,
    need_str,
    need_text,
    need_whole,
    optional_str,
    shown,
)
from threadkeep.mailbox.names import is_safe_name
from threadkeep.mailbox.records import Json, OutMail, Place
from threadkeep.mailbox.rows import CAP, out_hash, out_of, text_of
from threadkeep.mailbox.times import like, parse_moment, sqlite_form

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
    """Give the time from which on the same words count as said, None if they never do."""
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
    """Give a message that was written before, None if it was not; refuse other content."""
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
        msg = "there is no number left for another message"
        raise Conflict(msg, hint="look at the highest numbers; `threadkeep mail ls` shows them")
    tx.run("keep_hash", {"id": mail.id, "hash": out_hash(mail)})
    return mail


# ------------------------------------------------------------------ memory


def get_state(ctx: MailContext, key: str) -> str | None:
    """Give a value that was kept between starts."""
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
    """Drop what would continue the conversations so far."""
    with ctx.folder.outbound.write() as tx:
        return tx.run("forget_conversations")


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

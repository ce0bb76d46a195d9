"""Taking over mail from the agent: each row of messages_out once, whatever it holds."""

from typing import Final, NamedTuple

from threadkeep.base.tx import Row, Tx
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.records import Delivery
from threadkeep.mailbox.rows import delivery_of
from threadkeep.mailbox.telling import tell
from threadkeep.mailbox.times import read_moment, sqlite_form

SEPARATOR: Final = "\x1f"
_BY_SEQ: Final = "out"
_BY_ROWID: Final = "out_rowid"
_LAST_SECOND: Final = 253_402_300_799_000  # of the year 9999


class OutboxCursor(NamedTuple):
    """How far messages_out was taken over.

    By number, and by when it was written: programs that choose a number before they begin to
    write may come late with a lower one.
    """

    seq: int = 0
    rowid: int = 0


def open_deliveries(ctx: MailContext) -> list[Delivery]:
    """Prepare what is new among the agent's mail; list all that is open, in order of numbers."""
    cursor, known = _look(ctx)
    # Without news one look at each file is all: of hundreds of sessions most are idle.
    return _look(ctx)[1] if _take_over(ctx, cursor) else known


def _take_over(ctx: MailContext, cursor: OutboxCursor) -> bool:
    """Prepare all that is behind the cursor; tell whether there was anything."""
    began = cursor
    while True:
        rows, after = _new_rows(ctx, cursor)
        if not rows:
            return cursor != began
        _prepare(ctx, rows, after)
        cursor = after


def _look(ctx: MailContext) -> tuple[OutboxCursor, list[Delivery]]:
    with ctx.folder.inbound.read() as tx:
        seq = tx.value("cursor", {"name": _BY_SEQ})
        rowid = tx.value("cursor", {"name": _BY_ROWID})
        rows = tx.all("open_deliveries")
    return OutboxCursor(seq or 0, rowid or 0), [delivery_of(row) for row in rows]


def _new_rows(ctx: MailContext, cursor: OutboxCursor) -> tuple[list[Row], OutboxCursor]:
    limit = ctx.policy.drain
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        fresh = tx.all("out_fresh", {"seq": cursor.seq, "limit": limit})
        late = tx.all("out_late", {"seq": cursor.seq, "rowid": cursor.rowid, "limit": limit})
        last = tx.value("last_rowid") or 0
    seq = fresh[-1][1] if fresh else cursor.seq
    # What has a higher number is found by it, however early it was written.
    rowid = late[-1][-1] if len(late) == limit else last
    return fresh + late, OutboxCursor(seq, max(rowid, cursor.rowid))


def _prepare(ctx: MailContext, rows: list[Row], after: OutboxCursor) -> None:
    with ctx.folder.inbound.write() as tx:
        nameless = [row for row in rows if not row[0]]
        for row in rows:
            if row[0]:
                _prepare_one(ctx, tx, row)
        if nameless:
            tell(ctx, tx, f"{len(nameless)} messages had no usable id and were not delivered.")
        for name, value in ((_BY_SEQ, after.seq), (_BY_ROWID, after.rowid)):
            tx.run("set_cursor", {"name": name, "seq": value})


def _prepare_one(ctx: MailContext, tx: Tx, row: Row) -> None:
    message_id, seq, channel_type, platform_id, deliver_after, _ = row
    due = due_of(deliver_after, ctx.clock())
    tx.run(
        "prepare",
        {
            "id": message_id,
            "seq": seq if isinstance(seq, int) else None,
            "key": key_of(ctx, message_id),
            "place": f"{channel_type or ''}{SEPARATOR}{platform_id or ''}",
            "due": due,
            "held": int(due is not None),
            "now": ctx.now_sql(),
        },
    )


def key_of(ctx: MailContext, message_id: str) -> str:
    """Give the idempotency key of a message: the same one at every attempt.

    It is never read back from the folder: the agent could have put the key of a message there
    that another session has yet to send.
    """
    return f"{ctx.session}:{message_id}"


def due_of(deliver_after: str | None, now: int) -> str | None:
    """Give when a message may go, in whole seconds and never too early; None for at once.

    What is no time is seen when the message is read; it must not hold up the others here.
    """
    ms = read_moment(deliver_after)
    if ms is None or ms <= now:
        return None
    return sqlite_form(min(-(-ms // 1000) * 1000, _LAST_SECOND))

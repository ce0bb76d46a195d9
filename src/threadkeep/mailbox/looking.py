"""A look at a session folder that changes nothing, also at one that NanoClaw made."""

from collections.abc import Iterable, Iterator
from heapq import merge
from pathlib import Path
from typing import Final, Literal

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.tx import Row, Tx
from threadkeep.mailbox import reading
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import Folder, columns_of
from threadkeep.mailbox.records import Json, Mail, OutMail, Place
from threadkeep.mailbox.rows import CAP, mail_of, out_of
from threadkeep.mailbox.times import known_zone, read_moment

Direction = Literal["in", "out"]
_ACKS: Final = "processing_ack"
_SEARCHED: Final = 10_000
# States in which more will happen by itself; every other word, whoever made it up, is an end.
UNDER_WAY: Final = frozenset(("pending", "paused", "processing", "waiting", "prepared", "sending"))


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """One message of either direction, and where it is on its way."""

    direction: Direction
    id: str
    seq: int | None
    kind: str
    at: str
    state: str
    place: Place
    content: Json
    due: str | None = None
    tries: int = 0
    reason: str | None = None
    in_reply_to: str | None = None
    recurrence: str | None = None
    series_id: str | None = None
    trigger: bool = True
    on_wake: bool = False
    platform_message_id: str | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what a folder holds is still open."""

    pending: int
    due: int
    paused: int
    failed: int
    waiting: int
    heartbeat_ms: int | None


def look_at(path: str | Path, *, clock: Clock = now_ms, zone: str = "UTC") -> MailContext:
    """Give the surroundings of a folder for reading; nothing is added to it."""
    folder = Folder(path).need()
    group, session = reading.names(folder)
    named = group or folder.path.parent.name or None
    meant = known_zone(reading.zone(folder), zone)
    return MailContext(folder, clock, meant, agent_group=named, session=session or folder.path.name)


# ------------------------------------------------------------------ counting


def overview(ctx: MailContext) -> Overview:
    """Count what is open; costs what is open, not what was ever said."""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        pending, paused, failed = tx.one("open_mail") or (0, 0, 0)
        count_due = reading.for_columns(tx, "count_due", ctx)
        due = tx.execute(count_due, {"now": ctx.now_sql()}).fetchone()[0]
        if failed and "tk_dead" in _our_tables(tx):
            failed -= tx.value("buried_and_done_with")
        waiting, dead = _outgoing(tx)
    return Overview(
        pending=pending,
        due=due,
        paused=paused,
        failed=failed + dead,
        waiting=waiting,
        heartbeat_ms=ctx.folder.heartbeat_ms(),
    )


def _outgoing(tx: Tx) -> tuple[int, int]:
    """Count what was not sent yet, and what never will be by itself."""
    ours = _our_tables(tx)
    if "tk_delivery" not in ours or "tk_cursor" not in ours:
        failed = tx.value("failed_deliveries") if _has_status(tx) else 0
        return tx.value("waiting_out", {"after": 0}), failed
    opened, dead = tx.one("delivery_counts") or (0, 0)
    after = tx.value("cursor", {"name": "out"}) or 0
    return opened + tx.value("waiting_out", {"after": after}), dead


def _our_tables(tx: Tx) -> frozenset[str]:
    return frozenset(name for (name,) in tx.all("our_tables"))


def _has_status(tx: Tx) -> bool:
    return "status" in columns_of(tx, "delivered")


# ------------------------------------------------------------------ letters


def letters(
    ctx: MailContext,
    *,
    direction: Direction | None = None,
    state: str | None = None,
    limit: int = 50,
) -> list[Letter]:
    """Give the newest mail of both directions; each keeps the order of its numbers.

    Numbers of the two do not compare (the host counts on from its own), so time decides between
    them. A state is looked for in the newest ten thousand of each direction.
    """
    size = limit if state is None else max(limit, _SEARCHED)
    coming = [] if direction == "out" else incoming(ctx, limit=size)
    going = [] if direction == "in" else outgoing(ctx, limit=size)
    both = in_order(coming, going)
    wanted = both if state is None else [letter for letter in both if letter.state == state]
    return wanted[-limit:] if limit else []


def in_order(coming: Iterable[Letter], going: Iterable[Letter]) -> list[Letter]:
    """Bring two directions together by time, each in its own order."""
    return [letter for *_, letter in merge(_timed(coming), _timed(going), key=lambda one: one[:2])]


def _timed(letters: Iterable[Letter]) -> Iterator[tuple[int, int, Letter]]:
    """Give each letter a time in whole seconds that never goes back within its direction.

    Within a second the lower number comes first: the agent counts on from what it has seen, so
    mail to it with a higher number was not there yet.
    """
    latest = number = 0
    for letter in letters:
        latest = max(latest, (read_moment(letter.at) or 0) // 1000)
        number = max(number, letter.seq or 0)
        yield latest, number, letter


def incoming(ctx: MailContext, *, after: int | None = None, limit: int = 50) -> list[Letter]:
    """Give mail to the agent: the newest, or what follows a number."""
    asked = {"status": None, "kind": None, "limit": limit, "after": after}
    query = "newest_mail" if after is None else "list_mail"
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        rows = tx.execute(reading.for_columns(tx, query, ctx), asked).fetchall()
        return _letters_in(ctx, tx, rows[::-1] if after is None else rows)


def _letters_in(ctx: MailContext, tx: Tx, rows: list[Row]) -> list[Letter]:
    ack_of = ctx.folder.outbound.queries["ack_of"].replace(_ACKS, f"outbound.{_ACKS}")
    acks = {row[0]: tx.execute(ack_of, {"id": row[0]}).fetchone() for row in rows}
    dead = _reasons(tx, [row[0] for row in rows if row[4] == "failed"])
    return [_letter_in(mail_of(row), acks[row[0]], dead.get(row[0])) for row in rows]


def _reasons(tx: Tx, ids: list[str]) -> dict[str, str]:
    if not ids or "tk_dead" not in _our_tables(tx):
        return {}
    found = {message_id: tx.one("dead_of", {"id": message_id}) for message_id in ids}
    return {message_id: row[0] for message_id, row in found.items() if row is not None}


def _letter_in(mail: Mail, ack: Row | None, reason: str | None) -> Letter:
    open_ = mail.status in ("pending", "paused")
    return Letter(
        direction="in",
        id=str(mail.id),
        seq=mail.seq,
        kind=mail.kind,
        at=mail.timestamp,
        # The host has not heard yet what the container said last.
        state=str(ack[0]) if open_ and ack is not None else mail.status,
        place=mail.place,
        content=mail.content,
        due=mail.process_after,
        tries=mail.tries,
        reason=reason,
        recurrence=mail.recurrence,
        series_id=mail.series_id,
        trigger=mail.trigger,
        on_wake=mail.on_wake,
    )


def outgoing(ctx: MailContext, *, after: int | None = None, limit: int = 50) -> list[Letter]:
    """Give mail from the agent: the newest, or what follows a number."""
    asked = {"limit": limit, "after": after, "cap": CAP}
    with ctx.folder.outbound.read() as tx:
        rows = tx.all("out_newest" if after is None else "out_after", asked)
    return _letters_out(ctx, rows[::-1] if after is None else rows)


def _letters_out(ctx: MailContext, rows: list[Row]) -> list[Letter]:
    mails = [out_of(row) for row in rows]
    with ctx.folder.inbound.read() as tx:
        ours = "tk_delivery" in _our_tables(tx)
        known = {mail.id: _delivery(tx, mail.id, ours=ours) for mail in mails}
    return [_letter_out(mail, *known[mail.id]) for mail in mails]


def again(ctx: MailContext, seen: Iterable[Letter]) -> list[Letter]:
    """Give letters as they are now; those that are gone are left out."""
    wanted = list(seen)
    coming = [letter.id for letter in wanted if letter.direction == "in"]
    going = [letter.id for letter in wanted if letter.direction == "out"]
    found: list[Letter] = []
    if coming:
        with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
            sql = reading.for_columns(tx, "mail", ctx)
            rows = [tx.execute(sql, {"id": one}).fetchone() for one in coming]
            found += _letters_in(ctx, tx, [row for row in rows if row is not None])
    if going:
        with ctx.folder.outbound.read() as tx:
            rows = [tx.one("out", {"id": one, "cap": CAP}) for one in going]
        found += _letters_out(ctx, [row for row in rows if row is not None])
    return found


def _delivery(tx: Tx, message_id: str, *, ours: bool) -> tuple[Row | None, Row | None]:
    asked = {"id": message_id}
    row = tx.one("delivery", asked) if ours else None
    if not _has_status(tx):  # before its first delivery NanoClaw has fewer columns here
        sql = "SELECT message_out_id, NULL, 'delivered', delivered_at FROM delivered"
        found = tx.execute(f"{sql} WHERE message_out_id = :id", asked).fetchone()
        return row, found
    return row, tx.one("delivered", asked)


def _letter_out(mail: OutMail, delivery: Row | None, delivered: Row | None) -> Letter:
    told = "waiting" if delivered is None else str(delivered[2])
    return Letter(
        direction="out",
        id=mail.id,
        seq=mail.seq,
        kind=mail.kind,
        at=mail.timestamp,
        state=told if delivery is None else str(delivery[2]),
        place=mail.place,
        content=mail.content,
        due=mail.deliver_after if delivery is None else delivery[6],
        tries=0 if delivery is None else delivery[5],
        reason=None if delivery is None else delivery[8],
        in_reply_to=mail.in_reply_to,
        platform_message_id=None if delivered is None else delivered[1],
    )

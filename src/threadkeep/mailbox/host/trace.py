"""The way of one message, from all tables of both files."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from threadkeep.base.clock import iso
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import NotFound
from threadkeep.mailbox.container import inbox
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import columns_of
from threadkeep.mailbox.host.sweep import tables_beside
from threadkeep.mailbox.notices import called, is_note, shortened
from threadkeep.mailbox.records import Mail, OutMail
from threadkeep.mailbox.rows import CAP, mail_of, out_of, read_moment

_MOST: Final = 100  # replies, runs and notes that are listed


class MailboxEvent(msgspec.Struct, frozen=True):
    """One thing that happened to a message; `at` is None where no table keeps the time."""

    at: str | None
    where: str
    what: str
    detail: str = ""


def trace(ctx: MailContext, which: str | int) -> list[MailboxEvent]:
    """Tell all that is known of one message, by its id or number, in the order of time."""
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        tables = tables_beside(ctx, tx) | _own_tables(tx)
        mail = _find(ctx, tx, which)
        if isinstance(mail, Mail):
            events = list(_of_mail(ctx, tx, mail, tables))
        else:
            events = list(_of_out(tx, mail, tables))
        events += _notes(ctx, tx, mail.id)
    return in_order(events)


def in_order(events: Sequence[MailboxEvent]) -> list[MailboxEvent]:
    """Sort by time in whole seconds, which is all that some tables keep.

    Within a second the order given counts; what has no time stays behind what it was given after.
    """
    keys: list[int] = []
    for event in events:
        ms = read_moment(event.at)
        keys.append(ms // 1000 if ms is not None else max(keys, default=0))
    order = sorted(range(len(events)), key=keys.__getitem__)
    return [events[number] for number in order]


def _own_tables(tx: Tx) -> frozenset[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tk\\_%' ESCAPE '\\'"
    return frozenset(name for (name,) in tx.all(Sql(sql)))


def _find(ctx: MailContext, tx: Tx, which: str | int) -> Mail | OutMail:
    column = "id" if isinstance(which, str) else "seq"
    sql = inbox.for_columns(tx, "mail" if column == "id" else "mail_by_seq", ctx)
    row = tx.one(Sql(sql), {column: which})
    if row is not None:
        return mail_of(row)
    # Only one of the two files has this table, so its name alone will do.
    sql = ctx.folder.outbound.queries["out" if column == "id" else "out_by_seq"]
    row = tx.one(Sql(sql), {column: which, "cap": CAP})
    if row is None:
        hint = "even numbers came in, odd ones went out; `threadkeep mail ls` shows both"
        raise NotFound(f"there is no message {str(which)[:80]!r}", hint=hint)
    return out_of(row)


# ------------------------------------------------------------------ mail to the agent


def _of_mail(
    ctx: MailContext, tx: Tx, mail: Mail, tables: frozenset[str]
) -> Iterator[MailboxEvent]:
    yield MailboxEvent(_time(mail.timestamp), "messages_in", "written", _described(mail))
    if "tk_hops" in tables and (hops := tx.one("hops_of", {"id": mail.id})) is not None:
        yield MailboxEvent(None, "tk_hops", "passed on", f"by {_many(hops[0], 'agent')} so far")
    if mail.process_after is not None:
        yield MailboxEvent(_time(mail.process_after), "messages_in", "due", mail.recurrence or "")
    yield from _container_side(ctx, tx, mail, tables)
    yield from _replies(ctx, tx, mail)
    dead, tried_for = _graves(tx, mail) if "tk_dead" in tables else (None, None)
    if mail.status in ("completed", "failed"):
        tries = f"after {_many(mail.tries, 'claim')}" if mail.tries else ""
        yield MailboxEvent(_time(dead[1]) if dead else None, "messages_in", mail.status, tries)
    elif mail.status != "pending":
        yield MailboxEvent(None, "messages_in", mail.status)
    if dead is not None:
        yield from _death(dead)
    if tried_for is not None:
        yield MailboxEvent(_time(tried_for[1]), "tk_dead", "a new try", f"of {tried_for[0]}")
    copies = {dead[2] if dead else None, tried_for[0] if tried_for else None}
    yield from _other_runs(tx, mail, copies)


def _graves(tx: Tx, mail: Mail) -> tuple[Row | None, Row | None]:
    """Return what is known of its own failure, and of the one that it is a new try of."""
    return tx.one("dead_of", {"id": mail.id}), tx.one("retried_for", {"id": mail.id})


def _container_side(
    ctx: MailContext, tx: Tx, mail: Mail, tables: frozenset[str]
) -> Iterator[MailboxEvent]:
    queries = ctx.folder.outbound.queries
    asked = {"id": mail.id}
    claim = tx.one(Sql(queries["claim_of"]), asked) if "tk_claim" in tables else None
    ack = tx.one(Sql(queries["ack_of"]), asked)
    if claim is not None and claim[0]:
        yield MailboxEvent(_time(claim[2]), "tk_claim", "claimed", f"for the {_nth(claim[0])} time")
    if ack is not None:
        reason = shortened(claim[1]) if claim is not None and claim[1] else ""
        yield MailboxEvent(_time(ack[1]), "processing_ack", shortened(str(ack[0])), reason)


def _death(dead: Row) -> Iterator[MailboxEvent]:
    reason, at, retried_as, purged_at = dead
    yield MailboxEvent(_time(at), "tk_dead", "given up", shortened(reason))
    if retried_as is not None:
        yield MailboxEvent(_time(at), "tk_dead", "tried again", f"as {retried_as}")
    if purged_at is not None:
        yield MailboxEvent(_time(purged_at), "tk_dead", "purged")


def _other_runs(tx: Tx, mail: Mail, copies: set[str | None]) -> Iterator[MailboxEvent]:
    """Return the run of the series before this one, and those that came of it."""
    if "series_id" not in columns_of(tx, "messages_in"):
        return
    asked = {"series_id": mail.series_id or mail.id, "id": mail.id}
    others = [row for row in tx.all("others_of_series", asked) if row[0] not in copies]
    before = [row for row in others if (row[1] or 0) < (mail.seq or 0)][-1:]
    after = [row for row in others if (row[1] or 0) > (mail.seq or 0)][:_MOST]
    for message_id, _, at in before:
        yield MailboxEvent(_time(at), "messages_in", "earlier run", message_id)
    for message_id, _, at in after:
        yield MailboxEvent(_time(at), "messages_in", "later run", message_id)


def _replies(ctx: MailContext, tx: Tx, mail: Mail) -> Iterator[MailboxEvent]:
    sql = ctx.folder.outbound.queries["out_replies"]
    for row in tx.all(Sql(sql), {"id": mail.id, "limit": _MOST, "cap": CAP}):
        reply = out_of(row)
        yield MailboxEvent(_time(reply.timestamp), "messages_out", "answered", called(reply))


# ------------------------------------------------------------------ mail from the agent


def _of_out(tx: Tx, mail: OutMail, tables: frozenset[str]) -> Iterator[MailboxEvent]:
    yield MailboxEvent(_time(mail.timestamp), "messages_out", "written", _described(mail))
    if mail.in_reply_to is not None:
        yield MailboxEvent(
            _time(mail.timestamp), "messages_out", "in reply to", mail.in_reply_to[:200]
        )
    if mail.deliver_after is not None:
        yield MailboxEvent(_time(mail.deliver_after), "messages_out", "due")
    row = tx.one("delivery", {"id": mail.id}) if "tk_delivery" in tables else None
    if row is not None:
        attempts = _many(row[5], "attempt") if row[5] else ""
        detail = "; ".join(part for part in (attempts, shortened(row[8] or "")) if part)
        yield MailboxEvent(_time(row[9]), "tk_delivery", row[2], detail)
    if {"status", "platform_message_id"} <= columns_of(tx, "delivered"):
        found = tx.one("delivered", {"id": mail.id})
        if found is not None:
            yield MailboxEvent(_time(found[3]), "delivered", str(found[2]), str(found[1] or ""))


# ------------------------------------------------------------------ either


def _notes(ctx: MailContext, tx: Tx, message_id: str) -> list[MailboxEvent]:
    """Return what the host told the agent about a message."""
    asked = {"platform_id": ctx.agent_group, "about": message_id}
    sql = inbox.for_columns(tx, "notes_about", ctx)
    found = [mail_of(row) for row in tx.all(Sql(sql), asked)]
    return [
        MailboxEvent(
            _time(note.timestamp), "messages_in", "the agent was notified", f"by {called(note)}"
        )
        for note in found
        if is_note(note) and _names(note.content.get("about"), message_id)
    ][:_MOST]


def _names(about: object, message_id: str) -> bool:
    return isinstance(about, list) and message_id in about


def _described(mail: Mail | OutMail) -> str:
    place = "/".join(part for part in (mail.place.channel_type, mail.place.platform_id) if part)
    return shortened(f"{mail.kind} {called(mail)}{f' at {place}' if place else ''}")


def _time(text: str | None) -> str | None:
    """Write a time in the one form of a trace; what is no time is shown as it is."""
    ms = read_moment(text)
    return text if ms is None else iso(ms)


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"

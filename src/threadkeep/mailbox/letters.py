"""A look at a session folder that changes nothing, also at one that NanoClaw made."""

from collections.abc import Iterable, Iterator
from heapq import merge
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base import json, nofollow
from threadkeep.base.clock import Clock, known_zone, now_ms
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Conflict, NotFound, ThreadkeepError
from threadkeep.mailbox import inbound
from threadkeep.mailbox.arguments import need_whole
from threadkeep.mailbox.attachments import INBOX, clear_outbox, copy_files, folder_for
from threadkeep.mailbox.container import inbox
from threadkeep.mailbox.content import compact
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import Folder, columns_of
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.records import (
    DeadLetter,
    Delivery,
    Direction,
    Json,
    Mail,
    OutMail,
    Place,
    read_content,
)
from threadkeep.mailbox.rows import (
    CAP,
    delivery_of,
    keep_in_hash,
    mail_of,
    out_of,
    read_moment,
)

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
    """Return the surroundings of a folder for reading; nothing is added to it."""
    folder = Folder(path).need()
    group, session = inbox.names(folder)
    named = group or folder.path.parent.name or None
    meant = known_zone(inbox.zone(folder), zone)
    return MailContext(folder, clock, meant, agent_group=named, session=session or folder.path.name)


# ------------------------------------------------------------------ counting


def overview(ctx: MailContext) -> Overview:
    """Count what is open; costs what is open, not what was ever said."""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        pending, paused, failed = tx.one("open_mail") or (0, 0, 0)
        count_due = inbox.for_columns(tx, "count_due", ctx)
        due = tx.value(Sql(count_due), {"now": ctx.now_sql()})
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
    """Return the newest mail of both directions; each keeps the order of its numbers.

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
    """Return mail to the agent: the newest, or what follows a number."""
    asked = {"status": None, "kind": None, "limit": limit, "after": after}
    query = "newest_mail" if after is None else "list_mail"
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        rows = tx.all(Sql(inbox.for_columns(tx, query, ctx)), asked)
        return _letters_in(ctx, tx, rows[::-1] if after is None else rows)


def _letters_in(ctx: MailContext, tx: Tx, rows: list[Row]) -> list[Letter]:
    ack_of = ctx.folder.outbound.queries["ack_of"].replace(_ACKS, f"outbound.{_ACKS}")
    acks = {row[0]: tx.one(Sql(ack_of), {"id": row[0]}) for row in rows}
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
    """Return mail from the agent: the newest, or what follows a number."""
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
    """Return letters as they are now; those that are gone are left out."""
    wanted = list(seen)
    coming = [letter.id for letter in wanted if letter.direction == "in"]
    going = [letter.id for letter in wanted if letter.direction == "out"]
    found: list[Letter] = []
    if coming:
        with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
            sql = inbox.for_columns(tx, "mail", ctx)
            rows = [tx.one(Sql(sql), {"id": one}) for one in coming]
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
        found = tx.one(Sql(f"{sql} WHERE message_out_id = :id"), asked)
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


# ------------------------------------------------------------------------------
# Dead letters: mail that nobody will try again by itself. Shown, tried again on demand, purged.

_TEXT: Final = 200
_HINT: Final = "`Host.dead_letters()` lists what failed"
_UNSAID: Final = "failed, and nobody wrote down why"


def dead_letters(ctx: MailContext) -> list[DeadLetter]:
    """List what failed: mail to the agent first, then mail from it, each by its number."""
    with ctx.folder.inbound.read() as tx:
        coming = [_dead_mail(row) for row in tx.all("dead_mail")]
        going = [delivery_of(row) for row in tx.all("dead_deliveries")]
    return [*coming, *_dead_deliveries(ctx, going)]


def _dead_mail(row: Row) -> DeadLetter:
    message_id, seq, state, reason, tries, at, retried_as, content = row
    text = _text_of(content if isinstance(content, str) else "")
    return DeadLetter(message_id, seq, "in", state, reason, tries, at, retried_as, text)


def _dead_deliveries(ctx: MailContext, rows: Iterable[Delivery]) -> list[DeadLetter]:
    found = list(rows)
    if not found:
        return []
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        texts = [tx.one("out", {"id": row.message_out_id, "cap": CAP}) for row in found]
    return [
        DeadLetter(
            row.message_out_id,
            row.seq,
            "out",
            row.state,
            row.reason or _UNSAID,
            row.attempts,
            row.changed,
            None,
            "" if text is None else _text_of(out_of(text).raw or ""),
        )
        for row, text in zip(found, texts, strict=True)
    ]


def _text_of(raw: str) -> str:
    content = read_content(raw)
    said = content.get("text", content.get("prompt", ""))
    return said[:_TEXT] if isinstance(said, str) else ""


# ------------------------------------------------------------------ trying again


def retry(ctx: MailContext, which: str | int, *, force: bool = False) -> Mail | Delivery:
    """Try a dead letter once more; one that may have been sent needs `force`.

    Mail to the agent is tried as a copy under a new id: the container has answered for the old
    one for good. Mail from the agent goes back to be delivered. If it may have been sent already
    (`unknown`), a second time needs `force`.
    """
    with ctx.folder.inbound.read() as tx:
        mail = _find_mail(tx, which)
        if mail is not None and mail.status != "failed" and _is_delivery(tx, which):
            mail = None  # both directions may use a number, and this one failed
        if mail is not None:
            _check_retry(tx, mail)
    if mail is not None:
        return _retry_mail(ctx, mail)
    with ctx.folder.inbound.write() as tx:
        return _retry_delivery(ctx, tx, _find_delivery(tx, which), force=force)


def _find_mail(tx: Tx, which: str | int) -> Mail | None:
    query, column = ("mail", "id") if isinstance(which, str) else ("mail_by_seq", "seq")
    row = tx.one(query, {column: which})
    return None if row is None else mail_of(row)


def _is_delivery(tx: Tx, which: str | int) -> bool:
    return isinstance(which, int) and tx.one("dead_delivery_by_seq", {"seq": which}) is not None


def _find_delivery(tx: Tx, which: str | int) -> Delivery:
    if isinstance(which, str):
        row = tx.one("delivery", {"id": which})
    else:
        row = tx.one("dead_delivery_by_seq", {"seq": which})
    if row is None:
        raise NotFound(f"there is no dead letter {str(which)[:80]!r}", hint=_HINT)
    return delivery_of(row)


def _check_retry(tx: Tx, mail: Mail) -> None:
    """Refuse to try what did not fail, is tried already, or has nothing left to say."""
    if mail.status != "failed":
        raise Conflict(f"message {mail.id!r} is {mail.status}, not failed", hint=_HINT)
    _, _, retried_as, purged_at = tx.one("dead_of", {"id": mail.id}) or (None,) * 4
    if retried_as is not None:
        msg = f"message {mail.id!r} is already being retried, as {retried_as!r}"
        raise Conflict(msg, hint="follow that one; if it failed as well, retry it instead")
    if purged_at is not None:
        raise Conflict(f"the content of message {mail.id!r} was purged", hint="send it again")


def _retry_mail(ctx: MailContext, mail: Mail) -> Mail:
    """Write the copy, its files first; it needs nothing of the original any more."""
    inbound.check_kind(mail.kind)  # what a container does not know, it would be woken for again
    row_id = ctx.new_id("task" if mail.kind == "task" else "msg")
    raw = _with_own_files(ctx, mail, row_id)
    copy = NewMail(
        row_id,
        mail.kind,
        raw,
        mail.timestamp,
        mail.place,
        series_id=mail.series_id,
        trigger=mail.trigger,
        on_wake=mail.on_wake,
        source_session_id=mail.source_session_id,
    )
    try:
        with ctx.folder.inbound.write() as tx:
            _check_retry(tx, inbound.get(tx, mail.id))
            _dig(ctx, tx, mail)
            written = inbound.put(tx, copy)[0]
            tx.run("copy_hops", {"id": mail.id, "to": written.id})
            tx.run("set_retried", {"id": mail.id, "retried_as": written.id})
            return written
    except ThreadkeepError:
        nofollow.remove_tree(ctx.folder.path, INBOX, row_id)
        raise


def _with_own_files(ctx: MailContext, mail: Mail, row_id: str) -> str:
    """Return the text of the copy: the same, but for the paths of its files."""
    content = copy_files(ctx.folder.path, mail.content, row_id)
    return mail.raw if content == mail.content else compact(content, ctx.policy.content_bytes)


def _dig(ctx: MailContext, tx: Tx, mail: Mail) -> None:
    """Give failed mail its row among the dead, which another host does not write."""
    if tx.one("dead_of", {"id": mail.id}) is None:
        tx.run("bury", {"id": mail.id, "reason": _UNSAID, "now": ctx.now_sql()})


def _retry_delivery(ctx: MailContext, tx: Tx, row: Delivery, *, force: bool) -> Delivery:
    if row.state == "unknown" and not force:
        msg = f"message {row.message_out_id!r} may have been sent"
        raise Conflict(
            msg, hint="look at the chat first; `Host.retry(force=True)` sends it in any case"
        )
    if row.state not in ("failed", "unknown"):
        raise Conflict(f"message {row.message_out_id!r} is {row.state}, not failed", hint=_HINT)
    tx.run("forget_delivered", {"id": row.message_out_id})
    if tx.one("delivered", {"id": row.message_out_id}) is not None:
        msg = f"message {row.message_out_id!r} was delivered by another host"
        raise Conflict(msg, hint="there is nothing to try again")
    again = {"state": "prepared", "attempts": 0, "due": None, "reason": None}
    tx.run("set_delivery", {"id": row.message_out_id, "now": ctx.now_sql(), **again})
    return _find_delivery(tx, row.message_out_id)


# ------------------------------------------------------------------ purging


def purge(ctx: MailContext, which: str | int | None = None, *, older_than_ms: int = 0) -> int:
    """Remove what dead letters said and brought along; give how many that were.

    Rows and numbers stay, so that no number is given twice. What the agent wrote into its own
    file stays there; the host only forgets about it. Without `which`, all that are old enough.
    """
    chosen = [letter for letter in dead_letters(ctx) if which is None or _is(letter, which)]
    if which is not None and not chosen:
        raise NotFound(f"there is no dead letter {str(which)[:80]!r}", hint=_HINT)
    latest = ctx.clock() - need_whole(older_than_ms, "older_than_ms")
    old = [letter for letter in chosen if (read_moment(letter.at) or 0) <= latest]
    if not old:
        return 0
    with ctx.folder.inbound.write() as tx:
        purged = [letter for letter in old if _purge(ctx, tx, letter)]
        unused = [letter for letter in purged if not _is_shared(tx, letter)]
    for letter in unused:
        _remove_files(ctx, letter)
    return len(purged)


def _is(letter: DeadLetter, which: str | int) -> bool:
    return which in (letter.id, letter.seq)


def _purge(ctx: MailContext, tx: Tx, letter: DeadLetter) -> bool:
    asked = {"id": letter.id, "now": ctx.now_sql()}
    if letter.direction == "out":
        # Without this row the message would look like one that nobody has seen yet.
        tx.run("mark_delivered", {**asked, "platform_message_id": None, "status": "failed"})
        return tx.count("forget_delivery", asked) > 0
    mail = inbound.get(tx, letter.id)
    if mail.status != "failed":
        return False
    _dig(ctx, tx, mail)
    tx.run("purge_mail", asked)
    tx.run("set_purged", asked)
    keep_in_hash(tx, inbound.get(tx, mail.id))
    return True


def _is_shared(tx: Tx, letter: DeadLetter) -> bool:
    """Tell whether another run of the series names the same files."""
    if letter.direction == "out":
        return False
    mail = inbound.get(tx, letter.id)
    path = json.encode(f"{INBOX}/{folder_for(mail.id)}/")[1:-1]  # as it stands inside of content
    asked = {"series_id": mail.series_id or mail.id, "id": mail.id, "path": path}
    return bool(tx.value("files_are_shared", asked))


def _remove_files(ctx: MailContext, letter: DeadLetter) -> None:
    if letter.direction == "out":
        clear_outbox(ctx.folder.path, letter.id)
    else:
        nofollow.remove_tree(ctx.folder.path, INBOX, folder_for(letter.id))

"""What the container reads: always through a fresh connection, never through an old snapshot."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from threadkeep.base import nofollow
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox import versions
from threadkeep.mailbox.arguments import need_each, need_str, need_whole, shown
from threadkeep.mailbox.attachments import INBOX
from threadkeep.mailbox.context import MailContext, claims_allowed
from threadkeep.mailbox.folder import Folder, columns_of
from threadkeep.mailbox.records import Destination, Mail, OutMail, Place
from threadkeep.mailbox.rows import CAP, destination_of, mail_of, out_of

_SYSTEM_ROWS: Final = 1000
_FILE_LIMIT: Final = 1 << 30
_PATH: Final = (INBOX, "message", "file")  # what a localPath is made of
# What to read where an older folder has no such column: only its host may add one.
_INSTEAD: Final = {
    "on_wake": "0",
    "trigger": "1",
    "series_id": "m.id",
    "source_session_id": "NULL",
}


def poll(ctx: MailContext, limit: int, *, first: bool) -> list[Mail]:
    """Return the oldest due mail without an answer yet, in its order.

    Mail for the moment of waking is taken first: behind a full batch it would miss its moment.
    """
    asked = {"now": ctx.now_sql(), "limit": need_whole(limit, "limit", at_least=1)}
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        waking = _rows(ctx, tx, "poll_waking", asked) if first else []
        found = (waking + _rows(ctx, tx, "poll", asked))[:limit]
    return sorted(found, key=lambda mail: mail.seq or 0)


def triggered(ctx: MailContext, *, first: bool) -> bool:
    """Tell whether any due mail without an answer wants one."""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        asked = {"now": ctx.now_sql(), "first": first}
        return bool(tx.value(Sql(for_columns(tx, "triggered", ctx)), asked))


def system_mail(ctx: MailContext) -> list[Mail]:
    """Return the open mail for the program itself; it takes no place from the agent's."""
    return _mails(ctx, "poll_system", {"now": ctx.now_sql(), "limit": _SYSTEM_ROWS})


def tasks(ctx: MailContext) -> list[Mail]:
    """List the tasks that are still to come."""
    return _mails(ctx, "all_live_tasks", {})


def _mails(ctx: MailContext, query: str, asked: dict[str, object]) -> list[Mail]:
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        return _rows(ctx, tx, query, asked)


def _rows(ctx: MailContext, tx: Tx, query: str, asked: dict[str, object]) -> list[Mail]:
    return [mail_of(row) for row in tx.all(Sql(for_columns(tx, query, ctx)), asked)]


def for_columns(tx: Tx, query: str, ctx: MailContext) -> str:
    """Return a query as an older folder can answer it, which lacks some columns."""
    missing = frozenset(_INSTEAD) - columns_of(tx, "messages_in")
    return _without(ctx.folder.inbound.queries[query], missing)


@cache
def _without(sql: str, columns: frozenset[str]) -> str:
    for column in columns:
        sql = re.sub(rf"\bm\.{column}\b", _INSTEAD[column], sql)
    return sql


def mail(ctx: MailContext, which: str | int) -> Mail | OutMail:
    """Return mail of either direction; parity tells the side, on foreign files the row does."""
    folder = ctx.folder
    column = "id" if isinstance(which, str) else "seq"
    asked = {column: which, "cap": CAP}
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        name = "mail" if column == "id" else "mail_by_seq"
        row = tx.one(Sql(for_columns(tx, name, ctx)), {column: which})
        if row is not None:
            return mail_of(row)
        name = "out" if column == "id" else "out_by_seq"
        sql = folder.outbound.queries[name].replace("messages_out", "outbound.messages_out")
        row = tx.one(Sql(sql), asked)
    if row is None:
        hint = "numbers are shown with each message: even came in, odd went out"
        raise NotFound(f"there is no message {which!r}", hint=hint)
    return out_of(row)


def find(ctx: MailContext, message_id: str) -> Mail | None:
    """Give inbound mail by its id, None if there is none."""
    with ctx.folder.inbound.read() as tx:
        found = _rows(ctx, tx, "mail", {"id": message_id})
    return found[0] if found else None


def inbound_mail(ctx: MailContext, message_ids: Iterable[str]) -> list[Mail]:
    """Give inbound mail by its ids, or raise NotFound."""
    wanted = list(message_ids)
    found = there(ctx, wanted)
    for message_id in wanted:
        if not any(mail.id == message_id for mail in found):
            hint = "`poll` gives the mail there is"
            raise NotFound(f"there is no inbound message {message_id[:80]!r}", hint=hint)
    return found


def there(ctx: MailContext, message_ids: Iterable[str]) -> list[Mail]:
    """Give inbound mail by its ids, without those that are not there."""
    with ctx.folder.inbound.read() as tx:
        return [m for i in dict.fromkeys(message_ids) for m in _rows(ctx, tx, "mail", {"id": i})]


def platform_id_of(ctx: MailContext, out_id: str) -> str | None:
    """Return what the channel calls a message that was delivered."""
    with ctx.folder.inbound.read() as tx:
        if "platform_message_id" not in columns_of(tx, "delivered"):  # an older folder
            return None
        name: str | None = tx.value("platform_id_of", {"id": out_id})
        return name


def destinations(ctx: MailContext) -> list[Destination]:
    """List the names that mail can be sent to."""
    with ctx.folder.inbound.read() as tx:
        return destinations_in(tx)


def routing(ctx: MailContext) -> Place:
    """Return where mail goes that names no destination."""
    with ctx.folder.inbound.read() as tx:
        return routing_in(tx)


def destinations_in(tx: Tx) -> list[Destination]:
    """List the names that mail can be sent to; an older folder has no such table."""
    return (
        [destination_of(row) for row in tx.all("destinations")] if _has(tx, "destinations") else []
    )


def routing_in(tx: Tx) -> Place:
    """Return where mail goes that names no destination; an older folder has no such table."""
    row = tx.one("routing") if _has(tx, "session_routing") else None
    return Place(*(row or ()))


def _has(tx: Tx, table: str) -> bool:
    return bool(columns_of(tx, table))


def attachment(ctx: MailContext, mail: Mail, name: str) -> bytes:
    """Read a file that came with mail; a later run of a series has the files of the first."""
    if not isinstance(mail, Mail):
        msg = f"a file is read from a Mail, not from a {type(mail).__name__}"
        raise Invalid(msg, hint="`mail` gives it by its id or number")
    need_str(name, "name of a file")
    files = mail.content.get("attachments")
    for file in files if isinstance(files, list) else ():
        parts = str(file.get("localPath") or "").split("/") if isinstance(file, dict) else []
        if len(parts) == len(_PATH) and parts[0] == INBOX and name in (file.get("name"), parts[-1]):
            return nofollow.read(ctx.folder.path, (INBOX, parts[1]), parts[2], _FILE_LIMIT)
    msg = f"no file {shown(name)} came with message {mail.id!r}"
    raise NotFound(msg, hint="its content names them under `attachments`")


def names(folder: Folder) -> tuple[str | None, str]:
    """Give the agent group and the session that the host wrote down, '' for a session it did not.

    NanoClaw's host writes down neither; outside a sandbox the folders may tell the group.
    """
    with folder.inbound.read() as tx:
        if not _has(tx, "tk_meta"):
            above = folder.path.parent.name
            return above if above.startswith("ag-") else None, ""
        group = tx.value("meta", {"key": "agent_group"})
        return group, tx.value("meta", {"key": "session"}) or ""


def zone(folder: Folder) -> str | None:
    """Return the time zone that the host wrote down for the session's tasks, None if it did not."""
    with folder.inbound.read() as tx:
        found: str | None = tx.value("meta", {"key": "zone"}) if _has(tx, "tk_meta") else None
    return found


# ------------------------------------------------------------------------------
# The container's word on inbound mail: taken, done, given up, given back.

Which = str | Mail
_LEGACY: Final = "sdk_session_id"
_MOST_GONE: Final = 10_000  # of one start
TOO_OFTEN: Final = "it was claimed {tries} times and never finished"


def start(ctx: MailContext, provider: str) -> int:
    """Release the claims of an earlier life, and adopt what it kept under an older name.

    Ends of mail that is gone are dropped: they would hide mail that comes under the same id.
    """
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        gone = tx.all("ended_and_gone", {"limit": _MOST_GONE})
    with ctx.folder.outbound.write() as tx:
        for (message_id,) in gone:
            tx.run("drop_end", {"id": message_id})
            tx.run("forget_claims", {"id": message_id})
        legacy = tx.value("state_value", {"key": _LEGACY})
        if legacy is not None:
            key = f"continuation:{provider.lower()}"
            if tx.value("state_value", {"key": key}) is None:
                tx.run("set_state", {"key": key, "value": legacy, "now": ctx.now_iso()})
            tx.run("drop_state", {"key": _LEGACY})
        return tx.count("release_all")


def claim(ctx: MailContext, mails: Iterable[Which]) -> list[str]:
    """Take mail that nobody has; the tries are counted now, in case we do not live to tell."""
    given = _listed(mails)
    named = {m.id: m for m in inbound_mail(ctx, (m for m in given if isinstance(m, str)))}
    wanted = [named[mail] if isinstance(mail, str) else mail for mail in given]
    open_mail = [mail for mail in wanted if mail.status == "pending"]
    if not open_mail:
        return []
    now = ctx.now_sql()
    with ctx.folder.outbound.write() as tx:
        return [mail.id for mail in open_mail if _claim(ctx, tx, mail, now)]


def _claim(ctx: MailContext, tx: Tx, mail: Mail, now: str) -> bool:
    if tx.count("claim", {"id": mail.id, "now": now}) == 0:
        return False
    tries = max(tx.value("tries", {"id": mail.id}) or 0, mail.tries)
    if tries >= claims_allowed(ctx.policy):
        _finish(tx, mail.id, "failed", TOO_OFTEN.format(tries=tries), now)
        return False
    tx.run("count_claim", {"id": mail.id, "tries": tries + 1, "now": now})
    return True


def finish(ctx: MailContext, mails: Iterable[Which], status: str, reason: str | None) -> None:
    """Say what became of mail; the first word on it counts."""
    ids = [_id(mail) for mail in _listed(mails)]
    if reason is not None:
        need_str(reason, "reason")
    if not ids:
        return
    _need(ctx, ids)
    now = ctx.now_sql()
    words = _words(ctx, ids, status)
    with ctx.folder.outbound.write() as tx:
        for message_id in ids:
            _finish(tx, message_id, words[message_id], reason, now)


def _words(ctx: MailContext, ids: list[str], status: str) -> dict[str, str]:
    """Return the word for each end: a failed run of a task has one of its own with some hosts.

    They call every other word completed, and the series would not wait longer. But a host that
    does not know it would never take it over; so only one that surely does gets to see it.
    """
    side = versions.look(ctx) if status == "failed" else None
    if side is None or side.host is None or side.our_host:
        return dict.fromkeys(ids, status)
    word = side.host.failed_run
    tasks = {mail.id for mail in there(ctx, ids) if mail.kind == "task"}
    return {one: word if one in tasks else status for one in ids}


def _finish(tx: Tx, message_id: str, status: str, reason: str | None, now: str) -> None:
    changed = tx.count("ack", {"id": message_id, "status": status, "now": now})
    if changed and reason is not None:
        tx.run("give_reason", {"id": message_id, "reason": reason, "now": now})


def _need(ctx: MailContext, ids: list[str]) -> None:
    """Raise for mail that was never there: an answer to it would wait forever."""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        for message_id in ids:
            sql = """SELECT EXISTS (SELECT 1 FROM outbound.processing_ack WHERE message_id = :id)
                         OR EXISTS (SELECT 1 FROM messages_in WHERE id = :id)"""
            if not tx.value(Sql(sql), {"id": message_id}):
                hint = "`poll` gives the mail there is"
                raise NotFound(f"there is no inbound message {message_id[:80]!r}", hint=hint)


def release(ctx: MailContext, mails: Iterable[Which]) -> int:
    """Give mail back untouched; a claim that ends like this counts as none."""
    given = _listed(mails)
    with ctx.folder.outbound.write() as tx:
        return sum(_release(tx, _id(mail)) for mail in given)


def _release(tx: Tx, message_id: str) -> int:
    released = tx.count("release", {"id": message_id})
    if released:
        tx.run("uncount_claim", {"id": message_id})
    return released


def _listed(mails: Iterable[Which]) -> list[Which]:
    return need_each(mails, (Mail, str), "mails")


def _id(mail: Which) -> str:
    return mail if isinstance(mail, str) else mail.id

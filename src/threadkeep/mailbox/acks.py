"""The container's word on inbound mail: taken, done, given up, given back."""

from collections.abc import Iterable
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.errors import NotFound
from threadkeep.mailbox import reading, versions
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import need_each, need_str
from threadkeep.mailbox.policy import claims_allowed
from threadkeep.mailbox.records import Mail

Which = str | Mail
_LEGACY: Final = "sdk_session_id"
_MOST_GONE: Final = 10_000  # of one start
TOO_OFTEN: Final = "it was taken in hand {tries} times and never finished"


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
        return tx.run("release_all")


def claim(ctx: MailContext, mails: Iterable[Which]) -> list[str]:
    """Take mail that nobody has; the tries are counted now, in case we do not live to tell."""
    given = _listed(mails)
    named = {m.id: m for m in reading.inbound_mail(ctx, (m for m in given if isinstance(m, str)))}
    wanted = [named[mail] if isinstance(mail, str) else mail for mail in given]
    open_mail = [mail for mail in wanted if mail.status == "pending"]
    if not open_mail:
        return []
    now = ctx.now_sql()
    with ctx.folder.outbound.write() as tx:
        return [mail.id for mail in open_mail if _claim(ctx, tx, mail, now)]


def _claim(ctx: MailContext, tx: Tx, mail: Mail, now: str) -> bool:
    if tx.run("claim", {"id": mail.id, "now": now}) == 0:
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
    """Give the word for each end: a failed run of a task has one of its own with some hosts.

    They call every other word completed, and the series would not wait longer. But a host that
    does not know it would never take it over; so only one that surely does gets to see it.
    """
    side = versions.look(ctx) if status == "failed" else None
    if side is None or side.host is None or side.our_host:
        return dict.fromkeys(ids, status)
    word = side.host.failed_run
    tasks = {mail.id for mail in reading.there(ctx, ids) if mail.kind == "task"}
    return {one: word if one in tasks else status for one in ids}


def _finish(tx: Tx, message_id: str, status: str, reason: str | None, now: str) -> None:
    changed = tx.run("ack", {"id": message_id, "status": status, "now": now})
    if changed and reason is not None:
        tx.run("give_reason", {"id": message_id, "reason": reason, "now": now})


def _need(ctx: MailContext, ids: list[str]) -> None:
    """Raise for mail that was never there: an answer to it would wait for ever."""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound) as tx:
        for message_id in ids:
            sql = """SELECT EXISTS (SELECT 1 FROM outbound.processing_ack WHERE message_id = :id)
                         OR EXISTS (SELECT 1 FROM messages_in WHERE id = :id)"""
            if not tx.execute(sql, {"id": message_id}).fetchone()[0]:
                hint = "`poll` gives the mail there is"
                raise NotFound(f"there is no inbound message {message_id[:80]!r}", hint=hint)


def release(ctx: MailContext, mails: Iterable[Which]) -> int:
    """Give mail back untouched; a claim that ends like this counts as none."""
    given = _listed(mails)
    with ctx.folder.outbound.write() as tx:
        return sum(_release(tx, _id(mail)) for mail in given)


def _release(tx: Tx, message_id: str) -> int:
    released = tx.run("release", {"id": message_id})
    if released:
        tx.run("uncount_claim", {"id": message_id})
    return released


def _listed(mails: Iterable[Which]) -> list[Which]:
    return need_each(mails, (Mail, str), "mails")


def _id(mail: Which) -> str:
    return mail if isinstance(mail, str) else mail.id

"""Dead letters: mail that nobody will try again by itself. Shown, tried again on demand, purged."""

from collections.abc import Iterable
from typing import Final

from threadkeep.base import json, nofollow
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Conflict, NotFound, ThreadkeepError
from threadkeep.mailbox import inbound
from threadkeep.mailbox.attachments import INBOX, clear_outbox
from threadkeep.mailbox.content import compact
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import need_whole
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.inbox_files import copy_files
from threadkeep.mailbox.names import folder_for
from threadkeep.mailbox.records import DeadLetter, Delivery, Mail, read_content
from threadkeep.mailbox.rows import CAP, delivery_of, keep_in_hash, mail_of, out_of
from threadkeep.mailbox.times import read_moment

_TEXT: Final = 200
_HINT: Final = "`dead_letters` lists what failed"
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
    """Try a dead letter once more.

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
        msg = f"message {mail.id!r} is tried again already, as {retried_as!r}"
        raise Conflict(msg, hint="follow that one; if it failed as well, retry it instead")
    if purged_at is not None:
        raise Conflict(f"the content of message {mail.id!r} was purged", hint="send it anew")


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
    """Give the text of the copy: the same, but for the paths of its files."""
    content = copy_files(ctx.folder.path, mail.content, row_id)
    return mail.raw if content == mail.content else compact(content, ctx.policy.content_bytes)


def _dig(ctx: MailContext, tx: Tx, mail: Mail) -> None:
    """Give failed mail its row among the dead, which another host does not write."""
    if tx.one("dead_of", {"id": mail.id}) is None:
        tx.run("bury", {"id": mail.id, "reason": _UNSAID, "now": ctx.now_sql()})


def _retry_delivery(ctx: MailContext, tx: Tx, row: Delivery, *, force: bool) -> Delivery:
    if row.state == "unknown" and not force:
        msg = f"message {row.message_out_id!r} may have been sent"
        raise Conflict(msg, hint="look at the chat first; `force` sends it in any case")
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


def purge(ctx: MailContext, which: str | int | None = None, older_than_ms: int = 0) -> int:
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
        return tx.run("forget_delivery", asked) > 0
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

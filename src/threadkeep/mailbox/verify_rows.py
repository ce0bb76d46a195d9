"""What is wrong with the rows of the two databases, each for itself and both together."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Literal

from threadkeep.base import json, nofollow
from threadkeep.base.sqlite.shared_file import Running
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.mailbox import reading
from threadkeep.mailbox.attachments import INBOX, OUTBOX
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import shown
from threadkeep.mailbox.inbound import KINDS
from threadkeep.mailbox.inbox_files import inbox_file
from threadkeep.mailbox.names import is_safe_name
from threadkeep.mailbox.outbound import KINDS as OUT_KINDS
from threadkeep.mailbox.problems import Problem, error, warning
from threadkeep.mailbox.records import Mail, OutMail
from threadkeep.mailbox.recurrence import next_due
from threadkeep.mailbox.rows import MAIL_COLUMNS, in_hash, mail_of, out_hash, out_of
from threadkeep.mailbox.times import read_moment
from threadkeep.mailbox.versions import STATUSES

Check = Callable[[MailContext, Running | None], Iterator[Problem]]

_PAGE: Final = 100  # rows per look: a container that wants to write never waits for long
_OUT_COLUMNS: Final = 10
_LIVE: Final = ("pending", "paused")
_CHANGED: Final = "the row was changed or damaged; compare it with a backup"
_NUMBER: Final = "another program wrote it; the agent cannot be told of it by a number of its own"


def _reading(
    ctx: MailContext, runs: Running | None, *, both: bool = True
) -> AbstractContextManager[Tx]:
    beside = ctx.folder.beside_inbound if both else {}
    return ctx.folder.inbound.read(beside, owner_runs=runs)


def _tables(tx: Tx, file: Literal["main", "outbound"]) -> frozenset[str]:
    rows = tx.execute(f"SELECT name FROM {file}.sqlite_master WHERE type = 'table'")  # noqa: S608
    return frozenset(name for (name,) in rows)


def _pages(
    ctx: MailContext,
    runs: Running | None,
    query: Callable[[Tx], str],
    *,
    both: bool,
) -> Iterator[Row]:
    """Give all rows of a query that begins with the rowid, a page at a time."""
    after = -(1 << 63)
    while True:
        with _reading(ctx, runs, both=both) as tx:
            asked = {"after": after, "limit": _PAGE, "cap": ctx.policy.content_bytes}
            rows = tx.execute(query(tx), asked).fetchall()
        yield from (row[1:] for row in rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


# ------------------------------------------------------------------ rows of messages_in


def check_mail(ctx: MailContext, runs: Running | None) -> Iterator[Problem]:
    """Look at each row of messages_in."""

    def query(tx: Tx) -> str:
        hashed = "tk_row_hash" in _tables(tx, "main")
        sql = reading.for_columns(tx, "verify_mail", ctx)
        return sql if hashed else sql.replace(_HASH_IN, "NULL")

    for row in _pages(ctx, runs, query, both=False):
        where = f"messages_in {shown(row[0])}"
        mail = mail_of(row)
        kind, tries, never_due, hashed = row[MAIL_COLUMNS:]
        yield from _number(row[1], where)
        yield from _mail_fields(mail, kind, tries, where)
        yield from _mail_times(ctx, mail, where, never_due=bool(never_due))
        yield from _inbox_files(ctx, mail, where)
        if hashed is not None and kind == "text" and hashed != in_hash(mail):
            yield error(where, "does not match its hash", _CHANGED)


_HASH_IN: Final = "(SELECT hash FROM main.tk_row_hash WHERE message_id = m.id)"


def _mail_fields(mail: Mail, kind: str, tries: str, where: str) -> Iterator[Problem]:
    if mail.status not in STATUSES:
        hint = "nobody works on it; if it should be worked on, set it to pending"
        yield warning(where, f"has the status {shown(mail.status)}", hint)
    if mail.kind not in KINDS:
        hint = "agents do not see such mail"
        yield warning(where, f"is of the kind {shown(mail.kind)}", hint)
    if tries != "integer":
        yield warning(where, "has no count of tries", "NanoClaw would try it for ever")
    if kind != "text":
        yield error(where, f"has a {kind} as its content, not text", "write it as JSON text")
    elif not _is_object(mail.raw):  # very old tasks are so, too: it is their prompt
        yield warning(where, "has content that is not JSON", "the agent sees it as plain text")


def _number(seq: Any, where: str) -> Iterator[Problem]:
    """Any whole number will do: hosts write among the agent's mail as well, and count on there."""
    if seq is None:
        yield error(where, "has no number", _NUMBER)
    elif not isinstance(seq, int):
        yield error(where, f"has the number {shown(seq)}", _NUMBER)


def _mail_times(ctx: MailContext, mail: Mail, where: str, *, never_due: bool) -> Iterator[Problem]:
    if read_moment(_text(mail.timestamp)) is None:
        yield warning(where, f"has no time but {shown(mail.timestamp)}", "it is shown as it is")
    live = mail.status in _LIVE
    if live and never_due:  # as SQLite reads it, which is how both programs ask
        hint = "it is never due; write a time such as 2026-08-14T11:19:55Z"
        yield error(where, f"waits for {shown(mail.process_after)}, which is no time", hint)
    if live and mail.recurrence is not None:
        try:
            next_due(_text(mail.recurrence), ctx.clock(), ctx.zone)
        except Invalid as trouble:
            yield error(where, trouble.message, "the series ends with this run")


def _inbox_files(ctx: MailContext, mail: Mail, where: str) -> Iterator[Problem]:
    files = mail.content.get("attachments")
    for file in files if isinstance(files, list) else ():
        path = file.get("localPath") if isinstance(file, dict) else None
        if isinstance(path, str):
            yield from _inbox_file(ctx, mail, path, where)


def _inbox_file(ctx: MailContext, mail: Mail, path: str, where: str) -> Iterator[Problem]:
    place = inbox_file(path)
    if place is None:
        yield error(where, f"names a file outside of its inbox: {shown(path)}", "do not open it")
    elif not _is_there(ctx, (INBOX, place[0]), place[1]):
        said = f"names {shown(path)}, which is not there"
        hint = "send it again, with the file"
        yield (error if mail.status in _LIVE else warning)(where, said, hint)


def _is_there(ctx: MailContext, place: tuple[str, str], name: str) -> bool:
    try:
        return nofollow.is_file(ctx.folder.path, place, name)
    except ThreadkeepError:  # a link on the way: said by the look at the files
        return False


# ------------------------------------------------------------------ rows of messages_out


def check_out(ctx: MailContext, runs: Running | None) -> Iterator[Problem]:
    """Look at each row of messages_out."""

    def query(tx: Tx) -> str:
        hashed = "tk_row_hash" in _tables(tx, "outbound")
        sql = ctx.folder.inbound.queries["verify_out"]
        return sql if hashed else sql.replace(_HASH_OUT, "NULL")

    for row in _pages(ctx, runs, query, both=True):
        where = f"messages_out {shown(row[0])}"
        mail = out_of(row)
        delivered, hashed = row[_OUT_COLUMNS:]
        yield from _number(row[1], where)
        yield from _out_fields(mail, where)
        if not delivered:
            yield from _outbox_files(ctx, mail, where)
        if hashed is not None and mail.raw is not None and hashed != out_hash(mail):
            yield error(where, "does not match its hash", _CHANGED)


_HASH_OUT: Final = "(SELECT hash FROM outbound.tk_row_hash WHERE message_id = o.id)"


def _out_fields(mail: OutMail, where: str) -> Iterator[Problem]:
    if mail.kind not in OUT_KINDS:
        yield warning(where, f"is of the kind {shown(mail.kind)}", "no channel may know it")
    if read_moment(mail.timestamp) is None:
        yield warning(where, f"has no time but {shown(mail.timestamp)}", "the number decides")
    if mail.deliver_after is not None and read_moment(mail.deliver_after) is None:
        said = f"waits for {shown(mail.deliver_after)}, which is no time"
        yield error(where, said, "it is not delivered; ask the agent to send it again")
    if mail.raw is None:
        yield error(where, "has content that is no text, or too long", "it is not delivered")
    elif not _is_object(mail.raw):
        yield error(where, "has content that is not JSON", "it is not delivered")


def _outbox_files(ctx: MailContext, mail: OutMail, where: str) -> Iterator[Problem]:
    files = mail.content.get("files")
    for name in files if isinstance(files, list) else ():
        if not is_safe_name(name):
            yield error(where, f"names the file {shown(name)}", "such a name is not read")
        elif not is_safe_name(mail.id) or not _is_there(ctx, (OUTBOX, mail.id), name):
            yield warning(where, f"names {shown(name)}, which is not there", "it is left out")


# ------------------------------------------------------------------ both together


def check_series(ctx: MailContext, runs: Running | None) -> Iterator[Problem]:
    """Look for numbers given twice, and for series that run twice."""
    with _reading(ctx, runs, both=False) as tx:
        twice = tx.all("verify_same_seq")
        forked = tx.execute(reading.for_columns(tx, "verify_forks", ctx)).fetchall()
    for seq, count in twice:
        yield error(f"messages_in number {seq}", f"is given to {count} messages", _NUMBER)
    for series, count in forked:
        hint = "cancel all but one of its runs"
        yield error(
            f"series {shown(series)}", f"has {count} runs to come, each of which recurs", hint
        )


def check_answers(ctx: MailContext, runs: Running | None) -> Iterator[Problem]:
    """Look for answers and deliveries that belong to nothing, and mail that nobody delivers."""
    with _reading(ctx, runs) as tx:
        tables = _tables(tx, "main")
        stray = tx.all("verify_stray_acks")
        known = {"tk_delivery", "tk_cursor"} <= tables
        if "tk_pruned" not in _tables(tx, "outbound"):
            ghosts = tx.all("verify_ghosts")
        else:  # old mail of the agent was removed on purpose
            ghosts = tx.all("verify_ghosts_unpruned") if known else []
        left = tx.all("verify_stragglers") if known else []
    yield from _each(stray, "processing_ack", "answers for mail that does not exist", warning)
    yield from _each(ghosts, "delivered", "is of a message that does not exist", warning)
    yield from _each(left, "messages_out", "was passed over and never delivered", error)


_HINTS: Final = {
    "processing_ack": "the container wrote it; delete the row if the message shall come again",
    "delivered": "the agent's file was replaced, or rows of it are gone",
    "messages_out": "no delivery comes by it again; ask the agent to send it once more",
}


def _each(
    rows: Iterable[Row], where: str, what: str, kind: Callable[[str, str, str], Problem]
) -> Iterator[Problem]:
    for (found,) in rows:
        yield kind(f"{where} {shown(found)}", what, _HINTS[where])


IN_CHECKS: Final[tuple[Check, ...]] = (check_mail, check_series)
BOTH_CHECKS: Final[tuple[Check, ...]] = (check_out, check_answers)


def _is_object(raw: str) -> bool:
    try:
        return isinstance(json.decode(raw), dict)
    except Invalid:
        return False


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)

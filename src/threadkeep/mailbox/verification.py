"""A finding about a session folder: how bad, where, what, and what to do."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from threadkeep.base import json, nofollow
from threadkeep.base.clock import now_ms
from threadkeep.base.sqlite.shared_file import Running, SharedFile
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Busy, Invalid, ThreadkeepError
from threadkeep.mailbox.arguments import shown
from threadkeep.mailbox.attachments import INBOX, OUTBOX, inbox_file, is_safe_name
from threadkeep.mailbox.container import inbox
from threadkeep.mailbox.container.outbound import KINDS as OUT_KINDS
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import INBOUND, OUTBOUND, Folder, Side, columns_of
from threadkeep.mailbox.inbound import KINDS
from threadkeep.mailbox.records import Mail, OutMail
from threadkeep.mailbox.recurrence import next_due
from threadkeep.mailbox.rows import MAIL_COLUMNS, in_hash, mail_of, out_hash, out_of, read_moment
from threadkeep.mailbox.versions import STATUSES

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a session folder."""

    severity: Severity
    where: str
    what: str
    hint: str = ""


def error(where: str, what: str, hint: str = "") -> Problem:
    """Something is broken, or will break something."""
    return Problem("error", where, what, hint)


def warning(where: str, what: str, hint: str = "") -> Problem:
    """Something is odd, and should be known."""
    return Problem("warning", where, what, hint)


# ------------------------------------------------------------------------------
# What is wrong with the files of a session folder; nothing is opened but folders.

_OTHERS: Final = 0o077
_DATABASES: Final = ("inbound.db", "outbound.db")
_PLAIN: Final = frozenset((*_DATABASES, ".heartbeat", ".agent.lock", "outbound.db.lock"))
_PLANTED: Final = "the agent may have put it there; look at it, then remove it"


def check_files(folder: Folder) -> Iterator[Problem]:
    """Look at the folder itself, its entries, and the attachments in it."""
    try:
        info = os.lstat(folder.path)
    except OSError as trouble:
        yield error(str(folder.path), f"cannot be read: {trouble.strerror}", "check the path")
        return
    if not stat.S_ISDIR(info.st_mode):
        yield error(str(folder.path), "is not a folder", "check the path")
        return
    yield from _private(str(folder.path), info, "chmod 700")
    for name in _DATABASES:
        if not os.path.lexists(folder.path / name):
            yield error(name, "is missing", "`threadkeep mail new` completes a folder")
    for name in _names(folder):
        yield from _entry(folder, name, info.st_uid)
    for box in (INBOX, OUTBOX):
        yield from _box(folder, box)


def _names(folder: Folder, *parts: str) -> list[str]:
    try:
        return nofollow.list_names(folder.path, *parts)
    except ThreadkeepError:  # not there, or not a folder: said where that is looked at
        return []


def _entry(folder: Folder, name: str, owner: int) -> Iterator[Problem]:
    info = _look(folder, name)
    if info is None:
        return
    if name in (INBOX, OUTBOX):
        if not stat.S_ISDIR(info.st_mode):
            yield error(name, "is not a folder", _PLANTED)
        return
    if name in _PLAIN and not stat.S_ISREG(info.st_mode):
        yield error(name, "is a link, or no plain file", _PLANTED)
    elif not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        yield warning(name, "is a link, or no plain file", _PLANTED)
    if name in _DATABASES:
        yield from _private(name, info, "chmod 600")
        if info.st_uid != owner:
            hint = (
                "the agent cannot write files that it does not own; give it to the folder's owner"
            )
            yield warning(name, "belongs to another user than its folder", hint)


def _private(name: str, info: os.stat_result, hint: str) -> Iterator[Problem]:
    if info.st_mode & _OTHERS:
        mode = stat.S_IMODE(info.st_mode)
        yield warning(name, f"is open to other users (mode {mode:o})", hint)


def _box(folder: Folder, box: str) -> Iterator[Problem]:
    """Look at the folders of messages in a box, and at what is in them."""
    for message in _names(folder, box):
        if not _is(folder, (box, message), stat.S_ISDIR):
            yield error(f"{box}/{message}", "is not a folder", _PLANTED)
            continue
        for name in _names(folder, box, message):
            if not _is(folder, (box, message, name), stat.S_ISREG):
                yield error(f"{box}/{message}/{name}", "is a link, or no plain file", _PLANTED)


def _is(folder: Folder, parts: tuple[str, ...], kind: Callable[[int], bool]) -> bool:
    info = _look(folder, *parts)
    return info is None or kind(info.st_mode)


def _look(folder: Folder, *parts: str) -> os.stat_result | None:
    """Look at a file; None if it is gone by now (a journal of a moment ago) or out of reach."""
    try:
        return os.lstat(folder.path.joinpath(*parts))
    except OSError:
        return None


# ------------------------------------------------------------------------------
# What is wrong with the rows of the two databases, each for itself and both together.

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
    rows = tx.all(Sql(f"SELECT name FROM {file}.sqlite_master WHERE type = 'table'"))  # noqa: S608
    return frozenset(name for (name,) in rows)


def _pages(
    ctx: MailContext,
    runs: Running | None,
    query: Callable[[Tx], str],
    *,
    both: bool,
) -> Iterator[Row]:
    """Return all rows of a query that begins with the rowid, a page at a time."""
    after = -(1 << 63)
    while True:
        with _reading(ctx, runs, both=both) as tx:
            asked = {"after": after, "limit": _PAGE, "cap": ctx.policy.content_bytes}
            rows = tx.all(Sql(query(tx)), asked)
        yield from (row[1:] for row in rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


# ------------------------------------------------------------------ rows of messages_in


def check_mail(ctx: MailContext, runs: Running | None) -> Iterator[Problem]:
    """Look at each row of messages_in."""

    def query(tx: Tx) -> str:
        hashed = "tk_row_hash" in _tables(tx, "main")
        sql = inbox.for_columns(tx, "verify_mail", ctx)
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
        yield error(where, f"waits for {shown(mail.process_after)}, which is not a time", hint)
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
        said = f"waits for {shown(mail.deliver_after)}, which is not a time"
        yield error(where, said, "it is not delivered; ask the agent to send it again")
    if mail.raw is None:
        yield error(where, "has content that is not text, or too long", "it is not delivered")
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
        forked = tx.all(Sql(inbox.for_columns(tx, "verify_forks", ctx)))
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


# ------------------------------------------------------------------------------
# A look at a whole session folder for anything that is wrong with it; nothing is changed.

_MOST: Final = 1000
_DAMAGES: Final = 10
_RESTORE: Final = "keep the file as it is, and restore a copy of the folder"

# What both programs need of each table, and what older builds leave out.
_COLUMNS: Final = {
    "messages_in": (
        *("id", "seq", "kind", "timestamp", "status", "process_after", "recurrence", "tries"),
        *("platform_id", "channel_type", "thread_id", "content"),
    ),
    "delivered": ("message_out_id", "delivered_at"),
    "destinations": (
        *("name", "display_name", "type", "channel_type", "platform_id", "agent_group_id"),
    ),
    "session_routing": ("id", "channel_type", "platform_id", "thread_id"),
    "messages_out": (
        *("id", "seq", "in_reply_to", "timestamp", "deliver_after", "recurrence", "kind"),
        *("platform_id", "channel_type", "thread_id", "content"),
    ),
    "processing_ack": ("message_id", "status", "status_changed"),
    "session_state": ("key", "value", "updated_at"),
    "container_state": (
        *("id", "current_tool", "tool_declared_timeout_ms", "tool_started_at", "updated_at"),
    ),
}
_LATER: Final = {
    "messages_in": ("series_id", "trigger", "source_session_id", "on_wake"),
    "delivered": ("platform_message_id", "status"),
}
# Tables that the other program makes when it first needs them.
_MADE_LATER: Final = frozenset(("session_state", "container_state"))
# Tables that a host adds to a file it did not make.
_HOST_ADDS: Final = frozenset(("destinations", "session_routing"))
_OLDER: Final = "an older program made it; the host adds it when it opens the folder"


def verify(place: MailContext | Folder | str | Path, *, read_only: bool = True) -> list[Problem]:
    """Look for everything that is wrong with a session folder, also with one that NanoClaw made.

    Nothing is changed and nothing is raised: what cannot be read is a problem in the list. With
    `read_only` off, a commit that a dead writer left unfinished is undone before the file is read.
    """
    ctx = place if isinstance(place, MailContext) else _context(place)
    runs = _always if read_only else ctx.running
    problems = [*check_files(ctx.folder)]
    sides = ((ctx.folder.inbound, INBOUND), (ctx.folder.outbound, OUTBOUND))
    whole = [
        _collect(problems, file.path.name, _check_file(file, shape, runs)) for file, shape in sides
    ]
    sound = [not any(one.severity == "error" for one in found) for found in whole]
    of_mail = IN_CHECKS if sound[0] else ()
    of_both = BOTH_CHECKS if all(sound) else ()
    for check in (*of_mail, *of_both):
        _collect(problems, "rows", check(ctx, runs))
    unique = list(dict.fromkeys(problems))
    if len(unique) > _MOST:
        rest = f"{len(unique) - _MOST} more problems are not listed"
        return [*unique[:_MOST], error(str(ctx.folder.path), rest, "begin with those above")]
    return unique


def _context(place: Folder | str | Path) -> MailContext:
    return MailContext(place if isinstance(place, Folder) else Folder(place), now_ms)


def _always() -> bool:
    """Say that the writer lives: then nobody undoes its unfinished commit."""
    return True


def _collect(problems: list[Problem], where: str, found: Iterable[Problem]) -> list[Problem]:
    """Add what a check finds; a check that cannot continue becomes a problem itself."""
    mine: list[Problem] = []
    try:
        mine.extend(found)
    except ThreadkeepError as trouble:
        mine.append(error(where, trouble.message, trouble.hint))
    problems.extend(mine)
    return mine


# ------------------------------------------------------------------ one file


def _check_file(file: SharedFile, shape: Side, runs: Running | None) -> Iterator[Problem]:
    name = file.path.name
    yield from _logs(file.path)
    try:
        with file.read(owner_runs=runs) as tx:
            yield from _sound(tx, name)
            yield from _verifying_tables(tx, name, shape)
    except Busy:
        if not os.path.lexists(f"{file.path}-journal"):
            raise
        yield error(name, "holds a commit that its writer did not finish", _UNFINISHED)


_UNFINISHED: Final = "if that writer is dead, the next one to open the file undoes it"


def _logs(path: Path) -> Iterator[Problem]:
    for suffix in ("-wal", "-shm"):
        if os.path.lexists(f"{path}{suffix}"):
            yield error(
                f"{path.name}{suffix}", "belongs to no mailbox", "who opened it in WAL mode?"
            )


def _sound(tx: Tx, name: str) -> Iterator[Problem]:
    # The quick one does not compare indexes with their tables, and a poll goes by an index.
    for (said,) in tx.all(Sql(f"PRAGMA integrity_check({_DAMAGES})")):
        if said != "ok":
            yield error(name, f"is damaged: {said}", _RESTORE)
    mode = tx.value(Sql("PRAGMA journal_mode"))
    if mode != "delete":
        yield error(name, f"has the journal mode {mode}", "only `delete` can be shared")


def _verifying_tables(tx: Tx, name: str, shape: Side) -> Iterator[Problem]:
    kinds: dict[str, str] = dict(tx.all(Sql("SELECT name, type FROM sqlite_master")))
    for table in shape.tables:
        kind = kinds.get(table)
        if kind is None and table in _MADE_LATER:
            continue
        if kind is None and table in _HOST_ADDS and shape.mark not in kinds:
            yield warning(f"{name}: {table}", "is missing", _OLDER)
            continue
        if kind != "table":
            what = "is missing" if kind is None else f"is a {kind}, not a table"
            yield error(f"{name}: {table}", what, _RESTORE)
            continue
        yield from _columns(tx, name, table)
    for trigger in sorted(n for n, kind in kinds.items() if kind == "trigger" and n[:3] != "tk_"):
        hint = "it runs with every write; check what it does"
        yield warning(name, f"has a trigger that is not ours: {trigger}", hint)


def _columns(tx: Tx, name: str, table: str) -> Iterator[Problem]:
    there = columns_of(tx, table)
    for column in _COLUMNS[table]:
        if column not in there:
            yield error(f"{name}: {table}", f"lacks the column {column}", _RESTORE)
    for column in _LATER.get(table, ()):
        if column not in there:
            yield warning(f"{name}: {table}", f"lacks the column {column}", _OLDER)

"""A look at a whole session folder for anything that is wrong with it; nothing is changed."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from threadkeep.base.clock import now_ms
from threadkeep.base.sqlite.shared_file import Running, SharedFile
from threadkeep.base.tx import Tx
from threadkeep.errors import Busy, ThreadkeepError
from threadkeep.mailbox import verify_files, verify_rows
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import INBOUND, OUTBOUND, Folder, Side, columns_of
from threadkeep.mailbox.problems import Problem, error, warning

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
    problems = [*verify_files.check(ctx.folder)]
    sides = ((ctx.folder.inbound, INBOUND), (ctx.folder.outbound, OUTBOUND))
    whole = [
        _collect(problems, file.path.name, _check_file(file, shape, runs)) for file, shape in sides
    ]
    sound = [not any(one.severity == "error" for one in found) for found in whole]
    of_mail = verify_rows.IN_CHECKS if sound[0] else ()
    of_both = verify_rows.BOTH_CHECKS if all(sound) else ()
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
    """Add what a check finds; a check that cannot go on becomes a problem itself."""
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
            yield from _tables(tx, name, shape)
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
    for (said,) in tx.execute(f"PRAGMA integrity_check({_DAMAGES})").fetchall():
        if said != "ok":
            yield error(name, f"is damaged: {said}", _RESTORE)
    mode = tx.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "delete":
        yield error(name, f"has the journal mode {mode}", "only `delete` can be shared")


def _tables(tx: Tx, name: str, shape: Side) -> Iterator[Problem]:
    kinds = dict(tx.execute("SELECT name, type FROM sqlite_master").fetchall())
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
        hint = "it runs with every write; look what it does"
        yield warning(name, f"has a trigger that is not ours: {trigger}", hint)


def _columns(tx: Tx, name: str, table: str) -> Iterator[Problem]:
    there = columns_of(tx, table)
    for column in _COLUMNS[table]:
        if column not in there:
            yield error(f"{name}: {table}", f"lacks the column {column}", _RESTORE)
    for column in _LATER.get(table, ()):
        if column not in there:
            yield warning(f"{name}: {table}", f"lacks the column {column}", _OLDER)

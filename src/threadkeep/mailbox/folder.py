"""The folder of one session: two databases, a heartbeat, and attachments on their way.

<root>/<agent group>/<session>/
    inbound.db     the host writes, the container reads
    outbound.db    the container writes, the host reads
    .heartbeat     touched by the container
    inbox/<id>/    attachments to the agent
    outbox/<id>/   attachments from the agent
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from threadkeep.base.files import (
    PRIVATE_DIR,
    create_private_file,
    make_private_dir,
    sync_dir,
    translate_os,
)
from threadkeep.base.presence import forget, is_held, touch, touched_ms
from threadkeep.base.sql import load_queries, load_text
from threadkeep.base.sqlite.shared_file import DEFAULT_BUDGET, SharedFile
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Damaged, Invalid, NotFound
from threadkeep.mailbox.attachments import is_safe_name
from threadkeep.mailbox.records import Direction

_HERE: Final = "threadkeep.mailbox"
_IN_TABLES: Final = ("messages_in", "delivered", "destinations", "session_routing")
_OUT_TABLES: Final = ("messages_out", "processing_ack", "session_state", "container_state")
# What older builds lack, and what to write into rows that are there.
_ADDED: Final = {
    ("messages_in", "series_id"): "TEXT",
    ("messages_in", "trigger"): "INTEGER NOT NULL DEFAULT 1",
    ("messages_in", "source_session_id"): "TEXT",
    ("messages_in", "on_wake"): "INTEGER NOT NULL DEFAULT 0",
    ("delivered", "platform_message_id"): "TEXT",
    ("delivered", "status"): "TEXT NOT NULL DEFAULT 'delivered'",
    ("session_state", "updated_at"): "TEXT NOT NULL DEFAULT ''",
}


class Owner(NamedTuple):
    """Whose files a sandboxed agent finds its own to write."""

    uid: int
    gid: int


class Folder:
    """The paths of one session folder, and its two databases."""

    def __init__(self, path: str | Path, *, budget: float = DEFAULT_BUDGET) -> None:
        """Name the files of a folder; `budget` is how long a transaction waits, in seconds."""
        self.path: Final = _absolute(path)
        self.inbound_path: Final = self.path / "inbound.db"
        self.outbound_path: Final = self.path / "outbound.db"
        self.heartbeat_path: Final = self.path / ".heartbeat"
        self.inbox_path: Final = self.path / "inbox"
        self.outbox_path: Final = self.path / "outbox"
        self.inbound: Final = SharedFile(self.inbound_path, inbound_queries(), budget=budget)
        self.outbound: Final = SharedFile(self.outbound_path, outbound_queries(), budget=budget)

    @property
    def beside_inbound(self) -> Mapping[str, Path]:
        """What a query on the inbound side needs to see of the other one."""
        return {"outbound": self.outbound_path}

    @property
    def host_lock_path(self) -> Path:
        """The lock of the host's loops: beside the folder, where the agent cannot reach it."""
        return self.path.with_name(f".{self.path.name}.host.lock")

    @property
    def agent_lock_path(self) -> Path:
        """The lock of the one container that works in the folder."""
        return self.path / ".agent.lock"

    def need(self) -> "Folder":
        """Return the folder itself; raise if it is not a session folder."""
        if not all(map(os.path.exists, (self.inbound_path, self.outbound_path))):
            msg = f"{self.path} is not a mailbox: inbound.db and outbound.db are not both there"
            raise NotFound(msg, hint="`threadkeep mail new` creates one; `mail ls` shows all")
        return self

    def beat(self, at: int | None = None) -> None:
        """Show a heartbeat, or set the time of the last one."""
        touch(self.heartbeat_path, at)

    def heartbeat_ms(self) -> int | None:
        """Return the last heartbeat, None if there was none since the last start."""
        return touched_ms(self.heartbeat_path)

    def forget_heartbeat(self) -> None:
        """Take the old heartbeat away: a new container has not shown any yet."""
        forget(self.heartbeat_path)


# ------------------------------------------------------------------ paths


def _absolute(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        msg = f"the place of a mailbox must be a path, not {type(path).__name__}"
        raise Invalid(msg, hint="pass it as text or as a Path")
    return Path(os.path.abspath(path))


def session_dir(root: str | Path, agent_group_id: str, session_id: str) -> Path:
    """Return the folder of a session below the root of all of them."""
    for part in (agent_group_id, session_id):
        if not is_safe_name(part):
            raise Invalid(f"{part[:80]!r} cannot name a folder", hint="use letters, digits and -")
    return Path(root) / agent_group_id / session_id


def inbound_db_path(root: str | Path, agent_group_id: str, session_id: str) -> Path:
    """Return the path of a session's inbound.db."""
    return session_dir(root, agent_group_id, session_id) / "inbound.db"


def outbound_db_path(root: str | Path, agent_group_id: str, session_id: str) -> Path:
    """Return the path of a session's outbound.db."""
    return session_dir(root, agent_group_id, session_id) / "outbound.db"


def heartbeat_path(root: str | Path, agent_group_id: str, session_id: str) -> Path:
    """Return the path of a session's heartbeat."""
    return session_dir(root, agent_group_id, session_id) / ".heartbeat"


# ------------------------------------------------------------------ making and mending


class Side(NamedTuple):
    """How one of the two files is shaped: NanoClaw's tables, then what we add."""

    head: str
    side: str
    tables: tuple[str, ...]
    mark: str


INBOUND: Final = Side("inbound.sql", "inbound_side.sql", _IN_TABLES, "tk_failed_stays")
OUTBOUND: Final = Side("outbound.sql", "outbound_side.sql", _OUT_TABLES, "tk_row_hash")


def provision(path: str | Path, owner: Owner | None = None) -> Folder:
    """Make a session folder, or complete one; what is there is kept.

    With an `owner` (a host that runs as root, an agent that does not) everything belongs to it.
    What root adds to a folder belongs to the owner of that folder.
    """
    folder = Folder(path)
    make_private_dir(folder.path)
    _make_dir(folder.outbox_path)
    _make_database(folder.inbound_path, INBOUND)
    _make_database(folder.outbound_path, OUTBOUND)
    bring_up_inbound(folder)
    bring_up_outbound(folder)
    _give(folder, owner)
    sync_dir(folder.path)
    return folder


def _give(folder: Folder, owner: Owner | None) -> None:
    found = os.lstat(folder.path)
    if owner is None and os.geteuid() != 0:
        return
    wanted = owner or Owner(found.st_uid, found.st_gid)
    # The folder comes last: from then on its new owner can change what is in it.
    for place in (folder.outbox_path, folder.inbound_path, folder.outbound_path, folder.path):
        there = os.lstat(place)
        if (there.st_uid, there.st_gid) != wanted:
            try:
                os.chown(place, *wanted, follow_symlinks=False)
            except OSError as error:
                raise translate_os(error, place, "cannot give away") from error


def _make_database(path: Path, shape: Side) -> None:
    create_private_file(path, lambda spare: _shape(spare, shape))
    # A process that died right after naming the file left it with a second name.
    for spare in path.parent.glob(f".{path.name}.*.new"):
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(spare), os.lstat(path)):
                spare.unlink()


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    except OSError as error:
        raise translate_os(error, path, "cannot create the folder") from error
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise Damaged(f"{path} is a link, not a folder", hint="look at it, then remove it")


def bring_up_inbound(folder: Folder) -> None:
    """Add to an inbound.db what older builds and NanoClaw leave out; only the host may."""
    _bring_up(folder.inbound, INBOUND)


def bring_up_outbound(folder: Folder) -> None:
    """Add to an outbound.db what older builds and NanoClaw leave out; only the container may."""
    _bring_up(folder.outbound, OUTBOUND)


def take_checks_out(folder: Folder) -> None:
    """Let an outbound.db of an earlier build take every number; a host may while no agent runs.

    Such a file refuses what hosts of NanoClaw write among the agent's mail, without a word.
    """
    with folder.outbound.read() as tx:
        if not _checked_tables(tx):
            return
    if not is_held(folder.agent_lock_path):
        with folder.outbound.write() as tx:
            _take_checks_out(tx)


def _bring_up(file: SharedFile, shape: Side) -> None:
    with file.read() as tx:
        if _is_complete(tx, shape) and not _checked_tables(tx):
            return
    with file.write() as tx:
        _take_checks_out(tx)
        # The columns first: the head has an index over one of them.
        for (table, column), declared in _missing_columns(tx, shape).items():
            tx.run(Sql(f"ALTER TABLE {table} ADD COLUMN {column} {declared}"))
            if column == "series_id":
                tx.run(Sql("UPDATE messages_in SET series_id = id WHERE series_id IS NULL"))
        _run_script(tx, shape.head)
        _run_script(tx, shape.side)


def _is_complete(tx: Tx, shape: Side) -> bool:
    wanted = (*shape.tables, shape.mark)
    found = {name for (name,) in tx.all(Sql("SELECT name FROM sqlite_master"))}
    return found.issuperset(wanted) and not _missing_columns(tx, shape)


def _missing_columns(tx: Tx, shape: Side) -> dict[tuple[str, str], str]:
    present = {table: columns_of(tx, table) for table in shape.tables}
    return {
        (table, column): declared
        for (table, column), declared in _ADDED.items()
        if present.get(table) and column not in present[table]
    }


def _checked_tables(tx: Tx) -> list[tuple[str, str]]:
    """Return the tables, with their SQL, that still have a rule about numbers which was ours."""
    rows = tx.all(Sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    # What another table refers to is left alone: to remake it would touch the rows of that one.
    return [
        (name, sql)
        for name, sql in rows
        if _CHECKS.get(name, "\0") in str(sql) and not tx.one(Sql(_REFERRED), (name,))
    ]


def _take_checks_out(tx: Tx) -> None:
    """Remake tables without their rule about numbers, with all rows, columns and indexes.

    In one transaction: whoever else has the file open sees it before or after.
    """
    for name, sql in _checked_tables(tx):
        columns = ", ".join(f'"{c}"' for c in ("rowid", *_columns_in_order(tx, name)))
        made = sql.replace(_CHECKS[name], "", 1)
        body = made[made.index("(") :]
        around = tx.all(Sql(_AROUND), (name,))
        tx.run(Sql("PRAGMA legacy_alter_table = ON"))  # or triggers elsewhere would be looked at
        tx.run(Sql(f"CREATE TABLE tk_remade {body}"))
        tx.run(Sql(f"INSERT INTO tk_remade ({columns}) SELECT {columns} FROM {name}"))  # noqa: S608
        tx.run(Sql(f"DROP TABLE {name}"))
        tx.run(Sql(f"ALTER TABLE tk_remade RENAME TO {name}"))
        for (statement,) in around:
            tx.run(Sql(statement))


_CHECKS: Final = {"messages_out": " CHECK (seq % 2 = 1)"}
_REFERRED: Final = """SELECT 1 FROM sqlite_master m, pragma_foreign_key_list(m.name) f
                      WHERE m.type = 'table' AND lower(f."table") = ?"""
_AROUND: Final = """SELECT sql FROM sqlite_master
                    WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL"""


def _columns_in_order(tx: Tx, table: str) -> list[str]:
    rows = tx.all(Sql("SELECT name FROM pragma_table_info(?) ORDER BY cid"), (table,))
    return [str(name).replace('"', '""') for (name,) in rows]


def columns_of(tx: Tx, table: str) -> frozenset[str]:
    """Return the names of a table's columns."""
    rows = tx.all(Sql("SELECT name FROM pragma_table_info(?)"), (table,))
    return frozenset(name for (name,) in rows)


def _shape(spare: Path, shape: Side) -> None:
    file = SharedFile(spare, {})
    with file.write() as tx:
        _run_script(tx, shape.head)
        _run_script(tx, shape.side)


def _run_script(tx: Tx, name: str) -> None:
    for statement in _statements(name):
        tx.run(Sql(statement))


@cache
def _statements(name: str) -> tuple[str, ...]:
    return tuple(split_statements(load_text(_HERE, name)))


@cache
def inbound_queries() -> Mapping[str, str]:
    """Return the named queries on an inbound.db."""
    return load_queries(_HERE, "in_queries.sql")


@cache
def outbound_queries() -> Mapping[str, str]:
    """Return the named queries on an outbound.db."""
    return load_queries(_HERE, "out_queries.sql")


# ------------------------------------------------------------------------------
# All mail of one direction, for whoever reads a folder that another program is writing.

_LARGEST: Final = 4 * 1024 * 1024  # characters of one row: no honest mail has more
_HANDFUL: Final = 500  # rows that are read together


def size_of_mail(folder: Folder, direction: Direction) -> tuple[int, ...]:
    """Count the mail of one direction; with its last numbers and its length, to see it grow."""
    file, table = _side(folder, direction)
    with file.read(owner_runs=_lives) as tx:
        sql = "SELECT count(*), max(rowid), max(seq), sum(length(content))"
        return tx.one(Sql(f"{sql} FROM {table}")) or ()


def all_mail(
    folder: Folder, direction: Direction, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the mail of one direction by its numbers, those of `columns` that there are.

    A few megabytes are read at a time: so nobody who writes waits for long, and a file of any size
    fits into our memory.
    """
    file, table = _side(folder, direction)
    for some in _handfuls(file, table):
        with file.read(owner_runs=_lives) as tx:
            there = columns_of(tx, table)
            names = [column for column in columns if column in there]
            wanted, marks = ", ".join(map(_shortened, names)), ", ".join("?" * len(some))
            sql = f"SELECT rowid, {wanted} FROM {table} WHERE rowid IN ({marks})"  # noqa: S608
            found = {number: row for number, *row in tx.all(Sql(sql), some)}
        for number in some:
            if number in found:  # else it was purged meanwhile
                yield dict(zip(names, found.pop(number), strict=True))


def _side(folder: Folder, direction: Direction) -> tuple[SharedFile, str]:
    if direction == "in":
        return folder.inbound, "messages_in"
    return folder.outbound, "messages_out"


def _lives() -> bool:
    """Say that the other side lives: only the host may undo what it left unfinished."""
    return True


def _handfuls(file: SharedFile, table: str) -> Iterator[list[int]]:
    with file.read(owner_runs=_lives) as tx:
        sql = f"SELECT rowid, min(length(content), {_LARGEST}) FROM {table} ORDER BY seq, rowid"  # noqa: S608
        sizes = tx.all(Sql(sql))
    some: list[int] = []
    size = 0
    for number, length in sizes:
        some.append(number)
        size += length or 0
        if size >= _LARGEST or len(some) >= _HANDFUL:
            yield some
            some, size = [], 0
    if some:
        yield some


def _shortened(column: str) -> str:
    return f"substr(content, 1, {_LARGEST})" if column == "content" else f'"{column}"'

"""What capture remembers of each log: how it looked, how far it was read, its parser's state."""

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.base.compression import compress, compressed_size, decompress, is_compressed
from threadkeep.base.schema import columns_of
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.errors import Damaged
from threadkeep.knowledge.archive import drop_lines

# Whose folders are known projects. Commands are read row by row: of a thousand that takes 3 ms.
_SESSIONS: Final = 1000
_COMMANDS: Final = 100
_LARGE_STATE: Final = 3072


class LogRow(msgspec.Struct):
    """One log that was found, and how far it has been read."""

    reader: str
    harness: str
    path: str
    item: str = ""
    id: int = 0  # 0: not stored yet
    session_id: str = ""
    size: int = 0
    mtime_ns: int = 0
    device: int = 0
    inode: int = 0
    fingerprint: str = ""
    read_to: int = 0
    head: bytes | None = None
    head_size: int = 0
    tail: bytes | None = None
    lines: int = 0
    bad_lines: int = 0
    source_bytes: int = 0
    parser: bytes | None = None
    excluded: bool = False
    captured_at: int | None = None
    gone_at: int | None = None
    error: str | None = None
    # What `load_marks` fills in; what is None is not changed when the row is saved.
    ctime_ns: int | None = None
    crc: int | None = None
    checked_at: int | None = None


class LogState(msgspec.Struct, gc=False):
    """How a log looked when it was last read, all that deciding whether to read it again needs."""

    id: int
    stamp: tuple[int, ...]  # size, mtime, device, inode, ctime
    head: bytes | None
    head_size: int
    read_to: int
    tail: bytes | None
    gone: bool
    failed: bool
    excluded_by: str | None  # the name of the rules that kept it, or sessions in it, out
    crc: int | None  # of all that was read; None: nobody has summed it up yet
    checked_at: int | None  # when all that was read was last compared with that
    captured_at: int | None

    def is_untouched(self, stamp: tuple[int, ...]) -> bool:
        """Tell whether nobody did anything to a log; of older versions no ctime is known."""
        return self.stamp == stamp or (not self.stamp[4] and self.is_current(stamp))

    def is_current(self, stamp: tuple[int, ...]) -> bool:
        """Tell whether a log has the size and time it had: all that programs write shows there."""
        return self.stamp[:4] == stamp[:4]

    @property
    def is_checked(self) -> bool:
        """Tell whether nothing was read since all of it was compared."""
        return self.crc is not None and (self.checked_at or 0) >= (self.captured_at or 0)


def keeps_sums(tx: Tx) -> bool:
    """Tell whether a file that is only looked at was ever open for writing in this version."""
    return "crc" in columns_of(tx, "tk_logs")


def all_looks(tx: Tx, reader: str, *, sums: bool = True) -> dict[str, LogState]:
    """Give how every log of one source looked, by its path; `sums` is what `keeps_sums` says."""
    query = "log_looks" if sums else "old_log_looks"
    return {from_sql(row[0]): _looks(*row[1:]) for row in tx.all(query, {"reader": reader})}


def _looks(id_: int, *row: Any) -> LogState:
    head, head_size, read_to, tail, gone, failed, *marks = row[5:]
    read = (head, head_size, read_to, tail)
    return LogState(id_, row[:5], *read, bool(gone), bool(failed), *marks)


def load_marks(tx: Tx, row: LogRow) -> LogRow:
    """Fill in what is remembered of the bytes that were read of a log."""
    marks = tx.one("log_marks", {"id": row.id})
    if marks is not None:
        row.ctime_ns, row.crc, row.checked_at = marks
    return row


def known_projects(tx: Tx) -> list[Path]:
    """Give the folders in which agents and shells worked lately, or that hold a log."""
    limits = {"sessions": _SESSIONS, "commands": _COMMANDS}
    rows = tx.all("known_projects", limits)
    folders = {from_sql(row[0]) for row in rows if row[0]}
    folders.update(os.path.dirname(from_sql(row[0])) for row in tx.all("logs_in_projects"))  # noqa: PTH120
    return sorted(Path(folder) for folder in folders if folder.startswith("/"))


def load_log(tx: Tx, reader: str, path: str, item: str = "") -> LogRow | None:
    """Give the row of a log, None if it was never seen."""
    row = tx.one("log_by_place", {"reader": reader, "path": path, "item": item})
    return None if row is None else _log(row)


def load_log_by_id(tx: Tx, log_id: int) -> LogRow | None:
    """Give the row of a log by its number."""
    row = tx.one("log_by_id", {"id": log_id})
    return None if row is None else _log(row)


def logs_of_session(tx: Tx, harness: str, session_id: str) -> list[LogRow]:
    """Give the logs in which a session stands, in the order in which they were found."""
    rows = tx.all("logs_of_session", {"harness": harness, "session_id": session_id})
    return [_log(row) for row in rows]


def all_logs(tx: Tx, harness: str | None = None) -> list[LogRow]:
    """Give every log, or those of one harness."""
    return [_log(row) for row in tx.all("all_logs", {"harness": harness})]


def fingerprints(tx: Tx, reader: str, path: str) -> dict[str, str]:
    """Give the fingerprint under which each session of a database was read last."""
    return dict(tx.all("log_fingerprints", {"reader": reader, "path": path}))


def save_log(tx: Tx, log: LogRow) -> None:
    """Store a log; a new one gets its number."""
    values = {name: getattr(log, name) for name in LogRow.__struct_fields__}
    values["parser"] = _packed(log.parser)
    if log.id:
        tx.run("update_log", values)
        tx.run("place_log", values)
    else:
        log.id = tx.insert("insert_log", {**values, "id": None})


def _log(row: tuple[Any, ...]) -> LogRow:
    log = LogRow(*row)
    log.path = from_sql(log.path)  # a name that is no UTF-8 is stored as bytes
    log.excluded = bool(log.excluded)
    log.parser = _unpacked(log.parser)
    return log


def _packed(state: bytes | None) -> bytes | None:
    """Compress a state that does not fit into a page: it is written with every line."""
    return state if state is None or len(state) < _LARGE_STATE else compress(state)


def _unpacked(state: bytes | None) -> bytes | None:
    if state is None or not is_compressed(state):
        return state
    try:
        return decompress(state, compressed_size(state))
    except Damaged:
        return state  # its parser cannot read it either, and whoever asks it says so


def drop_notes(tx: Tx, reader: str, harness: str, session_id: str) -> None:
    """Take out what only notes told of a session, with the log that they were kept as."""
    named = {"harness": harness, "session_id": session_id}
    for log, session in tx.all("notes_of_session", {**named, "reader": reader}):
        drop_lines(tx, log)
        for step in ("delete_log_entries", "delete_log_records", "delete_log_unknown"):
            tx.run(step, {"log": log})
        tx.run("delete_log", {"log": log})
        tx.run("drop_usage_of_notes", named)
        if session is not None:
            tx.run("recount_session", {"session": session})
            tx.run("unname_noted", {"session": session})

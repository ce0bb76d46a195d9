"""What capture remembers of each log: how it looked, how far it was read, its parser's state."""

from typing import Any

import msgspec

from threadkeep.base.sqlite import Tx
from threadkeep.base.text import from_sql


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


class Looks(msgspec.Struct, gc=False):
    """How a log looked when it was last read, all that deciding whether to read it again needs."""

    id: int
    stamp: tuple[int, int, int, int]
    head: bytes | None
    head_size: int
    read_to: int
    tail: bytes | None
    gone: bool
    failed: bool
    excluded_by: str | None  # the name of the rules that kept it, or sessions in it, out


def all_looks(tx: Tx, reader: str) -> dict[str, Looks]:
    """Give how every log of one source looked, by its path."""
    return {from_sql(row[0]): _looks(*row[1:]) for row in tx.all("log_looks", {"reader": reader})}


def _looks(id_: int, *row: Any) -> Looks:
    size, mtime, device, inode, head, head_size, read_to, tail, gone, failed, by = row
    read = (head, head_size, read_to, tail)
    return Looks(id_, (size, mtime, device, inode), *read, bool(gone), bool(failed), by)


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
    if log.id:
        tx.run("update_log", values)
    else:
        log.id = tx.insert("insert_log", {**values, "id": None})


def _log(row: tuple[Any, ...]) -> LogRow:
    log = LogRow(*row)
    log.path = from_sql(log.path)  # a name that is no UTF-8 is stored as bytes
    log.excluded = bool(log.excluded)
    return log

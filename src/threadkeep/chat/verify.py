"""Checking a chat store: SQLite's own checks, then every row against its content hash."""

import msgspec

from threadkeep.base.checks import sqlite_problems
from threadkeep.base.hashes import content_hash
from threadkeep.base.sqlite import Database
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext
from threadkeep.chat.journal import check_row, read_open
from threadkeep.chat.rows import COLUMNS, TABLES
from threadkeep.chat.runs import prompt_digest
from threadkeep.errors import Damaged, ThreadkeepError

_FEW = 20
_BATCH = 1000


class VerifyReport(msgspec.Struct):
    """What a check found; `ok` when nothing is wrong."""

    problems: list[str] = msgspec.field(default_factory=list)
    checked: int = 0
    unhashed: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether no problem was found."""
        return not self.problems


def verify(ctx: ChatContext, *, adopt: bool = True) -> VerifyReport:
    """Check the whole store.

    Rows that another program wrote carry no hash; they are counted, and with `adopt` hashed as
    they are now, so that later damage to them is noticed.
    """
    report = check_database(ctx.db)
    if adopt and report.ok and report.unhashed and not ctx.db.read_only:
        with ctx.db.write() as tx:
            for kind in TABLES:
                adopt_unhashed(tx, kind)
    return report


def check_database(database: Database) -> VerifyReport:
    """Check a database that has the chat schema, without changing it."""
    report = VerifyReport()
    try:
        with database.read() as tx:
            report.problems += sqlite_problems(tx)
            if not report.problems:
                for kind in TABLES:
                    _check_rows(tx, kind, report)
                _check_journal(tx, report)
                _check_recordings(tx, report)
                _check_prompts(tx, report)
        report.problems += [] if report.problems else _index_problems(database)
    except ThreadkeepError as error:
        report.problems.append(str(error))
    return report


def problems_of(database: Database) -> list[str]:
    """Give the problems of a database, for backups to be judged by."""
    return check_database(database).problems


def _select(kind: str, where: str) -> str:
    columns = ", ".join(f't."{name}"' for name in COLUMNS[kind])
    return f'SELECT h.hash, {columns} FROM "{TABLES[kind]}" t {where}'  # noqa: S608


_WITH_HASH = "LEFT JOIN tk_hashes h ON h.kind = '{kind}' AND h.id = t.id"


def _check_rows(tx: Tx, kind: str, report: VerifyReport) -> None:
    for row in tx.execute(_select(kind, _WITH_HASH.format(kind=kind))):
        report.checked += 1
        if row[0] is None:
            report.unhashed += 1
        elif content_hash(*row[1:]) != row[0]:
            _complain(report, f"the {kind} {from_sql(row[1])!r} is not as it was written")
    missing = f"""SELECT h.id FROM tk_hashes h LEFT JOIN "{TABLES[kind]}" t ON t.id = h.id
                  WHERE h.kind = '{kind}' AND t.id IS NULL"""  # noqa: S608
    for (row_id,) in tx.execute(missing):
        _complain(report, f"the {kind} {from_sql(row_id)!r} is missing")


def _check_journal(tx: Tx, report: VerifyReport) -> None:
    stream, seq = "", 0
    sql = (
        "SELECT stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum"
        " FROM chat_events WHERE (stream_id, seq) > (?, ?) ORDER BY stream_id, seq LIMIT ?"
    )
    while rows := tx.execute(sql, (stream, seq, _BATCH)).fetchall():
        for row in rows:
            try:
                check_row(row)
            except Damaged as error:
                _complain(report, error.message)
        stream, seq = rows[-1][0], rows[-1][1]
        report.checked += len(rows)


def _check_recordings(tx: Tx, report: VerifyReport) -> None:
    for message_id, noted in tx.execute("SELECT message_id, open_json FROM tk_recordings"):
        report.checked += 1
        try:
            read_open(noted, from_sql(message_id))
        except Damaged as error:
            _complain(report, error.message)


def _check_prompts(tx: Tx, report: VerifyReport) -> None:
    # The guide suggests this table to everybody: rows of another shape are another program's.
    ours = "SELECT digest, body FROM system_prompts WHERE body IS NOT NULL AND length(digest) = 64"
    for digest, body in tx.execute(ours):
        report.checked += 1
        if prompt_digest(from_sql(body)) != digest:
            _complain(report, f"the system prompt {digest!r} is not as it was written")


def _complain(report: VerifyReport, problem: str) -> None:
    if len(report.problems) < _FEW:
        report.problems.append(problem)


def _index_problems(database: Database) -> list[str]:
    """The full-text index must at least answer; its words can always be built anew."""
    try:
        with database.read() as tx:
            tx.execute("SELECT rowid FROM tk_search WHERE tk_search MATCH 'a'").fetchone()
    except ThreadkeepError as error:
        return [f"the full-text index is damaged: {error.message} (reindex builds it anew)"]
    return []


def adopt_unhashed(tx: Tx, kind: str) -> int:
    """Hash the rows that have no hash yet; give how many there were."""
    where = _WITH_HASH.format(kind=kind) + " WHERE h.hash IS NULL"
    rows = tx.execute(_select(kind, where)).fetchall()
    for row in rows:
        params = {"kind": kind, "id": row[1], "hash": content_hash(*row[1:])}
        tx.run("put_hash", params)
    return len(rows)

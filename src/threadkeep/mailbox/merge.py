"""Mail of another copy of a session folder, brought into ours: each message once.

Both copies may have gone on since they were one: rows go by their ids. What came to an end there
has an end here, and what was sent there is not sent again. What was said here stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.presence import is_held
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Conflict
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import Folder, bring_up_inbound, bring_up_outbound
from threadkeep.mailbox.inbound import LIVE
from threadkeep.mailbox.rows import CAP, keep_in_hash, mail_of, out_hash, out_of, read_moment

_IN_MARK: Final = "merged_in"
_OUT_MARK: Final = "merged_out"
_AT: Final = "merged_at"


class MailDifference(NamedTuple):
    """What the other copy has that ours lacks: rows by the names of their columns."""

    coming: Sequence[Mapping[str, Any]] = ()
    going: Sequence[Mapping[str, Any]] = ()
    ended: Sequence[Mapping[str, Any]] = ()
    """Mail that is still open here, as it ended there."""
    delivered: Sequence[Mapping[str, Any]] = ()
    acks: Sequence[Mapping[str, Any]] = ()
    marks: tuple[int, int] = (0, 0)

    @property
    def ids(self) -> list[str]:
        """The messages of either direction that are new here."""
        return [str(row["id"]) for row in (*self.coming, *self.going)]

    def __bool__(self) -> bool:
        """Tell whether there is anything to bring in."""
        return any((self.coming, self.going, self.ended, self.delivered))


def news(ctx: MailContext, other: Folder) -> MailDifference:
    """Find what another copy of a folder has that the one of `ctx` lacks; nothing is written."""
    ours = _Known.of(ctx)
    # Mail from the agent first: what was sent of it meanwhile is then known below.
    with other.outbound.read(owner_runs=_lives) as tx:
        out_mark, going = _new_rows(tx, "messages_out", ours.out_ids, ours.out_mark, ours.at)
        acks = [a for a in _rows(tx, "processing_ack") if a["status"] != "processing"]
    with other.inbound.read(owner_runs=_lives) as tx:
        in_mark, coming = _new_rows(tx, "messages_in", ours.statuses, ours.in_mark, ours.at)
        known = [row for row in _rows(tx, "messages_in") if row["id"] in ours.statuses]
        delivered = _rows(tx, "delivered")
    ended = [
        row
        for row in known
        if ours.statuses[row["id"]] in LIVE and (row["status"] or "pending") not in LIVE
    ]
    out_ids = ours.out_ids | {row["id"] for row in going}
    return MailDifference(
        coming,
        going,
        ended,
        [
            row
            for row in delivered
            if row["message_out_id"] in out_ids and row["message_out_id"] not in ours.delivered
        ],
        [ack for ack in acks if ack["message_id"] in {row["id"] for row in (*coming, *ended)}],
        (in_mark, out_mark),
    )


def _lives() -> bool:
    """Say that the writer lives: its unfinished commit is its own to finish."""
    return True


class _Known(NamedTuple):
    """What our copy has, and how far the other was brought in before."""

    statuses: Mapping[str, str]
    out_ids: frozenset[str]
    delivered: frozenset[str]
    in_mark: int
    out_mark: int
    at: int

    @classmethod
    def of(cls, ctx: MailContext) -> "_Known":
        with ctx.folder.inbound.read(ctx.folder.beside_inbound, owner_runs=ctx.running) as tx:
            rows = tx.all(Sql("SELECT id, status FROM messages_in"))
            outs = tx.all(Sql("SELECT id FROM outbound.messages_out"))
            sent = tx.all(Sql("SELECT message_out_id FROM delivered"))
            marks = _marks(tx)
        return cls(
            {message_id: status or "pending" for message_id, status in rows},
            frozenset(message_id for (message_id,) in outs),
            frozenset(message_id for (message_id,) in sent),
            int(marks.get(_IN_MARK, 0)),
            int(marks.get(_OUT_MARK, 0)),
            read_moment(marks.get(_AT)) or 0,
        )


def _marks(tx: Tx) -> dict[str, str]:
    there = tx.one(Sql("SELECT 1 FROM sqlite_master WHERE name = 'tk_meta'"))
    found = tx.all(Sql("SELECT key, value FROM tk_meta")) if there else []
    return {key: value for key, value in found if key in (_IN_MARK, _OUT_MARK, _AT)}


def _new_rows(
    tx: Tx, table: str, known: Iterable[str], mark: int, at: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the last rowid, and the rows that are not known here.

    What was there when we looked last, and is not here any more, was removed here. A rowid alone
    does not tell: it may be given again after a deletion.
    """
    ids = frozenset(known)
    rows = _rows(tx, table)
    new = [
        row
        for row in rows
        if isinstance(row["id"], str)
        and row["id"] not in ids
        and (row["rowid"] > mark or (read_moment(str(row["timestamp"])) or at) >= at)
    ]
    return max((row["rowid"] for row in rows), default=0), new


def _rows(tx: Tx, table: str) -> list[dict[str, Any]]:
    return tx.dicts(Sql(f"SELECT rowid AS rowid, * FROM {table} ORDER BY rowid"))  # noqa: S608


# ------------------------------------------------------------------ bringing in


def merge(ctx: MailContext, found: MailDifference) -> None:
    """Bring in what is new; done twice, it changes nothing.

    inbound.db comes first: it says what was sent already, before there is anything to send.
    """
    if is_held(ctx.folder.agent_lock_path):
        msg = f"an agent is running in {ctx.folder.path}, and its file belongs to it"
        raise Conflict(msg, hint="stop it first, then import again")
    bring_up_inbound(ctx.folder)
    bring_up_outbound(ctx.folder)
    with ctx.folder.inbound.write() as tx:
        for row in found.delivered:
            _insert(tx, "delivered", row)
        for row in found.ended:
            sql = "UPDATE messages_in SET status = :status, recurrence = :recurrence WHERE id = :id"
            tx.run(Sql(sql), {name: row[name] for name in ("status", "recurrence", "id")})
        for row in found.coming:
            _insert(tx, "messages_in", _numbered(tx, "messages_in", row))
            mail = tx.one("mail", {"id": row["id"]})
            if mail is not None:  # else the series continues here already
                keep_in_hash(tx, mail_of(mail))
    with ctx.folder.outbound.write() as tx:
        for row in found.acks:
            _insert(tx, "processing_ack", row)
        for row in found.going:
            _insert(tx, "messages_out", _numbered(tx, "messages_out", row))
            out: Row | None = tx.one("out", {"id": row["id"], "cap": CAP})
            if out is not None:
                tx.run("keep_hash", {"id": row["id"], "hash": out_hash(out_of(out))})
    remember(ctx, found.marks)


def remember(ctx: MailContext, marks: tuple[int, int] | None = None) -> None:
    """Keep how far another copy was brought in; without marks all that is here came from it."""
    bring_up_inbound(ctx.folder)
    told = marks or _last_rows(ctx)
    values = {_IN_MARK: str(told[0]), _OUT_MARK: str(told[1]), _AT: ctx.now_iso()}
    with ctx.folder.inbound.write() as tx:
        for key, value in values.items():
            tx.run("set_meta", {"key": key, "value": value})


def _last_rows(ctx: MailContext) -> tuple[int, int]:
    sql = """SELECT COALESCE((SELECT max(rowid) FROM messages_in), 0),
                    COALESCE((SELECT max(rowid) FROM outbound.messages_out), 0)"""
    with ctx.folder.inbound.read(ctx.folder.beside_inbound, owner_runs=ctx.running) as tx:
        ((last_in, last_out),) = tx.all(Sql(sql))
    return last_in, last_out


def _numbered(tx: Tx, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its number, or with the next of its kind if that is taken here."""
    taken = tx.one(Sql(f"SELECT 1 FROM {table} WHERE seq = ?"), (row["seq"],))  # noqa: S608
    if taken is None and isinstance(row["seq"], int):
        return dict(row)
    top = tx.value(Sql(f"SELECT COALESCE(max(seq), 0) FROM {table}"))  # noqa: S608
    odd = table == "messages_out"
    return {**row, "seq": max(top, 0) // 2 * 2 + 2 + (1 if odd else 0)}


def _insert(tx: Tx, table: str, row: Mapping[str, Any]) -> None:
    """Insert a row with all that it has; a column that our copy lacks is added."""
    asked = tx.all(Sql("SELECT name FROM pragma_table_info(?)"), (table,))
    there = {name for (name,) in asked}
    values = {name: value for name, value in row.items() if name != "rowid"}
    for name in values.keys() - there:
        tx.run(Sql(f"ALTER TABLE {table} ADD COLUMN {_quoted(name)}"))
    columns = ", ".join(map(_quoted, values))
    marks = ", ".join("?" * len(values))
    sql = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
    tx.run(Sql(sql), list(values.values()))


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))

"""Moving long values of ended sessions out of the messages, and back for good; only when asked.

What is to be moved is read and packed without a lock. Then short transactions write it, each
message whole, and pass by what somebody changed in between.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from threadkeep.base.hashes import fingerprint
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.errors import Damaged, Invalid
from threadkeep.state.check import problems_of
from threadkeep.state.context import MESSAGE_COLUMNS, Json, StateContext, carry_over
from threadkeep.state.rewind import hand_over_rewound
from threadkeep.state.rows import encode_content, update_rows
from threadkeep.state.schema import QUERIES, take_out
from threadkeep.state.session_config import need_session
from threadkeep.state.side_values import (
    FIELDS,
    Cut,
    cut,
    inline_messages,
    load,
    read_blob,
    to_column,
)
from threadkeep.state.verbs import write

_DAY: Final = 86_400.0
# A marker has 85 characters: below this, moving costs more than it gives.
_LEAST: Final = 256
# What is moved unless told otherwise, in characters.
_LONG: Final = 4096
_PAGE: Final = 200
# Characters in one transaction: some tens of milliseconds under the lock.
_AT_ONCE: Final = 4_000_000
_HASH: Final = re.compile(r"b2:[0-9a-f]{32}")


class _Move(NamedTuple):
    row: Row
    cuts: dict[str, Cut]

    def size(self) -> int:
        return sum(blob.size for part in self.cuts.values() for blob in part.blobs)


# ---------------------------------------------------------------------- out


def offload_blobs(ctx: StateContext, *, min_chars: int = _LONG, older_than_days: float = 0) -> Json:
    """Move base64, long tool output and long reasoning of ended sessions out of their messages.

    Each is kept once, compressed, and our readers get it back as it was; Hermes sees a marker.
    Gives how many messages, blobs and characters were moved, and the bytes they take now.
    """
    if min_chars < _LEAST:
        msg = f"blobs of {min_chars} characters are too small to be kept apart"
        raise Invalid(msg, hint=f"give min_chars of at least {_LEAST}")
    done = {"messages": 0, "blobs": 0, "characters": 0, "bytes": 0}
    long = long_messages(ctx, min_chars=min_chars, older_than_days=older_than_days)
    for moves in _batches(ctx, long, min_chars):
        for name, count in write(ctx, _move_all, moves).items():
            done[name] += count
    return done


def long_messages(
    ctx: StateContext, *, min_chars: int = _LONG, older_than_days: float = 0
) -> Iterator[int]:
    """Return the messages of ended sessions, idle for so many days, that are worth looking at."""
    cutoff = ctx.clock() - older_than_days * _DAY if older_than_days > 0 else None
    params = {"after": 0, "min_chars": min_chars, "cutoff": cutoff, "limit": _PAGE}
    while True:
        with ctx.db.read() as tx:
            ids = [int(row[0]) for row in tx.all("long_messages", params)]
        yield from ids
        if len(ids) < _PAGE:
            return
        params["after"] = ids[-1]


def _batches(ctx: StateContext, ids: Iterator[int], min_chars: int) -> Iterator[list[_Move]]:
    moves: list[_Move] = []
    size = 0
    for message_id in ids:
        with ctx.db.read() as tx:
            move = _plan(tx, message_id, min_chars)
        if move is not None:
            moves.append(move)
            size += move.size()
        if size >= _AT_ONCE or len(moves) >= _PAGE:
            yield moves
            moves, size = [], 0
    if moves:
        yield moves


def _plan(tx: Tx, message_id: int, min_chars: int) -> _Move | None:
    row = tx.one("get_message", {"id": message_id})
    if row is None or _is_damaged(tx, row):
        return None
    message = _as_dict(row)
    apart = {part[1] for part in _offloaded(tx, message_id)}
    cuts = {
        field: found
        for field in FIELDS
        if field not in apart and isinstance(message[field], str)
        if (found := cut(field, message["role"], message[field], min_chars)) is not None
    }
    return _Move(row, cuts) if cuts else None


def _is_damaged(tx: Tx, row: Row) -> bool:
    """A new fingerprint over a damaged row would hide the damage."""
    known = tx.value("hash_of_message", {"id": row[0]})
    return known is not None and known != fingerprint(row)


def _offloaded(tx: Tx, message_id: int) -> list[Row]:
    return tx.all("offloaded_between", {"first": message_id, "last": message_id})


def _as_dict(row: Row) -> Json:
    return dict(zip(MESSAGE_COLUMNS, row, strict=True))


def _move_all(_ctx: StateContext, tx: Tx, moves: Sequence[_Move]) -> dict[str, int]:
    done = {"messages": 0, "blobs": 0, "characters": 0, "bytes": 0}
    for move in moves:
        if _is_as_planned(tx, move):
            done["messages"] += 1
            done["characters"] += move.size()
            _move(tx, move, done)
    return done


def _is_as_planned(tx: Tx, move: _Move) -> bool:
    message_id, session_id = move.row[0], move.row[1]
    return (
        tx.one("get_message", {"id": message_id}) == move.row
        and tx.one("session_has_ended", {"id": session_id}) is not None
        and not {part[1] for part in _offloaded(tx, message_id)} & move.cuts.keys()
    )


def _move(tx: Tx, move: _Move, done: dict[str, int]) -> None:
    _rewrite(tx, _as_dict(move.row), {field: part.column for field, part in move.cuts.items()})
    for field, part in move.cuts.items():
        pieces = json.dumps(part.pieces)
        tx.run("put_offloaded", {"message_id": move.row[0], "field": field, "pieces": pieces})
        for blob in part.blobs:
            if tx.count("put_blob", blob._asdict()) > 0:
                done["blobs"] += 1
                done["bytes"] += len(blob.data)


def _rewrite(tx: Tx, message: Json, changes: dict[str, str | None]) -> None:
    """Rewrite columns; the fingerprint is over the columns as they are stored now."""
    message_id = message["id"]
    columns = {**message, **changes}
    tx.run("rewrite_message", {"id": message_id, **{field: columns[field] for field in FIELDS}})
    hash_ = fingerprint([columns[name] for name in MESSAGE_COLUMNS])
    tx.run("put_hash", {"id": message_id, "hash": hash_})


# ---------------------------------------------------------------------- back


def inline_blobs(ctx: StateContext, session_id: str | None = None) -> int:
    """Move what was offloaded back into the messages of a session, or of all; count the messages.

    A message whose blob is damaged is left as it is: `check` names it.
    """
    if session_id is not None:
        with ctx.db.read() as tx:
            need_session(tx, session_id)
    count, after = 0, 0
    while True:
        moved, last = write(ctx, _put_back, session_id, after)
        count += moved
        if last is None:
            break
        after = last
    sweep_blobs(ctx)
    return count


def _put_back(
    _ctx: StateContext, tx: Tx, session_id: str | None, after: int
) -> tuple[int, int | None]:
    """Put back some messages; give how many, and the last one looked at, None after the last."""
    params = {"after": after, "session_id": session_id, "limit": _PAGE}
    size = count = 0
    last = None
    for (message_id,) in tx.all("offloaded_messages", params):
        last = int(message_id)
        changes = _put_back_one(tx, last)
        count += bool(changes)
        size += sum(map(len, changes.values()))
        if size >= _AT_ONCE:
            break
    return count, last


def _put_back_one(tx: Tx, message_id: int) -> dict[str, str]:
    row = tx.one("get_message", {"id": message_id})
    if row is None or _is_damaged(tx, row):
        return {}
    whole = _as_dict(row)
    inline_messages(tx, [whole])
    before = _as_dict(row)
    changes = {field: whole[field] for field in FIELDS if whole[field] != before[field]}
    if changes:
        _rewrite(tx, before, dict(changes))
        for field in changes:
            tx.run("drop_offloaded", {"message_id": message_id, "field": field})
    return changes


# ---------------------------------------------------------------------- sweeping


def sweep_blobs(ctx: StateContext) -> int:
    """Remove blobs that no message refers to any more, not even a rewound one; count them."""
    with ctx.db.read() as tx:
        found = _unused(tx)
    return write(ctx, _drop_unused) if found else 0


def _drop_unused(_ctx: StateContext, tx: Tx) -> int:
    return sum(tx.count("drop_blob", {"hash": blob_hash}) for blob_hash in _unused(tx))


def _unused(tx: Tx) -> set[str]:
    unused = {str(row[0]) for row in tx.all("all_blobs")}
    if unused:
        for (pieces,) in tx.each(Sql(QUERIES["all_pieces"])):
            unused -= set(_HASH.findall(pieces))
    return unused


# ------------------------------------------------------------------------------
# Giving a file back to Hermes as if we had never had it.


def release(ctx: StateContext) -> Json:
    """Remove everything of ours from the file, and close the store; return what was removed.

    A backup is made first: what only our tables can hold is in it alone afterwards, such as
    relations and usage by day. Pins, lists as content and messages that were taken back stay where
    the file has Hermes's own columns for them. Offloaded values go back into their messages, and
    the full-text index is Hermes's own again, filled.
    """
    if not ctx.side:
        ctx.db.close()
        return {"removed": [], "backup": None}
    backup = make_backup(ctx.db, reason="before-release", check=problems_of)
    inline_blobs(ctx)
    with ctx.db.write() as tx:
        _, offloaded = tx.one("side_counts") or (0, 0)
        if offloaded:
            msg = f"{offloaded} offloaded values of {ctx.db.name} cannot be put back"
            raise Damaged(msg, hint="`threadkeep state check` names them; nothing was removed")
        form = ctx.forms.look(tx)
        carry_over(tx, form)
        if form.answers.marked_rewinds:
            hand_over_rewound(ctx, tx)
        if form.answers.content_in_column:
            _hand_over_contents(ctx, tx)
        removed = take_out(tx)
    ctx.db.close()
    return {"removed": removed, "backup": str(backup)}


def _hand_over_contents(ctx: StateContext, tx: Tx) -> None:
    """Write lists and dicts into their messages, unless another program has changed these."""
    for message_id, kind, value, column in tx.all("exact_contents"):
        try:
            exact = load(kind, value, partial(read_blob, tx))
        except ValueError:
            continue  # its readable form stays
        if isinstance(exact, (list, dict)) and to_column(exact, "content").column == column:
            content = {"content": encode_content(exact)}
            update_rows(ctx, tx, "messages", {"id": message_id}, content)

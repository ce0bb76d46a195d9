"""The journal: every chunk of an unfinished message as one appended row.

Part rows are folded from it (see the recorder); part row plus the chunks after the fold is the
exact state. The same rows answer live tails. With the event log off, the rows of a finished
message go away, but for chunks of unknown types; with it on they stay, and every other verb leaves
an event too.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from threadkeep.base import json
from threadkeep.base.hashes import checksum
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext
from threadkeep.chat.records import Json, read_object
from threadkeep.chat.rows import PartRow, image
from threadkeep.chat.wire.reduce import Change, StreamState
from threadkeep.errors import Damaged

CHUNK = "chunk"
# A chunk of a type that its version of the stream does not have. It changes no part, so its row
# here is all there is of it: it stays when the message is finished, with the log off as well.
UNKNOWN = "unknown"
BASE = "base"
EVENT_LOG = "event_log"


def event(
    session_id: str,
    kind: str,
    data_json: str,
    *,
    at: int,
    message_id: str | None = None,
    part_id: str | None = None,
) -> Json:
    """Return the columns of an event but for its number."""
    return {
        "stream_id": session_id,
        "kind": kind,
        "message_id": message_id,
        "part_id": part_id,
        "data_json": data_json,
        "created_at": at,
        "checksum": checksum(
            data_json, at, behind=_sum_of_names(session_id, kind, message_id, part_id)
        ),
    }


_sum_of_names = lru_cache(maxsize=64)(checksum)


class JournalEntry(msgspec.Struct, frozen=True):
    """A chunk on its way into the journal; `late` is the earlier part that it has the result of."""

    chunk: Json
    text: str
    change: Change
    at: int
    part_id: str | None
    late: PartRow | None = None

    def message_of(self, message_id: str) -> str:
        """Return the message that it belongs to, where `message_id` is being recorded."""
        return message_id if self.late is None else self.late.message_id

    def columns(self, session_id: str, message_id: str) -> Json:
        """Return the columns of its event, in a message that is being recorded."""
        return event(
            session_id,
            UNKNOWN if self.change.unknown else CHUNK,
            self.text,
            at=self.at,
            message_id=self.message_of(message_id),
            part_id=self.part_id if self.late is None else self.late.id,
        )


def append(tx: Tx, columns: Json, number: int = 0) -> int:
    """Append one event to its session's journal and give its number.

    One that had a `number` before a crash of the server gets it back, if nobody has it by now.
    """
    return int(tx.value("append_event", {**columns, "number": number}))


def last_seq(tx: Tx, session_id: str) -> int:
    """Return the number of a stream's last event, whether its row is still there or not."""
    return int(tx.value("last_seq", {"stream_id": session_id}))


def put_at(
    tx: Tx,
    session_id: str,
    seq: int,
    kind: str,
    data_json: str,
    *,
    at: int,
    message_id: str | None = None,
) -> None:
    """Write an event at a number of its own: one that is free."""
    params = {
        "stream_id": session_id,
        "seq": seq,
        "kind": kind,
        "message_id": message_id,
        "data_json": data_json,
        "created_at": at,
        "checksum": checksum(session_id, kind, message_id, None, data_json, at),
    }
    tx.run("put_event_at", params)


def log_is_on(tx: Tx) -> bool:
    """Tell whether the file keeps an event log."""
    return bool(tx.value("get_meta", {"key": EVENT_LOG}) == "on")


def note(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    kind: str,
    changed: Iterable[tuple[str, str]] = (),
    *,
    facts: Json | None = None,
) -> None:
    """Leave an event with the rows a verb left behind, when the event log is on.

    `changed` names rows as (kind, id); a row that is gone is noted as deleted. The rows carry
    the ids and times the verb made, so a rebuild needs neither a clock nor new ids.
    """
    if not log_is_on(tx):
        return
    put: list[list[Any]] = []
    deleted: list[list[str]] = []
    for row_kind, row_id in changed:
        row = image(tx, row_kind, row_id)
        if row is None:
            deleted.append([row_kind, row_id])
        else:
            put.append([row_kind, row])
    data: Json = {"put": put, "deleted": deleted, **({"facts": facts} if facts else {})}
    append(tx, event(session_id, kind, json.encode(data), at=ctx.clock()))


def check_row(row: tuple[Any, ...]) -> None:
    """Compare a journal row (whole, as the queries give it) with its checksum."""
    stream_id, seq, kind, message_id, part_id, data_json, at, expected = row
    if checksum(stream_id, kind, message_id, part_id, data_json, at) != expected:
        msg = f"event {seq} of session {stream_id!r} is damaged: its checksum does not match"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`")


def open_json(state: StreamState, seq: int, dirty: dict[int, int]) -> str:
    """Write down what the part rows do not say: open ids, and how far each part is folded.

    `dirty` maps a part with unfolded deltas to the number of the last chunk in its row; every
    other part is complete up to `seq`.
    """
    # A finished call's input text matters only to a stray delta after its end, and looking at all
    # of them at every change of state cost 5.0 ms a chunk after 5,000 calls, 0.46 after 100.
    hidden = state.dump_open(finished_calls=False)
    behind = {str(index): folded for index, folded in dirty.items()}
    noted: Json = {"at": seq, "dirty": behind, "open": hidden}
    return json.encode({**noted, "sum": checksum(json.encode(noted))})


def read_open(recording: str, message_id: str) -> Json:
    """Read what `open_json` wrote, or say that it is damaged."""
    noted = read_object(recording)
    expected = noted.pop("sum", None)
    if checksum(json.encode(noted)) != expected:
        raise _unusable(message_id)
    return noted


def _unusable(message_id: str) -> Damaged:
    msg = f"the record of the unfinished message {message_id!r} is damaged"
    return Damaged(msg, hint="restore a backup with `threadkeep restore`")


class Unfinished(NamedTuple):
    """The exact state of an unfinished message, and what of it the part rows do not have yet."""

    state: StreamState
    touched: dict[int, int]  # part -> time of its last chunk after the fold
    last_seq: int


def unfinished(tx: Tx, session_id: str, message: Json, recording: str) -> Unfinished:
    """Rebuild the exact state of an unfinished message: its part rows plus the journal's tail."""
    noted = read_open(recording, message["id"])
    at: int = noted["at"]
    dirty = {int(index): int(seq) for index, seq in noted["dirty"].items()}
    try:
        state = StreamState.restore(message, noted["open"])
    except (LookupError, TypeError) as error:  # a part row is not what it was then
        raise _unusable(message["id"]) from error
    params = {
        "stream_id": session_id,
        "after": min([at, *dirty.values()]),
        "message_id": message["id"],
    }
    touched: dict[int, int] = {}
    last_seq = at
    for row in tx.all("message_chunks_after", params):
        check_row(row)
        seq, chunk = row[1], json.decode(row[5])
        target = state.target_of(chunk)
        if target is not None and seq > dirty.get(target, at):
            state.apply(chunk)
            touched[target] = row[6]
        last_seq = max(last_seq, seq)
    return Unfinished(state, touched, last_seq)


def forget_finished_chunks(ctx: ChatContext, tx: Tx, session_id: str) -> None:
    """Remove the journal rows of finished messages, unless they are wanted.

    Wanted means: the event log is on, or somebody follows the database live and may not have
    read them yet; then a later writer, or the next opening, removes them.
    """
    if log_is_on(tx) or ctx.db.followed():
        return
    tx.run("drop_finished_chunks", {"stream_id": session_id})

"""One message being written: its part rows, and when each is folded from the journal.

A chunk costs one appended journal row. A part row is written again at every change of state, and
for deltas only when the unfolded tail exceeds an eighth of the part, or the row is older than an
eighth of a second; so the work is linear in the text, where rewriting the row for each chunk
costs 58 times as much over a 240 KB reply.
"""

import math
from collections.abc import Sequence
from itertools import chain, repeat
from typing import NamedTuple

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext, encode_part
from threadkeep.chat.journal import JournalEntry
from threadkeep.chat.records import Json, message_of, read_object
from threadkeep.chat.recovery import settle_unless_running
from threadkeep.chat.rows import (
    MESSAGE,
    SESSION,
    PartRow,
    foreign_message,
    insert_message,
    insert_part,
    next_message_time,
    part_row,
    revised_row,
    set_message_metadata,
    touch_session,
    update_part,
)
from threadkeep.chat.views import load_message, read_part, stored_message
from threadkeep.chat.wire.parts import late_tool_output
from threadkeep.chat.wire.reduce import Change, StreamState, merge_metadata
from threadkeep.errors import Conflict, NotFound

_TAIL_SHARE = 8
# Readers that know only the three tables are promised 250 ms. Half of that folds with the chunks
# that come anyway; only a pause leaves work for the timer.
_FOLD_SECONDS = 0.125
_STEP_ENDS = frozenset({"finish-step", "finish", "abort"})


class PartState:
    """What is known of one part's row."""

    __slots__ = (
        "continuation",
        "created_at",
        "folded_at",
        "folded_seq",
        "id",
        "position",
        "stored",
        "unfolded",
        "updated_at",
    )

    def __init__(self, part_id: str, position: int, at: int, *, stored: bool, seq: int = 0) -> None:
        self.id = part_id
        self.position = position  # in the row; a message of another program may have gaps
        self.created_at = at
        self.updated_at = at
        self.stored = stored
        self.folded_seq = seq
        self.folded_at = 0.0
        self.unfolded = 0
        self.continuation: str | None = None  # another program's column, carried along


class SentChunk(NamedTuple):
    """A chunk that was stored under a number, and that a crash of the server may take back."""

    seq: int
    entry: JournalEntry
    checksum: int | None = None  # where it is known; each next chunk names it


class Recording:
    """The rows of one message and what of it is not yet in them."""

    def __init__(self, session_id: str, state: StreamState, facts: Json, *, stored: bool) -> None:
        """Begin with a state; `facts` go into the metadata of the message."""
        self.session_id = session_id
        self.state = state
        self.stored = stored
        self._facts = facts
        self.base: Json | None = None  # the message as it was, when it is being continued
        self.parts: list[PartState] = []
        self.pending: list[JournalEntry] = []
        self.last_seq = 0
        # Characters of all chunks: so many are in no part, unless the message had parts before.
        self.taken: float = 0 if not state.part_count else math.inf
        self._changed: set[int] = set()
        self._dirty: set[int] = set()
        self._cut: int | None = None
        self._seqs: list[int] = []
        self._folded: list[int] = []
        # What an engine that forgets may still lose, and the numbers of what it has lost.
        self.sent: list[SentChunk] = []
        self._checksum = 0  # of the only chunk
        self._lost: list[int] = []
        self.begun = False  # the message itself may be lost
        self._holder: str | None = None

    @property
    def message_id(self) -> str:
        """The id of the message."""
        return self.state.message_id

    def take(self, ctx: ChatContext, chunk: Json, text: str, at: int) -> JournalEntry:
        """Apply a chunk to the state in memory and queue it for the journal."""
        change = self.state.apply(chunk)
        self.taken += len(text)
        if change.truncated_to is not None:
            self._truncate(change.truncated_to)
        part_id = None
        for index in change.parts:
            if index >= len(self.parts):
                part_id = ctx.ids.new("prt")
                self.parts.append(PartState(part_id, next_position(self.parts), at, stored=False))
            self.parts[index].updated_at = at
            self._changed.add(index)
        if change.delta_of is not None:
            part = self.parts[change.delta_of]
            part.unfolded += change.grew
            part.updated_at = at
            self._dirty.add(change.delta_of)
        entry = JournalEntry(chunk, text, change, at, part_id)
        self.pending.append(entry)
        return entry

    def take_late(self, chunk: Json, text: str, at: int, row: PartRow) -> JournalEntry:
        """Queue a tool result for a call of an earlier message."""
        entry = JournalEntry(chunk, text, Change(), at, None, late=row)
        self.pending.append(entry)
        return entry

    def _truncate(self, length: int) -> None:
        first = self.parts[length].position
        del self.parts[length:]
        self._cut = first if self._cut is None else min(self._cut, first)
        self._changed = {index for index in self._changed if index < length}
        self._dirty = {index for index in self._dirty if index < length}

    def grown_size(self, chunk: Json) -> int:
        """How large the part that this delta belongs to would become; 0 for other chunks."""
        index = self.state.target_of(chunk)
        if index is None:
            return 0
        delta: str = chunk["inputTextDelta"] if "inputTextDelta" in chunk else chunk["delta"]
        return self.state.size_of(index) + len(delta)

    def mark_unfolded(self, touched: dict[int, int]) -> None:
        """Parts read back from the journal have a tail that their rows lack: fold them next."""
        for index, at in touched.items():
            self.parts[index].unfolded = self.state.size_of(index)
            self.parts[index].updated_at = at
            self._dirty.add(index)

    @property
    def lags(self) -> bool:
        """Whether the file has less than what was taken, or a row has less than the journal."""
        return bool(self.pending or self._dirty)

    def folded_at(self) -> float | None:
        """When the row was written that has been behind for longest; None if none is behind."""
        return min((self.parts[index].folded_at for index in self._dirty), default=None)

    def end_seq(self) -> int:
        """The number of the last chunk, counting those of a write that is not committed yet."""
        return self._seqs[-1] if self._seqs else self.last_seq

    # ------------------------------------------------------------------ writing

    def write(
        self, ctx: ChatContext, tx: Tx, owner: "RunOwner", now: float, *, everything: bool
    ) -> None:
        """Write the pending chunks, and the parts that are due, inside one transaction.

        Nothing in memory says that it was stored until `written` is called after the commit.
        """
        if self.stored:
            everything = self._lost_place(tx, owner) or everything
        else:
            self._insert(ctx, tx)
        numbers = chain(self._lost, repeat(0))
        self._seqs = [
            self._append(ctx, tx, *each) for each in zip(self.pending, numbers, strict=False)
        ]
        if self._cut is not None:
            tx.run("delete_message_parts", {"message_id": self.message_id, "first": self._cut})
        self._folded = sorted(self._due(now, everything=everything))
        for index in self._folded:
            self._write_part(tx, index)
        self._write_metadata(ctx, tx)
        if any(entry.chunk["type"] in _STEP_ENDS for entry in self.pending):
            touch_session(tx, self.session_id, self.pending[-1].at)
            journal.note(ctx, tx, self.session_id, "step", [(SESSION, self.session_id)])
        if self._folded or self._cut is not None or everything or not self.stored:
            self._note_progress(tx, owner)

    def _lost_place(self, tx: Tx, owner: "RunOwner") -> bool:
        """Check that the message is still there and ours, whatever others did to it meanwhile.

        True if somebody who could not see this process (in another container) has closed the
        recording: then everything is written again and it continues.
        """
        if self._holder == owner.run_id:
            return False
        if self._holder is not None:
            msg = f"message {self.message_id!r} was taken over by another recorder"
            raise Conflict(msg, hint="use one recorder for a message at a time")
        if tx.one("get_message", {"id": self.message_id}) is None:
            msg = f"message {self.message_id!r} was deleted while it was recorded"
            raise NotFound(msg, hint="record the reply again in an existing session")
        self._dirty.update(range(len(self.parts)))
        return True

    # ------------------------------------------------------------------ after a crash of the server

    def look(self, tx: Tx, *, doubt: bool) -> bool:
        """See who records the message, and whether what was sent is there; True if some was not.

        With `doubt` it is not known either what became of what is pending. Afterwards pending is
        what the store does not have, in its order, and every row is to be written.
        """
        if doubt:
            # A statement whose connection was lost may still run: who has the counter sees its end.
            tx.one("hold_numbers", {"stream_id": self.session_id})
        row = tx.one("recording_run", self.last_sent()) if self.stored or doubt else (None, True)
        self._holder, whole = row or (None, not self.sent)
        if whole and not doubt:
            return False
        self._compare(tx)
        self._find_rows(tx)
        return True

    def go_on_from(self, failed: "Recording") -> None:
        """Take the place of a recording that failed; a crash may take back the same of both."""
        self.sent, self.begun = failed.sent, failed.begun

    def find_lost(self, tx: Tx) -> list[Json]:
        """Return the chunks that were sent and are not there; what is pending is dropped."""
        self.pending.clear()
        self._compare(tx)
        return [entry.chunk for entry in self.pending]

    def last_sent(self) -> Json:
        """Return what tells whether the last chunk that a crash may take back is there."""
        named = {"stream_id": self.session_id, "message_id": self.message_id}
        if not self.sent:
            return {**named, "sent": 0, "sum": 0}
        last = self.sent[-1]
        known = self._sum_of(last.entry) if last.checksum is None else last.checksum
        return {**named, "sent": last.seq, "sum": known}

    def _sum_of(self, entry: JournalEntry) -> int:
        return int(entry.columns(self.session_id, self.message_id)["checksum"])

    def _compare(self, tx: Tx) -> None:
        """Tell the chunks that are in the store from those that are not: its last ones, if any."""
        first = self.sent[0].seq if self.sent else self.last_seq + 1
        stored = tx.all("sums_from", {"stream_id": self.session_id, "seq": first})
        rows = iter(stored)
        ours = [*self.sent, *(SentChunk(0, entry) for entry in self.pending)]
        there: list[SentChunk] = []
        for one in ours:
            seq = self._ended_with(tx, one, first) or next(
                (seq for seq, found in rows if found == self._sum_of(one.entry)), None
            )
            if seq is None:
                break
            there.append(SentChunk(seq, one.entry))
        gone = ours[len(there) :]
        counter = journal.last_seq(tx, self.session_id)
        was_lost = counter < first or any(seq == first for seq, _ in stored)
        self.last_seq = there[-1].seq if there else first - 1
        self.sent, self.pending = there, [one.entry for one in gone]
        self._lost = [one.seq for one in gone if one.seq]
        if there or self._holder is not None:
            self.stored = True
        elif self.begun and was_lost:  # else somebody deleted it
            self.stored = False

    def _ended_with(self, tx: Tx, chunk: SentChunk, first: int) -> int | None:
        """Return the number of a chunk whose row is gone because its message is finished."""
        named = {
            "stream_id": self.session_id,
            "message_id": chunk.entry.message_of(self.message_id),
        }
        ended = tx.value("finished_at", named) or 0
        if 0 < chunk.seq <= ended:
            return chunk.seq
        return ended if chunk.entry.late is not None and ended >= first else None

    def _find_rows(self, tx: Tx) -> None:
        """See which parts have a row; all of them are to be written."""
        rows = tx.all("message_parts", {"message_id": self.message_id})
        places = {from_sql(row[0]): row[3] for row in rows}
        if any(entry.change.truncated_to is not None for entry in self.pending):
            known = {part.id for part in self.parts}
            self._cut = min((at for one, at in places.items() if one not in known), default=None)
        for part in self.parts:
            part.stored = part.id in places and (self._cut is None or part.position < self._cut)
        self._changed.update(range(len(self.parts)))

    # ------------------------------------------------------------------ one chunk

    def only_chunk(self, owner: "RunOwner", now: float) -> Json | None:
        """Give the values of the one statement that stores all there is to store, None if more is.

        It stores a delta of a message whose parts need not be folded yet: nearly every chunk.
        """
        if not self.stored or self._cut is not None or len(self.pending) != 1:
            return None
        entry = self.pending[0]
        more = entry.late or entry.change.metadata or entry.chunk["type"] in _STEP_ENDS
        if more or self._due(now, everything=False):
            return None
        values = entry.columns(self.session_id, self.message_id)
        values["run_id"], values["seq"] = owner.run_id, self.last_seq + 1
        self._checksum = values["checksum"]
        return values

    def appended(self, *, lasting: bool) -> None:
        """The only chunk was stored, under the number that it was given: nothing else waited."""
        self.last_seq += 1
        if not lasting:
            self.sent.append(SentChunk(self.last_seq, self.pending[0], self._checksum))
        else:
            self.sent, self.begun = [], False
        self.pending.clear()

    def written(self, now: float, *, lasting: bool) -> None:
        """The transaction was committed: remember what is stored, and what a crash may take back.

        A `lasting` commit makes all that came before it last.
        """
        if lasting:
            self.sent, self.begun = [], False
        else:
            self.sent += map(SentChunk, self._seqs, self.pending)
            self.begun = self.begun or not self.stored
        self.last_seq = self.end_seq()
        for index in self._folded:
            part = self.parts[index]
            part.stored, part.unfolded = True, 0
            part.folded_seq, part.folded_at = self.last_seq, now
        self._dirty.difference_update(self._folded)
        self._changed.clear()
        self.pending.clear()
        self._seqs, self._folded, self._lost = [], [], []
        self.stored, self._cut = True, None

    def _insert(self, ctx: ChatContext, tx: Tx) -> None:
        row = tx.one("get_message", {"id": self.message_id})
        if row is not None and from_sql(row[1]) != self.session_id:
            raise foreign_message(self.message_id, from_sql(row[1]), self.session_id)
        if row is None:
            at = self.pending[0].at if self.pending else ctx.clock()
            insert_message(
                tx,
                message_id=self.message_id,
                session_id=self.session_id,
                role="assistant",
                metadata=self._facts,
                created_at=next_message_time(tx, self.session_id, at),
            )
            touch_session(tx, self.session_id, at)
        elif self._facts:
            known = read_object(row[3])
            set_message_metadata(tx, self.message_id, {**known, **self._facts}, ctx.clock())
        changed = [(MESSAGE, self.message_id), (SESSION, self.session_id)]
        facts = {"protocol": self.state.protocol.version}
        journal.note(ctx, tx, self.session_id, "message", changed, facts=facts)
        if self.base is not None:
            # Whoever replays the journal from here needs what the chunks are applied to.
            text = json.encode(self.base)
            at, message_id = ctx.clock(), self.message_id
            base = journal.event(self.session_id, journal.BASE, text, at=at, message_id=message_id)
            journal.append(tx, base)

    def _append(self, ctx: ChatContext, tx: Tx, entry: JournalEntry, number: int) -> int:
        if entry.late is not None:
            self._write_late(ctx, tx, entry)
        seq = journal.append(tx, entry.columns(self.session_id, self.message_id), number)
        if entry.late is not None:  # the earlier message is finished again, with its result
            message_id = entry.late.message_id
            params = {"stream_id": self.session_id, "seq": seq, "message_id": message_id}
            tx.run("add_finished", params)
        return seq

    def _write_late(self, ctx: ChatContext, tx: Tx, entry: JournalEntry) -> None:
        late = entry.late
        assert late is not None  # noqa: S101  (the caller looked)
        row = tx.one("get_part", {"id": late.id})
        if row is None:
            msg = f"the tool call {late.tool_call_id!r} was deleted while its result arrived"
            raise NotFound(msg, hint="the result was not stored")
        part = late_tool_output(
            read_part(row[5], from_sql(row[4])), entry.chunk, self.state.protocol.version
        )
        text = encode_part(ctx, part, f"the result of {late.tool_call_id!r}")
        update_part(tx, revised_row(row, part, text, entry.at))

    def _due(self, now: float, *, everything: bool) -> set[int]:
        due = set(self._changed)
        for index in self._dirty:
            part = self.parts[index]
            long_tail = part.unfolded * _TAIL_SHARE > self.state.size_of(index)
            if everything or long_tail or now - part.folded_at >= _FOLD_SECONDS:
                due.add(index)
        return due

    def _write_part(self, tx: Tx, index: int) -> None:
        known = self.parts[index]
        part = self.state.part(index)
        row = part_row(
            part,
            json.encode(part),  # no limit: its chunks were measured when they were taken
            part_id=known.id,
            message_id=self.message_id,
            session_id=self.session_id,
            position=known.position,
            created_at=known.created_at,
            updated_at=known.updated_at,
            continuation_run_id=known.continuation,
        )
        if not known.stored:
            insert_part(tx, row)
        else:
            update_part(tx, row)

    def _write_metadata(self, ctx: ChatContext, tx: Tx) -> None:
        changes = [entry.change.metadata for entry in self.pending if entry.change.metadata]
        if not changes:
            return
        row = tx.one("get_message", {"id": self.message_id})
        merged: Json = read_object(row[3]) if row is not None else {}
        counted = tx.one("get_usage", {"message_id": self.message_id}) is not None
        for change in changes:
            # The guide's usage came through record_usage; a stream must not overwrite it.
            kept = {k: v for k, v in change.items() if not (counted and k == "usage")}
            merged = merge_metadata(merged, kept) or {}
        set_message_metadata(tx, self.message_id, merged, self.pending[-1].at)
        journal.note(ctx, tx, self.session_id, "metadata", [(MESSAGE, self.message_id)])

    def _note_progress(self, tx: Tx, owner: "RunOwner") -> None:
        dirty = {
            index: self.parts[index].folded_seq
            for index in self._dirty
            if index not in self._folded
        }
        params = {
            "message_id": self.message_id,
            "session_id": self.session_id,
            "run_id": owner.run_id,
            "owner": owner.mark,
            "open_json": journal.open_json(self.state, self.end_seq(), dirty),
            "started_at": owner.started_at,
        }
        tx.run("put_recording", params)


class RunOwner(NamedTuple):
    """Who records: the process, and the run it belongs to."""

    mark: str
    run_id: str
    started_at: int


def next_position(parts: Sequence[PartState]) -> int:
    """Return the place after the last part."""
    return parts[-1].position + 1 if parts else 0


def known_parts(tx: Tx, message_id: str, seq: int) -> list[PartState]:
    """Return what is known of the part rows of a stored message."""
    known = []
    for row in tx.all("message_parts", {"message_id": message_id}):
        part = PartState(from_sql(row[0]), row[3], row[8], stored=True, seq=seq)
        part.updated_at, part.continuation = row[9], row[10]
        known.append(part)
    return known


# ------------------------------------------------------------------------------
# How the recording of a message begins: as a new one, as the continuation of one, or again.


def begin(
    ctx: ChatContext, session_id: str, message_id: str | None, facts: Json, protocol: int
) -> Recording:
    """Begin the message of that id, or continue with it if the session has it; None makes one.

    `facts` go into the metadata of the message.
    """
    if message_id is None:
        return _fresh(session_id, ctx.ids.new("msg"), facts, protocol)
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        left = tx.one("get_recording", {"message_id": message_id}) is not None
    if row is None:
        return _fresh(session_id, message_id, facts, protocol)
    message = message_of(row)
    if message.session_id != session_id:
        raise foreign_message(message_id, message.session_id, session_id)
    if message.role != "assistant":
        msg = f"message {message_id!r} is of role {message.role!r}; a stream is the assistant's"
        raise Conflict(msg, hint="leave the id out, or use the id of an assistant message")
    if left:
        with ctx.db.write() as tx:
            settle_unless_running(ctx, tx, message_id)
    return _continue(ctx, session_id, message_id, facts, protocol)


def _fresh(session_id: str, message_id: str, facts: Json, protocol: int) -> Recording:
    state = StreamState(message_id=message_id, protocol=protocol)
    return Recording(session_id, state, facts, stored=False)


def _continue(
    ctx: ChatContext, session_id: str, message_id: str, facts: Json, protocol: int
) -> Recording:
    """Go on with a finished message: approvals and client-side tools come back this way."""
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        if row is None:
            # It was deleted since its caller looked.
            return _fresh(session_id, message_id, facts, protocol)
        base = load_message(tx, message_of(row))
        state = StreamState(base, protocol=protocol)
        recording = Recording(session_id, state, facts, stored=False)
        recording.base = base
        recording.parts = known_parts(tx, message_id, 0)
    return recording


def begin_again(
    ctx: ChatContext, session_id: str, message_id: str, facts: Json
) -> Recording | None:
    """Read an unfinished message back as the store has it; None if nothing of it is there."""
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        left = tx.one("get_recording", {"message_id": message_id})
        if row is None or left is None:
            return None
        message = message_of(row)
        exact = journal.unfinished(tx, session_id, stored_message(tx, message), left[4])
        recording = Recording(session_id, exact.state, facts, stored=True)
        recording.last_seq = exact.last_seq
        recording.parts = known_parts(tx, message.id, read_object(left[4]).get("at", 0))
        recording.mark_unfolded(exact.touched)
    return recording

"""The recorder: feeds a stream's chunks into the store, so that a crash loses none of them."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from threadkeep.base import json
from threadkeep.base.database import ask, insist
from threadkeep.base.processes import my_mark
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import runs
from threadkeep.chat.context import (
    ChatContext,
    clean,
    need_list,
    need_whole,
    optional_text,
    too_large,
)
from threadkeep.chat.journal import JournalEntry
from threadkeep.chat.message_writer import Recording, RunOwner, begin, begin_again
from threadkeep.chat.records import Json, SessionRef, ref_id
from threadkeep.chat.recovery import announce, end_run, finish, retire
from threadkeep.chat.rows import PartRow, need_session
from threadkeep.chat.save_policy import TIMER, SavePolicy
from threadkeep.chat.wire.protocol import (
    NEWEST,
    need_version,
    validate_chunk,
    with_real_id,
)
from threadkeep.chat.wire.sse import SseParser
from threadkeep.errors import (
    Busy,
    Closed,
    Invalid,
    ProtocolViolation,
    StorageFull,
    ThreadkeepError,
    Unreachable,
)

if TYPE_CHECKING:
    from threadkeep.chat.stream_redactor import StreamRedactor

log = logging.getLogger(__name__)

SaveOn = Literal["chunk", "step", "turn"]
Durable = Literal["steps", "every"]
_LATE = frozenset(
    {"tool-output-available", "tool-output-error", "tool-output-denied", "tool-approval-request"}
)
_ENDS_OF_RUN = frozenset({"finish", "abort", "error"})
_KEEP_VIOLATIONS = 100
_KEPT = "the recorder keeps the chunk and sends it first: feed the next one, or call flush()"
# The timer looks after all recorders of the process: it waits for none of them, but comes back.
_TIMER_PAUSE, _TIMER_RETRY = 0.03, 1.0


class Recorder:
    """Records one stream; use it in a `with` block and `feed` it every chunk.

    Under `save_on="chunk"` a chunk is stored when `feed` returns. A `feed` that raises has
    stored nothing of its chunk; but where a server was lost over it (`Unreachable`, with a hint
    that says so), the chunk is kept and sent again before the next one. A recorder belongs to one
    thread at a time; while the model pauses, a timer writes what waits.
    """

    def __init__(
        self,
        ctx: ChatContext,
        session_id: str,
        *,
        message_id: str | None,
        run: runs.RunInfo,
        facts: Json,
        save_on: str = "chunk",
        save_buffer_size: int = 0,
        save_buffer_ms: int = 0,
        durable: str = "steps",
        strict: bool = False,
        protocol: int = NEWEST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session_id = session_id
        self.strict = strict
        self.protocol = protocol
        self.violations: list[str] = []
        self.violation_count = 0
        self._ctx = ctx
        self._wanted = message_id
        self._run = run
        self._facts = facts
        self._saves = SavePolicy(save_on, save_buffer_size, save_buffer_ms, durable, monotonic())
        self._monotonic = monotonic
        self._turn = threading.RLock()  # between the thread that feeds and the timer
        self._timed = False
        self._pid = os.getpid()
        self._owner = RunOwner(my_mark(), ctx.ids.new("run"), ctx.clock())
        self._redactor = _new_redactor(ctx, protocol)
        self._sse = SseParser()
        self._recording: Recording | None = None
        self._kept: list[Json] | None = None
        self._doubt = False  # the server was lost: was the last write stored, and what before it?
        self._run_stored = False
        self._ended: tuple[str, str | None, str | None] = ("cut", None, None)
        self._closed = False
        announce(self.run_id, self)

    # ------------------------------------------------------------------ what it gives

    @property
    def run_id(self) -> str:
        """The id of the run that is being recorded."""
        return self._owner.run_id

    @property
    def message_id(self) -> str | None:
        """The id of the message being recorded, None before the first chunk."""
        return self._recording.message_id if self._recording else self._wanted

    @property
    def message(self) -> Json | None:
        """The message so far, in the AI SDK's shape; None before the first chunk."""
        return self._recording.state.message() if self._recording else None

    # ------------------------------------------------------------------ what it takes

    def feed(self, chunk: Json | str | bytes) -> None:
        """Record one chunk: an object, or its JSON text."""
        self._check_usable()
        given = json.decode(chunk) if isinstance(chunk, (str, bytes)) else chunk
        checked = with_real_id(validate_chunk(given, self.protocol))
        with self._turn:
            if self._redactor is None:
                self._feed([checked])
            else:
                self._feed_redacted(self._redactor, lambda redactor: redactor.push(checked))
            if not self._timed:
                self._set_timer()

    def _feed_redacted(
        self, redactor: "StreamRedactor", release: Callable[["StreamRedactor"], list[Json]]
    ) -> None:
        before = redactor.save()
        try:
            self._feed(release(redactor))
        except BaseException:
            if not self._doubt:
                redactor.restore(before)  # nothing was stored: the same may be fed again
            raise

    def feed_sse(self, data: bytes) -> None:
        """Record bytes of an AI SDK server-sent-event body, split anywhere."""
        self._check_usable()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            msg = f"an SSE body comes as bytes, not {type(data).__name__}"
            raise Invalid(msg, hint="pass the bytes of the response, or feed() single chunks")
        for payload in self._sse.feed(bytes(data)):
            self._feed_payload(payload)

    def _feed_payload(self, payload: str) -> None:
        try:
            self.feed(payload)
        except ProtocolViolation:
            raise
        except Invalid as error:
            if self.strict:
                raise
            self._count_violation(error)

    def flush(self) -> None:
        """Store everything recorded so far, so that it survives even a power cut."""
        self._check_usable()
        with self._turn:
            self._settle_memory()
            self._write(durable=True, everything=True)

    def abort(self, reason: str | None = None) -> None:
        """Record that the run was stopped; what has arrived is kept."""
        self.feed({"type": "abort"} if reason is None else {"type": "abort", "reason": reason})

    def _feed(self, chunks: Sequence[Json]) -> None:
        """Take chunks that stand or fall together: what redaction made of one."""
        if self._kept is not None:
            self._settle_memory()
        taken = self._take_all(chunks)
        if not taken:
            return
        saves, now = self._saves, self._monotonic()
        write = durable = False
        for entry in taken:
            if entry.chunk["type"] in _ENDS_OF_RUN:
                self._note_end(entry.chunk)
            write = saves.took(entry, now) or write
            durable = saves.is_boundary(entry.chunk, now) or durable
        if write:
            try:
                self._write(durable=durable, everything=False)
            except BaseException as error:
                if not self._doubt:
                    self._take_back(taken)
                elif isinstance(error, (Unreachable, Busy, StorageFull)):
                    raise Unreachable(error.message, hint=_KEPT) from error
                raise

    def _take_back(self, taken: Sequence[JournalEntry]) -> None:
        """Drop a chunk of which the caller is told that it failed; nothing of it was stored."""
        self._forget([kept.chunk for kept in self._pending()[: -len(taken)]])

    def _take_all(self, chunks: Sequence[Json]) -> list[JournalEntry]:
        waiting = [entry.chunk for entry in self._pending()] if len(chunks) > 1 else None
        try:
            return [*filter(None, map(self._take, chunks))]
        except BaseException:
            if waiting is not None:
                self._forget(waiting)
            raise

    def _take(self, chunk: Json) -> JournalEntry | None:
        text = json.encode(chunk)
        recording = self._recording_for(chunk)
        size = len(text)
        if size + recording.taken > self._ctx.part_limit:  # no part has more than was taken
            size = max(recording.grown_size(chunk), size)
        if size > self._ctx.part_limit:
            what = f"{chunk['type']} {chunk.get('id') or chunk.get('toolCallId') or ''}".strip()
            raise too_large(self._ctx, what, size)
        try:
            return recording.take(self._ctx, chunk, text, self._ctx.clock())
        except ProtocolViolation as violation:
            late = self._find_late(chunk)
            if late is not None:
                return recording.take_late(chunk, text, self._ctx.clock(), late)
            if self.strict:
                raise
            self._count_violation(violation)
            return None

    def _find_late(self, chunk: Json) -> PartRow | None:
        """A result may arrive in a later turn than its call: look in the whole session."""
        if chunk["type"] not in _LATE:
            return None
        params = {"session_id": self.session_id, "tool_call_id": chunk["toolCallId"]}
        row = ask(self._ctx.db, lambda tx: tx.one("find_tool_call", params))
        return None if row is None else PartRow(*(_as_text(value) for value in row))

    def _count_violation(self, error: Invalid) -> None:
        self.violation_count += 1
        if len(self.violations) < _KEEP_VIOLATIONS:
            self.violations.append(error.message)

    def _note_end(self, chunk: Json) -> None:
        kind = chunk["type"]
        _, word, error = self._ended
        if kind == "finish":
            self._ended = ("finish", chunk.get("finishReason") or word, error)
        elif kind == "abort":
            self._ended = ("abort", word, chunk.get("reason"))
        else:
            self._ended = ("error", word, chunk["errorText"])

    # ------------------------------------------------------------------ which message

    def _recording_for(self, chunk: Json) -> Recording:
        """Return the recording a chunk belongs to; a start with another id begins a new message."""
        named = chunk.get("messageId") if chunk["type"] == "start" else None
        current = self._recording
        if current is None:
            self._recording = self._begin(named or self._wanted)
        elif named is not None and named != current.message_id:
            following = self._begin(named)  # may refuse: then nothing has changed
            self._finish_message()
            self._recording = following
        assert self._recording is not None  # noqa: S101  (set above)
        return self._recording

    def _begin(self, message_id: str | None) -> Recording:
        where = self._ctx, self.session_id, message_id
        return insist(lambda: begin(*where, self._facts, self.protocol))

    # ------------------------------------------------------------------ when to write

    def _set_timer(self) -> None:
        recording = self._recording
        if recording is None or not recording.lags:
            return  # as a rule, while a part is short: the chunk wrote everything
        left = self._left()
        if left is not None:
            self._timed = True
            TIMER.watch(self._catch_up, left)

    def _catch_up(self) -> float | None:
        """For the timer: write what has waited long enough; give when to look again, if at all."""
        if not self._turn.acquire(blocking=False):
            return _TIMER_PAUSE  # a chunk is being taken just now
        try:
            left = self._write_overdue()
            self._timed = left is not None
            return None if left is None else max(left, _TIMER_PAUSE)
        finally:
            self._turn.release()

    def _write_overdue(self) -> float | None:
        try:
            left = self._left()
            if left is not None and left <= 0:
                self._write(durable=False, everything=False, budget=_TIMER_PAUSE)
                left = self._left()
        except Busy:
            left = _TIMER_PAUSE
        except ThreadkeepError as error:
            # What was taken is still in memory: the next chunk, or the end, tries again and tells.
            log.debug("run %s cannot be written now: %s", self.run_id, error)
            left = None if isinstance(error, Closed) else _TIMER_RETRY
        return left

    def _left(self) -> float | None:
        """How long what waits may still wait; None if nothing does, or it may forever."""
        recording = self._recording
        if self._closed or self._kept is not None or recording is None:
            return None
        latest = self._saves.latest(recording.folded_at())
        return None if latest is None else latest - self._monotonic()

    def _pending(self) -> list[JournalEntry]:
        return self._recording.pending if self._recording else []

    def _write(self, *, durable: bool, everything: bool, budget: float | None = None) -> None:
        recording = self._recording
        if recording is None:
            return
        now = self._monotonic()
        at_once = not everything and budget is None and self._run_stored and not self._doubt
        if at_once and self._send(recording, now, durable=durable):
            recording.appended(lasting=durable or not self._ctx.db.forgets)
            self._saves.wrote(now, durable=durable)
            return

        def store(tx: Tx) -> None:
            self._store(tx, recording, now, everything=everything)
            if everything:
                # A commit that changes no byte syncs nothing: without this a flush that found
                # every part folded did not save the chunks before it (a power cut took 40).
                tx.run("count_flush")

        self._commit(store, durable=durable, budget=budget)
        self._note_written(recording, now, durable=durable)

    def _commit(self, store: Callable[[Tx], None], *, durable: bool, budget: float | None) -> None:
        """Run a transaction: on a server again if it is lost, for what was stored is found."""
        db, key = self._ctx.db, self.session_id
        if not self._run_stored:
            db.announce(self._owner.mark)
        before, runs = self._doubt, 0

        def run(tx: Tx) -> None:
            nonlocal runs
            runs += 1
            store(tx)
            self._doubt = db.forgets  # until the commit is known to be one

        try:
            if budget is None:
                db.again(run, durable=durable, key=key, idempotent=True)
            else:
                with db.write(durable=durable, key=key, budget=budget) as tx:
                    run(tx)
        except Unreachable:
            raise
        except ThreadkeepError:
            # A server takes the last statements after `store`, and has refused one of them.
            if runs == 1:
                self._doubt = before
            raise

    def _store(self, tx: Tx, recording: Recording | None, now: float, *, everything: bool) -> None:
        """Write the run and the message; what a crash of the server took back comes first."""
        lost = recording is not None and recording.look(tx, doubt=self._doubt)
        if (lost or self._doubt) and not (recording and recording.stored):
            self._run_stored = tx.one("get_run", {"id": self.run_id}) is not None
        self._store_run(tx, recording)
        if recording is not None:
            recording.write(self._ctx, tx, self._owner, now, everything=everything or lost)

    def _note_written(self, recording: Recording | None, now: float, *, durable: bool) -> None:
        self._run_stored, self._doubt = True, False
        if recording is not None:
            recording.written(now, lasting=durable or not self._ctx.db.forgets)
            self._saves.wrote(now, durable=durable)

    def _send(self, recording: Recording, now: float, *, durable: bool) -> bool:
        """Store a chunk in one statement; False if there is more to it, or something is lost."""
        values = recording.only_chunk(self._owner, now)
        if values is None:
            return False
        db = self._ctx.db
        if db.forgets:
            values |= recording.last_sent()
        try:
            stored = db.send("append_chunk", values, durable=durable)
        except Unreachable as error:
            log.debug("run %s looks for what it sent: %s", self.run_id, error)
            self._doubt = True
            return False
        return bool(stored)

    def _store_run(self, tx: Tx, recording: Recording | None) -> None:
        if not self._run_stored:
            need_session(tx, self.session_id)
            message_id = recording.message_id if recording else None
            runs.start(self._ctx, tx, self.session_id, self._owner, self._run, message_id)

    def _forget(self, kept: list[Json]) -> None:
        """The store did not take a write: what is in memory is no longer what is on disk."""
        self._wanted = self._recording.message_id if self._recording else self._wanted
        self._kept = kept

    def _settle_memory(self) -> None:
        """After a failed write, read the state back from the store and take the rest again."""
        if self._kept is None:
            return
        assert self._wanted is not None  # noqa: S101  (set by _forget)
        failed = self._recording
        if failed is not None and failed.sent:
            self._kept = [*ask(self._ctx.db, failed.find_lost), *self._kept]
            run = ask(self._ctx.db, lambda tx: tx.one("get_run", {"id": self.run_id}))
            self._run_stored = run is not None
        where = self._ctx, self.session_id, self._wanted
        recording = insist(lambda: begin_again(*where, self._facts))
        if recording is not None and failed is not None:
            recording.go_on_from(failed)
        self._recording = recording
        again, self._kept = self._kept, None
        try:
            for chunk in again:
                self._take(chunk)
        except (Unreachable, Busy):
            self._kept = again
            raise

    # ------------------------------------------------------------------ the end

    def close(self, error: BaseException | None = None) -> None:
        """Complete the part rows and record why the run ended; may be called repeatedly."""
        if self._closed or self._pid != os.getpid():
            return  # a forked child leaves its parent's recording alone
        with self._turn:
            self._close(error)

    def _close(self, error: BaseException | None) -> None:
        if self._redactor is not None:
            self._feed_redacted(self._redactor, lambda redactor: redactor.flush())
        for payload in self._sse.close():
            self._feed_payload(payload)
        self._settle_memory()
        if error is not None:
            self._ended = (_reason(error), self._ended[1], clean(self._ctx, repr(error)[:2000]))
        if self._recording is not None or error is not None:
            self._finish_message(last=True)
        self._closed = True
        if self._timed:
            TIMER.forget(self._catch_up)
        retire(self.run_id)

    def _finish_message(self, *, last: bool = False) -> None:
        recording = self._recording
        now = self._monotonic()

        def store(tx: Tx) -> None:
            self._store(tx, recording, now, everything=True)
            if recording is not None:
                finish(self._ctx, tx, self.session_id, recording.message_id, recording.end_seq())
            if last:
                end_run(tx, self.run_id, self._ctx.clock(), *self._ended)

        self._commit(store, durable=True, budget=None)
        self._note_written(recording, now, durable=True)

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("this recorder was closed", hint="begin another with store.record()")
        if self._pid != os.getpid():
            msg = "this recorder was opened before a fork, in another process"
            raise Closed(msg, hint="record in the process that opened the recorder")

    def __enter__(self) -> Self:
        """Record inside a `with` block."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the recorder; an exception is written down as the end of the run."""
        self.close(error)


def record(
    ctx: ChatContext,
    session: SessionRef,
    message_id: str | None = None,
    *,
    save_on: SaveOn = "chunk",
    save_buffer_size: int = 0,
    save_buffer_ms: int = 0,
    durable: Durable = "steps",
    strict: bool = False,
    protocol: int = NEWEST,
    agent: str | None = None,
    model: Json | str | None = None,
    tools: Sequence[Any] = (),
    system_prompt: str | None = None,
) -> Recorder:
    """Start recording a reply; the id of an existing message continues that message.

    `save_on` "chunk" stores each chunk before `feed` returns, "step" and "turn" at the end of
    those. With `save_buffer_size` (bytes) or `save_buffer_ms` deltas may wait that long;
    `flush` is then the acknowledgement. What is stored waits for the disk at the ends of steps, at
    tool calls and once a second; with `durable="every"` always, which no power cut and no crash of
    a server takes back, and which is slower by far. `strict` raises on a chunk that does not fit
    the stream, otherwise it is skipped and counted. `protocol` is the version of the AI SDK that
    the stream comes from: 7 or 6.
    """
    session_id = ref_id(session, "session")
    known = ask(ctx.db, lambda tx: need_session(tx, session_id))
    offered = tuple(need_list(tools, "tools"))
    run = runs.RunInfo(optional_text(agent, "agent"), model, offered, system_prompt)
    return Recorder(
        ctx,
        session_id,
        message_id=None if message_id is None else ref_id(message_id, "message"),
        run=run,
        facts=runs.turn_facts(ctx, known, run),
        save_on=save_on,
        save_buffer_size=need_whole(save_buffer_size, "save_buffer_size"),
        save_buffer_ms=need_whole(save_buffer_ms, "save_buffer_ms"),
        durable=durable,
        strict=strict,
        protocol=need_version(protocol),
    )


def _new_redactor(ctx: ChatContext, protocol: int) -> "StreamRedactor | None":
    if ctx.redact is None:
        return None
    # Only where something is redacted on its way to the disk.
    from threadkeep.chat.stream_redactor import StreamRedactor  # noqa: PLC0415

    return StreamRedactor(ctx.redact, protocol)


def _reason(error: BaseException) -> str:
    import asyncio  # noqa: PLC0415  (a fifth of the command line's start-up, needed only here)

    stopped = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SystemExit)
    return "abort" if isinstance(error, stopped) else "error"


def _as_text(value: Any) -> Any:
    return from_sql(value) if isinstance(value, bytes) else value

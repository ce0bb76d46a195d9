"""Replies that are recorded right now, for everybody who follows them.

Who records may be another process: the store is where both sides meet. One thread waits for
commits and reads what is new, once for each reply; however many follow it, they share what it read.
"""

import logging
import threading
from collections.abc import Callable, Generator
from typing import Final

import msgspec

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat.journal import CHUNK, UNKNOWN, check_row
from threadkeep.chat.records import Event, Run, run_of
from threadkeep.chat.recovery import is_running
from threadkeep.chat.store import ChatStore
from threadkeep.chat.tail import LOOK_AFTER
from threadkeep.errors import Conflict, NotFound, ThreadkeepError

log = logging.getLogger(__name__)

Wake = Callable[[], None]
_BATCH: Final = 500


class Active(msgspec.Struct, frozen=True):
    """A reply that somebody records right now, and whether it was asked to stop."""

    run_id: str
    message_id: str
    stop: bool = False
    reason: str | None = None


def active_reply(store: ChatStore, session_id: str) -> Active | None:
    """Return the reply that is recorded in a session right now; the newest of several."""
    with store.context.db.read() as tx:
        row = _running(tx, session_id)
        if row is None:
            return None
        asked = _asked(tx.one("get_run", {"id": row[2]}))
    return Active(row[2], from_sql(row[0]), asked is not None, asked)


def find_run(store: ChatStore, run_id: str) -> Run | None:
    """Return a run by its id; None before anything of it was stored."""
    with store.context.db.read() as tx:
        row = tx.one("get_run", {"id": run_id})
    return None if row is None else run_of(row)


def ask_to_stop(store: ChatStore, session_id: str, guard: frozenset[str], reason: str) -> Active:
    """Ask whoever records a session to stop; `guard` names the run or the message that is meant.

    The wish stands in the row of the run, where every process finds it. One that comes late must
    not end the next reply: hence the guard.
    """
    with store.context.db.write() as tx:
        row = _running(tx, session_id)
        if row is None:
            msg = f"nothing is recorded in session {session_id!r} now"
            raise NotFound(msg, hint="there is nothing to stop")
        found = Active(row[2], from_sql(row[0]), stop=True, reason=reason)
        if not guard <= {found.run_id, found.message_id}:
            msg = f"session {session_id!r} is now on another reply: message {found.message_id!r}"
            raise Conflict(msg, hint=f"to stop this one, name it, or its run {found.run_id!r}")
        tx.run("ask_to_stop", {"id": found.run_id, "reason": reason})
    return found


def _running(tx: Tx, session_id: str) -> Row | None:
    rows = tx.all("session_recordings", {"session_id": session_id})
    running = [row for row in rows if row[2] is not None and is_running(tx, row)]
    return max(running, key=lambda row: (row[5], row[2]), default=None)


def _asked(run: Row | None) -> str | None:
    """Why a run is asked to stop: what is in its row before it has an end."""
    if run is None or run[11] is not None or run[14] is None:
        return None
    return from_sql(run[14])


class Reply:
    """A reply while it is recorded: its chunks as server-sent events, from the first one on.

    `frames` only grows, and `over` turns true after the last of them: look at `over` first.
    """

    def __init__(self, recording: Row) -> None:
        self.run_id: str = recording[2]
        self.message_id = from_sql(recording[0])
        self.frames: list[bytes] = []
        self.over = False
        self.stop: str | None = None  # why it is asked to stop
        self.wakes: list[Wake] = []
        self.read_chunks = False
        self._recording = recording
        self._session_id = from_sql(recording[1])
        self._messages = {self.message_id}
        self._after: int | None = None
        self._turn = threading.Lock()

    def look(self, store: ChatStore) -> bool:
        """Read what is new; tell whether anything was."""
        with self._turn:
            # First: what a process commits before it dies is in the snapshot that comes after.
            with store.context.db.read() as tx:
                alive = is_running(tx, self._recording)
            before = len(self.frames), self.stop
            with store.context.db.read() as tx:
                run = tx.one("get_run", {"id": self.run_id})
                if self.read_chunks:
                    self._read(tx)
            self.stop = self.stop or _asked(run)
            self.over = not alive or run is None or run[11] is not None
            return self.over or before != (len(self.frames), self.stop)

    def end(self) -> None:
        """Say that nothing more will come."""
        self.over = True

    def tell(self) -> None:
        """Wake everybody who follows."""
        for wake in list(self.wakes):
            wake()

    def _read(self, tx: Tx) -> None:
        stream = {"stream_id": self._session_id}
        if self._after is None:
            self._after = tx.value("replay_after", {**stream, "message_id": self.message_id})
        for row in tx.all("session_recordings", {"session_id": self._session_id}):
            if row[2] == self.run_id:  # a stream may continue with another message
                self._messages.add(from_sql(row[0]))
        while rows := tx.all("events_after", {**stream, "after": self._after, "limit": _BATCH}):
            self._after = rows[-1][1]
            self.frames += [_frame(row) for row in rows if self._is_mine(row)]

    def _is_mine(self, row: Row) -> bool:
        return row[2] in (CHUNK, UNKNOWN) and from_sql(row[3]) in self._messages


def _frame(row: Row) -> bytes:
    check_row(row)
    return b"data: " + from_sql(row[5]).encode() + b"\n\n"


class Replies:
    """The replies of a store that somebody follows, and the one thread that reads them."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._followed: dict[str, Reply] = {}
        self._thread: threading.Thread | None = None

    def join(
        self, session_id: str, wake: Wake, *, chunks: bool = True, run_id: str | None = None
    ) -> Reply | None:
        """Follow the reply that is recorded in a session, or None if nobody records.

        `wake` is called, in another thread, when there is more; `leave` ends it. Without `chunks`
        only its end and a wish to stop it are looked for.
        """
        if chunks:  # before the look: a reply that ends just now keeps its chunks
            self._store.context.db.follow()
        reply = None
        try:
            reply = self._enter(session_id, wake, run_id, chunks=chunks)
        finally:
            if chunks and reply is None:
                self._store.context.db.unfollow()
        if reply is not None:
            self._look(reply)
        return reply

    def _enter(
        self, session_id: str, wake: Wake, run_id: str | None, *, chunks: bool
    ) -> Reply | None:
        with self._store.context.db.read() as tx:
            recording = _running(tx, session_id)
        if recording is None or run_id not in (None, recording[2]):
            return None
        with self._guard:
            reply = self._followed.setdefault(recording[2], Reply(recording))
            reply.wakes.append(wake)
            reply.read_chunks = reply.read_chunks or chunks
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="threadkeep-replies", daemon=True
                )
                self._thread.start()
        return reply

    def leave(self, reply: Reply, wake: Wake, *, chunks: bool = True) -> None:
        """Take back a `join`, with the same `wake` and `chunks`."""
        with self._guard:
            reply.wakes.remove(wake)
            if not reply.wakes:
                self._followed.pop(reply.run_id, None)
        if chunks:
            self._store.context.db.unfollow()

    def close(self) -> None:
        """End every reply for those who follow it."""
        with self._guard:
            replies = list(self._followed.values())
            self._followed.clear()
        for reply in replies:
            reply.end()
            reply.tell()

    def _watch(self) -> None:
        db = self._store.context.db
        try:
            while replies := self._wanted():
                seen = db.changes()
                news = [self._look(reply) for reply in replies]
                if not any(news):
                    # A recorder that is killed commits nothing more: look now and then.
                    db.changed(seen, LOOK_AFTER)
        except ThreadkeepError as error:
            log.debug("nobody is followed any more: %s", error)
            with self._guard:
                self._thread = None
            self.close()

    def _wanted(self) -> list[Reply]:
        with self._guard:
            replies = [reply for reply in self._followed.values() if not reply.over]
            if not replies:
                self._thread = None
            return replies

    def _look(self, reply: Reply) -> bool:
        try:
            news = reply.look(self._store)
        except ThreadkeepError as error:
            log.warning("the reply %s cannot be followed: %s", reply.message_id, error)
            reply.end()
            news = True
        if news:
            reply.tell()
        return news


# ------------------------------------------------------------------------------
# Chat sessions as they happen: who records right now, and what they write.

# How often somebody who follows is asked whether it is still wanted, in seconds.
_ASK_EVERY = 1.0


def running_runs(store: ChatStore, session_id: str) -> set[str]:
    """Return the runs of a session that somebody records right now."""
    return {row[2] for row in _live_running(store, session_id) if row[2] is not None}


def _live_running(store: ChatStore, session_id: str) -> list[Row]:
    with store.context.db.read() as tx:
        return [
            row
            for row in tx.all("session_recordings", {"session_id": session_id})
            if is_running(tx, row)
        ]


def follow(
    store: ChatStore,
    session_id: str,
    after: int,
    *,
    until_idle: bool,
    wanted: Callable[[], bool],
) -> Generator[Event, None, None]:
    """Return a session's events as they commit, as long as they are wanted (asked every second)."""
    # Announced over the whole time: a reply that ends between two looks keeps its chunks.
    store.context.db.follow()
    try:
        while wanted():
            live = bool(_live_running(store, session_id))
            events = store.tail(
                session_id,
                after,
                follow=live or not until_idle,
                until_idle=until_idle,
                timeout=_ASK_EVERY,
            )
            for event in events:
                after = event.seq
                yield event
            if until_idle and not live:
                return
    finally:
        store.context.db.unfollow()

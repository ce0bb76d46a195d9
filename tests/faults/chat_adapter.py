"""The chat store behind the line protocol of the fault tools (protocol.py).

A key is a message id.
"""

import argparse
import contextlib
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.old_files import make_old_file  # noqa: E402
from tests.faults.protocol import Adapter, Save, patiently, speak, tell  # noqa: E402
from tests.faults.replies import Chunk, digest, moments, revision_of, story, words  # noqa: E402
from threadkeep.chat.records import Session  # noqa: E402
from threadkeep.chat.store import ChatStore  # noqa: E402
from threadkeep.errors import Conflict  # noqa: E402

PACE = 0.002
FLUSH_EVERY = 40
SHARED = "shared"


class Writer:
    """One process that writes, and says so."""

    def __init__(self, store: ChatStore, iteration: int, number: int) -> None:
        self.store = store
        self.name = f"{iteration}-{number}"
        self.order = iteration * 1_000_000
        self.own = self.session(f"w{number}")
        self.late: tuple[Save, Chunk] | None = None

    def session(self, name: str) -> str:
        """Return the session of this id, whoever comes first makes it."""
        if name not in {session.id for session in all_sessions(self.store)}:
            with contextlib.suppress(Conflict):  # another process was first
                self.store.create_session(agent="faults", model="p/m", session_id=name)
        return name

    def say(self, session: str, place: int) -> None:
        """Say something as the user: one message, durable when acknowledged."""
        key = f"u{self.name}-{session}-{place}"
        rng = random.Random(key)
        part = {"type": "text", "text": words(rng, rng.choice((10, 50, 400)))}
        metadata = {"writer": self.name, "n": place, "order": self.order + place}
        shown = {**metadata, "schema_version": 1}
        what = Save(key, 0, digest({"role": "user", "metadata": shown, "parts": [part]}))
        say = partial(self.store.say, session, part, metadata=metadata, message_id=key)
        tell("ACK", *what, patiently([what], say))


# Streams ----------------------------------------------------------------------------------


def stream(writer: Writer, count: int) -> None:
    """Record replies chunk by chunk, each acknowledged when `feed` returns."""
    for place in range(count):
        writer.say(writer.own, place)
        reply(writer, place, Eager())


def ordered(writer: Writer, count: int) -> None:
    """Record replies of which each is final when the next begins: no late results."""
    for place in range(count):
        writer.say(writer.own, place)
        reply(writer, place, Eager())
        writer.late = None


def relaxed(writer: Writer, count: int) -> None:
    """Record long texts with no boundary; chunks are acknowledged a second later."""
    for place in range(count):
        key = f"r{writer.name}-{place}"
        announce(key)
        told = story(key)
        teller = Relaxed()
        with writer.store.record(writer.own) as recorder:
            for moment, chunk in zip(moments(told), told.segments[0], strict=True):
                what = Save(key, *moment)
                teller.stored(what, patiently([what], partial(recorder.feed, chunk)))
                time.sleep(PACE)


def boundary(writer: Writer, count: int) -> None:
    """Record replies; chunks are acknowledged when something durable came after them."""
    announce(reply_key(writer, 0))
    for place in range(count):
        announce(reply_key(writer, place + 1))
        writer.say(writer.own, place)
        reply(writer, place, Patient())


def reply_key(writer: Writer, place: int) -> str:
    return f"k{writer.name}-{place}"


def announce(key: str) -> None:
    """Say beforehand what a reply will look like.

    A power cut stops the listener too: what was tried in its last moment would be unknown.
    """
    for moment in moments(story(key)):
        tell("TRY", key, moment.rev, moment.digest)


class Eager:
    """Acknowledges every chunk when it is stored."""

    def stored(self, what: Save, took: int, _chunk: Chunk) -> bool:
        tell("ACK", *what, took)
        return False

    def durable(self) -> None:
        """Nothing waits for it."""


class Patient:
    """Acknowledges chunks when a durable boundary has passed."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Save, int]] = []

    def stored(self, what: Save, took: int, chunk: Chunk) -> bool:
        """Take note of a stored chunk; tell whether it is time to flush."""
        self.waiting.append((what, took))
        if is_boundary(chunk):
            self.durable()
        return len(self.waiting) >= FLUSH_EVERY

    def durable(self) -> None:
        for what, took in self.waiting:
            tell("ACK", *what, took)
        self.waiting.clear()


class Relaxed:
    """Acknowledges a chunk when a later one came in more than a second after it.

    At least once a second a chunk is stored durably, and everything before it with it.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[float, Save, int]] = deque()

    def stored(self, what: Save, took: int) -> None:
        now = time.monotonic()
        began = now - took / 1e6
        while self.waiting and began - self.waiting[0][0] > 1:
            _, earlier, time_taken = self.waiting.popleft()
            tell("ACK", *earlier, time_taken)
        self.waiting.append((now, what, took))


def is_boundary(chunk: Chunk) -> bool:
    """Tell whether this chunk is durable when `feed` returns: a step, an end, a tool's state."""
    kind = chunk["type"]
    ends = kind in {"finish-step", "finish", "abort", "error"}
    return ends or (kind.startswith("tool-") and kind != "tool-input-delta")


def reply(writer: Writer, place: int, teller: Eager | Patient) -> None:
    """Record one reply, with the result that the one before it still waited for."""
    told = story(reply_key(writer, place))
    after = [Save(told.key, *moment) for moment in moments(told)]
    results, writer.late = writer.late, None
    done = 0
    for segment in told.segments:
        with writer.store.record(writer.own, told.key if done else None) as recorder:
            saves = list(zip(after[done:], segment, strict=False))
            done += len(segment)
            if results is not None:
                saves.insert(1, results)
                results = None
            for what, chunk in saves:
                took = patiently([what], partial(recorder.feed, chunk))
                if teller.stored(what, took, chunk):
                    recorder.flush()
                    teller.durable()
        teller.durable()
    if told.late is not None:
        writer.late = (after[-1], told.late)


def says(writer: Writer, count: int) -> None:
    """Say things by turns in a session of one's own and in one that all writers share."""
    shared = writer.session(SHARED)
    for place in range(count):
        writer.say(shared if place % 2 else writer.own, place // 2)


MODES = {
    "stream": stream,
    "ordered": ordered,
    "boundary": boundary,
    "relaxed": relaxed,
    "say": says,
}


def write(options: argparse.Namespace) -> None:
    with ChatStore.open(options.db) as store:
        MODES[options.mode](Writer(store, options.iter, options.w), options.n)


# Reading back -----------------------------------------------------------------------------


def all_sessions(store: ChatStore) -> Iterator[Session]:
    """Return every session, page by page."""
    cursor = None
    while True:
        page = store.sessions(archived=None, ephemeral=True, limit=500, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def show(database: str) -> list[str]:
    with ChatStore.open(database) as store:
        problems = [problem for s in all_sessions(store) for problem in show_session(store, s)]
        return [*problems, *store.verify().problems]


def show_session(store: ChatStore, session: Session) -> list[str]:
    """Print what a session holds; give what is wrong with its order or its runs."""
    problems: list[str] = []
    newest: dict[str, int] = {}
    for message in store.ui_messages(session, view="all"):
        key, sha = message["id"], digest(message)
        if message["role"] == "assistant":
            tell("HAVE", quote(key), revision_of(key, sha), sha)
            continue
        noted = message.get("metadata") or {}
        if "order" not in noted:  # a file of another program
            tell("HAVE", quote(key), 0, sha)
            continue
        writer, order = noted["writer"], noted["order"]
        tell("HAVE", quote(key), 0, sha, f"{session.id}/{writer}:{noted['n']}")
        if order <= newest.get(writer, -1):
            problems.append(f"{key} stands behind a later message of the same writer")
        newest[writer] = order
    unended = [run.id for run in store.runs(session) if run.ended_at is None]
    return problems + [f"run {run} never ended" for run in unended]


# Schemas ----------------------------------------------------------------------------------


def migrate(path: Path) -> None:
    ChatStore.open(path).close()


def fresh(path: Path, _: int) -> None:
    """Every version ends as a file that never was an older one."""
    migrate(path)


if __name__ == "__main__":
    speak(Adapter("chat store", list(MODES), write, show, make_old_file, migrate, fresh))

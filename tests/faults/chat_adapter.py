"""The chat store behind the line protocol of the fault tools.

    chat_adapter.py write   --db P [--mode M] --iter I --w W --n N
    chat_adapter.py verify  --db P
    chat_adapter.py old     --db P --version V
    chat_adapter.py migrate --db P
    chat_adapter.py fresh   --db P

A writer prints `TRY key rev sha` before a save and `ACK key rev sha microseconds` after it, or
`ERR key rev Class` when the store refused it. The verifier prints `HAVE key rev sha [session:seq]`
for every message and one `CHECK`. A key is a message id.

Any error that is not one of threadkeep's own is a bug: it ends the program by a signal, which
every tool counts as a failure.
"""

import argparse
import contextlib
import os
import random
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import quote

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.old_files import make_old_file  # noqa: E402
from tests.faults.replies import Chunk, digest, moments, revision_of, story, words  # noqa: E402
from threadkeep.chat.records import Session  # noqa: E402
from threadkeep.chat.store import ChatStore  # noqa: E402
from threadkeep.errors import Conflict, ThreadkeepError  # noqa: E402

ATTEMPTS = 3
PACE = 0.002
FLUSH_EVERY = 40
SHARED = "shared"
BUGS = "THREADKEEP_FAULT_BUGS"


def tell(*words_: object) -> None:
    """Print one line in one system call: a killed process has said it whole or not at all."""
    line = " ".join(map(str, words_)).encode("utf-8", "backslashreplace")
    os.write(1, line.replace(b"\n", b" ") + b"\n")


class GaveUp(Exception):
    """The store refused the same save several times."""


class Save(NamedTuple):
    """One save as the tools know it: which message, which revision of it, what it looks like."""

    key: str
    rev: int
    sha: str


class Writer:
    """One process that writes, and says so."""

    def __init__(self, store: ChatStore, iteration: int, number: int) -> None:
        self.store = store
        self.name = f"{iteration}-{number}"
        self.order = iteration * 1_000_000
        self.own = self.session(f"w{number}")
        self.late: tuple[Save, Chunk] | None = None

    def session(self, name: str) -> str:
        """Give the session of this id, whoever comes first makes it."""
        if name not in {session.id for session in all_sessions(self.store)}:
            with contextlib.suppress(Conflict):  # another process was first
                self.store.create_session(agent="faults", model="p/m", session_id=name)
        return name

    def save(self, what: Save, action: Callable[[Chunk], object], chunk: Chunk) -> int:
        """Try a save until the store takes it; give the microseconds it took."""
        for _ in range(ATTEMPTS):
            tell("TRY", *what)
            began = time.perf_counter()
            try:
                action(chunk)
            except ThreadkeepError as error:
                tell("ERR", what.key, what.rev, type(error).__name__, error.message[:200])
            else:
                return int((time.perf_counter() - began) * 1e6)
        raise GaveUp

    def say(self, session: str, place: int) -> None:
        """Say something as the user: one message, durable when acknowledged."""
        key = f"u{self.name}-{session}-{place}"
        rng = random.Random(key)
        part = {"type": "text", "text": words(rng, rng.choice((10, 50, 400)))}
        metadata = {"writer": self.name, "n": place, "order": self.order + place}
        shown = {**metadata, "schema_version": 1}
        what = Save(key, 0, digest({"role": "user", "metadata": shown, "parts": [part]}))
        took = self.save(
            what,
            lambda said: self.store.say(session, said, metadata=metadata, message_id=key),
            part,
        )
        tell("ACK", *what, took)


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
                teller.stored(what, writer.save(what, recorder.feed, chunk))
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
                took = writer.save(what, recorder.feed, chunk)
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
    try:
        with ChatStore.open(options.db) as store, contextlib.suppress(GaveUp):
            MODES[options.mode](Writer(store, options.iter, options.w), options.n)
    except ThreadkeepError as error:  # not even opening, or ending the last reply, was possible
        tell("ERR", f"end{options.iter}-{options.w}", 0, type(error).__name__, error.message)
    tell("DONE")


# Reading back -----------------------------------------------------------------------------


def all_sessions(store: ChatStore) -> Iterator[Session]:
    """Give every session, page by page."""
    cursor = None
    while True:
        page = store.sessions(archived=None, ephemeral=True, limit=500, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def verify(options: argparse.Namespace) -> None:
    try:
        with ChatStore.open(options.db) as store:
            problems = [problem for s in all_sessions(store) for problem in show_session(store, s)]
            problems += store.verify().problems
    except ThreadkeepError as error:
        problems = [f"{type(error).__name__}: {error.message}"]
    if problems:
        tell("CHECK fail", len(problems), problems[0])
    else:
        tell("CHECK ok")


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


def old(options: argparse.Namespace) -> None:
    make_old_file(Path(options.db), options.version)


def migrate(options: argparse.Namespace) -> None:
    ChatStore.open(options.db).close()


COMMANDS = {"write": write, "verify": verify, "old": old, "migrate": migrate, "fresh": migrate}


def main() -> None:
    parser = argparse.ArgumentParser(description="The chat store behind the fault tools.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--db", required=True)
    parser.add_argument("--mode", choices=MODES, default="stream")
    parser.add_argument("--iter", type=int, default=0)
    parser.add_argument("--w", type=int, default=0)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--version", type=int, default=0)
    options = parser.parse_args()
    try:
        COMMANDS[options.command](options)
    except ThreadkeepError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001
        report_bug(traceback.format_exc())


def report_bug(trace: str) -> NoReturn:
    """Note an error that is not one of ours where the test looks, and end by a signal."""
    place = os.environ.get(BUGS)
    if place:
        with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as notes:
            notes.write(f"{' '.join(sys.argv)}\n{trace}\n")
    sys.stderr.write(trace)
    sys.stderr.flush()
    os.abort()


if __name__ == "__main__":
    main()

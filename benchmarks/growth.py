"""`growth`: the same work at 1×, 10× and 100× the size of what is there, and its exponent.

An exponent of 0 means that the size does not matter, 1 that the cost rises as the size does. What
is looked up in a tree or an index is near 0; what reads everything is 1, and belongs there.
"""

import itertools
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.capture_made import Clerk
from benchmarks.corpus import messages, stream
from benchmarks.measure import median_of, used_by
from benchmarks.place import Place
from benchmarks.recall.corpus import NOW, make_store as make_history
from benchmarks.recall.speed import QUESTIONS, query_set
from benchmarks.report import Goal, Growth, Result, Table, figure
from benchmarks.state_corpus import COMMON, sessions
from benchmarks.state_files import copied, filled, memory
from threadkeep.base.clock import now_ms
from threadkeep.capture.capture import History
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.intake import CaptureContext, this_machine
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.chat.store import ChatStore
from threadkeep.home.home import Home
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.memory import Memory
from threadkeep.service.learn import learn_recent
from threadkeep.sources.chat_store import ChatSource
from threadkeep.sources.records import UserHome
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.search.search import search_messages

_MICRO: Final = 1e6
_FLAT: Final = 0.15  # what a tree that gets a level deeper, and a busy machine, add to 0
_LINEAR: Final = 1.1
_DELTAS: Final = 200
_SAID: Final = 20
_MINUTE_MS: Final = 60_000
_SHORT_LOG, _NEW_LOG = 20_000, 200_000  # bytes

# Does the work once; what it costs is divided by how many times that is.
Work = Callable[[], object]
# Makes a store of a size in a folder, and gives the work.
Prepare = Callable[[Place, Path, int], AbstractContextManager[Work]]


class Row(NamedTuple):
    """Something that is done, in what, how often in one go, and the most its exponent may be."""

    what: str
    unit: str
    smallest: int
    prepare: Prepare
    times: int = 1
    limit: float = _FLAT


# ------------------------------------------------------------------ chat


@contextmanager
def _feeding(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """Deltas into a text that has so many already."""
    given = stream("text", size + 20 * _DELTAS)
    with ChatStore.open(folder / "chat.db") as store:
        session = store.create_session(agent="bench", model="none/none").id
        with store.record(session) as recorder:
            for chunk in (*given.opening, *given.deltas[:size]):
                recorder.feed(chunk)
            left = iter(given.deltas[size:])

            def work() -> None:
                for _ in range(_DELTAS):
                    recorder.feed(next(left))

            yield work


_SESSION: Final = """
INSERT INTO chat_sessions(id, agent, created_at, updated_at) VALUES ('ses', 'bench', 0, 0)
"""
_MESSAGE: Final = """
INSERT INTO chat_messages(id, session_id, role, created_at, updated_at) VALUES (?, 'ses', ?, ?, ?)
"""
_PART: Final = """
INSERT INTO chat_parts(
  id, message_id, session_id, "index", type, data_json, created_at, updated_at)
VALUES (?, ?, 'ses', 0, 'text', json_object('type', 'text', 'text', ?), ?, ?)
"""


def fill_chat(path: Path, size: int) -> None:
    """Make a chat file with one session of so many messages, as another program would."""
    ChatStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_SESSION)
        for number, message in enumerate(messages(size)):
            name, text = f"{number:09}", message["parts"][0]["text"]
            connection.execute(_MESSAGE, (f"msg_{name}", message["role"], number, number))
            connection.execute(_PART, (f"prt_{name}", f"msg_{name}", text, number, number))


@contextmanager
def _chat(folder: Path, size: int) -> Iterator[ChatStore]:
    fill_chat(folder / "chat.db", size)
    with ChatStore.open(folder / "chat.db") as store:
        store.search("nowhere")
        yield store


@contextmanager
def _saying(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """Messages into a session that has so many already."""
    given = messages(_SAID)
    with _chat(folder, size) as store:
        yield lambda: [store.say("ses", message["parts"]) for message in given]


@contextmanager
def _loading(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    with _chat(folder, size) as store:
        yield lambda: store.ui_messages("ses")


@contextmanager
def _searching(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    words = Counter(" ".join(message["parts"][0]["text"] for message in messages(100)).split())
    frequent = max(filter(str.isalpha, words), key=words.__getitem__)
    with _chat(folder, size) as store:
        yield lambda: store.search(frequent, limit=20)


@contextmanager
def _capturing(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """A new message each minute, said and taken into a history that has the session so far."""
    path = folder / "chat.db"
    fill_chat(path, size)
    now = itertools.count(1_800_000_000_000, _MINUTE_MS)
    source, given = ChatSource([path]), itertools.cycle(messages(_SAID))
    with (
        ChatStore.open(path, clock=lambda: next(now)) as store,
        KnowledgeStore.open(folder / "knowledge.db") as knowledge,
    ):
        around = CaptureContext(
            store=knowledge,
            user=UserHome(folder),
            mask=lambda lines, _before, _after: MaskedBlock(lines),
            clock=now_ms,
            who=this_machine(),
            exclusion=Exclusion(),
        )

        def work() -> None:
            store.say("ses", next(given)["parts"])
            capture(around, {"chat": source})

        work()
        yield work


# ------------------------------------------------------------------ logs


class _Logs:
    """Sessions of Claude Code in a user's home, and the history that they are captured into."""

    def __init__(self, user: Path, home: Home, history: History) -> None:
        self._folder = user / ".claude" / "projects" / "-home-u-app"
        self._folder.mkdir(parents=True)
        self._clerk = Clerk(7)
        self._learn = partial(learn_recent, home, history)
        self._history = history

    def write(self, size: int) -> Path:
        """Write another session of about so many bytes."""
        session = self._clerk.uuid()
        path = self._folder / f"{session}.jsonl"
        path.write_bytes(self._clerk.claude(session, size))
        return path

    def capture(self) -> None:
        """Capture, learn and index, as the command does."""
        self._history.capture(learn=self._learn)
        self._history.store.index()

    def look(self) -> None:
        """Capture as it is done while somebody watches."""
        self._history.capture(CaptureFilter(again=False))


@contextmanager
def _logs(folder: Path) -> Iterator[_Logs]:
    user, home = folder / "user", Home(folder / "home", environ={})
    user.mkdir()
    with home.history(user_home=user) as history:
        yield _Logs(user, home, history)


@contextmanager
def _captured(folder: Path, size: int) -> Iterator[_Logs]:
    with _logs(folder) as logs:
        for _ in range(size):
            logs.write(_SHORT_LOG)
        logs.capture()
        yield logs


@contextmanager
def _new_log(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """A new session beside so many that are captured already."""
    with _captured(folder, size) as logs:

        def work() -> None:
            logs.write(_NEW_LOG)
            logs.capture()

        yield work


@contextmanager
def _nothing_new(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    with _captured(folder, size) as logs:
        yield logs.capture


@contextmanager
def _new_line(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """A new line in a log that grows before our eyes and has so many bytes already."""
    with _logs(folder) as logs:
        path = logs.write(size)
        logs.capture()
        line = path.read_bytes().splitlines(keepends=True)[0]
        numbers = itertools.count()

        def work() -> None:
            record = {**json.loads(line), "uuid": f"new-{next(numbers)}"}
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
            logs.look()

        yield work


# ------------------------------------------------------------------ state


@contextmanager
def _state(place: Place, size: int) -> Iterator[SessionDB]:
    with memory() as folder, SessionDB(copied(filled(place, size).ours, folder)) as store:
        search_messages(store.context, "nowhere")
        yield store


@contextmanager
def _appending(place: Place, _folder: Path, size: int) -> Iterator[Work]:
    """Messages into a file that has so many."""
    given: list[dict[str, Any]] = next(iter(sessions(200))).messages[:_SAID]
    with _state(place, size) as store:
        store.create_session("bench", "cli")

        def work() -> None:
            for message in given:
                store.append_message("bench", **{**message, "timestamp": None})

        yield work


@contextmanager
def _finding(place: Place, _folder: Path, size: int) -> Iterator[Work]:
    with _state(place, size) as store:
        yield lambda: search_messages(store.context, f"{COMMON} error timeout", limit=20)


# ------------------------------------------------------------------ recall


@contextmanager
def _recalling(_place: Place, folder: Path, size: int) -> Iterator[Work]:
    """Questions of nine kinds over a history of so many messages, none asked twice."""
    home = make_history(folder, size, size // 10)
    seeds = itertools.count()
    with home.history(user_home=folder / "user") as history:
        memory = Memory(history.store, history.sources, clock=lambda: NOW)
        memory.index()
        yield lambda: [memory.recall(one.text, one.within) for one in query_set(next(seeds))]


ROWS: Final = (
    Row("feed() of a delta", "deltas of the text", 100, _feeding, _DELTAS),
    Row("say()", "messages of the session", 100, _saying, _SAID),
    Row("loading a chat session", "messages of the session", 100, _loading, limit=_LINEAR),
    Row("search of chats, a frequent word", "parts", 100, _searching, limit=0.5),
    Row("a new message in an own chat, captured", "messages of the session", 100, _capturing),
    Row("a new session of 200 KB, captured and learned from", "sessions", 10, _new_log, limit=0.5),
    Row("capture, nothing new", "logs", 10, _nothing_new, limit=_LINEAR),
    Row("a new line of a live log, captured", "bytes of the log", 100_000, _new_line),
    Row("append_message()", "messages of the file", 500, _appending, _SAID),
    Row("search of state, three terms", "messages of the file", 500, _finding, limit=0.5),
    Row("recall, a question", "messages", 400, _recalling, QUESTIONS, limit=0.5),
)


def run(place: Place) -> Result:
    """Do each of the rows at three sizes."""
    growths = [_measured(place, row) for row in ROWS]
    goals = [
        Goal(f"growth: {row.what}, exponent", row.limit, growth.exponent, "")
        for row, growth in zip(ROWS, growths, strict=True)
    ]
    return Result([_table(growths)], goals, growths=growths)


def _measured(place: Place, row: Row) -> Growth:
    sizes = tuple(row.smallest * factor for factor in (1, 10, 100))
    costs = tuple(_cost(place, row, size) for size in sizes)
    return Growth(row.what, row.unit, sizes, costs)


def _cost(place: Place, row: Row, size: int) -> float:
    """Return the CPU time of doing it once, in microseconds."""
    with place.fresh() as folder, row.prepare(place, folder, size) as work:
        work()
        runs = [used_by(work) for _ in range(place.either(15, 7))]
    return median_of(runs).cpu / row.times * _MICRO


def _table(growths: list[Growth]) -> Table:
    rows = [
        (
            growth.what,
            growth.unit,
            f"{growth.sizes[0]:,}",
            *(figure(cost) for cost in growth.costs),
            figure(growth.exponent, 2),
        )
        for growth in growths
    ]
    columns = ("CPU µs of", "size is", "1× is", "1×", "10×", "100×", "exponent")
    return Table("growth: the same at 1×, 10× and 100×", columns, rows)

"""Own stores are read on from a cursor: the same comes of it as of reading whole, for less work."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.lengths import examples
from tests.support.chats import new_session, open_store, reply, text_chunks, turn
from tests.support.states import Clock, open_state, talk
from tests.support.worlds import World
from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.chat.store import ChatStore
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.records import Entry
from threadkeep.sources.chat_store import ChatSource
from threadkeep.sources.records import DocumentItem, Log, Parser, Source, UserHome
from threadkeep.sources.state_store import StateSource
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import ManualClock, raw

SPENT: Final = {"input": 3, "output": 5}
# How far each was read, and counts that grow whenever a session is read whole.
_OF_READING: Final = ("tk_logs", "unknown", "source_health")


class Whole:
    """A source without its cursor: whatever has changed is read whole."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.agent = source.agent
        self.kind: Any = source.kind

    def roots(self, user: UserHome) -> list[Path]:
        return self._source.roots(user)

    def find(self, user: UserHome) -> Iterator[Log]:
        return self._source.find(user)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        return self._source.parser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        return self._source.entries(record, line, number)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        return self._source.items(log)

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        return self._source.records(log, item)


class Both:
    """Two stores that capture the same file, one with a cursor and one without."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.cursor, self.whole = World(folder / "cursor"), World(folder / "whole")
        self.cursor.sources, self.whole.sources = {"own": source}, {"own": Whole(source)}

    def capture(self) -> None:
        for world in (self.cursor, self.whole):
            world.now += 1000
            world.capture()
        read, whole = self.cursor.held(), self.whole.held()
        for name in _OF_READING:
            del read[name], whole[name]
        assert read == whole


# ---------------------------------------------------------------------- chat


class Chatting:
    """One chat file to which all kinds of things happen."""

    def __init__(self, store: ChatStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.sessions = [new_session(store, workspace_root="/w/app").id]
        self.said = 0
        self.growing: Any = None

    def session(self, place: int) -> str:
        return self.sessions[place % len(self.sessions)]

    def message(self, place: int) -> str | None:
        found = [one["id"] for one in self.store.ui_messages(self.session(place))]
        return found[place % len(found)] if found else None

    def words(self) -> str:
        self.said += 1
        return f"word{self.said} " + "and so on " * (self.said % 400)

    def say(self, place: int) -> None:
        self.store.say(self.session(place), self.words())

    def turn(self, place: int) -> None:
        turn(self.store, self.session(place), self.words(), self.words(), SPENT)

    def wait(self, place: int) -> None:
        self.clock.now += 60_000 * (1 + place % 9)

    def stand_still(self, place: int) -> None:
        """Let everything from here on happen in one millisecond, or go on."""
        self.clock.step = place % 2

    def stream(self, place: int) -> None:
        """Begin a reply, or let the one that grows grow."""
        if self.growing is None:
            recorder = self.store.record(self.session(place)).__enter__()
            self.growing = (recorder, iter(text_chunks(self.words())))
        recorder, chunks = self.growing
        for _ in range(1 + place % 3):
            chunk = next(chunks, None)
            if chunk is None:
                self.growing = None
                recorder.__exit__(None, None, None)
                return
            recorder.feed(chunk)
        recorder.flush()

    def spend(self, place: int) -> None:
        message = self.message(place)
        if message is not None:
            used = {"input": 1 + place, "output": 50 + place}
            self.store.record_usage(self.session(place), used, message=message)

    def edit(self, place: int) -> None:
        found = self.store.ui_messages(self.session(place))
        if found:
            message = found[place % len(found)]
            message["parts"] = [{"type": "text", "text": self.words()}]
            self.store.put_message(self.session(place), message)

    def tool(self, place: int) -> None:
        call = {"toolCallId": f"c{self.said}", "toolName": "bash", "input": {"command": "ls"}}
        chunks = text_chunks(self.words())
        with self.store.record(self.session(place)) as recorder:
            for chunk in (*chunks[:2], {"type": "tool-input-available", **call}, *chunks[2:]):
                recorder.feed(chunk)

    def enqueue(self, place: int) -> None:
        self.store.enqueue(self.session(place), self.words())

    def fire(self, place: int) -> None:
        for message in self.store.queued(self.session(place))[:1]:
            self.store.fire(self.session(place), message.id)

    def rewind(self, place: int) -> None:
        message = self.message(place)
        if message is not None:
            self.store.rewind(self.session(place), message)

    def unrewind(self, place: int) -> None:
        self.store.unrewind(self.session(place))

    def compact(self, place: int) -> None:
        self.store.compact(self.session(place), self.words(), tail_start=None)

    def fork(self, place: int) -> None:
        if len(self.sessions) < 4:
            self.sessions.append(self.store.fork(self.session(place)).id)

    def title(self, place: int) -> None:
        self.store.set_title(self.session(place), f"Title {place % 3}")

    def delete(self, place: int) -> None:
        if len(self.sessions) > 1 and self.growing is None:
            self.store.delete(self.sessions.pop(place % len(self.sessions)))

    def meddle(self, place: int) -> None:
        """Let another program change rows: hide, delete, or write over some in the middle."""
        message = self.message(place)
        if message is None or self.growing is not None:
            return
        with raw(self.store) as other:
            if place % 3 == 0:
                other.execute("DELETE FROM chat_messages WHERE id = ?", (message,))
            elif place % 3 == 1:
                now = self.clock()
                hidden = "UPDATE chat_messages SET hidden_at = ?, updated_at = ? WHERE id = ?"
                other.execute(hidden, (now, now, message))
            else:
                text = '{"type": "text", "text": "written over"}'
                sql = "UPDATE chat_parts SET data_json = ?, updated_at = ? WHERE message_id = ?"
                other.execute(sql + " AND type = 'text'", (text, self.clock(), message))


CHAT_STEPS: Final = tuple(name for name in vars(Chatting) if name[0] != "_")
NOT_STEPS: Final = {"session", "message", "words"}
Steps = list[tuple[str, int, bool]]  # what happens, where, and whether it is captured then


# An older message is changed in the very millisecond in which it was read.
REPLACED: Final[Steps] = [
    *[("stand_still", 0, False), ("say", 0, False), ("say", 0, True)],
    *[("edit", 0, False), ("say", 0, True)],
]
WRITTEN_OVER: Final[Steps] = [
    *[("stand_still", 0, False), ("say", 0, False), ("say", 0, False)],
    *[("wait", 0, False), ("edit", 0, True), ("meddle", 2, False), ("say", 0, True)],
]
# An older reply grows in the millisecond in which a message came behind it.
GROWN: Final[Steps] = [
    *[("stand_still", 0, False), ("stream", 0, False), ("stream", 1, False), ("say", 0, True)],
    *[("edit", 1, False), ("stream", 0, False)],
]


def steps_of(names: Iterable[str]) -> st.SearchStrategy[Steps]:
    step = st.tuples(st.sampled_from(sorted(names)), st.integers(0, 30), st.booleans())
    return st.lists(step, min_size=4, max_size=25)


@settings(deadline=None, max_examples=examples(60))
@example(REPLACED)
@example(WRITTEN_OVER)
@example(GROWN)
@given(steps_of([*set(CHAT_STEPS) - NOT_STEPS, "say", "turn", "turn", "stream", "stream"]))
def test_a_chat_read_on_is_a_chat_read_whole(steps: Steps) -> None:
    with TemporaryDirectory() as folder:
        path, clock = Path(folder) / "chat.db", ManualClock()
        both = Both(Path(folder), ChatSource([path]))
        with open_store(path, clock) as store:
            chatting = Chatting(store, clock)
            _take(chatting, steps, both.capture)
            if chatting.growing is not None:
                chatting.growing[0].__exit__(None, None, None)


def _take(world: Any, steps: Steps, capture: Callable[[], None]) -> None:
    for name, place, captured in steps:
        try:
            getattr(world, name)(place)
        except ThreadkeepError:
            continue  # refused: nothing happened
        if captured:
            capture()
    capture()


# ---------------------------------------------------------------------- state


class Talking:
    """One state file to which all kinds of things happen."""

    def __init__(self, db: SessionDB, clock: Clock) -> None:
        self.db, self.clock = db, clock
        self.said = 0
        for name in ("a", "b"):
            db.ensure_session(name, "cli")

    def session(self, place: int) -> str:
        return "ab"[place % 2]

    def words(self) -> str:
        self.said += 1
        return f"word{self.said} " + "and so on " * (self.said % 400)

    def talk(self, place: int) -> None:
        talk(self.db, self.session(place), *(self.words() for _ in range(1 + place % 3)))

    def wait(self, place: int) -> None:
        self.clock.pass_days((1 + place) / 1000)

    def rewind(self, place: int) -> None:
        found = self.db.get_messages(self.session(place))
        if found:
            self.db.rewind_to_message(self.session(place), found[place % len(found)]["id"])

    def unrewind(self, place: int) -> None:
        self.db.undo_rewind(self.session(place))

    def replace(self, place: int) -> None:
        found = self.db.get_messages(self.session(place))[place % 3 :]
        self.db.replace_messages(
            self.session(place), [{"role": one["role"], "content": one["content"]} for one in found]
        )

    def clear(self, place: int) -> None:
        self.db.clear_messages(self.session(place))

    def title(self, place: int) -> None:
        self.db.set_session_title(self.session(place), f"Title {place}")

    def spend(self, place: int) -> None:
        self.db.update_token_counts(self.session(place), input_tokens=place, output_tokens=7)

    def end(self, place: int) -> None:
        self.db.end_session(self.session(place), "done")


STATE_STEPS: Final = tuple(name for name in vars(Talking) if name[0] != "_")


@settings(deadline=None, max_examples=examples(40))
@given(steps_of([*set(STATE_STEPS) - NOT_STEPS, "talk", "talk"]))
def test_a_state_read_on_is_a_state_read_whole(steps: Steps) -> None:
    with TemporaryDirectory() as folder:
        path, clock = Path(folder) / "state.db", Clock()
        both = Both(Path(folder), StateSource([path]))
        with open_state(path, clock) as db:
            _take(Talking(db, clock), steps, both.capture)


# ---------------------------------------------------------------------- how much is read


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Name the query of every row that is read of other files."""
    seen: list[str] = []
    really = ForeignDatabase.rows

    def rows(database: ForeignDatabase, sql: str, params: Any = ()) -> Iterator[tuple[Any, ...]]:
        for row in really(database, sql, params):
            seen.append(sql)
            yield row

    monkeypatch.setattr(ForeignDatabase, "rows", rows)
    return seen


def _work(world: World, rows_read: list[str]) -> tuple[int, int, int]:
    """Capture, and tell how many rows were read, and lines and entries written."""
    rows_read.clear()
    part = world.capture().of(next(iter(world.sources.values())).agent)
    assert part.errors == {}
    return len(rows_read), part.lines, part.entries


def test_a_new_message_costs_the_same_in_a_short_and_in_a_long_chat(
    tmp_path: Path, rows_read: list[str]
) -> None:
    work = []
    for length in (10, 3000):
        path = tmp_path / f"{length}.db"
        world = World(tmp_path / str(length))
        world.sources = {"own": ChatSource([path])}
        clock = ManualClock()
        with open_store(path, clock) as store:
            session = new_session(store)
            store.put_message(session, {"id": "first", "role": "user", "parts": []})
            messages = [
                {
                    "id": f"m{place}",
                    "role": "user",
                    "parts": [{"type": "text", "text": f"w{place}"}],
                }
                for place in range(length)
            ]
            for message in messages:
                store.put_message(session, message)
            clock.now += 1000
            store.say(session, "the last one")
            world.capture()
            clock.now += 1000
            store.say(session, "one more")
            work.append(_work(world, rows_read))
            clock.now += 1000
            reply(store, session, "an answer", SPENT)
            work.append(_work(world, rows_read))
    assert work[:2] == work[2:]
    assert [entries for _, _, entries in work] == [1, 1, 1, 1]


def test_a_new_message_costs_the_same_in_a_short_and_in_a_long_state(
    tmp_path: Path, rows_read: list[str]
) -> None:
    work = []
    for length in (10, 3000):
        path = tmp_path / f"{length}.db"
        world = World(tmp_path / str(length))
        world.sources = {"own": StateSource([path])}
        with open_state(path) as db:
            db.ensure_session("s", "cli")
            db.append_messages("s", [{"role": "user", "content": f"w{n}"} for n in range(length)])
            world.capture()
            talk(db, "s", "one more")
            work.append(_work(world, rows_read))
    assert work[0] == work[1]
    assert work[0][2] == 1

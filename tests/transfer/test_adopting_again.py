"""A second import brings what is new in known sessions; what two files have is captured once."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults.old_files import make_old_file
from tests.support.hermes_v6 import NOW, HermesV6
from threadkeep import Home
from threadkeep.base.tx import Sql
from threadkeep.home.opening import open_browse
from threadkeep.transfer.adopt import adopt
from threadkeep.transfer.originals import AdoptReport


class World:
    """A user who has Hermes, and a home that imports from it and captures."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.hermes = self.user / ".hermes" / "state.db"
        self.hermes.parent.mkdir(parents=True)
        self.environ = {"HOME": str(self.user)}
        self.home = Home(folder / "home", environ=self.environ)

    def say(self, session: str, *words: str) -> None:
        with HermesV6(self.hermes) as theirs:
            theirs.create_session(session)
            for word in words:
                theirs.append(session, "user", word)

    def sql(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.hermes)) as file, file:
            file.execute(statement, values)

    def adopt(self, **options: Any) -> AdoptReport:
        return adopt(self.home, "hermes", environ=self.environ, **options)

    def told(self, session: str) -> list[Any]:
        with self.home.state() as state:
            assert state.check() == []
            return [message["content"] for message in state.get_messages(session)]

    def captured(self) -> dict[str, Any]:
        """Capture, and give what lists, searches and sums say."""
        with self.home.history(user_home=self.user) as history:
            history.capture()
            sessions = history.sessions(everything=True, limit=1000)
            hits = history.search("hello OR a OR the", limit=5000)
        with open_browse(self.home) as browse:
            usage = browse.usage().total
        return {
            "sessions": sorted((one.agent, one.session_id, one.entries) for one in sessions),
            "hits": sorted((one.session.session_id, one.shown.row.key) for one in hits),
            "usage": usage,
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.say("one", "hello", "there")
    made.say("two", "hello, too")
    made.sql("UPDATE sessions SET model = 'm', input_tokens = 100, output_tokens = 7")
    return made


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return list(file.iterdump())


def unchanged(world: World) -> None:
    """Import once more: nothing may move."""
    before = dump(world.home.state_path())
    again = world.adopt()
    assert (again.added, again.updated) == (0, 0)
    assert dump(world.home.state_path()) == before


@pytest.mark.parametrize("copied", [True, False])
def test_new_messages_of_known_sessions_come_in(world: World, *, copied: bool) -> None:
    if not copied:  # a store that is there is merged into, and gives messages numbers of its own
        with world.home.state(world.home.paths().data / "state.db") as state:
            state.create_session("ours", "cli")
            state.append_message("ours", "user", "first of all")
    assert world.adopt().copied is copied
    with world.home.state() as state:
        state.append_message("two", "user", "said to us")
    world.say("one", "more")
    world.say("two", "theirs")
    world.say("three", "hello")
    planned = world.adopt(dry_run=True)
    done = world.adopt()
    for one in (planned, done):
        assert (one.added, one.updated, one.skipped) == (1, 2, 0)
    assert world.told("one") == ["hello", "there", "more"]
    assert world.told("two") == ["hello, too", "said to us", "theirs"]
    assert world.told("three") == ["hello"]
    with world.home.state() as state:
        assert (state.get_session("one") or {})["message_count"] == 3
        assert state.search_messages("more")
    unchanged(world)


def test_what_was_changed_or_taken_back_there_is_so_here(world: World) -> None:
    world.adopt()
    world.sql("UPDATE messages SET content = 'goodbye' WHERE content = 'hello'")
    world.sql("DELETE FROM messages WHERE content = 'there'")
    world.say("one", "anew")
    world.sql(
        "UPDATE sessions SET title = 'Tides', ended_at = ?, end_reason = 'done', input_tokens = 120"
        " WHERE id = 'one'",
        NOW,
    )
    assert world.adopt().updated == 1
    assert world.told("one") == ["goodbye", "anew"]
    with world.home.state() as state:
        session = state.get_session("one") or {}
        found = [session[name] for name in ("title", "ended_at", "end_reason", "input_tokens")]
        assert found == ["Tides", NOW, "done", 120]
        assert state.search_messages("goodbye")
        assert not state.search_messages("there")
    unchanged(world)


def test_what_was_changed_here_stays_and_is_told(world: World) -> None:
    world.adopt()
    with world.home.state() as state:
        state.append_message("one", "user", "said to us")
        state.set_session_title("two", "Ours")
    world.sql("UPDATE sessions SET title = 'Theirs ' || id")
    world.sql("DELETE FROM messages WHERE content = 'there'")
    done = world.adopt()
    assert world.told("one") == ["hello", "there", "said to us"]
    with world.home.state() as state:
        assert state.get_session_title("two") == "Ours"
        assert state.get_session_title("one") is None
    assert sum("title" in note for note in done.notes) == 2
    assert any("1 message" in note for note in done.notes)
    unchanged(world)


def test_a_transcript_that_was_written_anew_is_not_doubled(world: World) -> None:
    world.adopt()
    with closing(sqlite3.connect(world.hermes)) as file, file:
        rows = file.execute("SELECT session_id, role, content, timestamp FROM messages").fetchall()
        file.execute("DELETE FROM messages")
        sql = "INSERT INTO messages (id, session_id, role, content, timestamp) VALUES (?,?,?,?,?)"
        file.executemany(sql, [(100 + n, *row) for n, row in enumerate(rows)])
    world.say("one", "more")
    assert world.adopt().updated == 1
    assert world.told("one") == ["hello", "there", "more"]
    unchanged(world)


def test_a_store_that_does_not_know_the_numbers_is_matched_by_words(world: World) -> None:
    world.adopt()
    with world.home.state() as state, state.context.db.write() as tx:
        tx.run(Sql("DELETE FROM tk_keys"))
    world.say("one", "hello")  # the same words once more are one more message
    assert world.adopt().updated == 1
    assert world.told("one") == ["hello", "there", "hello"]
    unchanged(world)


@pytest.mark.parametrize("version", ["schema6", "schema26", "schema31"])
def test_real_files_are_imported_twice_and_captured_once(
    tmp_path: Path, shared_data: Path, version: str
) -> None:
    world = World(tmp_path)
    shutil.copy(shared_data / "data" / "state" / version / "state.db", world.hermes)
    before = world.captured()
    assert before["sessions"]
    assert world.adopt().added > 0
    unchanged(world)
    assert world.captured() == before


@pytest.mark.parametrize("first", ["capture", "import"])
def test_a_session_that_is_in_two_files_is_one(world: World, first: str) -> None:
    before = world.captured() if first == "capture" else None
    world.adopt()
    after = world.captured()
    assert before in (None, after)
    assert [name for name, _, _ in after["sessions"]] == ["hermes", "hermes"]
    assert (after["usage"].input, after["usage"].output) == (200, 14)
    with world.home.state() as state:
        state.append_message("one", "user", "hello from here")
        state.update_token_counts("one", input_tokens=5, output_tokens=1, model="m")
    world.say("one", "hello from there")
    grown = world.captured()
    assert grown["sessions"] == [("hermes", "one", 4), ("hermes", "two", 1)]
    assert (grown["usage"].input, grown["usage"].output) == (205, 15)
    world.adopt()
    assert world.captured() == grown
    assert world.told("one") == ["hello", "there", "hello from here", "hello from there"]


def test_what_was_imported_from_elsewhere_counts_until_its_program_is_found(
    world: World, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "old.db"
    world.hermes.rename(elsewhere)
    world.adopt(path=elsewhere)
    found = world.captured()
    assert [name for name, _, _ in found["sessions"]] == ["hermes", "hermes"]
    assert (found["usage"].input, found["usage"].output) == (200, 14)
    elsewhere.rename(world.hermes)
    assert world.captured() == found


def test_grida_is_brought_up_to_date(tmp_path: Path) -> None:
    home, path = Home(tmp_path / "home"), tmp_path / "sessions.db"
    make_old_file(path, 3)
    first = adopt(home, "grida", path)
    with closing(sqlite3.connect(path)) as file, file:
        session, message, part = file.execute(
            "SELECT m.session_id, m.id, p.id FROM chat_messages AS m"
            " JOIN chat_parts AS p ON p.message_id = m.id ORDER BY m.created_at LIMIT 1"
        ).fetchone()
        for table, old in (("chat_messages", message), ("chat_parts", part)):
            names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            new = {"id": f"'{table}-new'", "message_id": "'chat_messages-new'"}
            taken = ", ".join(new.get(name, f'"{name}"') for name in names)
            file.execute(f"INSERT INTO {table} SELECT {taken} FROM {table} WHERE id = ?", (old,))
        file.execute("UPDATE chat_sessions SET title = 'Tides', updated_at = updated_at + 1")
    with home.chat() as chat:
        before = len(chat.ui_messages(session))
    planned, done = adopt(home, "grida", path, dry_run=True), adopt(home, "grida", path)
    assert (planned.added, planned.updated) == (done.added, done.updated) == (0, first.added)
    assert done.problems == []
    with home.chat() as chat:
        assert len(chat.ui_messages(session)) == before + 1
        assert chat.session(session).title == "Tides"
        assert chat.verify().ok
    kept = dump(home.chat_path())
    assert adopt(home, "grida", path).updated == 0
    assert dump(home.chat_path()) == kept

"""A home moved to a server and back: whole or not at all, and nothing is lost on the way."""

import json
import multiprocessing
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from tests.lengths import at_length
from tests.support import knowledge_tour
from tests.support.chats import new_session, record, text_chunks
from threadkeep import ChatStore, Home
from threadkeep.base.engines import is_url
from threadkeep.base.postgres.pool import HomeAddress, connect
from threadkeep.base.postgres.schema import StorePlace, drop, has_home
from threadkeep.base.sqlite.table_copy import SqliteTarget
from threadkeep.cli.root import cli
from threadkeep.errors import Conflict, Invalid, NotFound, SchemaMismatch
from threadkeep.home.migration import HomeMove, abandon, migrate
from threadkeep.knowledge.upgrade import check_knowledge
from threadkeep.state.session_db import SessionDB

KILLS: Final = at_length(15, 3)
_homes = count()
_RANKED: Final = {"recall", "similar"}
_OF_THE_MOMENT: Final = {"context", "ask", "agent"}  # random marks, ages, and scores of passages
HOSTILE: Final = [
    *("NUL \0 here", "half \ud83d a character", "\uf8ff our own escape"),
    *("京都 😀", "", "a\tb\\n\\."),
]


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """Return the URL of a home that is not there, and leave none behind."""
    url = f"{server_url}&home=moved{next(_homes)}"
    yield url
    address = HomeAddress.read(url)
    with closing(connect(address, "pg_catalog")) as connection:
        drop(connection, address.home)
        drop(connection, f"{address.home}_new")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with conversations, one of them unfinished, and texts that are hard to keep."""
    with ChatStore.open(tmp_path / "home" / "chat.db", event_log=True) as store:
        for number in range(4):
            session = new_session(store, title=f"session {number}")
            for text in HOSTILE:
                message = {"id": f"m{number}-{len(text)}", "role": "user"}
                parts = [{"type": "text", "text": text}, {"type": "text", "text": text * 2}]
                store.put_message(session.id, {**message, "parts": parts})
            record(store, session, text_chunks("a reply"))
        recorder = store.record(session)
        for chunk in text_chunks("half a reply")[:4]:
            recorder.feed(chunk)
    return Home(tmp_path / "home")


def silent(table: str, rows: int) -> None:
    """Tell nobody."""


def exported(path: Path) -> list[str]:
    with ChatStore.open(path) as store:
        return list(store.export_all())


def columns_of(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def digests(done: HomeMove) -> dict[str, str]:
    (store,) = done.stores
    return store.digests


def exists(url: str, suffix: str = "") -> bool:
    address = HomeAddress.read(url)
    with closing(connect(address, "pg_catalog")) as connection:
        return has_home(connection, f"{address.home}{suffix}")


def test_the_store_on_the_server_is_the_same_and_goes_on(home: Home, url: str) -> None:
    before = exported(home.chat_path())
    migrate(home, url, tell=silent)
    with ChatStore.open(url) as store:
        assert list(store.export_all()) == before
        assert store.verify().problems == []
        assert len(store.search("reply")) == 5
        session = store.sessions().items[0]
        last = max(event.seq for event in store.tail(session, follow=False))
        record(store, session, text_chunks("more of it"))
        assert last < max(event.seq for event in store.tail(session, follow=False))
        assert len(store.search("more")) == 1


def test_there_and_back_nothing_changes(home: Home, url: str, tmp_path: Path) -> None:
    asked = "SELECT * FROM chat_events ORDER BY stream_id, seq"
    journal = columns_of(home.chat_path(), asked)
    there = migrate(home, url, tell=silent)
    back = migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    assert digests(back) == digests(there)
    assert there.stores[0].rows == there.stores[0].written > len(HOSTILE)
    copy = tmp_path / "back" / "chat.db"
    assert columns_of(copy, asked) == journal
    assert exported(copy) == exported(home.chat_path())
    with ChatStore.open(copy) as store:
        assert store.verify().problems == []
        assert store.search("reply")
    assert not (tmp_path / "back_new").exists()
    assert not exists(url, "_new")


def test_session_history_is_moved_with_what_a_column_cannot_hold(url: str, tmp_path: Path) -> None:
    words = {"reply": 8, "京都": 4, "tool": 4}
    home = Home(tmp_path / "home")
    with closing(SessionDB(home.state_path())) as store:
        for number in range(4):
            store.create_session(f"s{number}", "cli", model="m")
            for content in (*HOSTILE, "a reply", [{"type": "text", "text": "half \udc00 a reply"}]):
                store.append_message(f"s{number}", "user", content=content)
            store.append_message(f"s{number}", "tool", content=b"\xff\x00", tool_name="tool")
        before = told_of(store, words)
    assert before[1] == words
    there = migrate(home, url, tell=silent)
    with closing(SessionDB(url)) as store:
        assert told_of(store, words) == before
        last = store.append_message("s1", "user", content="and on")
        assert last > max(message["id"] for message in store.get_messages("s3"))
        store.delete_session("s1")
    back = migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    assert there.stores[0].rows > back.stores[0].rows
    with closing(SessionDB(tmp_path / "back" / "state.db")) as store:
        exports, found = told_of(store, words)
        assert exports == [one for one in before[0] if one["id"] != "s1"]
        assert found == {word: times * 3 // 4 for word, times in words.items()}


def told_of(store: SessionDB, words: Iterable[str]) -> tuple[list[Any], dict[str, int]]:
    exports = [store.export_session(f"s{number}") for number in range(4)]
    found = {word: len(store.search_messages(word)) for word in words}
    return [one for one in exports if one is not None], found


@pytest.mark.slow
def test_what_was_captured_is_moved_and_found_again(url: str, tmp_path: Path) -> None:
    home = knowledge_tour.new_home(tmp_path)
    knowledge_tour.fill(home)
    before, found = answers(home)
    there = migrate(home, url, tell=silent)
    assert [store.store for store in there.stores] == ["knowledge"]
    assert answers(Home(url)) == (before, found)
    back = migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    changed = {name for name in digests(there) if digests(there)[name] != digests(back)[name]}
    assert changed <= {"tk_recalled"}
    assert answers(Home(tmp_path / "back")) == (before, found)


def answers(home: Home) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """Return what a home answers, and which hits recall has: statistics of a new index differ."""
    told = dict(knowledge_tour.answers(home))
    ranked = {name for name in told if name.split()[0] in _RANKED}
    rest = {name: told[name] for name in told.keys() - ranked - _OF_THE_MOMENT}
    return rest, {name: {hit["ref"] for hit in told[name]["hits"]} for name in ranked}


class _CutError(Exception):
    """The program ends here."""


def test_a_move_that_is_cut_goes_on_where_it_was(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.base.table_copy.PAGE", 3)
    before = exported(home.chat_path())

    def cut(table: str, rows: int) -> None:
        if table == "chat_parts" and rows > 6:
            raise _CutError

    with pytest.raises(_CutError):
        migrate(home, url, tell=cut)
    assert not exists(url)  # nobody takes a half for the whole
    assert exists(url, "_new")
    done = migrate(home, url, tell=silent)
    assert 0 < done.stores[0].written < done.stores[0].rows
    assert exists(url)
    assert not exists(url, "_new")
    assert exported(home.chat_path()) == before


def test_a_move_that_is_killed_again_and_again_ends_with_the_same(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("threadkeep.base.table_copy.PAGE", 3)
    points, before = random.Random(19), exported(home.chat_path())
    back = str(tmp_path / "back")
    for target, source in ((url, None), (back, url)):
        kills = 0
        while kills < KILLS and killed(home, target, source, points.randrange(1, 30)):
            kills += 1
        assert kills
        if kills == KILLS:
            migrate(home, target, source=source, tell=silent)
        assert exported(home.chat_path()) == before, "the source is as it was"
    assert exported(tmp_path / "back" / "chat.db") == before
    assert not exists(url, "_new")


def killed(home: Home, target: str, source: str | None, pages: int) -> bool:
    """Move in a process that is killed after so many pages; False if it had ended by then."""
    told, tells = multiprocessing.Pipe(duplex=False)

    def move() -> None:
        migrate(home, target, source=source, tell=lambda *page: tells.send(page))

    process = multiprocessing.get_context("fork").Process(target=move)
    process.start()
    tells.close()
    with suppress(EOFError):
        for _ in range(pages):
            told.recv()
    process.kill()
    process.join()
    return process.exitcode != 0


def test_a_move_to_files_that_was_cut_behind_a_finished_store_goes_on(
    home: Home, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its indexes and triggers are there by then."""
    with closing(SessionDB(home.state_path())) as store:
        store.create_session("s", "cli", model="m")
        store.append_message("s", "user", content="hello")
        before = store.export_all()
    knowledge_tour.fill(knowledge_tour.new_home(tmp_path / "other"))
    (tmp_path / "other" / "knowledge.db").rename(home.knowledge_path())
    there = migrate(home, url, tell=silent)
    finish, done = SqliteTarget.finish, []

    def cut(target: SqliteTarget, refill: Any) -> None:
        finish(target, refill)
        if target.name not in done:
            done.append(target.name)
            raise _CutError

    monkeypatch.setattr(SqliteTarget, "finish", cut)
    for number in range(3):
        with pytest.raises(_CutError):
            migrate(home, str(tmp_path / "back"), source=url, tell=silent)
        assert len(done) == number + 1
    back = migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    assert [one.digests for one in back.stores] == [one.digests for one in there.stores]
    assert exported(tmp_path / "back" / "chat.db") == exported(home.chat_path())
    with closing(SessionDB(tmp_path / "back" / "state.db")) as store:
        assert store.export_all() == before
        assert store.search_messages("hello")
    assert check_knowledge(tmp_path / "back" / "knowledge.db").problems == []


def test_a_move_to_a_server_that_was_cut_at_its_end_takes_what_came_since(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SessionDB(home.state_path())) as store:
        store.create_session("s", "cli", model="m")

    def cut(*_: object) -> None:
        raise _CutError

    monkeypatch.setattr("threadkeep.base.postgres.schema.rename", cut)
    with pytest.raises(_CutError):
        migrate(home, url, tell=silent)
    monkeypatch.undo()
    assert not exists(url)
    with closing(SessionDB(home.state_path())) as store:
        store.append_message("s", "user", content="hello")
        before = store.export_all()
    migrate(home, url, tell=silent)
    with closing(SessionDB(url)) as store:
        assert store.export_all() == before
        assert store.search_messages("hello")


def test_a_page_that_was_spoilt_meanwhile_is_written_again(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def cut(*_: object) -> None:
        raise _CutError

    monkeypatch.setattr("threadkeep.base.postgres.schema.finish_copy", cut)
    with pytest.raises(_CutError):
        migrate(home, url, tell=silent)
    address = HomeAddress.read(url)
    place = StorePlace(f"{address.home}_new", "chat")
    with closing(connect(address, place.path)) as connection:
        connection.execute("UPDATE chat_parts SET data_json = '{}' WHERE index = 1")
        connection.execute("DELETE FROM chat_sessions WHERE title = 'session 2'")
    monkeypatch.undo()
    done = migrate(home, url, tell=silent)
    back = migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    assert digests(back) == digests(done)
    assert exported(tmp_path / "back" / "chat.db") == exported(home.chat_path())


def test_what_is_half_done_can_be_dropped(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise _CutError

    with pytest.raises(_CutError):
        migrate(home, url, tell=cut)
    assert abandon(url)
    assert not exists(url, "_new")
    assert not abandon(url)
    migrate(home, url, tell=silent)
    back = str(home.paths().data.parent / "back")
    with pytest.raises(_CutError):
        migrate(home, back, source=url, tell=cut)
    assert not Path(back).exists()
    assert abandon(back)
    assert not abandon(back)


def test_nothing_is_written_over(home: Home, url: str) -> None:
    migrate(home, url, tell=silent)
    with pytest.raises(Conflict, match="already exists"):
        migrate(home, url, tell=silent)
    with pytest.raises(Conflict, match="not empty"):
        migrate(home, str(home.paths().data), source=url, tell=silent)


def test_what_cannot_be_moved_whole_is_refused(home: Home, url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        migrate(Home(tmp_path / "empty"), url, tell=silent)
    with pytest.raises(NotFound, match="no store"):
        migrate(home, str(tmp_path / "back"), source=url, tell=silent)
    with pytest.raises(Invalid, match="not a URL"):
        migrate(home, str(tmp_path / "back"), tell=silent)
    with closing(sqlite3.connect(home.chat_path())) as file, file:
        file.execute("ALTER TABLE chat_sessions ADD COLUMN mood TEXT")
    migrate(home, url, tell=silent)  # nothing is in it
    with closing(sqlite3.connect(home.chat_path())) as file, file:
        file.execute("UPDATE chat_sessions SET mood = 'good'")
    with pytest.raises(Invalid, match=r"chat_sessions\.mood"):
        migrate(home, f"{url}x", tell=silent)
    with closing(sqlite3.connect(home.chat_path())) as file, file:
        file.execute("UPDATE tk_meta SET value = '1' WHERE key = 'schema_version'")
    with pytest.raises(SchemaMismatch, match="version 1"):
        migrate(home, f"{url}x", tell=silent)
    assert not exists(f"{url}x", "_new")


def test_psycopg_is_asked_for_where_it_lacks(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "threadkeep.base.postgres.pool", None)
    with pytest.raises(Invalid, match="psycopg") as refused:
        migrate(home, url, tell=silent)
    assert "pip install" in refused.value.hint


def test_the_command_says_what_it_moved(home: Home, url: str, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        done = CliRunner().invoke(cli, ["--home", str(home.paths().data), "migrate", *words])
        assert done.exit_code == 0, done.stderr
        return done

    told = json.loads(run("--to", url, "--json").stdout)
    assert [store["store"] for store in told["stores"]] == ["chat"]
    done = run("--from", url, "--to", str(tmp_path / "back"))
    assert str(tmp_path / "back") in done.stdout
    assert "no unfinished move" in run("--to", url, "--abandon").stderr
    assert is_url(told["target"])


def test_a_session_file_of_a_newer_hermes_goes_by_export(
    home: Home, url: str, shared_data: Path, tmp_path: Path
) -> None:
    """As the refusal says."""
    theirs = shared_data / "data" / "state" / "schema26" / "state.db"
    shutil.copy(theirs, home.state_path())
    run = ["--home", str(home.paths().data)]
    done = CliRunner().invoke(cli, [*run, "migrate", "--to", url])
    assert "`threadkeep state import`" in done.output
    assert not exists(url)
    file = str(tmp_path / "state.jsonl")
    assert CliRunner().invoke(cli, [*run, "state", "export", "--all", "-o", file]).exit_code == 0
    with closing(SessionDB(home.state_path())) as store:
        count = store.message_count()
    home.state_path().rename(tmp_path / "state.db")
    assert CliRunner().invoke(cli, [*run, "migrate", "--to", url]).exit_code == 0
    assert CliRunner().invoke(cli, ["--home", url, "state", "import", file]).exit_code == 0
    with closing(SessionDB(url)) as store:
        assert store.message_count() == count > 0

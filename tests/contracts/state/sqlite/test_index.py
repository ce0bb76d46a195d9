"""The two indexes: what goes into ours, when; damage that never reaches a message; repair."""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import open_state
from threadkeep.base.tx import Sql
from threadkeep.base.words import INDEX_LIMIT
from threadkeep.errors import Conflict, Invalid, ThreadkeepError
from threadkeep.state import verbs
from threadkeep.state.context import StateContext
from threadkeep.state.search import candidates, index_fill as drain_
from threadkeep.state.search.index_fill import (
    TRIGGERS,
    Parts,
    calls_text,
    check_index,
    document_of,
    drain,
    how_far,
    index_text_of,
)
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def rows(db: SessionDB, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db.db_path)) as other:
        return other.execute(sql).fetchall()


def damage(db: SessionDB, script: str) -> None:
    with closing(sqlite3.connect(db.db_path)) as other:
        other.executescript(script)


def triggers(db: SessionDB) -> set[str]:
    found = rows(db, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
    return {name for (name,) in found} & TRIGGERS


# ---------------------------------------------------------------------- what is indexed


@pytest.mark.parametrize(
    "parts, whole",
    [
        (Parts("user", "plain words", None, None), None),
        (Parts("user", None, None, None), None),
        (Parts("user", "今天", None, None), True),
        (Parts("tool", "output", None, "terminal"), False),
        (Parts("tool", "출력", None, "terminal"), True),
        (Parts("tool", "x " * 8_193, None, "terminal"), True),
        (Parts("user", "x " * 8_192, None, None), None),
        (Parts("user", "x " * 8_193, None, None), True),
        (Parts("user", "see data:image/png;base64,QUJD", None, None), True),
        (Parts("assistant", "", '[{"function": {"name": "go"}}]', None), True),
        (Parts("user", "short", None, None, offloaded=True), True),
    ],
)
def test_our_index_has_what_the_contracts_cannot_serve(parts: Parts, *, whole: bool | None) -> None:
    document = document_of(parts)
    assert (None if document is None else document.whole) == whole


def test_long_texts_are_cut_down() -> None:
    blob = "QUJDREVG" * 50_000
    text = index_text_of(Parts("user", f"before data:image/png;base64,{blob} after", None, None))
    assert text.startswith("\n\nbefore")
    assert text.endswith("after")
    assert len(text) < 300
    output = index_text_of(Parts("tool", f"head {'y ' * 50_000} tail", None, "cat"))
    assert {"cat", "head", "tail"} <= set(output.split())
    assert len(output) < 8_300
    assert len(index_text_of(Parts("user", "z " * INDEX_LIMIT, None, None))) < INDEX_LIMIT + 10


@pytest.mark.parametrize(
    "calls, wanted",
    [
        ([{"id": "c", "type": "function", "function": {"name": "go", "arguments": "{}"}}], "go"),
        ([{"function": {"name": "go", "arguments": '{"a": "b c", "id": 7}'}}], "go b c 7"),
        ([{"function": {"name": "go", "arguments": "{broken"}}], "go {broken"),
        ([{"name": "go", "input": {"type": "x", "deep": [{"id": "y"}]}}], "go x y"),
        (
            json.dumps([{"function": {"name": "twice", "arguments": '"encoded"'}}]),
            'twice "encoded"',
        ),
        ({"function": {"name": "one"}}, "one"),
        ([], ""),
        ([None, True, 1.5], "1.5"),
    ],
)
def test_names_and_arguments_of_tool_calls(calls: Any, wanted: str) -> None:
    assert calls_text(json.dumps(calls)) == wanted


def test_tool_calls_that_are_no_json() -> None:
    assert calls_text("not [json") == "not [json"
    assert calls_text("[" * 100_000) == "[" * 100_000
    assert calls_text(None) == ""


# ---------------------------------------------------------------------- filling it


def test_the_index_follows_in_batches(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_, "_BATCH", 3)
    make("s", *["海象"] * 10)
    seen: list[tuple[int, int]] = []
    assert drain(db.context, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(3, 10), (6, 10), (9, 10), (10, 10)]
    assert rows(db, "SELECT count(*) FROM tk_docs") == [(10,)]


def test_a_batch_is_bounded_by_its_size(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_, "_BATCH_CHARACTERS", 100)
    make("s", *["y" * 90] * 4)
    assert not drain(db.context, seconds=0)
    with db.context.db.read() as tx:
        assert how_far(tx).cursor == 2
    assert drain(db.context)


def test_appending_lets_the_index_follow_now_and_then(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_, "_EVERY", 256)
    make("s")
    db.append_messages("s", [{"role": "user", "content": "海象"}] * 255)
    assert rows(db, "SELECT count(*) FROM tk_docs") == [(0,)]
    db.append_message("s", "user", "the 256th")
    assert rows(db, "SELECT count(*) FROM tk_docs") == [(255,)]
    db.append_messages("s", [{"role": "user", "content": "海象"}] * 300)
    assert rows(db, "SELECT count(*) FROM tk_docs") == [(555,)]


def test_a_broken_index_of_ours_never_reaches_who_appends(db: SessionDB, make: Make) -> None:
    make("s")
    damage(db, "DROP TABLE tk_search")
    db.append_messages("s", [{"role": "user", "content": "海象"}] * 1_100)
    assert db.message_count("s") == 1_100


def test_numbers_of_documents_are_never_used_again(db: SessionDB, make: Make) -> None:
    """The postings of a deleted message stay; a new one must not inherit them."""
    make("s", "海象")
    drain(db.context)
    db.clear_messages("s")
    make("s", "天气")
    drain(db.context)
    assert db.search_messages("海象") == []
    assert [hit["id"] for hit in db.search_messages("天气")] == [2]


def test_rows_of_other_programs_get_their_fingerprints(db: SessionDB, make: Make) -> None:
    make("s", "ours")
    insert = (
        "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('s', 'user', 'x', 1)"
    )
    damage(db, insert)
    assert rows(db, "SELECT id FROM tk_hashes") == [(1,)]
    drain(db.context)
    assert rows(db, "SELECT id FROM tk_hashes") == [(1,), (2,)]
    assert db.check() == []


# ---------------------------------------------------------------------- damage


def refuse(_ctx: StateContext, tx: Any, what: str) -> None:
    tx.run(Sql(what))


def test_a_write_that_fails_for_its_own_reasons_leaves_the_index_alone(
    db: SessionDB, make: Make
) -> None:
    make("s", "one")
    with pytest.raises(Conflict):
        db.append_message("nobody", "user", "x")
    with pytest.raises(Invalid):
        db.append_messages("s", [{"role": "user"}, {"rôle": "user"}])
    with pytest.raises(ThreadkeepError, match="no such table"):
        verbs.write(db.context, refuse, "INSERT INTO no_such_table VALUES (1)")
    assert triggers(db) == TRIGGERS
    assert db.message_count() == 1


def test_a_write_without_triggers_is_not_tried_twice(db: SessionDB, make: Make) -> None:
    make("s", "one")
    damage(db, ";".join(f"DROP TRIGGER {name}" for name in TRIGGERS))
    calls: list[str] = []

    def act(_ctx: StateContext, tx: Any) -> None:
        calls.append("again")
        tx.run(Sql("SELECT * FROM no_such_table"))

    with pytest.raises(ThreadkeepError, match="no such table"):
        verbs.write(db.context, act)
    assert calls == ["again"]


def test_messages_given_one_by_one_are_all_stored_on_the_second_try(
    db: SessionDB, make: Make
) -> None:
    make("s", "one")
    damage(db, "DROP TABLE messages_fts")

    def said() -> Iterator[dict[str, str]]:
        for text in ("two", "three"):
            yield {"role": "user", "content": text}

    assert db.append_messages("s", said()) == [2, 3]
    assert triggers(db) == set()


def test_damage_is_told_once_whoever_finds_it(
    db: SessionDB, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    make("s", "walrus")
    damage(db, "DROP TABLE messages_fts")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            make("s", "walrus")
            assert db.search_messages("walrus")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "state.db" in said[0]
    assert "reindex()" in said[0]
    db.reindex()
    caplog.clear()
    assert len(db.search_messages("walrus")) == 4
    assert caplog.records == []


@pytest.mark.parametrize(
    "script",
    [
        "DELETE FROM tk_search_data",
        "DROP TABLE tk_search_idx",
        "INSERT INTO tk_search(tk_search) VALUES ('delete-all')",
        "INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')",
        (
            "DROP TABLE messages_fts; CREATE VIRTUAL TABLE messages_fts"
            " USING fts5(content, content=messages, content_rowid=id)"
        ),
        "DELETE FROM messages_fts_docsize",
    ],
)
def test_a_damaged_index_makes_no_search_wrong(
    db: SessionDB, make: Make, script: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """One index alone does not know what the other has: neither hits nor what `NOT` takes away."""
    make("s", "the walrus swims", "walrus 今天天气", "plain")
    drain(db.context)
    damage(db, script)
    with open_state(tmp_path / "state.db") as opened, caplog.at_level(logging.WARNING):
        for query, wanted in (("walrus", {1, 2}), ("walrus NOT 天气", {1}), ("天气", {2})):
            assert {hit["id"] for hit in opened.search_messages(query)} == wanted
        assert len(caplog.records) == 1
        opened.reindex()
        assert [hit["id"] for hit in opened.search_messages("walrus NOT 天气")] == [1]
        assert len(caplog.records) == 1


def test_a_long_reading_leaves_the_rest_to_the_index(
    db: SessionDB, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_SCANNED_ROWS", 1)
    make("s", "walrus", "walrus", "walrus 今天", "walrus")
    drain(db.context)
    damage(db, "DELETE FROM tk_search_data")
    assert {hit["id"] for hit in db.search_messages("walrus NOT 今天")} == {1, 2, 4}
    oldest = db.search_messages("walrus", sort="oldest")
    assert [hit["id"] for hit in oldest] == [1, 2, 3, 4]


def test_reindex_takes_away_what_stands_in_the_place_of_an_index(db: SessionDB, make: Make) -> None:
    make("s", "the walrus")
    damage(db, "DROP TABLE messages_fts; CREATE VIEW messages_fts AS SELECT 1 AS content")
    assert len(db.search_messages("walrus")) == 1
    db.reindex()
    assert check_index(db.context) == []


# ---------------------------------------------------------------------- repair, check


def test_reindex_turns_an_index_as_hermes_makes_it_into_ours(db: SessionDB, make: Make) -> None:
    make("s", "the walrus", "y " * 20_000 + "x")
    damage(
        db,
        ";".join(f"DROP TRIGGER {name}" for name in TRIGGERS)
        + "; DROP TABLE messages_fts; DROP VIEW tk_indexed_messages;"
        "CREATE VIRTUAL TABLE messages_fts USING fts5(content, content=messages, content_rowid=id);"
        "INSERT INTO messages_fts(messages_fts) VALUES ('rebuild');",
    )
    assert rows(db, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'x'") == [(1,)]
    seen: list[tuple[int, int]] = []
    db.reindex(lambda done, of: seen.append((done, of)))
    assert rows(db, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'x'") == [(0,)]
    assert [hit["id"] for hit in db.search_messages("x")] == [2]
    assert seen[-1] == (2, 2)
    assert triggers(db) == TRIGGERS
    assert check_index(db.context) == []


@pytest.mark.parametrize(
    "script, said",
    [
        ("DROP TABLE messages_fts", "messages_fts is missing"),
        ("DROP TABLE tk_search", "tk_search is missing"),
        ("DROP TRIGGER messages_fts_update", "messages_fts_update"),
        ("DELETE FROM messages_fts_config", "messages_fts has lost its settings"),
        ("UPDATE messages_fts_data SET block = x'00' WHERE id > 10", "messages_fts is damaged"),
        ("INSERT INTO tk_docs VALUES (900, 900)", "tk_search lacks 1 messages"),
        ("DELETE FROM tk_docs", "tk_search lacks 1 messages"),
        ("DELETE FROM messages_fts_idx", "messages_fts has lost its link"),
        ("DELETE FROM tk_search_idx", "tk_search has lost its link"),
        ("UPDATE tk_search_data SET block = zeroblob(length(block))", "tk_search lacks"),
        ("UPDATE tk_meta SET value = '77' WHERE key = 'indexed'", "it has seen message 77"),
        ("DELETE FROM tk_meta WHERE key = 'indexed'", "cannot be read"),
    ],
)
def test_check_names_the_damage_and_reindex_mends_it(
    db: SessionDB, make: Make, script: str, said: str
) -> None:
    make("s", "the walrus", "一只海象")
    db.append_message("s", "tool", "done", "terminal")
    drain(db.context)
    assert check_index(db.context) == []
    damage(db, script)
    [problem] = check_index(db.context)
    assert said in problem
    assert "reindex()" in problem
    db.reindex()
    assert check_index(db.context) == []


def test_a_check_of_a_store_open_for_reading_changes_nothing(
    db: SessionDB, make: Make, tmp_path: Path
) -> None:
    make("s", "the walrus")
    damage(db, "DROP TRIGGER messages_fts_insert")
    with open_state(tmp_path / "state.db", read_only=True) as reader:
        [problem] = check_index(reader.context)
    assert "messages_fts_insert" in problem

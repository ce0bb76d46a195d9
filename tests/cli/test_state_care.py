"""state prune, rm, compact, sizes, check and reindex."""

import base64
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document, hermes_file
from tests.support.states import talk
from threadkeep import SessionDB

DAY = 86_400


def old(state: SessionDB, session_id: str, days: float = 100) -> None:
    state.create_session(session_id, "cli")
    state.append_message(session_id, "user", "long ago", timestamp=time.time() - days * DAY)


def test_prune_needs_a_yes_and_can_only_look(run: Run, state: SessionDB) -> None:
    old(state, "old")
    talk(state, "new", "today")
    dry = run("state", "prune", "--dry-run")
    assert dry.stdout.startswith("old\t")
    assert "would delete 1 session" in dry.stderr
    assert "--yes" in run("state", "prune", code=2).stderr
    assert state.session_count() == 2
    told = document(run("state", "prune", "--yes", "--json"))
    assert (told["deleted"], told["sessions"][0]["id"]) == (1, "old")
    assert state.get_session("old") is None
    assert state.get_session("new") is not None


def test_prune_spares_what_is_pinned_or_of_another_source(run: Run, state: SessionDB) -> None:
    old(state, "kept")
    old(state, "gone")
    state.set_session_pinned("kept")
    run("state", "prune", "--older-than", "30d", "--source", "cron", "--yes")
    assert state.session_count() == 2
    run("state", "prune", "--older-than", "30d", "--yes")
    assert state.get_session("kept") is not None
    assert state.get_session("gone") is None


def test_an_age_that_is_none(run: Run, state: SessionDB) -> None:
    assert "hint: " in run("state", "prune", "--older-than", "soon", code=2).stderr


def test_rm_deletes_what_is_named_after_a_yes(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    talk(state, "two", "hello")
    state.set_session_title("one", HOSTILE[:50])
    refused = run("state", "rm", "one", code=2).stderr
    assert "--yes" in refused
    assert "\x1b" not in refused
    assert "would delete 1 session" in run("state", "rm", "one", "--dry-run").stderr
    run("state", "rm", "one", "nobody", "--yes", code=3)
    assert state.session_count() == 2
    assert document(run("state", "rm", "one", "--yes", "--json"))["deleted"] == ["one"]
    assert state.session_count() == 1


def blob() -> str:
    return base64.b64encode(random.Random(1).randbytes(60_000)).decode()


def test_compact_packs_blobs_and_puts_them_back(run: Run, state: SessionDB) -> None:
    state.create_session("one", "cli")
    state.append_message("one", "user", f"data:image/png;base64,{blob()}")
    state.end_session("one", "done")
    before = state.get_messages("one")
    dry = document(run("state", "compact", "--offload", "--dry-run", "--json"))
    assert (dry["dry_run"], dry["compact"]["long_messages"]) == (True, 1)
    assert state.size_report()["counts"]["offloaded_values"] == 0
    assert "1 blob of 1 message packed" in run("state", "compact", "--offload").stderr
    assert state.get_messages("one") == before
    assert "would put back 1 value" in run("state", "compact", "--inline", "--dry-run").stderr
    assert document(run("state", "compact", "--inline", "--json"))["inlined"] == 1
    assert state.size_report()["counts"]["offloaded_values"] == 0
    assert state.get_messages("one") == before


@pytest.mark.parametrize("words", [["--offload", "--inline"], ["--older-than", "3d"]])
def test_a_compact_that_is_unclear(words: list[str], run: Run, state: SessionDB) -> None:
    assert "hint: " in run("state", "compact", *words, code=2).stderr


def test_sizes_say_where_the_space_goes(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello " * 1000)
    report = document(run("state", "sizes", "--json"))["sizes"]
    assert report["counts"]["messages"] == 1
    assert report["largest"][0]["id"] == "one"
    text = run("state", "sizes").stdout
    assert "number of messages\t1" in text
    assert "\none\t" in text


def test_check_of_a_sound_store(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    assert document(run("state", "check", "--json")) == {
        "schema_version": 1,
        "ok": True,
        "problems": [],
    }
    assert "0 problems" in run("state", "check", "--quick").stderr


def test_check_finds_a_changed_row_and_exits_with_1(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    with sqlite3.connect(state.db_path) as database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE messages SET content = 'hallo'")
    database.close()
    assert run("state", "check", code=1).stdout != ""
    assert document(run("state", "check", "--json", code=1))["ok"] is False


def test_reindex_repairs_what_check_finds(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    state.search_messages("hello")
    with sqlite3.connect(state.db_path) as database:
        database.execute("DELETE FROM messages_fts_data WHERE id > 10")
    database.close()
    run("state", "check", code=1)
    assert document(run("state", "reindex", "--json"))["messages"] == 1
    run("state", "check")
    assert len(document(run("state", "search", "hello", "--json"))["hits"]) == 1


def test_changing_a_file_of_hermes_says_that_it_gets_tables(run: Run, tmp_path: Path) -> None:
    path = str(hermes_file(tmp_path / "theirs.db"))
    assert "side tables" in run("state", "--db", path, "reindex").stderr
    assert "side tables" not in run("state", "--db", path, "reindex").stderr


def test_a_file_with_a_column_that_must_be_filled_is_read_but_not_changed(
    run: Run, state: SessionDB
) -> None:
    talk(state, "one", "hello")
    with sqlite3.connect(state.db_path) as database:
        database.execute("UPDATE schema_version SET version = 26")
    database.close()
    run("state", "title", "one", "a higher number alone is no reason")
    with sqlite3.connect(state.db_path) as database:
        database.execute("CREATE TABLE state_meta (key TEXT PRIMARY KEY, value, odd TEXT NOT NULL)")
    database.close()
    assert "one" in run("state", "ls").stdout
    assert len(document(run("state", "search", "hello", "--json"))["hits"]) == 1
    assert "column odd that must be filled" in run("state", "title", "one", "x", code=5).stderr


def test_release_takes_out_what_is_ours(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    path = str(state.db_path)
    state.close()
    told = document(run("state", "release", path, "--json"))
    assert "tk_hashes" in told["removed"]
    assert Path(told["backup"]).exists()
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'tk%'").fetchall()
    assert names == []
    assert "nothing of threadkeep" in run("state", "release", path).stderr

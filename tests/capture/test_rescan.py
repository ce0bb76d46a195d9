"""Rescanning masks what was stored before, wherever it stands, and changes nothing else."""

import json
import random
import sqlite3
import string
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.forgetting import (
    add_node,
    all_sessions,
    bytes_left,
    masked_history,
    plant_rows,
    ran,
    rows,
    said,
    texts,
    write_claude,
)
from tests.support.user_homes import assert_sound, content, made_up_home, open_history
from tests.support.worlds import as_it_is
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.capture.redact.engine import Redactor
from threadkeep.capture.redact.rules import MASK
from threadkeep.capture.rescan import RescanReport


def token(seed: int) -> str:
    """Make up what looks like a token of a code host."""
    letters = random.Random(seed)
    return "ghp_" + "".join(letters.choices(string.ascii_letters + string.digits, k=36))


SECRET, OTHER = token(1), token(2)


def test_what_came_in_before_there_was_a_rule_is_masked(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    told = [
        said("s1", 1, f"my token is {SECRET} for the ducks"),
        *ran("s1", 2, f"curl -H 'Authorization: token {OTHER}'", f"you sent {OTHER}"),
        {"type": "ai-title", "aiTitle": f"About {SECRET}", "sessionId": "s1"},
        said("s1", 3, "<private>my diary</private> and a goose"),
    ]
    write_claude(user, "s1", told)
    write_claude(user, "s2", [said("s2", 1, "a swan")])
    with masked_history(file, user, as_it_is) as history:
        history.capture()
        swan = all_sessions(history)["s2"]
    (segment,) = rows(file, "SELECT id FROM agentic_sessions WHERE session_id = 's1'")[0]
    add_node(file, f"uses {SECRET}", segment=segment)
    secrets = [SECRET.encode(), OTHER.encode(), b"my diary"]
    assert all(secret in bytes_left(file) for secret in secrets)
    with masked_history(file, user) as history:
        planned = history.rescan(dry_run=True)
        assert all(secret in bytes_left(file) for secret in secrets)
        assert history.rescan() == planned
        assert (planned.logs, planned.lines) == (1, 5)
        assert planned.rows > 0
        assert sum(planned.rules.values()) >= 5
        assert "private" in planned.rules
        left = bytes_left(file)
        assert [secret for secret in secrets if secret in left] == []
        assert texts(history, "s1")[0] == f"my token is {MASK} for the ducks"
        assert len(history.search("ducks")) == 1
        assert len(history.search("goose")) == 1
        assert history.find("s1").name == f"About {MASK}"
        assert all_sessions(history)["s2"] == swan
        assert history.rescan() == RescanReport()
        before = all_sessions(history)
        assert history.capture().agents["claude-code"].lines == 0
        write_claude(user, "s1", [*told, said("s1", 4, "a heron")])
        assert history.capture().agents["claude-code"].lines == 1
        write_claude(user, "s1", [said("s1", 0, "rewritten"), *told])
        assert history.capture().agents["claude-code"].lines == 1
        assert len(all_sessions(history)["s1"][1]) == len(before["s1"][1]) + 2
    left = bytes_left(file)
    assert [secret for secret in secrets if secret in left] == []
    assert_sound(file)


def test_a_rescanned_store_is_like_one_that_was_masked_from_the_start(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    for path in [*user.rglob("*.jsonl")][:8]:
        lines = path.read_text().splitlines()
        spoiled = [line.replace("duck", f"duck {SECRET}") for line in lines]
        path.write_text("".join(line + "\n" for line in spoiled))
    write_claude(user, "s1", [said("s1", 1, f"first {SECRET}"), said("s1", 2, "second")])
    with masked_history(tmp_path / "late.db", user, as_it_is) as history:
        history.capture()
    with masked_history(tmp_path / "late.db", user) as history:
        assert history.rescan().lines > 0
    with masked_history(tmp_path / "early.db", user) as history:
        history.capture()
    late, early = content(tmp_path / "late.db"), content(tmp_path / "early.db")
    for name in ("entries", "usage", "blocks", "records", "segments", "sessions"):
        assert late[name] == early[name], name
    assert SECRET.encode() not in bytes_left(tmp_path / "late.db")


def test_rows_of_every_table_are_masked_and_stay(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck")])
    with masked_history(file, user) as history:
        history.capture()
    plant_rows(file, SECRET)
    add_node(file, f"of {SECRET}")
    counted = "SELECT count(*) FROM {}"
    tables = [r[0] for r in rows(file, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    kept = [t for t in tables if t.endswith(("events", "sessions", "runs", "nodes", "lessons"))]
    before = [rows(file, counted.format(table)) for table in kept]
    with masked_history(file, user) as history:
        planned = history.rescan(dry_run=True)
        assert history.rescan() == planned
        assert planned.logs == 0
        assert planned.rows >= 20
    assert SECRET.encode() not in bytes_left(file)
    assert [rows(file, counted.format(table)) for table in kept] == before
    (found,) = rows(file, "SELECT content, embed_text FROM knowledge_nodes")
    assert json.loads(found[0]) == {"summary": f"of {MASK}"}
    assert found[1] == f"of {MASK}"
    assert rows(file, "SELECT summary FROM knowledge_fts") == [(f"of {MASK}",)]
    assert rows(file, "SELECT env_json FROM env_snapshots") == [(f'{{"PLACE": "{MASK}"}}',)]
    assert rows(file, "SELECT count(*) FROM entities") == [(0,)]  # they were named by it
    assert_sound(file)


def test_documents_are_masked_and_read_on_without_doubles(tmp_path: Path) -> None:
    user, file = made_up_home(tmp_path / "user"), tmp_path / "k.db"
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        sql = "UPDATE part SET data = json_set(data, '$.text', ?) WHERE data LIKE '%\"text\"%'"
        connection.execute(sql, (f"keep {SECRET} safe",))
    with masked_history(file, user, as_it_is) as history:
        history.capture()
        count = len(texts(history, "ses_0a"))
    with masked_history(file, user) as history:
        assert history.rescan().lines > 0
        assert len(texts(history, "ses_0a")) == count
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE session SET time_updated = time_updated + 1")
        assert history.capture().agents["opencode"].lines == 1  # the session's own record
        assert len(texts(history, "ses_0a")) == count
    assert SECRET.encode() not in bytes_left(file)


def test_a_store_without_secrets_is_not_written(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        file = sqlite_file(history.store.context.db).path
    before = file.read_bytes()
    with open_history(tmp_path / "home", user) as history:
        assert history.rescan() == RescanReport()
    assert file.read_bytes() == before


REDACTOR = Redactor.default()


@settings(max_examples=examples(8))
@given(st.lists(st.sampled_from(["plain", SECRET, OTHER, f"a={SECRET}&b"]), min_size=1, max_size=5))
def test_rescanning_gives_what_masking_gives(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("rescan")
    told = [f"{word} number {n}" for n, word in enumerate(words)]
    write_claude(folder / "user", "s1", [said("s1", n, text) for n, text in enumerate(told)])
    with masked_history(folder / "k.db", folder / "user", as_it_is) as history:
        history.capture()
    with masked_history(folder / "k.db", folder / "user") as history:
        history.rescan()
        assert texts(history, "s1") == [REDACTOR.text(text) for text in told]

"""Making a log anew from the archive gives what capturing it gave, and touches nothing else."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.forgetting import (
    add_node,
    knowledge_file,
    masked_history,
    ran,
    rows,
    said,
    texts,
    write_claude,
)
from tests.support.user_homes import Rows, assert_sound, content, made_up_home, open_history
from threadkeep.base.tx import Tx
from threadkeep.capture.capture import History
from threadkeep.capture.rebuild import Places, RebuildReport, Transform, rederive
from threadkeep.errors import Conflict
from threadkeep.knowledge.archive import Words, all_logs, index_words


def remake(history: History, transform: Transform) -> list[RebuildReport]:
    around = history.around
    places = Places(around, history.sources)

    def step(tx: Tx) -> list[RebuildReport]:
        words: Words = []
        logs = [log for log in all_logs(tx) if log.lines]
        done = [rederive(tx, around, places, log, transform, words) for log in logs]
        index_words(tx, words)
        return done

    return places.write(step)


def with_spaces(line: bytes) -> bytes:
    """Write the same JSON a little differently."""
    return line + b" "


def without_bytes(found: dict[str, Rows]) -> dict[str, Rows]:
    """Leave out what a space behind every line changes: blocks, digests and sizes."""
    kept = {name: told for name, told in found.items() if "blocks" not in name}
    kept["records"] = sorted((row[:4], row[5]) for row in found["records"])
    # Codex names most of its entries by the line that they stand in.
    kept["entries"] = sorted(((row[:2], row[3:]) for row in found["entries"]), key=repr)
    kept["logs"] = sorted((row[:14], row[15:18]) for row in found["logs"])
    return kept


def test_the_identity_changes_nothing(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        history.capture()
    file = knowledge_file(tmp_path / "home", user)
    before, changed_at = content(file), file.stat().st_mtime_ns
    with open_history(tmp_path / "home", user) as history:
        assert not any(one.lines for one in remake(history, lambda _, line: line))
    assert content(file) == before
    assert file.stat().st_mtime_ns == changed_at


def test_making_every_log_anew_gives_what_capturing_gave(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        history.capture()
    file = knowledge_file(tmp_path / "home", user)
    before = content(file)
    with open_history(tmp_path / "home", user) as history:
        assert all(one.lines for one in remake(history, lambda _, line: with_spaces(line)))
    assert without_bytes(content(file)) == without_bytes(before)
    with open_history(tmp_path / "home", user) as history:
        report = history.capture()
    assert sum(part.lines for part in report.agents.values()) == 0
    assert_sound(file)


def test_logs_that_are_gone_from_the_disk_are_made_anew_too(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    with open_history(tmp_path / "home", user) as history:
        history.capture()
    file = knowledge_file(tmp_path / "home", user)
    before = content(file)
    with open_history(tmp_path / "home", tmp_path) as history:
        remake(history, lambda _, line: with_spaces(line))
    after = content(file)
    for name in ("entries", "usage", "events", "segments"):
        assert without_bytes(after)[name] == without_bytes(before)[name]


def test_what_capture_reads_later_comes_behind_it(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    records = [said("s1", 1, "first"), *ran("s1", 2, "make duck", "quack"), said("s1", 3, "third")]
    write_claude(user, "s1", records)
    with masked_history(file, user) as history:
        history.capture()
        remake(history, lambda number, line: None if number == 0 else line)
        write_claude(user, "s1", [*records, said("s1", 4, "fourth")])
        history.capture()
        assert texts(history, "s1")[-2:] == ["third", "fourth"]
        assert "first" not in texts(history, "s1")
        assert next(history.raw(history.find("s1"))) == b""
    assert_sound(file)


def test_segments_that_say_the_same_keep_their_row_and_their_nodes(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck"), *ran("s1", 2, "make duck", "quack")])
    write_claude(user, "s2", [said("s2", 1, "a goose"), *ran("s2", 2, "make goose", "honk")])
    with masked_history(file, user) as history:
        history.capture()
    (one, two) = [r[0] for r in rows(file, "SELECT id FROM agentic_sessions ORDER BY session_id")]
    kept = add_node(file, "Ducks swim", segment=one)
    both = add_node(file, "Both swim", segment=one)
    rows(file, "INSERT INTO knowledge_node_agentic_sessions VALUES (?, ?)", both, two)
    lost = add_node(file, "Geese swim", segment=two)
    with masked_history(file, user) as history:

        def changed(_: int, line: bytes) -> bytes:
            return line.replace(b"a goose", b"a swan") if b'"s2"' in line else with_spaces(line)

        remake(history, changed)
    assert rows(file, "SELECT id FROM agentic_sessions ORDER BY session_id") == [(one,), (two,)]
    assert rows(file, "SELECT id FROM knowledge_nodes ORDER BY id") == [(kept,)]
    assert kept not in {both, lost}  # what tells of both tells of what has changed
    assert rows(file, "SELECT name FROM entities ORDER BY id") == [("Ducks swim",)]
    links = rows(file, "SELECT * FROM knowledge_node_agentic_sessions ORDER BY 1")
    assert links == [(kept, one)]
    summary = rows(file, "SELECT summary_text FROM agentic_sessions WHERE id = ?", two)[0][0]
    assert "swan" in summary
    assert "goose" not in summary.replace("make goose", "")
    assert_sound(file)


def test_a_tool_call_whose_output_changes_is_rewritten_and_one_that_is_gone_goes(
    tmp_path: Path,
) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    records = [*ran("s1", 1, "make duck", "quack"), *ran("s1", 2, "make goose", "honk")]
    write_claude(user, "s1", [*records, *ran("s1", 3, "make swan", "hiss")])
    with masked_history(file, user) as history:
        history.capture()
        before = rows(file, "SELECT id FROM events ORDER BY timestamp")

        def changed(number: int, line: bytes) -> bytes | None:
            return None if number in {4, 5} else line.replace(b"quack", b"moo")

        remake(history, changed)
    after = rows(file, "SELECT id, command, stdout FROM events ORDER BY timestamp")
    assert [row[0] for row in after] == [row[0] for row in before][:2]
    assert [row[2] for row in after] == ["moo", "honk"]
    assert rows(file, "SELECT count(*) FROM tk_usage") == [(2,)]
    assert_sound(file)


def test_a_source_that_is_switched_off_is_named(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "first")])
    with masked_history(file, user) as history:
        history.capture()
        around = history.around
        with (
            around.store.write() as tx,
            pytest.raises(Conflict, match="'claude-code' is switched off"),
        ):
            nobody = Places(around, {})
            rederive(tx, around, nobody, all_logs(tx)[0], lambda _n, _line: None, [])


@settings(max_examples=examples(12))
@given(st.sets(st.integers(0, 7)), st.lists(st.integers(0, 7), max_size=3))
def test_dropping_lines_is_like_never_having_had_them(
    tmp_path_factory: pytest.TempPathFactory, dropped: set[int], again: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("drop")
    records = [said("s1", n, f"word{n}") for n in range(4)]
    records += [*ran("s1", 5, "make duck", "quack"), *ran("s1", 6, "make goose", "honk")]
    write_claude(folder / "all", "s1", records)
    kept = [one for n, one in enumerate(records) if n not in dropped | set(again)]
    write_claude(folder / "kept", "s1", kept)
    with masked_history(folder / "a.db", folder / "all") as history:
        history.capture()
        remake(history, lambda number, line: None if number in dropped else line)
        remake(history, lambda number, line: None if number in again else line)
    with masked_history(folder / "b.db", folder / "kept") as history:
        history.capture()
    sql = (
        "SELECT key, role, kind, at, tool, error, hash FROM tk_entries ORDER BY key",
        "SELECT key, output FROM tk_usage ORDER BY key",
        "SELECT envelope_id, command, stdout FROM events ORDER BY 1",
        "SELECT segment_index, summary_text, content_hash, start_time FROM agentic_sessions",
        "SELECT first_prompt, ended_at, prompts, tool_calls FROM tk_sessions WHERE entries > 0",
    )
    for one in sql:
        assert rows(folder / "a.db", one) == rows(folder / "b.db", one), one


def test_a_changed_record_of_a_document_is_made_anew_once(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        with closing(sqlite3.connect(database)) as connection, connection:
            name, data = connection.execute(
                "SELECT id, data FROM part WHERE json_extract(data, '$.type') = 'text' LIMIT 1"
            ).fetchone()
            part = {**json.loads(data), "text": "a text of zanzibar"}
            values = (json.dumps(part), 1 << 50, name)
            connection.execute("UPDATE part SET data = ?, time_updated = ? WHERE id = ?", values)
        history.capture()
    file = knowledge_file(tmp_path / "home", user)
    before = content(file)
    with open_history(tmp_path / "home", user) as history:
        remake(history, lambda _, line: with_spaces(line))
        assert "a text of zanzibar" in texts(history, "ses_0a")
    assert without_bytes(content(file)) == without_bytes(before)

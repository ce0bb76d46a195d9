"""Small things that most sources need."""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.source_support import any_json
from threadkeep.sources.common import block_text, describe_input, iso_ms, number, rows, table, text
from threadkeep.sources.folders import database_stamp, files_below, stamp_of
from threadkeep.sources.records import UserHome

USER = UserHome(Path("/nonexistent"))


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_to_the_millisecond(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert iso_ms(moment.isoformat()) == expected
    assert iso_ms(moment.isoformat().replace("+00:00", "Z")) == expected
    assert iso_ms(moment.replace(tzinfo=None).isoformat()) == expected


@given(st.text() | any_json)
def test_what_is_no_time_is_none_or_a_number_that_fits(value: Any) -> None:
    found = iso_ms(value)
    assert found is None or abs(found) < 2**63


@pytest.mark.parametrize(
    "value, expected",
    [
        ("2026-01-02T03:04:05.678Z", 1767323045678),
        ("2026-01-02T05:04:05.678+02:00", 1767323045678),
        ("2026-01-02T03:04:05.678901234Z", 1767323045678),
        ("2026-13-02T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        (1767323045678, None),
        ("0001-01-01T00:00:00+14:00", -62135647200000),
        ("\ud800", None),
    ],
)
def test_times(value: object, expected: int | None) -> None:
    assert iso_ms(value) == expected


@given(any_json | st.floats() | st.integers())
def test_counts_fit_a_database(value: Any) -> None:
    assert abs(number(value)) < 2**63


@given(any_json)
def test_types_are_what_they_say(value: Any) -> None:
    assert isinstance(text(value), str)
    assert isinstance(table(value), dict)
    assert isinstance(rows(value), list)
    assert isinstance(describe_input(value), str)
    assert isinstance(block_text(value), str)


def test_inputs_are_written_to_be_read() -> None:
    assert describe_input({"command": "ls -l", "timeout": 5}) == "ls -l\ntimeout: 5"
    assert describe_input({"path": "/a", "edits": [{"x": "ü"}]}) == 'path: /a\nedits: [{"x":"ü"}]'
    assert describe_input({"command": ["ls", "-l"]}) == 'command: ["ls","-l"]'
    assert describe_input("free text") == "free text"
    assert describe_input(None) == ""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert describe_input({"x": deep}) == "x: …"


def test_texts_of_blocks() -> None:
    assert block_text([{"text": "a"}, "b", {"image": 1}, {"text": ""}, 3]) == "a\nb"
    assert block_text("plain") == "plain"


def test_files_are_found_with_their_stamps_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.jsonl", "b/c.jsonl", "b/d.txt", "z.jsonl"):
        (tmp_path / name).write_text(name)
    (tmp_path / "dir.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    found = dict(files_below(tmp_path, USER, ".jsonl"))
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["a.jsonl", "b/c.jsonl", "z.jsonl"]
    status = (tmp_path / "a.jsonl").stat()
    assert found[tmp_path / "a.jsonl"] == stamp_of(status)


def test_folders_too_deep_or_not_there_are_passed_over(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "x.jsonl").write_text("x")
    assert len(list(files_below(tmp_path, USER, ".jsonl", depth=3))) == 1
    assert list(files_below(tmp_path, USER, ".jsonl", depth=2)) == []
    assert list(files_below(tmp_path / "nowhere", USER, ".jsonl")) == []
    assert list(files_below(deep / "x.jsonl", USER, ".jsonl")) == []


def test_the_stamp_of_a_database_changes_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert database_stamp(path, USER) is None
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE t (x)")
        before = database_stamp(path, USER)
        connection.execute("INSERT INTO t VALUES (1)")
        after = database_stamp(path, USER)
    assert before is not None
    assert after is not None
    assert before != after
    assert before[2:4] == after[2:4]

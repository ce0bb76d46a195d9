"""What users of Hermes complain about: slow lists, whole transcripts in memory, archives.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

import inspect
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.states import Clock
from tests.support.work import tracked_memory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


# ---------------------------------------------------------------------- listing


@contextmanager
def counted_steps(monkeypatch: pytest.MonkeyPatch, db: SessionDB) -> Iterator[list[int]]:
    """Count the steps of SQLite's machine on the connections that read, in hundreds."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    lend = db.context.db.take_reader

    def lend_counting() -> sqlite3.Connection:
        connection = lend()
        connection.set_progress_handler(step, 100)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(db.context.db, "take_reader", lend_counting)
        yield steps


def fill(db: SessionDB, first: int, last: int) -> None:
    """Add sessions of four messages each, quickly."""
    connection = db._conn
    assert connection is not None
    numbers = [(number,) for number in range(first, last)]
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO sessions(id, source, started_at) VALUES ('s' || ?1, 'cli', 1000 + ?1)", numbers
    )
    for part, role in enumerate(("user", "assistant", "user", "assistant")):
        connection.executemany(
            "INSERT INTO messages(session_id, role, content, timestamp)"
            f" VALUES ('s' || ?1, '{role}', 'text ' || ?1, 1000 + ?1 + {part})",
            numbers,
        )
    connection.execute("COMMIT")


LISTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"source": "cli"},
    {"exclude_sources": ["cron"]},
    {"include_children": True},
    {"order_by_last_active": True},
    {"min_message_count": 0, "limit": 50},
)


def test_listing_costs_the_same_in_a_large_store(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """#48914, hermes-webui#2628, #5455, #78156, #108910: 0.6 to 60 s."""
    costs: list[list[int]] = []
    for first, last in ((0, 200), (200, 4_000)):
        fill(db, first, last)
        # Whoever writes brings what is kept beside the rows up to date, now and then.
        db.append_messages(f"s{last - 1}", [{"role": "tool", "content": "x"}] * 300)
        db.search_messages("text")
        costs.append([])
        for options in LISTINGS:
            with counted_steps(monkeypatch, db) as steps:
                rows = db.list_sessions_rich(**options)
            assert len(rows) == options.get("limit", 20), options
            assert rows[0]["id"] == f"s{last - 1}", options
            costs[-1].append(steps[0])
    for options, small, large in zip(LISTINGS, *costs, strict=True):
        assert large <= small * 1.5 + 20, options


def test_listing_stays_right_when_another_program_writes(
    db: SessionDB, make: Make, tmp_path: Path
) -> None:
    """#48914: what is stored beside the rows must not go stale."""
    make("a", "first")
    make("b", "second")
    assert [row["id"] for row in db.list_sessions_rich(order_by_last_active=True)] == ["b", "a"]
    with closing(sqlite3.connect(tmp_path / "state.db")) as other, other:
        other.execute("UPDATE messages SET content = 'changed' WHERE id = 1")
        other.execute(
            "INSERT INTO messages(session_id, role, content, timestamp)"
            " VALUES ('a', 'user', 'later', 9e9)"
        )
        other.execute("DELETE FROM messages WHERE id = 2")
    rows = db.list_sessions_rich(order_by_last_active=True)
    assert [row["id"] for row in rows] == ["a", "b"]
    assert [row["preview"] for row in rows] == ["changed", ""]
    assert rows[0]["last_active"] == 9e9
    assert rows[1]["last_active"] == rows[1]["started_at"]


def test_listing_by_last_activity(db: SessionDB, make: Make, clock: Clock) -> None:
    """#78156."""
    for session_id in ("a", "b", "c"):
        make(session_id, "hello")
    clock.pass_days(1)
    make("a", "again")
    assert [row["id"] for row in db.list_sessions_rich()] == ["c", "b", "a"]
    by_activity = db.list_sessions_rich(order_by_last_active=True)
    assert [row["id"] for row in by_activity] == ["a", "c", "b"]
    page = db.list_sessions_rich(order_by_last_active=True, limit=1, offset=1)
    assert [row["id"] for row in page] == ["c"]


def test_listing_leaves_out_archived_and_empty_sessions(db: SessionDB, make: Make) -> None:
    """#108910."""
    make("kept", "hello")
    make("done", "hello")
    make("empty")
    assert db.set_session_archived("done") is True
    listed = [row["id"] for row in db.list_sessions_rich()]
    assert listed == ["empty", "kept"]
    with_archived = [row["id"] for row in db.list_sessions_rich(include_archived=True)]
    assert with_archived == ["empty", "done", "kept"]
    assert [row["id"] for row in db.list_sessions_rich(min_message_count=1)] == ["kept"]
    assert db.get_messages("done") != []
    db.set_session_archived("done", archived=False)
    assert len(db.list_sessions_rich()) == 3
    assert db.set_session_archived("nobody") is False


def test_listing_works_read_only(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#108910: start-up opens read-only."""
    make("s", "hello")
    with SessionDB(tmp_path / "state.db", read_only=True) as look:
        assert look.list_sessions_rich() == db.list_sessions_rich()
        assert look.list_sessions_rich(order_by_last_active=True)[0]["id"] == "s"


# ---------------------------------------------------------------------- paging


@pytest.fixture
def long(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    db.create_session("t", "cli")
    for start in range(0, 100, 10):
        texts = [str(number) for number in range(start, start + 10)]
        db.append_messages("s", [{"role": "user", "content": text} for text in texts])
        db.append_message("t", "user", "noise")
    return db


def numbers(messages: list[dict[str, Any]]) -> list[int]:
    return [int(message["content"]) for message in messages]


def test_paging_by_limit_and_offset(long: SessionDB) -> None:
    """#60155, #80816."""
    assert numbers(long.get_messages("s", limit=3)) == [0, 1, 2]
    assert numbers(long.get_messages("s", limit=3, offset=50)) == [50, 51, 52]
    assert numbers(long.get_messages("s", limit=3, latest=True)) == [97, 98, 99]
    assert numbers(long.get_messages("s", limit=2, offset=2, latest=True)) == [96, 97]
    assert long.get_messages("s", limit=3, offset=200) == []


def test_paging_by_key_meets_every_message_once(long: SessionDB) -> None:
    """#60155."""
    seen: list[int] = []
    after = 0
    while page := long.get_messages("s", limit=7, after_id=after):
        seen += numbers(page)
        after = page[-1]["id"]
        long.append_message("t", "user", "meanwhile")
    assert seen == list(range(100))


def test_paging_backwards_by_key(long: SessionDB) -> None:
    """#80816: a chat window shows the end first."""
    seen: list[int] = []
    before: int | None = None
    while page := long.get_messages("s", limit=9, before_id=before, latest=True):
        seen = numbers(page) + seen
        before = page[0]["id"]
    assert seen == list(range(100))


def test_paging_around_a_hit(long: SessionDB) -> None:
    """#60155."""
    middle = long.get_messages("s")[50]["id"]
    assert numbers(long.get_messages_around("s", middle, 2)["window"]) == [48, 49, 50, 51, 52]
    first = long.get_messages("s")[0]["id"]
    assert long.get_messages_around("s", first, 1)["messages_before"] == 0
    assert long.get_messages_around("s", 10**9)["window"] == []


def test_paging_conversation_may_be_cut_to_its_end(long: SessionDB) -> None:
    """#69640."""
    turns = long.get_messages_as_conversation("s", limit=2)
    assert [turn["content"] for turn in turns] == ["98", "99"]


def test_streaming_messages_hold_a_page_in_memory(db: SessionDB) -> None:
    """#80816, #69640: whole transcripts in memory."""
    db.create_session("s", "cli")
    for _ in range(10):
        db.append_messages("s", [{"role": "user", "content": "x" * 10_000}] * 20)

    def stream() -> None:
        assert sum(1 for _ in db.iter_messages("s", page=10)) == 200

    with tracked_memory() as peak_of:
        assert peak_of(stream) < 1_000_000
        assert peak_of(lambda: db.get_messages("s")) > 1_500_000


def test_streaming_export_is_lines_of_json(db: SessionDB, make: Make) -> None:
    """#60155, #69640."""
    make("a", "one", "two")
    make("b", "three", source="telegram")
    export = db.iter_export()
    assert not isinstance(export, (list, str))
    assert iter(export) is iter(export) or inspect.isgenerator(export)
    lines = list(export)
    assert lines
    assert all("\n" not in line.rstrip("\n") for line in lines)
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert "three" not in "".join(db.iter_export(source="cli"))


def test_streaming_export_comes_back_whole(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#69640."""
    make("a", "one", "two")
    db.set_session_title("a", "Title")
    db.append_message("a", "assistant", tool_calls=[{"id": "c"}], reasoning_details=[{"x": 1}])
    db.update_token_counts("a", input_tokens=5, model="m")
    db.compress_session("a", "b", [{"role": "user", "content": "summary"}])
    lines = list(db.iter_export())

    def told(store: SessionDB) -> list[Any]:
        sessions = sorted(store.export_all(), key=lambda session: str(session["id"]))
        for session in sessions:
            del session["title_source"]
            for message in session["messages"]:
                del message["id"]
        return sessions

    with SessionDB(tmp_path / "other.db") as other:
        other.import_sessions(lines)
        assert told(other) == told(db)
        assert other.get_compression_tip("a") == "b"
        again = other.import_sessions(lines)
        assert isinstance(again, dict)
        assert told(other) == told(db)
        assert len(other.search_messages("summary")) == 1
    with SessionDB(tmp_path / "third.db") as third:
        third.import_sessions(db.export_all())
        assert told(third) == told(db)

"""What users of Hermes complain about: slow lists, whole transcripts in memory, archives.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.states import Clock, Factory
from tests.support.work import tracked_memory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


def test_listing_stays_right_when_another_program_writes(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    """#48914: what is stored beside the rows must not go stale."""
    make("a", "first")
    make("b", "second")
    assert [row["id"] for row in db.list_sessions_rich(order_by_last_active=True)] == ["b", "a"]
    with factory.raw(db) as other:
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


def test_listing_works_read_only(db: SessionDB, make: Make, factory: Factory) -> None:
    """#108910: start-up opens read-only."""
    make("s", "hello")
    look = factory.reopen(db, read_only=True)
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


def test_streaming_export_comes_back_whole(db: SessionDB, make: Make, factory: Factory) -> None:
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

    with factory.open() as other:
        other.import_sessions(lines)
        assert told(other) == told(db)
        assert other.get_compression_tip("a") == "b"
        again = other.import_sessions(lines)
        assert isinstance(again, dict)
        assert told(other) == told(db)
        assert len(other.search_messages("summary")) == 1
    with factory.open() as third:
        third.import_sessions(db.export_all())
        assert told(third) == told(db)

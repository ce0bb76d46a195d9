"""Lists of sessions as version 6 has them: preview, last activity, children, compression tips."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contracts.state.test_surface_sessions import COLUMNS
from tests.support.states import Factory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


def listed(db: SessionDB, **options: Any) -> list[str]:
    return [session["id"] for session in db.list_sessions_rich(**options)]


# ---------------------------------------------------------------------- rows


def test_row_is_the_session_with_preview_and_last_activity(db: SessionDB, make: Make) -> None:
    make("s", "hello there", "hi")
    [row] = db.list_sessions_rich()
    last = db.get_messages("s")[-1]["timestamp"]
    told = {"preview": "hello there", "last_active": last, "unread": False}
    assert row == {**(db.get_session("s") or {}), **told}
    assert list(row)[:26] == COLUMNS


@pytest.mark.parametrize(
    "text, preview",
    [
        ("short", "short"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("y" * 500, "y" * 60 + "..."),
        ("two\nlines\r\nand more", "two lines  and more"),
        ("日本語" * 30, "日本語" * 20 + "..."),
    ],
)
def test_preview_is_the_first_sixty_characters(
    db: SessionDB, make: Make, text: str, preview: str
) -> None:
    make("s", text)
    assert db.list_sessions_rich()[0]["preview"] == preview


def test_preview_is_of_the_first_user_message_with_content(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "system", "rules")
    db.append_message("s", "assistant", "welcome")
    db.append_message("s", "user", None)
    db.append_message("s", "user", "the question")
    db.append_message("s", "user", "another")
    assert db.list_sessions_rich()[0]["preview"] == "the question"


@pytest.mark.parametrize("blank", ["", "  \n "])
def test_blank_first_message_is_a_blank_preview(db: SessionDB, make: Make, blank: str) -> None:
    make("s", blank, "answer", "not looked at")
    assert db.list_sessions_rich()[0]["preview"].strip() == ""


# ---------------------------------------------------------------------- order and filters


def test_newest_begun_comes_first_in_pages(db: SessionDB, make: Make) -> None:
    for number in range(25):
        make(f"s{number:02}")
    make("s00", "active again")
    names = [f"s{number:02}" for number in range(24, -1, -1)]
    assert listed(db) == names[:20]
    assert listed(db, limit=5, offset=3) == names[3:8]
    assert listed(db, limit=50) == names
    assert listed(db, limit=5, offset=30) == []


def test_children_are_hidden_unless_asked_for(db: SessionDB) -> None:
    db.create_session("p", "cli")
    db.create_session("c", "cli", parent_session_id="p")
    assert listed(db) == ["p"]
    assert listed(db, include_children=True) == ["c", "p"]


def test_limit_counts_what_is_shown(db: SessionDB) -> None:
    db.create_session("p", "cli")
    for number in range(30):
        db.create_session(f"c{number}", "cli", parent_session_id="p")
    db.create_session("q", "cli")
    assert listed(db, limit=2) == ["q", "p"]


# ---------------------------------------------------------------------- compression


@pytest.fixture
def chain(db: SessionDB, make: Make) -> SessionDB:
    """Make root → middle → tip by hand, as Hermes does."""
    make("root", "the first question", "answer")
    db.set_session_title("root", "Docker")
    db.end_session("root", "compression")
    db.create_session("middle", "cli", parent_session_id="root")
    db.end_session("middle", "compression")
    db.create_session("tip", "cli", model="late", system_prompt="sp", parent_session_id="middle")
    make("tip", "the newest question")
    db.append_message("tip", "assistant", "x", tool_calls=[{"id": "1"}])
    db.set_session_title("tip", "Docker #2")
    return db


def test_tip_of_what_has_none_is_itself(db: SessionDB, make: Make) -> None:
    assert db.get_compression_tip("nobody") == "nobody"
    make("p")
    db.end_session("p", "user_exit")
    db.create_session("c", "cli", parent_session_id="p")
    assert db.get_compression_tip("p") == "p"


def test_child_begun_before_the_end_is_no_continuation(db: SessionDB) -> None:
    db.create_session("p", "cli")
    db.create_session("delegate", "cli", parent_session_id="p")
    db.end_session("p", "compression")
    assert db.get_compression_tip("p") == "p"
    db.create_session("next", "cli", parent_session_id="p")
    assert db.get_compression_tip("p") == "next"


def test_newest_child_is_followed(db: SessionDB) -> None:
    db.create_session("p", "cli")
    db.end_session("p", "compression")
    db.create_session("one", "cli", parent_session_id="p")
    db.create_session("two", "cli", parent_session_id="p")
    assert db.get_compression_tip("p") == "two"


def test_circle_of_parents_ends(db: SessionDB, factory: Factory) -> None:
    for session_id in ("a", "b"):
        db.create_session(session_id, "cli")
        db.end_session(session_id, "compression")
    with factory.raw(db) as other:
        other.execute("UPDATE sessions SET parent_session_id = 'b', started_at = 9e9 WHERE id='a'")
        other.execute("UPDATE sessions SET parent_session_id = 'a', started_at = 9e9 WHERE id='b'")
    assert db.get_compression_tip("a") in {"a", "b"}
    assert isinstance(db.list_sessions_rich(include_children=True), list)


def test_compressed_root_is_shown_as_its_tip(chain: SessionDB) -> None:
    [row] = chain.list_sessions_rich()
    root, tip = chain.get_session("root"), chain.get_session("tip")
    assert root is not None
    assert tip is not None
    taken = ("id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "model")
    assert {name: row[name] for name in taken} == {name: tip[name] for name in taken}
    assert (row["id"], row["system_prompt"], row["title"]) == ("tip", "sp", "Docker #2")
    assert row["preview"] == "the newest question"
    assert row["last_active"] == chain.get_messages("tip")[-1]["timestamp"]
    assert row["started_at"] == root["started_at"]
    assert row["_lineage_root_id"] == "root"


def test_projection_can_be_switched_off(chain: SessionDB) -> None:
    [row] = chain.list_sessions_rich(project_compression_tips=False)
    assert (row["id"], row["end_reason"]) == ("root", "compression")
    assert "_lineage_root_id" not in row


def test_no_projection_with_children(chain: SessionDB) -> None:
    rows = chain.list_sessions_rich(include_children=True)
    assert [row["id"] for row in rows] == ["tip", "middle", "root"]
    assert not any("_lineage_root_id" in row for row in rows)


def test_compressed_session_without_a_child_stays_itself(db: SessionDB, make: Make) -> None:
    make("s", "hello")
    db.end_session("s", "compression")
    [row] = db.list_sessions_rich()
    assert (row["id"], row["preview"]) == ("s", "hello")
    assert "_lineage_root_id" not in row

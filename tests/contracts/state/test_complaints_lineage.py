"""What users of Hermes complain about: compression, branches, titles.

Issue numbers are those of NousResearch/hermes-agent unless a test says otherwise.
"""

from collections.abc import Callable
from sqlite3 import IntegrityError
from typing import Any

import pytest

from tests.support.states import Clock
from threadkeep.errors import ThreadkeepError
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]


def contents(db: SessionDB, session_id: str) -> list[Any]:
    return [message["content"] for message in db.get_messages(session_id)]


def listed(db: SessionDB, **options: Any) -> list[str]:
    return [session["id"] for session in db.list_sessions_rich(**options)]


# ---------------------------------------------------------------------- compression


def test_resume_after_compression_finds_the_newest_session(db: SessionDB, make: Make) -> None:
    """#15000, #46567, #47202, PR#6785, #80337."""
    make("one", "first question", "first answer")
    db.compress_session("one", "two", [{"role": "user", "content": "summary"}])
    make("two", "second question")
    db.compress_session("two", "three", [{"role": "user", "content": "summary of both"}])
    for session_id in ("one", "two", "three"):
        assert db.resolve_resume_session_id(session_id) == "three"
        assert db.get_compression_tip(session_id) == "three"
    assert contents(db, "three") == ["summary of both"]
    assert listed(db) == ["three"]


def test_resume_after_compression_keeps_the_whole_history(db: SessionDB, make: Make) -> None:
    """#47202, #80337: nothing is lost at the rotation."""
    make("one", "first question", "first answer")
    db.compress_session("one", "two", [{"role": "user", "content": "summary"}])
    assert contents(db, "one") == ["first question", "first answer"]
    one, two = db.get_session("one"), db.get_session("two")
    assert one is not None
    assert two is not None
    assert (one["end_reason"], two["parent_session_id"]) == ("compression", "one")
    assert two["ended_at"] is None
    assert (two["source"], two["message_count"]) == ("cli", 1)
    assert db.get_compression_lineage("two") == ["one", "two"]
    assert db.get_compression_lineage("one") == ["one", "two"]
    assert [hit["session_id"] for hit in db.search_messages("first question")] == ["one"]


def test_resume_after_compression_takes_writes(db: SessionDB, make: Make) -> None:
    """#46567: an orphan that rejected every write was what resume found."""
    make("one", "question")
    db.compress_session("one", "two", [{"role": "user", "content": "summary"}])
    tip = db.resolve_resume_session_id("one")
    assert db.append_message(tip, "user", "goes on") > 0
    assert contents(db, "two") == ["summary", "goes on"]


def test_resume_after_a_rotation_by_hermes_finds_content(db: SessionDB, make: Make) -> None:
    """#15000: the child was begun and nothing was written to it yet."""
    make("one", "question", "answer")
    db.end_session("one", "compression")
    db.create_session("two", "cli", parent_session_id="one")
    assert contents(db, db.resolve_resume_session_id("one")) != []
    make("two", "goes on")
    assert db.resolve_resume_session_id("one") == "two"


def test_resume_of_an_empty_parent_finds_the_child_with_messages(db: SessionDB, make: Make) -> None:
    """#15000."""
    db.create_session("one", "cli")
    db.end_session("one", "compression")
    db.create_session("two", "cli", parent_session_id="one")
    make("two", "hello")
    assert db.resolve_resume_session_id("one") == "two"


def test_resume_of_a_plain_session_is_itself(db: SessionDB, make: Make) -> None:
    """#15000: branches and helpers of a session are not its continuation."""
    make("one", "hello")
    db.branch_session("one", "branch")
    db.create_session("helper", "cli", parent_session_id="one", relation="delegate")
    make("helper", "sub-task")
    assert db.resolve_resume_session_id("one") == "one"


@pytest.mark.parametrize(
    "new_id, messages",
    [("two", [{"role": "user", "content": "ok"}, {"role": None}]), ("taken", [])],
)
def test_compression_that_fails_changes_nothing(
    db: SessionDB, make: Make, new_id: str, messages: list[dict[str, Any]]
) -> None:
    """#80337, PR#6785: end of the parent, child and messages are one transaction."""
    make("one", "question")
    make("taken", "somebody else's")
    before = db.export_all()
    with pytest.raises((ThreadkeepError, IntegrityError)):
        db.compress_session("one", new_id, messages)
    assert db.export_all() == before
    assert db.resolve_resume_session_id("one") == "one"


def test_compression_title_goes_on_in_the_lineage(db: SessionDB, make: Make) -> None:
    """#46567: `resume <title>` means the newest of the chain."""
    make("one", "question")
    db.set_session_title("one", "Docker")
    db.compress_session("one", "two")
    title = db.get_next_title_in_lineage("Docker")
    db.set_session_title("two", title)
    assert title == "Docker #2"
    assert db.resolve_session_by_title("Docker") == "two"


# ---------------------------------------------------------------------- branches


def test_branches_stay_in_the_list(db: SessionDB, make: Make) -> None:
    """#14854, #20856, #39471."""
    ids = make("main", "one", "two", "three")
    db.branch_session("main", "branch", up_to_id=ids[1])
    assert set(listed(db)) == {"main", "branch"}
    assert contents(db, "branch") == ["one", "two"]
    assert contents(db, "main") == ["one", "two", "three"]
    make("branch", "another way")
    assert contents(db, "main") == ["one", "two", "three"]


def test_branches_have_the_whole_session_by_default(db: SessionDB, make: Make) -> None:
    """#20856."""
    make("main", "one", "two")
    db.branch_session("main", "branch")
    assert contents(db, "branch") == ["one", "two"]
    branch = db.get_session("branch")
    assert branch is not None
    assert (branch["parent_session_id"], branch["message_count"]) == ("main", 2)


def test_branches_are_no_compression_of_an_ended_parent(db: SessionDB, make: Make) -> None:
    """#14854: a branch made after the end hijacked the parent."""
    make("main", "one")
    db.compress_session("main", "next", [{"role": "user", "content": "summary"}])
    db.branch_session("main", "branch")
    assert db.get_compression_tip("main") == "next"
    assert db.resolve_resume_session_id("main") == "next"
    assert set(listed(db)) == {"next", "branch"}


def test_relation_kinds_are_explicit(db: SessionDB, make: Make) -> None:
    """#17926, #40196: third parties guessed them from times and markers."""
    make("root", "hello")
    db.create_session("helper", "cli", parent_session_id="root", relation="delegate")
    db.branch_session("root", "branch")
    db.compress_session("root", "next")
    kinds = {entry["id"]: entry.get("relation") for entry in db.get_lineage("root")}
    assert kinds == {
        "root": None,
        "helper": "delegate",
        "branch": "branch",
        "next": "compression",
    }
    assert {entry["id"] for entry in db.get_lineage("helper")} >= {"root", "helper"}


def test_relation_delegates_stay_out_of_the_list(db: SessionDB, make: Make) -> None:
    """#40196."""
    make("root", "hello")
    db.create_session("helper", "cli", parent_session_id="root", relation="delegate")
    assert listed(db) == ["root"]
    assert set(listed(db, include_children=True)) == {"root", "helper"}


def test_relation_can_be_said_later_and_must_be_known(db: SessionDB, make: Make) -> None:
    """#39471."""
    make("root", "hello")
    db.create_session("child", "cli", parent_session_id="root")
    assert listed(db) == ["root"]
    db.set_relation("child", "root", "branch")
    assert set(listed(db)) == {"root", "child"}
    with pytest.raises(ThreadkeepError, match="cousin"):
        db.set_relation("child", "root", "cousin")


def test_lineage_of_an_unknown_session_is_empty(db: SessionDB) -> None:
    """#17926."""
    assert db.get_lineage("nobody") == []


def test_lineage_is_exported_together(db: SessionDB, make: Make) -> None:
    """#17926, #40196."""
    make("one", "question")
    db.compress_session("one", "two", [{"role": "user", "content": "summary"}])
    exported = db.export_session_lineage("two")
    assert exported is not None
    found = exported["segments"]
    assert [session["id"] for session in found] == ["one", "two"]
    assert [len(session["messages"]) for session in found] == [1, 1]


# ---------------------------------------------------------------------- titles


def test_title_conflict_says_who_owns_it(db: SessionDB, make: Make) -> None:
    """#60020, #48989: also when no list shows the owner."""
    make("visible")
    db.create_session("hidden", "cron", parent_session_id="visible")
    db.set_session_title("hidden", "Docker")
    with pytest.raises(ValueError, match="already in use by session hidden") as caught:
        db.set_session_title("visible", "Docker")
    assert isinstance(caught.value, ThreadkeepError)
    assert caught.value.hint


def test_title_by_machine_gets_a_number_on_a_clash(db: SessionDB, make: Make) -> None:
    """#50537, #26389: the clash was swallowed and the session stayed without a title."""
    for session_id in ("a", "b", "c"):
        make(session_id)
    titles = [db.set_auto_title(session_id, "Docker") for session_id in ("a", "b", "c")]
    assert titles == ["Docker", "Docker #2", "Docker #3"]
    assert [db.get_session_title(session_id) for session_id in ("a", "b", "c")] == titles


def test_title_by_machine_never_replaces_a_users(db: SessionDB, make: Make) -> None:
    """#26389."""
    make("s")
    db.set_session_title("s", "My own words")
    assert db.set_auto_title("s", "Machine words") == "My own words"
    assert db.get_session_title("s") == "My own words"


def test_title_by_machine_gives_way_to_the_next_one(db: SessionDB, make: Make) -> None:
    """#50537."""
    make("s")
    assert db.set_auto_title("s", "First guess") == "First guess"
    assert db.set_auto_title("s", "Better guess") == "Better guess"
    assert db.set_session_title("s", "Mine") is True
    assert db.set_auto_title("s", "Third guess") == "Mine"


def test_title_by_machine_that_is_too_long_is_shortened(db: SessionDB, make: Make) -> None:
    """#50537: a model does not count characters."""
    make("a")
    make("b")
    for session_id in ("a", "b"):
        title = str(db.set_auto_title(session_id, "word " * 60))
        assert title is not None
        assert 0 < len(title) <= 100
        assert db.get_session_title(session_id) == title
    assert db.get_session_title("a") != db.get_session_title("b")


def test_title_of_a_lineage_at_full_length_is_accepted(db: SessionDB, make: Make) -> None:
    """#60020: the next title was one that the setter refused."""
    base = "x" * 100
    make("a")
    make("b")
    db.set_session_title("a", base)
    title = db.get_next_title_in_lineage(base)
    assert db.set_session_title("b", title) is True
    assert title.endswith(" #2")


def test_title_given_back_by_deletion_is_free(db: SessionDB, make: Make, clock: Clock) -> None:
    """#48989."""
    make("a")
    make("b")
    db.set_session_title("a", "Docker")
    db.delete_session("a")
    assert db.set_session_title("b", "Docker") is True

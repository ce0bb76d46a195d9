"""Retention: exactly what is idle goes, nobody is held up for long, and the space comes back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.states import Clock, Factory, talk
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid, ReadOnly
from threadkeep.state import retention
from threadkeep.state.check import check
from threadkeep.state.schema import SEARCH_WORDS
from threadkeep.state.search.index_fill import drain
from threadkeep.state.session_db import SessionDB

Make = Callable[..., list[int]]


def candidates(db: SessionDB, *args: Any, **options: Any) -> list[dict[str, Any]]:
    with db.context.db.read() as tx:
        return retention.prune_candidates(db.context, tx, *args, **options)


def prune(db: SessionDB, *args: Any, **options: Any) -> int:
    return retention.prune_sessions(db.context, *args, **options)


def left(db: SessionDB) -> set[str]:
    return {str(session["id"]) for session in db.search_sessions(limit=10_000)}


@pytest.fixture
def several(db: SessionDB, make: Make, clock: Clock) -> SessionDB:
    """Sessions idle for 100 days in every state, and a young one."""
    for name in ("ended", "abandoned", "pinned", "empty-ended", "empty-running"):
        db.create_session(name, "cron" if name == "abandoned" else "cli")
    for name in ("ended", "abandoned", "pinned"):
        make(name, "a question", "an answer")
    for name in ("ended", "pinned", "empty-ended"):
        db.end_session(name, "done")
    db.set_session_pinned("pinned")
    clock.pass_days(100)
    make("young", "hello")
    db.end_session("young", "done")
    return db


# ---------------------------------------------------------------------- choosing


def test_idle_sessions_go_and_others_stay(several: SessionDB) -> None:
    assert prune(several, 90) == 3
    assert left(several) == {"pinned", "empty-running", "young"}
    assert several.message_count() == 3
    assert check(several.context) == []


def test_running_sessions_without_messages_go_only_when_asked(several: SessionDB) -> None:
    assert prune(several, 90, include_active=True) == 4
    assert left(several) == {"pinned", "young"}


def test_one_source_alone_can_be_pruned(several: SessionDB) -> None:
    assert prune(several, 90, "cron") == 1
    assert "abandoned" not in left(several)
    assert prune(several, 90, "nobody") == 0


def test_candidates_say_what_would_go(several: SessionDB) -> None:
    several.set_session_title("ended", "a title")
    found = {each["id"]: each for each in candidates(several)}
    assert set(found) == {"ended", "abandoned", "empty-ended"}
    ended = found["ended"]
    last = several.get_messages("ended")[-1]["timestamp"]
    assert ended == {
        "id": "ended",
        "title": "a title",
        "source": "cli",
        "last_active": last,
        "message_count": 2,
        "ended": True,
    }
    assert found["abandoned"]["ended"] is False
    start = several.search_sessions(limit=100)
    began = {session["id"]: session["started_at"] for session in start}
    assert found["empty-ended"]["last_active"] == began["empty-ended"]


def test_candidates_come_longest_idle_first(db: SessionDB, make: Make, clock: Clock) -> None:
    for name in ("first", "second", "third"):
        make(name, "x")
        clock.pass_days(1)
    make("first", "again")
    clock.pass_days(100)
    assert [each["id"] for each in candidates(db)] == ["second", "third", "first"]


def test_dry_run_counts_and_deletes_nothing(several: SessionDB) -> None:
    before = left(several)
    assert prune(several, 90, dry_run=True) == 3
    assert left(several) == before
    assert several.message_count() == 7


def test_when_a_session_ended_does_not_count(db: SessionDB, make: Make, clock: Clock) -> None:
    make("s", "long ago")
    clock.pass_days(100)
    db.end_session("s", "cleaned up by a timer")
    assert prune(db, 90) == 1


def test_newest_message_counts_though_the_clock_stepped_back(
    db: SessionDB, make: Make, clock: Clock
) -> None:
    make("s", "now")
    clock.pass_days(-200)
    make("s", "the clock was set back")
    clock.pass_days(200 + 50)
    assert prune(db, 90) == 0


@pytest.mark.parametrize("days", ["90", float("nan")])
def test_days_that_are_no_number_are_refused(several: SessionDB, days: Any) -> None:
    with pytest.raises(Invalid, match="older than"):
        prune(several, days)
    assert len(left(several)) == 6


def test_fractions_of_a_day_count(db: SessionDB, make: Make, clock: Clock) -> None:
    make("s", "x")
    clock.pass_days(0.5)
    assert prune(db, 0.6) == 0
    assert prune(db, 0.4) == 1


# ---------------------------------------------------------------------- what goes with a session


def test_everything_beside_a_session_goes_with_it(db: SessionDB, clock: Clock) -> None:
    db.create_session("s", "cli", "\ud800 model")
    db.append_message("s", "user", ["a", {"text": "list"}], idempotency_key="k")
    db.append_message("s", "user", "taken back", idempotency_key="k2")
    db.rewind_to_message("s", 2, any_role=True)
    db.set_session_archived("s")
    clock.pass_days(100)
    assert prune(db) == 1
    with db.context.db.read() as tx:
        for table in ("tk_hashes", "tk_session_hashes", "tk_exact", "tk_keys", "tk_flags"):
            assert tx.one(Sql(f"SELECT count(*) FROM {table}")) == (0,), table
        assert tx.one(Sql("SELECT count(*) FROM tk_rewound")) == (0,)
    assert check(db.context) == []


def test_children_of_pruned_sessions_stay_without_a_parent(
    db: SessionDB, make: Make, clock: Clock
) -> None:
    make("parent", "x")
    db.end_session("parent", "compression")
    clock.pass_days(100)
    db.create_session("child", "cli", parent_session_id="parent")
    make("child", "goes on")
    assert prune(db) == 1
    child = db.get_session("child")
    assert child is not None
    assert child["parent_session_id"] is None
    assert check(db.context) == []


def test_whole_families_of_old_sessions_go(db: SessionDB, make: Make, clock: Clock) -> None:
    for number in range(120):  # three transactions, parents and children apart
        parent = f"s{number - 1}" if number else None
        db.create_session(f"s{number}", "cli", parent_session_id=parent)
        make(f"s{number}", "x")
    clock.pass_days(100)
    assert prune(db) == 120
    assert left(db) == set()


def test_delete_sessions_takes_those_named_and_counts_those_there_were(several: SessionDB) -> None:
    named = ["ended", "pinned", "nobody", "ended"]
    assert retention.delete_sessions(several.context, named) == 2
    assert left(several) == {"abandoned", "empty-ended", "empty-running", "young"}
    assert retention.delete_sessions(several.context, "young") == 1
    assert retention.delete_sessions(several.context, []) == 0
    assert check(several.context) == []


# ---------------------------------------------------------------------- with others at work


@contextmanager
def after_choosing(db: SessionDB, act: Callable[[], object]) -> Iterator[None]:
    """Let something happen between the choice of sessions and their deletion."""
    write = db.context.db.write
    todo = [act]

    def first_act(**options: Any) -> Any:
        while todo:
            todo.pop()()
        return write(**options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db.context.db, "write", first_act)
        yield


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET message_count = message_count + 1 WHERE id = 'none'",
        "INSERT INTO messages(session_id, role, timestamp) VALUES ('ended', 'user', {now})",
        "INSERT INTO tk_flags(session_id, pinned_at) VALUES ('ended', {now})",
        "UPDATE sessions SET source = 'other' WHERE id = 'ended'",
        "DELETE FROM messages WHERE session_id = 'ended'",
    ],
)
def test_sessions_are_looked_at_again_before_they_go(
    several: SessionDB, clock: Clock, change: str, factory: Factory
) -> None:
    """Another program, which knows no lock of ours, uses a session that was about to go."""
    spared = "message" in change.lower() and "INSERT" in change
    spared = spared or "tk_flags" in change or "other" in change

    def other_program() -> None:
        with factory.raw(several) as other:
            other.execute(change.format(now=clock()))

    with after_choosing(several, other_program):
        assert prune(several, 90, "cli") == (1 if spared else 2)
    assert ("ended" in left(several)) == spared


def test_deleting_is_done_in_small_transactions(
    several: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes_seen: list[int] = []
    delete = retention._delete

    def counted(ctx: Any, tx: Tx, ids: list[str], due: Any) -> list[str]:
        sizes_seen.append(len(ids))
        return delete(ctx, tx, ids, due)

    monkeypatch.setattr(retention, "_delete", counted)
    monkeypatch.setattr(retention, "_MESSAGES_AT_ONCE", 3)
    for number in range(4):
        talk(several, f"more{number}", "a", "b")
    talk(several, "large", *"abcdefgh")
    retention.delete_sessions(several.context, [*(f"more{n}" for n in range(4)), "large"])
    assert sizes_seen == [1, 1, 1, 1, 1]
    sizes_seen.clear()
    monkeypatch.setattr(retention, "_MESSAGES_AT_ONCE", 5_000)
    monkeypatch.setattr(retention, "_SESSIONS_AT_ONCE", 2)
    retention.delete_sessions(several.context, list(left(several)))
    assert sizes_seen == [2, 2, 2]


def test_pruning_needs_a_store_that_may_be_written(several: SessionDB, factory: Factory) -> None:
    with factory.reopen(several, clock=Clock(), read_only=True) as looking:
        assert prune(looking, -1_000, dry_run=True) == 4
        with pytest.raises(ReadOnly):
            prune(looking, -1_000)


def test_second_index_forgets_deleted_messages(db: SessionDB) -> None:
    for number in range(4):
        talk(db, f"s{number}", f"海象{number}", "一只海象在游泳")
    drain(db.context)
    retention.delete_sessions(db.context, ["s0", "s1"])
    with db.context.db.read() as tx:
        assert (SEARCH_WORDS.size(tx), tx.value("live_docs")) == (4, 4)
    found = {hit["session_id"] for hit in db.search_messages("海象", limit=50)}
    assert found == {"s2", "s3"}
    assert check(db.context) == []

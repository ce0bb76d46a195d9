"""Sessions as version 6 has them, beyond the contract's suite: ensured, resolved, counted."""

import json
from collections.abc import Callable
from sqlite3 import IntegrityError
from typing import Any

import pytest

from tests.support.states import Clock
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]

COLUMNS = [
    "id",
    "source",
    "user_id",
    "model",
    "model_config",
    "system_prompt",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "message_count",
    "tool_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "title",
]


def session_of(db: SessionDB, session_id: str) -> dict[str, Any]:
    session = db.get_session(session_id)
    assert session is not None
    return session


# ---------------------------------------------------------------------- create, ensure


def test_new_session_has_its_columns(db: SessionDB, clock: Clock) -> None:
    before = clock.now
    made = db.create_session(
        "s", "cli", "m", {"temperature": 0.2}, "be brief", "u", parent_session_id=None
    )
    assert made == "s"
    session = session_of(db, "s")
    assert set(COLUMNS) <= set(session)
    assert json.loads(session["model_config"]) == {"temperature": 0.2}
    assert isinstance(session["model_config"], str)
    assert before < session["started_at"] <= clock.now
    counters = [name for name in COLUMNS if name.endswith(("_tokens", "_count"))]
    assert [session[name] for name in counters] == [0] * 7
    given = {"id", "source", "user_id", "model", "model_config", "system_prompt", "started_at"}
    rest = set(COLUMNS) - given - set(counters)
    assert {session[name] for name in rest} == {None}
    assert (session["user_id"], session["model"], session["system_prompt"]) == (
        "u",
        "m",
        "be brief",
    )


def test_creating_again_changes_nothing(db: SessionDB) -> None:
    db.create_session("s", "cli", model="first", user_id="u")
    before = session_of(db, "s")
    assert db.create_session("s", "telegram", model="second", system_prompt="x") == "s"
    assert session_of(db, "s") == before


def test_empty_model_config_is_null(db: SessionDB) -> None:
    db.create_session("s", "cli", model_config={})
    assert session_of(db, "s")["model_config"] is None


def test_unknown_parent_is_an_integrity_error(db: SessionDB) -> None:
    with pytest.raises(IntegrityError):
        db.create_session("s", "cli", parent_session_id="nobody")
    assert db.get_session("s") is None


def test_session_without_source_gives_its_id_and_is_stored(db: SessionDB) -> None:
    assert db.create_session("s", None) == "s"
    assert db.get_session("s") is not None


def test_ensure_makes_a_minimal_row_and_never_overwrites(db: SessionDB) -> None:
    db.ensure_session("s")
    assert (session_of(db, "s")["source"], session_of(db, "s")["model"]) == ("unknown", None)
    before = session_of(db, "s")
    db.ensure_session("s", source="cli", model="m")
    assert session_of(db, "s") == before
    db.ensure_session("t", source="cli", model="m")
    assert (session_of(db, "t")["source"], session_of(db, "t")["model"]) == ("cli", "m")


# ---------------------------------------------------------------------- end, reopen, prompt


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.end_session("nobody", "x"),
        lambda db: db.reopen_session("nobody"),
        lambda db: db.update_system_prompt("nobody", "x"),
        lambda db: db.update_token_counts("nobody", input_tokens=1),
        lambda db: db.clear_messages("nobody"),
    ],
)
def test_unknown_id_is_no_error_and_makes_nothing(db: SessionDB, call: Any) -> None:
    assert call(db) is None
    assert db.session_count() == 0


def test_system_prompt_is_replaced(db: SessionDB) -> None:
    db.create_session("s", "cli", system_prompt="old")
    db.update_system_prompt("s", "new")
    assert session_of(db, "s")["system_prompt"] == "new"


# ---------------------------------------------------------------------- resolve


@pytest.fixture
def ids(db: SessionDB) -> SessionDB:
    for session_id in (
        "20260401_abc",
        "20260401_abd",
        "20260402_xyz",
        "50%_off",
        "50x_off",
        "a\\b",
    ):
        db.create_session(session_id, "cli")
    return db


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("20260401_abc", "20260401_abc"),
        ("20260402", "20260402_xyz"),
        ("20260401", None),
        ("20260401_ABC", "20260401_abc"),
        ("nothing", None),
        ("50%", "50%_off"),
        ("20260402%", None),
        ("20260402_", "20260402_xyz"),
        ("2026040__", None),
        ("a\\", "a\\b"),
        ("", None),
    ],
)
def test_prefix_resolves_if_it_is_the_only_one(
    ids: SessionDB, given: str, wanted: str | None
) -> None:
    assert ids.resolve_session_id(given) == wanted


def test_exact_id_wins_over_longer_ones(db: SessionDB) -> None:
    db.create_session("abc", "cli")
    db.create_session("abcd", "cli")
    assert db.resolve_session_id("abc") == "abc"
    assert db.resolve_session_id("ab") is None


def test_nothing_typed_resolves_to_the_only_session(db: SessionDB) -> None:
    assert db.resolve_session_id("") is None
    db.create_session("only", "cli")
    assert db.resolve_session_id("") == "only"


def test_none_is_no_prefix(db: SessionDB) -> None:
    with pytest.raises(AttributeError):
        db.resolve_session_id(None)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- search_sessions, counts


def test_search_sessions_gives_raw_rows_newest_first_with_children(db: SessionDB) -> None:
    for session_id, source in (("a", "cli"), ("b", "telegram"), ("c", "cli")):
        db.create_session(session_id, source, parent_session_id="a" if session_id == "c" else None)
    found = db.search_sessions()
    assert [session["id"] for session in found] == ["c", "b", "a"]
    assert set(COLUMNS) <= set(found[0])
    assert [session["id"] for session in db.search_sessions(source="cli")] == ["c", "a"]
    assert [session["id"] for session in db.search_sessions(limit=1, offset=1)] == ["b"]
    assert db.search_sessions(source="nowhere") == []


def test_search_sessions_gives_twenty(db: SessionDB) -> None:
    for number in range(25):
        db.create_session(f"s{number:02}", "cli")
    assert [s["id"] for s in db.search_sessions()] == [f"s{n:02}" for n in range(24, 4, -1)]


def test_counts(db: SessionDB, make: Make) -> None:
    make("a", "one", "two")
    make("b", "three", source="telegram")
    assert (db.session_count(), db.session_count("cli"), db.session_count("x")) == (2, 1, 0)
    assert (db.message_count(), db.message_count("a"), db.message_count("x")) == (3, 2, 0)


# ---------------------------------------------------------------------- prune


def test_recent_activity_protects_from_pruning(db: SessionDB, make: Make, clock: Clock) -> None:
    make("s", "long ago")
    clock.pass_days(100)
    make("s", "just now")
    db.end_session("s", "done")
    assert db.prune_sessions(90) == 0
    clock.pass_days(91)
    assert db.prune_sessions(90) == 1

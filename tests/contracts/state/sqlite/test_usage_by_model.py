"""Usage by model and task, in files of newer programs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.newer_states import make_newer_state
from tests.support.states import Clock, open_state
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import rows


@pytest.fixture(params=[26, 999])
def newer(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[SessionDB]:
    path = tmp_path / "newer.db"
    make_newer_state(path, request.param)
    with open_state(path, clock) as opened:
        yield opened


def by_model(db: SessionDB) -> list[tuple[Any, ...]]:
    sql = (
        "SELECT model, billing_provider, task, input_tokens, api_call_count"
        " FROM session_model_usage ORDER BY 1, 2, 3"
    )
    return [tuple(row.values()) for row in rows(db, sql)]


def models(db: SessionDB) -> dict[str, int]:
    return {row["model"]: row["input_tokens"] for row in db.usage()}


def test_usage_goes_to_the_session_and_to_the_model_that_was_asked(newer: SessionDB) -> None:
    newer.update_token_counts("s", 10, 1, "small", billing_provider="p", api_call_count=1)
    newer.update_token_counts("s", 100, 2, "large", api_call_count=2)
    newer.update_token_counts("s", 5, 1, "small", billing_provider="p", api_call_count=1)
    newer.update_token_counts("s")
    newer.record_auxiliary_usage("s", "vision", model="eye", input_tokens=7)
    newer.record_auxiliary_usage("s", "vision", model="eye", input_tokens=7, api_call_count=None)
    assert by_model(newer) == [
        ("eye", "", "vision", 14, 2),
        ("large", "p", "", 100, 2),
        ("small", "p", "", 15, 2),
    ]
    assert models(newer) == {"large": 100, "small": 15, "eye": 14}
    route = newer.get_dominant_session_model_route("s")
    assert route is not None
    assert (route["model"], route["api_call_count"]) == ("large", 2)
    assert newer.get_dominant_session_model_route("nobody") is None
    session = newer.get_session("s")
    assert session is not None
    assert (session["input_tokens"], session["model"], session["source"]) == (
        115,
        "small",
        "unknown",
    )


def test_a_total_that_is_set_changes_the_session_alone(newer: SessionDB) -> None:
    newer.update_token_counts("s", 10, model="small", api_call_count=1)
    newer.update_token_counts("s", 7, model="small", absolute=True)
    assert by_model(newer) == [("small", "", "", 10, 1)]
    assert models(newer) == {"small": 10}
    newer.update_token_counts("s", 50, model="small", absolute=True)
    assert models(newer) == {"small": 50}


def test_the_first_usage_that_counts_tells_the_route(newer: SessionDB) -> None:
    with closing(sqlite3.connect(newer.db_path)) as connection:
        connection.execute(
            "INSERT INTO sessions(id, source, model, started_at) VALUES ('s', 'cli', 'wanted', 1)"
        )
        connection.commit()
    newer.update_token_counts("s", model="else", billing_provider="q")
    newer.update_token_counts("s", 1, model="got", billing_provider="p", api_call_count=1)
    newer.update_token_counts("s", 1, model="later", billing_provider="r", api_call_count=1)
    session = newer.get_session("s")
    assert session is not None
    assert (session["model"], session["billing_provider"]) == ("got", "p")


def test_a_file_whose_key_has_no_task_counts_models_and_says_why_no_tasks(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "21.db"
    make_newer_state(path, 21)
    with closing(sqlite3.connect(path)) as connection:
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'session_model_usage'"
        ).fetchone()
        old = str(sql).replace("  task TEXT NOT NULL DEFAULT '',\n", "").replace(", task)", ")")
        connection.executescript(f"DROP TABLE session_model_usage; {old}")
    with open_state(path, clock) as db:
        db.update_token_counts("s", 1, model="m")
        db.update_token_counts("s", 2, model="m")
        db.record_auxiliary_usage("s", "vision", model="m", input_tokens=9)
        assert models(db) == {"m": 3}
    assert "not by task" in caplog.text


def test_totals_leave_out_children_archived_and_empty_sessions(newer: SessionDB) -> None:
    with closing(sqlite3.connect(newer.db_path)) as connection:
        for row in (
            ("a", None, 1, 0, 10, 0.5, None),
            ("b", None, 1, 1, 100, 1.0, 2.0),
            ("c", "a", 1, 0, 1000, 9.0, None),
            ("d", None, 0, 0, 10000, 9.0, None),
        ):
            connection.execute(
                "INSERT INTO sessions(id, source, started_at, parent_session_id, message_count,"
                " archived, input_tokens, estimated_cost_usd, actual_cost_usd)"
                " VALUES (?1, 'cli', 1, ?2, ?3, ?4, ?5, ?6, ?7)",
                row,
            )
        connection.commit()
    assert newer.usage_totals() == {"tokens": 10, "cost_usd": 0.5}
    assert newer.usage_totals(include_archived=True) == {"tokens": 110, "cost_usd": 2.5}
    assert newer.usage_totals(min_message_count=2) == {"tokens": 0, "cost_usd": 0.0}

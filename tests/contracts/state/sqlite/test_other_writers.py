"""Files of other programs: times written as text, no side tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.states import open_state
from threadkeep.state.session_db import SessionDB


def by_activity(db: SessionDB, **options: Any) -> list[str]:
    return [one["id"] for one in db.list_sessions_rich(order_by_last_active=True, **options)]


def test_a_file_with_times_as_text_is_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_state(path) as db:
        db.create_session("t", "x")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DROP TABLE tk_activity")
        for name in ("tk_session_new", "tk_session_gone", "tk_message_gone"):
            other.execute(f"DROP TRIGGER {name}")
        other.execute("UPDATE sessions SET started_at = 'noon'")
    with open_state(path) as db:
        assert by_activity(db) == ["t"]


def test_a_file_without_side_tables_counts_cached_tokens_and_billed_cost(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as other, other:
        head = Path(__file__).parents[4] / "src/threadkeep/state/sql/head.sql"
        other.executescript(head.read_text() + "INSERT INTO schema_version VALUES (6);")
        other.execute(
            "INSERT INTO sessions(id, source, started_at, cache_read_tokens, actual_cost_usd)"
            " VALUES ('a', 'cli', 1, 5, 0.5)"
        )
    with SessionDB(path, read_only=True) as db:
        (row,) = db.usage()
    assert (row["cache_read_tokens"], row["actual_cost_usd"]) == (5, 0.5)

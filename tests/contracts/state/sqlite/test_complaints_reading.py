"""What users of Hermes complain about: lists that cost more in a large file."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.state.hermes_state import SessionDB
from threadkeep.testing import raw

# ---------------------------------------------------------------------- listing


@contextmanager
def counted_steps(monkeypatch: pytest.MonkeyPatch, db: SessionDB) -> Iterator[list[int]]:
    """Count the steps of SQLite's machine on the connections that read, in hundreds."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    lend = sqlite_file(db.context.db).take_reader

    def lend_counting() -> sqlite3.Connection:
        connection = lend()
        connection.set_progress_handler(step, 100)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(db.context.db, "take_reader", lend_counting)
        yield steps


def fill(db: SessionDB, first: int, last: int) -> None:
    """Add sessions of four messages each, quickly."""
    numbers = [(number,) for number in range(first, last)]
    with raw(db) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO sessions(id, source, started_at) VALUES ('s' || ?1, 'cli', 1000 + ?1)",
            numbers,
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


def numbers(messages: list[dict[str, Any]]) -> list[int]:
    return [int(message["content"]) for message in messages]

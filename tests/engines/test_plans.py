"""Queries that run often use a key or an index on PostgreSQL, with row-level security in front."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import psycopg
import pytest

from tests.support.postgres import connect, numbered_parameters
from threadkeep.base.postgres.schema import StorePlace, drop, enter, prepare_on
from threadkeep.chat.schema import SCHEMA, queries

HOME: Final = f"plans{os.getpid()}"
PLACE: Final = StorePlace(HOME, "chat")
SESSIONS, EACH = 4_000, 5
# Tables that grow with what is said; the others stay small.
_LARGE: Final = {"chat_sessions", "chat_messages", "chat_parts", "chat_events", "tk_hashes"}
# Queries that look at everything, and why they may.
WHOLE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("all_session_ids", "all_streams", "sessions_to_export"),
        "lists what there is, for an export",
    ),
    **dict.fromkeys(("scan_parts", "mark_all_dirty"), "indexes every word again"),
    **dict.fromkeys(("largest_sessions", "text_by_table"), "measures the store"),
    **dict.fromkeys(
        ("old_sessions", "old_finished_messages", "streams_with_finished_chunks", "drop_events"),
        "takes out what is too old, some times a day",
    ),
    "sessions_with_open_tools": "looks for what a crash left, when a store is opened",
}
# What asks for little when some parameters are not given is planned for those at hand.
_OPTIONAL: Final = re.compile(r"\bIS NULL\s+OR\b")


@pytest.fixture(scope="module")
def filled(server: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    with connect(server.info.dsn) as connection:
        prepare_on(connection, PLACE, SCHEMA)
        enter(connection, PLACE)
        connection.execute(
            "INSERT INTO chat_sessions (id, agent, workspace_root, created_at, updated_at)"
            " SELECT 'ses_' || i, 'a' || i % 5, '/w' || i % 9, i, i"
            f" FROM generate_series(1, {SESSIONS}) AS i".encode()
        )
        for table, columns, values in (
            (
                "chat_messages",
                "id, session_id, role, created_at, updated_at",
                "'msg_' || s || '_' || i, 'ses_' || s, 'user', i, i",
            ),
            (
                "chat_parts",
                "id, message_id, session_id, index, type, data_json, created_at, updated_at",
                (
                    "'prt_' || s || '_' || i, 'msg_' || s || '_' || i, 'ses_' || s, 0, 'text',"
                    " '{}', i, i"
                ),
            ),
            (
                "chat_events",
                "stream_id, seq, kind, message_id, data_json, created_at, checksum",
                "'ses_' || s, i, 'chunk', 'msg_' || s || '_' || i, '{}', i, 1",
            ),
            ("tk_hashes", "kind, id, hash", "'part', 'prt_' || s || '_' || i, 'h'"),
        ):
            connection.execute(
                f"INSERT INTO {table} ({columns}) SELECT {values} FROM"
                f" generate_series(1, {SESSIONS}) AS s, generate_series(1, {EACH}) AS i".encode()
            )
        connection.execute(f"ANALYZE {', '.join(sorted(_LARGE))}".encode())
        yield connection
        drop(connection, HOME)


def scans(plan: Any) -> Iterator[str]:
    """Yield the large tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in _LARGE:
        yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from scans(inner)


def test_every_query_that_runs_often_uses_an_index(filled: psycopg.Connection[Any]) -> None:
    found = {}
    for name, query in queries("postgres").items():
        text, names = numbered_parameters(query)
        if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text):
            continue
        if _OPTIONAL.search(text):
            given = dict.fromkeys(names) | {"limit": 20, "archived": 0, "ephemeral": True}
            cursor = filled.execute(f"EXPLAIN (FORMAT JSON) {query}".encode(), given)
        else:
            cursor = filled.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode())
        ((plans,),) = cursor.fetchall()
        if read := sorted({table for plan in plans for table in scans(plan["Plan"])}):
            found[name] = read
    assert {name: read for name, read in found.items() if name not in WHOLE} == {}

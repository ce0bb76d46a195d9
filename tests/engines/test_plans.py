"""Queries that run often use a key or an index on PostgreSQL, with row-level security in front."""

import os
import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from typing import Any, Final

import psycopg
import pytest

from tests.engines.test_schema import KNOWLEDGE
from tests.support.postgres import connect, numbered_parameters
from threadkeep.base.postgres.schema import StorePlace, drop, enter, prepare_on
from threadkeep.base.sql import load_queries
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
_CONDITIONS: Final = {"Filter", "Index Cond", "Recheck Cond", "One-Time Filter"}
_CONTRACT: Final = re.compile(
    r"\b(knowledge_vectors\w*|embed_model_meta|\w*claude_sessions|knowledge_fts\w*)\b"
)
_CATALOGUE: Final = {"pg_class"}
LOGS, TURNS = 400, 50
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


# Knowledge: what grows with every message, and the files whose queries are asked while it does.
_GROWING: Final = {"tk_entries", "tk_turns", "tk_entry_words_postings"}
_ASKED: Final = ("recall.sql", "browse.sql", "tail.sql", "queries.sql", "evidence.sql")
OF_ALL: Final[Mapping[str, str]] = {
    "last_entry_placed": "takes the last of an index",
    "browse_messages_since": "joins the sessions of some days, which are few beside their messages",
    "browse_changed": "reads from the end",
}


@pytest.fixture(scope="module")
def captured(server: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    place = StorePlace(f"{HOME}k", "knowledge")
    with connect(server.info.dsn) as connection:
        prepare_on(connection, place, KNOWLEDGE)
        enter(connection, place)
        for table, columns, values in (
            ("tk_sessions", "id, harness, session_id, ended_at", "s, 'codex', 'ses_' || s, s"),
            (
                "tk_logs",
                (
                    "id, reader, harness, path, size, mtime_ns, device, inode, fingerprint, head,"
                    " head_size, tail"
                ),
                "s, 'codex', 'codex', '/log/' || s, 1, 1, 1, s, '', '', 0, ''",
            ),
        ):
            connection.execute(
                f"INSERT INTO {table} ({columns})"
                f" SELECT {values} FROM generate_series(1, {LOGS}) AS s".encode()
            )
        for table, columns, values in (
            (
                "tk_entries",
                "id, session, key, log_id, line, part, role, kind, at, error, hash",
                "s * 100 + i, s, 'k' || i, s, i, 0, 'user', 'text', s * 100 + i, 0, s * 100 + i",
            ),
            ("tk_turns", "entry, session, turn, words", "s * 100 + i, s, i, 9"),
            (
                "tk_entry_words_postings",
                "term, block, n, docs, pos",
                "CAST('w' || i AS bytea), s, 1, '', ''",
            ),
        ):
            connection.execute(
                f"INSERT INTO {table} ({columns}) SELECT {values} FROM"
                f" generate_series(1, {LOGS}) AS s, generate_series(1, {TURNS}) AS i".encode()
            )
        connection.execute(f"ANALYZE {', '.join(sorted(_GROWING))}, tk_sessions, tk_logs".encode())
        yield connection
        drop(connection, place.home_name)


def scans(plan: Any, large: AbstractSet[str] = _LARGE) -> Iterator[str]:
    """Yield the large tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in large:
        yield plan["Relation Name"]
    for inner in plan.get("Plans", ()):
        yield from scans(inner, large)


def unwalled(plan: Any, above: str = "") -> Iterator[str]:
    """Yield the tables that a plan reads without the key of an owner or a scope."""
    conditions = " ".join(str(value) for key, value in plan.items() if key in _CONDITIONS)
    own = plan["Node Type"].startswith("Bitmap Index")  # its condition stands above it, too
    reads = "Relation Name" in plan and plan["Node Type"] != "ModifyTable" and not own
    if reads and "tk_scope" not in conditions and "tk_owner" not in conditions:
        yield from {plan["Relation Name"]} - _CATALOGUE
    for inner in plan.get("Plans", ()):
        yield from unwalled(inner, conditions)


def plans_of(connection: psycopg.Connection[Any], query: str) -> list[Any]:
    """Return the plans of a query, for any values; none if it has none."""
    text, names = numbered_parameters(query)
    if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text):
        return []
    if _OPTIONAL.search(text):
        given = dict.fromkeys(names) | {"limit": 20, "archived": 0, "ephemeral": True}
        cursor = connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode(), given)
    else:
        cursor = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode())
    ((plans,),) = cursor.fetchall()
    return [plan["Plan"] for plan in plans]


def test_every_query_that_runs_often_uses_an_index(filled: psycopg.Connection[Any]) -> None:
    found = {}
    for name, query in queries("postgres").items():
        plans = plans_of(filled, query)
        if read := sorted({table for plan in plans for table in scans(plan)}):
            found[name] = read
        # The key by which tables are spread over servers, or the wall that stands for it.
        assert sorted({table for plan in plans for table in unwalled(plan)}) == [], name
    assert {name: read for name, read in found.items() if name not in WHOLE} == {}


def test_what_is_asked_of_all_messages_uses_an_index(captured: psycopg.Connection[Any]) -> None:
    found = {}
    for name, query in load_queries("threadkeep.knowledge", *_ASKED, engine="postgres").items():
        if "sqlite_" in query or "_docsize" in query or _CONTRACT.search(query):
            continue
        plans = plans_of(captured, query)
        if read := sorted({table for plan in plans for table in scans(plan, _GROWING)}):
            found[name] = read
        assert sorted({table for plan in plans for table in unwalled(plan)}) == [], name
    assert {name: read for name, read in found.items() if name not in OF_ALL} == {}

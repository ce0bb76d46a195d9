"""The schema of a home on PostgreSQL: what it is made of, who may make it, how it is brought up."""

import os
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.postgres import connect
from threadkeep.base.postgres import schema as schemas
from threadkeep.base.postgres.schema import StorePlace, drop, enter, prepare_on, restart_numbers
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.schema import Schema, SchemaStep
from threadkeep.chat.schema import SCHEMA as CHAT
from threadkeep.errors import Busy, NotFound, SchemaMismatch
from threadkeep.knowledge.schema import CHANGES, script_of, side_of
from threadkeep.state.schema import SCHEMA as STATE

HOME: Final = f"t{os.getpid()}"  # other processes have theirs in the same server
_KNOWLEDGE: Final = "\n".join(
    (
        load_text("threadkeep.knowledge", "head.sql"),
        *map(script_of, CHANGES),
        side_of(22),
        load_text("threadkeep.knowledge", "orphans.sql"),
    )
)
KNOWLEDGE: Final = CHAT._replace(name="knowledge", version=23, head=_KNOWLEDGE, steps=())
STORES: Final = {schema.name: schema for schema in (CHAT, STATE, KNOWLEDGE)}
# What a home has for all its members: they are the same on every server that shares its tables.
SHARED: Final = {"tk_home", "tk_versions", "tk_members", "tk_scopes", "tk_shares", "tk_begun"}

Server = psycopg.Connection[Any]


@pytest.fixture
def fresh(server: Server) -> Iterator[Server]:
    """Return a connection of its own, and leave no home behind."""
    with connect(place_of(server)) as connection:
        yield connection
    with connect(place_of(server)) as connection:
        drop(connection, HOME)


def place_of(server: Server, **other: str) -> str:
    return make_conninfo(server.info.dsn, **other)


def login(server: Server, name: str, options: str = "") -> str:
    """Make a login that may make schemas, if there is none; give what it connects with."""
    role = f"{name}_{os.getpid()}"
    if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
        server.execute(f"CREATE ROLE {role} LOGIN {options}".encode())
        server.execute(f"GRANT CREATE ON DATABASE postgres TO {role}".encode())
    return place_of(server, user=role)


def unique_indexes(connection: Server, home: str) -> dict[str, list[str]]:
    """Return the columns of each primary key and unique index of a home, by schema and name."""
    sql = """
        SELECT n.nspname || '.' || t.relname || '.' || c.relname,
          (SELECT array_agg(a.attname ORDER BY k.place)
           FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place)
           JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number)
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_class AS t ON t.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = t.relnamespace
        WHERE i.indisunique AND (n.nspname = %(home)s OR n.nspname LIKE %(home)s || '\\_%%')
        AND NOT (n.nspname = %(home)s AND t.relname = ANY (string_to_array(%(shared)s, ',')))"""
    rows = connection.execute(sql, {"home": home, "shared": ",".join(SHARED)}).fetchall()
    return {str(name): list(columns) for name, columns in rows}


def test_a_home_has_all_stores_side_by_side(fresh: Server) -> None:
    for schema in STORES.values():
        assert prepare_on(fresh, StorePlace(HOME, schema.name), schema) == []
    found = fresh.execute(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'tk_hashes' ORDER BY 1"
    ).fetchall()
    assert [row[0] for row in found] == [f"tk_{HOME}_chat", f"tk_{HOME}_state"]
    # Every key has the owner: rows of two of them never meet, and tables can be spread by it.
    keys = unique_indexes(fresh, f"tk_{HOME}")
    assert len(keys) > 100
    assert {name: columns for name, columns in keys.items() if "tk_owner" not in columns} == {}
    # Every table is behind row-level security, for who owns it as well.
    open_tables = fresh.execute(
        "SELECT c.oid::regclass FROM pg_class AS c WHERE c.relkind IN ('r', 'p')"
        " AND c.relnamespace::regnamespace::text LIKE %s"
        " AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
        (f"tk\\_{HOME}\\_%",),
    ).fetchall()
    assert open_tables == []


def test_who_makes_a_home_is_its_first_member(fresh: Server, server: Server) -> None:
    place = StorePlace(HOME, "chat")
    with connect(login(server, "plain")) as connection:
        prepare_on(connection, place, CHAT)
        member = enter(connection, place)
        add_session(connection, "ses_1")
        row = connection.execute("SELECT tk_owner, tk_scope, title FROM chat_sessions").fetchone()
        assert row == (*member, "New Chat")  # the title comes from a trigger
        assert enter(connection, place) == member
        drop(connection, HOME)
    with connect(place_of(server, user=f"plain_{os.getpid()}")) as connection:
        assert schemas.version_of(connection, place) is None


def test_a_superuser_does_not_walk_past_the_walls(fresh: Server) -> None:
    place = StorePlace(HOME, "chat")
    prepare_on(fresh, place, CHAT)
    enter(fresh, place)
    add_session(fresh, "ses_1")
    fresh.execute("SELECT set_config('tk.owner', '7', false)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        add_session(fresh, "ses_2")
    assert fresh.execute("SELECT count(*) FROM chat_sessions").fetchone() == (1,)


def test_a_login_that_is_no_member_is_told_so(fresh: Server, server: Server) -> None:
    place = StorePlace(HOME, "chat")
    prepare_on(fresh, place, CHAT)
    row = fresh.execute(f"SELECT member_role FROM tk_{HOME}.tk_home".encode()).fetchone()
    assert row is not None
    stranger = login(server, "stranger")
    server.execute(f'GRANT "{row[0]}" TO stranger_{os.getpid()}'.encode())
    with connect(stranger) as connection, pytest.raises(NotFound, match="not a member"):
        enter(connection, place)


def test_a_store_begins_with_its_rows_once(fresh: Server) -> None:
    place = StorePlace(HOME, "state")
    prepare_on(fresh, place, STATE)
    asked = "SELECT key, value FROM tk_meta ORDER BY key"
    begun = fresh.execute(asked).fetchall()
    assert ("indexed", "0") in begun
    fresh.execute("UPDATE tk_meta SET value = '7' WHERE key = 'indexed'")
    prepare_on(fresh, place, STATE)
    assert ("indexed", "7") in fresh.execute(asked).fetchall()


def test_steps_run_once_and_newer_versions_are_refused(
    fresh: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StorePlace(HOME, "chat")
    prepare_on(fresh, place, CHAT)
    written = {"postgres/0099_moods.sql": "ALTER TABLE chat_sessions ADD COLUMN mood text;"}
    monkeypatch.setattr(
        schemas, "load_text", lambda package, file: written.get(file) or load_text(package, file)
    )
    newer: Schema = CHAT._replace(version=99, steps=(*CHAT.steps, SchemaStep(99, "0099_moods")))
    assert prepare_on(fresh, place, newer) == ["0099_moods"]
    fresh.execute("SELECT mood FROM chat_sessions")
    assert prepare_on(fresh, place, newer) == []
    with pytest.raises(SchemaMismatch, match="version 99"):
        prepare_on(fresh, place, CHAT)


def test_who_changes_the_tables_waits_for_others(
    fresh: Server, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_LOCK_TIMEOUT", "10ms")
    place = StorePlace(HOME, "chat")
    with connect(place_of(server)) as other, other.transaction():
        other.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"threadkeep tk_{HOME}",)
        )
        with pytest.raises(Busy):
            prepare_on(fresh, place, CHAT)
    prepare_on(fresh, place, CHAT)


def test_numbers_go_on_behind_rows_that_were_put_in(fresh: Server) -> None:
    place = StorePlace(HOME, "state")
    prepare_on(fresh, place, STATE)
    put = "INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1)"
    fresh.execute(put.encode())
    message = "INSERT INTO messages ({}session_id, role, timestamp) VALUES ({}'s', 'user', 1)"
    fresh.execute(message.format("id, ", "41, ").encode())
    restart_numbers(fresh, place)
    row = fresh.execute(f"{message.format('', '')} RETURNING id".encode()).fetchone()
    assert row == (42,)


def add_session(connection: Server, name: str) -> None:
    connection.execute(
        "INSERT INTO chat_sessions (id, agent, created_at, updated_at) VALUES (%s, 'a', 1, 1)",
        (name,),
    )

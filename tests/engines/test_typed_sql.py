"""Queries that somebody types, on a server: they read the tables of the store, and nothing else."""

import re
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.conftest import REPO
from threadkeep.base.postgres import typed_query
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import drop
from threadkeep.base.sqlite.guard import Budget
from threadkeep.base.tx import Sql
from threadkeep.errors import NotFound, ThreadkeepError, TooLarge
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.typed_sql import run_sql, sql_tables
from threadkeep.web.pages.sql import EXAMPLES

DOC = REPO / "docs" / "postgres.md"
SESSIONS = """INSERT INTO tk_sessions (harness, session_id, title, started_at, entries)
SELECT 'codex', 's-' || lpad(CAST(n AS text), 2, '0'), 'a title', n, n
FROM generate_series(0, 39) AS n"""
ENDLESS = "SELECT count(*) FROM " + ", ".join(f"tk_sessions AS t{n}" for n in range(12))


@pytest.fixture(scope="module")
def store(server_url: str) -> Iterator[KnowledgeStore]:
    place = f"{server_url}&home=typed"
    with PostgresDatabase(place, "knowledge", {}) as database, database.connect() as connection:
        drop(connection, "typed")
        with KnowledgeStore.open(place) as store:
            with store.write() as tx:
                tx.run(Sql(SESSIONS))
            yield store
        drop(connection, "typed")


def rows(store: KnowledgeStore, sql: str) -> tuple[tuple[object, ...], ...]:
    return run_sql(store.context.db, sql).rows


def test_a_query_gives_columns_and_rows(store: KnowledgeStore) -> None:
    sql = "-- the latest /* not */\nSELECT session_id, entries FROM tk_sessions ORDER BY 1;"
    found = run_sql(store.context.db, sql)
    assert found.columns == ("session_id", "entries")
    assert (found.rows[0], len(found.rows), found.cut) == (("s-00", 0), 40, False)
    named = "WITH w AS (SELECT id FROM tk_sessions) SELECT count(*) FROM (SELECT id FROM w) AS x"
    assert rows(store, named) == ((40,),)
    assert rows(store, "SELECT 1 UNION SELECT 2 /* a /* b */ c */ ORDER BY 1") == ((1,), (2,))
    odd = "SELECT '\\x0102'::bytea, 'it''s %s :a {x}', 2 > 1, 1.5e0, null, E'a\\'(', \"id\" > 0"
    assert rows(store, f"{odd} FROM tk_sessions LIMIT 1") == (
        ("<2 bytes>", "it's %s :a {x}", 1, 1.5, None, "a'(", 1),
    )
    assert rows(store, "SELECT '\ud800'") == (("\ud800",),)  # as such a text is kept
    assert rows(store, "SELECT id AS a, id AS a FROM tk_sessions LIMIT 0") == ()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_page_run(store: KnowledgeStore, name: str) -> None:
    assert run_sql(store.context.db, EXAMPLES[name]).columns


def test_there_is_an_end_to_rows_bytes_and_time(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_sql(store.context.db, "SELECT id FROM tk_sessions", limit=7)
    assert (len(found.rows), found.cut) == (7, True)
    wide = "WITH a AS (SELECT CAST(1 AS numeric) / 3 AS n) SELECT round(n, 16000) FROM a"
    assert len(str(rows(store, wide))) < 100_000
    long = "'" + "x" * 9_000 + "'"
    parts = "SELECT title || " + " || ".join(["x"] * 40) + f" FROM (SELECT title, {long} AS x"
    found = run_sql(store.context.db, f"{parts} FROM tk_sessions) AS t")
    assert found.cut
    assert len(found.rows) < 40
    doubled = "".join(f", w{n + 1} AS (SELECT x || x AS x FROM w{n})" for n in range(8))
    with pytest.raises(TooLarge, match="a value that is too large"):
        rows(store, f"WITH w0 AS (SELECT {long} AS x) {doubled} SELECT x FROM w8")
    monkeypatch.setattr("threadkeep.knowledge.typed_sql._BUDGET", Budget(seconds=0.3, value=100))
    for _ in range(2):  # who was stopped may ask again at once
        with pytest.raises(TooLarge, match=r"stopped after 0\.3 s"):
            rows(store, ENDLESS)
    assert rows(store, "SELECT 1") == ((1,),)


def test_queries_inside_of_each_other_do_not_multiply(store: KnowledgeStore) -> None:
    """The server would write each in the place of its name: no time-out stops it while it does."""
    nested = "SELECT entries AS x FROM tk_sessions"
    for _ in range(24):
        nested = f"SELECT x + x AS x FROM ({nested}) AS t"
    with pytest.raises(TooLarge, match="inside of the query"):
        rows(store, nested)
    named = "".join(f", w{n + 1} AS (SELECT x + x AS x FROM w{n})" for n in range(20))
    first = "WITH w0 AS (SELECT entries AS x FROM tk_sessions WHERE entries = 1)"
    assert rows(store, f"{first} {named} SELECT x FROM w20") == ((1 << 20,),)


def test_temporary_files_have_an_end_where_the_login_may_set_one(
    store: KnowledgeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed_query, "_TEMPORARY_KB", 100)
    pairs = "SELECT a.title FROM tk_sessions AS a, tk_sessions AS b, tk_sessions AS c, tk_sessions"
    with pytest.raises(TooLarge, match="temp_file_limit"):
        rows(store, f"SELECT count(*) FROM ({pairs} AS d ORDER BY a.title || b.id OFFSET 1) AS x")


@pytest.mark.parametrize(
    "sql",
    [
        # what changes something, or is no query
        "DELETE FROM tk_sessions",
        "WITH x AS (DELETE FROM tk_sessions RETURNING 1) SELECT * FROM x",
        "WITH x AS (SELECT 1) DELETE FROM tk_sessions",
        "SELECT * INTO copied FROM tk_sessions",
        "SELECT * FROM tk_sessions FOR UPDATE",
        "TABLE tk_sessions",
        "COPY tk_sessions TO PROGRAM 'touch /tmp/owned'",
        "DO $$BEGIN DELETE FROM tk_sessions; END$$",
        "SELECT $$a$$",
        "EXPLAIN ANALYZE SELECT 1",
        "SET ROLE postgres",
        "BEGIN",
        "ROLLBACK; DELETE FROM tk_sessions",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM tk_sessions; --",
        "/* /* */ SELECT */ DELETE FROM tk_sessions",
        "SELECT 1) AS typed(c0) LIMIT 1; DELETE FROM tk_sessions; SELECT * FROM (SELECT 1",
        "SELECT 1) AS typed(c0), (SELECT 2",
        "SELECT 1 /*",
        # functions that do something, however they are written
        "SELECT pg_sleep(100)",
        "SELECT pg_catalog.pg_sleep(100)",
        'SELECT "pg_sleep"(100)',
        "SELECT pg_sleep/**/ (100)",
        "SELECT pg_sleep--\n(100)",
        'SELECT U&"pg\\005fsleep"(100)',
        "SELECT 1pg_sleep(100)",
        "SELECT 1 WHERE 1<2and pg_sleep(1) IS NULL",
        "SELECT 'a'pg_sleep(1)",
        "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM tk_sessions",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(1, '/tmp/owned')",
        "SELECT lo_create(1)",
        "SELECT pg_stat_file('/etc/passwd')",
        "SELECT set_config('role', 'postgres', false)",
        "SELECT set_config('tk.owner', '1', false)",
        "SELECT current_setting('tk.owner')",
        "SELECT dblink('host=/tmp', 'DELETE FROM tk_sessions')",
        "SELECT query_to_xml('DELETE FROM tk_sessions', true, true, '')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(1)",
        "SELECT pg_notify('a', 'b')",
        "SELECT pg_terminate_backend(1)",
        "SELECT pg_reload_conf()",
        "SELECT nextval('tk_sessions_id_seq')",
        "SELECT txid_current()",
        "SELECT pg_logical_emit_message(true, 'a', 'b')",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT repeat('x', 1000000000)",
        "SELECT lpad('x', 1000000000)",
        "SELECT string_agg(title, '') FROM tk_sessions",
        "SELECT array_agg(id) FROM tk_sessions",
        "SELECT * FROM json_each('{}')",
        "SELECT 1 OPERATOR(pg_catalog.+) 2",
        "SELECT * FROM ROWS FROM (pg_ls_dir('/')) AS x",
        "SELECT * FROM tk_sessions TABLESAMPLE system (10)",
        "SELECT xmlparse(document '<a/>')",
        "SELECT tk_typed.tk_me()",
        "SELECT tk_me()",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        # tables that are none of the store's
        "SELECT * FROM pg_class",
        "SELECT * FROM pg_catalog.pg_authid",
        'SELECT * FROM "pg_shadow"',
        "SELECT * FROM pg_settings",
        "SELECT * FROM pg_stat_activity",
        "SELECT * FROM pg_locks",
        "SELECT * FROM pg_largeobject",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM tk_typed.tk_members",
        "SELECT * FROM tk_members",
        "SELECT * FROM tk_sessions_id_seq",
        "SELECT * FROM tk_entry_words_postings",
        "SELECT (SELECT rolname FROM pg_roles LIMIT 1)",
        "SELECT 1 WHERE EXISTS (TABLE pg_class)",
        "WITH pg AS (SELECT * FROM pg_proc) SELECT * FROM pg",
        # mistakes
        "SELECT * FROM nothing_like_this",
        "SELECT no_column FROM tk_sessions",
        "SELECT 1 / 0",
        "SELECT $1",
        "SELECT ?",
        "SELECT 1\0",
        "SELECT",
        "SELECT FROM tk_sessions",
        "-- nothing",
        "hello",
    ],
)
def test_nothing_else_can_be_done(store: KnowledgeStore, sql: str) -> None:
    with pytest.raises(ThreadkeepError) as raised:
        run_sql(store.context.db, sql)
    assert raised.value.http_status == 400, raised.value
    assert raised.value.hint
    assert rows(store, "SELECT count(*) FROM tk_sessions") == ((40,),)


def test_tables_are_listed_with_their_columns(store: KnowledgeStore) -> None:
    tables = {one.name: one.columns for one in sql_tables(store.context.db)}
    assert {"tk_sessions", "tk_usage", "events", "knowledge_nodes"} <= tables.keys()
    assert "tk_entry_words_postings" not in tables
    assert "session_id" in tables["tk_sessions"]
    assert "tk_owner" not in tables["tk_sessions"]
    for name in tables:
        run_sql(store.context.db, f'SELECT * FROM "{name}" LIMIT 1')


def test_a_member_sees_his_own_rows_alone(store: KnowledgeStore, server_url: str) -> None:
    """With a login that may set no limit to temporary files, too."""
    url = urlsplit(server_url)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS typed_ann")
        connection.execute("CREATE ROLE typed_ann LOGIN")
    # As the documentation says that a member is added.
    (example,) = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)
    example = re.sub(r'"postgresql://[^"]*"', repr(f"{server_url}&home=typed"), example)
    exec(example.replace('"ann"', '"typed_ann"'), {})
    place = f"{url.scheme}://typed_ann@{url.path}?{url.query}&home=typed"
    with closing(KnowledgeStore.open(place)) as hers:
        assert rows(hers, "SELECT count(*) FROM tk_sessions") == ((0,),)
        assert rows(hers, "SELECT count(*) FROM tk_sessions WHERE 1 / entries > 5") == ((0,),)
    assert rows(store, "SELECT count(*) FROM tk_sessions") == ((40,),)
    (revoke,) = re.findall(r"UPDATE tk_team\.tk_members .*", DOC.read_text("utf-8"))
    with psycopg.connect(server_url, autocommit=True) as connection:
        revoke = revoke.replace("tk_team", "tk_typed").replace("'ann'", "'typed_ann'")
        assert connection.execute(revoke.encode()).rowcount == 1
    with pytest.raises(NotFound):
        KnowledgeStore.open(place, read_only=True)

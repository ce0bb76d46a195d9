"""Queries that somebody types: they read tables, and can do nothing else."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.knowledge import do
from tests.support.many_sessions import NOW, Many
from threadkeep.base.sqlite.guard import Budget
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge
from threadkeep.knowledge.library import Browse

ENDLESS = "SELECT count(*) FROM " + ", ".join(f"tk_sessions AS t{n}" for n in range(12))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    many = Many(tmp_path_factory.mktemp("many"))
    for number in range(40):
        many.say(many.add(f"s-{number:02}", harness="codex", ended_at=NOW + number), "some words")
    return many


@pytest.fixture(scope="module")
def browse(many: Many) -> Iterator[Browse]:
    with many.browse() as opened:
        yield opened


def test_a_query_gives_columns_and_rows(browse: Browse) -> None:
    found = browse.select("-- the latest\nSELECT session_id, entries FROM tk_sessions ORDER BY 1;")
    assert found.columns == ("session_id", "entries")
    assert (found.rows[0][0], len(found.rows), found.cut) == ("s-00", 40, False)
    named = "WITH w AS (SELECT id FROM tk_sessions) SELECT count(*) AS n FROM (SELECT id FROM w)"
    assert browse.select(named).rows == ((40,),)
    assert browse.select("(SELECT 1) UNION SELECT 2".replace("(", "").replace(")", "")).rows
    assert browse.select("SELECT x'0102' AS b").rows == (("<2 bytes>",),)


def test_there_is_an_end_to_rows_bytes_and_time(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = browse.select("SELECT id FROM tk_sessions", limit=7)
    assert (len(found.rows), found.cut) == (7, True)
    wide = "SELECT hex(zeroblob(499000)) FROM tk_sessions"
    found = browse.select(wide)
    assert found.cut
    assert len(found.rows) < 10
    with pytest.raises(TooLarge, match="too large"):
        browse.select("SELECT zeroblob(1000000000)")
    with pytest.raises(Invalid):
        browse.select("SELECT id FROM tk_sessions", limit=10_001)
    monkeypatch.setattr(
        "threadkeep.knowledge.typed_sql._BUDGET", Budget(seconds=60, steps=1_000_000)
    )
    for _ in range(2):  # who was stopped may ask again at once
        with pytest.raises(TooLarge, match="stopped"):
            browse.select(ENDLESS)
    assert browse.select("SELECT 1").rows == ((1,),)


SORTING = """
import resource, sys
from pathlib import Path
from threadkeep.base.sqlite.guard import Budget
from threadkeep.errors import TooLarge
from threadkeep.home.home import Home
from threadkeep.home.opening import open_browse
from threadkeep.knowledge import typed_sql

typed_sql._BUDGET = Budget(seconds=600, steps=4_000_000_000, value=1_000_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
tables = [f"tk_sessions AS t{n}" for n in range(4)]
sort = "SELECT DISTINCT random() AS r, hex(zeroblob(10000)) FROM {} ORDER BY r"
with open_browse(Home(Path(sys.argv[1]), environ={}), Path(sys.argv[2])) as browse:
    some = sort.format(", ".join(tables[:2]))  # 32 MB
    assert browse.select(f"SELECT count(*) FROM ({some})").rows == ((1_600,),)
    try:
        browse.select(sort.format(", ".join(tables)))
    except TooLarge as error:
        print(error.message)
"""


def test_sorting_takes_so_much_memory_and_no_file(browse: Browse, tmp_path: Path) -> None:
    """In a process of its own: a file over 1 MB ends it, and its memory has not been larger."""
    ran = subprocess.run(
        [sys.executable, "-c", SORTING, tmp_path, browse.database.name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout == "the query was stopped after 256 MB of memory\n"


def test_no_function_takes_longer_than_its_text_is_long(browse: Browse) -> None:
    """Nothing stops a function of SQLite once it runs: the second one would take minutes."""
    with pytest.raises(Invalid, match="the function printf is not allowed"):
        browse.select("SELECT printf('%.*c', 2000000000, 'x')")
    ends, inside = "replace(hex(zeroblob(200000)), '0', 'b') || 'a'", "hex(zeroblob(490000))"
    found = browse.select(f"SELECT length(trim(replace({inside}, '0', 'a'), {ends}))")
    assert found.rows == ((0,),)
    trimmed = browse.select(
        "SELECT trim('xyaxy', 'yx'), ltrim(' a '), rtrim('aab', 'b'), trim(5, NULL)"
    )
    assert trimmed.rows == (("a", "a ", "aa", None),)


def test_a_refusal_says_what_is_not_allowed(browse: Browse) -> None:
    counting = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    )
    for sql, told in {
        counting: "'r' is not one of the tables; no view or recursive query can be read",
        "SELECT load_extension('x.so')": "the function load_extension is not allowed",
        "WITH x AS (SELECT 1) DELETE FROM tk_sessions": "this is not allowed",
    }.items():
        with pytest.raises(Invalid, match=told):
            browse.select(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '/etc/passwd' AS x",
        "SELECT 1; ATTACH 'other.db' AS x",
        "DETACH main",
        "PRAGMA user_version",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = OFF",
        "SELECT * FROM pragma_table_info('tk_sessions')",
        "SELECT * FROM pragma_database_list",
        "INSERT INTO tk_drops VALUES ('a', 'b', 1, 1)",
        "WITH x AS (SELECT 1) DELETE FROM tk_sessions",
        "UPDATE tk_sessions SET title = 'x'",
        "DROP TABLE tk_sessions",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE v USING fts5 (a)",
        "VACUUM INTO '/tmp/copy.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SAVEPOINT a",
        "EXPLAIN SELECT 1",
        "SELECT load_extension('x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT edit('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT fts5(NULL)",
        "SELECT * FROM json_each('[1]')",
        "SELECT * FROM tk_entry_words",
        "SELECT * FROM fsdir('/')",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_dbpage",
        "SELECT * FROM temp.sqlite_master UNION SELECT * FROM pragma_compile_options",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        "SELECT * FROM nothing_like_this",
        "SELECT no_column FROM tk_sessions",
        "SELECT 1; SELECT 2",
        "SELECT ?",
        "SELECT :name",
        "SELECT 1\0",
        "",
        "-- nothing",
        "/* */",
        "hello",
    ],
)
def test_nothing_else_can_be_done(browse: Browse, many: Many, sql: str, tmp_path: Path) -> None:
    file = Path(browse.database.name)
    before = dump(file)
    with pytest.raises(ThreadkeepError) as raised:
        browse.select(sql)
    assert raised.value.http_status in {400, 413}, raised.value
    assert dump(file) == before
    assert not Path("/tmp/copy.db").exists()
    assert browse.select("SELECT count(*) FROM tk_sessions").rows == ((40,),)


def test_a_view_in_the_file_is_not_run(many: Many, browse: Browse) -> None:
    do(many.path, "CREATE VIEW tempting AS SELECT 1 AS a")
    try:
        for sql in ("SELECT a FROM tempting", "WITH tempting AS (SELECT 1) SELECT 1 FROM tempting"):
            with pytest.raises(Invalid):
                browse.select(sql)
        assert "tempting" not in {one.name for one in browse.tables()}
    finally:
        do(many.path, "DROP VIEW tempting")


def test_tables_are_listed_with_their_columns(browse: Browse) -> None:
    tables = {one.name: one.columns for one in browse.tables()}
    assert {"tk_sessions", "tk_usage", "events", "knowledge_nodes"} <= tables.keys()
    assert "session_id" in tables["tk_sessions"]
    assert all("SELECT" and browse.select(f'SELECT * FROM "{name}" LIMIT 1') for name in tables)


def dump(file: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return [str(row) for row in connection.execute("SELECT * FROM tk_sessions ORDER BY id")]
    finally:
        connection.close()

"""Named queries and scripts: found by name, cut at the right semicolons."""

import sqlite3
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.sql import (
    Engine,
    load_overrides,
    load_queries,
    load_text,
    parse_queries,
    to_postgres,
)
from threadkeep.base.sqlite.statements import split_statements

TRIGGER = """CREATE TRIGGER r AFTER INSERT ON t BEGIN
  UPDATE t SET a = 1; -- one; two
  DELETE FROM t WHERE a = ';';
END"""


def test_queries_are_found_by_name() -> None:
    text = """
-- The header of the file; it belongs to no query.
-- name: first
SELECT 1;

-- name: second_one
-- why it is so
SELECT *
  FROM t  -- kept: only whole lines of comment go
 WHERE a = :a;
"""
    assert parse_queries(text) == {
        "first": "SELECT 1",
        "second_one": "SELECT *\n  FROM t  -- kept: only whole lines of comment go\n WHERE a = :a",
    }


def test_one_name_for_two_queries_is_refused() -> None:
    with pytest.raises(ValueError, match="'twice'"):
        parse_queries("-- name: twice\nSELECT 1;\n-- name: twice\nSELECT 2;")


def test_packaged_queries_are_complete_statements() -> None:
    queries = load_queries("threadkeep.chat")
    assert queries
    assert [name for name, sql in queries.items() if len(split_statements(sql)) != 1] == []


def test_one_name_in_two_files_is_refused_when_a_query_is_asked_for() -> None:
    with pytest.raises(ValueError, match="is defined twice"):
        load_queries("threadkeep.chat", "queries.sql", "queries.sql")["no_such_query"]


def test_queries_without_files_are_those_of_the_usual_one() -> None:
    assert load_queries("threadkeep.chat") == load_queries("threadkeep.chat", "queries.sql")


@pytest.mark.parametrize("store", ["chat", "knowledge", "mailbox", "state"])
def test_every_query_of_every_store_can_be_had_and_no_name_is_there_twice(store: str) -> None:
    folder = Path(import_module(f"threadkeep.{store}").__path__[0], "sql")
    files = sorted(file.name for file in folder.glob("*.sql") if "-- name:" in file.read_text())
    for file in files:
        assert all(load_queries(f"threadkeep.{store}", file).values()), file


@pytest.mark.parametrize(
    "script, statements",
    [
        ("", []),
        ("  \n -- nothing; at all\n", []),
        ("SELECT 1", ["SELECT 1;"]),
        ("SELECT 1;;; SELECT 2;", ["SELECT 1;", "SELECT 2;"]),
        ("SELECT ';';", ["SELECT ';';"]),
        ('SELECT ";" , [;], `;`;', ['SELECT ";" , [;], `;`;']),
        ("SELECT 1 /* ; */ + 1;", ["SELECT 1 /* ; */ + 1;"]),
        ("-- a; b\nSELECT 1;", ["-- a; b\nSELECT 1;"]),
        (f"{TRIGGER};\nSELECT 1;", [f"{TRIGGER};", "SELECT 1;"]),
    ],
)
def test_scripts_are_cut_into_statements(script: str, statements: list[str]) -> None:
    assert split_statements(script) == statements


@pytest.mark.parametrize("script", ["SELECT 'open", "CREATE TRIGGER r AFTER INSERT ON t BEGIN x;"])
def test_a_script_that_ends_inside_a_statement_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="ends inside a statement"):
        split_statements(script)


def test_the_pieces_of_a_script_make_what_the_script_makes() -> None:
    script = load_text("threadkeep.chat", "head.sql")
    whole, pieces = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    whole.executescript(script)
    for statement in split_statements(script):
        pieces.execute(statement)
    made = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert pieces.execute(made).fetchall() == whole.execute(made).fetchall()
    whole.close()
    pieces.close()


quoted = st.text(alphabet="a;-*/\n '\"", max_size=12).map(
    lambda s: "'" + s.replace("'", "''") + "'"
)
commented = st.text(alphabet="a;'\" ", max_size=12).map(lambda s: f"1 -- {s}\n")


@given(st.lists(st.one_of(quoted, commented), min_size=1, max_size=6))
def test_what_is_inside_a_statement_never_cuts_it(values: list[str]) -> None:
    statements = [f"SELECT {value};" for value in values]
    assert split_statements("\n".join(statements)) == statements


def test_a_piece_stands_once_and_is_put_into_every_query_that_names_it() -> None:
    text = """
-- piece: columns
id,
  title
-- name: one
SELECT {columns} FROM t WHERE id = :id;
-- name: all
SELECT {columns} FROM t;
"""
    assert parse_queries(text) == {
        "one": "SELECT id,\n  title FROM t WHERE id = :id",
        "all": "SELECT id,\n  title FROM t",
    }


def test_a_piece_that_is_not_there_or_there_twice_is_an_error() -> None:
    with pytest.raises(KeyError, match="columns"):
        parse_queries("-- name: one\nSELECT {columns};\n")
    with pytest.raises(ValueError, match="piece 'a' is defined twice"):
        parse_queries("-- piece: a\n1\n-- piece: a\n2\n")


@pytest.mark.parametrize(
    "sql, written",
    [
        ("SELECT a FROM t WHERE b = :b", "SELECT a FROM t WHERE b = %(b)s"),
        ("SELECT ':a', \":b\", a % 2, 'x%'", "SELECT ':a', \":b\", a %% 2, 'x%%'"),
        ("SELECT a -- isn't :it\nFROM t", "SELECT a\nFROM t"),
        ("SELECT a LIKE :b ESCAPE '\\', 'LIKE'", "SELECT a ILIKE %(b)s ESCAPE '\\', 'LIKE'"),
        ("SELECT CAST(:a AS INTEGER)", "SELECT CAST(%(a)s AS bigint)"),
        ("SELECT CAST(a AS REAL), integers", "SELECT CAST(a AS double precision), integers"),
    ],
)
def test_a_query_is_written_for_postgres(sql: str, written: str) -> None:
    assert to_postgres(sql) == written


def test_each_engine_fills_in_its_own_pieces() -> None:
    text = """
-- piece: chosen
id IN ({ids:some})
-- name: one
SELECT {raw:t.title}, {size:title} FROM t WHERE {chosen};
"""
    assert parse_queries(text) == {
        "one": "SELECT CAST(t.title AS BLOB), length(CAST(title AS BLOB)) FROM t"
        " WHERE id IN (SELECT value FROM json_each(:some))"
    }
    (query,) = parse_queries(text, "postgres").values()
    assert query.startswith(
        "SELECT t.title, octet_length(title) FROM t WHERE id IN (SELECT unnest("
    )


def test_a_query_of_postgres_stands_for_one_of_the_same_name(tmp_path: Path) -> None:
    package = ModuleType("threadkeep_with_sql")
    package.__path__ = [str(tmp_path)]
    (tmp_path / "sql" / "postgres").mkdir(parents=True)
    (tmp_path / "sql" / "one.sql").write_text("-- name: a\nSELECT 1;\n-- name: b\nSELECT 2;\n")
    other = tmp_path / "sql" / "postgres" / "one.sql"
    other.write_text("-- name: b\nSELECT :n;\n")
    with patch.dict(sys.modules, {package.__name__: package}):
        assert dict(load_queries(package.__name__, "one.sql")) == {"a": "SELECT 1", "b": "SELECT 2"}
        found = load_queries(package.__name__, "one.sql", engine="postgres")
        assert found == {"a": "SELECT 1", "b": "SELECT %(n)s"}
        assert load_overrides(package.__name__, "one.sql") == {"b": "SELECT %(n)s"}
        other.write_text("-- name: c\nSELECT 3;\n")
        with pytest.raises(ValueError, match=r"does not have: \['c'\]"):
            load_queries(package.__name__, "one.sql", engine="postgres")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_cursor_is_compared_in_one_place(engine: Engine) -> None:
    text = "-- name: next\nSELECT m.id FROM messages AS m WHERE {after:m} ORDER BY m.id"
    asked = {"sqlite": ":after", "postgres": "%(after)s"}[engine]
    compared = f"SELECT m.id FROM messages AS m WHERE m.id > {asked} ORDER BY m.id"
    assert parse_queries(text, engine) == {"next": compared}

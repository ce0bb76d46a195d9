"""What both engines accept and might answer differently: as queries are loaded, they do not."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

from tests.support.postgres import copied_tables
from threadkeep.base.sql import parse_queries

TABLE: Final = """
CREATE TABLE things (
  id INTEGER PRIMARY KEY,
  name TEXT,
  n INTEGER,
  x REAL,
  note TEXT NOT NULL DEFAULT '{}'
)"""
ROWS: Final = [
    (1, "Abc", 5, 0.5, '{"flag": true, "deep": {"er": [1, "two"]}, "nothing": null}'),
    (2, "abd", None, 1.5, "{}"),
    (3, None, -7, None, "no JSON"),
    (4, "ÄBC", 1_800_000_000_000, -2.25, '["list"]'),
    (5, "äbc %_\\", 2, 1e15, "[]"),
    (6, "", 2, 0.0, "7"),
    (7, "京都😀", 3, 3.0, '"text"'),
]
MANY: Final = json.dumps([*range(1, 200)])
NAMES: Final = json.dumps(["Abc", "äbc %_\\", 'quoted " {braces}, [brackets]', "京都😀", ""])

# What is asked, with which parameters.
CASES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "LIKE folds ASCII": ("SELECT id FROM things WHERE name LIKE :a ORDER BY id", {"a": "ab%"}),
    "LIKE folds nothing else": (
        "SELECT id FROM things WHERE name LIKE :a ORDER BY id",
        {"a": "Ä%"},
    ),
    "NOT LIKE": ("SELECT id FROM things WHERE name NOT LIKE 'AB%' ORDER BY id", {}),
    "LIKE with an escape": (
        r"SELECT id FROM things WHERE name LIKE :a ESCAPE '\' ORDER BY id",
        {"a": r"%\%\_\\"},
    ),
    "a sum of integers is one": ("SELECT sum(n), count(n) FROM things WHERE n < 10", {}),
    "a sum of nothing": ("SELECT sum(n), coalesce(sum(n), 0) FROM things WHERE id > 99", {}),
    "a sum of numbers": ("SELECT sum(x) FROM things WHERE id < 4", {}),
    "a comparison is 1 or 0": (
        "SELECT n > 2, n IS NULL, EXISTS (SELECT 1), name = 'Abc' FROM things ORDER BY id",
        {},
    ),
    "NULL first": ("SELECT id FROM things ORDER BY n NULLS FIRST, id", {}),
    "NULL first, by name": ("SELECT id FROM things ORDER BY name NULLS FIRST, id", {}),
    "NULL last": ("SELECT id FROM things ORDER BY x DESC NULLS LAST, id", {}),
    "no limit": ("SELECT id FROM things ORDER BY id LIMIT :limit", {"limit": -1}),
    "a negative limit": ("SELECT id FROM things ORDER BY id LIMIT :limit", {"limit": -7}),
    "no row": ("SELECT id FROM things ORDER BY id LIMIT :limit", {"limit": 0}),
    "a limit": ("SELECT id FROM things ORDER BY id LIMIT :limit", {"limit": 3}),
    "a limit with an offset": (
        "SELECT id FROM things ORDER BY id LIMIT :limit OFFSET :skip",
        {"limit": -1, "skip": 5},
    ),
    "integers have 64 bits": (
        "SELECT CAST(:a AS INTEGER) + 1, CAST(:b AS REAL), CAST(:c AS TEXT)",
        {"a": 2**53, "b": 0.1, "c": "1"},
    ),
    "parameters beside literals": (
        "SELECT id, ':a %s 100%' FROM things WHERE name = :a -- 'never :b' closed",
        {"a": "Abc"},
    ),
    "the remainder": ("SELECT 7 % 3, -7 / 2, :a % 4", {"a": 9}),
    "integers of a list": (
        "SELECT id FROM things WHERE id IN ({ids:list}) ORDER BY id",
        {"list": MANY},
    ),
    "an empty list": ("SELECT id FROM things WHERE id IN ({ids:list})", {"list": "[]"}),
    "texts of a list": (
        "SELECT id FROM things WHERE name IN ({texts:list}) ORDER BY id",
        {"list": NAMES},
    ),
    "a list to join": (
        "SELECT t.id FROM ({ids:list}) AS i CROSS JOIN things AS t WHERE t.id = i.value ORDER BY 1",
        {"list": "[3, 5, 99]"},
    ),
    "bytes of a text": ("SELECT {size:name} FROM things ORDER BY id", {}),
    "the greater one": (
        "SELECT id, max(n, 2), min(n, :a), max(x, 1.0), max(name, 'b') FROM things ORDER BY id",
        {"a": 3},
    ),
    "the greater one of nothing": ("SELECT max(CAST(:a AS INTEGER), 1)", {"a": None}),
    "text in a text": (
        "SELECT id, instr(name, :a), instr(name, '') > 0 FROM things ORDER BY id",
        {"a": "b"},
    ),
    "no value is a value": (
        "SELECT id FROM things WHERE name IS NOT DISTINCT FROM CAST(:a AS TEXT)",
        {"a": None},
    ),
    "another value": (
        "SELECT id FROM things WHERE name IS DISTINCT FROM CAST(:a AS TEXT) ORDER BY id",
        {"a": "Abc"},
    ),
    "only ASCII is lowered": ("SELECT lower(name) FROM things ORDER BY id", {}),
    "texts in order": ("SELECT id FROM things WHERE name IS NOT NULL ORDER BY name DESC", {}),
    "is it JSON": (
        "SELECT id FROM things WHERE json_valid(note) ORDER BY id",
        {},
    ),
    "values of JSON": (
        """SELECT json_extract(note, '$.deep.er[1]'), json_extract(note, '$.nothing'),
        json_extract(note, '$.missing') FROM things WHERE id = 1""",
        {},
    ),
}


@pytest.fixture(scope="module")
def engines(
    server: psycopg.Connection[Any],
) -> Iterator[tuple[sqlite3.Connection, psycopg.Connection[Any]]]:
    sqlite = sqlite3.connect(":memory:")
    sqlite.execute(TABLE)
    put = "-- name: put\nINSERT INTO things VALUES (:id, :name, :n, :x, :note)"
    with copied_tables(sqlite, server):
        for row in ROWS:
            values = dict(zip(("id", "name", "n", "x", "note"), row, strict=True))
            sqlite.execute(parse_queries(put)["put"], values)
            server.execute(parse_queries(put, "postgres")["put"].encode(), values)
        yield sqlite, server
    sqlite.close()


@pytest.mark.parametrize("case", CASES)
def test_both_engines_give_the_same_answer(
    case: str, engines: tuple[sqlite3.Connection, psycopg.Connection[Any]]
) -> None:
    sql, params = CASES[case]
    text = f"-- name: asked\n{sql}"
    sqlite, server = engines
    here = sqlite.execute(parse_queries(text)["asked"], params).fetchall()
    there = server.execute(parse_queries(text, "postgres")["asked"].encode(), params).fetchall()
    assert (there, kinds(there)) == (here, kinds(here))


def kinds(rows: list[tuple[Any, ...]]) -> list[list[type]]:
    return [[type(value) for value in row] for row in rows]

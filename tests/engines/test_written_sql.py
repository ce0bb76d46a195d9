"""Every statement that knowledge writes at run time is accepted by both engines.

A home with the bundled history is listed, searched, learned from and forgotten on SQLite. What it
runs there is prepared by PostgreSQL over the same tables. A function that writes SQL and was not
called fails the test, unless it is listed with the reason why it concerns SQLite alone.
"""

import ast
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import threadkeep
from tests.support import knowledge_tour
from tests.support.postgres import copied_tables, prepared_by
from threadkeep.base.sql import fill_pieces, load_text
from threadkeep.base.sqlite import tx as sqlite_tx
from threadkeep.base.tx import Sql

ROOT: Final = Path(threadkeep.__file__).parent
ENGINES: Final = {ROOT / "base" / name / "tx.py" for name in ("sqlite", "postgres")}
ROOMS: Final = ("knowledge/", "capture/", "memory/")
# Modules whose SQL is for SQLite files only, with the reason.
SQLITE_ALONE: Final = {
    "checks": "checks a file and tidies it up",
    "merge": "takes one file into another",
    "migrations": "brings a file up",
    "repair": "heals a file",
    "schema": "makes what a file lacks",
    "vectors": "makes the contract's table of vectors, of an extension of SQLite",
}
# Modules whose SQL is for servers only, with the reason; a server runs all of it.
SERVER_ALONE: Final = {"server_vectors": "compares with pgvector; test_server_vectors.py runs it"}

# What the engine asks by itself when a store asks it for tables.
OF_THE_ENGINE: Final = {one for one in vars(sqlite_tx).values() if isinstance(one, Sql)}


class Statements:
    """What was run, and by which functions."""

    def __init__(self, fill: Callable[..., str]) -> None:
        self.texts: set[str] = set()
        self.callers: set[tuple[str, str]] = set()
        self._fill = fill

    def __call__(self, sql: str, *engine: str) -> str:
        caller = next(_callers())
        if _is_portable(caller[0]) and sql not in OF_THE_ENGINE:
            self.texts.add(str(sql))
            self.callers.add(caller)
        return self._fill(sql, *engine)


def _callers() -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each function that is running, below the engine."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and path not in ENGINES:
            name = frame.f_code.co_qualname.split(".<locals>")[0].rpartition(".")[2]
            yield path.relative_to(ROOT).as_posix(), name
        frame = frame.f_back


def _is_portable(module: str) -> bool:
    return module.startswith(ROOMS) and Path(module).stem not in SQLITE_ALONE


def writers() -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each function that writes SQL."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if not _is_portable(module):
            continue
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(map(_is_sql, ast.walk(function))):
                yield module, function.name


def _is_sql(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sql"


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> tuple[Statements, Path]:
    """Return what a tour of a home on SQLite ran, and the file of its knowledge."""
    found, home = (
        Statements(sqlite_tx._written),
        knowledge_tour.new_home(tmp_path_factory.mktemp("home")),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_tx, "_written", found)
        knowledge_tour.fill(home)
        for _ in knowledge_tour.answers(home):
            pass
        for _ in knowledge_tour.forget(home):
            pass
    return found, home.knowledge_path()


def test_every_function_that_writes_sql_was_called(statements: tuple[Statements, Path]) -> None:
    asked = {one for one in writers() if Path(one[0]).stem not in SERVER_ALONE}
    assert asked - statements[0].callers == set()


def test_postgres_accepts_all_of_it(
    statements: tuple[Statements, Path], server: psycopg.Connection[Any]
) -> None:
    found, path = statements
    file = sqlite3.connect(path)
    file.executescript(load_text("threadkeep.knowledge", "orphans.sql"))  # it has none yet
    beside = load_text("threadkeep.knowledge", "postgres/head.sql")
    with copied_tables(file, server, beside):
        prepare = prepared_by(server)
        written = {sql: prepare(fill_pieces(sql, "postgres")) for sql in found.texts}
    file.close()
    assert {sql: why for sql, why in written.items() if why} == {}

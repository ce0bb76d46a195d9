"""Typed queries over the tables of a knowledge store: read-only, and bounded in every way."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from threadkeep.base.database import Database
from threadkeep.base.engines import server_of
from threadkeep.base.sqlite.foreign import open_foreign, select
from threadkeep.base.sqlite.guard import Budget
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Invalid

SECONDS: Final = 5.0
MOST_ROWS: Final = 10_000
MOST_BYTES: Final = 8_000_000
_BUDGET: Final = Budget(seconds=SECONDS, steps=4_000_000_000, value=1_000_000)
# Comments, and then the word that a query begins with.
_BEGINNING: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w+)", re.DOTALL)
_QUERIES: Final = frozenset(("select", "with", "values"))
# What indexes are made of, and locks: nothing that a person asks.
_HIDDEN: Final = re.compile(r"sqlite_|.*_(?:data|idx|docsize|config|content|postings|blocks)$")
# The tables that people ask, in the order in which they are listed; all others come after these.
_ABOUT: Final = {
    "tk_sessions": "the sessions of all agents: titles, projects, times, models, counts",
    "tk_entries": "what was said and done in them: one row for each prompt, answer, call or result",
    "tk_usage": "tokens of each response, by model",
    "tk_labels": "stars, tags and notes",
    "events": "commands: those typed in a shell and those run by agents",
    "browser_events": "web pages that were read",
    "workflow_runs": "runs of CI",
    "lessons": "failures that repeat",
    "knowledge_nodes": "what was learned, as JSON",
    "entities": "files, tools and names that nodes and commands mention",
    "tk_projects": "other names of projects",
    "sessions": "terminals in which commands were typed; sessions of agents are in tk_sessions",
    "agentic_sessions": "parts of agents' sessions; whole ones are in tk_sessions",
    "claude_sessions": "parts of Claude Code's sessions; whole ones are in tk_sessions",
}

RowLimit = Annotated[int, Meta(ge=1, le=MOST_ROWS)]
Sql = Annotated[str, Meta(min_length=1, max_length=20_000)]


class SqlAnswer(msgspec.Struct, frozen=True):
    """The rows of a query; bytes are said by their number."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool  # there is more than is given


class SqlTable(msgspec.Struct, frozen=True):
    """A table that can be asked; `about` says what it holds, if people are likely to ask it."""

    name: str
    columns: tuple[str, ...]
    about: str = ""


def run_sql(database: Database, sql: Sql, limit: RowLimit = 1000) -> SqlAnswer:
    """Run one SELECT over a knowledge store: nothing is changed, and nothing else is opened."""
    if database.engine == "postgres":
        from threadkeep.base.postgres import typed_query  # noqa: PLC0415  (an extra)

        known = {one.name for one in sql_tables(database)}
        found = typed_query.select(
            server_of(database), sql, known, budget=_BUDGET, rows=limit, size=MOST_BYTES
        )
        return SqlAnswer(found.columns, found.rows, found.cut)
    begins = _BEGINNING.match(sql)
    if begins is None or begins[1].lower() not in _QUERIES:
        hint = "begin it with SELECT or WITH; nothing can be changed here"
        raise Invalid("only queries can be run", hint=hint)
    found = select(sqlite_file(database).path, sql, budget=_BUDGET, rows=limit, size=MOST_BYTES)
    rows = tuple(tuple(map(_shown, row)) for row in found.rows)
    return SqlAnswer(found.columns, rows, found.cut)


def _shown(value: object) -> object:
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else value


def sql_tables(database: Database) -> list[SqlTable]:
    """List the tables that can be asked, with their columns; those with an `about` come first."""
    if database.engine == "postgres":
        with database.read() as tx:
            return [_table(name, tx.columns(name)) for name in _ordered(tx.tables())]
    with open_foreign(sqlite_file(database).path) as file:
        rows = file.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
        return [_table(name, file.columns(name)) for name in _ordered({name for (name,) in rows})]


def tables_named(sql: str, tables: Iterable[SqlTable]) -> tuple[SqlTable, ...]:
    """Return the tables with an `about` that a query names."""
    words = set(re.findall(r"\w+", sql.lower()))
    return tuple(one for one in tables if one.about and one.name in words)


def _ordered(names: set[str]) -> list[str]:
    rest = sorted(name for name in names if name not in _ABOUT and not _HIDDEN.match(name))
    return [*(name for name in _ABOUT if name in names), *rest]


def _table(name: str, columns: Iterable[str]) -> SqlTable:
    return SqlTable(name, tuple(columns), _ABOUT.get(name, ""))

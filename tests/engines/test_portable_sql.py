"""Every named query of chat, state and knowledge is accepted by both engines.

SQLite explains it over a fresh store, PostgreSQL prepares it over the same tables. It is not asked
for what SQLite alone has: virtual tables, the catalogue, the statistics of its pages.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg
import pytest

from tests.support.memory_tx import tx_of
from tests.support.postgres import (
    SCHEMA,
    copied_tables,
    explained_by,
    plain_tables,
    prepared_by,
    virtual_tables,
)
from threadkeep.base.sql import load_overrides, load_queries, load_text
from threadkeep.knowledge.kinds import QueriesOfKinds
from threadkeep.knowledge.schema import CHANGES, script_of
from threadkeep.knowledge.vectors import _CREATE_CONTRACT_MODEL
from threadkeep.state.context import Queries, survey
from threadkeep.testing import ChatFactory, KnowledgeFactory, StateFactory

# What stands in every SQLite file, whatever made it.
_OF_SQLITE: Final = re.compile(r"\b(sqlite_\w+|pragma_\w+|dbstat)\b")
_MOST_OVERRIDES: Final = 80


class Store(NamedTuple):
    """A store's tables in a SQLite file, and its queries for either engine."""

    file: sqlite3.Connection
    queries: Mapping[str, str]
    for_postgres: Mapping[str, str]
    beside: str = ""  # what its schema has on PostgreSQL alone


# Queries of one engine only, each with its reason.
SQLITE_ALONE: Final[Mapping[str, Mapping[str, str]]] = {
    "chat": {},
    "state": {"make_keys": "makes a table that files of older versions lack"},
    "knowledge": {},
    "merge": {},
}
PACKAGES: Final = {"merge": "knowledge"}  # where it is not the name
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("queries.sql",),
    "state": (
        *("queries.sql", "sessions.sql", "search.sql", "upkeep.sql", "gateway.sql", "care.sql"),
    ),
    "knowledge": (
        *("queries.sql", "forget.sql", "observed.sql", "workflows.sql", "tickets.sql", "nodes.sql"),
        *("recall.sql", "vectors.sql", "model.sql", "alarms.sql", "failures.sql", "service.sql"),
        *("evidence.sql", "memory_views.sql", "browse.sql", "agent_views.sql", "tail.sql"),
        "memory.sql",
    ),
    "merge": ("merge.sql",),
}


@contextmanager
def chat() -> Iterator[Store]:
    with ChatFactory() as factory, opened(factory.place(factory.open())) as file:
        beside = load_text("threadkeep.chat", "postgres/head.sql")
        yield Store(file, *queries_of("chat"), beside)


@contextmanager
def state() -> Iterator[Store]:
    with StateFactory() as factory:
        path = factory.place(factory.open())
        with opened(path) as file:
            for script in ("newest.sql", "telegram.sql", "backends.sql"):
                add_missing(file, load_text("threadkeep.state", script))
            file.execute("CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content)")
            ours, theirs = map(Queries, queries_of("state"), ("main", SCHEMA))
            for one in (ours, theirs):
                one.fit(survey(tx_of(file, one)))
            yield Store(file, ours, theirs)


@contextmanager
def knowledge(part: str) -> Iterator[Store]:
    """Return a knowledge file with all tables that any version has."""
    with KnowledgeFactory() as factory, opened(factory.place(factory.open())) as file:
        for change in CHANGES:
            add_missing(file, script_of(change))
        add_missing(file, load_text("threadkeep.knowledge", "orphans.sql"))
        file.execute(_CREATE_CONTRACT_MODEL)
        # Not every Python can load what makes these: any virtual tables will do.
        file.execute("CREATE VIRTUAL TABLE knowledge_vectors_rowids USING fts5(x)")
        columns = "knowledge_node_id, vec_knowledge, vec_command"
        file.execute(f"CREATE VIRTUAL TABLE knowledge_vectors USING fts5({columns})")
        ours, theirs = queries_of(part)
        if part == "knowledge":
            ours, theirs = QueriesOfKinds(ours), QueriesOfKinds(theirs, "postgres")
        yield Store(file, ours, theirs, load_text("threadkeep.knowledge", "postgres/head.sql"))


STORES: Final[Mapping[str, Callable[[], Any]]] = {
    "chat": chat,
    "state": state,
    "knowledge": partial(knowledge, "knowledge"),
    "merge": partial(knowledge, "merge"),
}


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        yield connection
    finally:
        connection.close()


def add_missing(file: sqlite3.Connection, script: str) -> None:
    """Make what a script declares and a file lacks: tables, columns, indexes."""
    wanted = sqlite3.connect(":memory:")
    wanted.executescript(script)
    for table in plain_tables(wanted):
        if table not in plain_tables(file):
            (sql,) = wanted.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            file.execute(sql)
        there = {name for _, name, *_ in file.execute(f'PRAGMA table_info("{table}")')}
        for _, name, kind, *_ in wanted.execute(f'PRAGMA table_info("{table}")').fetchall():
            if name not in there:
                file.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
    wanted.close()


def package_of(store: str) -> str:
    return f"threadkeep.{PACKAGES.get(store, store)}"


def queries_of(store: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    package, files = package_of(store), FILES[store]
    return load_queries(package, *files), load_queries(package, *files, engine="postgres")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, Store]]:
    with STORES[request.param]() as made:
        yield request.param, made


def is_of_sqlite(query: str, virtual: set[str]) -> bool:
    """Tell whether a query asks something that SQLite alone has."""
    return bool(_OF_SQLITE.search(query)) or not virtual.isdisjoint(re.findall(r"\w+", query))


def test_both_engines_accept_every_query(
    store: tuple[str, Store], server: psycopg.Connection[Any]
) -> None:
    name, (file, queries, for_postgres, beside) = store
    refused = {one: why for one in queries if (why := explained_by(file)(queries[one]))}
    assert refused == {}, "by SQLite"
    with copied_tables(file, server, beside):
        prepare, virtual = prepared_by(server), virtual_tables(file)
        refused = {
            one: why
            for one, query in for_postgres.items()
            if not is_of_sqlite(query, virtual) and (why := prepare(query))
        }
    alone = SQLITE_ALONE[name]
    assert {one: why for one, why in refused.items() if one not in alone} == {}, "by PostgreSQL"
    assert set(refused) == set(alone), "the list may only shrink"


def test_few_queries_are_written_twice() -> None:
    found = [
        query
        for name, files in FILES.items()
        for file in files
        for query in load_overrides(package_of(name), file)
    ]
    assert len(found) <= _MOST_OVERRIDES


# ---------------------------------------------------------------------- the order of NULL

# SQLite puts NULL before everything, PostgreSQL behind it: a query that orders by a column in which
# it may stand has to say where it belongs.
_ORDERED: Final = re.compile(r"\bORDER BY\b")
_PARTS: Final = re.compile(r"([(),]|\b(?:LIMIT|UNION|ROWS|RETURNING)\b)")
_ENDS: Final = {",", ")", "LIMIT", "UNION", "ROWS", "RETURNING"}
_TABLE: Final = re.compile(
    r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(?:full\.)?(\w+)(?:\s+(?:AS\s+)?(?!WHERE|JOIN|ON|LEFT|ORDER)(\w+))?"
)
_COLUMN: Final = re.compile(r'(?:(\w+)\.)?"?(\w+)"?(?:\s+(?:ASC|DESC))?')


def order_terms(query: str) -> Iterator[str]:
    """Yield what a query is ordered by."""
    for found in _ORDERED.finditer(query):
        depth, term = 0, ""
        for part in _PARTS.split(query[found.end() :]):
            if depth == 0 and part in _ENDS:
                yield " ".join(term.split())
                term = ""
                if part != ",":
                    break
                continue
            depth += {"(": 1, ")": -1}.get(part, 0)
            term += part
        else:
            yield " ".join(term.split())


def may_be_null(file: sqlite3.Connection) -> Mapping[str, frozenset[str]]:
    """Return the columns of each table in which NULL may stand."""
    return {
        table: frozenset(
            name
            for _, name, _, required, _, key in file.execute(f'PRAGMA table_info("{table}")')
            if not required and not key
        )
        for table in plain_tables(file)
    }


def unsaid_nulls(query: str, columns: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the terms of a query that leave the order of NULL to the engine."""
    tables = {alias or table: table for table, alias in _TABLE.findall(query) if table in columns}
    for term in order_terms(query):
        found = _COLUMN.fullmatch(term)
        if found is None:
            continue
        alias, column = found.groups()
        asked = [tables[alias]] if alias in tables else [] if alias else list(tables.values())
        nullable = any(column in columns[table] for table in asked)
        known = re.search(rf'\b{column}"? IS NOT NULL', query)
        renamed = not alias and re.search(rf"\bAS {column}\b", query)
        if nullable and not known and not renamed:
            yield term


def test_where_null_belongs_is_said(store: tuple[str, Store]) -> None:
    queries, _ = queries_of(store[0])
    columns = may_be_null(store[1].file)
    unsaid = {name: terms for name in queries if (terms := [*unsaid_nulls(queries[name], columns)])}
    assert unsaid == {}

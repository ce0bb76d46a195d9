"""Session files in the form of today's Hermes (schema 26), with its two indexes."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.statements import split_statements

_INDEXED = "content, tool_name, tool_calls"
_NEW = "new.content, new.tool_name, new.tool_calls"
_OLD = "old.content, old.tool_name, old.tool_calls"
# While an index is rebuilt, ids between the two are not in it.
_DONE = (
    "({0}.id > coalesce((SELECT CAST(value AS INTEGER) FROM state_meta"
    " WHERE key = 'fts_rebuild_high_water'), -1) OR {0}.id <= coalesce((SELECT"
    " CAST(value AS INTEGER) FROM state_meta WHERE key = 'fts_rebuild_progress'), -1))"
)


def _kept(table: str, rows: str) -> list[str]:
    """Write the triggers that keep an index; `rows` says which rows it has, by a row's name."""
    new, old = (
        f"{rows.format('new')}{_DONE.format('new')}",
        f"{rows.format('old')}{_DONE.format('old')}",
    )
    take = f"INSERT INTO {table}({table}, rowid, {_INDEXED}) VALUES ('delete', old.id, {_OLD});"
    put = f"INSERT INTO {table}(rowid, {_INDEXED}) VALUES (new.id, {_NEW});"
    return [
        f"CREATE TRIGGER {table}_insert AFTER INSERT ON messages WHEN {new} BEGIN {put} END",
        f"CREATE TRIGGER {table}_delete AFTER DELETE ON messages WHEN {old} BEGIN {take} END",
        (
            f"CREATE TRIGGER {table}_update AFTER UPDATE OF {_INDEXED} ON messages WHEN {new}"
            f" BEGIN {take} {put} END"
        ),
    ]


SCHEMA = [
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    *split_statements(load_text("threadkeep.state", "newest.sql")),
    (
        f"CREATE VIRTUAL TABLE messages_fts USING fts5({_INDEXED}, content='messages',"
        " content_rowid='id')"
    ),
    *_kept("messages_fts", ""),
    (
        f"CREATE VIEW messages_fts_trigram_src AS SELECT id, role, {_INDEXED} FROM messages"
        " WHERE role <> 'tool'"
    ),
    (
        f"CREATE VIRTUAL TABLE messages_fts_trigram USING fts5({_INDEXED},"
        " content='messages_fts_trigram_src', content_rowid='id', tokenize='trigram')"
    ),
    *_kept("messages_fts_trigram", "{}.role <> 'tool' AND "),
]


def make_hermes_state(path: Path, *more: str, number: int = 26) -> None:
    """Make a file as Hermes of today makes it, without a write-ahead log; `more` is run last."""
    run(path, [*SCHEMA, f"INSERT INTO schema_version VALUES ({number})", *more])


def run(path: Path, statements: Iterable[str]) -> None:
    """Run statements on a file, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def index_problems(path: Path) -> list[str]:
    """Let FTS5 compare both indexes with their messages."""
    problems = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("messages_fts", "messages_fts_trigram"):
            for rank in (0, 1):
                sql = f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', {rank})"
                try:
                    connection.execute(sql)
                except sqlite3.DatabaseError as error:
                    problems.append(f"{table}: {error}")
    return problems

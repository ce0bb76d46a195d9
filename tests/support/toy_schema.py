"""A schema of three steps, one of each kind: SQL alone, SQL with code, a rebuilt table."""

from pathlib import Path

from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.schema import Schema, SchemaStep, prepare
from threadkeep.base.tx import Sql, Tx

OLD = 15  # notes in an old file, five in each of three folders

_VERSION_0 = """
CREATE TABLE folders(id INTEGER PRIMARY KEY, name TEXT) STRICT;
CREATE TABLE notes(
  id INTEGER PRIMARY KEY,
  folder_id INTEGER REFERENCES folders(id) ON DELETE CASCADE,
  body TEXT
);
"""

_HEAD = """
CREATE TABLE folders(id INTEGER PRIMARY KEY, name TEXT) STRICT;
CREATE TABLE titles(note_id INTEGER PRIMARY KEY, title TEXT);
CREATE TABLE "notes"(
  id INTEGER PRIMARY KEY,
  folder_id INTEGER REFERENCES folders(id) ON DELETE CASCADE,
  body TEXT NOT NULL,
  size INTEGER NOT NULL
) STRICT;
CREATE INDEX notes_by_folder ON notes(folder_id);
CREATE TRIGGER notes_titled AFTER INSERT ON notes BEGIN
  INSERT INTO titles VALUES(NEW.id, substr(NEW.body, 1, 5));
END;
"""

_TITLES = """
CREATE TABLE titles(note_id INTEGER PRIMARY KEY, title TEXT);
INSERT INTO titles SELECT id, substr(body, 1, 5) FROM notes;
"""

_STRICT = """
CREATE TABLE notes_new(
  id INTEGER PRIMARY KEY,
  folder_id INTEGER REFERENCES folders(id) ON DELETE CASCADE,
  body TEXT NOT NULL,
  size INTEGER NOT NULL
) STRICT;
INSERT INTO notes_new SELECT id, folder_id, body, size FROM notes;
DROP TABLE notes;
ALTER TABLE notes_new RENAME TO notes;
CREATE INDEX notes_by_folder ON notes(folder_id);
CREATE TRIGGER notes_titled AFTER INSERT ON notes BEGIN
  INSERT INTO titles VALUES(NEW.id, substr(NEW.body, 1, 5));
END;
"""


def _measure(tx: Tx) -> None:
    for note_id, body in tx.all(Sql("SELECT id, body FROM notes")):
        tx.run(Sql("UPDATE notes SET size = ? WHERE id = ?"), (len(body), note_id))


def read_version(tx: Tx) -> int | None:
    known = tx.one(Sql("SELECT 1 FROM sqlite_master WHERE name = 'notes'"))
    return None if known is None else int(tx.value(Sql("PRAGMA user_version")))


def write_version(tx: Tx, version: int) -> None:
    tx.run(Sql(f"PRAGMA user_version = {version}"))


SCHEMA = Schema(
    name="toy",
    version=3,
    head=_HEAD,
    steps=(
        SchemaStep(1, "0001_titles", _TITLES),
        SchemaStep(2, "0002_lengths", "ALTER TABLE notes ADD COLUMN size INTEGER;", _measure),
        SchemaStep(3, "0003_strict", _STRICT, rebuilds=("notes",)),
    ),
    read_version=read_version,
    write_version=write_version,
)


def build_old(path: Path, version: int) -> None:
    """Make a file as an earlier version of the program left it, with data in it."""
    first = SCHEMA._replace(version=0, head=_VERSION_0, steps=())
    upto = SCHEMA._replace(version=version, steps=SCHEMA.steps[:version])
    with SqliteDatabase(path, {}) as database:
        prepare(database, first, lambda _: None)
        with database.write() as tx:
            for folder in range(1, 4):
                tx.run(Sql("INSERT INTO folders VALUES(?, ?)"), (folder, f"folder {folder}"))
                for note in range(5):
                    sql = "INSERT INTO notes(folder_id, body) VALUES(?, ?)"
                    tx.run(Sql(sql), (folder, f"note {note} of {folder}"))
        prepare(database, upto, lambda _: None)


def contents(database: SqliteDatabase) -> list[tuple[int, str, str]]:
    """Every note with its folder."""
    with database.read() as tx:
        return tx.all(
            Sql(
                "SELECT n.id, n.body, f.name FROM notes n JOIN folders f ON f.id = n.folder_id"
                " ORDER BY n.id"
            )
        )

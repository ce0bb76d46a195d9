"""Shared by the tests of OpenCode: its database and its older files, made from an export."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from threadkeep.sources.records import UserHome

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "sources" / "opencode"
EXPORT: dict[str, Any] = json.loads((FIXTURES / "session.json").read_text())
SESSION = "ses_0a"
_TABLES = """
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT, time_updated INTEGER);
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT NOT NULL,
    directory TEXT NOT NULL, title TEXT NOT NULL, version TEXT NOT NULL, summary_additions INTEGER,
    summary_deletions INTEGER, summary_files INTEGER, summary_diffs TEXT, agent TEXT, model TEXT,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL,
    time_updated INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);
"""


def user(home: Path, **env: str) -> UserHome:
    return UserHome(home, env)


def data_folder(home: Path) -> Path:
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Database:
    """An opencode.db in its folder, filled from exports."""

    def __init__(self, home: Path, name: str = "opencode.db") -> None:
        self.path = data_folder(home) / name
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.executescript(_TABLES)

    def add(self, export: dict[str, Any] = EXPORT, suffix: str = "") -> None:
        """Add a session; a suffix makes a fork of it: new ids, all else the same."""
        info, times = export["info"], export["info"]["time"]
        summary = info.get("summary", {})
        session = {
            "id": info["id"] + suffix,
            "project_id": info["projectID"],
            "parent_id": None if suffix else info.get("parentID"),
            **{name: info[name] for name in ("slug", "directory", "title", "version")},
            **{f"summary_{name}": value for name, value in summary.items() if name != "diffs"},
            "time_created": times["created"],
            "time_updated": times["updated"],
        }
        self._insert("session", session)
        for message in export["messages"]:
            self._add_message(info["id"] + suffix, message, suffix)

    def _add_message(self, session: str, message: dict[str, Any], suffix: str) -> None:
        info = {name: value for name, value in message["info"].items() if name != "id"}
        created = info["time"]["created"]
        times = {"time_created": created, "time_updated": created}
        key = {"id": message["info"]["id"] + suffix, "session_id": session}
        self._insert("message", key | times | {"data": json.dumps(info)})
        for part in message["parts"]:
            data = {name: value for name, value in part.items() if name != "id"}
            row = {"id": part["id"] + suffix, "message_id": key["id"], "session_id": session}
            self._insert("part", row | times | {"data": json.dumps(data)})

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        self.connection.execute(sql, list(row.values()))

    def run(self, sql: str, *params: Any) -> None:
        self.connection.execute(sql, params)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))


def make_tree(home: Path, export: dict[str, Any] = EXPORT, *, oldest: bool = False) -> Path:
    """Write an export as the files of older releases; give the file of the session."""
    info = export["info"]
    root = data_folder(home)
    storage = (
        root / "project" / "home-ann-shop" / "storage" / "session" if oldest else root / "storage"
    )
    session = storage / "info" if oldest else storage / "session" / info["projectID"]
    parts = storage / "part" / info["id"] if oldest else storage / "part"
    _write(session / f"{info['id']}.json", info)
    for message in export["messages"]:
        told = message["info"]
        _write(storage / "message" / info["id"] / f"{told['id']}.json", told)
        for part in message["parts"]:
            _write(parts / told["id"] / f"{part['id']}.json", part)
    return session / f"{info['id']}.json"

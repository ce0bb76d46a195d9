"""How sessions of other programs are written for a test, captured and counted."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tests.support.user_homes import open_history, settle
from threadkeep.capture.capture import History
from threadkeep.knowledge.records import CapturedSession

_USER = ".config/Code/User"
# Sample -> where below the home its content goes, if it does not lie there as in a home already.
PLACES: dict[str, str] = {
    "cline-tasks-handmade": _USER,
    "vscode-copilot-oplog": _USER,
    "vscode-copilot": f"{_USER}/globalStorage/emptyWindowChatSessions",
    "cline-repo-fixture": ".cline/data/sessions/session",
    "iflow": ".iflow/projects/demo",
    "crush": "projects",
}


def write_lines(path: Path, *records: object) -> None:
    """Write a line log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records))


def write_json(path: Path, value: object) -> None:
    """Write a document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_database(path: Path, script: str, *rows: tuple[str, tuple[object, ...]]) -> None:
    """Make a database: its tables, then rows by the name of their table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(script)
        for table, values in rows:
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)


class Seen(msgspec.Struct):
    """One captured session, as a reader of its page sees it."""

    session: CapturedSession
    said: list[tuple[str, str]]  # kind and text of each entry, in order
    tokens: dict[str, int]
    failed: list[str] = []  # the texts of results that are errors
    calls: list[tuple[str, str]] = []  # the id and the tool of each call
    answered: list[str] = []  # the ids of the calls whose results came
    lines: list[bytes] = []
    unknown: dict[str, int] = {}


def look(user: Path, home: Path) -> dict[str, Seen]:
    """Capture what is below a user's home, and give its sessions by id; nothing may fail."""
    settle(user)
    found = {}
    with open_history(home, user) as history:
        report = history.capture()
        assert report.errors == 0, [part.errors for part in report.agents.values()]
        for session in history.sessions(everything=True, limit=1000):
            entries = [one.entry for one in history.transcript(session)]
            results = [entry for entry in entries if entry.kind == "tool_result"]
            calls = [entry for entry in entries if entry.kind == "tool_call"]
            found[session.session_id] = Seen(
                session,
                [(entry.kind, entry.text) for entry in entries],
                tokens_of(history, session),
                [entry.text for entry in results if entry.error],
                [(entry.call_id, entry.tool) for entry in calls],
                [entry.call_id for entry in results],
                list(history.raw(session)),
                report.of(session.agent).unknown,
            )
    return found


class Counts(msgspec.Struct):
    """What a captured session has of each thing."""

    kinds: Counter[str]
    errors: int
    tokens: dict[str, int]

    def told(self) -> dict[str, Any]:
        """Name the counts as the expectations do."""
        named = {
            "prompts": "prompt",
            "texts": "text",
            "thinking": "reasoning",
            "calls": "tool_call",
            "results": "tool_result",
        }
        counted = {name: self.kinds[kind] for name, kind in named.items()}
        return counted | {"errors": self.errors} | self.tokens


def put_sample(data: Path, sample: str, user: Path) -> Path:
    """Copy a sample to where its program would have written it; give the home."""
    target = user / PLACES.get(sample, ".")
    shutil.copytree(data / sample, target, dirs_exist_ok=True)
    for path in (user, *user.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    if sample == "crush":
        projects = [{"path": str(path)} for path in sorted(target.iterdir())]
        write_json(user / ".local/share/crush/projects.json", {"projects": projects})
    settle(user)
    return user


def counts_of(history: History, session: CapturedSession) -> Counts:
    """Count what a session holds, through its transcript and its usage."""
    shown = [one.entry for one in history.transcript(session)]
    kinds: Counter[str] = Counter(entry.kind for entry in shown)
    errors = sum(entry.kind == "tool_result" and entry.error for entry in shown)
    return Counts(kinds, errors, tokens_of(history, session))


def tokens_of(history: History, session: CapturedSession) -> dict[str, int]:
    """Sum up what a session took."""
    names = ("input", "output", "cache_read", "cache_write")
    with history.store.read() as tx:
        rows = tx.all("browse_usage_of_session", {"session": session.id})
    return {name: sum(row[place] for row in rows) for place, name in enumerate(names, 3)}

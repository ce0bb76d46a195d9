"""What NanoClaw's two programs do to a session folder, in as few lines as tell it.

Written from what was observed of NanoClaw v2.0.64; not its code. The host reads its clock through
the database, so here it is given one. Nothing of ours is known to either: they create, read and
write their own tables by name, and take all that is there for their own.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
Clock = Callable[[], int]

BATCH: Final = 10
_PLAIN_QUOTES: Final = (1013, 1014)  # SQLITE_DBCONFIG_DQS_DML and _DDL; known since Python 3.12

IN_BEFORE: Final = """
CREATE TABLE IF NOT EXISTS messages_in (id TEXT PRIMARY KEY, seq INTEGER UNIQUE,
  kind TEXT NOT NULL, timestamp TEXT NOT NULL, status TEXT DEFAULT 'pending', process_after TEXT,
  recurrence TEXT, tries INTEGER DEFAULT 0, platform_id TEXT, channel_type TEXT, thread_id TEXT,
  content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS delivered (message_out_id TEXT PRIMARY KEY, delivered_at TEXT NOT NULL);
"""
IN_SINCE: Final = """
CREATE TABLE IF NOT EXISTS destinations (name TEXT PRIMARY KEY, display_name TEXT,
  type TEXT NOT NULL, channel_type TEXT, platform_id TEXT, agent_group_id TEXT);
CREATE TABLE IF NOT EXISTS session_routing (id INTEGER PRIMARY KEY CHECK (id = 1),
  channel_type TEXT, platform_id TEXT, thread_id TEXT);
"""
OUT_BEFORE: Final = """
CREATE TABLE IF NOT EXISTS messages_out (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, in_reply_to TEXT,
  timestamp TEXT NOT NULL, deliver_after TEXT, recurrence TEXT, kind TEXT NOT NULL,
  platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS processing_ack (message_id TEXT PRIMARY KEY, status TEXT NOT NULL,
  status_changed TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS session_state (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
OUT_SINCE: Final = """
CREATE TABLE IF NOT EXISTS container_state (id INTEGER PRIMARY KEY CHECK (id = 1),
  current_tool TEXT, tool_declared_timeout_ms INTEGER, tool_started_at TEXT,
  updated_at TEXT NOT NULL);
"""
_ADDED: Final = {
    ("messages_in", "series_id"): "TEXT",
    ("messages_in", "trigger"): "INTEGER NOT NULL DEFAULT 1",
    ("messages_in", "source_session_id"): "TEXT",
    ("messages_in", "on_wake"): "INTEGER NOT NULL DEFAULT 0",
    ("delivered", "platform_message_id"): "TEXT",
    ("delivered", "status"): "TEXT NOT NULL DEFAULT 'delivered'",
}


def compact(value: Any) -> str:
    """Write JSON as JavaScript does."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def in_sql(ms: int) -> str:
    """Write a time as SQLite's `datetime('now')` does."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def in_iso(ms: int) -> str:
    """Write a time as JavaScript does."""
    return f"{in_sql(ms).replace(' ', 'T')}.{ms % 1000:03d}Z"


@contextmanager
def opened(path: Path, *, readonly: bool = False) -> Iterator[sqlite3.Connection]:
    uri = f"{path.resolve().as_uri()}?mode={'ro' if readonly else 'rw'}"
    with closing(sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        if configure := getattr(connection, "setconfig", None):
            for option in _PLAIN_QUOTES:  # its library takes "text" for a column, always
                configure(option, 0)
        if not readonly:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = OFF")  # nobody cuts the power here
        yield connection


class Files:
    """Statements on the two files, each through a connection of its own."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock

    def run(
        self, file: str, sql: str, values: Row | None = None, *, readonly: bool = False
    ) -> list[Row]:
        """Run one statement; `:now` is the time."""
        with opened(self.folder / f"{file}.db", readonly=readonly) as connection:
            given = {"now": in_sql(self.clock()), **(values or {})}
            return [dict(row) for row in connection.execute(sql, given)]

    def columns(self, file: str, table: str) -> set[str]:
        """Return the names of a table's columns."""
        return {row["name"] for row in self.run(file, f"PRAGMA table_info('{table}')")}

    def top(self, file: str, table: str) -> int:
        """Return the highest number of a table."""
        return int(self.run(file, f"SELECT COALESCE(MAX(seq), 0) AS m FROM {table}")[0]["m"])


def make_folder(folder: Path, *, older: bool = False) -> None:
    """Make a session folder as NanoClaw's host does, or as its first builds did."""
    (folder / "outbox").mkdir(parents=True)
    for name, before, since in (
        ("inbound", IN_BEFORE, IN_SINCE),
        ("outbound", OUT_BEFORE, OUT_SINCE),
    ):
        with closing(sqlite3.connect(folder / f"{name}.db")) as connection:
            connection.executescript(before if older else before + since)
    if not older:
        files = Files(folder, lambda: 0)
        add_state_column(files)
        migrate(files)


def migrate(files: Files) -> None:
    """Add to an inbound.db what an older folder lacks; the host does so whenever it opens one."""
    found = files.run(
        "inbound",
        """SELECT t.value || '.' || c.name AS name
           FROM json_each('["messages_in","delivered"]') t, pragma_table_info(t.value) c""",
    )
    there = {row["name"] for row in found}
    for (table, column), declared in _ADDED.items():
        if f"{table}.{column}" in there:
            continue
        files.run("inbound", f"ALTER TABLE {table} ADD COLUMN {column} {declared}")
        if column == "series_id":
            files.run("inbound", "UPDATE messages_in SET series_id = id")


def add_state_column(files: Files) -> None:
    """Add to an outbound.db what an older folder lacks; the container does so at its start."""
    if "updated_at" not in files.columns("outbound", "session_state"):
        declared = "updated_at TEXT NOT NULL DEFAULT ''"
        files.run("outbound", f"ALTER TABLE session_state ADD COLUMN {declared}")


class NanoContainer:
    """The container: its loop and its tools, with the model's part given by the test."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.files = Files(folder, clock)
        self.folder = folder
        add_state_column(self.files)
        self.files.run("outbound", OUT_SINCE)

    def inbound(self, sql: str, **values: object) -> list[Row]:
        """Read inbound.db."""
        return self.files.run("inbound", sql, values, readonly=True)

    def outbound(self, sql: str, **values: object) -> list[Row]:
        """Run a statement on outbound.db."""
        return self.files.run("outbound", sql, values)

    def boot(self) -> None:
        """Let go of the claims of an earlier life."""
        self.outbound("DELETE FROM processing_ack WHERE status = 'processing'")

    # ------------------------------------------------------------------ mail to the agent

    def pending(self, *, first: bool = False) -> list[Row]:
        """Return the newest due mail, oldest first, without what has any answer."""
        woken = "AND (on_wake = 0 OR :first)"
        found = self.inbound(
            f"""SELECT * FROM messages_in WHERE status = 'pending'
                AND (process_after IS NULL OR datetime(process_after) <= :now)
                {woken if "on_wake" in self.files.columns("inbound", "messages_in") else ""}
                ORDER BY seq DESC LIMIT {BATCH}""",
            first=first,
        )
        acked = {row["message_id"] for row in self.outbound("SELECT * FROM processing_ack")}
        return [row for row in reversed(found) if row["id"] not in acked]

    def turn(self, reply: str | None = None, *, first: bool = False, stop: str = "") -> list[str]:
        """Take one turn, and give the mail it was about; `stop` after "claim" or "reply"."""
        rows = [row for row in self.pending(first=first) if row["kind"] != "system"]
        if not any(row.get("trigger", 1) == 1 for row in rows):
            return []
        ids = [row["id"] for row in rows]
        self.mark("processing", *ids)
        if reply is not None and stop != "claim":
            place = {key: rows[-1][key] for key in ("channel_type", "platform_id", "thread_id")}
            self.write("chat", {"text": reply}, in_reply_to=ids[-1], **place)
        if not stop:
            self.mark("completed", *ids)
        return ids

    def mark(self, status: str, *ids: str) -> None:
        """Say something of mail."""
        for message_id in ids:
            self.outbound(
                """INSERT OR REPLACE INTO processing_ack (message_id, status, status_changed)
                   VALUES (:id, :status, :now)""",
                id=message_id,
                status=status,
            )

    def take_answer(self, question_id: str) -> Row | None:
        """Look for an answer by its text, in the first row that has it."""
        rows = self.inbound(
            "SELECT * FROM messages_in WHERE status = 'pending' AND content LIKE :like",
            like=f'%"questionId":"{question_id}"%',
        )
        sql = "SELECT 1 FROM processing_ack WHERE message_id = :id"
        if not rows or self.outbound(sql, id=rows[0]["id"]):
            return None
        self.mark("completed", rows[0]["id"])
        found: Row = json.loads(rows[0]["content"])
        return found

    # ------------------------------------------------------------------ mail from the agent

    def next_seq(self) -> int:
        """Return the next odd number, which nobody keeps for us."""
        top = max(
            self.files.top("inbound", "messages_in"), self.files.top("outbound", "messages_out")
        )
        return top + 1 + top % 2

    def write(self, kind: str, said: Row | str, row_id: str | None = None, **more: object) -> str:
        """Write any outbound row; the number is chosen before."""
        seq = self.next_seq()
        out_id = row_id or f"msg-{self.files.clock()}-{seq:06}"
        places = dict.fromkeys(("channel_type", "platform_id", "thread_id"))
        row = {"in_reply_to": None, "deliver_after": None, **places, **more}
        self.outbound(
            """INSERT INTO messages_out (id, seq, in_reply_to, timestamp, deliver_after, recurrence,
                 kind, platform_id, channel_type, thread_id, content)
               VALUES (:id, :seq, :in_reply_to, :now, :deliver_after, NULL, :kind, :platform_id,
                 :channel_type, :thread_id, :content)""",
            id=out_id,
            seq=seq,
            kind=kind,
            content=said if isinstance(said, str) else compact(said),
            **row,
        )
        return out_id

    def say(self, text: str, **more: object) -> str:
        """Write to where the session's mail goes."""
        return self.write("chat", {"text": text, **more}, **self.routing())

    def routing(self) -> Row:
        """Return where mail goes that names nobody."""
        return self.inbound(
            "SELECT channel_type, platform_id, thread_id FROM session_routing WHERE id = 1"
        )[0]

    def ask(self, question: str, *options: str) -> str:
        """Ask with buttons."""
        name = f"msg-{self.files.clock()}-{self.next_seq():06}"
        said = {
            "type": "ask_question",
            "questionId": name,
            "title": "Question",
            "question": question,
            "options": [{"label": o, "selectedLabel": o, "value": o} for o in options],
        }
        return self.write("chat-sdk", said, name, **self.routing())

    def schedule(self, prompt: str, after: str, recurrence: str | None = None) -> str:
        """Ask for a task."""
        place = self.routing()
        name = f"task-{self.files.clock()}-{self.next_seq():06}"
        said = {
            "action": "schedule_task",
            "taskId": name,
            "prompt": prompt,
            "script": None,
            "processAfter": after,
            "recurrence": recurrence,
            "platformId": place["platform_id"],
            "channelType": place["channel_type"],
            "threadId": place["thread_id"],
        }
        return self.write("system", said, name, **place)

    def on(self, seq: int, **said: object) -> str:
        """Edit a message, or react to it, by its number; inbound mail is looked at first."""
        rows = self.inbound("SELECT * FROM messages_in WHERE seq = :seq", seq=seq)
        row = (
            rows[0]
            if rows
            else self.outbound("SELECT * FROM messages_out WHERE seq = :seq", seq=seq)[0]
        )
        sql = "SELECT platform_message_id AS name FROM delivered WHERE message_out_id = :id"
        sent = [] if rows else self.inbound(sql, id=row["id"])
        name = (sent[0]["name"] if sent else None) or row["id"]
        place = {key: row[key] for key in ("channel_type", "platform_id", "thread_id")}
        return self.write("chat", {**said, "messageId": name}, **place)

    def list_tasks(self) -> list[str]:
        """Show the tasks to come; a row that cannot be read breaks the whole list."""
        rows = self.inbound(
            """SELECT series_id AS id, status, process_after, recurrence, content, MAX(seq)
               FROM messages_in WHERE kind = 'task' AND status IN ('pending', 'paused')
               GROUP BY series_id ORDER BY process_after ASC"""
        )
        return [f"{row['id']} {row['status']} {_prompt(row)}" for row in rows]


def _prompt(row: Row) -> str:
    prompt: str = json.loads(row["content"]).get("prompt") or ""
    return prompt[:80]

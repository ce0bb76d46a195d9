"""A knowledge store with very many sessions: most are rows alone, the newest have their text."""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from threadkeep.capture.engine import capture
from threadkeep.capture.intake import CaptureContext, MachineUser
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.pi import SOURCE as PI
from threadkeep.sources.records import UserHome

BLOCKS: Final = 10_000
LONG: Final = "019caf10-0000-7000-8000-00000000000a"
ANSWERS: Final = 10  # of each session
EVERY_MS: Final = 300_000  # a session ends so often
RECENT: Final = 200  # sessions with a text, the newest
_MESSAGES: Final = 20  # of each of them
_FIRST: Final = 10_000  # the number of the first session that is made of rows
_COUNT: Final = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
# One session in ten is a subagent; one in a thousand is of a rare project.
_SESSIONS: Final = f"""
{_COUNT} INSERT INTO tk_sessions (id, harness, session_id, is_subagent, parent_session_id, title,
  model, cwd, project, git_branch, first_prompt, started_at, ended_at, entries, prompts,
  tool_calls, errors)
SELECT {_FIRST} + i, CASE i % 4 WHEN 0 THEN 'codex' WHEN 1 THEN 'cursor' ELSE 'claude-code' END,
  printf('made-%08d', i), i % 10 = 3, CASE WHEN i % 10 = 3 THEN printf('made-%08d', i - 1) END,
  'Conversation number ' || i, CASE i % 4 WHEN 0 THEN 'gpt-5' ELSE 'claude-opus-4-5' END,
  '/home/user/project' || (i % 40),
  CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'project' || (i % 40) END,
  CASE i % 3 WHEN 0 THEN 'main' ELSE 'branch-' || (i % 200) END, 'do the thing number ' || i,
  :now - (:count - i + 1) * {EVERY_MS} - 3600000, :now - (:count - i + 1) * {EVERY_MS}, 3, 1, 1,
  i % 7 = 0
FROM n
"""
# The context of a session grows, and with it the price of a token with some models.
_USAGE: Final = f"""
{_COUNT} INSERT INTO tk_usage
SELECT s.harness, s.id || '-' || k.i, s.id, s.ended_at - k.i * 20000, s.model, 900, 400,
  12000 + 8000 * k.i, 700, 0, 0, 1
FROM n AS k JOIN tk_sessions AS s ON s.id > {_FIRST}
"""
_ENTRIES: Final = f"""
{_COUNT} INSERT INTO tk_entries (session, key, log_id, line, part, role, kind, at, error, hash)
SELECT s.id, 'k' || k.i, 0, k.i, 0, 'user', 'prompt', s.ended_at, 0, s.id
FROM tk_sessions AS s JOIN n AS k WHERE s.id > {_FIRST}
"""
_TURNS: Final = """
INSERT INTO tk_turns (entry, session, turn, words)
SELECT id, session, line, 12 FROM tk_entries WHERE log_id = 0
"""
_NODES: Final = f"""
{_COUNT} INSERT INTO knowledge_nodes (id, uuid, content, embed_text, outcome, tags, created_at,
  updated_at)
SELECT i, printf('%08d-0000-4000-8000-000000000000', i),
  json_object('summary', 'What was learned about thing ' || i), 'thing ' || i || ' was learned',
  CASE i % 3 WHEN 0 THEN 'success' ELSE 'failure' END, '[]', :now - i * 60000,
  :now - i * 60000
FROM n
"""
_ENTITIES: Final = f"""
{_COUNT} INSERT INTO entities (id, type, name, canonical, first_seen, last_seen, created_at)
SELECT i, CASE i % 3 WHEN 0 THEN 'file' WHEN 1 THEN 'tool' ELSE 'concept' END, 'thing ' || i,
  'thing ' || i, :now, :now, :now
FROM n
"""
_MENTIONED: Final = f"""
{_COUNT} INSERT OR IGNORE INTO knowledge_node_entities
SELECT i, 1 + i * k.value % 5000 FROM n JOIN json_each('[1,2,3]') AS k
"""
_NODE_COUNT: Final = 20_000
_ENTITY_COUNT: Final = 5_000


def make_store(folder: Path, path: Path, now: int, sessions: int) -> None:
    """Make a store: one session of very many blocks, some recent ones, and rows of many more."""
    _write_logs(folder, now)
    with KnowledgeStore.open(path, clock=lambda: now) as store:
        around = CaptureContext(
            store=store,
            user=UserHome(folder),
            mask=lambda lines, _before, _after: MaskedBlock(lines),
            clock=lambda: now,
            who=MachineUser("box", "somebody"),
            exclusion=Exclusion(()),
        )
        capture(around, {"pi": PI})
    _fill(path, now, sessions)
    with KnowledgeStore.open(path, clock=lambda: now) as store:
        store.index()  # as capture does; otherwise questions do, and each of their commits is news


def _fill(path: Path, now: int, sessions: int) -> None:
    counts = {
        _SESSIONS: sessions,
        _USAGE: ANSWERS,
        _ENTRIES: 3,
        _TURNS: 0,
        _NODES: _NODE_COUNT,
        _ENTITIES: _ENTITY_COUNT,
        _MENTIONED: _NODE_COUNT,
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement, count in counts.items():
            connection.execute(statement, {"now": now, "count": count})
        last = connection.execute("SELECT max(id) FROM tk_entries").fetchone()[0]
        first = last - 3 * sessions
        chance = random.Random(7)
        rows = ((first + n + 1, _said(chance, n)) for n in range(3 * sessions))
        connection.executemany("INSERT INTO tk_entry_words (rowid, text) VALUES (?, ?)", rows)
        connection.execute("ANALYZE")  # what SQLite knew was about few sessions


# Words, and how many of a thousand texts have them.
_WORDS: Final = {
    "the": 900,
    "do": 300,
    "often": 330,
    "data": 200,
    "done": 100,
    "docs": 60,
    "document": 50,
    "docker": 30,
    "dockerfile": 10,
    "domain": 20,
    "dog": 1,
}
_SELDOM: Final = 5_000


def _said(chance: random.Random, number: int) -> str:
    """Make up a text in which some words are frequent and most are not."""
    words = [word for word, share in _WORDS.items() if chance.random() * 1000 < share]
    words += [f"d{chance.randrange(3000):x}" for _ in range(6)]
    if number % _SELDOM == 0:
        words.append("seldom")
    return " ".join(words)


# ---------------------------------------------------------------------- with a text


def _write_logs(folder: Path, now: int) -> None:
    logs = folder / ".pi" / "agent" / "sessions" / "--u--"
    logs.mkdir(parents=True)
    _write(logs / f"2026_{LONG}.jsonl", _records(LONG, now, BLOCKS))
    for number in range(RECENT):
        name = recent(number)
        at = now - (number + 2) * 20_000
        _write(logs / f"2026_{name}.jsonl", _records(name, at, _MESSAGES))


def recent(number: int) -> str:
    """Name one of the newest sessions."""
    return f"019caf10-0000-7000-8000-{number + 16:012x}"


def _write(path: Path, records: Iterator[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def _records(name: str, now: int, count: int) -> Iterator[dict[str, Any]]:
    at = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds")
    at = at.replace("+00:00", "Z")
    yield {"type": "session", "version": 3, "id": name, "timestamp": at, "cwd": "/u/app"}
    for number in range(count):
        role = "user" if number % 50 == 0 else "assistant"
        text = f"message number {number}: " + "some words about the docker data, often. " * 30
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        yield {"type": "message", "id": f"m{number}", "timestamp": at, "message": message}

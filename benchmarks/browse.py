"""`browse`: pages, filters, words and sums over very many captured sessions."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure
from threadkeep.browse.browsing import Browse
from threadkeep.browse.query import parse_query
from threadkeep.browse.records import Query
from threadkeep.capture.context import Surroundings
from threadkeep.capture.engine import capture
from threadkeep.capture.exclusion import Exclusion
from threadkeep.capture.harvesting import Who
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.pi import PiSource
from threadkeep.sources.records import UserHome

SESSIONS, PAGE, BLOCKS = 100_000, 50, 10_000
_LIMIT_MS, _WINDOW_MS, _WORDS_MS = 20.0, 60.0, 100.0
_MILLI = 1e3
_FIRST, _DEEP, _WORDS, _WINDOW = (
    "first page",
    "deep page",
    "words, common",
    "window of a long session",
)
_NOW = 1_800_000_000_000
_LONG = "019caf10-0000-7000-8000-00000000000a"
_COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
# One session in ten is a subagent; one project in a thousand sessions is rare.
_SESSIONS = f"""
{_COUNT} INSERT INTO tk_sessions (id, harness, session_id, is_subagent, parent_session_id, title,
  model, cwd, project, git_branch, first_prompt, started_at, ended_at, entries, prompts,
  tool_calls, errors)
SELECT 1000 + i, CASE i % 4 WHEN 0 THEN 'codex' WHEN 1 THEN 'cursor' ELSE 'claude-code' END,
  printf('made-%08d', i), i % 10 = 3, CASE WHEN i % 10 = 3 THEN printf('made-%08d', i - 1) END,
  'Conversation number ' || i, CASE i % 4 WHEN 0 THEN 'gpt-5' ELSE 'claude-opus-4-5' END,
  '/home/user/project' || (i % 40),
  CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'project' || (i % 40) END,
  CASE i % 3 WHEN 0 THEN 'main' ELSE 'branch-' || (i % 200) END, 'do the thing number ' || i,
  {_NOW} - (100000 - i) * 300000 - 60000, {_NOW} - (100000 - i) * 300000, 3, 1, 1, i % 7 = 0
FROM n
"""
_USAGE = f"""
{_COUNT} INSERT INTO tk_usage
SELECT s.harness, s.id || '-' || k.value, s.id, s.ended_at - k.value * 1000, s.model, 900, 400,
  30000, 700, 0, 0, 1
FROM n JOIN tk_sessions AS s ON s.id = 1000 + n.i JOIN json_each('[1,2,3,4,5]') AS k
"""
_ENTRIES = f"""
{_COUNT} INSERT INTO tk_entries (session, key, log_id, line, part, role, kind, at, error, hash)
SELECT 1000 + i, 'k' || k.value, 0, k.value, 0, 'user', 'prompt', {_NOW}, 0, i
FROM n JOIN json_each('[1,2,3]') AS k
"""
_INDEXED = """
INSERT INTO tk_entry_words (rowid, text)
SELECT id, 'the thing ' || CASE WHEN id % 3 = 0 THEN 'often' ELSE 'else' END
  || CASE WHEN id % 5000 = 0 THEN ' seldom' ELSE '' END
FROM tk_entries WHERE log_id = 0
"""


def run(place: Place) -> Result:
    """List, filter, find and sum up; and read a window of one long session."""
    with place.fresh() as folder:
        path = folder / "knowledge.db"
        sources = {"pi": PiSource()}
        _capture_long(folder, path)
        _fill(path)
        with KnowledgeStore.open(path, read_only=True) as store:
            make = partial(Browse, store, sources, clock=lambda: _NOW)
            ways = {name: partial(used_by, way) for name, way in _ways(make)}
            runs = in_turn(ways, place.either(9, 3))
    costs = {name: median_of(found) for name, found in runs.items()}
    rows = [
        (name, figure(cost.wall * _MILLI, 1), figure(cost.cpu * _MILLI, 1))
        for name, cost in costs.items()
    ]
    goals = [
        Goal(f"browse: {name}", limit, costs[name].wall * _MILLI, " ms")
        for name, limit in (
            (_FIRST, _LIMIT_MS),
            (_DEEP, _LIMIT_MS),
            (_WORDS, _WORDS_MS),
            (_WINDOW, _WINDOW_MS),
        )
    ]
    return Result(
        [Table(f"browse: {SESSIONS:,} sessions", ("what", "wall ms", "CPU ms"), rows)], goals
    )


def _ways(make: Callable[[], Browse]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name what is measured; `anew` is with nothing remembered, as after somebody's commit."""
    browse = make()

    def asked(text: str, after: str | None = None) -> Callable[[], object]:
        query = parse_query(text, _NOW)
        return lambda: browse.sessions(query, after=after, limit=PAGE)

    def anew(work: Callable[[Browse], object]) -> Callable[[], object]:
        return lambda: work(make())

    yield _FIRST, asked("")
    yield _DEEP, asked("", f"{_NOW - SESSIONS // 2 * 300_000}.1")
    for text in ("agent:codex", "project:rare", "model:gpt", "branch:branch-7", "until:2024-06-01"):
        yield text, asked(text)
    yield "agent:codex project:rare", asked("agent:codex project:rare")
    yield "cost:>1 (none)", asked("cost:>1")
    yield _WORDS, anew(lambda one: one.sessions(Query("often"), limit=PAGE))
    yield "words, seldom", anew(lambda one: one.sessions(Query("seldom"), limit=PAGE))
    yield "count", browse.count
    yield "facets", anew(Browse.facets)
    yield "facets, once more", browse.facets
    yield "projects", anew(Browse.projects)
    yield "today", browse.today
    yield "usage of everything", anew(Browse.usage)
    yield "usage of a week", anew(lambda one: one.usage(parse_query("since:7d", _NOW)))
    yield "detail of a long session", anew(lambda one: one.session(f"pi:{_LONG}"))
    yield _WINDOW, anew(lambda one: one.window(f"pi:{_LONG}", at=BLOCKS // 2))
    yield "the next window", partial(browse.window, f"pi:{_LONG}", after=BLOCKS // 2)
    yield "find in a long session", anew(lambda one: one.find(f"pi:{_LONG}", "number 77"))


def _fill(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in (_SESSIONS, _USAGE, _ENTRIES):
            connection.execute(statement, (SESSIONS,))
        connection.execute(_INDEXED)
        connection.execute("ANALYZE")  # what SQLite knew was about one session


def _capture_long(folder: Path, path: Path) -> None:
    log = folder / ".pi" / "agent" / "sessions" / "--u--" / f"2026_{_LONG}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(record) + "\n" for record in _records()), "utf-8")
    with KnowledgeStore.open(path, clock=lambda: _NOW) as store:
        around = Surroundings(
            db=store.context.db,
            user=UserHome(folder),
            mask=bytes,
            clock=lambda: _NOW,
            who=Who("box", "somebody"),
            exclusion=Exclusion(()),
        )
        capture(around, {"pi": PiSource()})


def _records() -> Iterator[dict[str, Any]]:
    at = "2026-10-01T10:00:00.000Z"
    yield {"type": "session", "version": 3, "id": _LONG, "timestamp": at, "cwd": "/u/app"}
    for number in range(BLOCKS):
        role = "user" if number % 50 == 0 else "assistant"
        text = f"message number {number}: " + "some words about it, " * 60
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        yield {"type": "message", "id": f"m{number}", "timestamp": at, "message": message}

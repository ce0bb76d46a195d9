"""The rows behind a hit: the thing itself, its session, its evidence, its neighbours."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.text import decoded
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.records import CapturedSession, EntryRow, to_entry, to_session
from threadkeep.knowledge.search_scope import STORED

_ENTRY_WIDTH: Final = len(EntryRow.__struct_fields__)
# What is told of a kind beside its text.
_FACTS: Final[dict[str, tuple[str, ...]]] = {
    "command": (
        *("exit_code", "duration_ms", "hostname", "shell", "git_commit", "git_dirty", "tool"),
    ),
    "visit": ("domain", "dwell_ms", "scroll_depth", "search_query", "referrer"),
    "lesson": ("tool", "rule_id", "path_prefix", "fix_hint", "occurrences", "first_seen_at"),
    "run": ("event", "status", "conclusion", "actor", "commit"),
    "memory": (
        *("repository", "logical_path", "document", "state", "revision", "ordinal"),
        *("heading_path", "published"),
    ),
}
_FACT_QUERIES: Final = {"visit": "facts_of_page"}


class SessionName(NamedTuple):
    """A session by the agent that held it and its id."""

    agent: str
    session_id: str


class SessionMessage(NamedTuple):
    """A message and its session."""

    row: EntryRow
    session: CapturedSession


def summary_of(content: str) -> str:
    """Give the summary of a node's content; of content that has none, its beginning."""
    summary = fields_of(content).get("summary")
    return summary if isinstance(summary, str) and summary else content


def fields_of(content: str) -> dict[str, Any]:
    """Give the fields of a node's content; none where it is no object."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}


# ---------------------------------------------------------------------- messages


def load_messages(tx: Tx, ids: Iterable[int]) -> dict[int, SessionMessage]:
    """Read messages with their sessions, by id."""
    rows = tx.all("shown_entries", {"ids": msgspec.json.encode(list(ids)).decode()})
    return {row[0]: SessionMessage(to_entry(row), to_session(row[_ENTRY_WIDTH:])) for row in rows}


def segment_at(tx: Tx, session: SessionName, at: int | None) -> int | None:
    """Give the slice of a session that a moment lies in."""
    found = tx.value(
        "segment_at", {"harness": session.agent, "session_id": session.session_id, "at": at}
    )
    return None if found is None else int(found)


def entries_beside(tx: Tx, row: EntryRow, limit: int) -> tuple[list[int], list[int]]:
    """Give the entries before and after one in its session, in their order."""
    place = {"session": row.session, "log": row.log_id, "line": row.line, "part": row.part}
    before = [found[0] for found in tx.all("entries_before", {**place, "limit": limit})]
    after = [found[0] for found in tx.all("entries_after", {**place, "limit": limit})]
    return before[::-1], after


def first_of_segment(tx: Tx, segment: int) -> int | None:
    """Give the entry that a slice of an archived session begins with."""
    found = tx.value("first_entry_of_segment", {"id": segment})
    return None if found is None else int(found)


def is_probe(tx: Tx, session: SessionName) -> bool:
    """Tell whether a session is that of a probe."""
    values = {"session_id": session.session_id, "harness": session.agent}
    return tx.value("is_probe_session", values) is not None


# ---------------------------------------------------------------------- things


def thing_row(tx: Tx, kind: str, number: int, *, indexed: bool = True) -> Row | None:
    """Give what is shown of a thing: row, time, title, text, source, agent, folder, and so on.

    Of a file without our index (`indexed`) less is known about nodes.
    """
    query = "shown_node_plainly" if kind == "node" and not indexed else _stored("shown", kind)
    return tx.one(query, {"id": number})


def texts_of_run(tx: Tx, run: int) -> list[str]:
    """Give what a run of CI says: its jobs, their annotations, and ends of logs."""
    rows = tx.all("texts_of_run", {"id": run})
    return [" ".join(filter(None, map(decoded, row))) for row in rows]


def facts_of(tx: Tx, kind: str, number: int) -> dict[str, Any]:
    """Give what else is known of a thing."""
    if kind not in _FACTS:
        return {}
    row = tx.one(_FACT_QUERIES.get(kind, f"facts_of_{kind}"), {"id": number})
    values = (decoded(value) if isinstance(value, bytes) else value for value in row or ())
    return dict(zip(_FACTS[kind], values, strict=False))


def commands_beside(tx: Tx, number: int, limit: int) -> tuple[list[int], list[int]]:
    """Give the commands before and after one in its session, in their order."""
    page = {"id": number, "limit": limit}
    before = [row[0] for row in tx.all("commands_before", page)]
    return before[::-1], [row[0] for row in tx.all("commands_after", page)]


def session_of(tx: Tx, kind: str, number: int) -> SessionName | None:
    """Give the session that a node or a lesson comes from: that of its latest evidence."""
    tables = tx.tables()
    if "tk_sessions" not in tables:
        return None
    if kind == "lesson":
        from threadkeep.knowledge.lessons import LessonKey, key_digest  # noqa: PLC0415  (few are)

        key = tx.one("key_of_lesson", {"id": number}) if "tk_counted" in tables else None
        row = key and tx.one("session_of_lesson", {"lesson": key_digest(LessonKey(*key))})
    else:
        row = tx.one("session_of_node", {"id": number})
    return SessionName(*row) if row else None


def _stored(verb: str, kind: str) -> str:
    return f"{verb}_{STORED.get(kind, kind)}"


# ---------------------------------------------------------------------- nodes


def node_number(tx: Tx, uuid: str) -> int | None:
    """Find a node by its uuid."""
    found = tx.value("node_number", {"uuid": uuid})
    return None if found is None else int(found)


def evidence_rows(tx: Tx, node: int, limit: int) -> list[Row]:
    """Give what a node rests on: the name of the source, its number, and the agent."""
    return tx.all("source_of_node", {"id": node, "limit": limit})


def entities_of(tx: Tx, node: int) -> dict[str, list[str]]:
    """Give what a node mentions, by type."""
    entities: dict[str, list[str]] = {}
    for kind, name in tx.all("entities_of_node_named", {"id": node}):
        entities.setdefault(kind, []).append(decoded(name))
    return entities

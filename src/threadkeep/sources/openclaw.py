"""OpenClaw since 2026.9: Pi's entries in a database for each agent, no longer in files.

A session that the upgrade took over from a file has the same id and the same entries there, so both
make one. What a reset or a deletion moved to the archive is read from there as long as it was not
captured before; what was captured stays.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.errors import NotFound
from threadkeep.sources.common import table, text
from threadkeep.sources.files import file_bytes, one_line, stored_object, unpacked
from threadkeep.sources.format import Databases, Keyed, Told, read_rows
from threadkeep.sources.pi import CLAW_ROOTS, PiParser, entries_of
from threadkeep.sources.places import place

_EVENTS: Final = ("event_json", "event_zstd", "seq")
_ARCHIVES: Final = ("session_transcript_archives", "session_transcript_cold_archives")
_WINDOW: Final = (
    *("session_key", "previous_session_id", "reason", "model", "channel", "chat_type"),
    *("parent_session_key", "spawned_by", "display_name", "started_at", "ended_at", "status"),
)
_NODE: Final = (
    *("label", "display_name", "parent_session_key", "fork_source_session_id", "archived_at"),
    "spawned_by",
)


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    """Name the sessions; the generation changes when the history of one is rewritten."""
    found: dict[str, list[object]] = {}
    if "session_id" in database.columns("transcript_events"):
        sql = "SELECT session_id, count(*), max(seq) FROM transcript_events GROUP BY session_id"
        for session, *counts in database.rows(sql):
            found[str(session)] = counts
    for name in (*_ARCHIVES, "transcript_rewrite_watermarks"):
        for row in read_rows(database, name, ("session_id", "generation"), "ORDER BY 1, 2"):
            found.setdefault(str(row.get("session_id")), []).append(row.get("generation"))
    for session, counts in sorted(found.items()):
        yield session, (counts, _about(database, session))


def _split(database: ForeignDatabase, session: str, path: Path) -> Iterator[Keyed]:
    about = _about(database, session)
    yield "about", {"type": "session_info", "id": "about", **about}
    for name in _ARCHIVES:
        wanted = ("archive_blob", "encoding", "archive_name")
        for row in read_rows(database, name, wanted, "WHERE session_id = ?", (session,)):
            yield from _keyed(_archived(row, path))
    rest = "WHERE session_id = ? ORDER BY seq"
    for row in read_rows(database, "transcript_events", _EVENTS, rest, (session,)):
        stored = row.get("event_json")
        yield from _keyed([stored if stored is not None else unpacked(row.get("event_zstd"))])


_COLD: Final = re.compile(r"[0-9a-f]{64}\.jsonl\.zst")


def _archived(row: dict[str, Any], path: Path) -> Iterator[bytes]:
    """Return the events of a transcript that was put away, into the database or beside it."""
    stored = row.get("archive_blob")
    if not isinstance(stored, bytes):
        stored = _cold(text(row.get("archive_name")), path)
    elif row.get("encoding", "zstd") == "zstd":
        stored = unpacked(stored)
    for line in stored.split(b"\n"):
        record = stored_object(line)
        if "kind" not in record:
            yield from [line] if line else []
        elif record["kind"] == "event":  # the others are what the program looks up events by
            yield text(table(record.get("row")).get("event_json")).encode("utf-8", "replace")


def _cold(name: str, path: Path) -> bytes:
    """Unpack an archive in the folder of the agent; what is gone stays as it was captured."""
    agent = path.parents[1]
    try:
        file = agent / "sessions" / "cold" / name
        return file_bytes(file, str(agent)) if _COLD.fullmatch(name) else b""
    except NotFound:
        return b""


def _keyed(events: Iterable[str | bytes]) -> Iterator[Keyed]:
    for event in events:
        line = one_line(event)
        own = stored_object(line)
        yield text(own.get("id")) or f"{own.get('type')}:{own.get('timestamp')}", line


def _about(database: ForeignDatabase, session: str) -> dict[str, Any]:
    """Tell a session's name and parent, which stand beside its entries."""
    rest = "WHERE session_id = ?"
    window = next(read_rows(database, "session_windows", _WINDOW, rest, (session,)), {})
    key = (window.get("session_key"),)
    node = next(read_rows(database, "session_nodes", _NODE, "WHERE session_key = ?", key), {})
    above = (node.get("parent_session_key") or window.get("parent_session_key"),)
    rest = "WHERE session_key = ?"
    parent = next(read_rows(database, "session_nodes", ("current_session_id",), rest, above), {})
    titles = (node.get("label"), node.get("display_name"), window.get("display_name"))
    parents = (
        *(node.get("fork_source_session_id"), parent.get("current_session_id")),
        window.get("previous_session_id"),
    )
    return {
        "name": next(filter(None, map(text, titles)), ""),
        "parent": next(filter(None, map(text, parents)), ""),
        **{name: value for name, value in window.items() if value is not None},
        "spawned_by": window.get("spawned_by") or node.get("spawned_by"),
    }


SOURCE: Final = Databases(
    agent="pi",
    label="Pi",
    places=(place([f"{root}/agents" for root in CLAW_ROOTS], "*/agent/openclaw-agent.sqlite"),),
    sessions=_sessions,
    split=_split,
    read=lambda record, number: Told(entries_of(record, number, [])),
    parse=PiParser,
)

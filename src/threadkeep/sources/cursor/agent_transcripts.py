"""Cursor's agent transcripts: a line log for each conversation, below the folder of its project.

The lines carry no ids, no times but the prompt's, no results and no model. A line's number is its
key, and a time that is not told is that of the last prompt, else the file's.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from threadkeep.errors import Busy
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import table, text
from threadkeep.sources.cursor.messages import (
    AGENT,
    CursorEntry,
    CursorMessage,
    CursorParser,
    CursorRecord,
    message_reading,
)
from threadkeep.sources.cursor.paths import chat_ids, composer_ids, folder_of, projects_root
from threadkeep.sources.folders import files_below, folders_in, printable
from threadkeep.sources.records import DocumentItem, Log, Stamp, UserHome

TRANSCRIPTS: Final = "agent-transcripts"


class CursorTranscripts:
    """Reads `*.jsonl` transcripts."""

    agent = AGENT
    kind: Literal["lines", "document"] = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch."""
        return [projects_root(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the transcripts of conversations that no better place has."""
        yield from find_transcripts(user, ".jsonl")

    def parser(self, log: Log, state: bytes | None) -> CursorParser:
        """Make a parser that starts afresh, or continues from a state."""
        return CursorParser(log, state, read_line, slug_of(log.path))

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        reading = read_line(record, number).reading
        return [said.entry for said in reading.said] if reading else []

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """A line log has no items."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """A line log has no records but its lines."""
        return ()


def find_transcripts(user: UserHome, *suffixes: str) -> Iterator[Log]:
    """Yield transcript files by path; none while the better places cannot be asked."""
    projects = folders_in(projects_root(user), user, is_root=True)
    try:
        # Where there is no transcript, a database that did not change is not opened.
        elsewhere = composer_ids(user) | chat_ids(user) if projects else set()
    except Busy:
        return  # to read both places would double what is said; the next look will tell
    seen: dict[str, bool] = {}
    for project in projects:
        inside = project if project.name == TRANSCRIPTS else project / TRANSCRIPTS
        cwd = ""
        files = files_below(inside, user, *suffixes, depth=4)
        for number, (path, stamp) in enumerate(files):
            if number == 0:
                cwd = printable(folder_of(project.name, seen))
            if path.stem not in elsewhere:
                yield _log(path, stamp, cwd)


def _log(path: Path, stamp: Stamp, cwd: str) -> Log:
    is_subagent = path.parent.name == "subagents"
    return Log(
        path=str(path),
        stamp=stamp,
        session_id=printable(path.stem),
        project_dir=cwd,
        parent_session_id=printable(path.parent.parent.name) if is_subagent else None,
        is_subagent=is_subagent,
    )


def slug_of(path: str) -> str:
    """Return the project's name in a transcript's path; empty if it was made outside of any."""
    before = path.replace("\\", "/").partition(f"/{TRANSCRIPTS}/")[0]
    slug = before.rpartition("/")[2]
    return "" if slug == "projects" else slug


def read_line(record: Any, number: int) -> CursorRecord:
    """Take one line of a transcript apart; a record may bring the number it had."""
    inside = table(record)
    told = inside.get("n")
    key = str(told if isinstance(told, int) else number)
    if "role" in inside:
        message = inside.get("message")
        content = table(message).get("content") if isinstance(message, dict) else message
        return CursorRecord(message_reading(inside["role"], content, key))
    kind = inside.get("type")
    if kind == "turn_ended":
        return CursorRecord(_ended(inside, key))
    return CursorRecord(unknown=f"type/{kind}"[:80] if isinstance(kind, str) else "record")


def _ended(record: dict[str, Any], key: str) -> CursorMessage | None:
    error = record.get("error")
    if record.get("status") != "error" and not error:
        return None
    said = text(error) or text(table(error).get("message")) or "the turn ended with an error"
    return CursorMessage(
        [CursorEntry(Entry(key, "system", "note", None, said, error=True))], counts=False
    )


SOURCE = CursorTranscripts()

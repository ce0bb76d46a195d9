"""Crush: a database in the folder of each project, found through the program's list of projects.

The tokens it keeps are those of the last call, the size of the context: they are no sums, so none
are counted. Times are seconds, though the schema says otherwise.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, of_person, result, spoken
from threadkeep.sources.common import numbered, rows, strange_name, table, text
from threadkeep.sources.files import file_bytes
from threadkeep.sources.folders import folders_in
from threadkeep.sources.format import Databases, Keyed, Told, decoded, read_rows
from threadkeep.sources.places import place, roots_of
from threadkeep.sources.records import UserHome

_FOLDER: Final = ".crush"
_FILE: Final = "crush.db"
_LISTS: Final = (place(("{data}/crush", "{local}/crush"), "projects.json"),)
_SESSION: Final = (
    *("id", "parent_session_id", "title", "message_count", "prompt_tokens", "completion_tokens"),
    *("cost", "summary_message_id", "created_at", "updated_at"),
)
_MESSAGE: Final = (
    *("id", "role", "parts", "model", "provider", "created_at", "updated_at"),
    "is_summary_message",
)
_FAILED: Final = ("error", "canceled", "permission_denied")


def _named(user: UserHome) -> Iterator[tuple[Path, Path]]:
    """Name the databases of projects: those the program lists, and those where agents worked."""
    for root in roots_of(_LISTS, user):
        for project in _listed(root):
            folder = text(project.get("path"))
            data = text(project.get("data_dir")) or str(Path(folder) / _FOLDER)
            if folder and Path(folder).is_absolute():
                place_ = Path(folder, data)
                yield place_.parent if place_.name == _FOLDER else place_, place_ / _FILE
    for folder_ in dict.fromkeys((*user.projects(), *_below_roots(user))):
        yield folder_, folder_ / _FOLDER / _FILE


def _below_roots(user: UserHome) -> Iterator[Path]:
    for root in user.roots:
        yield root
        yield from folders_in(root, user, is_root=True)


def _listed(root: Path) -> Iterator[dict[str, Any]]:
    try:
        found = decode_line(file_bytes(root / "projects.json", str(root)))
    except ThreadkeepError:
        return  # there is none, or it is being written
    listed = table(found[0]).get("projects") if found else None
    yield from map(table, rows(listed))


def _databases(user: UserHome) -> list[tuple[Path, Path]]:
    return list({path: (root, path) for root, path in _named(user)}.values())


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    counted: dict[object, tuple[Any, ...]] = {}
    if {"session_id", "updated_at"} <= set(database.columns("messages")):
        sql = (
            "SELECT session_id, count(*), max(updated_at), sum(length(parts))"
            " FROM messages GROUP BY session_id"
        )
        counted = {row[0]: row[1:] for row in database.rows(sql)}
    for row in read_rows(database, "sessions", _SESSION, "ORDER BY id"):
        yield str(row.get("id")), (row, counted.get(row.get("id")))


def _split(database: ForeignDatabase, session: str, path: Path) -> Iterator[Keyed]:
    row = next(read_rows(database, "sessions", _SESSION, "WHERE id = ?", (session,)), None)
    if row is None:
        return
    folder = path.parent.parent if path.parent.name == _FOLDER else path.parent
    yield "session", {"type": "session", "id": session, "cwd": str(folder), "data": row}
    rest = "WHERE session_id = ? ORDER BY created_at, rowid"
    for message in read_rows(database, "messages", _MESSAGE, rest, (session,)):
        own = str(message.get("id"))
        told = {**message, "parts": decoded(message.get("parts"))}
        yield own, {"type": "message", "id": own, "data": told}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "session":
            parent = text(data.get("parent_session_id"))
            facts = SessionFacts(
                title=text(data.get("title")),
                cwd=text(fields.get("cwd")),
                parent_session_id=parent,
                is_subagent=bool(parent),
            )
            return Told(facts=facts)
        case "message":
            return _message(data, key)
        case other:
            return Told(unknown=[strange_name(record, other)])


def _message(message: dict[str, Any], key: str) -> Told:
    told, at = Told(), moment(message.get("created_at"))
    model, role = text(message.get("model")), text(message.get("role"))
    for part in map(table, rows(message.get("parts"))):
        found = _part(part, at, model, told.unknown)
        for entry in found:
            if entry.kind == "text" and message.get("is_summary_message"):
                entry.kind = "summary"
        told.entries += of_person(found) if role == "user" else found
    told.facts = SessionFacts(model=model) if model else None
    numbered(told.entries, key)
    return told


def _part(part: dict[str, Any], at: int | None, model: str, strange: list[str]) -> list[Entry]:
    data, kind = table(part.get("data")), part.get("type")
    found: list[Entry] = []
    match kind:
        case "text":
            found = spoken("assistant", "text", text(data.get("text")), at, model)
        case "reasoning":
            found = spoken("assistant", "reasoning", text(data.get("thinking")), at, model)
        case "tool_call":
            own, named = text(data.get("id")), text(data.get("name"))
            found = [call(named, own, decoded(data.get("input")), at, model)]
        case "tool_result":
            shown, named = text(data.get("content")), text(data.get("name"))
            failed = data.get("is_error") is True
            found = [result(text(data.get("tool_call_id")), shown, at, named, error=failed)]
        case "finish":
            said = [text(data.get("message")), text(data.get("details"))]
            if text(data.get("reason")) in _FAILED:
                shown = ": ".join(filter(None, said))
                found = spoken("assistant", "note", shown, at, model, error=True)
        case "image_url" | "binary":
            named = text(data.get("url")) or text(data.get("path"))
            found = spoken("user", "note", f"[image] {named[:200]}".strip(), at)
        case "shell_command" | "shell command":
            found = [*_command(data, at)]
        case _:
            strange.append(strange_name(part, "part", kind))
    return found


def _command(data: dict[str, Any], at: int | None) -> Iterator[Entry]:
    """A command that the person ran beside the conversation."""
    command = text(data.get("command"))
    yield Entry("", "user", "tool_call", at, command, tool="shell", input={"command": command})
    failed = data.get("exit_code") not in (0, None)
    yield result("", text(data.get("output")), at, "shell", error=failed)


SOURCE: Final = Databases(
    agent="crush",
    label="Crush",
    places=(place(("{data}/crush", "{local}/crush"), _FILE),),
    more=_databases,
    sessions=_sessions,
    split=_split,
    read=_read,
)

"""The chat stores of Cursor's command: content-addressed blobs, led to by the newest root.

A blob is a message in JSON, or a node in protocol buffers that names other blobs by their hash.
What no root leads to any more has been superseded. Messages carry no times of their own.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Busy, NotFound
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.common import table, text
from threadkeep.sources.cursor.messages import (
    AGENT,
    CursorParser,
    CursorRecord,
    epoch_ms,
    message_reading,
)
from threadkeep.sources.cursor.paths import chats_root, composer_ids, folders_by_hash
from threadkeep.sources.files import file_bytes, one_line, stored_object, wrap
from threadkeep.sources.folders import database_stamp, folders_in, printable
from threadkeep.sources.records import DocumentItem, Log, UserHome

# ------------------------------------------------------------------------------
# Protocol buffers without their schema: the fields of a message as they lie in its bytes.

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10


def byte_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of the length-delimited fields, up to what is no field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if at < 0:
            return
        wire = tag & 7
        if wire == _BYTES:
            length, at = _varint(data, at)
            if at < 0 or length > len(data) - at:
                return
            yield tag >> 3, data[at : at + length]
            at += length
        elif wire == _VARINT:
            _, at = _varint(data, at)
            if at < 0:
                return
        elif wire in {_FIXED32, _FIXED64}:
            at += 4 if wire == _FIXED32 else 8
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number; the place behind it is -1 if there is none."""
    value = 0
    for position, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:  # noqa: PLR2004  (the top bit says that more follows)
            return value, at + position + 1
    return 0, -1


_ID_BYTES: Final = 32
_TABLES: Final = {"meta", "blobs"}
_UNNAMED: Final = {"New Agent", "New Chat", "Untitled"}
_SIDECAR: Final = "meta.json"


class CursorChats:
    """Reads `store.db` files."""

    agent = AGENT
    kind: Literal["lines", "document"] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch."""
        return [chats_root(user)]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the stores of conversations that the editor's database does not have."""
        projects = folders_in(chats_root(user), user, is_root=True)
        try:
            elsewhere = composer_ids(user) if projects else set()
        except Busy:
            return  # to read both places would double what is said; the next look will tell
        folders: dict[str, str] | None = None
        for project in projects:
            for chat in folders_in(project, user):
                stamp = database_stamp(chat / "store.db", user)
                if stamp is None or chat.name in elsewhere:
                    continue
                folders = folders_by_hash(user, {}) if folders is None else folders
                cwd = printable(folders.get(project.name, ""))
                yield Log(str(chat / "store.db"), stamp, printable(chat.name), cwd)

    def parser(self, log: Log, state: bytes | None) -> CursorParser:
        """Make a parser that starts afresh, or continues from a state."""
        return CursorParser(log, state, _read)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        reading = _read(record, number).reading
        return [said.entry for said in reading.said] if reading else []

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the one conversation; its newest root is named by the hash of all that is in it."""
        with open_foreign(Path(log.path), root=log.root) as database:
            stored = _meta_text(database) if database.tables() >= _TABLES else ""
        sidecar = msgspec.json.encode(_sidecar(log))
        if stored:
            mark = hashlib.blake2b(stored.encode() + sidecar, digest_size=16).hexdigest()
            yield DocumentItem(log.session_id, mark)

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield what is known about the conversation, then its messages in order."""
        with open_foreign(Path(log.path), root=log.root) as database:
            if not database.tables() >= _TABLES:
                return
            meta = _unhexed(_meta_text(database))
            root = text(meta.pop("latestRootBlobId", None))
            about = {"agentId": item, "meta": meta, "sidecar": _sidecar(log)}
            yield item, msgspec.json.encode(about)
            for key, message in _messages(database, root or _likely_root(database)):
                yield key, wrap({"blob": key}, "message", message)


def _meta_text(database: ForeignDatabase) -> str:
    rows = list(database.rows("SELECT value FROM meta WHERE key = '0' OR key = 0"))
    stored = rows[0][0] if rows else ""
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else str(stored or "")


def _unhexed(stored: str) -> dict[str, Any]:
    try:
        return stored_object(bytes.fromhex(stored))
    except ValueError:
        return stored_object(stored)  # some releases did not encode it


def _sidecar(log: Log) -> dict[str, Any]:
    """Read the little file beside newer stores; it alone names the folder in plain words."""
    try:
        told = stored_object(file_bytes(Path(log.path).with_name(_SIDECAR), log.root))
    except NotFound:
        return {}
    return {key: told[key] for key in ("cwd", "title", "createdAtMs", "isSubagent") if key in told}


def _messages(database: ForeignDatabase, root: str) -> Iterator[tuple[str, bytes]]:
    """Walk the nodes from the root, children before their node; each blob counts once."""
    seen: set[str] = set()
    waiting: list[tuple[str, bytes | None]] = [(root, None)]
    while waiting:
        key, own = waiting.pop()
        if own is not None:
            yield key, own
            continue
        data = b"" if key in seen else _blob(database, key)
        seen.add(key)
        if data[:1] == b"{":
            if "role" in stored_object(data):
                yield key, one_line(data)
            continue
        children, inside = _node(key, data)
        waiting += reversed([(child, None) for child in children] + inside)


def _node(key: str, data: bytes) -> tuple[list[str], list[tuple[str, bytes | None]]]:
    children: list[str] = []
    inside: list[tuple[str, bytes | None]] = []
    for _, content in byte_fields(data):
        if content[:1] == b"{" and "role" in stored_object(content):
            inside.append((f"{key}#{len(inside)}" if inside else key, one_line(content)))
        elif len(content) == _ID_BYTES:
            children.append(content.hex())
    return children, inside


def _blob(database: ForeignDatabase, key: str) -> bytes:
    row = next(database.rows("SELECT data FROM blobs WHERE id = ?", (key,)), None)
    data = row[0] if row else b""
    return data.encode() if isinstance(data, str) else bytes(data or b"")


def _likely_root(database: ForeignDatabase) -> str:
    """Name the node that leads to most blobs, for a store that does not name its root."""
    best, most = "", 0
    for key, data in database.rows("SELECT id, data FROM blobs ORDER BY id"):
        if isinstance(data, bytes) and data[:1] != b"{":
            children, _ = _node(str(key), data)
            if len(children) > most:
                best, most = str(key), len(children)
    return best


def _read(record: Any, number: int) -> CursorRecord:
    inside = table(record)
    message = inside.get("message")
    if isinstance(message, dict):
        key = text(inside.get("blob")) or str(number)
        return CursorRecord(message_reading(message.get("role"), message.get("content"), key))
    if "meta" in inside:
        return _about(table(inside["meta"]), table(inside.get("sidecar")))
    return CursorRecord(unknown="record")


def _about(meta: dict[str, Any], sidecar: dict[str, Any]) -> CursorRecord:
    name = text(meta.get("name")) or text(sidecar.get("title"))
    parent = table(meta.get("subagentInfo"))
    facts = SessionFacts(
        title="" if name in _UNNAMED else name,
        model=text(meta.get("lastUsedModel")),
        agent=text(meta.get("mode")),
        cwd=text(sidecar.get("cwd")),
        is_subagent=sidecar.get("isSubagent") is True or bool(parent),
    )
    for key in ("parentAgentId", "parentComposerId", "parentConversationId", "parentId"):
        facts.parent_session_id = facts.parent_session_id or text(parent.get(key))
    return CursorRecord(facts=facts, at=epoch_ms(meta.get("createdAt", sidecar.get("createdAtMs"))))


SOURCE = CursorChats()

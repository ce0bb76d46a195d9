"""The database of Cursor's editor: one key for a conversation, one for each of its messages.

It can be many gigabytes, so it is never read through: conversations and messages are found in
the index of the keys, and a message is read only when its conversation has changed. A key that
is written anew gets a new row number (the table replaces rows), so the numbers of its rows tell
whether a conversation has changed without any value being read.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec

from threadkeep.base.foreign import ForeignDatabase, open_foreign
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import rows, table, text
from threadkeep.sources.cursor_bubbles import ComposerParser, bubble_reading
from threadkeep.sources.cursor_messages import HARNESS
from threadkeep.sources.cursor_places import TABLE, editor_roots
from threadkeep.sources.folders import database_stamp
from threadkeep.sources.raw_json import one_line, stored_object, wrap
from threadkeep.sources.records import DocumentItem, Log, UserHome

_BATCH: Final = 100  # SQLite takes 999 parameters everywhere; big messages come in small hands
# What is kept of a conversation's own record; the rest is context and copies of files.
_KEPT: Final = (
    *("_v", "composerId", "name", "subtitle", "createdAt", "lastUpdatedAt", "status"),
    *("unifiedMode", "forceMode", "isAgentic", "modelConfig", "subComposerIds", "subagentInfo"),
    *("parentComposerId", "isArchived", "isDraft", "isBestOfNSubcomposer", "createdOnBranch"),
    *("workspaceIdentifier", "totalLinesAdded", "totalLinesRemoved", "filesChangedCount"),
)
_COMPOSERS: Final = f"""
    SELECT substr(key, 14), rowid FROM {TABLE}
    WHERE key > 'composerData:' AND key < 'composerData;' ORDER BY key
"""  # noqa: S608  (a constant)
_MESSAGES: Final = f"""
    SELECT count(*), max(rowid) FROM {TABLE} WHERE key > ? AND key < ?
"""  # noqa: S608


class CursorEditor:
    """Reads the global `state.vscdb`."""

    harness = HARNESS
    kind: Literal["lines", "document"] = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into and to watch."""
        return editor_roots(user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the databases."""
        for root in editor_roots(user):
            stamp = database_stamp(root / "state.vscdb", user)
            if stamp is not None:
                yield Log(str(root / "state.vscdb"), stamp)

    def parser(self, log: Log, state: bytes | None) -> ComposerParser:
        """Make a parser that starts afresh, or goes on from a state."""
        return ComposerParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        reading = bubble_reading(table(record), number)
        return [said.entry for said in reading.said] if reading else []

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the conversations, with the numbers of their newest rows."""
        with open_foreign(Path(log.path), root=log.root) as database:
            if TABLE not in database.tables():
                return
            for composer, row in list(database.rows(_COMPOSERS)):
                below = (f"bubbleId:{composer}:", f"bubbleId:{composer};")
                count, newest = next(database.rows(_MESSAGES, below))
                yield DocumentItem(str(composer), f"{row}:{count}:{newest or 0}")

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield what is known about a conversation, then its messages; nothing of an empty one."""
        with open_foreign(Path(log.path), root=log.root) as database:
            if TABLE not in database.tables():
                return
            composer = stored_object(_value(database, f"composerData:{item}"))
            messages = _messages(database, composer, item)
            first = next(messages, None)
            if first is None:
                return
            yield item, msgspec.json.encode(_about(database, composer, item, first[1]))
            yield first
            yield from messages


def _value(database: ForeignDatabase, key: str) -> object:
    found = next(database.rows(f"SELECT value FROM {TABLE} WHERE key = ?", (key,)), None)  # noqa: S608
    return found[0] if found else None


def _about(
    database: ForeignDatabase, composer: dict[str, Any], item: str, first: bytes
) -> dict[str, Any]:
    about = {key: composer[key] for key in _KEPT if composer.get(key) not in (None, "", [], {})}
    about["composerId"] = item
    folder = _folder(about)
    if not folder:
        folder = _folder(_header(database, item)) or _uri_path(_workspace_of(first))
    return {"composer": about, "folder": folder}


def _folder(about: dict[str, Any]) -> str:
    uri = table(table(about.get("workspaceIdentifier")).get("uri"))
    return text(uri.get("fsPath")) or text(uri.get("path"))


def _header(database: ForeignDatabase, item: str) -> dict[str, Any]:
    """Read the short form that newer releases keep in a table of its own."""
    if not {"composerId", "value"} <= set(database.columns("composerHeaders")):
        return {}
    found = next(
        database.rows("SELECT value FROM composerHeaders WHERE composerId = ?", (item,)), None
    )
    return stored_object(found[0]) if found else {}


def _workspace_of(line: bytes) -> str:
    uris = rows(table(stored_object(line).get("bubble")).get("workspaceUris"))
    return text(uris[0]) if uris else ""


def _uri_path(uri: str) -> str:
    return unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else ""


def _messages(
    database: ForeignDatabase, composer: dict[str, Any], item: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the messages in the order the conversation gives, old releases' inline ones too."""
    inline = {
        text(table(bubble).get("bubbleId")) or f"inline-{position}": table(bubble)
        for position, bubble in enumerate(rows(composer.get("conversation")))
    }
    inline |= {key: table(bubble) for key, bubble in table(composer.get("conversationMap")).items()}
    headers = [table(header) for header in rows(composer.get("fullConversationHeadersOnly"))]
    known = {text(header.get("bubbleId")): header for header in headers}
    known.pop("", None)
    order = list(known) or list(inline) or _stored_ids(database, item)
    for start in range(0, len(order), _BATCH):
        some = order[start : start + _BATCH]
        stored = _stored(database, item, some)
        for bubble in some:
            value = stored.get(bubble)
            if value is None and bubble in inline:
                value = msgspec.json.encode(inline[bubble])
            if isinstance(value, (str, bytes)) and value:
                about = {"bubbleId": bubble, "createdAt": known.get(bubble, {}).get("createdAt")}
                yield bubble, wrap(about, "bubble", one_line(value))


def _stored(database: ForeignDatabase, item: str, some: list[str]) -> dict[str, object]:
    marks = ",".join("?" * len(some))
    sql = f"SELECT key, value FROM {TABLE} WHERE key IN ({marks})"  # noqa: S608
    keys = [f"bubbleId:{item}:{bubble}" for bubble in some]
    skip = len(f"bubbleId:{item}:")
    return {str(key)[skip:]: value for key, value in database.rows(sql, keys)}


def _stored_ids(database: ForeignDatabase, item: str) -> list[str]:
    """Name the messages of a conversation that lost its list, in the order they were written."""
    sql = f"SELECT key FROM {TABLE} WHERE key > ? AND key < ? ORDER BY rowid"  # noqa: S608
    prefix = f"bubbleId:{item}:"
    found = database.rows(sql, (prefix, f"bubbleId:{item};"))
    return [str(key)[len(prefix) :] for (key,) in found]


SOURCE = CursorEditor()

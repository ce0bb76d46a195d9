"""The database of Cursor's editor: one key for a conversation, one for each of its messages.

It can be many gigabytes, so it is never read through: conversations and messages are found in
the index of the keys, and a message is read only when its conversation has changed. A key that
is rewritten gets a new row number (the table replaces rows), so the numbers of its rows tell
whether a conversation has changed without any value being read.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec

from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import Segmenter, describe_input, linked, number, rows, table, text
from threadkeep.sources.cursor.messages import (
    AGENT,
    LABEL,
    CursorEntry,
    CursorMessage,
    epoch_ms,
    result_text,
    split_user_text,
    tool_summary,
)
from threadkeep.sources.cursor.paths import TABLE, editor_roots
from threadkeep.sources.files import one_line, stored_object, wrap
from threadkeep.sources.folders import database_stamp
from threadkeep.sources.records import DocumentItem, Harvest, Log, UserHome

# ------------------------------------------------------------------------------
# A conversation of Cursor's editor: its messages, called bubbles there, and what it cost.

_USER, _ASSISTANT = 1, 2
_OLD_TOOL: Final = "15"  # the number under which old releases kept tool calls
_MOST_UNKNOWN: Final = 200


class ComposerParser:
    """Takes the records of one conversation, from the first: the database is a document."""

    def __init__(self, log: Log, state: bytes | None) -> None:  # noqa: ARG002
        """Start afresh: a changed conversation is always read from its beginning."""
        self._segmenter = Segmenter(log, LABEL)
        self._seen_at = log.stamp.mtime_ns // 1_000_000
        self._session = ""
        self._facts: dict[str, SessionFacts] = {}
        self._usage: list[Usage] = []
        self._unknown: dict[str, int] = {}
        self._at: int | None = None

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record: its JSON value, the line it came from, the line's number."""
        inside = table(record)
        if "composer" in inside:
            self._about(inside)
            return []
        reading = bubble_reading(inside, number)
        if reading is None:
            self._count("record")
            return []
        return self._take(reading, table(inside.get("bubble")))

    def harvest(self) -> Harvest:
        """Return what came up since the last call; asking twice changes nothing."""
        usage, self._usage = self._usage, []
        unknown, self._unknown = self._unknown, {}
        facts = self._facts.get(self._session, SessionFacts())
        segments = self._segmenter.take(self._session, facts) if self._session else []
        told = {session: msgspec.structs.replace(known) for session, known in self._facts.items()}
        return Harvest(facts=told, usage=usage, segments=segments, unknown=unknown)

    def state(self) -> bytes:
        """A document needs none: it is read from its beginning."""
        return b""

    def _about(self, record: dict[str, Any]) -> None:
        composer = table(record["composer"])
        self._session = text(composer.get("composerId"))
        self._at = epoch_ms(composer.get("createdAt"))
        if not self._session:
            return
        self._facts[self._session] = _composer_facts(composer, text(record.get("folder")))
        for child in rows(composer.get("subComposerIds")):
            if text(child):
                self._facts[child] = SessionFacts(parent_session_id=self._session, is_subagent=True)

    def _take(self, reading: CursorMessage, bubble: dict[str, Any]) -> list[Entry]:
        for name in reading.unknown:
            self._count(name)
        self._at = reading.at or self._at
        facts = (
            self._facts.setdefault(self._session, SessionFacts())
            if self._session
            else SessionFacts()
        )
        model = text(table(bubble.get("modelInfo")).get("modelName"))
        facts.model = facts.model or model
        for said in reading.said:
            entry = said.entry
            entry.at = entry.at or self._at or self._seen_at
            entry.session_id = self._session
            entry.model = model if entry.role == "assistant" else ""
            shown = entry
            if entry.kind == "tool_call":
                shown = msgspec.structs.replace(entry, text=tool_summary(said.given, entry.text))
            self._segmenter.add(shown, facts)
        self._spend(bubble, reading, model)
        return [said.entry for said in reading.said]

    def _spend(self, bubble: dict[str, Any], reading: CursorMessage, model: str) -> None:
        count = table(bubble.get("tokenCount"))
        input_, output = number(count.get("inputTokens")), number(count.get("outputTokens"))
        if (input_ > 0 or output > 0) and reading.said:
            usage = Usage(reading.said[0].entry.key, self._at, model, input_, output)
            usage.session_id = self._session
            self._usage.append(usage)

    def _count(self, name: str) -> None:
        if name in self._unknown or len(self._unknown) < _MOST_UNKNOWN:
            self._unknown[name] = self._unknown.get(name, 0) + 1


def _composer_facts(composer: dict[str, Any], folder: str) -> SessionFacts:
    model = text(table(composer.get("modelConfig")).get("modelName"))
    parent = table(composer.get("subagentInfo"))
    above = text(parent.get("parentComposerId")) or text(composer.get("parentComposerId"))
    return SessionFacts(
        parent_session_id=above,
        is_subagent=bool(above) or bool(parent),
        title=text(composer.get("name")),
        agent=text(composer.get("unifiedMode")) or text(composer.get("forceMode")),
        model="" if model == "default" else model,
        cwd=folder,
        git_branch=text(composer.get("createdOnBranch")),
    )


def bubble_reading(record: dict[str, Any], number: int) -> CursorMessage | None:
    """Read one message; None if the record is none."""
    bubble = record.get("bubble")
    if not isinstance(bubble, dict):
        return None
    key = text(record.get("bubbleId")) or text(bubble.get("bubbleId")) or str(number)
    timing = table(bubble.get("timingInfo"))
    started = epoch_ms(timing.get("clientStartTime"))
    if started is not None and started < 10**12:
        started = None  # milliseconds since the window was opened
    at = epoch_ms(bubble.get("createdAt")) or epoch_ms(record.get("createdAt")) or started
    if bubble.get("type") == _USER:
        return _numbered(_asked(bubble, at), key, at)
    if bubble.get("type") == _ASSISTANT:
        return _numbered(_answered(bubble, at), key, at)
    return CursorMessage([], at, (f"bubble/{bubble.get('type')}"[:80],))


def _numbered(said: list[CursorEntry], key: str, at: int | None) -> CursorMessage:
    kept = [one for one in said if one.entry.text or one.entry.tool]
    for position, one in enumerate(kept):
        one.entry.key = f"{key}#{position}" if position else key
    return CursorMessage(kept, at)


def _asked(bubble: dict[str, Any], at: int | None) -> list[CursorEntry]:
    turn = split_user_text(text(bubble.get("text")), marked=False)
    given = rows(bubble.get("images"))
    paths = (text(table(one).get("path")) for one in given)
    shown = Entry("", "user", "note", at, "\n".join("[image]" for _ in given))
    shown.images = tuple(linked(path) for path in paths if path)
    return [
        CursorEntry(Entry("", "user", "prompt", at, turn.prompt)),
        CursorEntry(Entry("", "user", "note", at, turn.note)),
        CursorEntry(shown),
    ]


def _answered(bubble: dict[str, Any], at: int | None) -> list[CursorEntry]:
    thoughts = [bubble.get("thinking"), *rows(bubble.get("allThinkingBlocks"))]
    texts = dict.fromkeys(text(t) or text(table(t).get("text")) for t in thoughts)
    thought = "\n".join(filter(None, texts))
    return [
        CursorEntry(Entry("", "assistant", "reasoning", at, thought)),
        CursorEntry(Entry("", "assistant", "text", at, text(bubble.get("text")))),
        *_tool_run(_tool_of(bubble), at),
    ]


def _tool_of(bubble: dict[str, Any]) -> dict[str, Any]:
    found = table(bubble.get("toolFormerData"))
    if found:
        return found
    for capability in rows(bubble.get("capabilities")):
        by_bubble = table(table(table(capability).get("data")).get("bubbleDataMap"))
        if str(table(capability).get("type")) == _OLD_TOOL and by_bubble:
            return table(next(iter(by_bubble.values())))
    return {}


def _tool_run(run: dict[str, Any], at: int | None) -> list[CursorEntry]:
    tool = text(run.get("name")) or (f"tool {run['tool']}"[:80] if "tool" in run else "")
    if not tool:
        return []
    given = _opened(run.get("rawArgs")) or _opened(run.get("params"))
    call_id = text(run.get("toolCallId"))
    failed = run.get("status") == "error" or bool(run.get("error"))
    call = Entry("", "assistant", "tool_call", at, describe_input(given), tool=tool)
    call.call_id, call.input = call_id, given
    outcome = run.get("result") if run.get("result") not in (None, "") else run.get("error")
    result = Entry("", "tool", "tool_result", at, result_text(outcome), tool=tool, error=failed)
    result.call_id = call_id
    ended = failed or outcome not in (None, "") or run.get("status") in ("completed", "cancelled")
    return [CursorEntry(call, given), CursorEntry(result)] if ended else [CursorEntry(call, given)]


def _opened(stored: object) -> object:
    """Open arguments that were stored as JSON inside JSON."""
    if not isinstance(stored, str):
        return stored
    try:
        found = decode_line(stored.encode("utf-8", "replace"))
    except Invalid:
        return stored
    return found[0] if len(found) == 1 else stored


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

    agent = AGENT
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
        """Make a parser that starts afresh, or continues from a state."""
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

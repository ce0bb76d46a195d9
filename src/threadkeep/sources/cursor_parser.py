"""The parser of Cursor's conversations, for every place that keeps whole messages."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.common import table
from threadkeep.sources.cursor_messages import LABEL, CursorEntry, CursorMessage, tool_summary
from threadkeep.sources.cursor_places import ancestor_with, encode, is_absolute
from threadkeep.sources.records import Harvest, Log
from threadkeep.sources.segments import OpenSegment, Segmenter, last_component

_PATH_KEYS: Final = frozenset(
    (
        *("cwd", "filePath", "file_path", "path", "targetFile", "target_directory"),
        *("workingDirectory", "working_directory"),
    )
)
_COMMAND_CHARACTERS: Final = 2_000
_MOST_UNKNOWN: Final = 200


class CursorRecord(msgspec.Struct):
    """What a record of a source held: a message, or facts about the session."""

    reading: CursorMessage | None = None
    facts: SessionFacts | None = None
    at: int | None = None  # a time the record itself gives, for what has none
    unknown: str = ""


class _State(msgspec.Struct):
    open: OpenSegment
    facts: SessionFacts
    at: int | None = None  # the last time that was told
    settled: bool = False  # a path has shown the folder
    fed: bool = False


class CursorParser:
    """Takes the records of one conversation in order.

    The folder is what the log's place says, until a tool's input names a path below a folder
    that encodes to exactly the project's slug: that one is right.
    """

    def __init__(
        self,
        log: Log,
        state: bytes | None,
        read: Callable[[Any, int], CursorRecord],
        slug: str = "",
    ) -> None:
        """Start afresh or go on; `read` takes one record apart."""
        self._log = log
        self._read = read
        self._slug = encode(slug)
        self._state = msgspec.msgpack.decode(state, type=_State) if state else _fresh(log)
        self._segmenter = Segmenter(log, LABEL, self._state.open)
        self._unknown: dict[str, int] = {}

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record: its JSON value, the line it came from, the line's number."""
        found = self._read(record, number)
        self._state.fed = True
        if found.unknown:
            self._count(found.unknown)
        if found.facts is not None:
            self._state.facts = merged(self._state.facts, found.facts)
        if found.at is not None:
            self._state.at = found.at
        if found.reading is None:
            return []
        return self._take(found.reading)

    def harvest(self) -> Harvest:
        """Give what came up since the last call; asking twice changes nothing."""
        session, facts = self._log.session_id, self._state.facts
        unknown, self._unknown = self._unknown, {}
        segments = self._segmenter.take(session, facts)
        told = {session: msgspec.structs.replace(facts)} if self._state.fed else {}
        return Harvest(facts=told, segments=segments, unknown=unknown)

    def state(self) -> bytes:
        """Give what a new parser needs to go on from here."""
        self._state.open = self._segmenter.open
        return msgspec.msgpack.encode(self._state)

    def _take(self, reading: CursorMessage) -> list[Entry]:
        for name in reading.unknown:
            self._count(name)
        if reading.at is not None:
            self._state.at = reading.at
        index, messages = self._segmenter.open.index, self._segmenter.open.messages
        for said in reading.said:
            self._add(said, told=reading.at is not None)
        current = self._segmenter.open
        if not reading.counts:
            current.messages = messages
        elif current.index >= 0:  # a message counts once, however many blocks it has
            current.messages = messages + 1 if current.index == index else 1
        return [said.entry for said in reading.said]

    def _add(self, said: CursorEntry, *, told: bool) -> None:
        entry = said.entry
        known = entry.at is not None or told
        if entry.at is None:
            entry.at = self._state.at or self._log.stamp.mtime_ns // 1_000_000
        if entry.kind == "tool_call":
            self._look_for_folder(said.given)
            summary = tool_summary(said.given, entry.text)
            entry = msgspec.structs.replace(entry, text=summary)
        self._segmenter.add(entry, self._state.facts)
        if entry.kind == "prompt" and not known:
            # When a file was written says nothing about the time between two prompts in it.
            self._segmenter.open.last_prompt = None

    def _look_for_folder(self, given: object) -> None:
        if self._state.settled or not self._slug:
            return
        for path in _paths(table(given)):
            folder = ancestor_with(self._slug, path)
            if folder:
                self._state.settled = True
                self._state.facts.cwd = folder
                if self._segmenter.open.index >= 0:
                    self._segmenter.open.project_dir = last_component(folder)
                return

    def _count(self, name: str) -> None:
        if name in self._unknown or len(self._unknown) < _MOST_UNKNOWN:
            self._unknown[name] = self._unknown.get(name, 0) + 1


def _fresh(log: Log) -> _State:
    facts = SessionFacts(cwd=log.project_dir, is_subagent=log.is_subagent)
    facts.parent_session_id = log.parent_session_id or ""
    return _State(OpenSegment(), facts)


def merged(old: SessionFacts, new: SessionFacts) -> SessionFacts:
    """Lay new facts over old ones: what is empty says nothing."""
    told = {name: value for name, value in msgspec.structs.asdict(new).items() if value}
    return msgspec.structs.replace(old, **told)


def _paths(given: dict[str, Any]) -> Iterator[str]:
    """Yield the absolute paths that a tool's input names."""
    for key, value in given.items():
        if not isinstance(value, str):
            continue
        if key in _PATH_KEYS and is_absolute(value):
            yield value
        elif key in {"command", "cmd"}:
            words = (word.strip("'\"`();,=") for word in value[:_COMMAND_CHARACTERS].split())
            yield from (word for word in words if is_absolute(word))

"""Gemini CLI: one line log per session, in which a message is written again when it changes.

The same id again means the same message, now with more in it: its entries have the same keys and
replace the earlier ones. A line can also hold all messages again (`$set`), or say that the
conversation went back to an earlier one (`$rewindTo`); what was said before stays archived.

Segments must not count a message twice. So the messages since the last prompt are held back, by
id, and taken into the segments when the next prompt shows that they are complete.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, Kind, Usage
from threadkeep.sources.common import (
    PROMPT_CHARACTERS,
    TEXT_CHARACTERS,
    TOOL_CHARACTERS,
    Gatherer,
    GathererState,
    OpenSegment,
    Segmenter,
    begun,
    describe_input,
    iso_ms,
    number as count,
    pictures,
    plain,
    rows,
    strange_name,
    table,
    text,
)
from threadkeep.sources.copy_marks import marked, read_mark
from threadkeep.sources.folders import files_below, folders_in
from threadkeep.sources.records import DocumentItem, Harvest, Log, Stamp, UserHome

LABEL: Final = "Gemini CLI"
_HASH: Final = re.compile("[0-9a-f]{64}")
_REFERENCED: Final = "--- Content from referenced files ---"
# What the program itself says in the person's name.
_INJECTED: Final = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
)
SNAPSHOT: Final = "<state_snapshot>"  # what a compression left
_LENGTHS: Final[dict[Kind, int]] = {
    "prompt": PROMPT_CHARACTERS,
    "text": TEXT_CHARACTERS,
    "tool_call": TOOL_CHARACTERS,
}


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    fields = table(part)
    if "inlineData" in fields or "fileData" in fields:
        return "[image]"
    return text(fields.get("text"))


def _parts(content: object) -> list[str]:
    """The texts of a content: a text, a part, or a list of parts."""
    return [_part_text(part) for part in (content if isinstance(content, list) else [content])]


def _user(fields: dict[str, Any], key: str, at: int | None) -> list[Entry]:
    """What was typed, and apart from it the files that the program put behind it."""
    parts = _parts(fields.get("content"))
    cut = next((i for i, part in enumerate(parts) if part.strip() == _REFERENCED), len(parts))
    typed = "".join(_parts(fields.get("displayContent"))) or "".join(parts[:cut])
    images = pictures(fields.get("content"))
    found = []
    if typed.strip():
        found.append(Entry(key, "user", _kind_of(typed), at, typed, images=images))
    referenced = "".join(parts[cut:])
    if referenced:
        found.append(Entry(f"{key}#context", "user", "note", at, referenced))
    return found


def _kind_of(typed: str) -> Kind:
    begin = typed[:200].lstrip()
    if begin.startswith(SNAPSHOT):
        return "summary"
    return "note" if begin.startswith(_INJECTED) else "prompt"


def _answer(fields: dict[str, Any], key: str, at: int | None) -> list[Entry]:
    # The keys do not count the blocks: thoughts and calls come into a message one by one.
    model = text(fields.get("model"))
    thoughts, said = _thoughts(fields), "".join(_parts(fields.get("content")))
    found = []
    if thoughts:
        found.append(Entry(f"{key}#thoughts", "assistant", "reasoning", at, thoughts, model=model))
    if said.strip():
        images = pictures(fields.get("content"))
        found.append(Entry(key, "assistant", "text", at, said, model=model, images=images))
    for place, call in enumerate(map(table, rows(fields.get("toolCalls")))):
        found += _call(call, f"{key}#{text(call.get('id')) or place}", at, model)
    return found


def _thoughts(fields: dict[str, Any]) -> str:
    found = []
    for thought in map(table, rows(fields.get("thoughts"))):
        lines = (text(thought.get("subject")), text(thought.get("description")))
        found.append("\n".join(filter(None, lines)))
    return "\n\n".join(filter(None, found))


def _call(call: dict[str, Any], key: str, at: int | None, model: str) -> list[Entry]:
    tool, own, when = text(call.get("name")), text(call.get("id")), iso_ms(call.get("timestamp"))
    given = describe_input(call.get("args"))
    asked = Entry(key, "assistant", "tool_call", at, given, tool=tool, call_id=own, model=model)
    asked.input = call.get("args")
    result = call.get("result")
    shown = _result_text(result) or text(call.get("resultDisplay"))
    if result is None and not shown:
        return [asked]
    failed = text(call.get("status")) in {"error", "cancelled"}
    came = Entry(
        f"{key}:out", "tool", "tool_result", when or at, shown, tool=tool, call_id=own, error=failed
    )
    came.images = pictures(result)
    return [asked, came]


def _result_text(result: object) -> str:
    parts = result if isinstance(result, list) else [result]
    return "\n".join(filter(None, map(_result_part, parts)))


def _result_part(part: object) -> str:
    answer = table(part).get("functionResponse")
    if answer is None:
        return _part_text(part)
    response = table(answer).get("response")
    fields = table(response)
    told = next((fields[name] for name in ("output", "error") if name in fields), response)
    return told if isinstance(told, str) else describe_input(told)


def _notice(fields: dict[str, Any], key: str, at: int | None) -> list[Entry]:
    shown = "".join(_parts(fields.get("content")))
    failed = fields.get("type") == "error"
    return [Entry(key, "system", "note", at, shown, error=failed)] if shown.strip() else []


_READERS: Final = {
    "user": _user,
    "gemini": _answer,
    "info": _notice,
    "error": _notice,
    "warning": _notice,
}


def _message_entries(fields: dict[str, Any], key: str, strange: list[str]) -> list[Entry]:
    reader = _READERS.get(text(fields.get("type")))
    if reader is None:
        strange.append(strange_name(fields, "message", fields.get("type")))
        return []
    return marked(reader(fields, key, iso_ms(fields.get("timestamp"))), read_mark(fields))


def _messages(record: object, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the messages of a record with their keys: itself one, or a list of them, or none."""
    fields = table(record)
    if text(fields.get("id")):
        yield text(fields.get("id")), fields
        return
    for place, message in enumerate(rows(_about(fields).get("messages"))):
        yield text(table(message).get("id")) or f"{number}.{place}", table(message)


def _about(fields: dict[str, Any]) -> dict[str, Any]:
    """What a record says about the session itself: the header, or a later change."""
    return table(fields.get("$set")) if "$set" in fields else fields


def _is_known(record: object) -> bool:
    fields = table(record)
    return not fields.keys().isdisjoint({"id", "$set", "$rewindTo", "sessionId"})


def entries_of(record: object, number: int) -> list[Entry]:
    """Read one record alone."""
    return [
        entry
        for key, message in _messages(record, number)
        for entry in _message_entries(message, key, [])
    ]


def _usage(message: dict[str, Any], key: str) -> Usage:
    tokens = table(message.get("tokens"))
    names = ("input", "output", "cached", "thoughts", "tool")
    given, output, cached, thoughts, tool = (max(0, count(tokens.get(name))) for name in names)
    return Usage(
        key=key,
        at=iso_ms(message.get("timestamp")),
        model=text(message.get("model")),
        input=max(0, given - cached) + tool,
        output=output + thoughts,
        cache_read=cached,
        reasoning=thoughts,
    )


class _State(msgspec.Struct):
    kept: GathererState
    held: dict[str, list[Entry]] = {}  # since the last prompt, as far as segments need them
    seen: list[int] = []  # hashes of all messages' ids


def _project_name(log: Log) -> str:
    """Return the short name of a project; older versions have only a hash of its folder."""
    return "" if _HASH.fullmatch(log.project_dir) else log.project_dir


class GeminiParser:
    """Reads one session, from its line log or from the records of a document."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        self._log = log
        before = msgspec.msgpack.decode(state, type=_State) if state else _State(begun(log))
        self._gatherer = Gatherer(log, LABEL, before.kept)
        self._held = before.held
        self._seen = set(before.seen)

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record."""
        del line
        if not _is_known(record):
            self._gatherer.wonder([strange_name(record)])
            return []
        fields = table(record)
        if not text(fields.get("id")):
            self._learn(_about(fields))
        strange: list[str] = []
        found: list[Entry] = []
        for key, message in _messages(record, number):
            entries = _message_entries(message, key, strange)
            self._take(key, message, entries)
            found += entries
        self._gatherer.wonder(strange)
        return self._gatherer.stamp(found)

    def _learn(self, about: dict[str, Any]) -> None:
        facts, own = self._gatherer.facts, text(about.get("sessionId"))
        self._gatherer.session_id = own or self._gatherer.session_id
        facts.is_subagent = facts.is_subagent or about.get("kind") == "subagent"
        facts.title = text(about.get("summary")) or facts.title
        folders = rows(about.get("directories"))
        facts.cwd = text(folders[0]) if folders else facts.cwd
        facts.began_in = facts.cwd or _project_name(self._log)

    def _take(self, key: str, message: dict[str, Any], entries: list[Entry]) -> None:
        facts = self._gatherer.facts
        facts.model = text(message.get("model")) or facts.model
        if "tokens" in message:
            own = text(message.get("id")) or f"{self._gatherer.session_id}:{key}"
            self._gatherer.spend(_usage(message, own))
        known = int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=8).digest())
        if known not in self._seen:
            self._seen.add(known)
            if any(entry.kind == "prompt" for entry in entries):
                self._settle()
            self._held[key] = _shortened(entries)
        elif key in self._held:
            self._held[key] = _shortened(entries)

    def _settle(self) -> None:
        for entries in self._held.values():
            self._gatherer.keep(entries)
        self._held = {}

    def harvest(self) -> Harvest:
        """Return what came up since the last call; the open segment with what is held back."""
        found = self._gatherer.harvest()
        session, facts = self._gatherer.session_id, self._gatherer.facts
        preview = Segmenter(self._log, LABEL, _copied(self._gatherer.segmenter.open))
        for entries in self._held.values():
            for entry in entries:
                preview.add(entry, facts)
        newest = {segment.index: segment for segment in found.segments}
        newest.update({segment.index: segment for segment in preview.take(session, facts)})
        found.segments = list(newest.values())
        return found

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        kept = self._gatherer.kept()
        return msgspec.msgpack.encode(_State(kept, self._held, sorted(self._seen)))


def _shortened(entries: list[Entry]) -> list[Entry]:
    """Keep what a segment needs of entries, so that the state stays small; of copies nothing."""
    found = []
    for entry in entries:
        length = _LENGTHS.get(entry.kind, 0)
        shown = entry.text[: 2 * length].strip()[:length]
        if not entry.origin:
            found.append(Entry(entry.key, entry.role, entry.kind, entry.at, shown, tool=entry.tool))
    return found


def _copied(slice_: OpenSegment) -> OpenSegment:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(slice_), type=OpenSegment)


def roots(user: UserHome) -> list[Path]:
    """Name the folders that hold a folder per project."""
    moved = user.env.get("GEMINI_CLI_HOME")
    places = [Path(moved)] if moved else []
    return [place / ".gemini" / "tmp" for place in (*places, user.home)]


def chats(folders: Iterable[Path], user: UserHome) -> dict[Path, Log]:
    """Find the files of all sessions, in both forms, sorted by path."""
    found: dict[Path, Log] = {}
    for root in folders:
        for project in folders_in(root, user, is_root=True):
            chats = files_below(project / "chats", user, ".jsonl", ".json", depth=1)
            for path, stamp in chats:
                found[path] = _log(path, stamp, project)
    return {path: found[path] for path in sorted(found)}


def _log(path: Path, stamp: Stamp, project: Path) -> Log:
    """A subagent's file lies in a folder that is named for its parent's session."""
    parent = plain(path.parent.name) if path.parent.name != "chats" else None
    return Log(str(path), stamp, plain(path.stem), plain(project.name), parent, parent is not None)


class GeminiSource:
    """The sessions of Gemini CLI that are kept as line logs."""

    agent: Final = "gemini-cli"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into."""
        return roots(user)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the sessions' line logs."""
        return (log for path, log in chats(roots(user), user).items() if path.suffix == ".jsonl")

    def parser(self, log: Log, state: bytes | None) -> GeminiParser:
        """Make a parser for one file."""
        return GeminiParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return entries_of(record, number)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """A line log has none."""
        del log
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """A line log has none."""
        del log, item
        return ()


SOURCE: Final = GeminiSource()

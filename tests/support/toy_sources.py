"""Two sources with nothing of their own to hide, to test capture itself: lines, and documents."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.errors import NotFound
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import OpenSegment, Segmenter
from threadkeep.sources.folders import files_below
from threadkeep.sources.records import DocumentItem, Harvest, Log, Parser, UserHome

Record = dict[str, Any]
KINDS: Final = {"prompt": "user", "text": "assistant", "tool_call": "assistant"}


class State(msgspec.Struct):
    open: OpenSegment
    facts: SessionFacts
    session: str = ""  # if the log names it


class ToyParser:
    """Each record is one entry, or tells something about the session."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        self._state = (
            State(OpenSegment(), SessionFacts())
            if state is None
            else msgspec.json.decode(state, type=State)
        )
        self._log = log
        self._segments = Segmenter(log, "Toy", self._state.open)
        self._usage: list[Usage] = []
        self._unknown: dict[str, int] = {}

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        if not isinstance(record, dict):
            return []
        if "boom" in record:
            raise KeyError(record["boom"])
        facts = self._state.facts
        facts.cwd = record.get("cwd", facts.cwd)
        facts.title = record.get("title") or facts.title
        self._state.session = record.get("session", self._state.session)
        if "usage" in record:
            self._usage.append(
                Usage(record["id"], record.get("at"), "toy-1", output=record["usage"])
            )
        if "kind" in record and record["kind"] not in KINDS:
            name = str(record["kind"])
            self._unknown[name] = self._unknown.get(name, 0) + 1
        found = entries_of(record, number)
        for entry in found:
            self._segments.add(entry, facts)
        return found

    def harvest(self) -> Harvest:
        facts = self._state.facts
        usage, self._usage = self._usage, []
        unknown, self._unknown = self._unknown, {}
        return Harvest(
            facts={self._state.session: facts} if facts != SessionFacts() else {},
            usage=usage,
            segments=self._segments.take(self._state.session or self._log.session_id, facts),
            unknown=unknown,
        )

    def state(self) -> bytes:
        self._state.open = self._segments.open
        return msgspec.json.encode(self._state)


def entries_of(record: Any, number: int) -> list[Entry]:
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        return []
    key = record.get("id") or f"line-{number}"
    kind, text = record["kind"], record.get("text", "")
    return [
        Entry(
            key,
            KINDS[kind],  # type: ignore[arg-type]
            kind,
            record.get("at"),
            text,
            session_id=record.get("session", ""),
            tool=record.get("tool", ""),
            error=record.get("error", False),
        )
    ]


class ToyLines:
    """One JSON record on each line of `logs/**/*.jsonl`, or of the same compressed."""

    agent: Final = "pi"
    kind: Final = "lines"

    def roots(self, user: UserHome) -> list[Path]:
        return [user.home / "logs"]

    def find(self, user: UserHome) -> Iterator[Log]:
        for path, stamp in files_below(
            user.home / "logs", user, ".jsonl", ".jsonl.zst", is_root=True
        ):
            yield Log(str(path), stamp, path.name.partition(".")[0], path.parent.name)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        return ToyParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        return entries_of(record, number)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        return ()


class ToyDocuments:
    """Sessions in `docs/*.json`: {session: {key: record}}; tells what was opened."""

    agent: Final = "aider"
    kind: Final = "document"

    def __init__(self) -> None:
        self.opened: list[str] = []

    def roots(self, user: UserHome) -> list[Path]:
        return [user.home / "docs"]

    def find(self, user: UserHome) -> Iterator[Log]:
        for path, stamp in files_below(user.home / "docs", user, ".json", is_root=True):
            yield Log(str(path), stamp, project_dir=path.parent.name)

    def parser(self, log: Log, state: bytes | None) -> Parser:
        return ToyParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        return entries_of(record, number)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        for session, records in self._read(log).items():
            yield DocumentItem(session, digest(json.dumps(records).encode()).hex())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        for key, record in self._read(log)[item].items():
            line = record if isinstance(record, str) else json.dumps(record)
            yield key, line.encode()

    def _read(self, log: Log) -> dict[str, dict[str, Any]]:
        self.opened.append(log.path)
        try:
            found: dict[str, dict[str, Any]] = json.loads(Path(log.path).read_bytes())
        except FileNotFoundError:
            raise NotFound(f"{log.path} is gone", hint="what was read of it is kept") from None
        return found


def line(**record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


def said(number: int, text: str = "", **more: Any) -> bytes:
    """Return the line of one entry: every third is a prompt, a minute after the one before."""
    kind = ("prompt", "text", "tool_call")[number % 3]
    return line(
        id=f"e{number}", kind=kind, text=text or f"word{number}", at=number * 60_000, **more
    )


def conversation(count: int, start: int = 0, **more: Any) -> bytes:
    return b"".join(said(number, **more) for number in range(start, start + count))


def stamp_back(path: Path, moment: int) -> None:
    """Let a file look as if it had been written at a moment, given in milliseconds."""
    os.utime(path, ns=(moment * 1_000_000, moment * 1_000_000))

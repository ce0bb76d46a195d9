"""What every parser with the common rules for segments needs beside its own reading."""

import os
from collections.abc import Iterable
from typing import Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import text
from threadkeep.sources.records import Harvest, Log
from threadkeep.sources.segments import OpenSegment, Segmenter

_UNKNOWN_NAMES: Final = 200
_NAME_CHARACTERS: Final = 80


class GathererState(msgspec.Struct):
    """What a gatherer needs to go on after a restart."""

    session_id: str
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)
    open: OpenSegment = msgspec.field(default_factory=OpenSegment)
    fed: bool = False  # before the first record the path alone says whose this is


class Gatherer:
    """Collects what comes up beside the entries of one session: facts, usage, segments."""

    def __init__(self, log: Log, label: str, kept: GathererState | None = None) -> None:
        """Start afresh or go on; `label` names the program in the summaries."""
        self._log = log
        kept = kept or begun(log)
        self.session_id = kept.session_id
        self.facts = kept.facts
        self.segmenter = Segmenter(log, label, kept.open)
        self._fed = kept.fed
        self._usage: list[Usage] = []
        self._unknown: dict[str, int] = {}

    def stamp(self, entries: list[Entry]) -> list[Entry]:
        """Say of each entry whose it is, if the log's path does not say so already."""
        self._fed = True
        if self.session_id != self._log.session_id:
            for entry in entries:
                entry.session_id = self.session_id
        return entries

    def keep(self, entries: list[Entry]) -> list[Entry]:
        """Take the entries of a record into the segments, and give them stamped."""
        for entry in entries:
            self.segmenter.add(entry, self.facts)
        return self.stamp(entries)

    def spend(self, usage: Usage | None) -> None:
        """Take what an answer cost; nothing is no answer."""
        if usage and (usage.input or usage.output or usage.cache_read or usage.cache_write):
            self._usage.append(usage)

    def wonder(self, names: Iterable[str]) -> None:
        """Count record types that are not known here."""
        for name in names:
            short = name[:_NAME_CHARACTERS]
            if short in self._unknown or len(self._unknown) < _UNKNOWN_NAMES:
                self._unknown[short] = self._unknown.get(short, 0) + 1

    def harvest(self) -> Harvest:
        """Give what came up since the last call."""
        usage, self._usage = self._usage, []
        unknown, self._unknown = self._unknown, {}
        for row in usage:
            row.session_id = self.session_id
        return Harvest(
            facts={self.session_id: msgspec.structs.replace(self.facts)} if self._fed else {},
            usage=usage,
            segments=self.segmenter.take(self.session_id, self.facts),
            unknown=unknown,
        )

    def kept(self) -> GathererState:
        """Give what a new gatherer needs to go on from here."""
        return GathererState(self.session_id, self.facts, self.segmenter.open, self._fed)


def begun(log: Log) -> GathererState:
    """Give what is known of a session before its first record."""
    parent = log.parent_session_id or ""
    return GathererState(
        log.session_id, SessionFacts(parent_session_id=parent, is_subagent=log.is_subagent)
    )


def plain(name: str) -> str:
    """Make a file's name a text that any store can hold: a name may be any bytes."""
    return os.fsencode(name).decode("utf-8", "replace")


def strange_name(record: object, *names: object) -> str:
    """Name a record that is not known: by its type, and what is narrower."""
    if not isinstance(record, dict):
        return f"({type(record).__name__})"
    return "/".join(name for name in map(text, names) if name) or "(no type)"


def numbered(entries: list[Entry], key: str) -> list[Entry]:
    """Give the entries of one record their keys: the record's own, then with a number."""
    for place, entry in enumerate(entries):
        entry.key = f"{key}#{place}" if place else key
    return entries

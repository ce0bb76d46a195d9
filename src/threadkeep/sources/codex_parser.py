"""Codex: reads the lines of one rollout in order, and keeps what the next lines need."""

from collections import Counter
from pathlib import PurePath
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.codex_facts import (
    cwd_in,
    first_index_of,
    is_copy_of_older,
    learn_from_meta,
    origin_of,
)
from threadkeep.sources.codex_items import CodexRecord, entries_of, is_known_item, unwrap
from threadkeep.sources.codex_paths import storable
from threadkeep.sources.codex_segments import for_segment, list_call
from threadkeep.sources.codex_types import is_known_event, is_quiet, strange_blocks
from threadkeep.sources.codex_usage import CodexUsageState, from_record, from_token_count
from threadkeep.sources.common import table, text
from threadkeep.sources.records import Harvest, Log
from threadkeep.sources.segments import OpenSegment, Segmenter

_NAME: Final = 80
_NAMES: Final = 200
_HEARD: Final = 500


class _State(msgspec.Struct):
    """Everything a parser knows; a row of the database holds it between two looks."""

    session_id: str = ""  # from the log's own meta
    origin: str = ""  # the thread in which the running totals began
    copied: bool = False  # what comes now was copied from another thread
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)
    open: OpenSegment = msgspec.field(default_factory=OpenSegment)
    tokens: int = 0  # spent in the open segment
    spent: CodexUsageState = msgspec.field(default_factory=CodexUsageState)
    now: int = 0  # the last time that a record told
    has_items: bool = False
    waiting: int = 0  # prompts whose event has not come yet
    heard: str = ""  # the end of a prompt that only an event has told so far
    called_subagent: bool = False  # in summaries; decided before the first segment
    first_index: int = 0  # of the segments


class CodexParser:
    """Reads the lines of one log in order."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        """Start afresh, or go on from a state."""
        self._log = log
        self._known = msgspec.json.decode(state, type=_State) if state else _State()
        self._segmenter = self._new_segmenter()
        self._closed_tokens: dict[int, int] = {}
        self._learned = False
        self._usage: list[Usage] = []
        self._unknown: Counter[str] = Counter()

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Take the next record."""
        known, seen = self._known, unwrap(record)
        if seen.at is not None:
            known.now = max(known.now, seen.at)
        if seen.mark is not None:
            known.facts.continues, self._learned = seen.mark.continues, True
        self._notice(seen)
        found = entries_of(seen, line)
        if found:
            found = self._without_twins(seen, found)
        for entry in found:
            self._cut(entry, seen.body)
        return found

    def harvest(self) -> Harvest:
        """Give what came up since the last call."""
        known = self._known
        session_id = known.session_id or self._log.session_id
        facts = {session_id: msgspec.structs.replace(known.facts)} if self._learned else {}
        harvest = Harvest(
            facts=facts,
            usage=self._usage,
            segments=self._segments(session_id),
            unknown=dict(self._unknown),
        )
        self._usage, self._unknown, self._learned = [], Counter(), False
        return harvest

    def state(self) -> bytes:
        """Give what a new parser needs to go on from here."""
        self._known.open = self._segmenter.open
        return msgspec.json.encode(self._known)

    # ------------------------------------------------------------------ beside the conversation

    def _notice(self, seen: CodexRecord) -> None:
        kind, body = seen.kind, seen.body
        if kind == "response_item":
            self._notice_item(body)
        elif kind == "event_msg":
            self._notice_event(seen)
        elif kind == "session_meta":
            self._meta(body)
        elif kind == "turn_context":
            self._turn(body)
        elif kind == "token_usage_record":
            spent = from_record(body, self._known.spent, self._known.session_id)
            self._spend(spent, seen.at)
        elif not is_quiet(kind):
            self._count_unknown(kind or "no type")

    def _notice_item(self, body: dict[str, Any]) -> None:
        self._known.has_items = True
        name = text(body.get("type"))
        if not is_known_item(name):
            self._count_unknown(f"response_item/{name}")
        elif name == "message":
            for block in strange_blocks(body.get("content")):
                self._count_unknown(f"message/{block}")

    def _notice_event(self, seen: CodexRecord) -> None:
        known, body = self._known, seen.body
        name = text(body.get("type"))
        if name == "token_count":
            origin = known.origin or known.session_id or self._log.session_id
            self._spend(from_token_count(body, known.spent, origin), seen.at)
        elif name == "task_started":
            self._begin_turn(body)
        elif name == "thread_name_updated":
            known.facts.title = text(body.get("thread_name")) or known.facts.title
            self._learned = True
        elif not is_known_event(name, body):
            inner = text(table(body.get("item")).get("type"))
            self._count_unknown(f"event_msg/{name}/{inner}" if inner else f"event_msg/{name}")

    def _meta(self, meta: dict[str, Any]) -> None:
        """Learn from the log's own meta; those of copied records tell only whose copy it is."""
        known = self._known
        own = text(meta.get("id"))
        known.origin = origin_of(meta, known.session_id or self._log.session_id)
        known.copied = known.copied or known.origin != (known.session_id or own)
        if known.session_id and own != known.session_id:
            return
        known.session_id = own
        known.first_index = first_index_of(meta)
        learn_from_meta(known.facts, meta)
        self._learned = True
        if self._segmenter.open.index < 0 and known.facts.is_subagent:
            known.called_subagent = True
            self._segmenter = self._new_segmenter()

    def _begin_turn(self, turn: dict[str, Any]) -> None:
        known = self._known
        if known.copied:
            known.copied = is_copy_of_older(text(turn.get("turn_id")), known.session_id)

    def _turn(self, turn: dict[str, Any]) -> None:
        self._begin_turn(turn)
        facts = self._known.facts
        model, cwd = text(turn.get("model")) or facts.model, text(turn.get("cwd")) or facts.cwd
        self._learned = self._learned or (model, cwd) != (facts.model, facts.cwd)
        facts.model, facts.cwd = model, cwd
        facts.began_in = facts.began_in or cwd
        if cwd and self._segmenter.open.index >= 0:
            self._segmenter.open.cwd = cwd

    def _spend(self, usage: Usage | None, at: int | None) -> None:
        if usage is None:
            return
        known = self._known
        usage.at, usage.model = at, known.facts.model
        own = known.origin if known.copied else known.session_id
        usage.session_id = usage.session_id or own or self._log.session_id
        self._usage.append(usage)
        if self._segmenter.open.index >= 0 and not known.copied:
            known.tokens += usage.output

    def _count_unknown(self, name: str) -> None:
        name = name[:_NAME]
        if name in self._unknown or len(self._unknown) < _NAMES:
            self._unknown[name] += 1

    # ------------------------------------------------------------------ told once

    def _without_twins(self, seen: CodexRecord, found: list[Entry]) -> list[Entry]:
        """Drop what was told already: each prompt comes as an item, then as an event.

        An event counts only if no item waits for it. Should its item come behind it after all,
        with the same words, then it is the item that does not count.
        """
        known, name = self._known, seen.body.get("type")
        if seen.kind == "response_item":
            if name == "message" and found[-1].kind == "prompt":
                return self._from_item(found)
        elif seen.kind == "event_msg":
            if found[0].kind == "prompt":
                return self._from_event(found)
            if found[0].kind == "text" and known.has_items:
                return []
        self._place(found)
        return found

    def _from_item(self, found: list[Entry]) -> list[Entry]:
        known = self._known
        said = found[-1].text.strip()[-_HEARD:]
        if known.heard and said and (known.heard.endswith(said) or said.endswith(known.heard)):
            known.heard = ""
            found = found[:-1]
        else:
            known.waiting += 1
        self._place(found)
        return found

    def _from_event(self, found: list[Entry]) -> list[Entry]:
        known = self._known
        if known.waiting:
            known.waiting -= 1
            return []
        known.heard = found[0].text.strip()[-_HEARD:]
        self._place(found)
        return found

    def _place(self, found: list[Entry]) -> None:
        session_id = self._known.session_id
        if session_id and session_id != self._log.session_id:
            for entry in found:
                entry.session_id = session_id

    # ------------------------------------------------------------------ segments

    def _new_segmenter(self) -> Segmenter:
        known = self._known
        log = msgspec.structs.replace(self._log, is_subagent=known.called_subagent)
        return Segmenter(log, "Codex", known.open)

    def _cut(self, entry: Entry, body: dict[str, Any]) -> None:
        known, segmenter = self._known, self._segmenter
        if entry.kind == "note":
            # Context comes before the prompt of its turn: it must not stretch the segment before.
            self._find_folder(entry.text)
            return
        if known.copied or entry.origin:
            return  # there is nothing new to learn from it
        before = segmenter.open.index
        segmenter.add(for_segment(entry, known.now), self._placed_facts())
        if entry.kind == "tool_call":
            list_call(body, segmenter.open)
        if segmenter.open.index != before:
            self._closed_tokens[before] = known.tokens
            known.tokens = 0

    def _find_folder(self, context: str) -> None:
        facts = self._known.facts
        if not facts.cwd and "environment_context" in context[:100]:
            facts.cwd = cwd_in(context)
            self._learned = self._learned or bool(facts.cwd)

    def _placed_facts(self) -> SessionFacts:
        """Give the facts with the folder of the log where nothing tells another."""
        facts = self._known.facts
        if facts.cwd:
            return facts
        return msgspec.structs.replace(facts, cwd=storable(str(PurePath(self._log.path).parent)))

    def _segments(self, session_id: str) -> list[Segment]:
        segments = self._segmenter.take(session_id, self._known.facts)
        tokens = {**self._closed_tokens, self._segmenter.open.index: self._known.tokens}
        for segment in segments:
            segment.tokens = tokens.get(segment.index, 0)
            segment.index += self._known.first_index
        self._closed_tokens.clear()
        return segments

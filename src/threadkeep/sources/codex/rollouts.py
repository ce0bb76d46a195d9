"""Codex: the rollouts of OpenAI's coding agent, one file of lines for each thread."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.knowledge.records import Entry, Segment, SessionFacts, Usage
from threadkeep.sources.codex.items import (
    CodexRecord,
    entries_of,
    for_segment,
    is_known_item,
    list_call,
    unwrap,
)
from threadkeep.sources.codex.threads import (
    codex_homes,
    cwd_in,
    find_rollouts,
    first_index_of,
    is_copy_of_older,
    learn_from_meta,
    origin_of,
    rollout_folders,
    storable,
)
from threadkeep.sources.common import OpenSegment, Segmenter, number, rows, table, text
from threadkeep.sources.records import DocumentItem, Harvest, Log, UserHome

# ------------------------------------------------------------------------------
# Codex: what the answers cost, from two kinds of records that say the same.
#
# Newer logs have a `token_usage_record` for each answer, with an id. Older ones have `token_count`
# events with running totals; they come again and again without new spending, so only those whose
# total has moved count. In a log that has both, the records count from the first of them on.

_BEYOND_BELIEF: Final = 2**40


class CodexTokenCounts(NamedTuple):
    """The numbers of one usage object."""

    input: int = 0  # with everything that came from or went to the cache
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0


class CodexUsageState(msgspec.Struct):
    """What a parser remembers about spending."""

    totals: CodexTokenCounts = CodexTokenCounts()
    has_records: bool = False


def counts_of(given: object) -> CodexTokenCounts:
    """Read a usage object; what is missing is 0."""
    found = table(given)
    came, went = _count(found.get("input_tokens")), _count(found.get("output_tokens"))
    return CodexTokenCounts(
        came,
        _count(found.get("cached_input_tokens")),
        _count(found.get("cache_write_input_tokens")),
        went,
        _count(found.get("reasoning_output_tokens")),
        _count(found.get("total_tokens")) or came + went,
    )


def _count(value: object) -> int:
    found = number(value)
    return found if 0 <= found < _BEYOND_BELIEF else 0


def from_token_count(body: dict[str, Any], spent: CodexUsageState, origin: str) -> Usage | None:
    """Read a `token_count` event; None if it tells of no new spending.

    The key is the running total of the thread that the count began in: a fork of the older kind
    starts with a copy of its parent's records, and continues with its parent's total.
    """
    info = table(body.get("info"))
    totals = counts_of(info.get("total_token_usage"))
    if spent.has_records or totals == spent.totals or not any(totals):
        return None
    last = counts_of(info.get("last_token_usage"))
    if not any(last):
        last = CodexTokenCounts(
            *(max(0, new - old) for new, old in zip(totals, spent.totals, strict=True))
        )
    spent.totals = totals
    return _usage(f"{origin}:{totals.total}:{last.total}", last)


def from_record(body: dict[str, Any], spent: CodexUsageState, session_id: str) -> Usage | None:
    """Read a `token_usage_record`; None if the count before it has told the same."""
    thread = text(body.get("thread_id")) or session_id
    totals = counts_of(body.get("thread_token_usage"))
    told = not spent.has_records and any(totals) and totals == spent.totals
    spent.has_records, spent.totals = True, totals
    now = counts_of(body.get("usage"))
    if told or not any(now):
        return None
    usage = _usage(text(body.get("response_id")) or f"{thread}:{totals.total}:{now.total}", now)
    usage.session_id = thread
    return usage


def _usage(key: str, now: CodexTokenCounts) -> Usage:
    return Usage(
        key=key,
        at=None,
        model="",
        input=max(0, now.input - now.cached - now.cache_write),
        output=now.output,
        cache_read=now.cached,
        cache_write=now.cache_write,
        reasoning=now.reasoning,
    )


# ------------------------------------------------------------------------------
# Codex: the names of everything that this version knows, so that the rest can be counted.

# Records beside the conversation: nothing in them is said or done.
_QUIET: Final = frozenset(
    {
        "compacted",
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "realtime_item",
        "state",
    }
)
_BLOCKS: Final = frozenset(
    {
        "input_text",
        "output_text",
        "text",
        "refusal",
        "input_image",
        "output_image",
        "input_audio",
        "input_file",
        "encrypted_content",
    }
)
_EVENTS: Final = frozenset(
    {
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "background_event",
        "collab_agent_interaction_end",
        "collab_agent_spawn_end",
        "collab_close_end",
        "collab_resume_end",
        "collab_waiting_end",
        "context_compacted",
        "deprecation_notice",
        "dynamic_tool_call_request",
        "dynamic_tool_call_response",
        "entered_review_mode",
        "error",
        "exec_command_begin",
        "exec_command_end",
        "exited_review_mode",
        "guardian_assessment",
        "hook_completed",
        "hook_started",
        "image_generation_end",
        "item_completed",
        "item_started",
        "mcp_tool_call_begin",
        "mcp_tool_call_end",
        "model_reroute",
        "patch_apply_begin",
        "patch_apply_end",
        "plan_update",
        "session_configured",
        "shutdown_complete",
        "stream_error",
        "sub_agent_activity",
        "task_complete",
        "task_started",
        "terminal_interaction",
        "thread_goal_cleared",
        "thread_goal_updated",
        "thread_name_updated",
        "thread_rolled_back",
        "thread_settings_applied",
        "token_count",
        "turn_aborted",
        "turn_complete",
        "turn_diff",
        "turn_started",
        "undo_completed",
        "undo_started",
        "user_message",
        "view_image_tool_call",
        "warning",
        "web_search_begin",
        "web_search_end",
    }
)
_COMPLETED: Final = frozenset(
    {
        "AgentMessage",
        "CollabAgentToolCall",
        "CommandExecution",
        "ContextCompaction",
        "DynamicToolCall",
        "EnteredReviewMode",
        "ExitedReviewMode",
        "Extension",
        "FileChange",
        "HookPrompt",
        "ImageGeneration",
        "ImageView",
        "McpToolCall",
        "Plan",
        "Reasoning",
        "SubAgentActivity",
        "UserMessage",
        "WebSearch",
    }
)


def is_quiet(kind: str) -> bool:
    """Tell whether a type of record is known and needs no more than its entries."""
    return kind in _QUIET


def is_known_event(name: str, body: dict[str, Any]) -> bool:
    """Tell whether an event is known; one that holds an item, only with an item that is."""
    if name in {"item_completed", "item_started"}:
        return text(table(body.get("item")).get("type")) in _COMPLETED
    return name in _EVENTS


def strange_blocks(content: object) -> list[str]:
    """Name the types of blocks in a message that are not known."""
    found = [text(block.get("type")) for block in rows(content) if isinstance(block, dict)]
    return [name for name in found if name not in _BLOCKS]


# ------------------------------------------------------------------------------
# Codex: reads the lines of one rollout in order, and keeps what the next lines need.

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
        """Start afresh, or continue from a state."""
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
        """Return what came up since the last call."""
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
        """Return what a new parser needs to continue from here."""
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
        """Return the facts with the folder of the log where nothing tells another."""
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


class CodexSource:
    """Rollouts of every version, from bare lines to the paginated history."""

    kind: Final = "lines"

    def __init__(self, agent: str = "codex", folder: str = "") -> None:
        """Take the program's name; a relative of Codex keeps all in a folder of its own."""
        self.agent = agent
        self._folder = folder

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into."""
        homes = [user.home / self._folder] if self._folder else codex_homes(user)
        return rollout_folders(homes)

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the rollouts that are there now, each once."""
        return find_rollouts(self.roots(user), user)

    def parser(self, log: Log, state: bytes | None) -> CodexParser:
        """Make a parser of one rollout."""
        return CodexParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone.

        An event that repeats a prompt or an answer is given here, too; `feed` leaves it out where
        the rollout has the item it repeats.
        """
        return entries_of(unwrap(record), line)

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """A rollout is no document."""
        return ()

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """A rollout is no document."""
        return ()


SOURCE: Final = CodexSource()
TRAE: Final = CodexSource("trae", ".trae/cli")  # the command line; the editor encrypts its own

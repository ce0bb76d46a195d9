"""A session as a conversation: what a model is given, and what is shown when it is resumed."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, TooLarge
from threadkeep.state.context import Json, StateContext
from threadkeep.state.rows import complete_messages, decode_json, decode_metadata

# ------------------------------------------------------------------------------
# Conversations that a model is given: the sides must take turns, whatever the rows say.
#
# Most providers refuse two answers in a row, a tool's answer that nobody asked for, or two
# questions
# without an answer. What was stored stays as it is; only the list that is replayed is set right.

# What the model said while its answer was still being checked: the next one takes its place.
_PROVISIONAL: Final = ("verification_required", "verify_hook_continue")


def repair_turns(turns: list[Json]) -> list[Json]:
    """Return the turns so that the sides alternate; no text is lost."""
    return _one_question(_asked_for(_one_answer(turns)))


def _one_answer(turns: Iterable[Json]) -> list[Json]:
    """Make one of answers that follow each other directly."""
    kept: list[Json] = []
    for turn in turns:
        last = kept[-1] if kept else None
        if last is None or not _both(last, turn, "assistant") or _unfinished(last, turn):
            kept.append(turn)
        elif last.get("finish_reason") in _PROVISIONAL:
            kept[-1] = turn
        else:
            _join_answers(last, turn)
    return kept


def _both(one: Json, other: Json, role: str) -> bool:
    return one.get("role") == role == other.get("role")


def _unfinished(*turns: Json) -> bool:
    """Tell whether a turn is a step of one answer that must be replayed as it came."""
    return any(
        turn.get("codex_reasoning_items")
        or turn.get("codex_message_items")
        or turn.get("finish_reason") == "incomplete"
        for turn in turns
    )


def _join_answers(first: Json, second: Json) -> None:
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    first.pop("tool_calls", None)  # an empty list is refused by some
    if calls:
        first["tool_calls"] = calls
    said, more = first.get("content"), second.get("content")
    if isinstance(said, str) and isinstance(more, str):
        first["content"] = "\n".join(filter(None, (said.strip(), more.strip())))
    elif not said and more is not None:
        first["content"] = more
    if not first.get("reasoning_content") and second.get("reasoning_content"):
        first["reasoning_content"] = second["reasoning_content"]


def _asked_for(turns: Iterable[Json]) -> list[Json]:
    """Leave out what tools said that no call asks for, or that was said before."""
    kept: list[Json] = []
    open_calls: set[Any] = set()
    for turn in turns:
        role = turn.get("role")
        if role == "assistant":
            open_calls = _names_of_calls(turn)
        elif role == "user":
            open_calls = set()
        elif role == "tool":
            name = turn.get("tool_call_id")
            if not name or name not in open_calls:
                continue
            open_calls.discard(name)
        kept.append(turn)
    return kept


def _names_of_calls(turn: Json) -> set[Any]:
    """Return both names that a call may have: its own, and that of the item it came in."""
    calls = [call for call in turn.get("tool_calls") or () if isinstance(call, dict)]
    return {call[key] for call in calls for key in ("id", "call_id") if call.get(key)}


def _one_question(turns: Iterable[Json]) -> list[Json]:
    """Make one of questions that follow each other directly; pictures are left alone."""
    kept: list[Json] = []
    for turn in turns:
        last = kept[-1] if kept else None
        said, more = (last or {}).get("content", ""), turn.get("content", "")
        joins = last is not None and _both(last, turn, "user")
        if last is not None and joins and isinstance(said, str) and isinstance(more, str):
            last["content"] = "\n\n".join(filter(None, (said, more)))
            last.pop("api_content", None)  # that was sent for the first text alone
        else:
            kept.append(turn)
    return kept


MAX_SAFE_MESSAGES: Final = 20_000
_HOPS: Final = 100
# Memories that a harness puts before what the user said: fenced, with a note to the model.
_MEMORY: Final = re.compile(
    r"<\s*memory-context\s*>.*?</\s*memory-context\s*>", re.IGNORECASE | re.DOTALL
)
_FENCE: Final = re.compile(r"</?\s*memory-context\s*>", re.IGNORECASE)
_NOTE: Final = re.compile(
    r"\[System note:\s*The following is recalled memory context,\s*NOT new user input\.\s*"
    r"Treat as (?:informational background data|authoritative reference data[^\]]*)\.\]\s*",
    re.IGNORECASE,
)
# How the prompts of a review in the background begin: older programs stored them as questions.
_REVIEWS: Final = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
)
# The name of a tool alone, which some models wrote beside the call.
BARE_MARK: Final = re.compile(r"\[[A-Za-z_][A-Za-z0-9_.-]*\]")
_SHOWN: Final = ("timestamp", "tool_call_id", "tool_name", "effect_disposition")
_DECODED: Final = ("reasoning_details", "codex_reasoning_items", "codex_message_items")


class SessionResumeTooLargeError(TooLarge, ValueError):
    """The conversation has more messages than may be resumed."""

    def __init__(
        self,
        message_count: int,
        limit: int = MAX_SAFE_MESSAGES,
        scope: str = "across its lineage",
    ) -> None:
        """Say how many messages there are at least."""
        self.message_count, self.limit = message_count, limit
        super().__init__(
            f"the session has at least {message_count} messages {scope}; {limit} may be resumed",
            hint="export it, or pass a larger max_messages (0: no limit)",
        )


class SessionExportTooLargeError(TooLarge, ValueError):
    """The session has more messages than may be exported in memory."""

    def __init__(self, session_id: str, message_count: int, limit: int = MAX_SAFE_MESSAGES) -> None:
        """Say how many messages there are at least."""
        self.session_id, self.message_count, self.limit = session_id, message_count, limit
        super().__init__(
            f"session {session_id!r} has at least {message_count} messages, and {limit} may be"
            " exported in memory",
            hint="export it line by line, or pass a larger max_messages (0: no limit)",
        )


class LimitNegative(Invalid, ValueError):
    """A limit cannot be negative; 0 means none."""


def get_messages_as_conversation(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    include_ancestors: bool = False,  # noqa: FBT001, FBT002
    include_inactive: bool = False,  # noqa: FBT001, FBT002
    repair_alternation: bool = False,  # noqa: FBT001, FBT002
    include_row_ids: bool = False,  # noqa: FBT001, FBT002
    *,
    limit: int | None = None,
) -> list[Json]:
    """Return the messages of a session in the form that is sent to a model.

    With `include_ancestors` the conversations that led to it come first; `repair_alternation` lets
    the sides take turns; `include_row_ids` numbers the turns as `_row_id`; `limit` gives the last.
    """
    chain = lineage_of(tx, session_id) if include_ancestors else [session_id]
    rows = _rows(ctx, tx, chain, inactive=include_inactive)
    turns = _as_turns(ctx, rows if limit is None else rows[max(len(rows) - limit, 0) :])
    return _finished(
        ctx, turns, resumed=include_ancestors, repair=repair_alternation, numbered=include_row_ids
    )


def get_resume_conversations(
    ctx: StateContext, tx: Tx, session_id: str
) -> tuple[list[Json], list[Json]]:
    """Return what a resumed session sends to the model, and what it shows, in one read."""
    rows = _rows(ctx, tx, lineage_of(tx, session_id))
    own = [row for row in rows if row["session_id"] == session_id]
    return (
        _finished(ctx, _as_turns(ctx, own), repair=True),
        _finished(ctx, _as_turns(ctx, rows), resumed=True),
    )


def get_ancestor_display_prefix(ctx: StateContext, tx: Tx, session_id: str) -> list[Json]:
    """Return the messages of a session's ancestors, which are shown before its own."""
    rows = _rows(ctx, tx, [name for name in lineage_of(tx, session_id) if name != session_id])
    return _finished(ctx, _as_turns(ctx, rows), resumed=True, numbered=False)


def _rows(
    ctx: StateContext, tx: Tx, session_ids: Sequence[str], *, inactive: bool = False
) -> list[Json]:
    params = {"session_ids": json.dumps(session_ids), "inactive": inactive}
    return complete_messages(ctx, tx, tx.dicts("messages_of_sessions", params))


def lineage_of(tx: Tx, session_id: str) -> list[str]:
    """Give a session and those it came from, the oldest first; a branch has all it needs itself."""
    return (
        [session_id] if tx.value("branched_from", {"id": session_id}) else ancestry(tx, session_id)
    )


def ancestry(tx: Tx, session_id: str) -> list[str]:
    """Return a session and all that it came from, the oldest first."""
    chain = [session_id]
    while len(chain) < _HOPS:
        parent = tx.value("parent_of", {"id": chain[-1]})
        if not parent or parent in chain:
            break
        chain.append(str(parent))
    return chain[::-1]


# ---------------------------------------------------------------------- turns


def _as_turns(ctx: StateContext, rows: Iterable[Json]) -> list[Json]:
    turn = _whole_turn if ctx.form.answers.whole_turns else _short_turn
    return [turn(row) for row in rows]


def _short_turn(row: Json) -> Json:
    """Make a turn as version 6 does: what the model needs, and nothing else."""
    turn = {"role": row["role"], "content": row["content"], "_row_id": row["id"]}
    _add_set(turn, row, ("tool_call_id", "tool_name"))
    _add_calls(turn, row)
    if row["role"] == "assistant":
        _add_thoughts(turn, row)
    return turn


def _whole_turn(row: Json) -> Json:
    content = row["content"]
    if row["role"] in ("user", "assistant") and isinstance(content, str):
        content = without_memories(content)
    turn = {"role": row["role"], "content": content, "_row_id": row["id"]}
    _add_set(turn, row, ("api_content", "display_kind"))
    shown = decode_metadata(row["display_metadata"] or None)
    if shown is not None:
        turn["display_metadata"] = shown
    _add_set(turn, row, _SHOWN)
    _add_calls(turn, row)
    if row["platform_message_id"]:
        turn["message_id"] = row["platform_message_id"]
    if row["observed"]:
        turn["observed"] = True
    if row["role"] == "assistant":
        _add_set(turn, row, ("finish_reason",))
        _add_thoughts(turn, row)
    return turn


def _add_set(turn: Json, row: Json, fields: Iterable[str]) -> None:
    for field in fields:
        if row[field]:
            turn[field] = row[field]


def _add_calls(turn: Json, row: Json) -> None:
    if row["tool_calls"]:
        turn["tool_calls"] = decode_json(row["tool_calls"], row["id"], "tool_calls", [])


def _add_thoughts(turn: Json, row: Json) -> None:
    if row["reasoning"]:
        turn["reasoning"] = row["reasoning"]
    if row["reasoning_content"] is not None:  # an empty one is replayed, too
        turn["reasoning_content"] = row["reasoning_content"]
    for field in _DECODED:
        if row[field]:
            turn[field] = decode_json(row[field], row["id"], field, None)


def without_memories(text: str) -> str:
    """Return what somebody said without the memories that a harness put before it."""
    if "memory" in text.lower():
        text = _FENCE.sub("", _NOTE.sub("", _MEMORY.sub("", text)))
    return text.strip()


def _finished(
    ctx: StateContext,
    turns: list[Json],
    *,
    resumed: bool = False,
    repair: bool = False,
    numbered: bool = True,
) -> list[Json]:
    """Leave out what is no part of the conversation, and set right what is asked for."""
    if resumed:
        turns = _without_repeats(turns)
    if ctx.form.answers.whole_turns:
        turns = _without_reviews(turns)
        for turn in turns:
            if is_bare_mark(turn):
                turn["content"] = ""
    if repair:
        turns = repair_turns(turns)
    if not numbered:
        for turn in turns:
            turn.pop("_row_id", None)
    return turns


def _without_repeats(turns: Iterable[Json]) -> list[Json]:
    """Leave out a question that is asked again before there was an answer."""
    kept: list[Json] = []
    asked: set[str] = set()
    for turn in turns:
        content = turn["content"]
        if turn["role"] == "user" and isinstance(content, str) and content:
            if content in asked:
                continue
            asked.add(content)
        elif turn["role"] == "assistant" and (content or turn.get("tool_calls")):
            asked.clear()
        kept.append(turn)
    return kept


def _without_reviews(turns: Iterable[Json]) -> list[Json]:
    """Leave out the prompts of reviews in the background, and the answer to each."""
    kept: list[Json] = []
    reviewed = False
    for turn in turns:
        if _is_review(turn):
            reviewed = True
            continue
        answered, reviewed = reviewed and turn["role"] == "assistant", False
        if not answered:
            kept.append(turn)
    return kept


def _is_review(turn: Json) -> bool:
    content = turn["content"]
    asks = turn["role"] in ("user", "system") and isinstance(content, str)
    return asks and content.lstrip().startswith(_REVIEWS)


def is_bare_mark(message: Json) -> bool:
    """Tell whether an answer with tool calls says nothing but the name of a tool in brackets."""
    content: Any = message["content"]
    called = message["role"] == "assistant" and bool(message.get("tool_calls"))
    return called and isinstance(content, str) and bool(BARE_MARK.fullmatch(content.strip()))


# ---------------------------------------------------------------------- how much


def get_resume_message_count(_ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Count the live messages that resuming a session would load."""
    return _count(tx, ancestry(tx, session_id), -1)


def assert_resume_safe(
    _ctx: StateContext, tx: Tx, session_id: str, max_messages: int | None = None
) -> int:
    """Count the messages that resuming would load; raises if there are more than the limit."""
    most = _limit(max_messages)
    found = _count(tx, ancestry(tx, session_id), most + 1) if most else 0
    if found > most:
        raise SessionResumeTooLargeError(found, most)
    return found


def assert_export_safe(
    _ctx: StateContext, tx: Tx, session_id: str, max_messages: int | None = None
) -> int:
    """Count the messages that an export in memory would hold; raises if there are too many."""
    most = _limit(max_messages)
    found = _count(tx, [session_id], most + 1) if most else 0
    if found > most:
        raise SessionExportTooLargeError(session_id, found, most)
    return found


def _limit(max_messages: int | None) -> int:
    if max_messages is not None and max_messages < 0:
        msg = "max_messages must not be negative"
        raise LimitNegative(msg, hint="pass 0 for no limit")
    return MAX_SAFE_MESSAGES if max_messages is None else max_messages


def _count(tx: Tx, session_ids: Sequence[str], limit: int) -> int:
    return int(tx.value("count_live", {"session_ids": json.dumps(session_ids), "limit": limit}))

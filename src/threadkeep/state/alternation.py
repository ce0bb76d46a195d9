"""Conversations that a model is given: the sides must take turns, whatever the rows say.

Most providers refuse two answers in a row, a tool's answer that nobody asked for, or two questions
without an answer. What was stored stays as it is; only the list that is replayed is set right.
"""

from collections.abc import Iterable
from typing import Any, Final

from threadkeep.state.context import Json

# What the model said while its answer was still being checked: the next one takes its place.
_PROVISIONAL: Final = ("verification_required", "verify_hook_continue")


def repair_turns(turns: list[Json]) -> list[Json]:
    """Give the turns so that the sides alternate; no text is lost."""
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
    """Give both names that a call may have: its own, and that of the item it came in."""
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

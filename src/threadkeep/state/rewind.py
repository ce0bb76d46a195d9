"""Taking messages back without losing them, and bringing them back.

A file of today's form marks the rows; one of version 6 has no mark, so there they are put aside.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.state.context import Json, StateContext
from threadkeep.state.conversation import get_messages_as_conversation, without_memories
from threadkeep.state.leases import refuse_during_turn
from threadkeep.state.messages import (
    beside,
    call_count,
    keys_of,
    mark_messages,
    remember_key,
    restore_message,
)
from threadkeep.state.rows import decode_content, describe_skill_call
from threadkeep.state.session_config import need_session
from threadkeep.state.side_values import readable_text
from threadkeep.state.transcript import as_messages

# What our rewinds took is noted as keys: "number:highest id", with the id of the cut.
_KIND: Final = "rewind"


class MessageUnknown(NotFound, ValueError):
    """The session has no such message."""


class NotTheUsers(Invalid, ValueError):
    """Only something that the user said can be taken back."""


class HistoryChanged(Conflict, RuntimeError):
    """The conversation is not as the caller saw it; nothing was taken back."""


def rewind_to_message(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    target_message_id: int,
    *,
    expected_active_ids: Sequence[int] | None = None,
    expected_target_content: Any = None,
    any_role: bool = False,
) -> Json:
    """Rewind a session to before a message of the user, which is hidden with all after it.

    Give `rewound_count`, `target_message` and `new_head_id`, the last live message before it. With
    `any_role` it may be anybody's. If the live messages are not `expected_active_ids`, or it does
    not say `expected_target_content`, nothing is done. They are out of every reader's sight,
    Hermes's too, until `undo_rewind`.
    """
    refuse_during_turn(ctx, tx, session_id)
    need_message(tx, session_id, target_message_id)
    target = as_messages(ctx, tx, tx.dicts("whole_message", {"id": target_message_id}))[0]
    if target["role"] != "user" and not any_role:
        msg = f"message {target_message_id} was said by {target['role']!r}, not by the user"
        raise NotTheUsers(msg, hint="name the message of the user that comes before it")
    _refuse_changed(tx, session_id, target, expected_active_ids, expected_target_content)
    gone = put_aside(ctx, tx, session_id, target_message_id)
    if "rewind_count" in ctx.form.tables["sessions"]:
        tx.run("count_rewind", {"id": session_id})
    head = tx.value("highest_active", {"session_id": session_id})
    return {"rewound_count": gone, "target_message": target, "new_head_id": head}


def _refuse_changed(
    tx: Tx, session_id: str, target: Json, live: Sequence[int] | None, content: Any
) -> None:
    found = [int(row[0]) for row in tx.all("active_ids", {"session_id": session_id})]
    if (live is not None and list(live) != found) or content not in (None, target["content"]):
        msg = f"session {session_id!r} has changed since it was read"
        raise HistoryChanged(msg, hint="read it again and choose the message again")


def need_message(tx: Tx, session_id: str, message_id: int) -> None:
    """Raise if no such message exists in a session."""
    if tx.one("message_of_session", {"id": message_id, "session_id": session_id}) is None:
        msg = f"session {session_id!r} has no message {message_id}"
        raise MessageUnknown(msg, hint="`threadkeep state show` numbers the messages")


def put_aside(ctx: StateContext, tx: Tx, session_id: str, first: int) -> int:
    """Take a message and all behind it out of sight; give how many."""
    if ctx.form.answers.marked_rewinds:
        return _mark(ctx, tx, session_id, first)
    batch = int(tx.value("next_rewind_batch"))
    params = {"session_id": session_id, "first": first}
    for (message_id,) in tx.all("message_ids_from", params):
        aside = json.dumps(beside(tx, message_id))
        values = {"id": message_id, "batch": batch, "cut": first, "exact": aside}
        tx.run("copy_to_rewound", {**values, "now": ctx.clock()})
    gone = tx.count("delete_messages_from", params)
    recount(tx, session_id)
    return gone


def _mark(ctx: StateContext, tx: Tx, session_id: str, first: int) -> int:
    live = [row[0] for row in tx.all("active_ids", {"session_id": session_id}) if row[0] >= first]
    if live:
        mark_messages(ctx, tx, live, {"active": 0})
        number = max((number for number, _, _ in _rewinds(tx, session_id)), default=0) + 1
        remember_key(tx, session_id, _KIND, f"{number}:{live[-1]}", first)
    return len(live)


def _rewinds(tx: Tx, session_id: str) -> list[tuple[int, int, int]]:
    """Return the rewinds of ours that were not undone: number, first and last id."""
    rewinds: list[tuple[int, int, int]] = []
    for key, cut in keys_of(tx, session_id, _KIND).items():
        number, last = map(int, key.split(":"))
        rewinds.append((number, cut, last))
    return sorted(rewinds)


# ---------------------------------------------------------------------- bringing back


def undo_rewind(ctx: StateContext, tx: Tx, session_id: str) -> int:
    """Undo the last rewind of a session; return the number of messages restored.

    Messages written after that rewind are taken back in turn: another undo brings them back.
    """
    need_session(tx, session_id)
    rewinds = _rewinds(tx, session_id)
    taken = {int(row[0]) for row in tx.all("taken_back_ids", {"session_id": session_id})}
    if rewinds:
        number, cut, last = rewinds.pop()
        tx.run("forget_key", {"session_id": session_id, "kind": _KIND, "key": f"{number}:{last}"})
        before = [range(first, end + 1) for _, first, end in rewinds]
        ours = {each for each in taken if cut <= each <= last}
        chosen = sorted(ours - {each for each in ours if any(each in span for span in before)})
        put_aside(ctx, tx, session_id, cut)
        return mark_messages(ctx, tx, chosen, {"active": 1})
    if ctx.side and (found := tx.one("last_rewind", {"session_id": session_id})) is not None:
        return _bring_back(ctx, tx, session_id, *found)
    return _undo_another(ctx, tx, session_id, taken)


def _undo_another(ctx: StateContext, tx: Tx, session_id: str, taken: set[int]) -> int:
    """Undo a rewind of another program, which notes nothing: the last run of marked rows."""
    run: list[int] = []
    before = 0
    for (message_id,) in tx.all("message_ids_from", {"session_id": session_id, "first": 0}):
        if message_id in taken:
            run = [*run, message_id] if run and run[-1] == before else [message_id]
        before = message_id
    if not run:
        return 0
    put_aside(ctx, tx, session_id, run[0])
    return mark_messages(ctx, tx, run, {"active": 1})


def _bring_back(ctx: StateContext, tx: Tx, session_id: str, batch: int, cut: int) -> int:
    rows = tx.all("rewound_messages", {"batch": batch})
    put_aside(ctx, tx, session_id, cut)
    _restore(tx, rows)
    tx.run("forget_rewind", {"batch": batch})
    _brought_back(tx, session_id)
    return len(rows)


def _restore(tx: Tx, rows: Sequence[tuple[Any, ...]]) -> None:
    for message_id, *columns, hash_, kept in rows:
        restore_message(tx, message_id, columns, json.loads(kept or "[]"))
        if hash_ is not None:  # the one it had: damage meanwhile must not get a new one
            tx.run("put_hash", {"id": message_id, "hash": hash_})


def _brought_back(tx: Tx, session_id: str) -> None:
    recount(tx, session_id)
    at = tx.value("activity_of", {"id": session_id})  # its cursor has passed these ids, too
    tx.run("put_activity", {"id": session_id, "at": at})


def restore_rewound(ctx: StateContext, tx: Tx, session_id: str, since_message_id: int) -> int:
    """Restore every rewound message of a session from an id on; return their number."""
    params = {"session_id": session_id, "first": since_message_id}
    ids = [int(row[0]) for row in tx.all("inactive_ids_from", params)]
    found = mark_messages(ctx, tx, ids, {"active": 1}) if ids else 0
    if ctx.side:
        rows = tx.all("rewound_from", params)
        _restore(tx, rows)
        tx.run("forget_rewound_from", params)
        if rows:
            _brought_back(tx, session_id)
        found += len(rows)
    return found


def hand_over_rewound(ctx: StateContext, tx: Tx) -> None:
    """Put what was taken back before the file had a mark for it into its table, marked."""
    rows = tx.all("all_rewound")
    _restore(tx, rows)
    mark_messages(ctx, tx, [int(row[0]) for row in rows], {"active": 0})


def recount(tx: Tx, session_id: str) -> None:
    """Set the counts of a session to what its live messages say."""
    rows = tx.all("tool_calls_of", {"session_id": session_id})
    calls = sum(count_calls(row[0]) for row in rows)
    params = {"session_ids": json.dumps([session_id]), "limit": -1}
    tx.run(
        "set_counts", {"id": session_id, "messages": tx.value("count_live", params), "calls": calls}
    )


def count_calls(text: str) -> int:
    """Count the tool calls in a column."""
    try:
        return call_count(json.loads(text))
    except (ValueError, RecursionError):
        return 1


# ------------------------------------------------------------------------------
# What the user said last, for choosing a place to go back to.

_LONGEST: Final = 80
# How the summaries of compactions begin; one may stand behind text that was kept.
_SUMMARY: Final = ("[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:")
_BELOW: Final = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"


def list_recent_user_messages(
    _ctx: StateContext,
    tx: Tx,
    session_id: str,
    limit: int = 20,
    include_inactive: bool = False,  # noqa: FBT001, FBT002
) -> list[Json]:
    """Return the last messages of the user, the newest first: id, timestamp and preview.

    Notes of programs and summaries of compactions stand under the user's name, and are left out.
    """
    # Some of what is read are summaries: twice as many and a few leave enough of the others.
    params = {"session_id": session_id, "inactive": include_inactive, "limit": int(limit) * 2 + 5}
    found: list[Json] = []
    for message_id, timestamp, column in tx.all("user_messages", params):
        content = decode_content(column)
        if len(found) < int(limit) and not is_summary(content):
            preview = _shortened(_shown(content))
            found.append({"id": message_id, "timestamp": timestamp, "preview": preview})
    return found


def is_summary(content: Any) -> bool:
    """Tell whether a content is, or ends with, the summary of a compaction."""
    text = content if isinstance(content, str) else " ".join(_texts(content))
    return text.rpartition(_BELOW)[2].lstrip().startswith(_SUMMARY)


def _texts(content: Any) -> list[str]:
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text]


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return describe_skill_call(content) or content
    if isinstance(content, list):
        return " ".join(_texts(content)).strip() or "[multimodal content]"
    return ""


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


# ------------------------------------------------------------------------------
# Going back in a conversation by what the user said, as `undo` and `retry` of a program do.


class RewindTargetUnavailableError(Invalid, ValueError):
    """The user said nothing at that place of the conversation."""


class RewindOutcome(NamedTuple):
    """What is left after something that the user said was taken back, and what that was."""

    prefix: list[Json]
    live_view: Json
    live_text: str
    rewound_count: int
    turns_undone: int


def rewind_user_turn(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    user_ordinal: int,
    *,
    warm_history: list[Json] | None = None,
    adopt_row_ids: bool = False,
) -> RewindOutcome:
    """Rewind to before the n-th message of the user, counted from 0 or from the end.

    `warm_history` is the caller's own copy: it must say the same, and its beginning is given back,
    with `adopt_row_ids` under the numbers of the rows.
    """
    stored = get_messages_as_conversation(
        ctx, tx, session_id, repair_alternation=True, include_row_ids=True
    )
    asked = _asked(stored)
    place = max(len(asked) + user_ordinal, 0) if user_ordinal < 0 else user_ordinal
    if place >= len(asked):
        msg = f"session {session_id!r} has fewer than {place + 1} messages of the user"
        raise RewindTargetUnavailableError(msg, hint="list_recent_user_messages shows them")
    prefix, target = stored[: asked[place]], stored[asked[place]]
    if warm_history is not None:
        own = _asked(warm_history)
        if len(own) != len(asked) or not _same(warm_history[own[place]], target):
            msg = f"session {session_id!r} is not what the caller has in memory"
            raise HistoryChanged(msg, hint="read it again")
        prefix = _numbered(warm_history[: own[place]], prefix, adopt=adopt_row_ids)
    done = rewind_to_message(ctx, tx, session_id, target["_row_id"])
    said = target["content"]
    text = said if isinstance(said, str) else readable_text(said)
    return RewindOutcome(prefix, target, text, done["rewound_count"], len(asked) - place)


def _asked(turns: Sequence[Json]) -> list[int]:
    """Return the places at which the user said something; notes and summaries are none."""
    return [
        place
        for place, turn in enumerate(turns)
        if turn.get("role") == "user"
        and not turn.get("display_kind")
        and not is_summary(turn.get("content"))
    ]


def _numbered(own: list[Json], stored: list[Json], *, adopt: bool) -> list[Json]:
    """Give the caller's turns the numbers of the rows, if they are the same turns."""
    if not adopt or len(own) != len(stored) or not all(map(_same, own, stored)):
        return own
    return [{**turn, "_row_id": row["_row_id"]} for turn, row in zip(own, stored, strict=True)]


def _same(one: Json, other: Json) -> bool:
    first, second = (
        without_memories(said) if isinstance(said, str) else said
        for said in (one.get("content"), other.get("content"))
    )
    return one.get("role") == other.get("role") and bool(first == second)

"""Going back in a conversation by what the user said, as `undo` and `retry` of a program do."""

from collections.abc import Sequence
from typing import NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.state.context import Json, StateContext
from threadkeep.state.conversation import get_messages_as_conversation, without_memories
from threadkeep.state.exact import readable_text
from threadkeep.state.recent import is_summary
from threadkeep.state.rewind import HistoryChanged, rewind_to_message


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
    """Take back the n-th thing that the user said, from 0 or from the end, and all after it.

    `warm_history` is the caller's own copy: it must say the same, and its beginning is given back,
    with `adopt_row_ids` under the numbers of the rows.
    """
    stored = get_messages_as_conversation(
        ctx, tx, session_id, repair_alternation=True, include_row_ids=True
    )
    asked = _asked(stored)
    place = max(len(asked) + user_ordinal, 0) if user_ordinal < 0 else user_ordinal
    if place >= len(asked):
        msg = f"the user did not say {place + 1} things in session {session_id!r}"
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
    """Give the places at which the user said something; notes and summaries are none."""
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

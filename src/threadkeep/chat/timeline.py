"""The inspector's view of a session: every turn with its usage, cost and runs, in one snapshot."""

import msgspec

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext
from threadkeep.chat.raw_rows import unknown_chunks
from threadkeep.chat.records import Json, Message, Run, Session, SessionRef, ref_id
from threadkeep.chat.rows import need_session
from threadkeep.chat.runs import session_runs
from threadkeep.chat.usage import spend, usage_by_message
from threadkeep.chat.views import View, check_view, load, select


class Turn(msgspec.Struct, frozen=True):
    """One message of a timeline, with what it used and the runs that made it."""

    message: Message
    role: str
    parts: list[Json]
    usage: dict[str, int] | None
    cost_usd: float
    runs: list[Run]
    chunks: list[Json] = []
    """Chunks of its stream that are of unknown types, and so in none of the parts."""


class Timeline(msgspec.Struct, frozen=True):
    """A session as an inspector shows it; `runs` are those that left no message."""

    session: Session
    view: str
    turns: list[Turn]
    runs: list[Run]
    used: dict[str, int]
    cost_usd: float


def timeline(ctx: ChatContext, tx: Tx, session: SessionRef, view: View = "transcript") -> Timeline:
    """Put together what happened in a session, turn by turn."""
    check_view(view)
    known = need_session(tx, ref_id(session, "session"))
    loaded = load(tx, known.id)
    used = usage_by_message(tx, known.id)
    costs = {
        from_sql(row[0]): float(row[6]) for row in tx.all("session_usage", {"session_id": known.id})
    }
    runs = session_runs(ctx, tx, known.id)
    messages = {message.id: message for message, _ in loaded}
    unknown = unknown_chunks(tx, known.id)
    turns = [
        Turn(
            message=messages[shaped["id"]],
            role=shaped["role"],
            parts=shaped["parts"],
            usage=used.get(shaped["id"]),
            cost_usd=costs.get(shaped["id"], 0.0),
            runs=[run for run in runs if run.message_id == shaped["id"]],
            chunks=[json.decode(row["data_json"]) for row in unknown.get(shaped["id"], ())],
        )
        for shaped in select(loaded, view)
    ]
    lost = [run for run in runs if run.message_id not in messages]
    spent, cost = spend(ctx, tx, known.id)
    return Timeline(known, view, turns, lost, spent, cost)

"""Orphan repair: tool calls that a dead run left open get an answer, so the next turn can go on."""

from collections.abc import Sequence

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext, encode_part, need_list
from threadkeep.chat.records import Json, SessionRef, message_of, ref_id, without_keys
from threadkeep.chat.recovery import is_running
from threadkeep.chat.rows import (
    PART,
    SESSION,
    need_session,
    revised_row,
    touch_session,
    update_part,
)
from threadkeep.chat.views import read_part

ABORTED = "aborted by host restart"
# These wait for a person, not for the run that died.
HUMAN_TOOLS = ("question", "design_search")


def repair_orphans(
    ctx: ChatContext,
    tx: Tx,
    session: SessionRef | None = None,
    *,
    human_tools: Sequence[str] = HUMAN_TOOLS,
) -> list[str]:
    """Turn open tool calls of sessions that nobody runs into errors; give the ids of the parts.

    Calls that wait for a person stay: approvals that were asked for, and the human tools; and so
    do those of hidden messages. A continuation that another program had begun has ended.
    """
    if session is not None:
        sessions = [need_session(tx, ref_id(session, "session")).id]
    else:
        sessions = [from_sql(row[0]) for row in tx.all("sessions_with_open_tools")]
    waiting = need_list(human_tools, "human_tools")
    return [part for one in sessions for part in _repair(ctx, tx, one, waiting)]


def _waits(state: str, part: Json, human_tools: Sequence[str]) -> bool:
    name = part.get("toolName") or str(part["type"]).removeprefix("tool-")
    return state == "input-available" and name in human_tools


def _repair(ctx: ChatContext, tx: Tx, session_id: str, human_tools: Sequence[str]) -> list[str]:
    recordings = tx.all("session_recordings", {"session_id": session_id})
    running = {from_sql(row[0]) for row in recordings if is_running(row)}
    repaired = []
    hidden = {
        from_sql(row[0])
        for row in tx.all("session_messages", {"session_id": session_id})
        if message_of(row).hidden
    }
    for row in tx.all("session_tool_parts", {"session_id": session_id}):
        if row[7] is None or from_sql(row[1]) in running:
            continue
        part = read_part(row[5], from_sql(row[4]))
        # A host of the guide's author had begun to go on after a person's answer, and died.
        continued = row[10] is not None
        if not continued and (from_sql(row[1]) in hidden or _waits(row[7], part, human_tools)):
            continue
        fixed = {
            **({} if row[6] is None else {"toolCallId": from_sql(row[6])}),
            **without_keys(part, "output"),
            "state": "output-error",
            "errorText": ABORTED,
        }
        text = encode_part(ctx, fixed, f"tool call {row[6]!r}")
        tx.run("end_continuation", {"id": row[0]})
        fresh = revised_row(row, fixed, text, ctx.clock())._replace(continuation_run_id=None)
        update_part(tx, fresh)
        repaired.append(from_sql(row[0]))
    if repaired:
        touch_session(tx, session_id, ctx.clock())
        changed = [(PART, part_id) for part_id in repaired]
        journal.note(ctx, tx, session_id, "repair", [*changed, (SESSION, session_id)])
    return repaired

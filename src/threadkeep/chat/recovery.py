"""What a dead recorder left behind: folded into the part rows, then closed."""

import logging
from collections.abc import Sequence
from weakref import WeakValueDictionary

from threadkeep.base import json
from threadkeep.base.processes import my_mark
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext, encode_part, need_list
from threadkeep.chat.records import Json, SessionRef, message_of, ref_id, without_keys
from threadkeep.chat.rows import (
    PART,
    SESSION,
    check_hash,
    need_session,
    revised_row,
    touch_session,
    update_part,
)
from threadkeep.chat.views import read_part, stored_message
from threadkeep.errors import Busy, Conflict, Damaged, ReadOnly, StorageFull

log = logging.getLogger(__name__)

# The recorders that this process has open, by run. A recording of this process without one was
# abandoned; whether another process still records, only its life can tell.
_OPEN: WeakValueDictionary[str, object] = WeakValueDictionary()


def announce(run_id: str, recorder: object) -> None:
    """Make a recorder known as open."""
    _OPEN[run_id] = recorder


def retire(run_id: str) -> None:
    """Take a recorder back that was closed."""
    _OPEN.pop(run_id, None)


def is_running(tx: Tx, recording: Row) -> bool:
    """Tell whether somebody still records: a live process, or an open recorder of this one."""
    return recording[2] in _OPEN if recording[3] == my_mark() else tx.is_alive(recording[3])


def settle_left_behind(ctx: ChatContext) -> list[str]:
    """Close every recording whose process is gone; give the ids of its messages."""
    with ctx.db.read() as tx:
        left = [row for row in tx.all("all_recordings") if not is_running(tx, row)]
        stale = bool(left) or tx.one("streams_with_finished_chunks") is not None
    if not stale:
        return []
    with ctx.db.write() as tx:
        left = [row for row in tx.all("all_recordings") if not is_running(tx, row)]
        settled = [from_sql(row[0]) for row in left if _settled(ctx, tx, row)]
        for (stream_id,) in tx.all("streams_with_finished_chunks"):
            journal.forget_finished_chunks(ctx, tx, from_sql(stream_id))
    return settled


def _settled(ctx: ChatContext, tx: Tx, recording: Row) -> bool:
    """Settle one recording; a damaged one stays as it is, and `verify` reports it."""
    try:
        settle(ctx, tx, recording, "crash")
    except Damaged as error:
        log.warning("an unfinished message was left unchanged: %s", error)
        return False
    return True


def refuse_if_running(tx: Tx, session_id: str, what: str) -> None:
    """Refuse something that must not happen while a reply is being recorded."""
    for row in tx.all("session_recordings", {"session_id": session_id}):
        if is_running(tx, row):
            msg = f"session {session_id!r} is running: message {from_sql(row[0])!r} is recorded now"
            raise Conflict(msg, hint=f"{what} when the run has ended")


def settle_unless_running(ctx: ChatContext, tx: Tx, message_id: str) -> None:
    """End what an abandoned recorder left of a message; refuse while somebody records it."""
    recording = tx.one("get_recording", {"message_id": message_id})
    if recording is None:
        return
    if is_running(tx, recording):
        process = recording[3].split(":")[0]
        msg = f"message {message_id!r} is being recorded by process {process}"
        raise Conflict(msg, hint="close that recorder first, or follow it with tail")
    settle(ctx, tx, recording, "cut")


def settle(ctx: ChatContext, tx: Tx, recording: Row, reason: str) -> None:
    """Fold what the journal still has of a message, and end its recording.

    Damage is found before anything is written.
    """
    message_id, session_id = from_sql(recording[0]), from_sql(recording[1])
    row = tx.one("get_message", {"id": message_id})
    if row is not None:
        message = message_of(row)
        rows = tx.all("message_parts", {"message_id": message_id})
        exact = journal.unfinished(tx, session_id, stored_message(tx, message), recording[4])
        for index in exact.touched:
            check_hash(tx, PART, rows[index])
        for index, at in exact.touched.items():
            # No limit here: these chunks were acknowledged.
            part = exact.state.part(index)
            update_part(tx, revised_row(rows[index], part, json.encode(part), at))
        finish(ctx, tx, session_id, message_id, exact.last_seq)
    tx.run("end_recording", {"message_id": message_id})
    if recording[2] is not None:
        end_run(tx, recording[2], ctx.clock(), reason, None, None)


def finish(ctx: ChatContext, tx: Tx, session_id: str, message_id: str, last_seq: int) -> None:
    """End the recording of a message: its rows are complete, its journal is no longer needed."""
    tx.run("end_recording", {"message_id": message_id})
    if last_seq:
        params = {"stream_id": session_id, "seq": last_seq, "message_id": message_id}
        tx.run("add_finished", params)
    journal.forget_finished_chunks(ctx, tx, session_id)


def end_run(
    tx: Tx, run_id: str, at: int, reason: str, finish_reason: str | None, error: str | None
) -> None:
    """Write down why a run ended."""
    params = {
        "id": run_id,
        "ended_at": at,
        "end_reason": reason,
        "finish_reason": finish_reason,
        "error_text": error,
    }
    tx.run("end_run", params)


def settle_when_possible(ctx: ChatContext) -> None:
    """Settle at opening, unless the disk is full or locked: reading works without it."""
    try:
        settle_left_behind(ctx)
    except (StorageFull, Busy, ReadOnly) as error:
        log.warning("what a crashed recorder left stays in the journal for now: %s", error)


# ------------------------------------------------------------------------------
# Orphan repair: tool calls that a dead run left open get an answer, so the next turn can continue.

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
    """Mark open tool calls of sessions that are not running as errors; return their part ids.

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
    running = {from_sql(row[0]) for row in recordings if is_running(tx, row)}
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
        # A host of the guide's author had begun to continue after a person's answer, and died.
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

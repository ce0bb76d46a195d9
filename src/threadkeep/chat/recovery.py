"""What a dead recorder left behind: folded into the part rows, then closed."""

import logging

from threadkeep.base.processes import is_alive, my_mark
from threadkeep.base.sqlite import Row, Tx
from threadkeep.base.text import from_sql
from threadkeep.chat import journal
from threadkeep.chat.context import Context, encode_part
from threadkeep.chat.records import Json, message_of
from threadkeep.chat.rows import PART, check_hash, part_row, update_part
from threadkeep.chat.views import stored_message
from threadkeep.errors import Busy, Conflict, Damaged, ReadOnly, StorageFull

log = logging.getLogger(__name__)


def settle_left_behind(ctx: Context) -> list[str]:
    """Close every recording whose process is gone; give the ids of its messages."""
    with ctx.db.read() as tx:
        left = [row for row in tx.all("all_recordings") if not is_alive(row[3])]
        stale = bool(left) or tx.one("streams_with_finished_chunks") is not None
    if not stale:
        return []
    with ctx.db.write() as tx:
        left = [row for row in tx.all("all_recordings") if not is_alive(row[3])]
        settled = [from_sql(row[0]) for row in left if _settled(ctx, tx, row)]
        for (stream_id,) in tx.all("streams_with_finished_chunks"):
            journal.forget_finished_chunks(ctx, tx, from_sql(stream_id))
    return settled


def _settled(ctx: Context, tx: Tx, recording: Row) -> bool:
    """Settle one recording; a damaged one stays as it is, and `verify` reports it."""
    try:
        settle(ctx, tx, recording, "crash")
    except Damaged as error:
        log.warning("an unfinished message was left as it is: %s", error)
        return False
    return True


def refuse_if_running(tx: Tx, session_id: str, what: str) -> None:
    """Refuse something that must not happen while a reply is being recorded."""
    for row in tx.all("session_recordings", {"session_id": session_id}):
        if is_alive(row[3]):
            msg = f"session {session_id!r} is running: message {from_sql(row[0])!r} is recorded now"
            raise Conflict(msg, hint=f"{what} when the run has ended")


def refuse_if_recorded_elsewhere(recording: Row) -> None:
    """Refuse a second recorder for a message that another live process records."""
    owner = recording[3]
    if owner != my_mark() and is_alive(owner):
        msg = f"message {from_sql(recording[0])!r} is recorded by process {owner.split(':')[0]}"
        raise Conflict(msg, hint="wait for that recorder, or follow it with tail")


def settle(ctx: Context, tx: Tx, recording: Row, reason: str) -> None:
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
            _fold(ctx, tx, rows[index], exact.state.part(index), at)
        finish(ctx, tx, session_id, message_id, exact.last_seq)
    tx.run("end_recording", {"message_id": message_id})
    if recording[2] is not None:
        end_run(tx, recording[2], ctx.clock(), reason, None, None)


def _fold(ctx: Context, tx: Tx, row: Row, part: Json, at: int) -> None:
    text = encode_part(ctx, part, f"part {row[3]} of message {row[1]!r}")
    fresh = part_row(
        part,
        text,
        part_id=from_sql(row[0]),
        message_id=from_sql(row[1]),
        session_id=from_sql(row[2]),
        position=row[3],
        created_at=row[8],
        updated_at=at,
        continuation_run_id=row[10],
    )
    update_part(tx, fresh)


def finish(ctx: Context, tx: Tx, session_id: str, message_id: str, last_seq: int) -> None:
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


def settle_when_possible(ctx: Context) -> None:
    """Settle at opening, unless the disk is full or locked: reading works without it."""
    try:
        settle_left_behind(ctx)
    except (StorageFull, Busy, ReadOnly) as error:
        log.warning("what a crashed recorder left stays in the journal for now: %s", error)

"""How the recording of a message begins: as a new one, as the continuation of one, or again."""

from threadkeep.chat import journal
from threadkeep.chat.context import ChatContext
from threadkeep.chat.recording import Recording, known_parts
from threadkeep.chat.records import Json, message_of, read_object
from threadkeep.chat.recovery import settle_unless_running
from threadkeep.chat.reduce import StreamState
from threadkeep.chat.rows import foreign_message
from threadkeep.chat.views import load_message, stored_message
from threadkeep.errors import Conflict


def begin(
    ctx: ChatContext, session_id: str, message_id: str | None, facts: Json, protocol: int
) -> Recording:
    """Begin the message of that id, or go on with it if the session has it; None makes one.

    `facts` go into the metadata of the message.
    """
    if message_id is None:
        return _fresh(session_id, ctx.ids.new("msg"), facts, protocol)
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        left = tx.one("get_recording", {"message_id": message_id}) is not None
    if row is None:
        return _fresh(session_id, message_id, facts, protocol)
    message = message_of(row)
    if message.session_id != session_id:
        raise foreign_message(message_id, message.session_id, session_id)
    if message.role != "assistant":
        msg = f"message {message_id!r} is of role {message.role!r}; a stream is the assistant's"
        raise Conflict(msg, hint="leave the id out, or use the id of an assistant message")
    if left:
        with ctx.db.write() as tx:
            settle_unless_running(ctx, tx, message_id)
    return _continue(ctx, session_id, message_id, facts, protocol)


def _fresh(session_id: str, message_id: str, facts: Json, protocol: int) -> Recording:
    state = StreamState(message_id=message_id, protocol=protocol)
    return Recording(session_id, state, facts, stored=False)


def _continue(
    ctx: ChatContext, session_id: str, message_id: str, facts: Json, protocol: int
) -> Recording:
    """Go on with a finished message: approvals and client-side tools come back this way."""
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        if row is None:
            # It was deleted since its caller looked.
            return _fresh(session_id, message_id, facts, protocol)
        base = load_message(tx, message_of(row))
        state = StreamState(base, protocol=protocol)
        recording = Recording(session_id, state, facts, stored=False)
        recording.base = base
        recording.parts = known_parts(tx, message_id, 0)
    return recording


def begin_again(
    ctx: ChatContext, session_id: str, message_id: str, facts: Json
) -> Recording | None:
    """Read an unfinished message back as the store has it; None if nothing of it was stored."""
    with ctx.db.read() as tx:
        row = tx.one("get_message", {"id": message_id})
        left = tx.one("get_recording", {"message_id": message_id})
        if row is None or left is None:
            return None
        message = message_of(row)
        exact = journal.unfinished(tx, session_id, stored_message(tx, message), left[4])
        recording = Recording(session_id, exact.state, facts, stored=True)
        recording.last_seq = exact.last_seq
        recording.parts = known_parts(tx, message.id, read_object(left[4]).get("at", 0))
        recording.mark_unfolded(exact.touched)
    return recording

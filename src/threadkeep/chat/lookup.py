"""Finding sessions and messages by what a person types: an id, a beginning of one, or `last`."""

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext, need_text
from threadkeep.chat.records import Session, SessionRef, message_of, ref_id
from threadkeep.chat.rows import need_message, need_session
from threadkeep.chat.sessions import list_sessions
from threadkeep.chat.views import counts
from threadkeep.errors import Invalid, NotFound

LAST = "last"
_SOME = 5


def find_session(ctx: ChatContext, tx: Tx, ref: str) -> Session:
    """Give a session by its id, by a beginning of it that only one has, or the newest as `last`."""
    if _need_ref(ref, "session") == LAST:
        newest = list_sessions(ctx, tx, limit=1).items
        if not newest:
            msg = f"there is no session in {ctx.db.path} yet"
            raise NotFound(msg, hint="`threadkeep chat ls --all` lists archived ones too")
        return newest[0]
    ids = _session_ids(tx, ref) or (
        [] if ref.startswith("ses_") else _session_ids(tx, f"ses_{ref}")
    )
    return need_session(tx, _only_one(ids, ref, "session"))


def _session_ids(tx: Tx, prefix: str) -> list[str]:
    # U+10FFFF is the last character there is: every id that begins with the prefix sorts below.
    params = {"first": prefix, "last": f"{prefix}\U0010ffff", "limit": _SOME + 1}
    return [from_sql(row[0]) for row in tx.all("session_ids", params)]


def find_message(_ctx: ChatContext, tx: Tx, session: SessionRef, ref: str) -> str:
    """Give a message id of a session from a beginning of it; `last` is its last user message."""
    session_id = need_session(tx, ref_id(session, "session")).id
    messages = [message_of(row) for row in tx.all("session_messages", {"session_id": session_id})]
    if _need_ref(ref, "message") == LAST:
        asked = [message.id for message in messages if message.role == "user" and counts(message)]
        if not asked:
            msg = f"session {session_id!r} has no user message yet"
            raise NotFound(msg, hint="name a message by its id")
        return asked[-1]
    ids = [message.id for message in messages if message.id.startswith(ref)]
    return need_message(tx, session_id, _only_one(ids, ref, "message")).id


def _need_ref(ref: str, what: str) -> str:
    """Refuse an empty name: it is the beginning of every id, and of the only one there is."""
    if not need_text(ref, f"the {what}"):
        raise Invalid(f"the name of the {what} is empty", hint="give an id, its beginning, or last")
    return ref


def _only_one(ids: list[str], ref: str, what: str) -> str:
    """Choose the id that was meant; one that nothing has is left to the caller to refuse."""
    if ref in ids or not ids:
        return ref
    if len(ids) == 1:
        return ids[0]
    some = ", ".join(ids[:_SOME]) + (", …" if len(ids) > _SOME else "")
    raise Invalid(f"{ref!r} is the beginning of several {what}s", hint=f"give more of it: {some}")

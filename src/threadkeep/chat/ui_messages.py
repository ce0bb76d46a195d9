"""A chat as an AI SDK client loads and saves it: a list of UI messages under an id of its own."""

from collections.abc import Sequence
from typing import Any

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.history import hide
from threadkeep.chat.messages import put_message
from threadkeep.chat.records import Json, Session
from threadkeep.chat.recovery import is_running
from threadkeep.chat.store import ChatStore
from threadkeep.chat.views import load
from threadkeep.errors import Conflict, Invalid, NotFound


def open_chat(store: ChatStore, chat_id: str, *, agent: str, model: Any) -> tuple[Session, bool]:
    """Return the session of a chat, begun if there is none; and whether it is new.

    Any text may be the id of a session, so the id that a client made up is the id here as well.
    """
    try:
        return store.session(chat_id), False
    except NotFound:
        pass
    try:
        return store.create_session(agent=agent, model=model, session_id=chat_id), True
    except Conflict:  # somebody else began it meanwhile
        return store.session(chat_id), False


def settled_messages(store: ChatStore, chat_id: str) -> list[Json]:
    """Return what a client shows before it resumes: the chat without the reply being recorded.

    The stream gives that one from its first chunk. A message that is being continued comes as it
    was before. A chat that nobody has begun is empty.
    """
    with store.context.db.read() as tx:
        if tx.one("get_session", {"id": chat_id}) is None:
            return []
        return _settled(tx, chat_id)


def _settled(tx: Tx, session_id: str) -> list[Json]:
    running = _running(tx, session_id)
    given: list[Json] = []
    for shaped in load(tx, session_id).conversation():
        if shaped["id"] not in running:
            given.append(shaped)
            continue
        base = tx.value("message_base", {"stream_id": session_id, "message_id": shaped["id"]})
        if base is not None:
            given.append(json.decode(base))
    return given


def _running(tx: Tx, session_id: str) -> set[str]:
    rows = tx.all("session_recordings", {"session_id": session_id})
    return {from_sql(row[0]) for row in rows if is_running(tx, row)}


def save_messages(
    store: ChatStore, session: Session, messages: Sequence[Any], *, whole: bool
) -> int:
    """Save messages of a client, all or none; give how many were new or other than before.

    A `whole` list is all that the client shows: what it no longer has is hidden, as a reply is
    that was asked for again. A reply that is being recorded is left alone.
    """
    named = {_name_of(message) for message in messages}
    with store.context.db.write() as tx:
        known = {shaped["id"]: shaped for shaped in _settled(tx, session.id)}
        running = _running(tx, session.id)
        fresh = [message for message in messages if not _is_known(message, known)]
        for message in fresh:
            if _name_of(message) in running:
                msg = f"message {message['id']!r} is being recorded; it cannot be saved over"
                raise Conflict(msg, hint="leave it out, or wait for the end of the reply")
            put_message(store.context, tx, session.id, message)
        gone = known.keys() - named - running if whole else ()
        if gone:
            hide(store.context, tx, session.id, gone)
    return len(fresh)


def _name_of(message: Any) -> str:
    """Return the id of a message; the empty one makes the store choose."""
    name = (message.get("id") or "") if isinstance(message, dict) else None
    if not isinstance(name, str):
        raise Invalid(
            "a message is an object, and its id is text",
            hint='{"id": "…", "role": "user", "parts": [{"type": "text", "text": "…"}]}',
        )
    return name


def _is_known(message: Json, known: dict[str, Json]) -> bool:
    """Tell whether a message says nothing new.

    The store may know more than the client: its model, its usage. That is no reason to lose it.
    """
    stored = known.get(_name_of(message))
    if stored is None or any(message.get(key) != stored[key] for key in ("role", "parts")):
        return False
    said, noted = message.get("metadata") or {}, stored.get("metadata", {})
    return isinstance(said, dict) and all(noted.get(key) == said[key] for key in said)

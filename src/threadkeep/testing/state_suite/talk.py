"""What the tests of session stores begin with: a session in which something was said."""

from typing import Any

from threadkeep.state.session_db import SessionDB
from threadkeep.testing.factories import StoreFactory

Factory = StoreFactory[SessionDB]
CALL = {"id": "call_1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}


def talk(db: SessionDB, session_id: str, *texts: str, source: str = "cli") -> list[int]:
    """Begin a session if there is none, and let user and assistant say the texts by turns."""
    if db.get_session(session_id) is None:
        db.create_session(session_id, source)
    return [
        db.append_message(session_id, "assistant" if place % 2 else "user", text)
        for place, text in enumerate(texts)
    ]


def session_of(db: SessionDB, session_id: str) -> dict[str, Any]:
    """Return a session that is there."""
    session = db.get_session(session_id)
    assert session is not None
    return session


def ids_of(sessions: list[dict[str, Any]]) -> list[str]:
    """Return the ids of sessions, in order."""
    return [session["id"] for session in sessions]


def found_in(db: SessionDB, query: str, **options: Any) -> set[str]:
    """Return the sessions in which a query finds something."""
    return {hit["session_id"] for hit in db.search_messages(query, **options)}

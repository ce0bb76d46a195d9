"""The records OpenCode's stores are turned into: the same ones from the database and the files."""

from typing import Any

import msgspec

from threadkeep.sources.common import number, table, text
from threadkeep.sources.raw_json import one_line, stored_object, wrap


class MessageAbout(msgspec.Struct, omit_defaults=True):
    """What a part must know about its message."""

    message: str
    role: str = ""
    model: str = ""
    created: int = 0
    summary: bool = False


def session_line(session: dict[str, Any]) -> bytes:
    """Write a session's own record; columns that are empty are left out."""
    told = {name: value for name, value in session.items() if value is not None}
    model = stored_object(told["model"]) if text(told.get("model"))[:1] == "{" else {}
    if model:
        told["model"] = text(model.get("id")) or text(model.get("modelID"))
    for name, value in told.items():
        if isinstance(value, bytes):
            told[name] = value.decode("utf-8", "replace")
    return msgspec.json.encode({"type": "session", "id": session.get("id"), "data": told})


def message_line(message: str, stored: object) -> tuple[bytes, MessageAbout]:
    """Write a message's record, and give what its parts have to repeat of it."""
    data = stored_object(stored)
    about = MessageAbout(
        message,
        role=text(data.get("role")),
        model=text(data.get("modelID")) or text(table(data.get("model")).get("modelID")),
        created=number(table(data.get("time")).get("created")),
        summary=data.get("summary") is True,
    )
    return wrap({"type": "message", "id": message}, "data", _stored(stored)), about


def part_line(part: str, about: MessageAbout, stored: object) -> bytes:
    """Write a part's record."""
    told = msgspec.to_builtins(about)
    return wrap({"type": "part", "id": part, **told}, "data", _stored(stored))


def _stored(stored: object) -> bytes:
    return one_line(stored) if isinstance(stored, (str, bytes)) else b"null"

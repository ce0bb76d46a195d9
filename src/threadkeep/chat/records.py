"""What the chat store gives back: sessions, messages, parts, runs and events as plain values."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.errors import Invalid

Json = dict[str, Any]

USAGE_BUCKETS = ("input", "output", "reasoning", "cache_read", "cache_write")


# What is in the file as the title of a session that has none: the guide author's own store
# needs a text there, and this is the one that it takes for none.
UNTITLED = "New Chat"


class Session(msgspec.Struct, frozen=True):
    """One conversation of one agent."""

    id: str
    agent: str
    workspace_root: str
    model: Json
    parent_id: str | None
    parent_message_id: str | None
    permissions: list[Json]
    metadata: Json
    usage: dict[str, int]
    total_tokens: int
    cost_usd: float
    created_at: int
    updated_at: int
    archived_at: int | None
    title: str | None
    workspace_id: str | None = None
    mode: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A turn's entry by one role, without its parts."""

    id: str
    session_id: str
    role: str
    metadata: Json
    created_at: int
    updated_at: int
    hidden_at: int | None

    @property
    def hidden(self) -> bool:
        """A message is hidden when either the column or its metadata says so."""
        return self.hidden_at is not None or self.metadata.get("hidden_at") is not None

    @property
    def queued(self) -> bool:
        """A user message queued while it has a numeric `queued_at`."""
        return self.role == "user" and is_number(self.metadata.get("queued_at"))


class Run(msgspec.Struct, frozen=True):
    """One run of an agent: who ran, what it was offered, and why it ended."""

    id: str
    session_id: str
    message_id: str | None
    agent: str | None
    model: Json
    system_prompt_digest: str | None
    tools: list[Any]
    verdicts: list[Json]
    usage: dict[str, int]
    cost_usd: float
    started_at: int
    ended_at: int | None
    end_reason: str | None
    finish_reason: str | None
    error_text: str | None


class Event(msgspec.Struct, frozen=True):
    """One entry of a session's journal.

    `kind` is "chunk" (`data` is the chunk), "snapshot" (`data` is the whole message, whose
    chunks are gone) or, with the event log on, the verb that changed something.
    """

    seq: int
    kind: str
    message_id: str | None
    data: Json
    at: int
    part_id: str | None = None


SessionRef = str | Session
MessageRef = str | Message


def ref_id(ref: object, what: str) -> str:
    """Take an id, or the record that has it."""
    found = ref.id if isinstance(ref, (Session, Message, Run)) else ref
    if not isinstance(found, str):
        msg = f"a {what} id must be text, not {type(ref).__name__}"
        raise Invalid(msg, hint=f"pass the id of the {what}, or the {what} itself")
    if not found:
        msg = f"the {what} id is empty"
        raise Invalid(msg, hint=f"pass the id of an existing {what}")
    return found


def session_key(session: object = None, *_: object, **__: object) -> str:
    """Return what a verb that writes to one session must not overlap with: the session's id."""
    return str(session.id if isinstance(session, Session) else session)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether a JSON value is a number (true and false are not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_noted_aside(role: str, metadata: Json) -> bool:
    """Tell whether the metadata of a message says that it is hidden or queued."""
    return metadata.get("hidden_at") is not None or (
        role == "user" and is_number(metadata.get("queued_at"))
    )


_LARGEST_COUNT = 2**53 - 1  # beyond it a number in JSON is no longer a count
LARGEST_TIME = _LARGEST_COUNT  # epoch milliseconds, far beyond any calendar


def is_time(value: Any) -> TypeGuard[int]:
    """Tell whether a value is a time that a column can hold and that leaves room for later ones."""
    return type(value) is int and 0 <= value <= LARGEST_TIME


def usage_in(metadata_usage: object) -> dict[str, int]:
    """Read usage as another program wrote it into metadata: what is no count is zero."""
    given = metadata_usage if isinstance(metadata_usage, dict) else {}
    found = {name: given.get(name) for name in USAGE_BUCKETS}
    return {
        name: int(value) if is_number(value) and 0 < value <= _LARGEST_COUNT else 0
        for name, value in found.items()
    }


def read_object(text: str | bytes | None) -> Json:
    """Decode a JSON object column; what is not an object there reads as the empty one."""
    if not text or text == "{}":
        return {}
    try:
        value = json.decode(text)
    except Invalid:
        return {}
    return value if value.__class__ is dict else {}


def read_list(text: str | bytes | None) -> list[Any]:
    """Decode a JSON array column; what is not an array there reads as the empty one."""
    try:
        value = json.decode(text or "[]")
    except Invalid:
        return []
    return value if isinstance(value, list) else []


def _text(value: str | bytes | None) -> str | None:
    return None if value is None else from_sql(value)


def title_of(value: str | bytes | None) -> str | None:
    """Read the title column: what is in it for an untitled session is no title."""
    title = _text(value)
    return None if title == UNTITLED else title


def session_of(row: tuple[Any, ...]) -> Session:
    """Make a Session from a row of the query `get_session` or `list_sessions`."""
    return Session(
        id=from_sql(row[0]),
        agent=from_sql(row[1]),
        workspace_root=_text(row[2]) or "",
        model=read_object(row[3]),
        parent_id=_text(row[4]),
        parent_message_id=_text(row[5]),
        permissions=read_list(row[6]),
        metadata=read_object(row[7]),
        usage=dict(zip(USAGE_BUCKETS, row[8:13], strict=True)),
        total_tokens=row[13],
        cost_usd=row[14],
        created_at=row[15],
        updated_at=row[16],
        archived_at=row[17],
        title=title_of(row[18]),
        workspace_id=_text(row[19]),
        mode=_text(row[20]),
    )


def message_of(row: tuple[Any, ...]) -> Message:
    """Make a Message from a row of the query `get_message`."""
    return Message(
        id=from_sql(row[0]),
        session_id=from_sql(row[1]),
        role=from_sql(row[2]),
        metadata=read_object(row[3]),
        created_at=row[4],
        updated_at=row[5],
        hidden_at=row[6],
    )


def run_of(row: tuple[Any, ...]) -> Run:
    """Make a Run from a row of the query `get_run`."""
    return Run(
        id=row[0],
        session_id=from_sql(row[1]),
        message_id=_text(row[2]),
        agent=_text(row[3]),
        model=read_object(row[4]),
        system_prompt_digest=row[5],
        tools=read_list(row[6]),
        verdicts=read_list(row[7]),
        usage=read_object(row[8]),
        cost_usd=row[9],
        started_at=row[10],
        ended_at=row[11],
        end_reason=row[12],
        finish_reason=_text(row[13]),
        error_text=_text(row[14]),
    )


def without_keys(mapping: Mapping[str, Any], *keys: str) -> Json:
    """Copy a mapping without some of its keys."""
    return {key: value for key, value in mapping.items() if key not in keys}

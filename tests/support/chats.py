"""Builders for the tests of the chat store: a clock turned by hand, replies, a plain reader."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from threadkeep.chat.records import Message, Session
from threadkeep.chat.search import ChatHit
from threadkeep.chat.store import ChatStore
from threadkeep.testing import ManualClock, StoreFactory, rows

Json = dict[str, Any]
Factory = StoreFactory[ChatStore]

MODEL = {"provider_id": "acme", "model_id": "large"}


def open_store(path: Path, clock: ManualClock | None = None, **options: Any) -> ChatStore:
    """Open a store whose time is made by hand."""
    return ChatStore.open(path, clock=clock or ManualClock(), **options)


def new_session(store: ChatStore, **options: Any) -> Session:
    session: Session = store.create_session(**{"agent": "coder", "model": MODEL, **options})
    return session


def text_chunks(text: str, message_id: str | None = None) -> list[Json]:
    """Make the chunks of a reply that is one text."""
    start: Json = {"type": "start"} | ({"messageId": message_id} if message_id else {})
    return [
        start,
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def tool_chunks(call: str, name: str = "search", **fields: Any) -> list[Json]:
    """Make the chunks of a tool call whose input is there and whose result is not."""
    return [
        {"type": "tool-input-start", "toolCallId": call, "toolName": name, **fields},
        {
            "type": "tool-input-available",
            "toolCallId": call,
            "toolName": name,
            "input": {"q": 1},
            **fields,
        },
    ]


def record(store: ChatStore, session: Session | str, chunks: Iterable[Json], **options: Any) -> str:
    """Record a list of chunks as one reply and give its message id."""
    with store.record(session, **options) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    assert recorder.message_id is not None
    return str(recorder.message_id)


def reply(store: ChatStore, session: Session | str, text: str, usage: Json | None = None) -> str:
    """Record a reply of one text, with its usage if there is any, and give its message id."""
    message_id = record(store, session, text_chunks(text))
    if usage is not None:
        store.record_usage(session, usage, message=message_id)
    return message_id


def turn(
    store: ChatStore, session: Session | str, said: str, answer: str, usage: Json | None = None
) -> tuple[str, str]:
    """Add a user message and its reply; give both ids."""
    asked: Message = store.say(session, said)
    return asked.id, reply(store, session, answer, usage)


def texts(store: ChatStore, session: Session | str, view: Any = "transcript") -> list[str]:
    """Return the text of every message of a view, in order."""
    return [text_of(message) for message in store.ui_messages(session, view)]


def found_in(hits: list[ChatHit]) -> set[str]:
    """Return the ids of the messages that were found."""
    return {hit.message_id for hit in hits}


def text_of(message: Json) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


def column_names(path: Path, table: str) -> list[str]:
    return [row["name"] for row in rows(path, f'PRAGMA table_info("{table}")')]

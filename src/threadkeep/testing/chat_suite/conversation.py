"""What the tests of chat stores begin with: a session, replies, rows of the three tables."""

import json
from collections.abc import Iterable
from typing import Any

from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.testing.factories import StoreFactory

Factory = StoreFactory[ChatStore]
Json = dict[str, Any]

MODEL = {"provider_id": "acme", "model_id": "large"}


def new_session(store: ChatStore, **options: Any) -> Session:
    """Begin a session of an agent named coder."""
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


def record(store: ChatStore, session: Session, chunks: Iterable[Json], **options: Any) -> str:
    """Record chunks as one reply, and give its id."""
    with store.record(session, **options) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    return str(recorder.message_id)


def turn(store: ChatStore, session: Session, said: str, answer: str) -> tuple[str, str]:
    """Let the user say something and the agent answer; give both ids."""
    return store.say(session, said).id, record(store, session, text_chunks(answer))


def texts(store: ChatStore, session: Session, view: Any = "transcript") -> list[str]:
    """Return the text of every message of a view, in order."""
    shown = store.ui_messages(session, view)
    return ["".join(part.get("text", "") for part in message["parts"]) for message in shown]


def table(factory: Factory, store: ChatStore, name: str) -> list[Json]:
    """Return the rows of a table of the contract, in the order in which they were made."""
    found = factory.contents(store)[name]
    return sorted(found, key=lambda row: (row["created_at"], row.get("index", 0), row["id"]))


def data_of(row: Json) -> Json:
    """Return the part that a row of `chat_parts` holds."""
    data: Json = json.loads(row["data_json"])
    return data

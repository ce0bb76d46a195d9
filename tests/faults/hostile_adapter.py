"""Hostile values for every field of the chat store (see hostile_protocol.py)."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.hostile_protocol import Target, one_field_will_do, serve  # noqa: E402
from threadkeep.chat.records import Session  # noqa: E402
from threadkeep.chat.store import ChatStore  # noqa: E402

CALL = {"toolCallId": "c", "toolName": "t"}


def new_session(store: ChatStore, **fields: Any) -> Session:
    return store.create_session(agent="a", model="p/m", **fields)


def streamed(store: ChatStore, session: Session, *chunks: dict[str, Any]) -> list[Any]:
    """Record a reply and give its parts as they are read back."""
    with store.record(session, strict=True) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
    parts: list[Any] = store.ui_messages(session)[-1]["parts"]
    return parts


# Each gives back, one after the other, what the fields of its kind made of the value. ----------


def texts(store: ChatStore, value: str) -> Iterator[Any]:
    if one_field_will_do(value):
        session = new_session(store)
        store.say(session, value)
        yield store.ui_messages(session)[-1]["parts"][0]["text"]
        return
    session = new_session(store, title=value, workspace_root=value)
    yield session.title
    yield session.workspace_root
    store.say(session, value)
    yield store.ui_messages(session)[-1]["parts"][0]["text"]
    part = {"type": "text", "text": value}
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [part]})
    yield store.message(session, "m")["parts"][0]["text"]
    third = len(value) // 3
    deltas = [value[:third], value[third : 2 * third], value[2 * third :]]
    begin, end = {"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}
    middle = [{"type": "text-delta", "id": "t", "delta": delta} for delta in deltas]
    yield streamed(store, session, begin, *middle, end)[0]["text"]
    digest = store.put_system_prompt(value)
    yield store.system_prompt(digest)
    store.search(value)


def ids(store: ChatStore, value: str) -> Iterator[Any]:
    session = new_session(store, session_id=value)
    yield session.id
    yield store.session(value).id
    yield store.say(session, "x", message_id=f"u{value}").id[1:]
    start = {"type": "start", "messageId": value}
    call = {"type": "tool-input-available", "toolCallId": value, "toolName": "t", "input": {}}
    result = {"type": "tool-output-available", "toolCallId": value, "output": 1}
    text = [{"type": f"text-{step}", "id": value} for step in ("start", "end")]
    yield streamed(store, session, start, call, result, *text)[0]["toolCallId"]
    yield store.message(value, value)["id"]
    yield next(event.message_id for event in store.tail(session, follow=False) if event.message_id)
    yield store.fork(session, value).parent_id


def values(store: ChatStore, value: Any) -> Iterator[Any]:
    session = new_session(store, metadata={"v": value})
    yield store.session(session).metadata["v"]
    store.say(session, "x", metadata={"v": value})
    yield store.ui_messages(session)[-1]["metadata"]["v"]
    call = {"type": "tool-input-available", **CALL, "input": value}
    result = {"type": "tool-output-available", "toolCallId": "c", "output": value}
    parts = streamed(store, session, call, result, {"type": "data-x", "data": value})
    yield parts[0]["input"]
    yield parts[0]["output"]
    yield parts[1]["data"]


def lines(store: ChatStore, value: str) -> Iterator[Any]:
    session = new_session(store)
    store.say(session, value)
    yield store.ui_messages(session)[-1]["parts"][0]["text"]
    call = {"type": "tool-input-start", **CALL}
    delta = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": value}
    yield streamed(store, session, call, delta)[0]["rawInput"]


def queries(store: ChatStore, value: str) -> Iterator[Any]:
    store.search(value)
    store.sessions(title=value)
    yield value


def names(store: ChatStore, value: str) -> Iterator[Any]:
    """The reason of a backup is the one text that becomes part of a file's name."""
    yield str(store.backup(reason=value))


SLOTS: dict[str, Callable[[ChatStore, Any], Iterator[Any]]] = {
    "text": texts,
    "id": ids,
    "json": values,
    "jsontext": lines,
    "query": queries,
    "filename": names,
}


def problems(store: ChatStore) -> list[str]:
    return store.verify().problems


def clear(store: ChatStore) -> None:
    for session in store.sessions(archived=None, ephemeral=True, limit=500).items:
        store.delete(session)


if __name__ == "__main__":
    serve(Target("chat store", ChatStore.open, SLOTS, problems, clear))

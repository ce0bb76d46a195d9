"""Which writes may overlap on an engine with many writers: those of different keys, and no other.

A write that reads on from a stored cursor has no key, so that no row can come before the cursor.
"""

from collections.abc import Callable
from typing import Any

import pytest

from threadkeep.base.database import Database
from threadkeep.knowledge.nodes import Note
from threadkeep.testing import ChatFactory, KnowledgeFactory, StateFactory

Listen = Callable[[Database], list[str | None]]
TEXT = [
    {"type": "start", "messageId": "m"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "one"},
    {"type": "text-end", "id": "t"},
]


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Listen:
    """Return what notes the key of each write to a database from now on."""

    def start(database: Database) -> list[str | None]:
        keys: list[str | None] = []

        def noting(verb: Callable[..., Any]) -> Callable[..., Any]:
            def noted(*args: Any, **options: Any) -> Any:
                keys.append(options.get("key"))
                return verb(*args, **options)

            return noted

        for name in ("write", "again"):
            monkeypatch.setattr(database, name, noting(getattr(database, name)))
        return keys

    return start


def of_session(keys: list[str | None], session_id: str) -> bool:
    """Tell whether a session's key was given; what a verb does inside itself has none."""
    return session_id in keys and {*keys} <= {session_id, None}


def test_what_is_said_and_counted_in_a_session_of_chat_has_its_key(listen: Listen) -> None:
    with ChatFactory() as factory, factory.open() as store:
        session = store.create_session(agent="a", model="m")
        store.say(session, "one")
        reply = {"id": "r", "role": "assistant", "parts": []}
        for write in (
            lambda: store.say(session.id, "two"),
            lambda: store.put_message(session=session, ui_message=reply),
            lambda: store.record_usage(session, {"input": 1}, message="r"),
        ):
            keys = listen(store.context.db)
            write()
            assert keys[0] == session.id
        keys = listen(store.context.db)
        with store.record(session) as recorder:
            for chunk in TEXT:
                recorder.feed(chunk)
        assert of_session(keys, session.id)


def test_messages_and_usage_of_state_have_their_sessions_key(listen: Listen) -> None:
    with StateFactory() as factory, factory.open() as store:
        store.create_session("s", "cli")
        for write in (
            lambda: store.append_message("s", "user", "one"),
            lambda: store.append_messages(session_id="s", messages=[{"role": "user"}]),
            lambda: store.update_token_counts("s", input_tokens=1),
        ):
            keys = listen(store.context.db)
            write()
            assert keys[0] == "s"


def test_an_index_reads_on_alone(listen: Listen) -> None:
    with StateFactory() as factory, factory.open() as state:
        state.create_session("s", "cli")
        state.append_message("s", "user", "a word")
        keys = listen(state.context.db)
        state.reindex()
        assert keys
        assert {*keys} == {None}
    with KnowledgeFactory() as made, made.open() as knowledge:
        note = Note("use the other cable", "codex", "e", "s", at=1)
        knowledge.nodes.write_note(note, uuid="u")
        keys = listen(knowledge.context.db)
        assert knowledge.index() > 0
        assert {*keys} == {None}

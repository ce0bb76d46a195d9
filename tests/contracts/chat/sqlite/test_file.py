"""What must not be left in the file, and what damage of the file is found."""

from pathlib import Path

import pytest

from tests.support.chats import (
    Factory,
    new_session,
    open_store,
    record,
    text_chunks,
)
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Damaged


def test_vacuum_gives_the_space_of_deleted_sessions_back(store: ChatStore) -> None:
    kept, gone = new_session(store), new_session(store)
    record(store, kept, text_chunks("the wallaby stays"))
    store.say(gone, "y" * 3_000_000)
    store.delete(gone)
    assert store.size().free_bytes > 2_000_000
    assert store.vacuum() > 2_000_000
    assert store.size().free_bytes == 0
    assert store.path.stat().st_size < 500_000
    assert len(store.search("wallaby")) == 1
    assert store.verify().ok


def test_deleted_text_is_not_left_in_the_file(store: ChatStore) -> None:
    session = new_session(store)
    store.say(session, "a very private marsupial")
    store.search("private")
    store.delete(session)
    store.vacuum()
    store.close()
    for file in store.path.parent.iterdir():
        if file.is_file():
            assert b"marsupial" not in file.read_bytes()


def test_secret_cut_over_deltas_never_reaches_the_disk(factory: Factory) -> None:
    def redact(text: str) -> str:
        return text.replace("sk-secret", "[redacted]")

    with factory.open(redact=redact) as store:
        session = store.create_session(agent="a", model={}, title="about sk-secret")
        store.say(session, "my key is sk-secret", metadata={"note": "sk-secret"})
        with store.record(session, "m") as recorder:
            recorder.feed({"type": "text-start", "id": "1"})
            for piece in ("the key ", "sk-", "sec", "ret", " is used"):
                recorder.feed({"type": "text-delta", "id": "1", "delta": piece})
            recorder.feed({"type": "text-end", "id": "1"})
            output = {"type": "tool-output-available", "toolCallId": "c", "output": ["sk-secret"]}
            recorder.feed(
                {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}}
            )
            recorder.feed(output)
        parts = store.message(session, "m")["parts"]
        assert parts[0]["text"] == "the key [redacted] is used"
        assert parts[1]["output"] == ["[redacted]"]
        store.search("anything")
        sqlite_file(store.context.db).truncate_log()
    for file in store.path.parent.iterdir():
        assert b"sk-secret" not in file.read_bytes()


def test_flipped_byte_in_the_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with open_store(path) as store:
        session = new_session(store)
        store.say(session, "the platypus is real")
    before = path.read_bytes()
    assert before.count(b"platypus") == 1
    path.write_bytes(before.replace(b"platypus", b"platyqus"))
    with open_store(path) as store:
        assert store.ui_messages(session)[0]["parts"][0]["text"] == "the platyqus is real"
        report = store.verify()
        assert not report.ok
        with pytest.raises(Damaged):
            store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()


def test_page_that_is_torn_is_found(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with open_store(path) as store:
        session = new_session(store)
        for number in range(40):
            store.say(session, f"{number} " + "x" * 500)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\0" * 4096
    path.write_bytes(content)
    try:
        with open_store(path) as store:
            assert not store.verify().ok
    except Damaged:
        pass  # the torn page was needed to open the file


def test_backup_made_during_writes_verifies_and_is_one_moment(
    store: ChatStore, session: Session, tmp_path: Path
) -> None:
    for number in range(30):
        store.say(session, f"{number} " + "x" * 2000)
    written = []

    def write_meanwhile(_done: int, _total: int) -> None:
        written.append(store.say(session, "during the backup").id)

    copy = store.backup(tmp_path / "copy.db", progress=write_meanwhile)
    assert written
    with open_store(copy, read_only=True) as backup:
        assert backup.verify().ok
        texts = [message["parts"][0]["text"] for message in backup.ui_messages(session)]
    assert len(texts) == 30
    assert len(store.ui_messages(session)) == 30 + len(written)

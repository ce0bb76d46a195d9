"""Restores while other processes write: whatever they were told is stored can be found again."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support.children import Child, wait_until
from threadkeep import Home

pytestmark = pytest.mark.faults

RESTORES = 5
_AT_LEAST = 5

# Stores one thing after the other, and notes each after it was told that it is stored.
WRITER = """
from threadkeep import Home
from threadkeep.base.tx import Sql
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.mailbox.index import MailIndex

home, path, ledger, stop, name = Home(sys.argv[1]), *sys.argv[2:6]
STORE
noted = open(ledger, "w", buffering=1)
number = 0
say("ready")
while not os.path.exists(stop):
    number += 1
    key = f"{name}-{number}"
    write(key)
    noted.write(key + "\\n")
say("done")
"""
CHAT = """
store = home.chat()
def write(key):
    store.create_session(agent="a", model="m", session_id=key)
"""
STATE = """
store = home.state()
def write(key):
    store.create_session(key, "cli")
"""
# Hermes: another program with its own connection to the same file.
OUTSIDE = """
store = sqlite3.connect(path, isolation_level=None, timeout=30)
def write(key):
    store.execute("INSERT INTO sessions(id, source, started_at) VALUES(?, 'cli', 1.0)", (key,))
"""
MAILBOX = """
store = MailIndex.open(path)
def write(key):
    store.add_agent_group(key, folder=key)
"""
KNOWLEDGE = """
store = KnowledgeStore.open(path)
def write(key):
    with store.write(durable=False) as tx:
        sql = "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
        tx.run(Sql(sql + " VALUES (:key, '{}', '', 1, 1)"), {"key": key})
"""
KEYS = {
    "chat": "SELECT id FROM chat_sessions",
    "state": "SELECT id FROM sessions",
    "mailbox": "SELECT folder FROM agent_groups",
    "knowledge": "SELECT uuid FROM knowledge_nodes",
}


def begin(home: Home) -> None:
    """Begin every store, empty."""
    for opened in (home.chat(), home.state(), home.mailroom(), home.knowledge()):
        opened.close()


def keys(path: Path, kind: str) -> set[str]:
    plain = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {row[0] for row in plain.execute(KEYS[kind])}
    finally:
        plain.close()


def acknowledged(ledgers: list[Path]) -> Iterator[str]:
    for ledger in ledgers:
        yield from ledger.read_text().splitlines()


def has_written(children: list[Child], ledgers: list[Path], wanted: int) -> bool:
    assert [child.process.poll() for child in children] == [None] * len(children)
    return len(list(acknowledged(ledgers))) >= wanted


@pytest.mark.parametrize(
    "kind, writers",
    [
        ("chat", (CHAT, CHAT)),
        ("state", (STATE, OUTSIDE)),
        ("mailbox", (MAILBOX, MAILBOX)),
        ("knowledge", (KNOWLEDGE, KNOWLEDGE)),
    ],
)
def test_every_acknowledged_write_is_in_the_store_or_in_a_copy(
    tmp_path: Path, kind: str, writers: tuple[str, ...]
) -> None:
    home, stop = Home(tmp_path / "home"), tmp_path / "stop"
    begin(home)
    path = home.store_path(kind)
    backup = home.backup(store=kind)
    ledgers = [tmp_path / f"ledger{place}" for place in range(len(writers))]
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                Child(
                    WRITER.replace("STORE", script),
                    *(tmp_path / "home", path, ledgers[place], stop, place),
                )
            )
            for place, script in enumerate(writers)
        ]
        for child in children:
            child.expect("ready")
        for _ in range(RESTORES):
            wanted = len(list(acknowledged(ledgers))) + _AT_LEAST
            wait_until(partial(has_written, children, ledgers, wanted))
            assert home.restore(backup, store=kind) is not None
        stop.touch()
        for child in children:
            child.expect("done")
    copies = [one.path for one in home.backups(store=kind)]
    assert len(copies) == RESTORES + 1
    found = keys(path, kind).union(*(keys(copy, kind) for copy in copies))
    assert set(acknowledged(ledgers)) - found == set()

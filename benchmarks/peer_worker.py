"""Runs inside the peers' own environment: appends to one peer's store and loads from it.

    python peer_worker.py PEER FOLDER

Reads orders from standard input, one JSON value a line, and answers each with the CPU and wall
seconds it took: a list of messages is appended one by one, the word "load" reads everything back.
Only the standard library and the peer itself are imported here.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Peer(NamedTuple):
    """How to append one message (role and text), and how to read all of them back."""

    append: Callable[[str, str], Any]
    load: Callable[[], Any]


def openai_agents(folder: Path) -> Peer:
    """SQLiteSession of openai-agents; its methods are coroutines."""
    memory = importlib.import_module("agents.memory")
    session = memory.SQLiteSession("ses", folder / "agents.db")
    run = asyncio.new_event_loop().run_until_complete
    return Peer(
        lambda role, text: run(session.add_items([{"role": role, "content": text}])),
        lambda: run(session.get_items()),
    )


def langchain(folder: Path) -> Peer:
    """SQLChatMessageHistory of langchain-community, over SQLAlchemy."""
    histories = importlib.import_module("langchain_community.chat_message_histories")
    kinds = importlib.import_module("langchain_core.messages")
    history = histories.SQLChatMessageHistory("ses", connection=f"sqlite:///{folder}/chain.db")
    made = {"user": kinds.HumanMessage, "assistant": kinds.AIMessage}
    return Peer(
        lambda role, text: history.add_message(made[role](content=text)),
        lambda: history.messages,
    )


def llm(folder: Path) -> Peer:
    """The log store of llm: messages by the hash of their content."""
    logs = importlib.import_module("llm.logs")
    parts = importlib.import_module("llm.parts")
    database = importlib.import_module("sqlite_utils").Database(folder / "logs.db")
    importlib.import_module("llm.migrations").migrate(database)
    store = logs.LogStore(database)
    thread = store.create_thread()

    def append(role: str, text: str) -> None:
        message = parts.Message(role=role, parts=[parts.TextPart(text=text)])
        store.append(thread, [message])

    return Peer(append, lambda: store.thread_messages(thread))


PEERS: dict[str, Callable[[Path], Peer]] = {
    "openai-agents": openai_agents,
    "langchain-community": langchain,
    "llm": llm,
}


def obey(peer: Peer, order: Any) -> int:
    """Do what was asked for; give how many messages it was."""
    if order == "load":
        return len(peer.load())
    for role, text in order:
        peer.append(role, text)
    return len(order)


def main() -> None:
    """Answer orders until standard input ends."""
    peer = PEERS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        cpu, wall = time.process_time(), time.perf_counter()
        count = obey(peer, order)
        used = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps([count, *used]), flush=True)


if __name__ == "__main__":
    main()

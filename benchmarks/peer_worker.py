"""Runs inside the peers' own environment: appends to one peer's store and loads from it.

    python peer_worker.py PEER FOLDER

Reads orders from standard input, one JSON value a line, and answers each with the CPU and wall
seconds it took: a list of messages is appended one by one, the word "load" reads everything back,
the word "about" is answered with the peer's version and the journal mode of its file.
Only the standard library and the peer itself are imported here.
"""

import asyncio
import importlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
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


def google_adk(folder: Path) -> Peer:
    """SqliteSessionService of google-adk: an event of a session; its methods are coroutines."""
    sessions = importlib.import_module("google.adk.sessions.sqlite_session_service")
    events = importlib.import_module("google.adk.events")
    types = importlib.import_module("google.genai.types")
    service = sessions.SqliteSessionService(str(folder / "adk.db"))
    run = asyncio.new_event_loop().run_until_complete
    names = {"app_name": "bench", "user_id": "someone"}
    session = run(service.create_session(**names))

    def append(role: str, text: str) -> None:
        said = types.Content(
            role="user" if role == "user" else "model", parts=[types.Part(text=text)]
        )
        run(service.append_event(session, events.Event(author=role, content=said)))

    def load() -> Any:
        return run(service.get_session(**names, session_id=session.id)).events

    return Peer(append, load)


def langgraph(folder: Path) -> Peer:
    """SqliteSaver of langgraph-checkpoint-sqlite: every checkpoint has all messages so far."""
    saver_module = importlib.import_module("langgraph.checkpoint.sqlite")
    base = importlib.import_module("langgraph.checkpoint.base")
    connection = sqlite3.connect(folder / "graph.db", check_same_thread=False)
    saver = saver_module.SqliteSaver(connection)
    saver.setup()
    state: dict[str, Any] = {"config": {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}}
    messages: list[Any] = []

    def append(role: str, text: str) -> None:
        messages.append({"role": role, "content": text})
        version = f"{len(messages):032}.0"
        checkpoint = base.empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version}
        noted = {"source": "loop", "step": len(messages), "parents": {}}
        state["config"] = saver.put(state["config"], checkpoint, noted, {"messages": version})

    def load() -> Any:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        return saver.get_tuple(config).checkpoint["channel_values"]["messages"]

    return Peer(append, load)


PEERS: dict[str, Callable[[Path], Peer]] = {
    "openai-agents": openai_agents,
    "langchain-community": langchain,
    "llm": llm,
    "google-adk": google_adk,
    "langgraph-checkpoint-sqlite": langgraph,
}


def obey(peer: Peer, order: Any) -> int:
    """Do what was asked for; give how many messages it was."""
    if order == "load":
        return len(peer.load())
    for role, text in order:
        peer.append(role, text)
    return len(order)


def about(name: str, folder: Path) -> list[str]:
    """Return the version of a peer, and how its file keeps what is not in it yet."""
    modes = set()
    for path in folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as connection:
            modes.add(connection.execute("PRAGMA journal_mode").fetchone()[0])
    return [version(name), " ".join(sorted(modes))]


def main() -> None:
    """Answer orders until standard input ends."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    peer = PEERS[name](folder)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order == "about":
            print(json.dumps(about(name, folder)), flush=True)
            continue
        cpu, wall = time.process_time(), time.perf_counter()
        count = obey(peer, order)
        used = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps([count, *used]), flush=True)


if __name__ == "__main__":
    main()

"""`threadkeep demo`: a bundled conversation, recorded chunk by chunk and followed live."""

import shlex
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import resources
from typing import Any

import click

from threadkeep import ChatStore, Event, Session
from threadkeep.base import json
from threadkeep.cli.chat.follow import readable
from threadkeep.cli.command import Call, command, program
from threadkeep.cli.output import StyledText, document, note, wrapped, write

Json = dict[str, Any]

_PAUSE = 0.03  # about as fast as a model writes
_BETWEEN_TURNS = 0.5
_PATIENCE = 10.0


@command("demo", "threadkeep demo", "threadkeep demo --fast --json")
@click.option("--fast", is_flag=True, help="Skip the pauses of a real stream.")
def demo(call: Call, *, fast: bool) -> None:
    """Record a short conversation into a separate store, and follow it live.

    One thread records every chunk while another follows the same file. The demo stops on its own.
    """
    script = load("script.json")
    db = call.home.demo_path
    with call.home.chat(db) as store:
        session = store.create_session(**script["session"])
        note(f"recording session {session.id} into {db}\n")
        # Closed before the store is: the thread that records must have ended by then.
        playing = closing(_watch(store, session, script, 0.0 if fast else 1.0))
        with playing as shown, wrapped() as show:
            for pieces in shown:
                if not call.as_json:
                    show(pieces)
        messages = [message["id"] for message in store.ui_messages(session)]
    if call.as_json:
        document(db=db, session_id=session.id, message_ids=messages)
    _what_next(str(db))


def load(name: str) -> Any:
    """Read a file of the bundled conversation; of JSON lines, every line."""
    text = resources.files("threadkeep").joinpath("demo", name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        return [json.decode(line) for line in text.splitlines()]
    return json.decode(text)


def _watch(
    store: ChatStore, session: Session, script: Json, speed: float
) -> Generator[list[StyledText], None, None]:
    """Play the script in one thread, follow the store in this one."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(play, store, session, script, speed, stop)
        try:
            events = store.tail(session, timeout=_PATIENCE)
            yield from readable(store, session.id, _until(events, len(script["turns"])), set())
        finally:
            stop.set()
        playing.result()


def _until(events: Iterable[Event], replies: int) -> Iterator[Event]:
    """End after so many replies are complete."""
    complete = set()
    for event in events:
        yield event
        if event.kind == "snapshot" or event.data.get("type") in ("finish", "abort"):
            complete.add(event.message_id)
        if len(complete) == replies:
            return


def play(
    store: ChatStore, session: Session, script: Json, speed: float, stop: threading.Event
) -> None:
    """Record the turns of a script as a host would, chunk by chunk."""
    for turn in script["turns"]:
        store.say(session, turn["say"])
        if stop.wait(_BETWEEN_TURNS * speed):
            return
        _reply(store, session, script, turn, speed, stop)


def _reply(
    store: ChatStore,
    session: Session,
    script: Json,
    turn: Json,
    speed: float,
    stop: threading.Event,
) -> None:
    tools, prompt = script["tools"], script["system_prompt"]
    with store.record(session, tools=tools, system_prompt=prompt) as recorder:
        for chunk in load(turn["reply"]):
            if stop.wait(_PAUSE * speed):
                recorder.abort("interrupted")
                return
            recorder.feed(chunk)
            asked = turn["judge"].get(chunk.get("toolCallId"))
            if asked and chunk["type"] == "tool-input-available":
                call = chunk["toolCallId"]
                store.judge(session, *asked, run_id=recorder.run_id, tool_call_id=call)
        reply = recorder.message_id
    store.record_usage(session, turn["usage"], message=reply, cost_usd=turn["cost_usd"])


def _what_next(db: str) -> None:
    chat = f"{program(sys.argv[0])} chat --db {shlex.quote(db)}"
    note(f"\nThe conversation is in {db}. Try next:")
    for words in ("show last", "search timestamps", "export last --format markdown"):
        write(f"  {chat} {words}", err=True)

"""The session store behind the line protocol of the fault tools (protocol.py).

A key is kept in a message's tool_call_id and says who wrote it where and when:
`session.iteration-writer-place`, with a `b` behind it if it was stored together with two others.
Such three are there all or none.

Files of other versions keep the order of their columns and Hermes's form of the index. So `fresh`
makes a file of the version and brings it up undisturbed: that is how an interrupted one must end.
"""

import argparse
import hashlib
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.old_state_files import make_old_state  # noqa: E402
from tests.faults.protocol import Adapter, Save, patiently, speak, tell  # noqa: E402
from tests.faults.replies import words  # noqa: E402
from threadkeep.state.schema import is_whole  # noqa: E402
from threadkeep.state.session_db import SessionDB  # noqa: E402

Message = dict[str, Any]

SHARED = "shared"
TOGETHER = 3
_KEY = re.compile(r"(?P<session>\w+)\.(?P<iter>\d+)-(?P<writer>\d+)-(?P<place>\d+)(?P<batch>b?)")
_SHOWN = (
    *("role", "content", "tool_calls", "tool_name", "token_count", "finish_reason", "reasoning"),
    *("reasoning_details", "codex_reasoning_items"),
)


def digest(message: Message) -> str:
    """Hash what a reader sees of a message, but for its id and its time."""
    shown = [message.get(field) for field in _SHOWN]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def message_of(key: str) -> Message:
    """Make the message of a key: plain, unspaced, blob, very long, half a character, or parts."""
    rng = random.Random(key)
    role = rng.choice(("user", "assistant", "tool"))
    text = f"{key} {words(rng, rng.choice((10, 50, 400)))}"
    content: Any = rng.choice((text,) * 8 + (f"{text} 部署容器失败", *_odd_contents(text)))
    message: Message = {"role": role, "content": content, "tool_call_id": key}
    if role == "assistant":
        call = {"id": key, "function": {"name": "terminal", "arguments": json.dumps({"c": text})}}
        message |= {"tool_calls": [call], "token_count": len(text), "finish_reason": "stop"}
        message |= {"reasoning": words(rng, 20)}
    if role == "tool":
        message["tool_name"] = "terminal"
    return message


def _odd_contents(text: str) -> tuple[Any, ...]:
    blob = f"{text} data:image/png;base64,{'iVBORw0KGgo' * 300}"
    return blob, f"{text} " * 12, f"{text} \ud83d", [{"type": "text", "text": text}], None


# Writing ----------------------------------------------------------------------------------


class Writer:
    """One process that writes, and says so."""

    def __init__(self, db: SessionDB, iteration: int, number: int) -> None:
        self.db = db
        self.iteration = iteration
        self.number = number
        self.own = f"w{number}"
        self.places: Counter[str] = Counter()

    def keys(self, session: str, count: int) -> list[str]:
        """Return the next keys of this writer in a session."""
        first = self.places[session]
        self.places[session] += count
        mark = "b" if count == TOGETHER else ""
        name = f"{session}.{self.iteration}-{self.number}"
        return [f"{name}-{place}{mark}" for place in range(first, first + count)]

    def save(self, session: str, count: int) -> None:
        """Store so many messages, in one call; try until the store takes them."""
        messages = [message_of(key) for key in self.keys(session, count)]
        saves = [Save(message["tool_call_id"], 0, digest(message)) for message in messages]
        keyed = [{**m, "idempotency_key": m["tool_call_id"]} for m in messages]
        took = patiently(saves, lambda: self._append(session, keyed))
        for save in saves:
            tell("ACK", *save, took)

    def _append(self, session: str, messages: list[Message]) -> None:
        if len(messages) == 1:
            self.db.append_message(session, **messages[0])
        else:
            self.db.append_messages(session, messages)


def say(writer: Writer, count: int) -> None:
    """Store messages one by one, by turns in a session of one's own and in a shared one."""
    for session in (writer.own, SHARED):
        writer.db.ensure_session(session, "faults")
    for place in range(count):
        writer.save(SHARED if place % 2 else writer.own, 1)


def turns(writer: Writer, count: int) -> None:
    """Store whole turns and single messages; between them what else a host writes."""
    db = writer.db
    for session in (writer.own, SHARED):
        db.ensure_session(session, "faults")
    for place in range(count):
        writer.save(writer.own if place % 3 else SHARED, TOGETHER)
        writer.save(writer.own, 1)
        if place % 4 == 0:
            db.end_session(writer.own, "faults")
            db.update_system_prompt(writer.own, f"prompt {place}")
            db.reopen_session(writer.own)
            passing = f"passing{writer.iteration}x{writer.number}x{place}"
            db.create_session(passing, "faults", parent_session_id=writer.own)
            db.append_message(passing, "user", "soon gone")
            db.delete_session(passing)


MODES = {"turns": turns, "say": say}


def write(options: argparse.Namespace) -> None:
    with SessionDB(options.db) as db:
        MODES[options.mode](Writer(db, options.iter, options.w), options.n)


# Reading back -----------------------------------------------------------------------------


def show(database: str) -> list[str]:
    with SessionDB(database) as db:
        sessions = db.search_sessions(limit=-1)
        problems = [problem for session in sessions for problem in show_session(db, session)]
        problems += db.check()
        with db.context.db.read() as tx:
            return problems + ([] if is_whole(tx) else ["something of the schema is missing"])


def show_session(db: SessionDB, session: Message) -> list[str]:
    """Print what a session holds; give what is wrong with its order, its counts, its turns."""
    order = Order(session["id"])
    count = calls = 0
    for message in db.iter_messages(session["id"]):
        count += 1
        calls += len(message["tool_calls"] or ())
        _show(order, message)
    for field, found in (("message_count", count), ("tool_call_count", calls)):
        if session[field] != found:
            said = f"{session['id']} says {field} {session[field]}, and holds {found}"
            order.problems.append(said)
    return order.problems + order.torn_turns()


def _show(order: "Order", message: Message) -> None:
    known = _KEY.fullmatch(message["tool_call_id"] or "")
    if known is None:  # a file of another program, or what only passes
        if not message["session_id"].startswith("passing"):
            tell("HAVE", f"id{message['id']}", 0, digest(message))
        return
    place = Place(known["writer"], int(known["iter"]), int(known["place"]), bool(known["batch"]))
    name = f"{order.session}/{place.iteration}-{place.writer}:{place.number}"
    tell("HAVE", quote(known[0]), 0, digest(message), name)
    order.see(place)


class Place(NamedTuple):
    """Where in whose work a message stands."""

    writer: str
    iteration: int
    number: int
    together: bool


class Order:
    """Watches that each writer's messages stand in the order it wrote them, turns whole."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.problems: list[str] = []
        self._last: dict[str, tuple[int, int]] = {}
        self._turns: list[Place] = []

    def see(self, place: Place) -> None:
        """Take note of the next message of the session."""
        at = (place.iteration, place.number)
        if at <= self._last.get(place.writer, (-1, -1)):
            self.problems.append(f"{self.session}: {place} stands behind a later one")
        self._last[place.writer] = at
        if place.together:
            self._turns.append(place)

    def torn_turns(self) -> list[str]:
        """Name the turns of which a part is missing, or strangers stand between."""
        groups = [self._turns[i : i + TOGETHER] for i in range(0, len(self._turns), TOGETHER)]
        return [
            f"{self.session}: the turn at {group[0]} is torn"
            for group in groups
            if len(group) < TOGETHER
            or [p.number - group[0].number for p in group] != list(range(TOGETHER))
            or len({(p.writer, p.iteration) for p in group}) > 1
        ]


# Schemas ----------------------------------------------------------------------------------


def migrate(path: Path) -> None:
    """Bring a file up, and let the check put fingerprints on its rows, as the verifier will."""
    with SessionDB(path) as db:
        db.check()


def fresh(path: Path, version: int) -> None:
    make_old_state(path, version)
    migrate(path)


if __name__ == "__main__":
    speak(Adapter("session store", list(MODES), write, show, make_old_state, migrate, fresh))

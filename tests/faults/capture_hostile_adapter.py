"""Hostile values in every field of captured logs (see hostile_protocol.py).

What goes in is a line of a log, what comes back is read from the raw line in the archive. Every
value has a log of its own; it also passes through transcript, search and lists, which must take it.
"""

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.hostile_protocol import Target, one_field_will_do, serve  # noqa: E402
from threadkeep.base.sqlite.checks import sqlite_problems  # noqa: E402
from threadkeep.errors import Conflict, NotFound  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402
from threadkeep.knowledge.archive import all_logs, read_lines  # noqa: E402
from threadkeep.knowledge.query import Query  # noqa: E402

CLAUDE = ".claude/projects/-u-app/{}.jsonl"
CODEX = ".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-{}.jsonl"
PI = ".pi/agent/sessions/--u-app--/2026-05-01T10-00-00-000Z_{}.jsonl"
_WHEN = "2026-05-01T10:00:00.000Z"


class Agents:
    """A user home into which logs are put, and the history that captures them."""

    def __init__(self, database: Path) -> None:
        self._user = database.parent / f"{database.stem}-user"
        self._user.mkdir(exist_ok=True)
        home = Home(database.parent / f"{database.stem}-home", environ={})
        self.history = home.history(database, user_home=self._user)
        self._names = (f"s{os.getpid()}-{number}" for number in itertools.count())

    def put(self, place: str, *records: Any) -> list[bytes]:
        """Write records into a new log, capture it, and give back its lines as archived."""
        name = next(self._names)
        log = self._user / place.format(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
        log.write_bytes(b"".join(line + b"\n" for line in lines))
        report = self.history.capture()
        assert report.errors == 0, report
        context = self.history.store.context
        with context.db.read() as tx:
            row = next(one for one in all_logs(tx) if one.path == str(log))
            stored = list(read_lines(tx, row.id))
        for session in self.history.sessions(everything=True, limit=1):
            list(self.history.transcript(session))
        log.unlink()
        return stored

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.history.close()


def said(content: Any, **about: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": "u", "timestamp": _WHEN, "message": message, **about}


def answer(call: dict[str, Any], **about: Any) -> dict[str, Any]:
    message = {"role": "assistant", "id": "m", "content": [call], **about}
    return {"type": "assistant", "uuid": "a", "timestamp": _WHEN, "message": message}


BIG = 500_000  # such a text goes through the usual fields only
FIELDS = ("cwd", "gitBranch", "slug", "version", "uuid", "timestamp", "type")


# Each gives back, one after the other, what the fields of its kind made of the value. ----------


def texts(agents: Agents, value: str) -> Iterator[Any]:
    if one_field_will_do(value):
        (line,) = agents.put(CLAUDE, said(value))
        yield json.loads(line)["message"]["content"]
        return
    title = {"type": "custom-title", "customTitle": value}
    fields = FIELDS if len(value) < BIG else ()
    about = [said("x", **{name: value}) for name in fields]
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": value}}
    back = {"type": "tool_result", "tool_use_id": "c", "content": value}
    given = [said(value), title, *about, answer(call), said([back])]
    found = [json.loads(line) for line in agents.put(CLAUDE, *given)]
    yield found[0]["message"]["content"]
    yield found[1]["customTitle"]
    yield from (one[name] for one, name in zip(found[2:], fields, strict=False))
    yield found[-2]["message"]["content"][0]["input"]["command"]
    yield found[-1]["message"]["content"][0]["content"]
    agents.history.search(value[:10_000])


def ids(agents: Agents, value: str) -> Iterator[Any]:
    (line,) = agents.put(CLAUDE, said("x", uuid=value, sessionId=value, parentUuid=value))
    yield json.loads(line)["uuid"]
    meta = {"type": "session_meta", "timestamp": _WHEN, "payload": {"id": value, "cwd": value}}
    (line,) = agents.put(CODEX, meta)
    yield json.loads(line)["payload"]["id"]
    first = {"type": "session", "id": value, "timestamp": _WHEN, "cwd": value}
    message = {"role": "user", "content": "x"}
    second = {"type": "message", "id": value, "timestamp": _WHEN, "message": message}
    found = agents.put(PI, first, second)
    yield from (json.loads(line)["id"] for line in found)
    look(agents, value)


def look(agents: Agents, value: str) -> None:
    """Ask for sessions by a value: there may be none, or several."""
    try:
        session = agents.history.find(value)
    except (NotFound, Conflict):
        return
    list(agents.history.raw(session))
    agents.history.children(session)


def values(agents: Agents, value: Any) -> Iterator[Any]:
    call = {"type": "tool_use", "id": "c", "name": "t", "input": {"v": value}}
    spent = answer(call, usage={"output_tokens": value}, id=value)
    found = [json.loads(line) for line in agents.put(CLAUDE, spent, said(value, cwd=value))]
    yield found[0]["message"]["content"][0]["input"]["v"]
    yield found[0]["message"]["usage"]["output_tokens"]
    yield found[1]["message"]["content"]
    agents.history.usage()


def lines(agents: Agents, value: str) -> Iterator[Any]:
    for place in (CLAUDE, CODEX, PI):
        (line,) = agents.put(place, value.encode())
        yield line.decode()


def queries(agents: Agents, value: str) -> Iterator[Any]:
    agents.put(CLAUDE, said("hello-world 日本語 content rank"))
    among = Query(agent=(value,), project=(value,), branch=(value,))
    for newest in (False, True):
        agents.history.search(value, newest=newest)
        said_so = Query(agent=(value,), role=(value,), part=(value,))
        agents.history.search(value, said_so, newest=newest)
    agents.history.sessions(among)
    agents.history.usage(among)
    look(agents, value)
    yield value


def names(agents: Agents, value: str) -> Iterator[Any]:
    """The reason of a backup is the one text that becomes part of a file's name."""
    agents.put(CODEX, {"type": "session_meta", "timestamp": _WHEN, "payload": {"id": value}})
    yield str(agents.history.store.backup(reason=value))


SLOTS: dict[str, Callable[[Agents, Any], Iterator[Any]]] = {
    "text": texts,
    "id": ids,
    "json": values,
    "jsontext": lines,
    "query": queries,
    "filename": names,
}


def problems(agents: Agents) -> list[str]:
    with agents.history.store.context.db.read() as tx:
        return sqlite_problems(tx, quick=True)


def clear(_: Agents) -> None:
    """Nothing is in the way: the next value has logs of its own."""


if __name__ == "__main__":
    serve(Target("capture", Agents, SLOTS, problems, clear))

"""The other processes of the crash tests: each does one thing, step by step, as it is told.

    children.py ROLE DATABASE [ARGUMENT]

A child reads commands from stdin, one per line, and answers each with one line of JSON on stdout.
"""

import contextlib
import json
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.replies import story  # noqa: E402
from threadkeep.chat.store import ChatStore  # noqa: E402
from threadkeep.errors import NotFound, ThreadkeepError  # noqa: E402

SESSION = "ses_crash"


def answer(value: object) -> None:
    """Say something in one system call, so that a kill cannot cut it."""
    os.write(1, json.dumps(value).encode() + b"\n")


def commands() -> Iterator[str]:
    """Return what the parent says, until it hangs up."""
    for line in sys.stdin:
        yield line.strip()


def record(database: str, key: str) -> None:
    """Record a reply; every command lets so many chunks through, each is acknowledged."""
    with ChatStore.open(database) as store:
        chunks = iter([chunk for segment in story(key).segments for chunk in segment])
        recorder = store.record(SESSION, key)
        for command in commands():
            for _, chunk in zip(range(int(command)), chunks, strict=False):
                recorder.feed(chunk)
                answer("stored")


def take(database: str, how: str) -> None:
    """Fire or cancel the queued messages that the parent names; say whether it was done."""
    with ChatStore.open(database) as store:
        answer("ready")
        for message_id in commands():
            won = (store.fire if how == "fire" else store.cancel)(SESSION, message_id)
            answer(bool(won))


def look(database: str, _: str) -> None:
    """Read the three tables with nothing but sqlite3, whenever the parent asks."""
    sql = 'SELECT type, data_json FROM chat_parts WHERE message_id = ? ORDER BY "index"'
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for message_id in commands():
            answer(connection.execute(sql, (message_id,)).fetchall())


def fill(database: str, argument: str) -> None:
    """Record a reply on a disk that is full at every tenth chunk and at the end.

    Each time it has room again after that, and what was refused is done once more.
    """
    key, _, save_on = argument.partition(" ")
    with ChatStore.open(database) as store:
        recorder = store.record(SESSION, key, save_on=save_on)  # type: ignore[arg-type]
        chunks = [chunk for segment in story(key).segments for chunk in segment]
        for number, chunk in enumerate(chunks):
            if number % 10 == 9:
                refused = _refused(lambda chunk=chunk: recorder.feed(chunk))  # type: ignore[misc]
                answer({"refused": refused, "chunks": number, **_shown(store, key)})
                if not refused:  # it waits in memory for the end of its step
                    continue
            recorder.feed(chunk)
        answer({"refused": _refused(recorder.close), "chunks": len(chunks), **_shown(store, key)})
        recorder.close()
        answer({"refused": "", "chunks": len(chunks), **_shown(store, key)})


def _shown(store: ChatStore, key: str) -> dict[str, Any]:
    with contextlib.suppress(NotFound):
        return {"message": store.message(SESSION, key)}
    return {}


def _refused(action: Callable[[], object]) -> str:
    """Return the class of the error that an action meets while no file may grow, if any."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode = True  # compiled modules would be cut off at the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        action()
    except ThreadkeepError as error:
        return type(error).__name__
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    return ""


def fork(database: str, who_ends_first: str) -> None:
    """Write from both sides of a fork; the side named ends before the other goes on."""
    store = ChatStore.open(database)
    store.say(SESSION, "before")
    wake_parent, wake_child = os.pipe(), os.pipe()
    child = os.fork()
    name = "parent" if child else "child"
    mine, theirs = (wake_parent, wake_child) if child else (wake_child, wake_parent)
    _say_some(store, f"{name} early")
    os.write(theirs[1], b".")
    os.read(mine[0], 1)  # both have written, both have the store open
    if name == who_ends_first:
        store.close()
        os.write(theirs[1], b".")
    else:
        os.read(mine[0], 1)
        _say_some(store, f"{name} late")
        store.close()
    if not child:
        os._exit(0)
    answer(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def reopen(database: str, _: str) -> None:
    """Open the store anew in a forked child; the parent closes its own while the child writes."""
    store = ChatStore.open(database)
    store.say(SESSION, "before")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with ChatStore.open(database) as own:
            _say_some(own, "child early")
            os.write(ready[1], b".")
            os.read(go[0], 1)
            _say_some(own, "child late")
        os._exit(0)
    os.read(ready[0], 1)
    store.close()
    os.write(go[1], b".")
    answer(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _say_some(store: ChatStore, what: str) -> None:
    for number in range(10):
        store.say(SESSION, f"{what} {number}")


ROLES: dict[str, Callable[[str, str], Any]] = {
    "record": record,
    "take": take,
    "look": look,
    "fill": fill,
    "fork": fork,
    "reopen": reopen,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")

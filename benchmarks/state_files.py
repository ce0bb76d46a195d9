"""State files filled with the corpus, ours and version 6 by hand: made once in a run, then copied.

They are filled in memory, where a durable commit costs nothing, a turn of five messages in a
transaction: so the full-text indexes get the many small pieces that they have in real life.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.place import Place
from benchmarks.state_corpus import Json, Session, payload, sessions
from benchmarks.state_v6 import Plain
from threadkeep.state.hermes_state import SessionDB
from threadkeep.state.search.index_fill import drain

TURN = 5
_MEMORY = Path("/dev/shm")  # on Linux; elsewhere the system's temporary folder must do


class Filled(NamedTuple):
    """Two closed files with the same sessions; copy what is to be changed."""

    ours: Path
    plain: Path
    payload: int
    messages: int


@contextmanager
def memory() -> Iterator[Path]:
    """Return an empty folder in memory, or what comes nearest, that is removed afterwards."""
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="threadkeep-", dir=base) as name:
        yield Path(name)


def filled(place: Place, count: int) -> Filled:
    """Return the files with so many messages; they stay as long as the run does."""
    folder = place.folder / f"state-{count}"
    ours, plain = folder / "ours.db", folder / "plain.db"
    if not folder.exists():
        with memory() as quick:
            _fill_ours(quick / ours.name, sessions(count))
            _fill_plain(quick / plain.name, sessions(count))
            folder.mkdir(parents=True)
            for path in (ours, plain):
                shutil.copy(quick / path.name, path)
    return Filled(ours, plain, sum(map(payload, sessions(count))), count)


def copied(source: Path, folder: Path) -> Path:
    """Copy a closed file into a folder."""
    return Path(shutil.copy(source, folder / source.name))


def turns(messages: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """Cut the messages of a session into turns."""
    for start in range(0, len(messages), TURN):
        yield messages[start : start + TURN]


def _fill_ours(path: Path, given: Iterator[Session]) -> None:
    now = [0.0]
    with SessionDB(path, clock=lambda: now[0]) as store:
        for session in given:
            now[0] = session.started_at
            store.create_session(
                session.id, session.source, session.model, system_prompt=session.system_prompt
            )
            for turn in turns(session.messages):
                store.append_messages(session.id, turn)
            now[0] = session.messages[-1]["timestamp"] + 1
            if session.ended:
                store.end_session(session.id, "user_exit")
        drain(store.context)


def _fill_plain(path: Path, given: Iterator[Session]) -> None:
    with closing(Plain.create(path)) as store:
        for session in given:
            store.begin_session(session)
            for turn in turns(session.messages):
                store.append_all(session.id, turn)
            if session.ended:
                store.end_session(session)

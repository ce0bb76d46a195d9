"""Helpers for tests of the session store."""

from pathlib import Path
from typing import Any

from threadkeep.state.session_db import SessionDB
from threadkeep.testing import StoreFactory

Factory = StoreFactory[SessionDB]


class Clock:
    """A clock in Unix seconds that moves only when told, and a little with each look."""

    def __init__(self, now: float = 1_760_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time, a millisecond later each time."""
        self.now += 0.001
        return self.now

    def pass_days(self, days: float) -> None:
        """Let days go by (or back)."""
        self.now += days * 86_400


def open_state(path: Path, clock: Clock | None = None, **options: Any) -> SessionDB:
    """Open a session store with a clock that tests control."""
    return SessionDB(path, clock=clock or Clock(), **options)


def talk(db: SessionDB, session_id: str, *texts: str, source: str = "cli") -> list[int]:
    """Begin a session if there is none, and let user and assistant say the texts by turns."""
    db.ensure_session(session_id, source)
    return [
        db.append_message(session_id, "assistant" if place % 2 else "user", text)
        for place, text in enumerate(texts)
    ]

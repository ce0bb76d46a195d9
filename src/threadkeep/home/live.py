"""Chat sessions as they happen: who records right now, and what they write."""

from collections.abc import Callable, Generator

from threadkeep.base.tx import Row
from threadkeep.chat.records import Event
from threadkeep.chat.recovery import is_running
from threadkeep.chat.store import ChatStore

# How often somebody who follows is asked whether it is still wanted, in seconds.
_ASK_EVERY = 1.0


def running_runs(store: ChatStore, session_id: str) -> set[str]:
    """Give the runs of a session that somebody records right now."""
    return {row[2] for row in _running(store, session_id) if row[2] is not None}


def _running(store: ChatStore, session_id: str) -> list[Row]:
    with store.context.db.read() as tx:
        return [
            row
            for row in tx.all("session_recordings", {"session_id": session_id})
            if is_running(row)
        ]


def follow(
    store: ChatStore,
    session_id: str,
    after: int,
    *,
    until_idle: bool,
    wanted: Callable[[], bool],
) -> Generator[Event, None, None]:
    """Give a session's events as they commit, as long as they are wanted (asked every second)."""
    # Announced over the whole time: a reply that ends between two looks keeps its chunks.
    store.context.db.follow()
    try:
        while wanted():
            live = bool(_running(store, session_id))
            events = store.tail(
                session_id,
                after,
                follow=live or not until_idle,
                until_idle=until_idle,
                timeout=_ASK_EVERY,
            )
            for event in events:
                after = event.seq
                yield event
            if until_idle and not live:
                return
    finally:
        store.context.db.unfollow()

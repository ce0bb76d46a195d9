"""A store whose verbs are awaited, each in a thread: what Hermes calls AsyncSessionDB."""

import asyncio
from functools import wraps
from typing import Any

from threadkeep.state.session_db import SessionDB


class AwaitedSessions:
    """Offers everything of a SessionDB; what can be called is a coroutine. It is not closed."""

    def __init__(self, db: SessionDB) -> None:
        """Give an open store an async face."""
        self._db = db

    def __getattr__(self, name: str) -> Any:
        """Give a verb as a coroutine function, anything else as it is."""
        found = getattr(self._db, name)
        if not callable(found):
            return found

        @wraps(found)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(found, *args, **kwargs)

        return awaited

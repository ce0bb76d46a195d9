"""The async faces of the stores: the same verbs, run in threads so that the loop never waits."""

from threadkeep.aio.chat import AsyncChatStore, AsyncRecorder
from threadkeep.aio.state import AsyncSessionDB

__all__ = ["AsyncChatStore", "AsyncRecorder", "AsyncSessionDB"]

"""Contract 1: conversations in the AI SDK's shape, recorded chunk by chunk."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.chat.store import ChatStore

__all__ = ["ChatStore"]


def __getattr__(name: str) -> Any:
    """Load the store when it is asked for: its modules import each other through this package."""
    if name == "ChatStore":
        from threadkeep.chat.store import ChatStore  # noqa: PLC0415

        return ChatStore
    raise AttributeError(f"module 'threadkeep.chat' has no attribute {name!r}")

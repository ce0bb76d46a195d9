"""What one chunk did to a message: all that a store must know to follow it."""

from typing import Any

import msgspec


class Change(msgspec.Struct, frozen=True):
    """What one chunk did to the message."""

    delta_of: int | None = None
    """Index of the part that only grew by this delta."""
    grew: int = 0
    """Characters that a delta added."""
    parts: tuple[int, ...] = ()
    """Indexes of the parts that were created, changed otherwise, or can no longer grow."""
    truncated_to: int | None = None
    """The parts from this index on were removed."""
    metadata: dict[str, Any] | None = None
    """The metadata that was merged into the message's own."""
    restarted: bool = False
    """A start chunk with another message id dropped what there was: an id or any content."""
    transient: bool = False
    """A data part that is not meant to be kept."""
    unknown: bool = False
    """The chunk is of a type that this version of the stream does not have."""

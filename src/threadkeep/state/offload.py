"""Blobs of ended sessions, moved out of the messages when asked and put back when read."""

from collections.abc import Sequence

from threadkeep.base.sqlite import Tx
from threadkeep.state.context import Json


def inline_messages(tx: Tx, messages: Sequence[Json]) -> None:
    """Put offloaded values back into messages that were read from their columns."""

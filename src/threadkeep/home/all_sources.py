"""Every source that there is: other programs', and the stores of a home."""

from pathlib import Path

from threadkeep.sources.chat_store import ChatSource
from threadkeep.sources.hippo_notes import READER as NOTES, HippoNotes
from threadkeep.sources.mailboxes import MailboxSource
from threadkeep.sources.records import Source
from threadkeep.sources.registry import foreign_sources
from threadkeep.sources.state_store import StateSource


def all_sources(chats: list[Path], states: list[Path], mail: list[Path]) -> dict[str, Source]:
    """Give every source by name: other programs', and the stores of a home."""
    own: dict[str, Source] = {
        "chat": ChatSource(chats),
        "state": StateSource(states),
        "hermes-imported": StateSource(states, "hermes", imported=True),
        "mailbox": MailboxSource(mail),
        NOTES: HippoNotes(),
    }
    return foreign_sources() | own

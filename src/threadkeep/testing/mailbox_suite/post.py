"""What the tests of mailboxes begin with: two sides, a channel that delivers, their rows."""

from datetime import datetime
from typing import Any

from threadkeep.mailbox.adapters import Outgoing, Refused
from threadkeep.mailbox.records import Place
from threadkeep.testing.factories import MailPair, StoreFactory

Factory = StoreFactory[MailPair]
Row = dict[str, Any]

CHAT = Place("slack", "C1", "T1")
HOST_TABLES = ("messages_in", "delivered", "destinations", "session_routing")
CONTAINER_TABLES = ("messages_out", "processing_ack", "session_state")


def open_pair(factory: Factory) -> MailPair:
    """Make a mailbox whose mail goes to one chat by default."""
    pair = factory.open()
    pair.host.write_routing(CHAT)
    return pair


def table(factory: Factory, pair: MailPair, name: str) -> list[Row]:
    """Return the rows of a table, on whichever side it is, in the order of their numbers."""
    found = factory.contents(pair)
    (key,) = (key for key in found if key.split(".")[-1] == name)
    return sorted(found[key], key=lambda row: row.get("seq") or 0)


def tables(factory: Factory, pair: MailPair, names: tuple[str, ...]) -> dict[str, list[Row]]:
    """Return the rows of some tables, to be compared."""
    return {name: table(factory, pair, name) for name in names}


def texts(mails: list[Any]) -> list[str]:
    """Return what was said, in order."""
    return [mail.text for mail in mails]


def moment(text: str) -> float:
    """Read a time of a row, written with a zone or in UTC, in epoch seconds."""
    return datetime.fromisoformat(text if "+" in text or "Z" in text else f"{text}Z").timestamp()


class KeepingChannel:
    """A channel that keeps what it was sent, and names it p-1, p-2 and so on."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.sent: list[Outgoing] = []
        self._refuses = refuses

    def send(self, mail: Outgoing) -> str | None:
        """Take a message, or refuse it for good."""
        if self._refuses:
            why = "no such chat"
            raise Refused(why)
        self.sent.append(mail)
        return f"p-{len(self.sent)}"

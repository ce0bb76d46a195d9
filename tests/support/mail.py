"""Helpers for tests of the mailbox: a clock that stands still, and both sides of one folder."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place
from threadkeep.testing import MailPair, StoreFactory, place_of, raw

MailFactory = StoreFactory[MailPair]
NOON = 1_760_011_200_000  # 2025-10-09T12:00:00Z
CHAT = Place("slack", "C1", "T1")
GROUP = "ag-1-team01"


class FakeClock:
    """A clock in epoch milliseconds that moves only when told."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time go by."""
        self.now += round(seconds * 1000)


class Pair(NamedTuple):
    """Both sides of one mailbox, and the clock they share."""

    host: Host
    container: Container
    clock: FakeClock
    box: MailPair

    @property
    def path(self) -> Path:
        """Return the folder of the session."""
        return place_of(self.box)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the host's data as a stranger would; the container's is `outbound`."""
        return look(self.box, sql, *values)


def open_pair(factory: MailFactory, clock: FakeClock | None = None, **options: Any) -> Pair:
    """Make a mailbox whose mail goes to one chat by default, and open both sides of it."""
    clock = clock or FakeClock()
    names = {"agent_group": GROUP, "session": "sess-1-abcdef"}
    box = factory.open(clock=clock, **names, **options)
    box.host.write_routing(CHAT)
    return Pair(box.host, box.container, clock, box)


def name_places(host: Host) -> None:
    """Give the agent two names to write to: a channel and another agent."""
    host.write_destinations(
        [
            Destination("family", "Family", "channel", "telegram", "F9"),
            Destination("helper", "Helper", "agent", agent_group_id="ag-2-helper"),
        ]
    )


def look(box: MailPair | Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Run one statement on a mailbox, or on a folder, as any other program would."""
    with raw(box) as connection:
        return [tuple(row) for row in connection.execute(sql, values)]


def look_at(box: MailPair, side: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Run one statement on `in` or `out` of a mailbox, whose tables it names without a schema."""
    with raw(place_of(box) / f"{side}bound.db") as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        return [tuple(row) for row in connection.execute(sql, values)]


def leave_unfinished(path: Path, change: str) -> None:
    """Leave database and journal as a writer does that dies in the middle of a commit.

    The two files are copied while the change, too large for SQLite's cache, is half in the file.
    """
    spare = path.with_name("spare.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(change)
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{spare}{suffix}")
        writer.execute("ROLLBACK")
    for suffix in ("", "-journal"):
        Path(f"{spare}{suffix}").rename(f"{path}{suffix}")


def texts(mails: list[Any]) -> list[str]:
    """What was said, in order."""
    return [mail.text for mail in mails]

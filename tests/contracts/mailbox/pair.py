"""A host and a container over one folder, with a clock that only the test moves."""

import itertools
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Place

START = 1_770_000_000_000  # 2026-02-02T02:40:00Z
CHAT = Place("telegram", "chat-1")
GROUP = "ag-1"


class Pair:
    """Both sides of one session, and the ways a test looks behind them."""

    def __init__(self, root: Path, *, policy: Policy = DEFAULT, zone: str = "UTC") -> None:
        self.time = [START]
        self.path = root / GROUP / "sess-1"
        self._numbers = itertools.count()
        options: dict[str, Any] = {"clock": lambda: self.time[0], "zone": zone, "policy": policy}
        self.host = Host.create(self.path, **options)
        self.host.write_routing(CHAT)
        self.host.context = self.ctx._replace(random=self._random)
        self.agent = Container(self.path, **options)

    def _random(self, below: int) -> int:
        return next(self._numbers) % below

    @property
    def ctx(self) -> MailContext:
        """Give the host's surroundings."""
        return self.host.context

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.time[0] += round(seconds * 1000)

    def until(self, ms: int) -> None:
        """Let time pass up to a moment."""
        self.time[0] = ms

    def beat(self) -> None:
        """Show a sign of life at the test's own time."""
        self.ctx.folder.beat()
        ns = self.time[0] * 1_000_000
        os.utime(self.ctx.folder.heartbeat_path, ns=(ns, ns))

    def claim(self) -> list[str]:
        """Let the agent take all that it is given, and stop there."""
        return self.agent.claim(self.agent.poll(200))

    def sql(self, name: str, statement: str, *params: object) -> list[Any]:
        """Run a statement on `in` or `out` behind everybody's back."""
        path = self.path / f"{name}bound.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(statement, params).fetchall()

    def value(self, name: str, statement: str, *params: object) -> Any:
        """Give one value of one row."""
        return self.sql(name, statement, *params)[0][0]

    def status(self, message_id: str) -> str:
        """Give the status of inbound mail."""
        return self.host.mail(message_id).status

    def changes(self) -> tuple[int, int]:
        """Give a number per file that grows with each commit to it."""
        return tuple(_counter(self.path / f) for f in ("inbound.db", "outbound.db"))  # type: ignore[return-value]

    def notes(self) -> list[str]:
        """Give what the host told the agent."""
        return [m.text for m in self.host.inbox(limit=1000) if m.id.startswith("sys-")]


def _counter(path: Path) -> int:
    """Read the change counter of a database that nobody has open."""
    return int.from_bytes(path.read_bytes()[24:28], "big")


def as_nanoclaw_left_it(pair: Pair) -> None:
    """Take away all that is ours from outbound.db, as if NanoClaw's container had made it."""
    pair.sql("out", "DROP TABLE tk_claim")
    pair.sql("out", "DROP TABLE tk_row_hash")
    pair.sql("out", "DROP INDEX tk_ack_processing")

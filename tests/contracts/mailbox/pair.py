"""A host and a container of one mailbox, with a clock that only the test moves."""

import itertools
import os
from pathlib import Path
from typing import Any

from tests.support.mail import MailFactory, look_at
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.records import Place
from threadkeep.testing import place_of

START = 1_770_000_000_000  # 2026-02-02T02:40:00Z
CHAT = Place("telegram", "chat-1")
GROUP = "ag-1"


class Pair:
    """Both sides of one session, and the ways a test looks behind them."""

    def __init__(
        self, factory: MailFactory, *, policy: Policy = DEFAULT, zone: str = "UTC"
    ) -> None:
        self.time = [START]
        self._numbers = itertools.count()
        self.box = factory.open(clock=lambda: self.time[0], zone=zone, policy=policy)
        self.host, self.agent = self.box.host, self.box.container
        self.host.write_routing(CHAT)
        self.host.context = self.ctx._replace(random=self._random)

    def _random(self, below: int) -> int:
        return next(self._numbers) % below

    @property
    def path(self) -> Path:
        """Return the folder of the session."""
        return place_of(self.box)

    @property
    def ctx(self) -> MailContext:
        """Return the host's surroundings."""
        return self.host.context

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.time[0] += round(seconds * 1000)

    def until(self, ms: int) -> None:
        """Let time pass up to a moment."""
        self.time[0] = ms

    def beat(self) -> None:
        """Show a heartbeat at the test's own time."""
        self.ctx.folder.beat()
        ns = self.time[0] * 1_000_000
        os.utime(self.ctx.folder.heartbeat_path, ns=(ns, ns))

    def heartbeat(self) -> int | None:
        """Return the moment of the last heartbeat."""
        return self.ctx.folder.heartbeat_ms()

    def claim(self) -> list[str]:
        """Let the agent take all that it is given, and stop there."""
        return self.agent.claim(self.agent.poll(200))

    def sql(self, name: str, statement: str, *params: object) -> list[Any]:
        """Run a statement on `in` or `out` behind everybody's back."""
        return look_at(self.box, name, statement, *params)

    def value(self, name: str, statement: str, *params: object) -> Any:
        """Return one value of one row."""
        return self.sql(name, statement, *params)[0][0]

    def status(self, message_id: str) -> str:
        """Return the status of inbound mail."""
        return self.host.mail(message_id).status

    def changes(self) -> tuple[int, int]:
        """Return a number per file that grows with each commit to it."""
        return tuple(_counter(self.path / f) for f in ("inbound.db", "outbound.db"))  # type: ignore[return-value]

    def notes(self) -> list[str]:
        """Return what the host told the agent."""
        return [m.text for m in self.host.inbox(limit=1000) if m.id.startswith("sys-")]


def _counter(path: Path) -> int:
    """Read the change counter of a database that nobody has open."""
    return int.from_bytes(path.read_bytes()[24:28], "big")


def as_nanoclaw_left_it(pair: Pair) -> None:
    """Take away all that is ours from outbound.db, as if NanoClaw's container had made it."""
    pair.sql("out", "DROP TABLE tk_claim")
    pair.sql("out", "DROP TABLE tk_row_hash")
    pair.sql("out", "DROP INDEX tk_ack_processing")

"""Moments in which host and agent are in each other's way."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.conftest import cannot_run
from threadkeep.base.tx import Tx
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.folder import Owner
from threadkeep.mailbox.host import sweep
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Claim, Mail

pytestmark = pytest.mark.faults

NOW = 1_772_000_000_000
NOBODY = 65534


class Pair:
    """A host, and containers that begin and die; all within one second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = Host.create(path, clock=lambda: NOW)
        self.mail = self.host.send("hello")

    def begin(self) -> Container:
        """Begin a container that takes the mail in hand."""
        container = Container(self.path, clock=lambda: NOW)
        container.start()
        assert container.claim(container.poll()) == [self.mail.id]
        return container


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Return a folder with mail in the hands of a container that has died."""
    made = Pair(tmp_path / "ag-1" / "sess-1")
    made.begin().stop()
    return made


def test_one_that_begins_before_the_claims_are_read_keeps_its_own(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = sweep.open_claims, list[Container]()

    def claims(ctx: MailContext) -> list[Claim]:
        if not begun:
            begun.append(pair.begin())
        return real(ctx)

    monkeypatch.setattr(sweep, "open_claims", claims)
    assert pair.host.sweep().reset is None
    assert [claim.tries for claim in pair.host.claims()] == [2]
    assert pair.host.mail(pair.mail.id).process_after is None


def test_one_that_begins_before_they_are_let_go_keeps_its_own(pair: Pair) -> None:
    outbound = pair.host.context.folder.outbound
    real, begun = outbound.write, list[Container]()

    @contextmanager
    def write() -> Iterator[Tx]:
        if not begun:  # in the same second as the first claim, so that its time is the same
            container = Container(pair.path, clock=lambda: NOW)
            container.start()
            begun.append(container)
            assert container.claim([pair.mail]) == [pair.mail.id]
        with real() as tx:
            yield tx

    setattr(outbound, "write", write)  # noqa: B010  (on this object only)
    swept = pair.host.sweep()
    assert swept.reset is not None
    assert swept.reset.released == 0
    assert [claim.tries for claim in pair.host.claims()] == [2]
    begun[0].complete([pair.mail.id])
    assert pair.host.sync().completed == (pair.mail.id,)
    assert pair.host.mail(pair.mail.id).tries == 2


def test_an_agent_of_another_user_reads_while_the_host_begins_to_write() -> None:
    """SQLite makes a journal as root, and gives it to the owner of the database a moment later."""
    if os.geteuid() != 0:
        cannot_run("only root can be somebody else for a while")
    with tempfile.TemporaryDirectory() as open_to_all:
        path = Path(open_to_all) / "ag-1" / "sess-1"
        host = Host.create(path, owner=Owner(NOBODY, NOBODY))
        host.send("hello")
        for above in (path.parent, path.parent.parent):
            above.chmod(0o755)
        with closing(sqlite3.connect(path / "inbound.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE messages_in SET tries = 1")
            os.chown(path / "inbound.db-journal", 0, 0)
            assert [mail.tries for mail in _polled_by(NOBODY, path)] == [0]
            writer.execute("COMMIT")
        assert [mail.tries for mail in _polled_by(NOBODY, path)] == [1]


def _polled_by(user: int, path: Path) -> list[Mail]:
    os.seteuid(user)
    try:
        return Container(path).poll()
    finally:
        os.seteuid(0)

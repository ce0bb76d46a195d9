"""In files: numbers: even from the host, odd from the container, never the same twice."""

import multiprocessing
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.lengths import at_length
from tests.support.mail import MailFactory, Pair, look, open_pair
from threadkeep.base.sqlite.lock import LockHeld, let_go, lock_for
from threadkeep.errors import Busy, Conflict
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.folder import Folder

WORKERS = at_length(8, 4)
EACH = at_length(50, 25)


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


@pytest.mark.parametrize("top, following", [(None, 2), (0, 2), (-4, 2), (2, 4), (7, 8), (40, 42)])
def test_numbers_go_on_after_whatever_another_host_wrote(
    pair: Pair, top: int | None, following: int
) -> None:
    foreign(pair.path, "inbound.db", "messages_in", top)
    assert pair.host.send("x").seq == following


def foreign(folder: Path, file: str, table: str, seq: int | None) -> None:
    """Put a row with any number into a file, as a program without our CHECK would."""
    sql = (
        f"INSERT INTO {table} (id, seq, kind, timestamp, content) VALUES ('f', ?, 'chat', 't', 'c')"
    )
    with closing(sqlite3.connect(folder / file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(sql, (seq,))


@pytest.mark.parametrize("top, following", [(None, 1), (1, 3), (4, 5), (9, 11)])
def test_the_container_goes_on_after_whatever_is_there(
    pair: Pair, top: int | None, following: int
) -> None:
    foreign(pair.path, "outbound.db", "messages_out", top)
    assert pair.container.send("x").seq == following


def test_when_the_numbers_are_used_up_nothing_is_written(pair: Pair) -> None:
    foreign(pair.path, "outbound.db", "messages_out", 2**63 - 3)
    assert pair.container.send("the last").seq == 2**63 - 1
    with pytest.raises(Conflict, match="no message numbers are left"):
        pair.container.send("one more")
    assert [mail.text for mail in pair.host.outbox()][1:] == ["the last"]


def test_an_odd_number_is_refused_among_the_hosts_mail(pair: Pair) -> None:
    columns = "id, seq, kind, timestamp, content"
    sql = f"INSERT INTO messages_in ({columns}) VALUES ('x', ?, 'chat', 't', 'c')"
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        look(pair.path, sql, 3)
    look(pair.path, sql, 4)


def test_the_host_may_write_among_the_agents_mail(pair: Pair) -> None:
    foreign(pair.path, "outbound.db", "messages_out", 4)
    assert pair.container.send("x").seq == 5


def send_many(folder: str, worker: int) -> None:
    """What one of several processes of the container does."""
    container = Container(folder)
    for number in range(EACH):
        container.send(f"{worker}/{number}")


@pytest.mark.faults
@pytest.mark.slow
def test_many_processes_never_get_the_same_number_and_lose_nothing(pair: Pair) -> None:
    pair.host.send("in")
    spawn = multiprocessing.get_context("spawn")
    arguments = [(str(pair.path), worker) for worker in range(WORKERS)]
    workers = [spawn.Process(target=send_many, args=given_to) for given_to in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * WORKERS
    mails = pair.host.outbox(limit=WORKERS * EACH + 1)
    assert [mail.seq for mail in mails] == list(range(3, 3 + 2 * WORKERS * EACH, 2))
    expected = {f"{worker}/{number}" for worker in range(WORKERS) for number in range(EACH)}
    assert {mail.text for mail in mails} == expected
    for worker_number in range(WORKERS):  # each one's own mail is in the order it was sent
        own = [m.text for m in mails if m.text.startswith(f"{worker_number}/")]
        assert own == [f"{worker_number}/{number}" for number in range(EACH)]


# ---------------------------------------------------------------------- whose turn it is


def test_writers_of_the_agents_side_queue_up(pair: Pair) -> None:
    """First come, first served, as the writer lock has it; SQLite's own lock knows no order."""
    path = pair.container.context.folder.path
    hasty = Container(Folder(path, budget=0.01))
    lock = lock_for(path / "outbound.db")
    with LockHeld(lock, 1):
        done: list[str] = []

        def send() -> None:
            try:
                hasty.send("x")
            except Busy as error:
                done.append(str(error))

        other = threading.Thread(target=send)
        other.start()
        other.join()
        assert "another thread of this process" in done[0]
        # The host does not queue up with its agent: that could keep it waiting for ever.
        assert pair.host.reset_claims().released == 0
    let_go(lock)
    assert hasty.send("x").seq == 1


def test_without_a_lock_file_mail_is_written_all_the_same(pair: Pair, tmp_path: Path) -> None:
    path = pair.container.context.folder.path / "outbound.db.lock"
    path.symlink_to(tmp_path / "elsewhere")
    assert pair.container.send("x").seq == 1
    assert not (tmp_path / "elsewhere").exists()
    assert [p.where for p in pair.host.verify() if p.severity == "error"] == ["outbound.db.lock"]
    path.unlink()
    path.mkdir()
    assert pair.container.send("y").seq == 3

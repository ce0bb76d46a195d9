"""Container: what is about the files of SQLite."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import Child
from tests.support.mail import MailFactory, Pair, name_places, open_pair, texts
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.mailbox.container.container import open_here
from threadkeep.mailbox.context import Policy


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


def ids(mails: list[Any]) -> list[str]:
    return [mail.id for mail in mails]


def steps_of_a_poll(pair: Pair) -> int:
    """Count the steps that SQLite takes for a poll: the same on every machine."""
    folder = pair.container.context.folder
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with closing(sqlite3.connect(folder.inbound_path)) as connection:
        connection.execute("ATTACH ? AS outbound", (str(folder.outbound_path),))
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.set_progress_handler(count, 1)
        asked = {"now": "2025-10-09 12:00:00", "limit": 10}
        connection.execute(folder.inbound.queries["poll"], asked).fetchall()
    return steps


def test_a_poll_costs_what_is_open_and_not_what_was_ever_said(pair: Pair) -> None:
    pair.host.send("open")
    early = steps_of_a_poll(pair)
    history = "WITH RECURSIVE n(x) AS (SELECT 4 UNION ALL SELECT x + 2 FROM n WHERE x < 4000)"
    pair.rows(
        f"{history} INSERT INTO messages_in (id, seq, kind, timestamp, status, content)"
        " SELECT 'm' || x, x, 'chat', 't', 'completed', '{}' FROM n"
    )
    pair.rows(
        f"{history} INSERT INTO outbound.processing_ack SELECT 'm' || x, 'completed', 't' FROM n"
    )
    assert steps_of_a_poll(pair) <= early + 5


CLAIMER = """
from threadkeep.mailbox.container.container import Container
container = Container(sys.argv[1])
mails = container.poll(100)
say(len(mails))
hear()
say(" ".join(container.claim(mails)))
"""


def test_two_processes_never_claim_the_same_mail(pair: Pair) -> None:
    sent = [pair.host.send(str(number)).id for number in range(6)]
    with Child(CLAIMER, pair.path) as one, Child(CLAIMER, pair.path) as other:
        for child in (one, other):
            child.expect("6")  # both have seen all of it
        for child in (one, other):
            child.tell()
        claimed = one.hear().split() + other.hear().split()
    assert sorted(claimed) == sorted(sent)


RUNNER = """
from threadkeep.mailbox.container.container import Container
container = Container(sys.argv[1])
container.start()
container.claim(container.poll())
say("started")
hear()
"""


def test_a_second_container_is_refused_while_the_first_lives(pair: Pair) -> None:
    mail = pair.host.send("x")
    with Child(RUNNER, pair.path) as first:
        first.expect("started")
        with pytest.raises(Conflict, match="an agent is already working"):
            pair.container.start()
        assert pair.container.poll() == []  # its claims were not taken from it
        first.kill()
        assert pair.container.start() == 1
    assert ids(pair.container.poll()) == [mail.id]


def test_a_heartbeat_is_a_touch_and_no_write(pair: Pair) -> None:
    before = (pair.path / "outbound.db").stat().st_mtime_ns
    pair.container.beat()
    assert pair.host.context.folder.heartbeat_ms() is not None
    assert (pair.path / "outbound.db").stat().st_mtime_ns == before


def test_the_mailbox_of_a_sandbox_is_found_by_its_name(pair: Pair) -> None:
    pair.host.send("x")
    assert texts(open_here({"THREADKEEP_MAIL": str(pair.path)}).poll()) == ["x"]
    with pytest.raises(NotFound, match=r"/workspace|not a mailbox"):
        open_here({"THREADKEEP_MAIL": str(pair.path / "none")})


def test_times_in_a_sandbox_are_meant_in_its_zone(pair: Pair) -> None:
    agent = open_here({"THREADKEEP_MAIL": str(pair.path), "TZ": "Europe/Madrid"})
    assert agent.send("x", deliver_after="2026-08-14T09:00").deliver_after == "2026-08-14 07:00:00"
    agent.schedule("x", process_after="2026-01-14T09:00")
    assert pair.host.outbox()[-1].content["processAfter"] == "2026-01-14T08:00:00.000Z"


def test_files_go_into_the_outbox_before_the_message(pair: Pair) -> None:
    mail = pair.container.send("see", files=[("a.txt", b"x")])
    assert mail.content == {"text": "see", "files": ["a.txt"]}
    assert (pair.path / "outbox" / mail.id / "a.txt").read_bytes() == b"x"


def test_what_was_said_before_leaves_no_files_behind(pair: Pair) -> None:
    first = pair.container.send("see", files=[("a.txt", b"x")])
    again = pair.container.send("see", files=[("a.txt", b"x")], unless_said=60)
    assert again == first
    assert [entry.name for entry in (pair.path / "outbox").iterdir()] == [first.id]


def test_a_message_told_twice_leaves_its_files_alone(pair: Pair) -> None:
    """Also after it was delivered and its files are gone; refused words bring none either."""
    first = pair.container.send("see", files=[("a.txt", b"x")], id="m-1")
    with pytest.raises(Conflict, match="with other content"):
        pair.container.send("look", files=[("b.txt", b"y")], id="m-1")
    assert [file.name for file in (pair.path / "outbox" / "m-1").iterdir()] == ["a.txt"]
    shutil.rmtree(pair.path / "outbox" / "m-1")
    assert pair.container.send("see", files=[("a.txt", b"x")], id="m-1") == first
    assert list((pair.path / "outbox").iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "x", "to": "nobody"},
        {"text": "x" * 200},
        {"text": "x", "deliver_after": "soon"},
        {"text": "x", "deliver_after": 10**18},
        {"text": "x", "id": "../outside"},
        {"text": "x", "in_reply_to": 5},
        {"text": "x", "unless_said": "a while"},
        {"text": "x", "id": "x" * 300},
    ],
)
def test_bad_mail_is_refused_and_nothing_is_written(
    tmp_path: Path, factory: MailFactory, arguments: dict[str, Any]
) -> None:
    pair = open_pair(factory, policy=Policy(content_bytes=100))
    name_places(pair.host)
    with pytest.raises(Invalid):
        pair.container.send(**arguments, files=[("a.txt", b"x")])
    assert pair.host.outbox() == []
    assert list((pair.path / "outbox").iterdir()) == []
    assert not (tmp_path / "outside").exists()

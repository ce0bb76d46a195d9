"""In files: the host's verbs: mail goes in once, in order, at its time, or is refused whole."""

from typing import Any

import pytest

from tests.support.mail import (
    NOON,
    MailFactory,
    Pair,
    leave_unfinished,
    open_pair,
    texts,
)
from threadkeep.base.sqlite import shared_file
from threadkeep.errors import Busy, Invalid
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.host.host import Host


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


def everything(pair: Pair) -> tuple[Any, ...]:
    """All rows of both files and all files of the folder: what a refusal must leave alone."""
    tables = pair.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    rows = [pair.rows(f"SELECT * FROM {table}") for (table,) in tables]
    out = [pair.rows(f"SELECT * FROM outbound.{t}") for t in ("messages_out", "processing_ack")]
    return rows, out, sorted(str(entry) for entry in pair.path.rglob("*"))


def test_files_told_twice_are_one_message(pair: Pair) -> None:
    given: dict[str, Any] = {"id": "m1", "timestamp": NOON - 9000}
    image = {"type": "image", "data": "eA=="}
    first = pair.host.send("see", attachments=[image], **given)
    pair.clock.forward(60)
    assert pair.host.send("see", attachments=[image], **given) == first
    assert [entry.name for entry in (pair.path / "inbox").rglob("*.jpg")] == [
        f"attachment-{NOON - 9000}.jpg"
    ]


# ---------------------------------------------------------------------- refusals

FILES = [{"name": "a.txt", "data": "eA=="}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "letter", "content": {"text": "x", "attachments": FILES}},
        {"kind": "", "content": {"text": "x"}},
        {"content": "no JSON"},
        {"content": "[1, 2]"},
        {"content": {"text": float("inf")}},
        {"content": {"text": "x" * 200, "attachments": FILES}},
        {"content": {"text": "x" * 200}},
        {"content": {"text": "x"}, "id": "a\0b"},
        {"content": {"text": "x"}, "id": ""},
        {"content": {"text": "x"}, "id": "\ud800"},
        {"content": {"text": "x"}, "id": "x" * 1025},
        {"content": {"text": "x", "attachments": FILES}, "process_after": "soon"},
        {"content": {"text": "x", "attachments": FILES}, "timestamp": "once"},
        {"content": {"text": "x"}, "process_after": 10**18},
    ],
)
def test_bad_mail_is_refused_and_nothing_is_written(
    factory: MailFactory, arguments: dict[str, Any]
) -> None:
    pair = open_pair(factory, policy=Policy(content_bytes=100))
    pair.host.send("other mail")
    before = everything(pair)
    with pytest.raises(Invalid):
        pair.host.insert_message(arguments.pop("kind", "chat"), **arguments)
    assert everything(pair) == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"prompt": "  "},
        {"prompt": "x", "recurrence": ""},
        {"prompt": "x", "recurrence": "every day"},
        {"prompt": "x", "recurrence": "61 * * * *"},
        {"prompt": "x", "recurrence": "0 0 30 2 *"},
        {"prompt": "x", "recurrence": "* * * *"},
        {"prompt": "x", "process_after": "soon"},
        {"prompt": "x" * 200},
        {"prompt": "x", "id": "../x"},
    ],
)
def test_bad_tasks_are_refused_and_nothing_is_written(
    factory: MailFactory, arguments: dict[str, Any]
) -> None:
    pair = open_pair(factory, policy=Policy(content_bytes=100))
    before = everything(pair)
    with pytest.raises(Invalid):
        pair.host.insert_task(**arguments)
    assert everything(pair) == before


# ---------------------------------------------------------------------- a container that died


@pytest.fixture
def half_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A container that died in the middle of a commit, after it had sent some mail."""
    for number in range(12):
        pair.container.send(f"{number} " + "x" * 3000)
    leave_unfinished(
        pair.path / "outbound.db", "UPDATE messages_out SET content = randomblob(3000)"
    )
    monkeypatch.setattr(shared_file, "_PATIENCE", 0.0)
    return pair


def test_the_host_undoes_what_a_dead_container_left(half_sent: Pair) -> None:
    mails = half_sent.host.outbox()
    assert [mail.text.split()[0] for mail in mails] == [str(number) for number in range(12)]
    assert not (half_sent.path / "outbound.db-journal").exists()


def test_the_host_leaves_the_commit_of_a_running_container_alone(half_sent: Pair) -> None:
    running = True
    host = half_sent.box.new_host(running=lambda: running)
    with pytest.raises(Busy, match="in the middle of a commit"):
        host.outbox()
    assert (half_sent.path / "outbound.db-journal").exists()
    assert host.send("its own side is not concerned").seq == 2
    running = False
    assert len(host.outbox()) == 12


def test_a_new_container_undoes_what_the_last_one_left(half_sent: Pair) -> None:
    half_sent.host.send("hello")
    container = half_sent.box.new_container()
    container.start()
    assert texts(container.poll()) == ["hello"]
    assert container.send("13").seq == 25


def test_a_zone_that_is_not_known_is_refused_when_a_side_is_opened(pair: Pair) -> None:
    for side in (Host, Container):
        with pytest.raises(Invalid, match="Nonsense"):
            side(pair.path, zone="Nonsense")


def test_an_id_with_slashes_is_kept_and_its_files_have_a_folder_of_their_own(pair: Pair) -> None:
    given = {"name": "a.txt", "data": "aGk="}
    sent = pair.host.send("x", id="spaces/A/../B:ag-1", attachments=[given])
    assert sent.id == "spaces/A/../B:ag-1"
    assert pair.container.attachment(sent, "a.txt") == b"hi"
    (folder,) = (pair.path / "inbox").iterdir()
    assert folder.name.startswith("files-")
    assert pair.host.send("x", id="spaces/A/../B:ag-1", attachments=[given]) == sent

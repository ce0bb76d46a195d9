"""Who is on the other side of a folder, told from what lies in it."""

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.support.mail import MailFactory
from threadkeep.mailbox.versions import VERSIONS, OtherSide, look, newest

OURS = ("tk_meta", "tk_delivery", "tk_cursor", "tk_dead", "tk_hops", "tk_row_hash")


def strangers(factory: MailFactory) -> Pair:
    """Return a folder in which nobody of ours has been."""
    pair = Pair(factory)
    for table in OURS:
        pair.sql("in", f"DROP TABLE {table}")
    for table in ("tk_claim", "tk_row_hash"):
        pair.sql("out", f"DROP TABLE {table}")
    return pair


def seen(pair: Pair) -> tuple[str | None, str | None]:
    host, container, *_ = look(pair.ctx)
    return host.name if host else None, container.name if container else None


def deliver(pair: Pair, name: str, at: str) -> None:
    sql = "INSERT INTO delivered (message_out_id, delivered_at) VALUES (?, ?)"
    pair.sql("in", sql, name, at)


def say(pair: Pair, name: str, at: str, kind: str = "chat") -> None:
    sql = "INSERT INTO messages_out (id, timestamp, kind, content) VALUES (?, ?, ?, '{}')"
    pair.sql("out", sql, name, at, kind)


def test_nothing_is_known_of_a_fresh_folder(factory: MailFactory) -> None:
    assert look(strangers(factory).ctx) == OtherSide(None, None)


def test_we_know_that_we_were_there(factory: MailFactory) -> None:
    pair = Pair(factory)
    pair.agent.send("hi")
    deliver(pair, "o1", "2026-11-17 03:56:15")
    assert look(pair.ctx) == OtherSide(None, None, our_host=True, our_container=True)
    deliver(pair, "o2", "2026-11-17T03:56:15.780Z")
    say(pair, "o3", "2026-11-17T03:56:16.780Z", "task_log")
    assert seen(pair) == ("2.1", None)
    pair.sql("out", "INSERT INTO session_state VALUES ('current_in_reply_to', 'm1', '2026-11-17')")
    assert seen(pair) == ("2.1", "2.1")


def test_the_older_program_is_known_by_its_times(factory: MailFactory) -> None:
    pair = strangers(factory)
    deliver(pair, "o1", "2026-11-17 03:56:15")
    say(pair, "o1", "2026-11-17 03:56:14")
    assert seen(pair) == ("2.0.64", "2.0.64")


ISO = "2026-11-17T03:56:15.780Z"
TASK = "INSERT INTO messages_in (id, kind, timestamp, status, content) VALUES ('t', 'task',"
OUT = "INSERT INTO messages_out (id, timestamp, kind, content) VALUES"
HOST_SIGNS = [
    ("in", f"INSERT INTO delivered VALUES ('o', NULL, 'delivered', '{ISO}')", "2.1"),
    ("in", "UPDATE session_routing SET thread_id = 'system:tasks:t-1'", "2.1"),
    ("in", "CREATE INDEX idx_messages_in_engaged ON messages_in(id)", "2.4"),
    ("in", f"{TASK} '{ISO}', 'cancelled', '{{}}')", "2.1"),
    ("in", f"""{TASK} '{ISO}', 'pending', '{{"prompt":"p","originSessionId":null}}')""", "2.1"),
    ("out", f"{OUT} ('deny-1-a', '{ISO}', 'chat', '{{}}')", "2.1"),
]
CONTAINER_SIGNS = [
    ("out", f"{OUT} ('msg-1', '{ISO}', 'chat', '{{}}')", "2.1"),
    ("out", f"INSERT INTO processing_ack VALUES ('t', 'script-skip:error', '{ISO}')", "2.1"),
    ("out", f"INSERT INTO session_state VALUES ('current_in_reply_to', 'm1', '{ISO}')", "2.1"),
    ("out", "CREATE TABLE token_usage_log (id)", "2.4"),
]


@pytest.mark.parametrize("file, statement, version", HOST_SIGNS)
def test_each_sign_of_a_host_tells_its_version(
    factory: MailFactory, file: str, statement: str, version: str
) -> None:
    pair = strangers(factory)
    pair.sql(file, statement)
    assert seen(pair) == (version, None)


@pytest.mark.parametrize("file, statement, version", CONTAINER_SIGNS)
def test_each_sign_of_a_container_tells_its_version(
    factory: MailFactory, file: str, statement: str, version: str
) -> None:
    pair = strangers(factory)
    pair.sql(file, statement)
    assert seen(pair) == (None, version)


@pytest.mark.parametrize(
    "signs, version",
    [
        ([("2.0.64", "2026-11-16"), ("2.1", "2026-11-17")], "2.1"),
        ([("2.1", "2026-11-16"), ("2.0.64", "2026-11-17")], "2.0.64"),
        ([("2.1", "2026-11-17"), ("2.0.64", "2026-11-17")], "2.1"),
        ([("2.4", ""), ("2.1", "2026-11-17")], "2.4"),
        ([("2.4", ""), ("2.1", "2026-11-16"), ("2.0.64", "2026-11-17")], "2.0.64"),
        ([("2.4", "")], "2.4"),
        ([], None),
    ],
)
def test_newer_signs_beat_older_ones(signs: list[tuple[str, str]], version: str | None) -> None:
    found = newest(signs)
    assert (found and found.name) == version


def test_every_version_says_what_it_does() -> None:
    assert [v.task_commands for v in VERSIONS.values()] == [False, True, True]
    assert list(VERSIONS) == [v.name for v in VERSIONS.values()]

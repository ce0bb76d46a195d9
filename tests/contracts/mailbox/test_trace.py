"""The way of one message, across all tables of both files."""

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.pair import START, Pair, as_nanoclaw_left_it
from tests.support.mail import MailFactory
from threadkeep.base.clock import iso
from threadkeep.errors import NotFound
from threadkeep.mailbox.host.trace import MailboxEvent, in_order
from threadkeep.mailbox.records import Mail, Place
from threadkeep.mailbox.rows import sqlite_form


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def steps(events: list[MailboxEvent]) -> list[tuple[str, str]]:
    return [(event.where, event.what) for event in events]


def test_the_way_of_mail_that_was_answered(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.later(1)
    pair.claim()
    pair.later(1)
    reply = pair.agent.send("hi", in_reply_to=mail.id)
    pair.later(1)
    pair.agent.complete([mail.id])
    pair.host.sync()
    events = pair.host.trace(mail.id)
    assert events == [
        MailboxEvent(iso(START), "messages_in", "written", 'chat 2 ("hello") at telegram/chat-1'),
        MailboxEvent(iso(START + 1000), "tk_claim", "claimed", "for the 1st time"),
        MailboxEvent(iso(START + 2000), "messages_out", "answered", f'{reply.seq} ("hi")'),
        MailboxEvent(iso(START + 3000), "processing_ack", "completed"),
        MailboxEvent(None, "messages_in", "completed", "after 1 claim"),
    ]
    assert pair.host.trace(2) == events


def test_the_way_of_mail_that_failed_and_was_tried_again(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.fail([mail.id], "ValueError: no")
    pair.later(60)
    pair.host.sync()
    copy = pair.host.retry(mail.id)
    assert isinstance(copy, Mail)
    events = pair.host.trace(mail.id)
    assert steps(events) == [
        ("messages_in", "written"),
        ("tk_claim", "claimed"),
        ("processing_ack", "failed"),
        ("messages_in", "failed"),
        ("tk_dead", "given up"),
        ("tk_dead", "tried again"),
        ("messages_in", "the agent was notified"),
    ]
    assert events[2].detail == "ValueError: no"
    assert events[5].detail == f"as {copy.id}"
    told = MailboxEvent(iso(START + 60_000), "tk_dead", "a new try", f"of {mail.id}")
    assert told in pair.host.trace(copy.id)
    assert ("messages_in", "earlier run") not in steps(pair.host.trace(copy.id))


def test_the_runs_of_a_series_know_each_other(pair: Pair) -> None:
    task = pair.host.insert_task("x", recurrence="@daily", process_after=START)
    for _ in range(2):
        pair.claim()
        pair.agent.complete([mail.id for mail in pair.host.tasks()])
        pair.host.sync()
        pair.later(24 * 3600)
    runs = [mail.id for mail in pair.host.inbox(kind="task")]
    assert runs[0] == task.id
    found = pair.host.trace(runs[1])
    assert [e.detail for e in found if e.what == "earlier run"] == [runs[0]]
    assert [e.detail for e in found if e.what == "later run"] == [runs[2]]
    assert ("messages_in", "due") in steps(found)


def test_the_way_of_mail_from_the_agent(pair: Pair) -> None:
    mail = pair.host.send("hello")
    out = pair.agent.send("hi", deliver_after=START + 5000, in_reply_to=mail.id)
    now = sqlite_form(START + 9000)
    pair.sql(
        "in",
        "INSERT INTO tk_delivery VALUES (?, ?, 'sent', 'k', 'p', 2, NULL, 0, 'was offline', ?)",
        out.id,
        out.seq,
        now,
    )
    pair.sql("in", "INSERT INTO delivered VALUES (?, 'plat-7', 'delivered', ?)", out.id, now)
    assert pair.host.trace(out.seq or 0) == [
        MailboxEvent(
            iso(START), "messages_out", "written", f'chat {out.seq} ("hi") at telegram/chat-1'
        ),
        MailboxEvent(iso(START), "messages_out", "in reply to", mail.id),
        MailboxEvent(iso(START + 5000), "messages_out", "due"),
        MailboxEvent(iso(START + 9000), "tk_delivery", "sent", "2 attempts; was offline"),
        MailboxEvent(iso(START + 9000), "delivered", "delivered", "plat-7"),
    ]


def test_purging_is_part_of_the_way(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.fail([mail.id], "no")
    pair.host.sync()
    pair.host.purge(mail.id)
    assert ("tk_dead", "purged") in steps(pair.host.trace(mail.id))


def test_held_mail_and_hops_are_told(pair: Pair) -> None:
    task = pair.host.insert_task("x")
    pair.host.pause_task(task.id)
    assert ("messages_in", "paused") in steps(pair.host.trace(task.id))
    passed = pair.host.send("x", hops=2)
    assert MailboxEvent(None, "tk_hops", "passed on", "by 2 agents so far") in pair.host.trace(
        passed.id
    )


@pytest.mark.parametrize("which", ["nobody", 4, 3, -1])
def test_what_is_not_there_has_no_way(pair: Pair, which: str | int) -> None:
    pair.host.send("x")
    with pytest.raises(NotFound, match="no message"):
        pair.host.trace(which)


def test_mail_in_files_of_nanoclaws_is_traced(pair: Pair) -> None:
    mail = pair.host.send("x")
    out = pair.agent.send("y")
    as_nanoclaw_left_it(pair)
    for table in ("tk_delivery", "tk_dead", "tk_hops", "tk_cursor"):
        pair.sql("in", f"DROP TABLE {table}")
    pair.sql("out", "INSERT INTO processing_ack VALUES (?, 'completed', 'not a time')", mail.id)
    assert MailboxEvent("not a time", "processing_ack", "completed") in pair.host.trace(mail.id)
    assert pair.host.trace(out.id)[0].what == "written"


def test_nonsense_of_the_agent_is_shown_not_believed(pair: Pair) -> None:
    mail = pair.host.send("x", id="m-1")
    pair.host.insert_message(
        "chat",
        {"text": "m-1", "senderId": "system", "about": 5},
        place=Place("agent", pair.ctx.agent_group),
    )
    pair.sql("out", "INSERT INTO processing_ack VALUES ('m-1', x'ff00', x'01')")
    pair.sql("out", "INSERT INTO tk_claim VALUES ('m-1', 'many', 3, x'fe')")
    assert steps(pair.host.trace(mail.id))[0] == ("messages_in", "written")


times = st.none() | st.just("soon") | st.integers(0, 10**6).map(lambda s: iso(s * 1000))


@given(st.lists(st.builds(MailboxEvent, times, st.just("t"), st.text(max_size=2)), max_size=8))
def test_order_keeps_all_and_never_goes_back(events: list[MailboxEvent]) -> None:
    found = in_order(events)
    assert sorted(map(repr, found)) == sorted(map(repr, events))
    dated = [event.at for event in found if event.at not in (None, "soon")]
    assert dated == sorted(dated, key=str)

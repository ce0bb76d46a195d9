from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.postal import (
    CHAT,
    NOW,
    AskedChannel,
    Channel,
    Clock,
    Crash,
    Desk,
    Dies,
    KeyedChannel,
    count_writes,
    crash_at_write,
)
from tests.support.mail import MailFactory
from threadkeep.base.clock import iso
from threadkeep.errors import Busy, Damaged
from threadkeep.mailbox.adapters import MaybeSent, NotNow, Outgoing, Refused, Sent
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.host.delivery import content_of, due_of, reason_of
from threadkeep.mailbox.records import OutMail, Place
from threadkeep.mailbox.rows import read_moment

OTHER = Place("test", "chat-2")


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


def drain_until_quiet(desk: Desk, channel: Channel, rounds: int = 20) -> None:
    """Let hosts that know only the files work until nothing is open."""
    for _ in range(rounds):
        desk.new_host().drain({"test": channel})
        desk.clock.pass_seconds(60)
        if not desk.rows("SELECT 1 FROM tk_delivery WHERE state IN ('prepared', 'sending')"):
            return
    pytest.fail("something stays open for ever")


# ---------------------------------------------------------------------- the plain way


def test_mail_is_sent_in_order_and_written_down(desk: Desk) -> None:
    channel = Channel()
    mails = desk.say("one", "two", "three")
    drained = desk.host.drain({"test": channel})
    assert channel.texts == ["one", "two", "three"]
    assert drained.sent == tuple(mail.id for mail in mails)
    assert (drained.failed, drained.waiting, drained.busy) == ((), (), False)
    rows = desk.rows("SELECT message_out_id, platform_message_id, status FROM delivered")
    assert rows == [(mail.id, f"p-{n}", "delivered") for n, mail in enumerate(mails, 1)]
    assert {desk.state(mail) for mail in mails} == {"sent"}
    assert [m.key for m in channel.sent] == [f"sess-1:{mail.id}" for mail in mails]


def test_the_agent_finds_the_name_that_the_channel_gave(desk: Desk) -> None:
    channel = Channel()
    (mail,) = desk.say("one")
    desk.host.drain({"test": channel})
    desk.container.edit(mail.seq or 0, "ONE")
    desk.host.drain({"test": channel})
    assert channel.sent[1].content == {"operation": "edit", "messageId": "p-1", "text": "ONE"}


def test_about_one_commit_per_message(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.say(*(f"number {n}" for n in range(20)))
    writes = count_writes(desk.host, monkeypatch)
    desk.host.drain({"test": Channel()})
    assert len(writes) == 22  # one to take all over, one per message, one for the last outcome


def test_a_drain_inside_a_drain_sends_nothing_twice(desk: Desk) -> None:
    class Nested(Channel):
        def send(self, mail: Outgoing) -> str | None:
            assert desk.new_host().drain({"test": self}).busy
            return super().send(mail)

    channel = Nested()
    desk.say("one", "two")
    desk.host.drain({"test": channel})
    assert channel.texts == ["one", "two"]


# ---------------------------------------------------------------------- crashes

CHANNELS: list[Callable[[], Channel]] = [Channel, KeyedChannel, AskedChannel]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("make", CHANNELS)
def test_a_crash_in_any_commit_loses_nothing(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Channel],
    number: int,
    committed: bool,  # noqa: FBT001
) -> None:
    channel = make()
    desk.say("one", "two", "three")
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at_write(desk.host, patch, number, committed=committed)
        desk.host.drain({"test": channel})
    drain_until_quiet(desk, channel)
    assert len(set(channel.texts)) == len(channel.texts), "sent twice"
    states = [state for (state,) in desk.rows("SELECT state FROM tk_delivery ORDER BY seq")]
    if make is Channel:
        assert states.count("unknown") <= 1
        assert len(channel.texts) >= 2
        assert len(desk.notes()) == states.count("unknown")
    else:
        assert sorted(channel.texts) == ["one", "three", "two"]
        assert channel.texts == ["one", "two", "three"]
        assert states == ["sent", "sent", "sent"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("make", CHANNELS)
def test_a_crash_while_sending_is_asked_about_or_unknown(
    desk: Desk,
    make: Callable[[], Channel],
    after: bool,  # noqa: FBT001
) -> None:
    channel = make()
    (first, _) = desk.say("one", "two")
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(channel, after=after)})
    assert desk.state(first) == "sending"
    drained = desk.new_host().drain({"test": channel})
    if make is Channel:
        assert channel.texts == (["one", "two"] if after else ["two"])
        assert drained.unknown == (first.id,)
        status = desk.rows("SELECT status FROM delivered WHERE message_out_id = ?", first.id)
        assert status == [("failed",)]  # no other host may send it either
        assert "one" in desk.notes()[0]
        assert "It is not known whether" in desk.notes()[0]
    else:
        assert channel.texts == ["one", "two"]
        assert desk.state(first) == "sent"
        assert desk.notes() == []


def test_a_channel_that_cannot_tell_leaves_a_crash_unknown(desk: Desk) -> None:
    class Shrugs(Channel):
        def was_sent(self, key: str) -> Sent | bool | None:
            return None

    (mail,) = desk.say("one")
    channel = Shrugs()
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(channel, after=False)})
    drain_until_quiet(desk, channel)
    assert (channel.texts, desk.state(mail)) == ([], "unknown")


def test_a_channel_that_says_only_yes_is_believed(desk: Desk) -> None:
    class Nods(Channel):
        def was_sent(self, key: str) -> Sent | bool | None:
            return True

    (mail,) = desk.say("one")
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(Nods(), after=False)})
    channel = Nods()
    assert desk.new_host().drain({"test": channel}).sent == (mail.id,)
    assert channel.sent == []


def test_while_a_channel_cannot_be_asked_nothing_is_sent_again(desk: Desk) -> None:
    class Mute(AskedChannel):
        def __init__(self) -> None:
            super().__init__()
            self.answers: list[Exception] = [NotNow("offline"), ValueError("x"), NotNow("offline")]

        def was_sent(self, key: str) -> Sent | bool | None:
            if self.answers:
                raise self.answers.pop(0)
            return super().was_sent(key)

    mails = desk.say("one", "two")
    channel = Mute()
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(channel, after=True)})
    for _ in range(3):
        drained = desk.new_host().drain({"test": channel})
        assert (drained.deferred, drained.waiting) == ((mails[0].id,), (mails[1].id,))
        desk.clock.pass_seconds(60)
    desk.new_host().drain({"test": channel})
    assert channel.texts == ["one", "two"]


def test_what_may_have_been_sent_is_never_called_failed(desk: Desk) -> None:
    class Broken(AskedChannel):
        def was_sent(self, key: str) -> Sent | bool | None:
            raise OSError

    (mail,) = desk.say("one")
    channel = Broken()
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(channel, after=True)})
    drain_until_quiet(desk, channel)
    assert (channel.texts, desk.state(mail)) == (["one"], "unknown")


def test_a_crash_waits_for_its_channel_to_come_back(desk: Desk) -> None:
    (mail,) = desk.say("one")
    channel = KeyedChannel()
    with pytest.raises(Crash):
        desk.host.drain({"test": Dies(channel, after=True)})
    assert desk.new_host().drain({}).deferred == (mail.id,)
    assert desk.state(mail) == "sending"
    drain_until_quiet(desk, channel)
    assert (channel.texts, desk.state(mail)) == (["one"], "sent")


def test_a_message_that_brings_the_host_down_is_given_up(desk: Desk) -> None:
    (mail,) = desk.say("one")
    dies = Dies(KeyedChannel(), after=False)
    for _ in range(3):
        with pytest.raises(Crash):
            desk.new_host().drain({"test": dies})
    assert desk.new_host().drain({"test": dies}).unknown == (mail.id,)


def test_what_another_host_delivered_is_not_sent(desk: Desk) -> None:
    class Foreign(Channel):
        """Another host is quicker with the second message."""

        def send(self, mail: Outgoing) -> str | None:
            insert = "INSERT INTO delivered VALUES (?, 'theirs', 'delivered', '2025-01-01')"
            desk.rows(insert, mails[1].id)
            return super().send(mail)

    channel = Foreign()
    mails = desk.say("one", "two")
    desk.host.drain({"test": channel})
    assert channel.texts == ["one"]
    assert desk.state(mails[1]) == "sent"
    rows = desk.rows("SELECT platform_message_id FROM delivered ORDER BY rowid")
    assert rows == [("theirs",), ("p-1",)]


def test_what_was_delivered_before_we_came_is_not_taken_over(desk: Desk) -> None:
    mails = desk.say("one", "two")
    desk.rows("INSERT INTO delivered VALUES (?, NULL, 'failed', '2025-01-01')", mails[0].id)
    channel = Channel()
    desk.host.drain({"test": channel})
    assert channel.texts == ["two"]
    assert desk.rows("SELECT message_out_id FROM tk_delivery") == [(mails[1].id,)]


# ---------------------------------------------------------------------- order and time


def test_one_place_waits_for_its_first_message_and_no_other_place_does(desk: Desk) -> None:
    channel = Channel(ValueError("down"))
    first, second = desk.say("one", "two")
    desk.say("elsewhere", place=OTHER)
    drained = desk.host.drain({"test": channel})
    assert channel.texts == ["elsewhere"]
    assert (drained.deferred, drained.waiting) == ((first.id,), (second.id,))
    desk.clock.pass_seconds(5)
    desk.host.drain({"test": channel})
    assert channel.texts == ["elsewhere", "one", "two"]


def test_a_place_goes_on_behind_a_message_that_was_given_up(desk: Desk) -> None:
    channel = Channel(Refused("too rude"))
    desk.say("one", "two")
    desk.host.drain({"test": channel})
    assert channel.texts == ["two"]


@pytest.mark.parametrize("form", ["2025-10-09T09:53:20.500Z", "2025-10-09 09:53:21"])
def test_mail_waits_for_its_hour_and_holds_up_nobody(desk: Desk, form: str) -> None:
    (later,) = desk.say("later")
    desk.rows("UPDATE messages_out SET deliver_after = ?", form, side="outbound")
    desk.say("now")
    channel = Channel()
    assert read_moment(form) - NOW > 0  # type: ignore[operator]
    drained = desk.host.drain({"test": channel})
    assert (channel.texts, drained.waiting) == (["now"], (later.id,))
    desk.clock.now = read_moment("2025-10-09T09:53:20.999Z") or 0
    desk.host.drain({"test": channel})
    assert channel.texts == ["now"]
    desk.clock.now = read_moment("2025-10-09T09:53:21Z") or 0
    desk.host.drain({"test": channel})
    assert channel.texts == ["now", "later"]


def test_an_iso_time_in_the_past_is_due_at_once(desk: Desk) -> None:
    desk.say("late")
    an_hour_ago = "2025-10-09T07:53:20.000Z"
    desk.rows("UPDATE messages_out SET deliver_after = ?", an_hour_ago, side="outbound")
    channel = Channel()
    desk.host.drain({"test": channel})
    assert channel.texts == ["late"]


@given(ms=st.integers(0, 253_402_300_799_999), now=st.integers(0, 253_402_300_799_999))
def test_due_times_are_whole_seconds_and_never_early(ms: int, now: int) -> None:
    due = due_of(iso(ms), now)
    if ms <= now:
        assert due is None
    else:
        read = read_moment(due)
        assert read is not None
        assert ms <= read < ms + 1000 or read == 253_402_300_799_000


def test_pauses_between_attempts_double(desk: Desk) -> None:
    channel = Channel(OSError(), OSError())
    desk.say("one")
    tries = []
    for second in range(20):
        before = len(channel.trouble) - len(channel.sent)
        desk.host.drain({"test": channel})
        if before != len(channel.trouble) - len(channel.sent):
            tries.append(second)
        desk.clock.pass_seconds(1)
    assert tries == [0, 5, 15]


def test_a_channel_that_is_offline_spends_no_attempts(desk: Desk) -> None:
    channel = Channel(*(NotNow("offline") for _ in range(10)))
    (mail,) = desk.say("one")
    for _ in range(10):
        assert desk.host.drain({"test": channel}).deferred == (mail.id,)
        assert desk.host.drain({"test": channel}).waiting == (mail.id,)
        desk.clock.pass_seconds(30)
    desk.host.drain({"test": channel})
    assert channel.texts == ["one"]
    assert desk.notes() == []


def test_without_a_channel_mail_waits_and_nothing_is_recorded(desk: Desk) -> None:
    (mail,) = desk.say("one")
    for _ in range(5):
        assert desk.host.drain({}).deferred == (mail.id,)
        desk.clock.pass_seconds(60)
    assert desk.rows("SELECT * FROM delivered") == []
    channel = Channel()
    desk.host.drain({"test": channel})
    assert channel.texts == ["one"]


def test_trouble_with_our_own_files_spends_no_attempt(desk: Desk) -> None:
    channel = Channel(*(Busy("locked") for _ in range(5)))
    desk.say("one")
    drain_until_quiet(desk, channel)
    assert channel.texts == ["one"]


def test_what_a_channel_refuses_is_told_to_the_agent_once(desk: Desk) -> None:
    (mail,) = desk.say("a long story " * 20)
    drained = desk.host.drain({"test": Channel(Refused("too long", hint="be brief"))})
    assert drained.failed == (mail.id,)
    (note,) = desk.notes()
    assert note.startswith(f'Message {mail.seq} ("a long story ')
    assert note.endswith('…") was not delivered: too long (be brief)')
    rows = desk.rows("SELECT trigger, channel_type, platform_id FROM messages_in")
    assert rows == [(0, "agent", "ag-1")]
    desk.new_host().drain({"test": Channel()})
    assert len(desk.notes()) == 1


@pytest.mark.parametrize("error", [MaybeSent("who knows"), TimeoutError()])
def test_doubt_is_resolved_like_a_crash(desk: Desk, error: Exception) -> None:
    plain, keyed, asked = Channel(error), KeyedChannel(error), AskedChannel(error)
    adapters = {"plain": plain, "keyed": keyed, "asked": asked}
    mails = [desk.say(name, place=Place(name, "x"))[0] for name in adapters]
    drained = desk.host.drain(adapters)
    assert drained.unknown == (mails[0].id,)
    assert drained.deferred == (mails[1].id, mails[2].id)
    desk.clock.pass_seconds(5)
    desk.host.drain(adapters)
    assert (plain.texts, keyed.texts, asked.texts) == ([], ["keyed"], ["asked"])


def test_doubt_without_end_is_unknown_and_never_failed(desk: Desk) -> None:
    channel = KeyedChannel(*(MaybeSent("who knows") for _ in range(9)))
    (mail,) = desk.say("one")
    drain_until_quiet(desk, channel)
    assert desk.state(mail) == "unknown"
    assert len(channel.trouble) == 6


def test_only_words_meant_for_the_agent_are_given_as_reasons() -> None:
    assert reason_of(ConnectionError("https://host/bot12345:secret")) == "ConnectionError"
    assert reason_of(Busy("/home/host/.mail/inbound.db is locked")) == "Busy"
    assert reason_of(Refused("no such chat")) == "no such chat"


# ---------------------------------------------------------------------- what agents may write

BAD: dict[str, dict[str, Any]] = {
    "no JSON": {"content": "hello"},
    "no object": {"content": '["hello"]'},
    "bytes": {"content": b"\xff\xfe"},
    "a number": {"content": 7},
    "too large": {"content": '{"text":"' + "x" * 3000 + '"}'},
    "no place": {"channel_type": None},
    "no chat": {"platform_id": None},
    "no time": {"deliver_after": "tomorrow"},
    "a number for a time": {"deliver_after": 1_700_000_000},
    "no action": {"kind": "system", "content": "{}"},
    "an odd action": {"kind": "system", "content": '{"action":["x"]}'},
    "an unknown action": {"kind": "system", "content": '{"action":"fly"}'},
    "an agent from a single folder": {"channel_type": "agent"},
}


def write_raw(desk: Desk, **fields: Any) -> None:
    row = {
        "id": "bad",
        "seq": 1,
        "timestamp": "2025-10-09 08:00:00",
        "kind": "chat",
        "platform_id": "chat-1",
        "channel_type": "test",
        "content": '{"text":"hello"}',
        **fields,
    }
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    insert = f"INSERT INTO messages_out ({names}) VALUES ({marks})"
    desk.rows(insert, *row.values(), side="outbound")


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_delivered_fails_with_a_reason_and_stops_nobody(
    factory: MailFactory, what: str
) -> None:
    desk = Desk(factory, Clock(), policy=Policy(content_bytes=2000))
    write_raw(desk, **BAD[what])
    desk.say("good")
    channel = Channel()
    drained = desk.host.drain({"test": channel})
    assert (drained.failed, channel.texts) == (("bad",), ["good"])
    ((reason,),) = desk.rows("SELECT reason FROM tk_delivery WHERE message_out_id = 'bad'")
    assert len(reason) > 10
    assert len(desk.notes()) == 1
    assert "was not delivered" in desk.notes()[0]


@pytest.mark.parametrize(
    "odd",
    [
        {"seq": None},
        {"thread_id": b"\x00\xff"},
        {"in_reply_to": 5},
        {"timestamp": b"\xff"},
        {"kind": "mystery"},
        {"content": '{"text":7,"files":"x"}'},
        {"content": '{"text":"hi","files":[7,null,"../x",{}]}'},
        {"content": '{"operation":"edit","messageId":7}'},
        {"content": '{"type":"ask_question","title":1,"options":true}'},
        {"id": "a/../b"},
        {"id": "ü" * 100},
    ],
)
def test_odd_rows_are_delivered_as_they_are(desk: Desk, odd: dict[str, Any]) -> None:
    write_raw(desk, **odd)
    desk.say("good")
    channel = Channel()
    assert len(desk.host.drain({"test": channel}).sent) == 2
    assert channel.texts[-1] == "good"


@pytest.mark.parametrize("name", [None, b"\xff", "x" * 600, ""])
def test_rows_without_a_usable_id_are_passed_over_and_told(desk: Desk, name: Any) -> None:
    write_raw(desk, id=name)
    desk.say("good")
    channel = Channel()
    desk.host.drain({"test": channel})
    desk.host.drain({"test": channel})
    assert channel.texts == ["good"]
    assert desk.notes() == ["1 messages had no usable id and were not delivered."]


def test_a_backlog_larger_than_one_batch_is_taken_over_whole(factory: MailFactory) -> None:
    desk = Desk(factory, Clock(), policy=Policy(drain=3))
    for number in range(10):
        write_raw(desk, id=f"m{number}", seq=None if number % 3 == 0 else 2 * number + 1)
    channel = Channel()
    desk.host.drain({"test": channel})
    assert sorted(mail.id for mail in channel.sent) == [f"m{number}" for number in range(10)]


def test_a_message_that_disappears_is_given_up(desk: Desk) -> None:
    (mail,) = desk.say("one")
    desk.host.drain({})
    desk.rows("DELETE FROM messages_out", side="outbound")
    desk.clock.pass_seconds(60)
    assert desk.host.drain({"test": Channel()}).failed == (mail.id,)


def test_a_view_in_the_place_of_the_mail_is_never_read(desk: Desk) -> None:
    desk.say("one")
    desk.rows("ALTER TABLE messages_out RENAME TO hidden", side="outbound")
    desk.rows("CREATE VIEW messages_out AS SELECT *, rowid FROM hidden", side="outbound")
    channel = Channel()
    with pytest.raises(Damaged):
        desk.host.drain({"test": channel})
    assert channel.sent == []


def test_edits_and_reactions_name_messages_as_the_channel_does(desk: Desk) -> None:
    channel = Channel()
    (mine,) = desk.say("mine")
    theirs = desk.host.send("hi", id="77:ag-1", place=CHAT)
    for target in (mine.id, theirs.id, "77:ag-1~0123abcd", "99:x"):
        said = {"operation": "reaction", "messageId": target, "emoji": "ok"}
        desk.container.insert_message("chat", said, CHAT)
    desk.host.drain({"test": channel})
    assert [m.content["messageId"] for m in channel.sent[1:]] == ["p-1", "77", "77", "99:x"]


@given(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.text()), st.text())
def test_any_content_is_an_object_or_refused(raw: str | None, after: str | None, kind: str) -> None:
    mail = OutMail("m", 1, None, "", after, kind, Place("test", "x"), raw)
    with suppress(Refused):  # nothing else may be raised
        assert isinstance(content_of(mail, 100), dict)


def test_files_stay_until_the_outcome_is_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.container.send("see", files=[("a.txt", b"A")])
    channel = KeyedChannel()
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at_write(desk.host, patch, 3, committed=False)
        desk.host.drain({"test": channel})
    second = KeyedChannel()
    drain_until_quiet(desk, second)
    assert [file.data for file in second.sent[0].files] == [b"A"]


def test_ids_that_follow_from_a_message_are_the_same_at_every_attempt(desk: Desk) -> None:
    channel = Channel()
    desk.say("one", "two")
    desk.host.drain({"test": channel})
    first, second = channel.sent
    assert first.derived_id("a2a") == first.derived_id("a2a")
    assert first.derived_id("a2a") != second.derived_id("a2a")
    assert first.derived_id("a2a").startswith(f"a2a-{NOW}-")
    assert len(first.derived_id("a2a").rpartition("-")[2]) == 6


def test_a_container_that_writes_while_we_send_is_never_kept_waiting(desk: Desk) -> None:
    class Chatty(Channel):
        def send(self, mail: Outgoing) -> str | None:
            if len(self.sent) == 0:
                desk.box.new_container(clock=desk.clock).insert_message(
                    "chat", {"text": "new"}, CHAT
                )
            return super().send(mail)

    channel = Chatty()
    desk.say("one")
    desk.host.drain({"test": channel})
    desk.host.drain({"test": channel})
    assert channel.texts == ["one", "new"]

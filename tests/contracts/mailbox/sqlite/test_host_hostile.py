"""Host hostile: what is about the files of SQLite."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.contracts.mailbox.postal import (
    Channel,
    Clock,
    Crash,
    Desk,
    KeyedChannel,
    count_writes,
)
from tests.support.mail import MailFactory
from threadkeep.base import nofollow
from threadkeep.errors import Busy
from threadkeep.mailbox import mailroom
from threadkeep.mailbox.attachments import AttachmentLimits, collect, hand_over
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host import sweep
from threadkeep.mailbox.host.delivery import DeliveryReport
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.mailroom import Mailroom, Rest, turn
from threadkeep.mailbox.notices import tell
from threadkeep.mailbox.records import Place


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def spoil(path: Path, statement: str) -> None:
    """Change a file as the agent can, past the rules of its tables."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)


# ---------------------------------------------------------------------- tables of the host's own

NO_TEXT = "CAST(x'ff41' AS TEXT)"


@pytest.mark.parametrize(
    "change",
    [
        "attempts = 'x'",
        "attempts = -99",
        "attempts = x'ff'",
        "attempts = 1e300",
        "due = 'zzzz'",
        "due = 5",
        "due = x'ff'",
        "due = '9999-99'",
        f"due = {NO_TEXT}",
        "message_out_id = x'ff00'",
        "message_out_id = 'gone'",
        f"message_out_id = {NO_TEXT}",
        "state = 'odd'",
        "key = x'ff'",
        "place = 7",
        "held = 'x'",
        "seq = 'x'",
        f"reason = {NO_TEXT}",
    ],
)
def test_nonsense_about_one_delivery_stops_no_other(desk: Desk, change: str) -> None:
    desk.say("odd", "good")
    desk.host.drain({})
    spoil(desk.path / "inbound.db", f"UPDATE tk_delivery SET {change} WHERE seq = 1")
    channel = Channel()
    for _ in range(4):
        desk.clock.pass_seconds(100)
        desk.host.drain({"test": channel})
    assert channel.texts.count("good") == 1
    assert channel.texts.count("odd") <= 1
    assert len(desk.notes()) <= 1


def test_a_delivery_without_a_name_is_no_work(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.say("odd")
    desk.host.drain({})
    spoil(desk.path / "inbound.db", "UPDATE tk_delivery SET message_out_id = x'ff', due = NULL")
    writes = count_writes(desk.host, monkeypatch)
    assert desk.host.drain({"test": Channel()}) == DeliveryReport()
    assert writes == []


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "-5", "1.5"])
def test_a_cursor_that_is_no_number_loses_nothing(desk: Desk, value: str) -> None:
    channel = Channel()
    desk.say("one")
    desk.host.drain({"test": channel})
    spoil(desk.path / "inbound.db", f"UPDATE tk_cursor SET seq = {value}")
    desk.say("two")
    desk.host.drain({"test": channel})
    assert channel.texts == ["one", "two"]
    assert desk.rows("SELECT typeof(seq) FROM tk_cursor GROUP BY 1") == [("integer",)]


def test_the_key_of_a_message_is_not_the_agents_to_choose(desk: Desk) -> None:
    (mail,) = desk.say("hello")
    desk.host.drain({})
    spoil(desk.path / "inbound.db", "UPDATE tk_delivery SET key = 'sess-2:msg-7', due = NULL")
    channel = Channel()
    desk.host.drain({"test": channel})
    assert [sent.key for sent in channel.sent] == [f"sess-1:{mail.id}"]


# ---------------------------------------------------------------------- mail and answers


@pytest.mark.parametrize(
    "change",
    [
        f"content = {NO_TEXT}",
        f"kind = {NO_TEXT}",
        "content = x'ff'",
        "tries = 'x'",
        "timestamp = 5",
    ],
)
def test_nonsense_in_one_mail_stops_no_other_answer(pair: Pair, change: str) -> None:
    bad, good = pair.host.send("bad"), pair.host.send("good")
    pair.claim()
    pair.agent.fail([bad], "no idea")
    pair.agent.complete([good])
    spoil(pair.path / "inbound.db", f"UPDATE messages_in SET {change} WHERE id = '{bad.id}'")
    for _ in range(3):
        pair.host.sweep()
    assert (pair.status(bad.id), pair.status(good.id)) == ("failed", "completed")
    assert len(pair.notes()) == 1


def test_an_id_that_is_no_text_is_not_spoken_of_again_and_again(pair: Pair) -> None:
    row = "(id, seq, kind, timestamp, content) VALUES (x'ff', 100, 'chat', '', '{}')"
    spoil(pair.path / "inbound.db", f"INSERT INTO messages_in {row}")
    spoil(pair.path / "outbound.db", "INSERT INTO processing_ack VALUES (x'ff', 'failed', '')")
    before = pair.changes()
    for _ in range(3):
        assert sweep.sync(pair.ctx) == sweep.SettleReport()
    assert pair.changes() == before


def test_a_reason_that_is_no_text_does_not_keep_claims(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    spoil(pair.path / "outbound.db", f"UPDATE tk_claim SET reason = {NO_TEXT}")
    assert pair.host.reset_claims().retried == (mail.id,)
    assert pair.host.claims() == []


def test_a_note_fits_whatever_failed(pair: Pair) -> None:
    with pair.ctx.folder.inbound.write() as tx:
        note = tell(pair.ctx, tx, "Much failed.", ["x" * 10_000_000, *["y" * 500] * 20_000])
    assert note.text == "Much failed."
    assert set(note.content["about"]) == {"y" * 500}


# ---------------------------------------------------------------------- mail from the agent


@pytest.mark.parametrize("column", ["platform_id", "channel_type"])
def test_a_place_with_a_name_beyond_measure_is_none(desk: Desk, column: str) -> None:
    desk.say("odd", "good")
    spoil(
        desk.path / "outbound.db",
        f"UPDATE messages_out SET {column} = printf('%.*c', 5000, 'x') WHERE seq = 1",
    )
    channel = Channel()
    desk.host.drain({"test": channel})
    assert channel.texts == ["good"]
    assert "does not say where to" in desk.notes()[0]


def test_a_time_beyond_measure_is_refused_and_not_at_once(desk: Desk) -> None:
    desk.say("odd")
    long = "UPDATE messages_out SET deliver_after = printf('%.*c', 5000, '2')"
    spoil(desk.path / "outbound.db", long)
    assert len(desk.host.drain({"test": Channel()}).failed) == 1


def test_more_names_than_files_are_allowed_cost_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any, **options: Any) -> Any:
            looks.append(name)
            return real(*args, **options)

        return look

    for name in ("read", "is_file"):
        monkeypatch.setattr(nofollow, name, counted(name, getattr(nofollow, name)))
    names = [f"{number}" for number in range(5000)]
    found = collect(tmp_path, "m-1", names, AttachmentLimits(files=3))
    assert [name for name, _ in found.skipped] == ["0", "1", "2", "4997 more"]
    assert hand_over(tmp_path, "m-1", tmp_path, "in-1", names, AttachmentLimits(files=3)) == []
    assert len(looks) <= 3 + 2 * 3


# ---------------------------------------------------------------------- many sessions


class Rooms:
    """A mailroom of two agents, with one channel."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.channel = KeyedChannel()
        self.room = self.open()
        self.ann = self.room.new_session("ann", "test", "chat-a")
        self.bob = self.room.new_session("bob", "test", "chat-b")

    def open(self) -> Mailroom:
        return Mailroom.open(self.root, adapters={"test": self.channel}, clock=self.clock)

    def container(self, session: MailboxSession) -> Container:
        return Container(self.room.folder(session), clock=self.clock)

    def meets(self, one: MailboxSession, other: MailboxSession) -> None:
        self.room.index.add_destination(one.agent_group_id, "agent", other.agent_group_id)


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    rooms = Rooms(tmp_path / "home")
    with rooms.room:
        yield rooms


def test_an_agent_cannot_take_the_name_of_another_by_its_own_file(rooms: Rooms) -> None:
    eve = rooms.room.new_session("eve", "test", "chat-e")
    rooms.meets(rooms.bob, rooms.ann)
    for key, value in (("agent_group", rooms.bob.agent_group_id), ("session", rooms.bob.id)):
        change = f"UPDATE tk_meta SET value = '{value}' WHERE key = '{key}'"
        spoil(rooms.room.folder(eve).inbound_path, change)
    to_ann = Place("agent", rooms.ann.agent_group_id)
    rooms.container(eve).insert_message("chat", {"text": "I am bob"}, to_ann)
    said = rooms.container(eve).send("hello")
    with rooms.open() as room:
        assert len(room.deliver(eve)[eve.id].failed) == 1
        assert room.host(rooms.ann).inbox() == []
    assert [mail.key for mail in rooms.channel.sent] == [f"{eve.id}:{said.id}"]


def test_a_session_that_was_made_just_before_a_crash_knows_its_place(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"message_id": "m-1", "thread_id": "t-1", "threaded": True, "is_group": True}
    with monkeypatch.context() as crash:
        crash.setattr(rooms.room, "refresh", lambda _: (_ for _ in ()).throw(Crash()))
        with pytest.raises(Crash):
            rooms.room.receive("test", "chat-a", "hello", **asked)  # type: ignore[arg-type]
    with rooms.open() as room:
        room.receive("test", "chat-a", "hello", **asked)  # type: ignore[arg-type]
        session = room.index.sessions()[-1]
        assert session.thread_id == "t-1"
        assert room.host(session).routing() == Place("test", "chat-a", "t-1")
        assert [mail.text for mail in room.host(session).inbox()] == ["hello"]


def test_an_agent_that_gets_its_first_mail_from_another_can_answer(rooms: Rooms) -> None:
    carol = rooms.room.index.add_agent_group("carol")
    for one, other in ((rooms.ann.agent_group_id, carol.id), (carol.id, rooms.ann.agent_group_id)):
        rooms.room.index.add_destination(one, "agent", other)
    place = Place("agent", carol.id)
    rooms.container(rooms.ann).insert_message("chat", {"text": "hello carol"}, place)
    rooms.room.deliver(rooms.ann)
    (session,) = rooms.room.index.sessions(agent_group_id=carol.id)
    assert rooms.container(session).send("hello", to="ann").place.platform_id == (
        rooms.ann.agent_group_id
    )


def test_a_damaged_session_of_the_other_agent_does_not_stop_a_second_attempt(rooms: Rooms) -> None:
    rooms.meets(rooms.ann, rooms.bob)
    newer = rooms.room.new_session("bob", "test", "chat-c")
    rooms.room.folder(rooms.bob).inbound_path.write_bytes(b"no database " * 500)
    place = Place("agent", rooms.bob.agent_group_id)
    rooms.container(rooms.ann).insert_message("chat", {"text": "hello bob"}, place)
    rooms.room.context(rooms.ann)
    path = rooms.room.folder(rooms.ann).inbound_path
    with rooms.open() as room:
        room.index.close_session(newer.id)
        room.deliver(rooms.ann)  # into the damaged one: it fails
        room.index.reopen_session(newer.id)
        spoil(path, "UPDATE tk_delivery SET due = NULL")
        assert len(room.deliver(rooms.ann)[rooms.ann.id].sent) == 1
        assert [mail.text for mail in room.host(newer).inbox()] == ["hello bob"]


@pytest.mark.parametrize("question_id", ["a/b", "x" * 300, "nul\0"])
def test_a_question_whose_answer_could_have_no_id_is_refused(
    rooms: Rooms, question_id: str
) -> None:
    said = {
        "type": "ask_question",
        "questionId": question_id,
        "title": "Sure?",
        "question": "Are you sure?",
        "options": [{"label": "yes", "selectedLabel": "yes", "value": "yes"}],
    }
    rooms.container(rooms.ann).insert_message("chat-sdk", said, Place("test", "chat-a"))
    assert len(rooms.room.deliver(rooms.ann)[rooms.ann.id].failed) == 1
    assert rooms.channel.sent == []


def test_an_agent_that_locks_its_files_holds_up_its_own_mail_only(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailroom, "PATIENCE", 0.05)
    for session in (rooms.ann, rooms.bob):
        rooms.container(session).send("hello")
    path = rooms.room.folder(rooms.ann).outbound_path
    with rooms.open() as room, closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("BEGIN EXCLUSIVE")
        report = turn(room, sweeping=True)
    assert list(report.errors) == [rooms.ann.id]
    assert "waited 0.05 s" in report.errors[rooms.ann.id]
    assert len(report.delivered[rooms.bob.id].sent) == 1


def test_a_session_that_fails_slowly_rests_and_the_others_go_on(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, looks = [0.0], [0]
    real = rooms.room.drain

    def slow(session: MailboxSession, is_over: Callable[[], bool]) -> Any:
        if session.id != rooms.ann.id:
            return real(session, is_over)
        now[0], looks[0] = now[0] + 5, looks[0] + 1
        raise Busy("locked", hint="wait")

    monkeypatch.setattr(rooms.room, "drain", slow)
    resting: dict[str, Rest] = {}
    tried = []
    for moment in (0.0, 30.0, 54.0, 60.0):
        now[0] = moment
        report = turn(rooms.room, sweeping=False, resting=resting, timer=lambda: now[0])
        assert list(report.errors) == [rooms.ann.id]
        assert list(report.delivered) == [rooms.bob.id]
        tried.append(looks[0])
    assert tried == [1, 1, 1, 2]


def test_one_folder_that_hangs_keeps_no_other_shut(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, hanging, go_on = Host.__init__, threading.Event(), threading.Event()

    def slow(self: Host, folder: Any, **options: Any) -> None:
        if rooms.ann.id in str(folder.path):
            hanging.set()
            go_on.wait(30)
        real(self, folder, **options)

    with rooms.open() as room:
        monkeypatch.setattr(Host, "__init__", slow)
        other = threading.Thread(target=room.host, args=(rooms.ann,))
        other.start()
        hanging.wait(30)
        assert room.host(rooms.bob).context.session == rooms.bob.id
        go_on.set()
        other.join()
        assert room.host(rooms.ann) is room.host(rooms.ann)

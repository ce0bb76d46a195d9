import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need_tool
from tests.contracts.mailbox.postal import Channel, Clock, Crash, crash_at_write
from threadkeep.base.processes import is_running
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox import mailroom
from threadkeep.mailbox.adapters import FileAdapter, Outgoing
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.mailroom import Mailroom, ServeReport
from threadkeep.mailbox.records import Place
from threadkeep.mailbox.runner import ProcessRunner


class Agents:
    """A runner that only notes what it is told."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.started: list[str] = []
        self.stopped: list[tuple[str, str]] = []
        self.trouble: list[Exception | bool] = []
        self.before: Callable[[Path], None] = lambda _: None

    def is_running(self, session: str) -> bool:
        return session in self.running

    def start(self, session: str, folder: Path) -> bool:
        self.before(folder)
        trouble = self.trouble.pop(0) if self.trouble else True
        if isinstance(trouble, Exception):
            raise trouble
        if trouble:
            self.running.add(session)
            self.started.append(session)
        return trouble

    def stop(self, session: str, reason: str) -> None:
        self.running.discard(session)
        self.stopped.append((session, reason))


class Setup:
    """A mailroom with one channel and a runner that only notes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.agents = Agents()
        self.channel = Channel()
        self.actions: list[str] = []
        self.room = self.open()

    def open(self) -> Mailroom:
        return Mailroom.open(
            self.root,
            adapters={"test": self.channel},
            runner=self.agents,
            actions={"wave": self._wave},
            clock=self.clock,
        )

    def _wave(self, ctx: MailContext, mail: Outgoing) -> None:
        self.actions.append(f"{ctx.session} {mail.id}")

    def container(self, session: MailboxSession) -> Container:
        return Container(self.room.folder(session), clock=self.clock)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    setup = Setup(tmp_path / "home")
    with setup.room:
        yield setup


# ---------------------------------------------------------------------- sessions


def test_a_new_session_has_its_folder_names_and_routing(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    group = session.agent_group_id
    assert setup.room.folder(session).path == setup.root / "mailbox" / group / session.id
    assert (setup.root / "mailbox.db").exists()
    container = setup.container(session)
    assert container.routing() == Place("test", "chat-1")
    assert [d.name for d in container.destinations()] == ["test"]
    context = setup.room.host(session).context
    assert (context.agent_group, context.session) == (group, session.id)


def test_the_same_place_keeps_its_session(setup: Setup) -> None:
    first = setup.room.new_session("ann", "test", "chat-1")
    assert setup.room.new_session("ann", "test", "chat-1").id == first.id
    assert setup.room.new_session(first.agent_group_id, "test", "chat-1").id == first.id
    assert setup.room.new_session("ann", "test", "chat-2").id != first.id
    assert len(setup.room.index.agent_groups()) == 1


def test_a_session_without_a_chat_sends_where_its_agent_may(setup: Setup) -> None:
    session = setup.room.new_session("ann")
    assert setup.container(session).routing() == Place()


def test_a_wiring_that_is_there_keeps_its_priority(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    chat = session.messaging_group_id or ""
    setup.room.index.wire(chat, session.agent_group_id, priority=7)
    setup.room.new_session("ann", "test", "chat-1")
    assert setup.room.index.agents_of("test", "chat-1")[0].priority == 7


def test_a_folder_that_was_never_made_is_made_when_it_is_needed(setup: Setup) -> None:
    group = setup.room.index.add_agent_group("ann")
    session, _ = setup.room.index.resolve_session(group.id)  # and then the power went out
    assert setup.room.host(session).due() == 0


def test_names_are_written_anew_only_when_they_changed(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    path = setup.room.folder(session).inbound_path
    before = path.read_bytes()
    setup.room.refresh(session)
    assert path.read_bytes() == before
    other = setup.room.index.add_agent_group("bob")
    setup.room.index.add_destination(session.agent_group_id, "agent", other.id)
    setup.room.refresh(session)
    assert [d.name for d in setup.container(session).destinations()] == ["bob", "test"]


# ---------------------------------------------------------------------- mail to agents


def test_mail_of_a_chat_comes_to_every_agent_that_serves_it(setup: Setup) -> None:
    ann = setup.room.new_session("ann", "test", "chat-1")
    bob = setup.room.new_session("bob", "test", "chat-1")
    mails = setup.room.receive("test", "chat-1", "hi", message_id="m7", sender="Zoe", sender_id="z")
    assert {m.id for m in mails} == {f"m7:{ann.agent_group_id}", f"m7:{bob.agent_group_id}"}
    for session in (ann, bob):
        (mail,) = setup.container(session).poll()
        assert mail.content == {"sender": "Zoe", "senderId": "z", "text": "hi"}
        assert mail.place == Place("test", "chat-1")
    assert set(setup.agents.started) == {ann.id, bob.id}


def test_the_same_post_is_taken_once(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    for words in ("hi", "hi", "something else under the same id"):
        setup.room.receive("test", "chat-1", words, message_id="m7")
    assert [m.text for m in setup.container(session).poll()] == [
        "hi",
        "something else under the same id",
    ]


def test_an_unknown_chat_is_an_error_and_makes_nothing(setup: Setup) -> None:
    with pytest.raises(NotFound, match="unknown"):
        setup.room.receive("test", "chat-9", "hi")
    setup.room.index.add_messaging_group("test", "chat-9")
    with pytest.raises(NotFound, match="no agent serves"):
        setup.room.receive("test", "chat-9", "hi")
    assert setup.room.index.sessions() == []


def test_mail_that_wakes_nobody_waits(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.room.receive("test", "chat-1", "background", trigger=False)
    assert setup.agents.started == []
    assert not setup.container(session).triggered()


def test_threads_of_a_group_chat_are_sessions_of_their_own(setup: Setup) -> None:
    setup.room.new_session("ann", "test", "chat-1")
    for thread in ("t1", "t2", "t1"):
        setup.room.receive(
            "test", "chat-1", f"in {thread}", thread_id=thread, is_group=True, threaded=True
        )
    threads = [s for s in setup.room.index.sessions() if s.thread_id]
    assert sorted(s.thread_id or "" for s in threads) == ["t1", "t2"]
    counts = {s.thread_id: len(setup.container(s).poll()) for s in threads}
    assert counts == {"t1": 2, "t2": 1}
    first = next(s for s in threads if s.thread_id == "t1")
    assert setup.container(first).routing() == Place("test", "chat-1", "t1")


def test_one_agent_in_trouble_does_not_keep_mail_from_the_others(setup: Setup) -> None:
    ann = setup.room.new_session("ann", "test", "chat-1")
    bob = setup.room.new_session("bob", "test", "chat-1")
    setup.room.folder(ann).inbound_path.write_bytes(b"no database " * 500)
    with pytest.raises(Exception, match=r"inbound\.db"):
        setup.room.receive("test", "chat-1", "hi")
    assert [m.text for m in setup.container(bob).poll()] == ["hi"]


def test_attachments_come_as_files(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    given = {"name": "a.txt", "data": "QQ=="}
    (mail,) = setup.room.receive("test", "chat-1", "see", message_id="m1", attachments=[given])
    assert setup.container(session).attachment(mail, "a.txt") == b"A"


# ---------------------------------------------------------------------- questions


def ask(setup: Setup, session: MailboxSession) -> str:
    question = setup.container(session).ask("Tea?", ["yes", "no"])
    setup.room.deliver(session)
    return question


def test_a_question_makes_its_round(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    question = ask(setup, session)
    assert setup.channel.sent[0].content["type"] == "ask_question"
    mail = setup.room.answer(question, "yes", user_id="u1")
    assert (mail.kind, mail.trigger, mail.place) == ("system", False, Place("test", "chat-1"))
    found = setup.container(session).answer(question)
    assert found == {
        "type": "question_response",
        "questionId": question,
        "selectedOption": "yes",
        "userId": "u1",
    }
    assert setup.agents.started == [session.id]
    with pytest.raises(NotFound):
        setup.room.answer(question, "no")


def test_a_question_is_known_before_it_is_sent(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")

    class Quick(Channel):
        def send(self, mail: Outgoing) -> str | None:
            setup.room.answer(mail.content["questionId"], "yes")
            return super().send(mail)

    setup.channel.send = Quick().send  # type: ignore[method-assign]
    question = ask(setup, session)
    assert setup.container(session).answer(question) is not None


def test_an_answer_survives_a_crash_before_the_question_is_forgotten(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    question = ask(setup, session)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at_write(setup.room.host(session), patch, 1, committed=True)
        setup.room.answer(question, "yes")
    setup.room.answer(question, "no")  # pressed again, after the restart
    system = setup.container(session).system_mail()
    assert [m.content["selectedOption"] for m in system] == ["yes"]


@pytest.mark.parametrize("change", [{"questionId": 7}, {"questionId": ""}, {"options": 5}])
def test_a_question_that_nobody_could_answer_is_refused(
    setup: Setup, change: dict[str, object]
) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    said = {"type": "ask_question", "questionId": "q1", "title": "T", "options": ["a"], **change}
    setup.container(session).insert_message("chat-sdk", said, Place("test", "chat-1"))
    assert len(setup.room.deliver(session)[session.id].failed) == 1
    assert setup.channel.sent == []


def test_one_agent_cannot_take_the_answer_to_the_question_of_another(setup: Setup) -> None:
    ann = setup.room.new_session("ann", "test", "chat-1")
    eve = setup.room.new_session("eve", "test", "chat-2")
    question = ask(setup, ann)
    said = {"type": "ask_question", "questionId": question, "title": "T", "options": ["a"]}
    setup.container(eve).insert_message("chat-sdk", said, Place("test", "chat-2"))
    assert len(setup.room.deliver(eve)[eve.id].failed) == 1
    setup.room.answer(question, "yes")
    assert setup.container(ann).answer(question) is not None


# ---------------------------------------------------------------------- who may send where


def test_an_agent_may_send_to_its_own_chat_and_to_its_destinations_only(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.room.new_session("bob", "test", "chat-2")
    setup.room.index.remove_destination(session.agent_group_id, "test")
    container = setup.container(session)
    for chat in ("chat-1", "chat-2", "chat-unknown"):
        container.insert_message("chat", {"text": chat}, Place("test", chat))
    drained = setup.room.deliver(session)[session.id]
    assert setup.channel.texts == ["chat-1"]
    assert len(drained.failed) == 2
    notes = [m.text for m in setup.room.host(session).inbox()]
    assert "not among the destinations" in notes[0]
    assert "unknown here" in notes[1]
    second = setup.room.index.add_messaging_group("test", "chat-2")
    setup.room.index.add_destination(session.agent_group_id, "channel", second.id)
    container.insert_message("chat", {"text": "now"}, Place("test", "chat-2"))
    setup.room.deliver(session)
    assert setup.channel.texts == ["chat-1", "now"]


def test_actions_of_the_host_and_tasks_work_in_a_mailroom(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    mail = setup.container(session).act("wave")
    task = setup.container(session).schedule("x", process_after="2030-01-01T00:00:00Z")
    setup.room.deliver()
    assert setup.actions == [f"{session.id} {mail.id}"]
    assert [t.id for t in setup.container(session).tasks()] == [task]


# ---------------------------------------------------------------------- agents


def test_waking_refreshes_names_and_forgets_the_old_sign_of_life(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    folder = setup.room.folder(session)
    folder.beat()
    other = setup.room.index.add_agent_group("bob")
    setup.room.index.add_destination(session.agent_group_id, "agent", other.id)
    seen: list[tuple[object, int]] = []

    def look(path: Path) -> None:
        assert path == folder.path
        seen.append((folder.heartbeat_ms(), len(setup.container(session).destinations())))

    setup.agents.before = look
    assert setup.room.wake(session)
    assert seen == [(None, 2)]
    assert setup.room.index.session(session.id).container_status == "running"
    assert setup.room.wake(session)
    assert setup.agents.started == [session.id]


@pytest.mark.parametrize("trouble", [False, OSError("no docker")])
def test_a_wake_that_fails_leaves_the_mail_pending(setup: Setup, trouble: Exception | bool) -> None:  # noqa: FBT001
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.agents.trouble = [trouble]
    (mail,) = setup.room.receive("test", "chat-1", "hi")
    assert (setup.agents.started, mail.status) == ([], "pending")
    swept = setup.room.sweep()[session.id]
    assert (swept.started, setup.agents.started) == (True, [session.id])


def test_without_a_runner_nobody_is_woken(tmp_path: Path) -> None:
    with Mailroom.open(tmp_path, clock=Clock()) as room:
        session = room.new_session("ann", "test", "chat-1")
        assert not room.wake(session)
        assert not room.is_running(session)
        assert len(room.receive("test", "chat-1", "hi")) == 1


def test_wakes_at_the_same_time_share_one_start(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    entered, go_on = threading.Event(), threading.Event()

    def wait(_: Path) -> None:
        entered.set()
        assert go_on.wait(60)

    setup.agents.before = wait
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(setup.room.wake(session))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert results == [True] * 4
    assert setup.agents.started == [session.id]


def test_an_agent_that_somebody_else_started_is_not_started_again(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    with setup.container(session) as container:
        container.start()
        setup.room.receive("test", "chat-1", "hi")
        assert setup.room.is_running(session)
    assert setup.agents.started == []


def test_mail_from_another_agent_wakes(setup: Setup) -> None:
    ann = setup.room.new_session("ann", "test", "chat-1")
    bob = setup.room.new_session("bob", "test", "chat-2")
    setup.room.index.add_destination(ann.agent_group_id, "agent", bob.agent_group_id)
    place = Place("agent", bob.agent_group_id)
    setup.container(ann).insert_message("chat", {"text": "hi"}, place)
    setup.room.deliver(ann)
    assert setup.agents.started == [bob.id]


def test_a_sweep_ends_what_is_stuck_and_notes_what_has_stopped(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.room.receive("test", "chat-1", "hi")
    container = setup.container(session)
    container.claim(container.poll())
    setup.clock.pass_seconds(61)
    setup.room.sweep(session)
    assert setup.agents.stopped == [(session.id, "claim-stuck")]
    assert setup.room.index.session(session.id).container_status == "stopped"


# ---------------------------------------------------------------------- regular work


def test_one_broken_session_never_stops_the_others(setup: Setup) -> None:
    sessions = [setup.room.new_session(name, "test", f"chat-{name}") for name in ("a", "b", "c")]
    for session in sessions:
        setup.container(session).send(f"from {session.id}")
    setup.room.folder(sessions[1]).outbound_path.write_bytes(b"no database " * 500)
    delivered = setup.room.deliver()
    assert set(delivered) == {sessions[0].id, sessions[2].id}
    assert len(setup.channel.sent) == 2
    assert set(setup.room.sweep()) == {sessions[0].id, sessions[2].id}
    with pytest.raises(Exception, match=r"outbound\.db"):
        setup.room.deliver(sessions[1])


def test_closed_sessions_are_left_alone(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.room.index.close_session(session.id)
    assert setup.room.deliver() == {}
    assert setup.room.sweep() == {}


def test_serving_delivers_and_sweeps_until_told_to_stop(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    broken = setup.room.new_session("bob", "test", "chat-2")
    setup.room.folder(broken).outbound_path.write_bytes(b"no database " * 500)
    setup.room.host(session).send("hi")
    setup.container(session).send("one")
    stop = threading.Event()
    reports: list[ServeReport] = []

    def look(report: ServeReport) -> None:
        reports.append(report)
        if len(reports) == 3:
            stop.set()

    setup.room.serve(stop, every=0, sweep_every=3600, patience=30, on_report=look)
    assert setup.channel.texts == ["one"]
    assert setup.agents.started == [session.id]
    assert [session.id in report.swept for report in reports] == [True, False, False]
    assert [len(report.delivered[session.id].sent) for report in reports] == [1, 0, 0]
    assert all(set(report.errors) == {broken.id} for report in reports)


class SlowFor(Channel):
    """A channel that is slow for some chats: nothing comes back until it is told to go on."""

    def __init__(self, *chats: str) -> None:
        super().__init__()
        self.chats = chats
        self.go_on = threading.Event()

    def send(self, mail: Outgoing) -> str | None:
        if mail.place.platform_id in self.chats:
            assert self.go_on.wait(60)
        return super().send(mail)


def test_a_slow_channel_delays_no_other_session(setup: Setup) -> None:
    setup.channel = channel = SlowFor("slow-1", "slow-2", "slow-3")
    slow = [setup.room.new_session("ann", "test", chat) for chat in channel.chats]
    quick = setup.room.new_session("ann", "test", "quick")
    for session in (*slow, quick):
        setup.container(session).send("one")
    stop = threading.Event()
    reports: list[ServeReport] = []

    def look(report: ServeReport) -> None:
        reports.append(report)
        if any(done.sent for done in report.delivered.values()):
            if channel.texts == ["one"]:
                setup.container(quick).send("two")  # while the slow ones are still at work
            else:
                channel.go_on.set()
                stop.set()

    with setup.open() as room:
        room.serve(stop, every=0, sweep_every=3600, patience=0.05, on_report=look)
    assert channel.texts[:2] == ["one", "two"]
    assert channel.sent[1].place.platform_id == "quick"
    assert set(reports[0].busy) >= {session.id for session in slow}
    sent = [done.sent for report in reports for done in report.delivered.values() if done.sent]
    assert len(sent) == 5  # what ended after `stop` is told of as well
    assert len(channel.texts) == 5


def test_after_a_stop_no_other_message_is_begun(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.channel = channel = SlowFor("slow")
    session = setup.room.new_session("ann", "test", "slow")
    for text in ("one", "two", "three"):
        setup.container(session).send(text)

    class Threads(ThreadPoolExecutor):
        def shutdown(self, *args: Any, **options: Any) -> None:
            channel.go_on.set()  # not before `serve` is told to stop
            super().shutdown(*args, **options)

    monkeypatch.setattr(mailroom, "ThreadPoolExecutor", Threads)
    stop = threading.Event()
    reports: list[ServeReport] = []

    def look(report: ServeReport) -> None:
        reports.append(report)
        stop.set()

    with setup.open() as room:
        room.serve(stop, every=0, patience=0.05, on_report=look)
        assert channel.texts == ["one"]
        assert len(reports[-1].delivered[session.id].sent) == 1
        assert len(reports[-1].delivered[session.id].waiting) == 2
        room.drain(session)
    assert channel.texts == ["one", "two", "three"]


def test_many_sessions_may_share_one_file(setup: Setup, tmp_path: Path) -> None:
    sessions = [setup.room.new_session("ann", "file", str(number)) for number in range(12)]
    for session in sessions:
        for text in "ab":
            setup.container(session).send(text)
    stop = threading.Event()
    log = tmp_path / "sent.jsonl"
    sent: list[str] = []

    def look(report: ServeReport) -> None:
        sent.extend(row for done in report.delivered.values() for row in done.sent)
        if len(sent) == 2 * len(sessions):
            stop.set()

    with Mailroom.open(setup.root, adapters={"file": FileAdapter(log)}, clock=setup.clock) as room:
        room.serve(stop, every=0, on_report=look)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(sent)
    for session in sessions:
        own = [line["content"]["text"] for line in lines if line["session"] == session.id]
        assert own == ["a", "b"]


def test_sessions_are_served_one_by_one_where_that_is_wanted(setup: Setup) -> None:
    for chat in ("a", "b", "c"):
        setup.container(setup.room.new_session("ann", "test", chat)).send(chat)
    stop = threading.Event()
    threads: set[str] = set()
    real = setup.channel.send

    def send(mail: Outgoing) -> str | None:
        threads.add(threading.current_thread().name)
        if len(setup.channel.sent) == 2:
            stop.set()
        return real(mail)

    setup.channel.send = send  # type: ignore[method-assign]
    setup.room.serve(stop, every=0, side_by_side=1)
    assert len(threads) == 1
    assert setup.channel.texts == ["a", "b", "c"]


def test_a_new_mailroom_goes_on_where_the_old_one_stopped(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    setup.container(session).send("one")
    with setup.open() as again:
        assert again.new_session("ann", "test", "chat-1").id == session.id
        again.deliver()
    assert setup.channel.texts == ["one"]


# ---------------------------------------------------------------------- zones


def test_tasks_are_meant_in_the_zone_of_their_group_then_of_the_host(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    other = setup.room.new_session("bob", "test", "chat-2")
    daily = "0 9 * * *"
    setup.room.set_zone("ann", "America/New_York")
    later = setup.room.new_session("ann", "test", "chat-3")
    assert setup.room.host(session).insert_task("x", recurrence=daily).process_after == (
        "2025-10-09T13:00:00.000Z"
    )
    assert setup.room.host(later).insert_task(
        "x", process_after="2025-12-01T09:00"
    ).process_after == ("2025-12-01T14:00:00.000Z")
    assert setup.room.host(other).insert_task("x", recurrence=daily).process_after == (
        "2025-10-09T09:00:00.000Z"
    )
    # Whoever opens the folder alone means the same zone; a runner of its own is not asked for it.
    alone = Host(setup.room.folder(later).path, clock=setup.clock, zone="Asia/Tokyo")
    assert alone.context.zone == "America/New_York"
    setup.room.set_zone("ann", None)
    assert setup.room.host(later).context.zone == "UTC"
    assert Host(setup.room.folder(later).path, zone="Asia/Tokyo").context.zone == "Asia/Tokyo"


def test_the_next_run_is_reckoned_in_the_zone_that_holds_then(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    host, agent = setup.room.host(session), setup.container(session)
    task = host.insert_task("x", recurrence="0 9 * * *", process_after=setup.clock.now)
    with setup.open() as elsewhere:  # another process sets it while this one serves
        elsewhere.set_zone("ann", "Europe/Madrid")
    agent.claim([task])
    agent.complete([task])
    setup.room.sweep()
    (run,) = setup.room.host(session).tasks()
    assert run.process_after == "2025-10-10T07:00:00.000Z"


def test_a_zone_that_nobody_knows_counts_as_none(setup: Setup) -> None:
    session = setup.room.new_session("ann", "test", "chat-1")
    with closing(sqlite3.connect(setup.root / "mailbox.db")) as index, index:
        index.execute("UPDATE agent_groups SET zone = 'Mars/Olympus'")
    setup.room.refresh(session)
    assert setup.room.host(session).context.zone == "UTC"


# ---------------------------------------------------------------------- processes

CHILD = """
import os, signal, sys
sys.stdout.write(os.environ["THREADKEEP_MAIL"])
sys.stdout.flush()
{extra}
open(os.path.join(os.environ["THREADKEEP_MAIL"], "ready"), "w").write(str(os.getpid()))
signal.pause()
"""


def start_child(runner: ProcessRunner, folder: Path) -> int:
    """Start a child and wait until it says that it is there; give its pid."""
    ready = folder / "ready"
    assert runner.start("s1", folder)
    watch = threading.Event()
    while not (ready.exists() and ready.read_text()):
        assert runner.is_running("s1")
        watch.wait(0.01)
    return int(ready.read_text())


@pytest.mark.parametrize("extra", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_a_process_is_started_once_and_ended_whatever_it_does(tmp_path: Path, extra: str) -> None:
    code = CHILD.format(extra=extra)
    with ProcessRunner([sys.executable, "-c", code]) as runner:
        pid = start_child(runner, tmp_path)
        assert runner.start("s1", tmp_path)
        assert runner.is_running("s1")
        runner.stop("s1", "enough")
        assert not runner.is_running("s1")
        assert not is_running(pid)
        runner.stop("s1", "again")


def test_a_process_that_ends_by_itself_is_not_running(tmp_path: Path) -> None:
    with ProcessRunner([sys.executable, "-c", CHILD.format(extra="")]) as runner:
        pid = start_child(runner, tmp_path)
        os.kill(pid, signal.SIGKILL)
        process = runner._processes["s1"]
        process.wait(60)
        assert not runner.is_running("s1")
        (tmp_path / "ready").unlink()
        assert start_child(runner, tmp_path) != pid


def test_closing_ends_all_processes(tmp_path: Path) -> None:
    runner = ProcessRunner([sys.executable, "-c", CHILD.format(extra="")])
    pid = start_child(runner, tmp_path)
    runner.close()
    assert not is_running(pid)


HOST = """
import sys, threading
from pathlib import Path
from threadkeep.mailbox.runner import ProcessRunner
runner = ProcessRunner([sys.executable, "-c", sys.argv[1]])
runner.start("s1", Path(sys.argv[2]))
threading.Event().wait()
"""


@pytest.mark.faults
def test_a_process_dies_with_its_host(tmp_path: Path) -> None:
    need_tool("setpriv")
    code = CHILD.format(extra="")
    host = subprocess.Popen([sys.executable, "-c", HOST, code, str(tmp_path)])
    ready, pause = tmp_path / "ready", threading.Event()
    while not (ready.exists() and ready.read_text()):
        assert host.poll() is None
        pause.wait(0.01)
    host.kill()
    host.wait(60)
    pid = int(ready.read_text())
    for _ in range(6000):
        if not is_running(pid):
            return
        pause.wait(0.01)
    pytest.fail(f"process {pid} outlives its host")


def test_a_program_that_is_not_there_does_not_start(tmp_path: Path) -> None:
    with ProcessRunner(["threadkeep-has-no-such-program"]) as runner:
        assert not runner.start("s1", tmp_path)
        assert not runner.is_running("s1")
    with pytest.raises(Invalid):
        ProcessRunner([])


# ---------------------------------------------------------------------- what platforms do


BROKEN = [
    {"name": "a.txt", "data": "aGk="},
    {"name": "a.txt", "data": "bm8="},
    {"name": "b.bin", "type": "file", "data": "not base64"},
]


def test_words_come_although_a_file_cannot_be_kept(setup: Setup) -> None:
    setup.room.new_session("helper", channel_type="test", platform_id="chat-1")
    (mail,) = setup.room.receive(
        "test", "chat-1", "look at this", message_id="7", attachments=BROKEN
    )
    assert mail.text == "look at this"
    kept, again, lost = mail.content["attachments"]
    assert kept["localPath"].endswith("/a.txt")
    assert ("localPath" in again) != ("error" in again)
    assert "base64" in lost.pop("error")
    assert lost == {"name": "b.bin", "type": "file"}
    assert setup.room.receive(
        "test", "chat-1", "look at this", message_id="7", attachments=BROKEN
    ) == [mail]


def test_words_come_although_the_inbox_is_a_link(setup: Setup, tmp_path: Path) -> None:
    session = setup.room.new_session("helper", channel_type="test", platform_id="chat-1")
    outside = tmp_path / "outside"
    outside.mkdir()
    setup.room.folder(session).inbox_path.symlink_to(outside)
    (mail,) = setup.room.receive("test", "chat-1", "look", attachments=BROKEN[:1])
    assert (mail.text, "error" in mail.content["attachments"][0]) == ("look", True)
    assert list(outside.iterdir()) == []


def heard(setup: Setup, session: MailboxSession) -> list[str]:
    container = setup.container(session)
    mails = container.poll(100)
    container.claim(mails)
    container.complete(mails)
    setup.room.host(session).sync()
    return [mail.text for mail in mails]


def test_a_platform_that_counts_from_the_start_again_is_heard(setup: Setup) -> None:
    session = setup.room.new_session("helper", channel_type="test", platform_id="chat-1")

    def say(text: str) -> None:
        for _ in range(2):  # every message is told twice
            setup.room.receive("test", "chat-1", text, message_id="1")

    say("hello")
    say("hello")
    assert heard(setup, session) == ["hello"]
    say("hello")
    assert heard(setup, session) == []
    for _ in range(3):
        setup.clock.pass_seconds(3600)
        say("hello")
        assert heard(setup, session) == ["hello"]
    say("other words")
    assert heard(setup, session) == ["other words"]
    with setup.room.folder(session).inbound.write() as tx:
        tx.run(Sql("DELETE FROM messages_in"))
    say("hello")
    assert heard(setup, session) == ["hello"]


def test_the_time_of_a_message_tells_it_from_a_later_one(setup: Setup) -> None:
    session = setup.room.new_session("helper", channel_type="test", platform_id="chat-1")

    def say(at: str) -> None:
        setup.room.receive("test", "chat-1", "ok", message_id="1", timestamp=at)

    say("2026-11-17T10:00:00Z")
    assert heard(setup, session) == ["ok"]
    setup.clock.pass_seconds(86_400)
    say("2026-11-17T10:00:00Z")  # the same one, told a day late
    assert heard(setup, session) == []
    say("2026-11-18T10:00:00Z")
    assert heard(setup, session) == ["ok"]

"""What went wrong for users of the same protocol elsewhere: one short test for each.

Each is impossible here or handled; most have longer tests beside what they are about.
"""

import threading
import time
from collections.abc import Iterator

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.contracts.mailbox.postal import Channel
from tests.support.mail import MailFactory
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox.adapters import NotNow, Outgoing, Refused
from threadkeep.mailbox.container.agent_loop import step
from threadkeep.mailbox.context import CatchUp, Policy
from threadkeep.mailbox.records import Mail

HOUR = 3600


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


class Runner:
    """Notes what a sweep asks for."""

    def __init__(self, *, running: bool) -> None:
        self.running = running
        self.said: list[str] = []

    def is_running(self) -> bool:
        return self.running

    def start(self) -> bool:
        self.said.append("start")
        self.running = True
        return True

    def stop(self, reason: str) -> None:
        self.said.append(reason)
        self.running = False


def drain(pair: Pair, channel: Channel) -> None:
    pair.host.drain({"telegram": channel})


# ---------------------------------------------------------------------- delivery


def test_words_said_by_a_tool_and_again_at_the_end_of_a_turn_are_sent_once(pair: Pair) -> None:
    def handler(mails: list[Mail]) -> str:
        pair.agent.send("done", in_reply_to=mails[-1].id)
        return "done"

    pair.host.send("do it")
    step(pair.agent, handler)
    assert [mail.text for mail in pair.host.outbox()] == ["done"]


def test_overlapping_drains_send_nothing_twice(pair: Pair) -> None:
    class Meanwhile(Channel):
        def send(self, mail: Outgoing) -> str | None:
            assert pair.box.new_host().drain({"telegram": self}).busy
            return super().send(mail)

    pair.agent.send("hello")
    channel = Meanwhile()
    drain(pair, channel)
    assert channel.texts == ["hello"]


def test_mail_without_a_channel_or_to_one_that_is_offline_is_not_called_delivered(
    pair: Pair,
) -> None:
    pair.agent.send("hello")
    assert pair.host.drain({}).deferred
    channel = Channel(*[NotNow("offline")] * 5)
    for _ in range(6):
        assert pair.sql("in", "SELECT * FROM delivered") == []
        pair.later(60)
        drain(pair, channel)
    assert channel.texts == ["hello"]


def test_a_delivery_that_failed_is_told_to_the_agent(pair: Pair) -> None:
    pair.agent.send("hello")
    drain(pair, Channel(Refused("the chat is closed")))
    (note,) = pair.notes()
    assert "hello" in note
    assert "the chat is closed" in note


def test_attempts_are_counted_across_restarts(pair: Pair) -> None:
    pair.agent.send("hello")
    for _ in range(3):
        host = pair.box.new_host(clock=lambda: pair.time[0])
        host.drain({"telegram": Channel(OSError("gone"))})
        pair.later(60)
    assert pair.value("in", "SELECT state FROM tk_delivery") == "failed"


def test_reactions_to_mail_of_a_channel_name_it_as_the_channel_does(pair: Pair) -> None:
    mail = pair.host.send("hello", id="77:ag-1")
    assert pair.agent.react(mail.seq or 0, "+1").content["messageId"] == "77"


# ---------------------------------------------------------------------- answers and polls


def test_what_failed_stays_failed(pair: Pair) -> None:
    mail = pair.host.send("hello")
    pair.claim()
    pair.agent.fail([mail], "no such file")
    pair.host.sync()
    pair.sql("in", "UPDATE messages_in SET status = 'completed' WHERE id = ?", mail.id)
    assert pair.status(mail.id) == "failed"
    assert pair.host.dead_letters()[0].reason == "no such file"


def test_an_id_that_a_platform_uses_twice_loses_no_mail(pair: Pair) -> None:
    first = pair.host.send("one", id="m-1")
    assert pair.host.send("one", id="m-1").id == first.id
    assert pair.host.send("two", id="m-1").id.startswith("m-1~")
    assert [mail.text for mail in pair.host.inbox()] == ["one", "two"]


def test_a_backlog_comes_oldest_first_and_goes_on_without_the_host(pair: Pair) -> None:
    for number in range(25):
        pair.host.send(str(number))
    seen: list[str] = []
    while mails := pair.agent.poll():
        pair.agent.complete(pair.agent.claim(mails))
        seen += [mail.text for mail in mails]
    assert seen == [str(number) for number in range(25)]


def test_mail_for_the_program_hides_no_chat(pair: Pair) -> None:
    for number in range(20):
        pair.host.answer(f"q-{number}", "yes")
    pair.host.send("hello")
    assert [mail.text for mail in pair.agent.poll()] == ["hello"]


# ---------------------------------------------------------------------- the two files


def test_writers_of_one_container_never_get_the_same_number(pair: Pair) -> None:
    def write(name: str) -> None:
        container = pair.box.new_container()
        for number in range(10):
            container.send(f"{name} {number}")

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    numbers = [mail.seq for mail in pair.host.outbox()]
    assert numbers == list(range(1, 60, 2))


def test_mail_of_a_tool_process_says_what_it_answers(pair: Pair) -> None:
    mail = pair.host.send("hello")
    assert pair.box.new_container().send("hi").in_reply_to == mail.id


def test_a_poll_never_reads_from_an_older_look(pair: Pair) -> None:
    other = pair.box.new_container()
    for number in range(3):
        pair.host.send(str(number))
        assert len(other.poll()) == number + 1


# ---------------------------------------------------------------------- containers


def test_what_an_earlier_container_left_does_not_end_the_next_one(pair: Pair) -> None:
    pair.host.send("hello")
    pair.beat()
    pair.claim()
    pair.later(HOUR)
    runner = Runner(running=False)
    pair.host.sweep(runner)
    pair.later(10)
    pair.host.sweep(runner)
    pair.host.sweep(runner)
    assert runner.said == ["start"]


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_a_fresh_claim_is_fresh_on_a_machine_far_from_greenwich(pair: Pair) -> None:
    pair.host.send("hello")
    pair.claim()
    pair.later(30)
    runner = Runner(running=True)
    assert pair.host.sweep(runner).stuck is None
    pair.later(31)
    assert pair.host.sweep(runner).stuck == "claim-stuck"


def test_a_second_container_is_refused_and_none_is_started_beside_a_stray_one(pair: Pair) -> None:
    pair.host.send("hello")
    runner = Runner(running=False)  # it knows nothing of the one that runs
    with pair.box.new_container() as stray:
        stray.start()
        with pytest.raises(Conflict):
            pair.box.new_container().start()
        pair.host.sweep(runner)
    assert runner.said == []


# ---------------------------------------------------------------------- times and series


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%d %H:%M:%S"])
def test_mail_is_due_in_either_form_of_time(pair: Pair, form: str) -> None:
    an_hour_ago = time.strftime(form, time.gmtime(pair.time[0] / 1000 - HOUR))
    mail = pair.host.send("hello")
    sent = pair.agent.send("hi")
    pair.sql("in", "UPDATE messages_in SET process_after = ? WHERE id = ?", an_hour_ago, mail.id)
    pair.sql("out", "UPDATE messages_out SET deliver_after = ?", an_hour_ago)
    assert [found.id for found in pair.agent.poll()] == [mail.id]
    assert pair.host.drain({"telegram": Channel()}).sent == (sent.id,)


def test_a_series_neither_dies_with_a_run_nor_forks(pair: Pair) -> None:
    task = pair.host.insert_task("report", recurrence="0 9 * * *", process_after=pair.time[0])
    pair.claim()
    pair.agent.fail([task], "no paper")
    for _ in range(3):
        pair.host.sweep()
    assert [(mail.status, bool(mail.recurrence)) for mail in pair.host.inbox(kind="task")] == [
        ("failed", False),
        ("pending", True),
    ]


def test_a_bad_cron_is_refused_and_one_of_another_host_is_told_once(pair: Pair) -> None:
    with pytest.raises(Invalid):
        pair.host.insert_task("report", recurrence="61 * * * *")
    task = pair.host.insert_task("report")
    change = "UPDATE messages_in SET recurrence = '61 * * * *', status = 'completed' WHERE id = ?"
    pair.sql("in", change, task.id)
    for _ in range(3):
        pair.host.sweep()
    assert len(pair.notes()) == 1


@pytest.mark.parametrize("catch_up, late", [("collapse", 1), ("all", 4), ("skip", 0)])
def test_what_happens_to_missed_runs_is_a_choice(
    factory: MailFactory, catch_up: CatchUp, late: int
) -> None:
    pair = Pair(factory, policy=Policy(catch_up=catch_up))
    pair.host.insert_task("report", recurrence="0 * * * *")
    pair.later(4 * HOUR)
    runs = 0
    for _ in range(10):
        pair.host.sweep()
        taken = pair.claim()
        runs += len(taken)
        pair.agent.complete(taken)
    assert runs == late


# ---------------------------------------------------------------------- files and rights


def test_a_word_of_the_host_needs_nothing_of_the_agents_file(pair: Pair) -> None:
    pair.host.note("denied")
    assert pair.host.outbox() == []

"""The loop of an agent, one turn at a time."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.contracts.mailbox.pair import CHAT, START, Pair
from tests.support.mail import MailFactory
from threadkeep.errors import Busy, Conflict
from threadkeep.mailbox.container.agent_loop import (
    CLEARED,
    Reply,
    is_command,
    next_turn,
    run_agent,
    step,
)
from threadkeep.mailbox.records import Destination, Mail, Place


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


class Agent:
    """Remembers the turns it was given, and answers as it was told to."""

    def __init__(self, reply: Reply | Callable[[list[Mail]], Reply] = None) -> None:
        self.turns: list[list[str]] = []
        self.reply = reply

    def __call__(self, mails: list[Mail]) -> Reply:
        self.turns.append([mail.text for mail in mails])
        return self.reply(mails) if callable(self.reply) else self.reply


def sent(pair: Pair) -> list[tuple[str, str | None]]:
    return [(mail.text, mail.in_reply_to) for mail in pair.host.outbox()]


# ------------------------------------------------------------------ turns


def test_a_turn_answers_and_completes(pair: Pair) -> None:
    mail = pair.host.send("hello")
    agent = Agent("hi")
    assert step(pair.agent, agent)
    assert agent.turns == [["hello"]]
    assert sent(pair) == [("hi", mail.id)]
    assert pair.host.sync().completed == (mail.id,)
    assert not step(pair.agent, agent)


def test_without_mail_there_is_no_turn_and_no_write(pair: Pair) -> None:
    before = pair.changes()
    assert not step(pair.agent, Agent())
    assert pair.changes() == before
    assert pair.heartbeat() is None


def test_mail_for_information_waits_for_mail_that_wants_an_answer(pair: Pair) -> None:
    pair.host.send("context", trigger=False)
    agent = Agent()
    assert not step(pair.agent, agent)
    pair.host.send("question")
    assert step(pair.agent, agent)
    assert agent.turns == [["context", "question"]]
    assert len(pair.host.sync().completed) == 2


def test_a_backlog_comes_oldest_first_batch_by_batch(pair: Pair) -> None:
    for number in range(25):
        pair.host.send(f"{number}")
    agent = Agent()
    while step(pair.agent, agent):
        pass
    assert [len(turn) for turn in agent.turns] == [10, 10, 5]
    assert [text for turn in agent.turns for text in turn] == [str(number) for number in range(25)]


def test_much_context_comes_whole_before_what_it_belongs_to(pair: Pair) -> None:
    for number in range(30):
        pair.host.send(f"{number}", trigger=False)
    pair.host.send("now")
    agent = Agent()
    step(pair.agent, agent)
    assert agent.turns == [[*(str(number) for number in range(30)), "now"]]


def test_system_rows_take_no_slot_and_start_no_turn(pair: Pair) -> None:
    for number in range(12):
        content = {"type": "cli_response", "requestId": f"r{number}", "frame": {}}
        pair.host.insert_message("system", content, trigger=True)
    agent = Agent()
    assert not step(pair.agent, agent)
    pair.host.send("hello")
    step(pair.agent, agent)
    assert agent.turns == [["hello"]]


def test_a_late_answer_to_a_question_starts_a_turn(pair: Pair) -> None:
    question = pair.agent.ask("Deploy?", ["yes", "no"])
    answer = pair.host.answer(question, "yes")
    assert step(pair.agent, lambda mails: f"deploying: {mails[0].content['selectedOption']}")
    assert sent(pair)[-1] == ("deploying: yes", answer.id)
    assert pair.host.sync().completed == (answer.id,)
    assert not step(pair.agent, Agent())


def test_mail_that_is_not_due_waits(pair: Pair) -> None:
    pair.host.insert_task("later", process_after=START + 60_000)
    agent = Agent()
    assert not step(pair.agent, agent)
    pair.later(60)
    assert step(pair.agent, agent)
    assert agent.turns == [["later"]]


def test_mail_that_comes_meanwhile_comes_with_the_next_turn(pair: Pair) -> None:
    pair.host.send("one")
    agent = Agent(lambda mails: pair.host.send("two").id and None)
    step(pair.agent, agent)
    assert agent.turns == [["one"]]
    agent.reply = None
    step(pair.agent, agent)
    assert agent.turns == [["one"], ["two"]]


# ------------------------------------------------------------------ answers


def test_an_answer_goes_to_where_the_mail_came_from(pair: Pair) -> None:
    elsewhere = Place("slack", "C7", "T1")
    pair.host.send("context", trigger=False)
    mail = pair.host.send("hello", place=elsewhere)
    step(pair.agent, Agent("hi"))
    (out,) = pair.host.outbox()
    assert (out.place, out.in_reply_to) == (elsewhere, mail.id)


def test_a_word_of_the_host_is_not_answered_to_oneself(pair: Pair) -> None:
    pair.host.note("wake up", trigger=True)
    step(pair.agent, Agent("I am up"))
    (out,) = pair.host.outbox()
    assert out.place == CHAT


def test_an_answer_that_was_said_already_is_sent_once(pair: Pair) -> None:
    pair.host.send("hello")

    def says_it_twice(mails: list[Mail]) -> str:
        pair.agent.send("hi")
        return "hi"

    step(pair.agent, says_it_twice)
    assert [text for text, _ in sent(pair)] == ["hi"]


def test_the_same_answer_to_two_who_ask_is_two_answers(pair: Pair) -> None:
    asked = [pair.host.send(f"may I, {name}?") for name in ("Ann", "Bob")]
    for mail in asked:
        pair.agent.claim([other.id for other in asked if other is not mail])
        step(pair.agent, Agent("yes"))
        pair.agent.release(asked)
    assert sent(pair) == [("yes", mail.id) for mail in asked]


def test_a_crash_after_the_answer_sends_it_no_second_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    class GoneError(BaseException):
        """The process ends here."""

    def die(*_: object) -> None:
        raise GoneError

    mail = pair.host.send("hello")
    with monkeypatch.context() as patch:
        patch.setattr(pair.agent, "complete", die)
        with pytest.raises(GoneError):
            step(pair.agent, Agent("hi"))
    pair.agent.start()
    pair.later(155)  # all pauses of the ladder
    step(pair.agent, Agent("hi"))
    assert sent(pair) == [("hi", mail.id)]
    assert pair.host.sync().completed == (mail.id,)


def test_answers_go_to_the_names_that_the_agent_chose(pair: Pair) -> None:
    pair.host.write_destinations([Destination("bob", None, "channel", "slack", "D1")])
    pair.host.send("tell bob")
    step(pair.agent, Agent([("bob", "hi bob")]))
    (out,) = pair.host.outbox()
    assert (out.text, out.place) == ("hi bob", Place("slack", "D1"))


def test_an_answer_to_nobody_fails_the_mail(pair: Pair) -> None:
    mail = pair.host.send("tell bob")
    step(pair.agent, Agent([("bob", "hi")]))
    assert pair.host.sync().failed == (mail.id,)
    assert "no destination 'bob'" in pair.host.dead_letters()[0].reason


def test_an_answer_of_which_one_name_is_unknown_is_not_sent_in_part(pair: Pair) -> None:
    pair.host.write_destinations([Destination("ann", None, "channel", "slack", "D1")])
    mail = pair.host.send("tell both")
    step(pair.agent, Agent([("ann", "hi"), ("bob", "hi")]))
    assert (sent(pair), pair.host.sync().failed) == ([], (mail.id,))


@pytest.mark.parametrize("reply", [5, b"hi", {"bob": "hi"}, ["hi"], [("bob",)], [("bob", 5)]])
def test_an_answer_of_the_wrong_type_fails_the_mail_and_not_the_agent(
    pair: Pair, reply: Any
) -> None:
    mail = pair.host.send("hello")
    assert step(pair.agent, Agent(reply))
    assert (sent(pair), pair.host.sync().failed) == ([], (mail.id,))
    assert "handler" in pair.host.dead_letters()[0].reason


@pytest.mark.parametrize("reply", [None, "", "  ", []])
def test_no_answer_is_an_answer(pair: Pair, reply: Reply) -> None:
    mail = pair.host.send("thanks")
    step(pair.agent, Agent(reply))
    assert sent(pair) == []
    assert pair.host.sync().completed == (mail.id,)


def test_an_exception_fails_the_mail_with_its_words_and_the_loop_goes_on(pair: Pair) -> None:
    first = pair.host.send("one")

    def fail(mails: list[Mail]) -> str:
        raise KeyError(mails[0].text)

    assert step(pair.agent, fail)
    assert pair.host.sync().failed == (first.id,)
    assert pair.host.dead_letters()[0].reason == "KeyError: 'one'"
    pair.host.send("two")
    agent = Agent()
    step(pair.agent, agent)
    assert agent.turns[0][-1] == "two"


# ------------------------------------------------------------------ forgetting


def test_clear_forgets_and_says_so(pair: Pair) -> None:
    pair.agent.set_state("continuation:claude", "abc")
    mail = pair.host.send(" /clear ")
    agent = Agent("never called")
    assert step(pair.agent, agent)
    assert agent.turns == []
    assert pair.agent.get_state("continuation:claude") is None
    assert sent(pair) == [(CLEARED, mail.id)]
    assert pair.host.sync().completed == (mail.id,)


def test_clear_happens_in_its_place(pair: Pair) -> None:
    pair.agent.set_state("continuation:claude", "abc")
    for text in ("before", "/clear", "after"):
        pair.host.send(text)
    seen: list[tuple[str, str | None]] = []

    def handler(mails: list[Mail]) -> None:
        seen.extend((mail.text, pair.agent.get_state("continuation:claude")) for mail in mails)

    while step(pair.agent, handler):
        pass
    assert seen == [("before", "abc"), ("after", None)]


def test_context_that_says_clear_is_not_obeyed(pair: Pair) -> None:
    pair.agent.set_state("continuation:claude", "abc")
    pair.host.send("/clear", trigger=False)
    pair.host.send("hello")
    agent = Agent()
    step(pair.agent, agent)
    assert agent.turns == [["/clear", "hello"]]
    assert pair.agent.get_state("continuation:claude") == "abc"


def test_a_late_answer_comes_before_a_command(pair: Pair) -> None:
    question = pair.agent.ask("Deploy?", ["yes"])
    pair.host.answer(question, "yes")
    pair.host.send("/clear")
    agent = Agent()
    assert step(pair.agent, agent)
    assert agent.turns == [[""]]
    assert step(pair.agent, agent)
    assert sent(pair)[-1][0] == CLEARED


# ------------------------------------------------------------------ the loop


def test_the_loop_runs_until_it_is_stopped(pair: Pair) -> None:
    stop = threading.Event()
    for number in range(12):
        pair.host.send(f"{number}")

    def handler(mails: list[Mail]) -> None:
        if mails[-1].text == "11":
            stop.set()

    pair.agent.run(handler, stop=stop, every=0)
    assert len(pair.host.sync().completed) == 12
    with pair.agent:
        pair.agent.start()  # the place is free again


def test_a_second_agent_is_refused(pair: Pair) -> None:
    pair.agent.start()
    with pytest.raises(Conflict, match="already working"):
        run_agent(pair.box.new_container(), Agent(), stop=threading.Event())


def test_a_stop_before_a_turn_gives_the_mail_back(pair: Pair) -> None:
    mail = pair.host.send("x")
    stop = threading.Event()
    stop.set()
    agent = Agent()
    assert not step(pair.agent, agent, stop)
    assert agent.turns == []
    assert pair.host.claims() == []
    assert pair.status(mail.id) == "pending"


class FewWaits(threading.Event):
    """Lets the loop wait so many times, then ends it; each wait may do something first."""

    def __init__(self, *actions: Callable[[], object]) -> None:
        super().__init__()
        self.actions = list(actions)

    def wait(self, timeout: float | None = None) -> bool:
        if timeout == 0:
            return self.is_set()
        if not self.actions:
            self.set()
            return True
        self.actions.pop(0)()
        return False


def test_mail_for_the_moment_of_waking_comes_with_the_first_poll_only(pair: Pair) -> None:
    agent = Agent()
    late = FewWaits(lambda: pair.host.send("restarted", on_wake=True))
    run_agent(pair.agent, agent, stop=late)
    assert agent.turns == []
    run_agent(pair.agent, agent, stop=FewWaits())
    assert agent.turns == [["restarted"]]


def test_a_locked_mailbox_only_delays(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = iter([Busy("locked")])
    real = pair.agent.system_mail

    def system_mail() -> list[Mail]:
        for error in polls:
            raise error
        return real()

    monkeypatch.setattr(pair.agent, "system_mail", system_mail)
    pair.host.send("x")
    agent = Agent()
    run_agent(pair.agent, agent, stop=FewWaits(lambda: None, lambda: None))
    assert agent.turns == [["x"]]


mails = st.builds(
    Mail,
    st.uuids().map(str),
    st.just(2),
    st.sampled_from(["chat", "task"]),
    st.just("t"),
    st.just("pending"),
    *[st.none()] * 3,
    st.just(0),
    st.booleans(),
    st.just(Place()),
    st.sampled_from(['{"text":"/clear"}', '{"text":"x"}']),
    st.none(),
    st.just(value=False),
)


@given(st.lists(mails, max_size=40), st.integers(1, 12))
def test_a_turn_is_the_oldest_mail_and_as_much_as_it_takes(waiting: list[Mail], batch: int) -> None:
    turn = next_turn(waiting, batch)
    assert turn == waiting[: len(turn)]
    assert bool(turn) == bool(waiting)
    commands = [mail for mail in turn if is_command(mail)]
    assert not commands or turn == commands
    if not any(is_command(mail) for mail in waiting):
        wanting = [number for number, mail in enumerate(waiting) if mail.trigger]
        most = wanting[0] // batch * batch + batch if wanting else len(waiting)
        assert len(turn) == min(most, len(waiting))

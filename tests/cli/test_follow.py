"""tail: the same events for programs and for people, live from another process."""

import signal

import pytest

from tests.cli.conftest import HOSTILE, Run, Start, answer, talk, text_reply, tool_reply
from threadkeep import ChatStore
from threadkeep.base import json
from threadkeep.cli.signals import stopped_by_signals


def test_tail_shows_what_was_asked_and_what_was_answered(run: Run, store: ChatStore) -> None:
    session = talk(store, reply="the first answer")
    store.say(session, "and then?")
    answer(store, session, tool_reply())
    lines = run("chat", "tail", session.id, "--until-idle").stdout
    order = ["a question", "the first answer", "and then?", "thinking: look first", "two files"]
    places = [lines.index(wanted) for wanted in order]
    assert places == sorted(places)
    assert all(lines.count(wanted) == 1 for wanted in order)


def test_tail_in_json_gives_one_event_a_line(run: Run, store: ChatStore) -> None:
    session = talk(store)
    (line,) = run("chat", "tail", session.id, "--until-idle", "--json").stdout.splitlines()
    event = json.decode(line)
    assert event["kind"] == "snapshot"
    assert event["data"]["parts"][-1]["text"] == "an answer"
    after = str(event["seq"])
    assert run("chat", "tail", session.id, "--until-idle", "--after", after).stdout == ""


def test_tail_after_a_number_does_not_repeat_the_questions(run: Run, store: ChatStore) -> None:
    session = talk(store)
    seen = max(event.seq for event in store.tail(session, follow=False))
    answer(store, session, text_reply("something new"))
    shown = run("chat", "tail", session.id, "--until-idle", "--after", str(seen)).stdout
    assert "something new" in shown
    assert "a question" not in shown


def test_tail_follows_a_recording_of_another_process(start: Start, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        follower = start("chat", "tail", session.id, "--until-idle", "--json")
        assert follower.stdout is not None
        assert json.decode(follower.stdout.readline())["data"] == {"type": "start"}
        for chunk in text_reply(HOSTILE)[1:]:
            recorder.feed(chunk)
            line = follower.stdout.readline()
            assert json.decode(line)["data"] == chunk
            assert not set(line.decode()) & {"\x1b", "\x07", "\u202e"}
    assert follower.wait() == 0
    assert follower.stdout.read() == b""


def test_a_person_sees_the_text_as_it_grows(start: Start, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    store.say(session, f"what? {HOSTILE}")
    with store.record(session) as recorder:
        recorder.feed({"type": "text-start", "id": "0"})
        recorder.feed({"type": "text-delta", "id": "0", "delta": "Hel"})
        follower = start("chat", "tail", session.id, "--until-idle")
        assert follower.stdout is not None
        shown = b""
        while not shown.endswith(b"  Hel"):
            shown += follower.stdout.read(1)
        recorder.feed({"type": "text-delta", "id": "0", "delta": "lo"})
        assert follower.stdout.read(2) == b"lo"
    assert follower.wait() == 0
    assert b"what? red" in shown
    assert not set(shown.decode()) & {"\x1b", "\x07", "\u202e"}


def test_ctrl_c_ends_a_tail_with_130(start: Start, store: ChatStore) -> None:
    session = talk(store)
    follower = start("chat", "tail", session.id, "--json")
    assert follower.stdout is not None
    follower.stdout.readline()  # it runs
    follower.send_signal(signal.SIGINT)
    assert follower.wait() == 130
    assert follower.stderr is not None
    assert follower.stderr.read() == b"interrupted\n"


def test_a_signal_ends_a_tail_as_ctrl_c_does(start: Start, store: ChatStore) -> None:
    session = talk(store)
    follower = start("chat", "tail", session.id, "--json")
    assert follower.stdout is not None
    follower.stdout.readline()  # it runs
    follower.send_signal(signal.SIGTERM)
    assert follower.wait() == 130


def test_a_tail_that_nobody_reads_ends_though_nothing_happens(
    start: Start, store: ChatStore
) -> None:
    session = talk(store)
    follower = start("chat", "tail", session.id, "--json")
    assert follower.stdout is not None
    assert follower.stderr is not None
    follower.stdout.readline()
    follower.stdout.close()
    assert follower.wait() == 0
    assert follower.stderr.read() == b""


def test_a_reply_that_ends_while_it_is_followed_is_shown_once(
    start: Start, store: ChatStore
) -> None:
    session = store.create_session(agent="build", model="p/m")
    with store.record(session) as recorder:
        recorder.feed({"type": "text-start", "id": "0"})
        follower = start("chat", "tail", session.id, "--until-idle", "--json")
        assert follower.stdout is not None
        follower.stdout.readline()
        recorder.feed({"type": "text-delta", "id": "0", "delta": "all"})
        recorder.feed({"type": "finish"})
    kinds = [json.decode(line)["kind"] for line in follower.stdout]
    assert kinds == ["chunk", "chunk"]
    assert follower.wait() == 0


def test_tail_of_a_folder_that_cannot_be_written(run: Run, store: ChatStore) -> None:
    session = talk(store)
    store.close()
    folder = store.path.parent
    folder.chmod(0o500)
    try:
        assert "an answer" in run("chat", "tail", session.id, "--until-idle").stdout
        assert session.id in run("chat", "search", "answer").stdout
    finally:
        folder.chmod(0o700)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_drops_is_heard_at_the_next_look() -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)  # whatever is raised here goes nowhere

    with stopped_by_signals() as goes_on:
        assert goes_on()
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            goes_on()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

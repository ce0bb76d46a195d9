"""fork, rewind and archive."""

import pytest

from tests.cli.conftest import Run, document, talk
from threadkeep import ChatStore


def test_fork_prints_the_id_of_the_branch(run: Run, store: ChatStore) -> None:
    session = talk(store)
    branch = run("chat", "fork", session.id).stdout.strip()
    assert store.session(branch).parent_id == session.id
    assert len(store.ui_messages(branch)) == 2


def test_fork_at_a_message(run: Run, store: ChatStore) -> None:
    session = talk(store)
    question = store.ui_messages(session)[0]["id"]
    for at in (question, question[:-2], "last"):
        words = ["--at", at, "--title", "another way", "--json"]
        branch = document(run("chat", "fork", session.id, *words))["session"]
        assert branch["title"] == "another way"
        assert branch["parent_message_id"] == question
        assert len(store.ui_messages(branch["id"])) == 1


def test_fork_while_somebody_records_is_refused(run: Run, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        assert "is running" in run("chat", "fork", session.id, code=1).stderr


def test_rewind_and_undo(run: Run, store: ChatStore) -> None:
    session = talk(store)
    question, reply = (message["id"] for message in store.ui_messages(session))
    rewound = run("chat", "rewind", session.id, question)
    assert rewound.stdout == f"{reply}\n"
    assert f"hid 1 message of {session.id}" in rewound.stderr
    assert len(store.ui_messages(session)) == 1
    told = document(run("chat", "rewind", session.id, "--undo", "--json"))
    assert told == {"schema_version": 1, "session_id": session.id, "shown": [reply]}
    told = document(run("chat", "rewind", session.id, "last", "--inclusive", "--json"))
    assert told["hidden"] == [question, reply]


@pytest.mark.parametrize(
    "words, code, said",
    [
        ([], 2, "Which message"),
        (["msg_x", "--undo"], 2, "not both"),
        (["msg_unknown"], 3, "msg_unknown"),
        (["msg_"], 2, "several messages"),
    ],
)
def test_rewind_says_what_it_needs(
    words: list[str], code: int, said: str, run: Run, store: ChatStore
) -> None:
    session = talk(store)
    assert said in run("chat", "rewind", session.id, *words, code=code).stderr


def test_a_hint_is_in_the_words_of_the_command(run: Run, store: ChatStore) -> None:
    session = talk(store)
    question = store.ui_messages(session)[0]["id"]
    run("chat", "rewind", session.id, question, "--inclusive")
    assert (
        "`threadkeep chat rewind --undo` shows"
        in run("chat", "rewind", session.id, question, code=2).stderr
    )


def test_rewind_to_a_reply_is_refused(run: Run, store: ChatStore) -> None:
    session = talk(store)
    reply = store.ui_messages(session)[1]["id"]
    assert "user message" in run("chat", "rewind", session.id, reply, code=2).stderr


def test_archive_and_undo(run: Run, store: ChatStore) -> None:
    first, second = talk(store), talk(store)
    assert run("chat", "archive", first.id, second.id).stdout == f"{first.id}\n{second.id}\n"
    assert store.sessions().items == []
    told = document(run("chat", "archive", first.id, "--undo", "--json"))
    assert told["sessions"][0]["archived_at"] is None


@pytest.mark.parametrize("words", [["fork", "x"], ["rewind", "x", "y"], ["archive", "x"]])
def test_nothing_is_begun_where_nothing_is(words: list[str], run: Run) -> None:
    assert "there is no chat store" in run("chat", *words, code=3).stderr

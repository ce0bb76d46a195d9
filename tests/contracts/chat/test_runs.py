"""Runs: who ran, with which model, tools and prompt, and why it ended; prompts by digest."""

import hashlib

import pytest

from tests.support.chats import MODEL, Factory, new_session, record, text_chunks
from tests.support.ids import is_id
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import NotFound
from threadkeep.testing import NOON, ManualClock


def test_run_says_who_what_and_why_it_ended(store: ChatStore, session: Session) -> None:
    answer = record(
        store,
        session,
        text_chunks("a"),
        agent="builder",
        model={**MODEL, "variant": "high", "temperature": 0.2},
        tools=[{"name": "bash"}, "search"],
        system_prompt="Be brief.",
    )
    (run,) = store.runs(session)
    assert is_id(run.id, "run")
    assert (run.session_id, run.message_id, run.agent) == (session.id, answer, "builder")
    assert run.model == {**MODEL, "variant": "high", "temperature": 0.2}
    assert run.tools == [{"name": "bash"}, "search"]
    assert run.system_prompt_digest is not None
    assert store.system_prompt(run.system_prompt_digest) == "Be brief."
    assert (run.end_reason, run.finish_reason, run.error_text) == ("finish", "stop", None)
    assert run.ended_at is not None
    assert NOON < run.started_at < run.ended_at


def test_run_without_particulars_has_those_of_the_session(
    store: ChatStore, session: Session
) -> None:
    record(store, session, text_chunks("a"))
    (run,) = store.runs(session)
    assert (run.agent, run.model) == ("coder", MODEL)
    assert (run.tools, run.verdicts, run.system_prompt_digest) == ([], [], None)


def test_run_is_there_while_it_runs(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        (run,) = store.runs(session)
        assert run.id == recorder.run_id
        assert run.ended_at is None
        assert run.end_reason is None
        assert run.message_id == recorder.message_id


def test_runs_come_oldest_first_and_only_those_of_the_session(
    store: ChatStore, session: Session
) -> None:
    other = new_session(store)
    record(store, other, text_chunks("elsewhere"))
    answers = [record(store, session, text_chunks(text)) for text in ("a", "b", "c")]
    assert [run.message_id for run in store.runs(session)] == answers
    with pytest.raises(NotFound, match="nope"):
        store.runs("nope")


def test_order_of_runs_and_their_usage_hold_when_the_clock_goes_back(
    store: ChatStore, session: Session, clock: ManualClock
) -> None:
    answer = record(store, session, text_chunks("a"))
    first = store.runs(session)[0].id
    clock.now -= 10_000
    record(store, session, text_chunks("b"), message_id=answer)
    store.record_usage(session, {"input": 5}, message=answer)
    earlier, later = store.runs(session)
    assert earlier.id == first
    assert later.started_at < earlier.started_at
    assert (earlier.usage, later.usage["input"]) == ({}, 5)


def test_reply_names_the_prompt_it_was_made_with(store: ChatStore, session: Session) -> None:
    answer = record(store, session, text_chunks("a"), system_prompt="Be brief.")
    digest = hashlib.sha256(b"Be brief.").hexdigest()
    assert store.message(session, answer)["metadata"]["system_prompt_digest"] == digest
    assert store.runs(session)[0].system_prompt_digest == digest


@pytest.mark.parametrize("body", ["", "Be brief.", "naïve 🚀", "nul \0 in it", "half \ud800 pair"])
def test_prompt_is_stored_once_under_its_digest(
    store: ChatStore, body: str, factory: Factory
) -> None:
    digest = store.put_system_prompt(body)
    assert digest == hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    assert store.put_system_prompt(body) == digest
    assert store.system_prompt(digest) == body
    assert len(factory.rows(store, "SELECT digest FROM system_prompts")) == 1


def test_prompt_outlives_its_sessions(store: ChatStore, session: Session) -> None:
    digest = store.put_system_prompt("Be brief.")
    store.delete(session)
    assert store.system_prompt(digest) == "Be brief."


def test_unknown_prompt_is_refused(store: ChatStore) -> None:
    with pytest.raises(NotFound, match="abc") as caught:
        store.system_prompt("abc")
    assert caught.value.hint

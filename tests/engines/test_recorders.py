"""Who is at work, as others see it: somebody on another machine is left alone while he lives."""

import multiprocessing
import os
import signal
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any

import pytest

from threadkeep.base import processes
from threadkeep.base.engines import server_of
from threadkeep.base.postgres import tx as server_tx
from threadkeep.chat import message_writer, recorder as recorders, save_policy
from threadkeep.chat.store import ChatStore
from threadkeep.errors import StorageFull, Unreachable
from threadkeep.state.session_db import SessionDB


def record_elsewhere(url: str, talk: Connection) -> None:
    """Record in a process that has the marks of another machine, and never end."""
    processes._boot = lambda: "another-machine"  # type: ignore[assignment]
    with closing(ChatStore.open(url)) as store:
        session = store.create_session(agent="a", model="m")
        recorder = store.record(session, "m")
        recorder.feed({"type": "start"})
        recorder.feed({"type": "text-start", "id": "t"})
        talk.send(session.id)
        for word in iter(talk.recv, None):
            recorder.feed({"type": "text-delta", "id": "t", "delta": word})
            talk.send(recorder.run_id)


def test_a_recorder_elsewhere_is_left_alone_while_it_lives(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_tx, "_GRACE", 0.0)  # the server of the tests may be young
    url = f"{server_url}&home=elsewhere"
    ChatStore.open(url).close()
    talk, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=record_elsewhere, args=(url, other)
    )
    process.start()
    try:
        session = talk.recv()
        with closing(ChatStore.open(url)) as store:  # which closes what the dead left behind
            assert [one["message_id"] for one in store.facts().live_recordings] == ["m"]
            talk.send("still ")
            run = talk.recv()
            talk.send("here")
            assert talk.recv() == run, "it was not closed in between"
            assert store.runs(session)[0].end_reason is None
            mark = f"{process.pid}:"
            with store.context.db.read() as tx:
                (row,) = tx.all("all_recordings")
            assert row[3].startswith(mark)
            os.kill(process.pid or 0, signal.SIGKILL)
            server = server_of(store.context.db)
            with closing(server.connect()) as connection:  # waits until the server knows
                connection.execute("SELECT pg_advisory_lock(%s)", (server.lock_of(row[3]),))
        with closing(ChatStore.open(url)) as store:
            assert store.facts().live_recordings == []
            assert store.message(session, "m")["parts"][-1]["text"] == "still here"
            assert store.runs(session)[0].end_reason == "crash"
    finally:
        process.kill()
        process.join()


def test_a_turn_of_another_machine_is_not_taken_by_the_number_of_its_process(
    server_url: str,
) -> None:
    theirs = f"pid={(1 << 22) + 7}:turn"  # no process here, and one there
    with closing(SessionDB(f"{server_url}&home=turns")) as db:
        db.create_session("s", "cli")
        assert db.try_acquire_session_turn_lease("s", theirs, ttl_seconds=300)
        assert not db.try_acquire_session_turn_lease("s", "pid=1:other", ttl_seconds=300)
        assert db.has_live_session_turn_lease("s")


_REFUSAL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON tk_recordings
  FOR EACH ROW EXECUTE FUNCTION refuse();"""


def test_a_chunk_that_the_server_refused_may_be_fed_again(server_url: str) -> None:
    # The row of the recording is written last, after the recorder's own part of the transaction.
    with closing(ChatStore.open(f"{server_url}&home=refusing")) as store:
        session = store.create_session(agent="a", model="m")
        with store.record(session, "m") as recorder:
            recorder.feed({"type": "start"})
            with closing(server_of(store.context.db).connect()) as connection:
                connection.execute(_REFUSAL)
                with pytest.raises(StorageFull):
                    recorder.feed({"type": "text-start", "id": "t"})
                connection.execute("DROP TRIGGER refused ON tk_recordings")
            recorder.feed({"type": "text-start", "id": "t"})
            recorder.feed({"type": "text-delta", "id": "t", "delta": "once"})
        parts = store.message(session, "m")["parts"]
        assert [one["text"] for one in parts] == ["once"]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made durable, and no row is written, because time has passed."""
    for module, limit in (
        (save_policy, "_DURABLE_SECONDS"),
        (save_policy, "_BEHIND_SECONDS"),
        (message_writer, "_FOLD_SECONDS"),
    ):
        monkeypatch.setattr(module, limit, 1e9)


@pytest.mark.usefixtures("unhurried")
def test_what_a_crash_took_back_is_kept_until_it_can_be_sent_again(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "word " * 20
    read_again, failures = message_writer.begin_again, [Unreachable("gone", hint="")]

    def begin_again(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return read_again(*given)

    with closing(ChatStore.open(f"{server_url}&home=taken_back")) as store:
        session = store.create_session(agent="a", model="m")
        with (
            closing(server_of(store.context.db).connect()) as connection,
            store.record(session, "m") as recorder,
        ):
            recorder.feed({"type": "start"})
            recorder.feed({"type": "text-start", "id": "t"})
            for word in (long, "a ", "b "):  # of which the row of the part has the first
                recorder.feed({"type": "text-delta", "id": "t", "delta": word})
            connection.execute(_REFUSAL)
            with pytest.raises(StorageFull):
                recorder.feed({"type": "text-start", "id": "u"})
            connection.execute("DROP TRIGGER refused ON tk_recordings")
            # What a crash leaves: the last commits that no disk had are as if they never were.
            connection.execute("UPDATE tk_streams SET seq = seq - 2")
            connection.execute(
                "DELETE FROM chat_events AS e USING tk_streams AS s"
                " WHERE s.stream_id = e.stream_id AND e.seq > s.seq"
            )
            monkeypatch.setattr(recorders, "begin_again", begin_again)
            failures *= 2  # `insist` asks twice
            with pytest.raises(Unreachable):
                recorder.feed({"type": "text-delta", "id": "t", "delta": "c"})
            recorder.feed({"type": "text-delta", "id": "t", "delta": "c"})
        assert store.message(session, "m")["parts"][-1]["text"] == f"{long}a b c"


@pytest.mark.usefixtures("unhurried")
def test_a_crash_may_take_back_the_message_after_a_refusal(server_url: str) -> None:
    with closing(ChatStore.open(f"{server_url}&home=all_taken_back")) as store:
        session = store.create_session(agent="a", model="m")
        with (
            closing(server_of(store.context.db).connect()) as connection,
            store.record(session, "m") as recorder,
        ):
            recorder.feed({"type": "start"})
            recorder.feed({"type": "text-start", "id": "t"})
            connection.execute(_REFUSAL)
            with pytest.raises(StorageFull):
                recorder.feed({"type": "text-start", "id": "u"})
            connection.execute("DROP TRIGGER refused ON tk_recordings")
            recorder.feed({"type": "text-delta", "id": "t", "delta": "a "})
            for table in ("tk_recordings", "chat_events", "tk_streams", "chat_messages"):
                connection.execute(f"DELETE FROM {table}".encode())
            recorder.feed({"type": "text-delta", "id": "t", "delta": "b"})
        assert store.message(session, "m")["parts"][-1]["text"] == "a b"

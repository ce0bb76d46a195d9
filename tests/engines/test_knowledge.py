"""Knowledge on a server: the same answers as in a file, and many hosts that write at once."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import knowledge_tour
from threadkeep.base.match import Phrase
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import drop
from threadkeep.base.tx import Sql
from threadkeep.chat.messages import say
from threadkeep.errors import NoStore, ReadOnly, UnsupportedEngine
from threadkeep.home.home import Home
from threadkeep.knowledge.checks import tidy
from threadkeep.knowledge.queues import claim
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.store import KnowledgeStore

# What differs from run to run, on one engine too: random names and times of now.
_OF_THE_RUN: Final = frozenset(
    {"uuid", "first_seen", "last_seen", "created_at", "updated_at", "age_ms"}
    | {"first_seen_at", "last_seen_at"}
)
_WORKERS: Final = 8
_TICKETS: Final = 1_000


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """Return the URL of a home in which nothing is."""
    place = f"{server_url}&home=k"
    database = PostgresDatabase(place, "knowledge", {})
    with database, database.connect() as connection:
        drop(connection, "k")
        yield place
        drop(connection, "k")


@pytest.fixture
def shared(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home on a server; what belongs to this machine is in a folder of the test."""
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "there"))
    return Home(url)


# ---------------------------------------------------------------------- the same answers


@pytest.mark.slow
def test_a_home_on_a_server_gives_the_same_answers(shared: Home, tmp_path: Path) -> None:
    here = knowledge_tour.new_home(tmp_path / "here")
    assert knowledge_tour.fill(here) == knowledge_tour.fill(shared)
    for _ in range(2):  # the second time with nothing in it
        told, same = answers(here), answers(shared)
        assert told.keys() == same.keys()
        for name, answer in told.items():
            assert same[name] == answer, name
        assert list(knowledge_tour.forget(shared)) == list(knowledge_tour.forget(here))


def answers(home: Home) -> dict[str, Any]:
    """Return all answers, without what differs from run to run."""
    found = dict(knowledge_tour.answers(home))
    del found["context"]  # is fenced by a random number
    numbers = {one["id"] for one in found["graph"]["entities"]}
    ranks = {number: rank for rank, number in enumerate(sorted(numbers))}
    for part, fields in (("entities", ("id",)), ("edges", ("a", "b"))):
        for one in found["graph"][part]:
            one.update((field, ranks[one[field]]) for field in fields)
    for one in found["entities"]:
        one["id"] = ranks[one["id"]]
    return {name: _lasting(answer) for name, answer in found.items()}


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _lasting(v) for k, v in value.items() if k not in _OF_THE_RUN}
    return [_lasting(one) for one in value] if isinstance(value, (list, tuple)) else value


# ---------------------------------------------------------------------- several writers


def test_no_ticket_is_given_twice(url: str) -> None:
    with KnowledgeStore.open(url) as store:
        with store.write() as tx:
            tx.run(Sql(_SHELL), {"now": 0})
            numbers = [{"id": number, "session": 1 + number % 7} for number in range(1, _TICKETS)]
            tx.run_bulk(Sql(_EVENT), numbers)
            tx.run_bulk(Sql(_TICKET), numbers)
        taken: list[list[int]] = [[] for _ in range(_WORKERS)]

        def work(number: int) -> None:
            while found := _claimed(store, f"worker-{number}"):
                taken[number] += found

        in_parallel(work, _WORKERS)
    everything = [ticket for one in taken for ticket in one]
    assert sorted(everything) == list(range(1, _TICKETS))


def _claimed(store: KnowledgeStore, worker: str) -> list[int]:
    with store.write(key="tickets:shell", durable=False) as tx:
        found = claim(tx, "shell", worker=worker, now=10_000_000, limit=10)
    return [ticket.target for ticket in found]


_SHELL: Final = """
INSERT INTO sessions (id, start_time, shell, hostname, username)
SELECT value, :now, 'zsh', 'here', 'somebody' FROM generate_series(1, 7) AS value"""
_EVENT: Final = """
INSERT INTO events (id, session_id, timestamp, command, duration_ms, cwd, hostname, shell)
VALUES (:id, :session, :id, 'make', 1, '/', 'here', 'zsh')"""
_TICKET: Final = "INSERT INTO enrichment_queue (event_id) VALUES (:id)"


def test_several_hosts_capture_at_once_and_nothing_is_lost(url: str, tmp_path: Path) -> None:
    def capture(number: int) -> None:
        environ = {"HOME": str(tmp_path), "THREADKEEP_HOME": str(tmp_path / f"host-{number}")}
        user = tmp_path / f"user-{number}"
        logs = user / ".claude" / "projects" / "-work"
        logs.mkdir(parents=True)
        for session in range(3):
            name = f"{number}{session}000000-0000-4000-8000-000000000000"
            (logs / f"{name}.jsonl").write_text(log_of(name))
        with Home(url, environ=environ).history(user_home=user) as history:
            history.capture()

    KnowledgeStore.open(url).close()
    in_parallel(capture, 4)
    with KnowledgeStore.open(url, read_only=True) as store:
        found = {session.session_id: session.entries for session in store.sessions()}
        with store.read() as tx:
            words = tx.value(Sql("SELECT sum(rows) FROM tk_entry_words_blocks"))
    assert len(found) == 4 * 3
    assert set(found.values()) == {_LINES}
    assert words == 4 * 3 * _LINES


_LINES: Final = 6


def log_of(session: str) -> str:
    """Return a log of Claude Code with one prompt a line."""
    lines = (
        {
            "type": "user",
            "uuid": f"{session[:8]}-{number}",
            "sessionId": session,
            "cwd": "/work",
            "timestamp": f"2026-03-01T10:00:0{number}Z",
            "message": {"role": "user", "content": f"question {number} of {session[:2]}"},
        }
        for number in range(_LINES)
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def in_parallel(work: Callable[[int], None], count: int) -> None:
    """Run a function in so many threads; what one of them raises is raised."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result()


# ---------------------------------------------------------------------- a place


def test_upkeep_merges_the_blocks_that_writers_leave(url: str) -> None:
    with KnowledgeStore.open(url) as store:
        for begin in range(0, 8 * 512, 512):
            with store.context.db.write(key="capture") as tx:
                ENTRY_WORDS.put(tx, ((begin + n, "harbor") for n in range(512)))
        blocks = Sql("SELECT count(*) FROM tk_entry_words_blocks")
        with store.read() as tx:
            assert tx.value(blocks) == 8
        tidy(store.context.db)
        with store.read() as tx:
            assert tx.value(blocks) == 1
            assert ENTRY_WORDS.ids(tx, Phrase(("harbor",)), limit=3) == [4095, 4094, 4093]
            assert ENTRY_WORDS.frequency(tx, Phrase(("harbors",)), 5000) == (4096, 4095)


def test_who_only_looks_changes_nothing(url: str) -> None:
    with pytest.raises(NoStore):
        KnowledgeStore.open(url, read_only=True)
    KnowledgeStore.open(url).close()
    with KnowledgeStore.open(url, read_only=True) as store:
        assert store.sessions() == []
        with pytest.raises(ReadOnly):
            store.queues.reap(0)


def test_what_needs_a_file_says_so(shared: Home) -> None:
    with pytest.raises(UnsupportedEngine, match="the knowledge store is on a server"):
        shared.knowledge_path()
    with shared.knowledge() as store, pytest.raises(UnsupportedEngine):
        store.backup()


# ---------------------------------------------------------------------- its own conversations


def converse(home: Home) -> tuple[str, str]:
    """Say something in the home's own chat and state stores; what is odd about it is kept, too."""
    with home.chat() as chat:
        session = chat.create_session(agent="a", model="m", session_id="talk").id
        chat.say(session, "where is the pelican \0 \ud83d 京都")
        with chat.record(session, "reply") as recorder:
            for chunk in (
                {"type": "start"},
                {"type": "text-start", "id": "t"},
                {"type": "text-delta", "id": "t", "delta": "in the harbour"},
                {"type": "text-end", "id": "t"},
                {"type": "finish"},
            ):
                recorder.feed(chunk)
    with home.state() as state:
        state.create_session("turn", "cli")
        state.append_message("turn", "user", "the heron?")
        state.append_message("turn", "assistant", "at the pond")
    return session, "turn"


def captured(home: Home, user: Path) -> tuple[int, dict[str, list[tuple[str, str, str]]]]:
    with home.history(user_home=user) as history:
        report = history.capture()
        lines = sum(one.lines for one in report.agents.values())
        return lines, {
            one.session_id: [
                (it.entry.role, it.entry.kind, it.entry.text) for it in history.transcript(one)
            ]
            for one in history.sessions(everything=True)
        }


def test_its_own_conversations_are_captured_from_a_server_as_from_files(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "there"))
    (user := tmp_path / "user").mkdir()
    # Without counts a commit is seen at once; with them within seconds.
    there, here = Home(f"{url}&options=-c%20track_counts%3Doff"), Home(tmp_path / "here")
    converse(there)
    converse(here)
    _, told = captured(there, user)
    assert told == captured(here, user)[1]
    assert ("assistant", "text", "in the harbour") in told["talk"]
    assert len(told["turn"]) == 2
    assert captured(there, user)[0] == 0, "nothing is read twice"
    assert captured(Home(url), user)[0] == 0, "whatever the way to the server"

    with there.chat() as chat, there.chat() as other:
        late = chat.create_session(agent="a", model="m", session_id="late")
        with chat.context.db.write(key=late.id) as tx:
            say(chat.context, tx, late.id, "committed late")
            other.say("talk", "committed before it")
            assert ("user", "prompt", "committed before it") in captured(there, user)[1]["talk"]
    assert ("user", "prompt", "committed late") in captured(there, user)[1]["late"]

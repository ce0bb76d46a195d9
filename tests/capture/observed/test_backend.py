"""The socket in front of a real store: what is said over it is stored, and read back."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from threadkeep import Home
from threadkeep.base.tx import Sql
from threadkeep.capture.observed.backend import StoreBackend
from threadkeep.capture.observed.client import CollectorClient
from threadkeep.capture.observed.envelopes import write_envelope
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.protocol import (
    Ack,
    CollectorStatus,
    Entities,
    Events,
    GetEntities,
    GetEvents,
    GetSessions,
    GetStatus,
    QueryResult,
    RawQuery,
    RegisterWatchSha,
    Request,
    Sessions,
    Shutdown,
    UpdateSourceHealthHeartbeat,
)
from threadkeep.capture.observed.server import CollectorServer
from threadkeep.errors import Conflict, SchemaMismatch, StorageFull
from threadkeep.home.home import socket_path
from threadkeep.knowledge.records import Command, Heartbeat, Visit, Watch
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.service.parts import keeping, schema_to_be, shake_hands

SESSION = "22222222-2222-4222-8222-222222222222"
NOW = 1_800_000_000_000
LS = Command(
    *("11111111-0000-4000-8000-000000000001", SESSION, NOW, "ls -la", "/u/app"),
    exit_code=0,
    shell="zsh",
    hostname="vm",
)
AWS = "AKIA" + "Q3EGWTZ5XLN7RBVD"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "h")


@pytest.fixture
def observations(home: Home) -> Iterator[Observations]:
    with home.observations() as observations:
        yield observations


@pytest.fixture
def client(home: Home, observations: Observations) -> Iterator[CollectorClient]:
    server = CollectorServer(socket_path(home), StoreBackend(observations, "9.9"))
    server.start()
    with CollectorClient(server.path, timeout=10) as client:
        yield client
    server.stop()


def rows(client: CollectorClient, request: Request) -> list[Any]:
    answer = client.ask(request)
    assert isinstance(answer, Sessions | Events | Entities | QueryResult), answer
    return list(answer.rows)


def status(client: CollectorClient) -> CollectorStatus:
    answer = client.ask(GetStatus())
    assert isinstance(answer, CollectorStatus), answer
    return answer


def change(thing: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(thing, **fields)


def test_what_is_ingested_is_listed(client: CollectorClient) -> None:
    client.send(change(LS, env={"LANG": "C"}))
    client.send(change(LS, envelope_id="11111111-0000-4000-8000-000000000002", command="make"))
    (session,) = rows(client, GetSessions(limit=10))
    assert (session.hostname, session.shell, session.event_count) == ("vm", "zsh", 2)
    events = rows(client, GetEvents(project="app"))
    assert sorted(event.command for event in events) == ["ls -la", "make"]
    assert rows(client, GetEvents(project="other")) == []
    (hit,) = rows(client, RawQuery("mak"))
    assert (hit.command, hit.relevance) == ("make", "keyword")
    assert rows(client, GetEntities()) == []


def test_a_session_is_of_the_user_who_listens_where_nobody_says_whose_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ann")
    with home.observations() as observations:
        StoreBackend(observations, "1").store([LS])
        assert [session.username for session in observations.store.list_shell_sessions()] == ["ann"]


def test_status_tells_version_and_size(client: CollectorClient) -> None:
    found = status(client)
    assert found.version == "9.9"
    assert found.db_size_bytes > 0
    assert not found.brain_reachable


def test_probes_are_counted_nowhere(client: CollectorClient, observations: Observations) -> None:
    client.send(change(LS, probe_tag="3f6b0000-0000-4000-8000-000000000001"))
    assert rows(client, GetEvents()) == rows(client, GetSessions()) == []
    assert (status(client).events_today, status(client).queue_depth) == (0, 0)
    with observations.store.context.db.read() as tx:
        assert tx.one(Sql("SELECT count(*) FROM events")) == (1,)


def test_secrets_are_masked_and_what_is_excluded_stays_out(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "config.toml").write_text(
        '[capture]\nexclude = ["/u/private"]\n[browser]\nexclude = ["bank.example"]\n'
    )
    home = Home(folder)
    with home.observations() as observations:
        backend = StoreBackend(observations, "1")
        page = Visit("v1", NOW, "https://docs.rs/x?token=abc&q=1", "docs.rs", f"t {AWS}", 5000)
        backend.store(
            [
                change(LS, command=f"export K={AWS}"),
                change(LS, envelope_id="e2", cwd="/u/private/x"),
                page,
                change(page, envelope_id="v2", url="https://a.bank.example/", domain="x.org"),
            ]
        )
        (event,) = observations.events()
        assert AWS not in event.command
        (visit,) = observations.visits()
        assert (visit.url, AWS in (visit.title or "")) == ("https://docs.rs/x?q=1", False)
        assert {(d.source, d.reason, d.count) for d in observations.drops()} == {
            ("shell", "excluded", 1),
            ("browser", "excluded", 1),
        }


@pytest.mark.parametrize(
    "settings, kept",
    [("", ["docs.rs"]), ("enabled = false", []), ('domains = ["x.org"]', ["x.org"])],
)
def test_the_choice_of_sites_holds_for_everybody_who_reports(
    tmp_path: Path, settings: str, kept: list[str]
) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "config.toml").write_text(f"[browser]\n{settings}\n")
    with Home(folder).observations() as observations:
        pages = [Visit(f"v-{d}", NOW, f"https://{d}/", d, dwell_ms=9) for d in ("docs.rs", "x.org")]
        StoreBackend(observations, "1").store(pages)
        assert [visit.domain for visit in observations.visits()] == kept


def test_what_hippo_left_by_its_socket_is_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[socket]\npath = "{tmp_path}/hippo/daemon.sock"\n')
    fallback = tmp_path / "hippo" / "fallback"
    fallback.mkdir(parents=True)
    (fallback / "2026-11-16.jsonl").write_bytes(write_envelope(LS) + b"\n")
    with Home(folder).observations() as observations:
        assert StoreBackend(observations, "1").status().fallback_files_pending == 1
        assert observations.collect().new == 1
        assert StoreBackend(observations, "1").status().fallback_files_pending == 0
    assert [path.name for path in fallback.iterdir()] == ["2026-11-16.jsonl.done"]


def test_an_import_brings_what_hippo_had_not_delivered_and_leaves_its_files(
    home: Home, tmp_path: Path
) -> None:
    theirs = tmp_path / "hippo"
    (theirs / "fallback").mkdir(parents=True)
    KnowledgeStore.open(theirs / "hippo.db").close()
    file = theirs / "fallback" / "2026-11-16.jsonl"
    file.write_bytes(write_envelope(LS) + b"\n")
    for _ in range(2):
        done = home.adopt("hippo", theirs / "hippo.db")
    assert any("not delivered" in note for note in done.notes)
    assert file.read_bytes() == write_envelope(LS) + b"\n"
    with home.observations() as observations:
        assert [event.command for event in observations.events()] == ["ls -la"]


def test_a_keeper_that_cannot_store_at_the_end_says_so_and_loses_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def full(_: Observations) -> None:
        raise StorageFull("the disk is full", hint="make room")

    with home.observations() as observations:
        with monkeypatch.context() as patch:
            patch.setattr(Observations, "collect", full)
            with keeping(home, observations, threading.Event(), said.append, version="1"):
                home.reporter().report(LS)
        assert "could not collect: the disk is full" in said
        assert observations.collect().new == 1


def test_long_commands_are_cut_in_answers_so_that_fifty_of_them_fit(
    client: CollectorClient,
) -> None:
    for number in range(50):
        envelope = f"11111111-0000-4000-8000-{number:012}"
        client.send(change(LS, envelope_id=envelope, command="x" * 300_000))
    events = rows(client, GetEvents())
    assert len(events) == 50
    assert all(len(event.command) < 70_000 for event in events)


def test_watches_and_heartbeats_are_noted(client: CollectorClient, home: Home) -> None:
    assert client.ask(RegisterWatchSha("abcdef1234", "o/r", 60)) == Ack()
    assert client.ask(UpdateSourceHealthHeartbeat("browser", 1_700_000_000_000)) == Ack()
    with pytest.raises(Conflict, match="'x'"):
        client.ask(UpdateSourceHealthHeartbeat("x", NOW))
    with home.ci() as ci:
        assert [(w.sha, w.repo) for w in ci.watched()] == [("abcdef1234", "o/r")]
    with home.observations() as observations:
        health = {h.source: h.last_heartbeat_ts for h in observations.health()}
        assert health["browser"] == 1_700_000_000_000


def test_a_heartbeat_tells_what_is_wrong_and_takes_it_back(
    client: CollectorClient, home: Home
) -> None:
    def error() -> tuple[str | None, bool]:
        with home.observations() as observations:
            (one,) = (h for h in observations.health() if h.source == "browser")
            return one.last_error_msg, one.last_error_ts is None

    secret = "AKIA" + "Z7QK5N2WXL4VB3HT"
    said = f"no native host, aws_access_key_id={secret} " + "x" * 600
    assert client.ask(UpdateSourceHealthHeartbeat("browser", NOW, said)) == Ack()
    message, is_clear = error()
    assert message is not None
    assert message.startswith("no native host")
    assert len(message) <= 512
    assert secret not in message
    assert not is_clear
    assert client.ask(UpdateSourceHealthHeartbeat("browser", NOW)) == Ack()
    assert error() == (None, True)


def test_events_that_the_store_cannot_take_are_kept_and_collected_later(
    observations: Observations, monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    backend = StoreBackend(observations, "1")
    server = CollectorServer(socket_path(home), backend)
    server.start()
    with monkeypatch.context() as patch:

        def full(_: object) -> None:
            raise StorageFull("the disk is full", hint="make room")

        patch.setattr(backend, "store", full)
        with CollectorClient(server.path, timeout=10) as client:
            client.send(LS)
            assert status(client).version == "1"
    server.stop()
    assert observations.events() == []
    assert observations.collect().new == 1
    assert [event.command for event in observations.events()] == ["ls -la"]
    assert observations.drops() == []


def test_lost_events_are_counted_for_good_even_if_the_store_is_away(
    observations: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = StoreBackend(observations, "1")
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise StorageFull("the disk is full", hint="make room")

        patch.setattr("threadkeep.capture.observed.backend.count_drop", full)
        backend.dropped("buffer full", 2)
        assert backend.status().drop_count == 2
    backend.dropped("buffer full", 1)
    assert [(d.reason, d.count) for d in observations.drops()] == [("buffer full", 3)]
    assert backend.status().drop_count == 3


def test_one_process_keeps_a_home_current_and_ends_when_it_is_asked_to(home: Home) -> None:
    stop, said = threading.Event(), list[str]()
    stored = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if "new" in text:
            stored.set()

    with home.observations() as observations:
        with keeping(home, observations, stop, tell, version="1"):
            home.reporter().report(LS)
            assert stored.wait(30)
            with CollectorClient(socket_path(home), timeout=10) as client:
                client.send(change(LS, envelope_id="e" * 8 + "-0000-4000-8000-000000000001"))
                assert client.ask(Shutdown()) == Ack()
            assert stop.wait(30)
        assert len(observations.events()) == 2
    assert any("listening" in text for text in said)


def test_a_second_keeper_leaves_the_socket_to_the_first(home: Home) -> None:
    said: list[str] = []
    with home.observations() as observations:
        first, second = threading.Event(), threading.Event()
        with (
            keeping(home, observations, first, said.append, version="1"),
            keeping(home, observations, second, said.append, version="1"),
        ):
            assert not second.is_set()
            with CollectorClient(socket_path(home), timeout=10) as client:
                assert status(client).version == "1"
        assert sum("are not received" in text for text in said) == 1


def test_a_brain_that_expects_another_schema_is_refused_before_the_store_opens(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as brain:
        port = brain.getsockname()[1]

        def answer() -> None:
            link, _ = brain.accept()
            link.recv(1000)
            body = b'{"expected_schema_version": 17}'
            link.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)
            link.close()

        thread = threading.Thread(target=answer)
        thread.start()
        folder = tmp_path / "h"
        folder.mkdir()
        (folder / "config.toml").write_text(f"[socket]\nbrain_port = {port}\n")
        with pytest.raises(SchemaMismatch, match="17"):
            shake_hands(Home(folder), print)
        thread.join()
    assert not (folder / "knowledge.db").exists()
    assert schema_to_be(Home(folder)) == 18
    KnowledgeStore.open(folder / "other.db", schema=23).close()
    assert schema_to_be(Home(folder), folder / "other.db") == 23
    shake_hands(Home(folder), print)  # nobody listens there any more
    with Home(folder).observations() as observations:
        assert not StoreBackend(observations, "1", brain_port=port).status().brain_reachable


def test_a_report_of_every_kind_goes_through_the_spool(home: Home) -> None:
    reporter = home.reporter()
    reporter.report(LS)
    reporter.report(Heartbeat("browser", NOW))
    reporter.report(Watch("abcdef1234", "o/r", NOW))
    assert not home.knowledge_path().exists()  # reporting opens no store
    with home.observations() as observations:
        assert observations.collect().new == 1

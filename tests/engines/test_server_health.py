"""What the doctor says about a server and a home on it."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import threadkeep
from threadkeep.base.postgres import health as server_health
from threadkeep.base.postgres.health import ReplicaFacts, ServerHealth, SlotFacts
from threadkeep.base.postgres.pool import HomeAddress, connect
from threadkeep.base.postgres.schema import StorePlace, begin_copy, drop, prepare_on
from threadkeep.chat.schema import SCHEMA as CHAT
from threadkeep.errors import Unreachable
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.doctor.facts import Finding
from threadkeep.service.doctor.server_checks import check_home, check_server, examine_server
from threadkeep.service.health import health_of
from threadkeep.service.metrics import metrics_of

_homes = count()
LOGIN: Final = "examined"


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """Return the URL of a home that is not there, and leave none behind."""
    url = f"{server_url}&home=looked{next(_homes)}"
    yield url
    with closing(connect(HomeAddress.read(url), "pg_catalog")) as connection:
        drop(connection, HomeAddress.read(url).home)


@pytest.fixture
def home(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Return a connection to a chat store's schema that is there."""
    place = StorePlace(HomeAddress.read(url).home, "chat")
    with closing(connect(HomeAddress.read(url), place.path)) as connection:
        prepare_on(connection, place, CHAT)
        yield connection


def found(url: str, check: str) -> list[Finding]:
    return [one for one in examine_server(url) if one.check == check]


def test_a_home_that_is_well_is_said_to_be(url: str, home: psycopg.Connection[Any]) -> None:
    levels = {one.check: one.level for one in examine_server(url)}
    for check in ("version", "connections", "home", "chat", "indexes", "tables"):
        assert levels[check] == "ok", check
    assert levels["durability"] == "fail"  # this server syncs nothing: it is for tests
    assert levels["login"] == "warn"  # and its login is a superuser


def test_a_home_that_is_not_there(url: str) -> None:
    (one,) = found(url, "home")
    assert one.level == "info"
    assert "there is no home" in one.what


def test_a_login_that_may_make_nothing(
    url: str, server_url: str, server: psycopg.Connection[Any]
) -> None:
    server.execute(f"DROP ROLE IF EXISTS {LOGIN}".encode())
    server.execute(f"CREATE ROLE {LOGIN} LOGIN".encode())
    (one,) = found(url.replace("//postgres@", f"//{LOGIN}@"), "home")
    assert one.level == "fail"
    assert "GRANT CREATE ON DATABASE" in one.fix
    server.execute(f"DROP ROLE {LOGIN}".encode())


def test_what_somebody_changed_in_a_home_is_found(url: str, home: psycopg.Connection[Any]) -> None:
    home.execute("DROP INDEX idx_chat_sessions_parent")
    home.execute("ALTER TABLE chat_parts NO FORCE ROW LEVEL SECURITY")
    home.execute("CREATE MATERIALIZED VIEW copied AS SELECT * FROM chat_parts")
    (lost,) = found(url, "indexes")
    assert "chat.idx_chat_sessions_parent" in lost.what
    (walls,) = found(url, "walls")
    assert (walls.level, "chat_parts" in walls.what) == ("fail", True)
    (view,) = found(url, "views")
    assert "copied" in view.what


def test_a_move_that_is_half_done_is_found(url: str) -> None:
    place = StorePlace(HomeAddress.read(url).home, "chat")
    with closing(connect(HomeAddress.read(url), place.path)) as connection:
        begin_copy(connection, place, CHAT)
    (one,) = found(url, "chat")
    assert one.level == "warn"
    assert "--abandon" in one.fix


def test_a_transaction_that_somebody_left_open_is_found(
    url: str, server_url: str, home: psycopg.Connection[Any]
) -> None:
    with closing(connect(HomeAddress.read(url), "pg_catalog")) as left:
        left.execute("BEGIN")
        health = looked(url)
        (mine,) = [one for one in health.running if one.pid == left.info.backend_pid]
        assert mine.state == "idle in transaction"
        late = [type(mine)(mine.pid, mine.state, 61.0, 0)]
        (said,) = [
            one for one in check_server(replaced(health, running=late)) if one.check == "queries"
        ]
        assert f"pg_terminate_backend({mine.pid})" in said.fix


def test_replicas_that_lag_and_bloat_are_judged(url: str, home: psycopg.Connection[Any]) -> None:
    health = looked(url)
    assert health.home is not None
    tables = [
        table_with(one, dead=90_000, live=50_000) if one.name == "chat_events" else one
        for one in health.home.tables
    ]
    ill = replaced(
        health,
        replicas=[ReplicaFacts("standby", 1 << 30, 120.0), ReplicaFacts("near", 0, 0.0)],
        slots=[SlotFacts("left", active=False, bytes_kept=20 << 30)],
        home=replaced(health.home, tables=tables),
    )
    levels = [(one.check, one.level) for one in check_server(ill) if one.check == "replication"]
    assert levels == [("replication", "warn"), ("replication", "ok"), ("replication", "warn")]
    (bloat,) = [
        one for one in check_home(ill, "team", {"chat": CHAT.version}) if one.check == "bloat"
    ]
    assert bloat.fix.startswith("VACUUM ANALYZE")
    newer = [one.level for one in check_home(health, "team", {"chat": 1}) if one.check == "chat"]
    assert newer == ["fail"]


def test_a_server_that_is_not_there_is_an_error_with_a_hint() -> None:
    with pytest.raises(Unreachable) as away:
        examine_server("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")
    assert away.value.hint


def looked(url: str) -> ServerHealth:
    with closing(connect(HomeAddress.read(url), "pg_catalog")) as connection:
        return server_health.look(connection, HomeAddress.read(url).home, {})


def replaced(facts: Any, **changes: Any) -> Any:
    from msgspec.structs import replace

    return replace(facts, **changes)


table_with = replaced


def test_the_doctor_of_a_home_on_a_server_looks_at_the_server_and_asks_for_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path))
    home = threadkeep.open(url)
    with home.chat() as chat:
        chat.create_session(agent="a", model="m/x", title="Kept on a server")
    found = diagnose(home, version="1").findings
    assert ("server", "version") in {(one.group, one.check) for one in found}
    assert "the chat store has version" in " ".join(one.what for one in found)
    assert not [one for one in found if one.group in {"chat", "state", "knowledge"}]


def test_numbers_of_a_server_are_given_with_those_of_the_home(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path))
    home = threadkeep.open(url)
    with home.chat() as chat:
        chat.create_session(agent="a", model="m/x", title="Kept on a server")
    name = HomeAddress.read(url).home
    found = dict(line.rsplit(" ", 1) for line in metrics_of(home).splitlines())
    assert found['threadkeep_sessions{store="chat"}'] == "1"
    assert found[f'threadkeep_server_up{{home="{name}"}}'] == "1"
    assert int(found[f'threadkeep_server_connections{{home="{name}"}}']) > 0
    parts = f'threadkeep_table_bytes{{home="{name}",table="tk_{name}_chat.chat_parts"}}'
    assert int(found[parts]) > 0
    shown = {one.name: one.path for one in health_of(home).stores}
    assert f"home={name}" in shown["chat"]
    assert "None" not in shown.values()
    away = threadkeep.open(f"postgresql://postgres@/postgres?host={tmp_path}&home=team")
    assert '\nthreadkeep_server_up{home="team"} 0\n' in metrics_of(away)


def test_a_server_that_tells_nothing_is_a_finding(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> ServerHealth:
        raise psycopg.errors.InsufficientPrivilege

    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path))
    monkeypatch.setattr(server_health, "look", refused)
    home = threadkeep.open(f"{server_url}&home=silent")
    assert '\nthreadkeep_server_up{home="silent"} 0\n' in metrics_of(home)
    found = diagnose(home, version="1").findings
    assert [one.level for one in found if one.check == "connection"] == ["fail"]


def test_a_server_that_does_not_answer_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path))
    nowhere = f"postgresql://postgres@/postgres?host={tmp_path}&home=team"
    found = diagnose(threadkeep.open(nowhere), version="1").findings
    (told,) = [one for one in found if one.level == "fail"]
    assert told.group == "server"
    assert told.check == "connection"
    assert told.fix

"""What can go wrong with a server: an error that names the home, the reason and what to do."""

from contextlib import closing

import psycopg
import pytest

from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.chat.store import ChatStore
from threadkeep.errors import (
    Busy,
    Invalid,
    NoStore,
    NotFound,
    ReadOnly,
    StorageFull,
    ThreadkeepError,
    Unreachable,
    UnsupportedEngine,
)


@pytest.fixture(scope="module")
def url(server_url: str) -> str:
    place = f"{server_url}&home=errors"
    ChatStore.open(place).close()
    return place


def told(error: ThreadkeepError, *words: str) -> None:
    assert error.hint
    for word in words:
        assert word in str(error)


def test_a_server_that_is_not_there(server_url: str) -> None:
    with pytest.raises(Unreachable) as caught:
        ChatStore.open("postgresql://user:hunter2@localhost:1/db?home=x")
    told(caught.value, "localhost:1", "home=x", "host and port")
    assert "hunter2" not in str(caught.value)


def test_a_database_that_is_not_there(server_url: str) -> None:
    with pytest.raises(NotFound) as caught:
        ChatStore.open(server_url.replace("/tests_", "/nothing_"))
    told(caught.value, "does not exist", "createdb")


def test_a_user_who_is_not_there(server_url: str) -> None:
    with pytest.raises(Invalid) as caught:
        ChatStore.open(server_url.replace("postgres@", "nobody_known@"))
    told(caught.value, "nobody_known", "user and password")


@pytest.mark.parametrize("home", ["Ab", "a-b", "a" * 31, "", "1a", "ä"])
def test_a_home_with_a_name_that_is_none(server_url: str, home: str) -> None:
    with pytest.raises(Invalid) as caught:
        ChatStore.open(f"{server_url}&home={home}")
    told(caught.value, "home")


def test_a_store_that_nobody_began_is_not_made_by_looking(server_url: str) -> None:
    with pytest.raises(NoStore) as caught:
        ChatStore.open(f"{server_url}&home=nobodys", read_only=True)
    told(caught.value, "nobodys")


def test_a_server_that_is_read_only_as_a_replica_is(url: str) -> None:
    replica = f"{url}&options=-c%20default_transaction_read_only%3Don"
    with closing(ChatStore.open(url)) as store:
        session = store.create_session(agent="a", model="m")
    with closing(ChatStore.open(replica, read_only=True)) as store:
        assert store.session(session).id == session.id
    with pytest.raises(ReadOnly) as caught, closing(ChatStore.open(replica)) as store:
        store.say(session, "text")
    told(caught.value, "replica", "primary")


def test_a_user_without_the_right(url: str, server_place: str) -> None:
    with psycopg.connect(server_place, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS outsider")
        connection.execute("CREATE ROLE outsider LOGIN")
    with pytest.raises(ThreadkeepError) as caught:
        ChatStore.open(url.replace("postgres@", "outsider@"))
    assert isinstance(caught.value, (ReadOnly, NotFound))
    told(caught.value)


@pytest.mark.parametrize(
    "state, kind, word",
    [
        ("53100", StorageFull, "free some space"),
        ("53200", Busy, "memory"),
        ("53300", Busy, "max_connections"),
        ("55P03", Busy, "budget"),
        ("57014", Busy, "one statement"),
        ("57P01", Unreachable, "try again"),
        ("0A000", UnsupportedEngine, "PostgreSQL"),
        ("22003", Invalid, "JSON"),
    ],
)
def test_what_the_server_raises(url: str, state: str, kind: type[Exception], word: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'told by the server' USING ERRCODE = '{state}'; END $$"
    with closing(PostgresDatabase(url, "chat", {})) as database:
        with pytest.raises(kind) as caught, database.write() as tx:
            tx.script(raising)
        assert isinstance(caught.value, ThreadkeepError)
        told(caught.value, word, "home=errors")
        with database.read() as tx:
            assert tx.tables()


def test_a_connection_that_the_server_ends(url: str, server_url: str) -> None:
    with closing(ChatStore.open(url)) as store:
        session = store.create_session(agent="a", model="m")
        with pytest.raises(Unreachable) as caught, store.context.db.write() as tx:
            tx.run("touch_session", {"id": session.id, "now": 1})
            end_all_but_this(server_url)
            tx.value("last_seq", {"stream_id": session.id})
        told(caught.value, "nothing of this transaction was stored")
        # The next verb finds a server that works, and nothing of it is seen by the caller.
        end_all_but_this(server_url)
        assert store.say(session, "text").id


def end_all_but_this(server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

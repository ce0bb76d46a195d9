"""What can go wrong with a server: an error that names the home, the reason and what to do."""

import socket
import struct
import threading
from contextlib import closing

import psycopg
import pytest
from click.testing import CliRunner

from threadkeep.base.database import ask
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.tx import Tx
from threadkeep.chat.store import ChatStore
from threadkeep.cli.root import cli
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


def test_rights_that_a_login_lacks_are_named(url: str, server_url: str) -> None:
    database = server_url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(server_url, autocommit=True) as connection:

        def grant(words: str) -> None:
            connection.execute(words.encode())

        def refused(word: str) -> None:
            with pytest.raises(ReadOnly) as caught, closing(ChatStore.open(theirs)) as store:
                store.create_session(agent="a", model="m")
            told(caught.value, word)

        theirs = f"{server_url}&home=theirs".replace("postgres@", "newcomer@")
        grant("DROP ROLE IF EXISTS newcomer")
        grant("CREATE ROLE newcomer LOGIN")
        refused("GRANT CREATE ON DATABASE")
        left = "SELECT 1 FROM pg_namespace WHERE nspname LIKE 'tk_theirs%'"
        assert connection.execute(left.encode()).fetchall() == []
        grant(f"GRANT CREATE ON DATABASE {database} TO newcomer")
        ChatStore.open(theirs).close()
        grant("ALTER SCHEMA tk_theirs_chat OWNER TO postgres")
        refused("GRANT USAGE ON SCHEMA tk_theirs_chat")
        grant("GRANT USAGE ON SCHEMA tk_theirs_chat TO newcomer")
        grant("ALTER TABLE tk_theirs_chat.chat_sessions OWNER TO postgres")
        refused("chat_sessions")
        grant("DROP SCHEMA tk_theirs, tk_theirs_chat CASCADE")
        grant("DROP OWNED BY newcomer")
        grant("DROP ROLE newcomer")


def test_what_only_a_file_can_do_names_what_a_server_has_instead(url: str) -> None:
    with closing(ChatStore.open(url)) as store, pytest.raises(UnsupportedEngine) as caught:
        store.backup()
    told(caught.value, "home=errors", "pg_dump", "threadkeep migrate --from")
    for words in (["backup"], ["backup", "chat"], ["restore", "last"]):
        done = CliRunner().invoke(cli, ["--home", url, *words])
        assert done.exit_code == 2
        assert "pg_restore" in done.stderr


@pytest.mark.parametrize("rest", ["[bad/db", "host/db?nonsense=1"])
def test_a_url_that_is_none(rest: str) -> None:
    with pytest.raises(Invalid) as caught:
        ChatStore.open(f"postgresql://user:hunter2@{rest}")
    told(caught.value, "postgresql://user@host:5432/database?home=NAME")
    assert "hunter2" not in str(caught.value)


def test_a_server_that_is_too_old() -> None:
    """An old server cannot be had; what it says of itself when somebody connects is known."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        greeting = threading.Thread(target=greet_as_version_12, args=(listener,))
        greeting.start()
        port = listener.getsockname()[1]
        with pytest.raises(UnsupportedEngine) as caught:
            ChatStore.open(f"postgresql://u@127.0.0.1:{port}/db?sslmode=disable&gssencmode=disable")
        greeting.join()
    told(caught.value, "PostgreSQL 12", "PostgreSQL 13 or later")


def greet_as_version_12(listener: socket.socket) -> None:
    with listener.accept()[0] as client:
        (length,) = struct.unpack("!i", client.recv(4))
        client.recv(length)
        settings = {"server_version": "12.22", "client_encoding": "UTF8"}
        client.sendall(_message(b"R", struct.pack("!i", 0)))
        for name, value in settings.items():
            client.sendall(_message(b"S", f"{name}\0{value}\0".encode()))
        client.sendall(_message(b"Z", b"I"))
        client.recv(1)  # until it is closed


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


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


def test_a_question_is_asked_again_when_its_connection_is_lost(url: str, server_url: str) -> None:
    asked = 0

    def question(tx: Tx) -> int:
        nonlocal asked
        asked += 1
        if asked == 1:
            end_all_but_this(server_url)
        return int(tx.value("last_seq", {"stream_id": "nobody's"}))

    with closing(ChatStore.open(url)) as store:
        assert ask(store.context.db, question) == 0
    assert asked == 2


def end_all_but_this(server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

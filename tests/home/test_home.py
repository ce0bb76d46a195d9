"""Home: a folder and its stores."""

import os
import sqlite3
from pathlib import Path

import pytest

import threadkeep
from tests.support.states import talk
from threadkeep import ChatStore, Home, SessionDB
from threadkeep.chat.replies import follow, running_runs
from threadkeep.errors import Conflict, Invalid, NotFound, SchemaMismatch, UnsupportedEngine
from threadkeep.state.naming import find_state_session, is_adopted


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_open_gives_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path))
    assert threadkeep.open().paths().data == tmp_path
    assert threadkeep.open(tmp_path / "other").paths().data == tmp_path / "other"


def test_a_relative_folder_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home("here")
    monkeypatch.chdir("/")
    assert home.paths().data == tmp_path / "here"


def test_the_home_of_a_user_without_home_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "THREADKEEP_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert Home().paths().data == Path.home() / ".local/share/threadkeep"


@pytest.mark.parametrize("url", ["postgres://host/db", "postgresql://host/db"])
def test_the_url_of_a_server_opens_stores_that_are_in_no_file(url: str) -> None:
    there = threadkeep.open(url)
    assert {there.place(store) for store in ("chat", "state", "knowledge")} == {url}
    assert there.file("chat") is None
    assert there.file("mailbox") == there.mail_path()
    with pytest.raises(UnsupportedEngine, match="the chat store is on a server"):
        there.chat_path()


def test_a_server_is_named_by_the_environment_or_for_one_store(tmp_path: Path) -> None:
    url = "postgresql://host/db"
    environ = {"HOME": str(tmp_path), "THREADKEEP_DB_URL": url}
    assert Home(environ=environ).place("knowledge") == url
    named = Home(tmp_path / "home", environ=environ)  # whoever names a folder means its files
    assert named.file("knowledge") == tmp_path / "home" / "knowledge.db"
    named.paths().config.parent.mkdir()
    named.paths().config.write_text(f'[stores]\nknowledge = "{url}"\n')
    one = Home(tmp_path / "home", environ=environ)
    assert one.place("knowledge") == url
    assert one.file("chat") == tmp_path / "home" / "chat.db"


def test_a_file_is_no_home(home: Home) -> None:
    with home.chat() as store:
        path = store.path
    with pytest.raises(Invalid, match=r"ChatStore\.open"):
        Home(path)


def test_the_chat_store_is_begun_for_the_owner_alone(home: Home) -> None:
    with home.chat() as store:
        assert store.path == home.paths().data / "chat.db"
        assert store.path.stat().st_mode & 0o777 == 0o600
        assert store.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("options", [{"read_only": True}, {"must_exist": True}])
def test_what_must_be_there_is_not_begun(options: dict[str, bool], home: Home) -> None:
    with pytest.raises(NotFound, match="no chat store"):
        home.chat(**options)  # type: ignore[arg-type]
    assert not home.paths().data.exists()


def test_settings_of_the_configuration_reach_the_store(home: Home) -> None:
    home.paths().data.mkdir()
    home.paths().config.write_text(
        '[stores]\nchat = "kept/mine.db"\n[chat]\nevent_log = true\npart_limit = 1000\n'
    )
    with home.chat() as store:
        assert store.path == home.paths().data / "kept/mine.db"
        assert store.context.part_limit == 1000
        session = store.create_session(agent="a", model="p/m")
        kinds = [event.kind for event in store.tail(session, follow=False)]
    assert kinds == ["session"]
    assert home.status().chat.event_log is True


def test_a_backup_goes_round(home: Home, tmp_path: Path) -> None:
    with home.chat() as store:
        session = store.create_session(agent="a", model="p/m", title="first")
    made = home.backup()
    steps: list[tuple[int, int]] = []
    own = home.backup(tmp_path / "own.db", progress=lambda done, all_: steps.append((done, all_)))
    assert steps[-1][0] == steps[-1][1]
    assert [backup.path for backup in home.backups()] == [made]
    with home.chat() as store:
        store.delete(session)
    assert home.restore(own) is not None
    with home.chat(read_only=True) as store:
        assert store.session(session).title == "first"
    with pytest.raises(Conflict):
        home.backup(own)


def test_a_store_that_was_lost_comes_back_from_its_backup(home: Home) -> None:
    with home.chat() as store:
        session = store.create_session(agent="a", model="p/m")
    made = home.backup()
    home.chat_path().unlink()
    assert home.restore(made) is None
    with home.chat(read_only=True) as store:
        assert store.session(session).id == session.id


def test_finding_nothing_is_told(home: Home) -> None:
    with home.chat() as store:
        with pytest.raises(NotFound, match="no session"):
            store.find_session("last")
        for ref in ("", "ses_", "x"):
            with pytest.raises((NotFound, Invalid)):
                store.find_session(ref)
        session = store.create_session(agent="a", model="p/m")
        with pytest.raises(NotFound, match="no user message"):
            store.find_message(session, "last")
        assert store.find_session("ses_") == session


def test_a_foreign_id_that_begins_another_is_found_itself(home: Home) -> None:
    with home.chat() as store:
        store.create_session(agent="a", model="p/m", session_id="abc-long")
        short = store.create_session(agent="a", model="p/m", session_id="abc")
        assert store.find_session("abc") == short
        assert store.find_session("abc-").id == "abc-long"


def test_a_timeline_is_exact_while_a_reply_grows(home: Home) -> None:
    with home.chat() as store:
        session = store.create_session(agent="a", model="p/m")
        with store.record(session) as recorder:
            for chunk in (
                {"type": "text-start", "id": "0"},
                *({"type": "text-delta", "id": "0", "delta": f"{n} "} for n in range(50)),
            ):
                recorder.feed(chunk)
                (turn,) = store.timeline(session).turns
                assert turn.parts == recorder.message["parts"]  # type: ignore[index]
        with pytest.raises(Invalid, match="no view"):
            store.timeline(session, "sideways")  # type: ignore[arg-type]


def test_status_does_not_change_the_file(home: Home) -> None:
    with home.chat() as store:
        store.create_session(agent="a", model="p/m")
    before = home.chat_path().read_bytes()
    assert home.status().chat.sessions == 1
    assert home.chat_path().read_bytes() == before


def test_a_newer_file_is_named_in_the_status(home: Home) -> None:
    with home.chat() as store, store.context.db.write() as tx:
        tx.run("set_meta", {"key": "schema_version", "value": "99"})
    assert "version 99" in home.status().chat.problem


def test_another_file_can_be_named(home: Home, tmp_path: Path) -> None:
    with ChatStore.open(tmp_path / "x.db") as other:
        other.create_session(agent="a", model="p/m")
    assert home.status(tmp_path / "x.db").chat.sessions == 1


def test_what_is_no_regular_file_is_refused_before_it_is_opened(home: Home, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for use in (home.chat, home.status, home.backups, home.chat_path):
        with pytest.raises(Invalid, match="not a regular file"):
            use(pipe)


def test_the_runs_that_run_are_known(home: Home) -> None:
    with home.chat() as store:
        session = store.create_session(agent="a", model="p/m")
        with store.record(session) as recorder:
            recorder.feed({"type": "start"})
            assert running_runs(store, session.id) == {recorder.run_id}
        assert running_runs(store, session.id) == set()


def test_following_ends_when_it_is_not_wanted_any_more(home: Home) -> None:
    with home.chat() as store:
        session = store.create_session(agent="a", model="p/m")
        with store.record(session) as recorder:
            recorder.feed({"type": "start"})
        answers = iter([True, False])
        events = follow(store, session.id, 0, until_idle=False, wanted=lambda: next(answers))
        assert [event.kind for event in events] == ["snapshot"]
        assert not store.context.db.followed()


def test_a_restore_leaves_the_database_of_another_program(home: Home, tmp_path: Path) -> None:
    with home.chat() as store:
        store.create_session(agent="a", model="p/m")
    made = home.backup()
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE theirs(x)")
    database.close()
    with pytest.raises(Conflict, match="another program"):
        home.restore(made, path=foreign)
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"no database" * 1000)
    saved = home.restore(made, path=garbage)  # what is damaged is moved aside, whole
    assert saved is not None
    assert saved.read_bytes() == b"no database" * 1000


# ---------------------------------------------------------------------- the state store


def test_the_state_store_is_begun_for_the_owner_alone(home: Home) -> None:
    with home.state() as store:
        assert store.db_path == home.paths().data / "state.db"
        assert store.db_path.stat().st_mode & 0o777 == 0o600
        assert is_adopted(store)


@pytest.mark.parametrize("options", [{"read_only": True}, {"must_exist": True}])
def test_a_state_store_that_must_be_there_is_not_begun(
    options: dict[str, bool], home: Home
) -> None:
    with pytest.raises(NotFound, match="no state store"):
        home.state(**options)  # type: ignore[arg-type]
    assert not home.paths().data.exists()


def test_the_order_in_which_the_state_store_is_looked_for(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "user"), "THREADKEEP_HOME": str(tmp_path / "home")}
    own = tmp_path / "home" / "state.db"
    usual, moved = (tmp_path / name / "state.db" for name in ("user/.hermes", "moved"))

    def found(**more: str) -> Path:
        return Home(environ=environ | more).state_path()

    assert found() == own
    for path in (usual, moved):
        path.parent.mkdir(parents=True)
        path.touch()
    assert found() == usual
    assert found(HERMES_HOME="~/../moved") == tmp_path / "user/../moved/state.db"
    assert found(HERMES_HOME=str(tmp_path / "nowhere")) == own
    assert Home(tmp_path / "home", environ=environ).state_path() == own
    own.parent.mkdir()
    (own.parent / "config.toml").write_text('[stores]\nstate = "~/mine.db"\n')
    assert found() == tmp_path / "user/mine.db"
    assert Home(environ=environ).state_path("given.db") == Path("given.db")


def test_a_state_file_that_cannot_be_written_safely_is_only_read(home: Home) -> None:
    with home.state() as store:
        talk(store, "one", "hello")
    with sqlite3.connect(store.db_path) as database:
        database.execute("UPDATE schema_version SET version = 7")
        database.execute("CREATE TABLE state_meta (key TEXT PRIMARY KEY, value, odd TEXT NOT NULL)")
    database.close()
    with pytest.raises(SchemaMismatch, match="column odd that must be filled"):
        home.state()
    with home.state(read_only=True) as looked:
        assert looked.message_count() == 1


def test_a_backup_of_the_state_store_goes_round(home: Home, tmp_path: Path) -> None:
    with home.state() as store:
        talk(store, "one", "hello")
    made = home.backup(store="state")
    own = home.backup(tmp_path / "own.db", store="state")
    assert [backup.path for backup in home.backups(store="state")] == [made]
    assert home.backups(store="chat") == []
    with home.state() as store:
        store.delete_session("one")
    assert home.check_backup(own, store="state") == []
    assert home.restore(own, store="state") is not None
    with home.state(read_only=True) as store:
        assert store.message_count("one") == 1


def test_there_are_no_other_stores(home: Home) -> None:
    with pytest.raises(Invalid, match="chat, state"):
        home.backups(store="memory")


def test_the_session_that_is_meant(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as store:
        with pytest.raises(NotFound, match="no session yet"):
            find_state_session(store, "last")
        talk(store, "a_1", "hello")
        talk(store, "ab1", "hello")
        store.set_session_title("a_1", "100% sure")
        assert find_state_session(store, "a_") == "a_1"
        assert find_state_session(store, "100% sure") == "a_1"
        with pytest.raises(Invalid, match="several sessions begin with 'a'"):
            find_state_session(store, "a")
        with pytest.raises(NotFound):
            find_state_session(store, "a%")

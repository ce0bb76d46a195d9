"""Home and its mailroom: where it is, how sessions are found, backups and status."""

from pathlib import Path

import pytest

import threadkeep
import threadkeep.mailbox
from threadkeep import Home, Mailroom
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.mail import find_mail_session, is_folder
from threadkeep.mailbox.records import Place


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", environ={"HOME": str(tmp_path), "TZ": "Europe/Madrid"})


def test_the_mailroom_is_in_the_data_folder(home: Home) -> None:
    with home.mailroom() as room:
        assert isinstance(room, Mailroom)
        session = room.new_session("helper", "cli", "me")
        folder = room.folder(session).path
        assert room.host(session).context.zone == "Europe/Madrid"
        assert room.host(session).routing() == Place("cli", "me")
    assert home.mail_path() == home.paths().data / "mailbox.db"
    assert folder == home.paths().data / "mailbox" / session.agent_group_id / session.id
    assert home.mail_folder(session.id) == folder


def test_a_mailroom_that_must_exist_is_not_begun(home: Home) -> None:
    for open_it in (home.mail_index, lambda: home.mailroom(must_exist=True)):
        with pytest.raises(NotFound, match="no mailbox store"):
            open_it()
    assert not home.paths().data.exists()


def test_the_zone_is_the_machines_unless_one_is_named(home: Home) -> None:
    assert home.zone == "Europe/Madrid"
    assert home.zone_named("UTC") == "UTC"
    with pytest.raises(Invalid, match="Mars"):
        home.zone_named("Mars/Olympus")


def test_sessions_are_found_by_what_people_type(home: Home, tmp_path: Path) -> None:
    with home.mailroom() as room:
        first = room.new_session("one")
        second = room.new_session("two", "cli", "me")
        index = room.index
        found = {ref: find_mail_session(index, ref).id for ref in (first.id, "two", "last")}
        assert found == {first.id: first.id, "two": second.id, "last": second.id}
        room.new_session("two", "cli", "you")
        for ref in ("sess-", "two", ""):
            with pytest.raises(Invalid):
                find_mail_session(index, ref)
        with pytest.raises(NotFound, match="'nobody'"):
            find_mail_session(index, "nobody")


def test_a_path_is_a_folder_and_an_id_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "box").mkdir()
    found = {ref: is_folder(ref) for ref in ("box", ".", "./nowhere", "sess-1", "last", "")}
    assert [ref for ref, is_one in found.items() if is_one] == ["box", ".", "./nowhere"]
    assert home.mail_folder("box") == tmp_path / "box"


def test_the_index_is_backed_up_and_restored(home: Home) -> None:
    with home.mailroom() as room:
        kept = room.new_session("kept").id
    backup = home.backup(store="mailbox")
    assert [one.path for one in home.backups(store="mailbox")] == [backup]
    assert home.check_backup(backup, store="mailbox") == []
    with home.mailroom() as room:
        room.new_session("later")
    saved = home.restore(backup, store="mailbox")
    assert saved is not None
    with home.mail_index() as index:
        assert [one.id for one in index.sessions()] == [kept]


def test_the_status_counts_agents_chats_and_sessions(home: Home) -> None:
    assert not home.status().mailbox.exists
    with home.mailroom() as room:
        room.new_session("one", "cli", "me")
        room.index.close_session(room.new_session("two").id)
    found = home.status().mailbox
    assert (found.agents, found.chats, found.sessions, found.active) == (2, 1, 2, 1)
    assert (found.schema_version, found.problem) == (2, "")
    home.mail_path().write_bytes(b"nonsense" * 1000)
    assert home.status().mailbox.problem


def test_every_name_of_the_mailbox_can_be_had_and_no_other() -> None:
    names = threadkeep.mailbox.__all__
    assert dir(threadkeep.mailbox) == sorted(names)
    for name in names:
        assert getattr(threadkeep.mailbox, name).__doc__, name
    assert not hasattr(threadkeep.mailbox, "nonsense")
    assert threadkeep.mailbox.Mailroom is threadkeep.Mailroom

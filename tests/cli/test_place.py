"""paths and status."""

from pathlib import Path

from tests.cli.conftest import Run, document, talk
from tests.cli.histories import DEMO
from threadkeep import ChatStore


def test_paths_of_a_home(run: Run, home: Path) -> None:
    found = document(run("paths", "--json"))["paths"]
    assert found == {
        "data": str(home),
        "config": str(home / "config.toml"),
        "state": str(home / "state"),
        "cache": str(home / "cache"),
        "runtime": str(home / "run"),
        "chat": str(home / "chat.db"),
        "state_db": str(home / "state.db"),
        "mailbox_db": str(home / "mailbox.db"),
        "knowledge_db": str(home / "knowledge.db"),
    }
    assert f"chat\t{home / 'chat.db'}\n" in run("paths").stdout
    assert not home.exists()  # asking creates nothing


def test_the_option_counts_more_than_the_environment(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert document(run("--home", str(other), "paths", "--json"))["paths"]["data"] == str(other)


def test_a_default_configuration_is_written_once(run: Run, home: Path) -> None:
    run("paths", "--init")
    config = home / "config.toml"
    assert config.stat().st_mode & 0o777 == 0o600
    config.write_text('[stores]\nchat = "elsewhere/mine.db"\n')
    assert "already exists" in run("paths", "--init", code=1).stderr
    found = document(run("paths", "--json"))["paths"]
    assert found["chat"] == str(home / "elsewhere/mine.db")


def test_a_wrong_configuration_names_key_and_file(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[chat]\ncolour = 3\n")
    result = run("status", code=2)
    assert f"{home / 'config.toml'}: there is no setting 'chat.colour'" in result.stderr
    assert "hint: known here: event_log, part_limit, save_on" in result.stderr


def test_status_before_anything_is_there(run: Run, home: Path) -> None:
    found = document(run("status", "--json"))
    assert found["chat"]["exists"] is False
    assert "threadkeep demo" in run("status").stderr
    assert not home.exists()


def test_status_of_a_store_in_use(run: Run, store: ChatStore) -> None:
    session = talk(store)
    store.backup()
    with store.record(session) as recorder:
        recorder.feed({"type": "start"})
        found = document(run("status", "--json"))
        words = run("status").stdout
    chat = found["chat"]
    assert (chat["sessions"], chat["messages"]) == (1, 3)
    assert (chat["schema_version"], chat["journal_mode"]) == (2, "wal")
    assert chat["bytes"] > 0
    assert chat["backups"] == 1
    assert chat["last_backup"]["reason"] == "manual"
    (live,) = chat["live_recordings"]
    assert (live["session_id"], live["message_id"]) == (session.id, recorder.message_id)
    assert set(found["sqlite"]) == {"version", "wal_reset_race"}
    assert f"{recorder.message_id} in {session.id}" in words


def test_status_of_a_file_that_is_no_store(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "chat.db").write_bytes(b"this is no database at all" * 100)
    assert "cannot be read" in run("status", code=1).stderr
    assert document(run("status", "--json", code=1))["chat"]["problem"] != ""


def test_status_tells_about_the_mailroom(run: Run, home: Path) -> None:
    run("mail", "new", "helper", "--channel", "cli", "--chat", "me")
    found = document(run("status", "--json"))["mailbox"]
    assert (found["sessions"], found["active"], found["agents"], found["chats"]) == (1, 1, 1, 1)
    assert "1, 1 of them active, with 1 agent and 1 chat" in run("status").stdout
    (home / "mailbox.db").write_bytes(b"nonsense" * 1000)
    assert "the mailbox store cannot be read" in run("status", code=1).stderr


def test_status_tells_about_what_was_captured(run: Run, home: Path) -> None:
    run("capture", "--quiet", "--user-home", str(DEMO))
    found = document(run("status", "--json"))["knowledge"]
    assert (found["schema_version"], found["writable"], found["problem"]) == (18, True, "")
    assert (found["sessions"], found["messages"]) == (9, 56)
    assert "9 captured, with 56 messages" in run("status").stdout
    (home / "knowledge.db").write_bytes(b"nonsense" * 1000)
    assert "the knowledge store cannot be read" in run("status", code=1).stderr


def test_status_of_a_knowledge_file_elsewhere(run: Run, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere.db")
    run("capture", "--quiet", "--user-home", str(DEMO), "--db", elsewhere)
    named = ["--store", "knowledge", "--db", elsewhere]
    assert document(run("status", *named, "--json"))["knowledge"]["sessions"] == 9
    assert document(run("paths", *named, "--json"))["paths"]["knowledge_db"] == elsewhere

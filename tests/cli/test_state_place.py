"""Where the state store is, and its status, backups and restore."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, document, hermes_file
from tests.support.states import talk
from threadkeep import SessionDB


def place(run: Run, *words: str) -> str:
    return str(document(run("paths", "--json", *words))["paths"]["state_db"])


def test_the_store_of_the_home_comes_first_then_the_one_of_hermes(
    run: Run, home: Path, tmp_path: Path
) -> None:
    assert place(run) == str(home / "state.db")
    theirs = hermes_file(tmp_path / "hermes" / "state.db")
    assert place(run) == str(theirs)
    assert "hello from Hermes" in run("state", "ls").stdout
    with SessionDB(home / "state.db"):
        pass
    assert place(run) == str(home / "state.db")
    (home / "config.toml").write_text('[stores]\nstate = "elsewhere.db"\n')
    assert place(run) == str(home / "elsewhere.db")
    assert place(run, "--store", "state", "--db", "named.db") == "named.db"


def test_a_home_that_is_named_keeps_to_its_folder(run: Run, tmp_path: Path) -> None:
    hermes_file(tmp_path / "hermes" / "state.db")
    named = document(run("--home", str(tmp_path / "named"), "paths", "--json"))["paths"]
    assert named["state_db"] == str(tmp_path / "named" / "state.db")


def test_status_knows_both_stores(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    found = document(run("status", "--json"))
    assert found["chat"]["exists"] is False
    assert (found["state"]["sessions"], found["state"]["messages"]) == (1, 1)
    assert (found["state"]["schema_version"], found["state"]["adopted"]) == (6, True)
    assert "state sessions\t1 with 1 message\n" in run("status").stdout


def test_status_of_a_file_of_hermes(run: Run, tmp_path: Path) -> None:
    path = hermes_file(tmp_path / "theirs.db")
    before = path.read_bytes()
    found = document(run("status", "--store", "state", "--db", str(path), "--json"))["state"]
    assert (found["adopted"], found["sessions"]) == (False, 1)
    assert path.read_bytes() == before


def test_status_of_a_file_that_is_no_state_store(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "state.db").write_bytes(b"this is no database at all" * 100)
    assert "the state store cannot be read" in run("status", code=1).stderr


def test_a_backup_is_made_listed_and_restored(run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    state.set_session_title("one", "before")
    made = run("backup", "--store", "state").stdout.strip()
    assert Path(made).stat().st_mode & 0o777 == 0o600
    assert made in run("backup", "--store", "state", "--list").stdout
    assert run("backup", "--store", "chat", "--list").stdout == ""
    assert made in run("backup", "--list").stdout
    state.set_session_title("one", "after")
    told = document(run("restore", "last", "--store", "state", "--yes", "--json"))
    assert (told["backup"], told["restored"]) == (made, str(state.db_path))
    assert state.get_session_title("one") == "before"
    with SessionDB(told["saved"], read_only=True) as saved:
        assert saved.get_session_title("one") == "after"


def test_a_damaged_backup_is_refused(run: Run, state: SessionDB) -> None:
    talk(state, "one", "an answer")
    made = Path(run("backup", "--store", "state").stdout.strip())
    made.write_bytes(made.read_bytes().replace(b"an answer", b"an Answer"))
    result = run("restore", str(made), "--store", "state", "--yes", code=1)
    assert "fails its check" in result.stderr
    assert state.get_messages("one")[0]["content"] == "an answer"


def test_a_file_of_hermes_is_backed_up_as_it_is(run: Run, tmp_path: Path) -> None:
    path = hermes_file(tmp_path / "theirs.db")
    before = path.read_bytes()
    made = run("backup", "--store", "state", "--db", str(path)).stdout.strip()
    assert path.read_bytes() == before
    run("restore", made, "--store", "state", "--db", str(path), "--dry-run")


@pytest.mark.parametrize("store", ["chat", "state"])
def test_stores_of_different_kinds_do_not_mix(store: str, run: Run, state: SessionDB) -> None:
    talk(state, "one", "hello")
    other = "chat" if store == "state" else "state"
    with_chat = document(run("demo", "--fast", "--json"))
    assert with_chat
    demo = state.db_path.with_name("demo.db")
    mine = state.db_path if store == "state" else demo
    made = run("backup", "--store", store, "--db", str(mine)).stdout.strip()
    theirs = demo if store == "state" else state.db_path
    run("backup", "--store", store, "--db", str(theirs), code=2)
    run("restore", made, "--store", store, "--db", str(theirs), "--yes", code=1)
    run("restore", made, "--db", str(theirs), "--yes", code=1)
    refused = run("restore", made, "--store", other, "--db", str(theirs), "--yes", code=2)
    assert f"is a backup of the {store} store" in refused.stderr

"""`threadkeep import`: what it says, what it answers in JSON, and its exit codes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import document, hermes_file
from tests.cli.mail_boxes import make_theirs
from tests.faults.old_files import make_old_file
from tests.faults.old_knowledge_files import make_old_knowledge
from threadkeep import SessionDB
from threadkeep.cli.originals import import_
from threadkeep.knowledge.store import KnowledgeStore


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(import_, list(words))
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


@pytest.fixture(autouse=True)
def user(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GRIDA_HOME", "GRIDA_AGENT_USER_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_hermes_is_imported_from_its_usual_place(home: Path, tmp_path: Path) -> None:
    hermes_file(tmp_path / "hermes" / "state.db")
    planned = run("hermes", "--dry-run")
    assert planned.stdout == ""
    assert "found" in planned.stderr
    assert "(schema version 6): 1 session, 1 message, " in planned.stderr
    assert "would become" in planned.stderr
    assert not home.exists()
    assert f"a copy of it is now {home / 'state.db'}" in run("hermes").stderr
    with SessionDB(home / "state.db", read_only=True) as state:
        assert state.message_count("theirs") == 1
    assert "0 sessions added" in run("hermes").stderr
    assert "1 already present" in run("hermes").stderr


def test_the_answer_in_json_has_all_of_it(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_old_file(path, 3)
    done = document(run("grida", str(path), "--json"))["import"]
    assert done["original"]["program"] == "grida"
    assert done["original"]["path"] == str(path)
    assert done["target"] == str(home / "chat.db")
    assert (done["copied"], done["dry_run"], done["problems"]) == (True, False, [])
    again = document(run("grida", str(path), "--json", "--db", str(home / "chat.db")))["import"]
    assert (again["added"], again["skipped"]) == (0, done["added"])


def test_hippo_is_merged_and_counted_table_by_table(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "hippo.db"
    make_old_knowledge(path, 17)
    home.mkdir()
    KnowledgeStore.open(home / "knowledge.db").close()
    planned = run("hippo", str(path), "--dry-run").stderr
    done = run("hippo", str(path)).stderr
    again = document(run("hippo", str(path), "--json"))["import"]
    for table, rows in again["tables"].items():
        assert rows["new"] == 0
        if table != "source_health":  # a fresh store has some of these
            line = f"{table}: {rows['there']:,} new, 0 already there\n"
            assert line in done
            assert line in planned
    assert again["tables"]["events"]["there"] > 0
    assert "would be added" in planned


def test_hermes_that_goes_on_is_brought_up_to_date(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "hermes" / "state.db"
    hermes_file(path)
    assert document(run("hermes", "--json"))["import"]["notes"] == []
    with closing(sqlite3.connect(path)) as file, file:
        sql = "INSERT INTO messages (session_id, role, content, timestamp) SELECT id, 'user', 'and'"
        file.execute(f"{sql}, 1 FROM sessions")
    for words in (("--dry-run",), ()):
        assert "1 session brought up to date, 0 already" in run("hermes", *words).stderr
    assert "brought up to date" not in run("hermes").stderr
    assert (home / "state.db").exists()


def test_what_is_not_there_is_named_with_the_places_looked_at(user: Path) -> None:
    for program in ("hermes", "grida", "hippo", "nanoclaw"):
        result = run(program, code=3)
        assert f"there is no data of {program} at" in result.stderr
        assert f"threadkeep import {program} PATH" in result.stderr
    assert str(user / ".grida/agent/sessions.db") in run("grida", code=3).stderr
    assert run("word", code=2).stdout == ""


def test_a_folder_that_cannot_be_imported_is_a_problem(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "v2-sessions"
    make_theirs(root / "ag-1" / "good")
    bad = make_theirs(root / "ag-1" / "bad")
    (bad / "inbound.db").write_bytes(b"no database at all, but long enough to look like one")
    result = run("nanoclaw", str(root), code=1)
    assert "1 unreadable" in result.stderr
    assert "1 session added" in result.stderr
    assert f"warning: {bad}: " in result.stderr
    assert (home / "mailbox" / "ag-1" / "good" / "inbound.db").exists()

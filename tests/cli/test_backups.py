"""backup and restore."""

import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document, talk
from threadkeep import ChatStore


def test_a_backup_is_made_listed_and_restored(run: Run, store: ChatStore) -> None:
    session = talk(store, "before")
    made = run("backup").stdout.strip()
    assert Path(made).is_file()
    assert Path(made).stat().st_mode & 0o777 == 0o600
    assert made in run("backup", "--list").stdout
    (listed,) = document(run("backup", "--list", "--json"))["backups"]
    assert (listed["path"], listed["reason"]) == (made, "manual")
    store.set_title(session, "after")
    told = document(run("restore", "last", "--yes", "--json"))
    assert (told["backup"], told["dry_run"]) == (made, False)
    assert store.session(session).title == "before"  # the store that was open goes on with it
    saved = Path(told["saved"])
    assert "before-restore" in saved.name
    with ChatStore.open(saved, read_only=True) as old:
        assert old.session(session).title == "after"


def test_restore_needs_a_yes_and_a_dry_run_restores_nothing(run: Run, store: ChatStore) -> None:
    session = talk(store, "before")
    made = Path(run("backup").stdout.strip())
    store.set_title(session, "after")
    assert "--yes" in run("restore", str(made), code=2).stderr
    assert "would restore" in run("restore", made.name[:10], "--dry-run").stderr
    assert store.session(session).title == "after"


def test_a_damaged_backup_is_refused_before_anything_happens(run: Run, store: ChatStore) -> None:
    talk(store)
    made = Path(run("backup").stdout.strip())
    made.write_bytes(made.read_bytes().replace(b"an answer", b"an Answer"))  # SQLite sees nothing
    assert "fails its check" in run("restore", str(made), "--yes", code=1).stderr
    assert store.verify().ok


def test_a_backup_to_a_place_of_ones_own(run: Run, store: ChatStore, tmp_path: Path) -> None:
    talk(store)
    target = tmp_path / "copy.db"
    assert document(run("backup", str(target), "--json"))["backup"] == str(target)
    assert "exists already" in run("backup", str(target), code=1).stderr
    assert run("backup", str(tmp_path)).stdout.strip().startswith(str(tmp_path / "chat-"))


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["restore", "nowhere"], 3, "there is no backup 'nowhere'"),
        (["restore", "last", "--yes"], 3, "there is no backup 'last'"),
        (["backup"], 3, "there is no chat store"),
    ],
)
def test_what_is_not_there(words: list[str], code: int, said: str, run: Run) -> None:
    assert said in run(*words, code=code).stderr


def test_a_backup_makes_no_folder(run: Run, store: ChatStore, tmp_path: Path) -> None:
    talk(store)
    missing = tmp_path / "missing"
    assert "there is no folder" in run("backup", str(missing / "x.db"), code=3).stderr
    assert not missing.exists()


@pytest.mark.parametrize("words", [["--yes"], ["--dry-run"]])
def test_a_database_of_another_program_is_not_replaced(
    words: list[str], run: Run, store: ChatStore, tmp_path: Path
) -> None:
    talk(store)
    made = run("backup").stdout.strip()
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE theirs(x)")
    database.close()
    before = foreign.read_bytes()
    result = run("restore", made, "--db", str(foreign), *words, code=1)
    assert "another program" in result.stderr
    assert foreign.read_bytes() == before
    assert not (tmp_path / "backups").exists()


def test_an_empty_place_is_restored_into(run: Run, store: ChatStore, tmp_path: Path) -> None:
    session = talk(store)
    made = run("backup").stdout.strip()
    place = tmp_path / "place.db"
    place.touch()
    run("restore", made, "--db", str(place), "--yes")
    with ChatStore.open(place, read_only=True) as restored:
        assert restored.session(session).id == session.id


def test_no_backup_yet(run: Run, store: ChatStore) -> None:
    result = run("backup", "--list")
    assert result.stdout == ""
    assert "no backup yet" in result.stderr


def test_the_store_is_no_backup_of_itself(run: Run, store: ChatStore) -> None:
    talk(store)
    assert "the store itself" in run("restore", str(store.path), "--yes", code=1).stderr


def test_old_backups_make_room_as_configured(run: Run, store: ChatStore, home: Path) -> None:
    (home / "config.toml").write_text("[backups]\nkeep_count = 2\n")
    made = [run("backup").stdout.strip() for _ in range(3)]
    kept = [one["path"] for one in document(run("backup", "--list", "--json"))["backups"]]
    assert len(kept) == 2
    assert made[-1] in kept

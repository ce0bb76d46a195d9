"""backup and restore."""

import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document, talk
from threadkeep import ChatStore, Home


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
    assert "already exists" in run("backup", str(target), code=1).stderr
    assert run("backup", str(tmp_path)).stdout.strip().startswith(str(tmp_path / "chat-"))


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["restore", "nowhere"], 3, "there is no backup 'nowhere'"),
        (["restore", "last", "--yes"], 3, "there is no backup 'last'"),
        (["backup"], 3, "there is no store in"),
        (["backup", "--store", "chat"], 3, "there is no chat store"),
        (["backup", "--db", "nowhere.db"], 3, "nowhere.db"),
        (["restore"], 2, "Which backup"),
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
    assert "No backups yet" in result.stderr


def test_the_store_is_no_backup_of_itself(run: Run, store: ChatStore) -> None:
    talk(store)
    assert "the store itself" in run("restore", str(store.path), "--yes", code=1).stderr


def test_old_backups_make_room_as_configured(run: Run, store: ChatStore, home: Path) -> None:
    (home / "config.toml").write_text("[backups]\nkeep_count = 2\n")
    made = [run("backup").stdout.strip() for _ in range(3)]
    kept = [one["path"] for one in document(run("backup", "--list", "--json"))["backups"]]
    assert len(kept) == 2
    assert made[-1] in kept


# ---------------------------------------------------------------------- every store


STORES = ("chat", "state", "mailbox", "knowledge")


@pytest.fixture
def stores(home: Path) -> dict[str, Path]:
    """Begin every store; give their files."""
    found = Home(home)
    for opened in (found.chat(), found.state(), found.mailroom(), found.knowledge()):
        opened.close()
    return {name: found.store_path(name) for name in STORES}


def test_without_a_store_every_one_is_copied_and_listed(
    run: Run, stores: dict[str, Path], tmp_path: Path
) -> None:
    made = [Path(line) for line in run("backup").stdout.split()]
    assert [path.name.partition("-")[0] for path in made] == list(STORES)
    listed = document(run("backup", "--list", "--json"))["backups"]
    assert {(one["store"], one["path"]) for one in listed} == set(
        zip(STORES, map(str, made), strict=True)
    )
    text = run("backup", "--list").stdout
    assert all(str(path) in text for path in made)
    told = document(run("backup", str(tmp_path), "--json"))
    assert [one["store"] for one in told["backups"]] == list(STORES)
    assert all(Path(one["path"]).parent == tmp_path for one in told["backups"])
    refused = run("backup", str(tmp_path / "one.db"), code=2)
    assert "--store" in refused.stderr
    assert len(run("backup", "--list", "--jsonl").stdout.splitlines()) == len(STORES)


@pytest.mark.parametrize("store", STORES)
def test_where_there_is_one_store_it_is_the_one_that_is_meant(
    run: Run, stores: dict[str, Path], store: str
) -> None:
    for other in set(STORES) - {store}:
        stores[other].unlink()
    made = run("backup").stdout.strip()
    assert made in run("backup", "--list").stdout
    for name in (made, Path(made).name, "last"):
        told = document(run("restore", name, "--yes", "--json"))
        assert told["restored"] == str(stores[store])


@pytest.mark.parametrize("store", STORES)
def test_a_backup_tells_by_itself_which_store_it_is_of(
    run: Run, stores: dict[str, Path], store: str, tmp_path: Path
) -> None:
    run("backup", "--store", store, str(tmp_path / "copy.db"))
    told = document(run("restore", str(tmp_path / "copy.db"), "--yes", "--json"))
    assert told["restored"] == str(stores[store])
    run("restore", str(tmp_path / "copy.db"), "--db", str(tmp_path / "new.db"), "--yes")
    run("backup", str(tmp_path / "again.db"), "--db", str(tmp_path / "new.db"))
    assert run("backup", "--list", "--db", str(tmp_path / "new.db")).stdout == ""
    assert run("backup", "--list", "--db", str(tmp_path / "missing.db")).stdout == ""
    other = next(name for name in STORES if name != store)
    refused = run("restore", str(tmp_path / "copy.db"), "--store", other, code=2)
    assert f"is a backup of the {store} store, not of the {other} store" in refused.stderr
    into = ("restore", str(tmp_path / "copy.db"), "--db", str(stores[other]), "--yes")
    assert f"is a {other} store" in run(*into, code=1).stderr


def test_the_last_of_several_stores_must_be_named(run: Run, stores: dict[str, Path]) -> None:
    run("backup")
    refused = run("restore", "last", "--yes", code=2)
    assert "there are backups of 4 stores: " in refused.stderr
    assert "`threadkeep restore last --store " in refused.stderr
    told = document(run("restore", "last", "--store", "knowledge", "--yes", "--json"))
    assert told["restored"] == str(stores["knowledge"])


def test_a_damaged_store_keeps_no_other_from_its_backup(run: Run, stores: dict[str, Path]) -> None:
    stores["state"].write_bytes(b"no database" * 1000)
    result = run("backup", code=1)
    assert len(result.stdout.split()) == len(STORES) - 1
    assert "no backup of the state store" in result.stderr


def test_a_damaged_backup_is_still_the_backup_of_its_store(
    run: Run, stores: dict[str, Path]
) -> None:
    made = Path(run("backup", "--store", "knowledge").stdout.strip())
    made.write_bytes(b"no database" * 1000)
    refused = run("restore", "last", "--yes", code=1)
    assert "is not a database" in refused.stderr
    run("backup", "--db", str(made), code=2)


def test_what_is_no_backup_is_told(run: Run, stores: dict[str, Path], tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "foreign.db") as database:
        database.execute("CREATE TABLE theirs(x)")
    database.close()
    refused = run("restore", str(tmp_path / "foreign.db"), "--yes", code=2)
    assert "is not a backup of a store" in refused.stderr
    refused = run("backup", "--db", str(tmp_path / "foreign.db"), code=2)
    assert "is not a store that this program knows" in refused.stderr


def test_the_last_is_none_that_a_wrong_clock_made(run: Run, store: ChatStore) -> None:
    session = talk(store, "long ago")
    made = Path(run("backup").stdout.strip())
    future = made.with_name("chat-22260101T000000.000Z-1-manual.db")
    made.rename(future)
    store.set_title(session, "lately")
    lately = run("backup").stdout.strip()
    store.set_title(session, "now")
    listed = [one["path"] for one in document(run("backup", "--list", "--json"))["backups"]]
    assert listed == [lately, str(future)]
    assert document(run("restore", "last", "--yes", "--json"))["backup"] == lately
    assert store.session(session).title == "lately"


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("damage", ["cut", "overwritten", "no header"])
def test_a_damaged_file_from_elsewhere_is_told_as_one(
    run: Run, stores: dict[str, Path], store: str, damage: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    run("backup", "--store", store, str(copy))
    content = copy.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    copy.write_bytes(
        {
            "cut": content[: len(content) // 2],
            # The first page whole but for the cells: the names of the tables are lost.
            "overwritten": content[:100] + b"\xaa" * (size * 4 - 100) + content[size * 4 :],
            "no header": b"?" * 100 + content[100:],
        }[damage]
    )
    refused = run("restore", str(copy), "--yes", code=1).stderr
    assert "fails its check" in refused
    assert "`threadkeep restore`" not in refused  # that is what was just tried
    assert run("backup", "--list").stdout == ""  # nothing was replaced


@pytest.mark.parametrize(
    "store, change",
    [
        ("chat", "PRAGMA user_version = 99"),
        ("chat", "UPDATE tk_meta SET value = '99' WHERE key = 'schema_version'"),
        ("mailbox", "PRAGMA user_version = 99"),
        ("knowledge", "PRAGMA user_version = 99"),
    ],
)
def test_a_backup_of_a_newer_program_takes_the_place_of_no_store(
    run: Run, stores: dict[str, Path], store: str, change: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    run("backup", "--store", store, str(copy))
    with sqlite3.connect(copy) as database:
        database.execute(change)
    database.close()
    for words in (["--dry-run"], ["--yes"]):
        refused = run("restore", str(copy), *words, code=5).stderr
        assert "99" in refused
        assert "upgrade threadkeep" in refused
    assert run("backup", "--list").stdout == ""


def test_the_file_of_hermes_gets_no_copy_beside_it_unless_it_is_named(
    run: Run, stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "hermes"
    theirs.mkdir()
    stores["state"].rename(theirs / "state.db")
    monkeypatch.setenv("HERMES_HOME", str(theirs))
    assert len(run("backup").stdout.split()) == len(STORES) - 1
    assert not (theirs / "backups").exists()
    assert run("backup", "--store", "state").stdout.startswith(str(theirs / "backups"))

"""Masks that were wrong are undone: the log is read again, everywhere the text comes back."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from tests.capture.redact.formats import draw, pem
from tests.support.forgetting import ran, said, texts, write_claude
from tests.support.user_homes import assert_sound, open_history
from threadkeep.capture.capture import History
from threadkeep.cli.root import cli
from threadkeep.errors import Invalid, NotFound

TOKEN = draw(Random(1), "ghp_[0-9a-zA-Z]{36}")
PASSWORD = draw(Random(2), "[a-z]{4}[0-9]{3}[A-Z]{3}[0-9]{2}")
WORDS = f"duck token {TOKEN} and password={PASSWORD} here"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return a home and a user whose log holds two secrets, captured."""
    home, user = tmp_path / "home", tmp_path / "user"
    write(user)
    with open_history(home, user) as history:
        history.capture()
        assert TOKEN not in str(texts(history, "s1"))
    return home, user


def write(user: Path, *more: str) -> Path:
    told = [said("s1", 1, WORDS), *ran("s1", 2, f"echo {TOKEN}", f"out {TOKEN}")]
    told += [said("s1", 9 + n, text) for n, text in enumerate(more)]
    return write_claude(user, "s1", told)


def everything(history: History) -> str:
    found = [str(hit) for hit in history.search("duck")]
    return " ".join([*found, *texts(history, "s1"), *map(str, history.raw(history.find("s1")))])


def commands_with(home: Path, text: str) -> int:
    """Count the commands in which a text stands."""
    with closing(sqlite3.connect(home / "knowledge.db")) as connection:
        asked = "SELECT count(*) FROM events WHERE instr(command, ?)"
        return int(connection.execute(asked, (text,)).fetchone()[0])


def test_a_rule_is_undone_and_the_others_stay(places: tuple[Path, Path]) -> None:
    with open_history(*places) as history:
        done = history.undo_masks("github-token")
        assert (done.logs, done.rules["github-token"], done.gone) == (1, done.masks, [])
        assert f"duck token {TOKEN} and password=[REDACTED] here" in texts(history, "s1")
        assert PASSWORD not in everything(history)
    assert_sound(places[0] / "knowledge.db")
    assert commands_with(places[0], TOKEN) == 1
    with closing(sqlite3.connect(places[0] / "knowledge.db")) as connection:
        noted = connection.execute("SELECT DISTINCT rule FROM tk_masks").fetchall()
        assert noted == [("password-assignment",)]


def test_a_session_is_undone_whole_and_found_by_its_words(places: tuple[Path, Path]) -> None:
    with open_history(*places) as history:
        history.undo_masks("s1")
        assert WORDS in texts(history, "s1")
        assert history.search(PASSWORD)


def test_what_was_undone_is_not_masked_again(places: tuple[Path, Path]) -> None:
    home, user = places
    with open_history(home, user) as history:
        history.undo_masks("s1")
    path = write(user, "one more line")
    with open_history(home, user) as history:
        history.capture()
        path.unlink()
        write(user, "one more line", f"again {TOKEN}")  # rewritten: another file of the same name
        history.capture()
        assert history.rescan().lines == 0
        assert texts(history, "s1").count(WORDS) == 1
        assert f"again {TOKEN}" in texts(history, "s1")
    assert commands_with(home, TOKEN) == 1


def test_another_session_is_still_masked(places: tuple[Path, Path]) -> None:
    home, user = places
    with open_history(home, user) as history:
        history.undo_masks("github-token")
        write_claude(user, "s2", [said("s2", 1, WORDS)])
        history.capture()
        assert TOKEN not in str(texts(history, "s2"))


def test_a_dry_run_says_the_same_and_changes_nothing(places: tuple[Path, Path]) -> None:
    with open_history(*places) as history:
        told = history.undo_masks("s1", dry_run=True)
        assert TOKEN not in everything(history)
        assert told == history.undo_masks("s1")


def test_a_log_that_is_gone_is_named(places: tuple[Path, Path]) -> None:
    home, user = places
    path = write(user)
    path.unlink()
    with open_history(home, user) as history:
        done = history.undo_masks("s1")
        assert (done.lines, done.gone) == (0, [str(path)])
        assert TOKEN not in everything(history)


def test_a_line_that_says_something_else_now_is_not_taken(places: tuple[Path, Path]) -> None:
    home, user = places
    path = write(user)
    path.write_text(path.read_text().replace("duck token", "goose coin"))
    with open_history(home, user) as history:
        done = history.undo_masks("s1")
        assert "goose" not in everything(history)
        assert "duck token [REDACTED]" in everything(history)
        assert done.unlike > 0


def test_masks_without_a_note_are_found_by_their_marker(places: tuple[Path, Path]) -> None:
    home, user = places
    with closing(sqlite3.connect(home / "knowledge.db")) as connection:
        connection.execute("DELETE FROM tk_masks")
        connection.commit()
    with open_history(home, user) as history:
        history.undo_masks("s1")
        assert WORDS in texts(history, "s1")


def test_a_store_from_before_there_were_notes_can_be_looked_at(places: tuple[Path, Path]) -> None:
    home, user = places
    with closing(sqlite3.connect(home / "knowledge.db")) as connection:
        connection.executescript("DROP TABLE tk_masks; DROP TABLE tk_exempt_rules")
    options = ["--home", str(home), "redact"]
    for asked in (["undo", "--dry-run", "s1"], ["rescan", "--dry-run"]):
        told = CliRunner(env={"HOME": str(user)}).invoke(cli, [*options, *asked])
        assert told.exit_code == 0, told.stderr


def test_private_parts_stay_private(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write_claude(user, "s1", [said("s1", 1, f"{TOKEN} <private>my diary</private> end")])
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        history.undo_masks("s1")
        assert texts(history, "s1") == [f"{TOKEN} [PRIVATE] end"]
        with pytest.raises(Invalid):
            history.undo_masks("private")


def test_a_key_in_lines_comes_back_line_by_line(tmp_path: Path) -> None:
    user, home = tmp_path / "user", tmp_path / "home"
    lines = pem(Random(3)).split("\n")
    path = write_claude(user, "s1", [said("s1", 1, "look")])
    with path.open("a") as log:
        log.write("\n".join([*lines, "behind"]) + "\n")
    with open_history(home, user) as history:
        history.capture()
        kept = b"\n".join(history.raw(history.find("s1"))).decode()
        assert not any(line[8:40] in kept for line in lines[1:-1])
        history.undo_masks("pem-private-key")
        assert b"\n".join(history.raw(history.find("s1"))).decode() == path.read_text().strip()


def test_a_document_is_undone_too(tmp_path: Path) -> None:
    user, home = tmp_path / "user", tmp_path / "home"
    chat = user / "projects" / "app" / ".aider.chat.history.md"
    chat.parent.mkdir(parents=True)
    chat.write_text(f"\n# aider chat started at 2026-05-01 10:00:00\n\n#### {WORDS}\n\nsure\n")
    with open_history(home, user) as history:
        history.capture()
        (session,) = history.sessions()
        assert TOKEN not in str(texts(history, session.session_id))
        history.undo_masks(session.session_id)
        assert WORDS in texts(history, session.session_id)
        chat.write_text(chat.read_text() + f"\n#### again {TOKEN}\n\nyes\n")
        history.capture()
        assert texts(history, session.session_id).count(WORDS) == 1


def test_a_name_that_is_neither_is_refused(places: tuple[Path, Path]) -> None:
    with open_history(*places) as history, pytest.raises(NotFound):
        history.undo_masks("no-such-thing")


def test_the_command_tells_what_it_puts_back(places: tuple[Path, Path]) -> None:
    home, user = places
    path = write(user)
    options = ["--home", str(home), "redact", "undo", "github-token"]
    told = CliRunner(env={"HOME": str(user)}).invoke(cli, [*options, "--dry-run"])
    assert told.exit_code == 0, told.stderr
    assert "would put back 3 lines of 1 log" in told.stderr
    path.unlink()
    told = CliRunner(env={"HOME": str(user)}).invoke(cli, [*options, "--json"])
    assert json.loads(told.stdout)["undo"]["gone"] == [str(path)]


def test_the_test_command_says_why() -> None:
    text = f"one\napi_key = '{draw(Random(4), '[A-Za-z0-9]{32}')}'"
    told = CliRunner().invoke(cli, ["redact", "test", text, "--json"])
    (found,) = json.loads(told.stdout)["findings"]
    assert (found["rule"], found["line"]) == ("secret-assignment", 2)
    assert "`key`" in found["why"]
    assert "32 characters" in found["why"]

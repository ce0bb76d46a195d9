"""Titles as version 6 has them: cleaned, unique, resolved, numbered along a lineage."""

import pytest

from threadkeep.state.hermes_state import SessionDB


@pytest.fixture
def two(db: SessionDB) -> SessionDB:
    db.create_session("a", "cli")
    db.create_session("b", "telegram")
    return db


def titled(db: SessionDB, session_id: str, title: str) -> None:
    db.ensure_session(session_id, "cli")
    assert db.set_session_title(session_id, title) is True


# ---------------------------------------------------------------------- cleaning


@pytest.mark.parametrize(
    "given, wanted",
    [
        (None, None),
        ("", None),
        ("   ", None),
        ("\u200b\ufeff", None),
        ("  Fix  the\tDocker\r\nbuild ", "Fix the Docker build"),
        ("no\x00 con\x1ftrols\x7f", "no controls"),
        ("\x0bver\x0ctical", "vertical"),
        ("zero\u200bwidth\u200f", "zerowidth"),
        ("line\u2028sep\u202earation", "lineseparation"),
        ("word\u2060joiner\u2069", "wordjoiner"),
        ("\ufeffmark\ufff9ed\ufffc", "marked"),
        ("hard\u00a0space\u3000wide", "hard space wide"),
        ("日本語 タイトル", "日本語 タイトル"),
        ("emoji 👍", "emoji 👍"),
        ("x" * 100, "x" * 100),
        (" " + "x" * 100 + "\n", "x" * 100),
        ("é" * 100, "é" * 100),
    ],
)
def test_title_is_cleaned(given: str | None, wanted: str | None) -> None:
    assert SessionDB.sanitize_title(given) == wanted


@pytest.mark.parametrize("title", ["x" * 101, "日" * 101])
def test_title_over_100_characters_is_refused(title: str) -> None:
    with pytest.raises(ValueError, match=r"Title too long \(101 chars, max 100\)"):
        SessionDB.sanitize_title(title)


def test_length_is_counted_after_cleaning() -> None:
    assert SessionDB.sanitize_title("x " * 50 + " " * 60) == ("x " * 50).strip()


def test_cleaning_works_on_an_object_too(db: SessionDB) -> None:
    assert db.sanitize_title(" a ") == "a"


# ---------------------------------------------------------------------- setting


def test_clash_is_seen_before_the_session_is_missed(two: SessionDB) -> None:
    two.set_session_title("a", "Taken")
    with pytest.raises(ValueError, match="already in use"):
        two.set_session_title("nobody", "Taken")


@pytest.mark.parametrize("nothing", ["", None, "  "])
def test_title_can_be_taken_away(two: SessionDB, nothing: str | None) -> None:
    two.set_session_title("a", "Mine")
    assert two.set_session_title("a", nothing) is True
    assert two.get_session_title("a") is None
    assert two.set_session_title("b", "Mine") is True


def test_case_makes_another_title(two: SessionDB) -> None:
    two.set_session_title("a", "Docker")
    assert two.set_session_title("b", "docker") is True


# ---------------------------------------------------------------------- finding


def test_session_by_title_is_exact(two: SessionDB) -> None:
    two.set_session_title("a", "Docker")
    assert two.get_session_by_title("Docker") == two.get_session("a")
    assert two.get_session_by_title("docker") is None
    assert two.get_session_by_title("Dock") is None


def test_variant_alone_is_enough(db: SessionDB) -> None:
    titled(db, "a", "Docker #2")
    assert db.resolve_session_by_title("Docker") == "a"


def test_wildcards_in_a_title_are_plain_characters(db: SessionDB) -> None:
    titled(db, "a", "100x #2")
    titled(db, "b", "a_b")
    assert db.resolve_session_by_title("100%") is None
    assert db.resolve_session_by_title("100_") is None
    assert db.resolve_session_by_title("a_b") == "b"


# ---------------------------------------------------------------------- numbering


def test_next_title_is_always_one_that_can_be_set(db: SessionDB) -> None:
    title = "x" * 100
    seen = set()
    for number in range(12):
        title = db.get_next_title_in_lineage(title)
        assert len(title) <= 100
        assert title not in seen
        seen.add(title)
        titled(db, f"s{number}", title)

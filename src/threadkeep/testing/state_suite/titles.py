"""Titles: unique, resolved to the newest of a lineage, numbered along it."""

import pytest

from threadkeep.testing.state_suite.talk import Factory, session_of


def test_a_title_is_set_and_read_back(state_factory: Factory) -> None:
    """Session titles: a title is set by id, and spare blanks are taken away."""
    db = state_factory.open()
    db.create_session("s", "cli")
    assert db.get_session_title("s") is None
    assert db.set_session_title("s", "  Fix \n Docker Build ") is True
    assert db.get_session_title("s") == session_of(db, "s")["title"] == "Fix Docker Build"


def test_a_title_is_unique(state_factory: Factory) -> None:
    """Session titles: a title is unique among those that are set; its own may be set again."""
    db = state_factory.open()
    db.create_session("a", "cli")
    db.create_session("b", "telegram")
    db.set_session_title("a", "Taken")
    with pytest.raises(ValueError, match="already in use"):
        db.set_session_title("b", "Taken")
    assert db.get_session_title("b") is None
    assert db.set_session_title("a", "Taken") is True


def test_any_number_of_sessions_may_be_without_a_title(state_factory: Factory) -> None:
    """Schema version 4: the index allows any number of NULLs; a title taken away is free again."""
    db = state_factory.open()
    db.create_session("a", "cli")
    db.create_session("b", "cli")
    db.set_session_title("a", "Mine")
    assert db.set_session_title("a", "") is True
    assert db.get_session_title("a") is None
    assert db.set_session_title("b", "Mine") is True


def test_an_unknown_session_gets_no_title(state_factory: Factory) -> None:
    """Session titles: False says that there was no such session."""
    db = state_factory.open()
    assert db.set_session_title("nobody", "Free") is False


def test_a_title_over_100_characters_is_refused(state_factory: Factory) -> None:
    """Session titles: 100 characters are the most, and a longer one changes nothing."""
    db = state_factory.open()
    db.create_session("s", "cli")
    assert db.set_session_title("s", "x" * 100) is True
    with pytest.raises(ValueError, match="too long"):
        db.set_session_title("s", "y" * 101)
    assert db.get_session_title("s") == "x" * 100


def test_a_title_resolves_to_its_session(state_factory: Factory) -> None:
    """Session titles: a title gives the id of its session, and None if there is none."""
    db = state_factory.open()
    db.create_session("s", "cli")
    db.set_session_title("s", "Fix Docker Build")
    assert db.resolve_session_by_title("Fix Docker Build") == "s"
    assert db.resolve_session_by_title("Fix Docker") is None
    assert db.get_session_by_title("Fix Docker Build") == db.get_session("s")


def test_a_title_resolves_to_the_newest_of_its_lineage(state_factory: Factory) -> None:
    """Session titles: a title means the most recent session in its lineage."""
    db = state_factory.open()
    for session_id, title in (("a", "Docker"), ("c", "Docker #3"), ("b", "Docker #2")):
        db.create_session(session_id, "cli")
        db.set_session_title(session_id, title)
    assert db.resolve_session_by_title("Docker") == "b"
    assert db.resolve_session_by_title("Docker #3") == "c"


@pytest.mark.parametrize(
    "present, asked, wanted",
    [
        ([], "Docker", "Docker"),
        ([], "Docker #7", "Docker"),
        (["Docker"], "Docker", "Docker #2"),
        (["Docker"], "Docker #2", "Docker #2"),
        (["Docker #3"], "Docker", "Docker #4"),
        (["Docker", "Docker #2", "Docker #5"], "Docker", "Docker #6"),
        (["Docker", "Docker #2"], "Docker #2", "Docker #3"),
        (["Docker compose"], "Docker", "Docker"),
        (["100x #4"], "100%", "100%"),
    ],
)
def test_titles_are_numbered_along_a_lineage(
    state_factory: Factory, present: list[str], asked: str, wanted: str
) -> None:
    """Session titles: the next title of a lineage is `title #N` with the next number."""
    db = state_factory.open()
    for number, title in enumerate(present):
        db.create_session(f"s{number}", "cli")
        db.set_session_title(f"s{number}", title)
    assert db.get_next_title_in_lineage(asked) == wanted

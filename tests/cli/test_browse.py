"""ls, search and size."""

from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document, talk
from threadkeep import ChatStore
from threadkeep.cli.output import _console, fitting


def listed(run: Run, *words: str) -> list[str]:
    return [line.split("\t")[0] for line in run("chat", "ls", *words).stdout.splitlines()]


def test_ls_lists_the_newest_session_first(run: Run, store: ChatStore) -> None:
    first, second = talk(store, "first"), talk(store, "second")
    assert listed(run) == [second.id, first.id]


def test_ls_filters(run: Run, store: ChatStore) -> None:
    plain = talk(store, "release notes")
    other = store.create_session(agent="plan", model="p/m", workspace_root="/src", title="other")
    branch = store.fork(plain)
    old = store.archive(talk(store, "old"))
    aside = store.fork(plain, metadata={"ephemeral": True})
    assert listed(run, "--agent", "plan") == [other.id]
    assert listed(run, "--workspace", "/src") == [other.id]
    assert listed(run, "--parent", plain.id) == [branch.id]
    assert set(listed(run, "--title", "release")) == {plain.id, branch.id}
    assert listed(run, "--archived") == [old.id]
    assert set(listed(run)) == {plain.id, other.id, branch.id}
    assert set(listed(run, "--all")) == {plain.id, other.id, branch.id, old.id, aside.id}


def test_ls_goes_on_where_a_page_ended(run: Run, store: ChatStore) -> None:
    ids = {talk(store, f"session {n}").id for n in range(3)}
    page = document(run("chat", "ls", "--limit", "2", "--json"))
    cursor = page["next_cursor"]
    rest = document(run("chat", "ls", "--limit", "2", "--cursor", cursor, "--json"))
    assert {one["id"] for one in page["sessions"] + rest["sessions"]} == ids
    assert rest["next_cursor"] is None
    assert f"--cursor {cursor}" in run("chat", "ls", "--limit", "2").stderr


def test_ls_refuses_a_page_that_is_too_long(run: Run, store: ChatStore) -> None:
    assert "1 to 500" in run("chat", "ls", "--limit", "501", code=2).stderr


def test_ls_shows_a_hostile_title_as_plain_text(run: Run, store: ChatStore) -> None:
    talk(store, f"two\nlines {HOSTILE}")
    (line,) = run("chat", "ls").stdout.splitlines()
    assert "two lines red [bold]markup[/bold]" in line
    assert not set(line) & {"\x1b", "\x07", "\u202e"}


def test_json_keeps_a_hostile_title_but_not_its_characters(run: Run, store: ChatStore) -> None:
    title = f"{HOSTILE} \x9b31m \udc80 \U000e0041"
    talk(store, title)
    result = run("chat", "ls", "--json")
    assert result.stdout.isascii()
    assert document(result)["sessions"][0]["title"] == title


def test_ls_says_where_to_look_when_nothing_matches(run: Run, store: ChatStore) -> None:
    result = run("chat", "ls")
    assert result.stdout == ""
    assert "--all" in result.stderr


def test_ls_does_not_begin_a_store(run: Run, home: Path) -> None:
    run("chat", "ls", code=3)
    assert not home.exists()


def test_ls_of_another_file(run: Run, tmp_path: Path) -> None:
    with ChatStore.open(tmp_path / "other.db") as other:
        session = talk(other)
    path = str(tmp_path / "other.db")
    for words in (["chat", "--db", path, "ls"], ["chat", "ls", "--db", path]):
        assert session.id in run(*words).stdout


def test_search_finds_words_and_shows_where(run: Run, store: ChatStore) -> None:
    session = talk(store, HOSTILE, reply=f"the {HOSTILE} timestamps are equal")
    result = run("chat", "search", "timestamps")
    assert session.id in result.stdout
    assert "timestamps are equal" in result.stdout
    assert not set(result.stdout) & {"\x1b", "\x07", "\u202e"}


def test_search_in_json(run: Run, store: ChatStore) -> None:
    session = talk(store, reply="equal timestamps")
    (hit,) = document(run("chat", "search", "equal", "timestamps", "--json"))["hits"]
    assert (hit["session_id"], hit["role"], hit["type"]) == (session.id, "assistant", "text")
    assert ">>>" in hit["snippet"]


def test_search_filters(run: Run, store: ChatStore) -> None:
    first, second = talk(store, reply="needle one"), talk(store, reply="needle two")
    store.archive(second)

    def found(*words: str) -> set[str]:
        hits = document(run("chat", "search", "needle", "--json", *words))["hits"]
        return {hit["session_id"] for hit in hits}

    assert found() == {first.id}
    assert found("--all") == {first.id, second.id}
    assert found("--session", first.id) == {first.id}
    assert found("--role", "user") == set()
    assert found("--agent", "plan") == set()
    assert found("--since", "1h") == {first.id}


def test_search_says_when_nothing_is_found(run: Run, store: ChatStore) -> None:
    assert run("chat", "search", "nowhere").stderr == "nothing found\n"


def test_search_refuses_an_age_it_cannot_read(run: Run, store: ChatStore) -> None:
    assert "12h, 7d" in run("chat", "search", "x", "--since", "someday", code=2).stderr


def test_size(run: Run, store: ChatStore) -> None:
    session = talk(store, HOSTILE)
    shown = run("chat", "size").stdout
    assert "chat_messages\t2 rows" in shown
    assert session.id in shown
    assert "\x1b" not in shown
    size = document(run("chat", "size", "--json"))["size"]
    assert size["rows"]["chat_messages"] == 2
    assert size["largest"][0]["session_id"] == session.id


WIDTHS = {"id": 30, "updated": 16, "agent": 5, "model": 12, "tokens": 6, "cost": 7, "title": 60}
SPARE = ("cost", "model", "tokens", "agent", "updated")


@pytest.mark.parametrize("room", [20, 60, 80, 100, 120, 200])
def test_the_title_has_room_before_anything_else(room: int) -> None:
    kept = fitting(WIDTHS, "title", SPARE, room)
    left = room - sum(WIDTHS[name] + 2 for name in kept if name != "title")
    assert {"id", "title"} <= set(kept)
    assert left >= 24 or kept == ["id", "title"]
    assert room < 200 or kept == list(WIDTHS)


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_person_can_read_ids_and_titles(
    columns: str, run: Run, store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(store, "Release notes of May")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("threadkeep.cli.output._console", _console.__wrapped__)
    shown = run("chat", "ls").stdout
    assert session.id in shown
    assert "Release notes of May" in shown
    assert "…" not in shown

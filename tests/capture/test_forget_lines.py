"""Forgetting by pattern and by time: single lines go, with all that came of them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.forgetting import (
    MINUTE,
    NOON,
    Record,
    add_node,
    all_sessions,
    bytes_left,
    knowledge_file,
    masked_history,
    plant_rows,
    ran,
    rows,
    said,
    texts,
    write_claude,
)
from tests.support.user_homes import assert_sound, made_up_home, open_history
from threadkeep.capture.forget import ForgetReport
from threadkeep.capture.forget_selection import strings_in
from threadkeep.knowledge.query import Query

SECRET = "zanzibar"


def spoken(session: str) -> list[Record]:
    """A session of whose four exchanges the second says what is to be forgotten."""
    return [
        said(session, 1, "count the ducks"),
        *ran(session, 2, "make duck", "quack"),
        said(session, 3, "now ZANZIBAR-77", toolUseResult={"deep": ["in zanzibar-77"]}),
        *ran(session, 4, "make goose", "flies to zanzibar-77"),
        said(session, 5, "thanks for the geese"),
    ]


def test_lines_in_which_a_pattern_is_found_go_and_their_bytes_with_them(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", spoken("s1"))
    write_claude(user, "s2", [said("s2", 1, "a swan")])
    with masked_history(file, user) as history:
        history.capture()
        swan = all_sessions(history)["s2"]
        what = Query(pattern="(?i)zanzibar-\\d+")
        planned = history.forget(what, dry_run=True)
        assert history.forget(what) == planned
        assert (planned.sessions, planned.lines, planned.entries, planned.observed) == (0, 2, 2, 0)
        assert planned.examples == [f"{user}/.claude/projects/-u-pond/s1.jsonl:{n}" for n in (4, 6)]
        told = texts(history, "s1")
        assert [text for text in told if "thanks" in text or "count" in text] == [told[0], told[-1]]
        assert all_sessions(history)["s2"] == swan
        assert not history.search("zanzibar")
        assert history.search("geese")
        assert SECRET.encode() not in bytes_left(file).lower()
        assert history.forget(what) == ForgetReport()
    assert SECRET.encode() not in bytes_left(file).lower()
    assert rows(file, "SELECT stdout FROM events ORDER BY timestamp") == [("quack",), (None,)]
    assert_sound(file)


def test_a_forgotten_line_does_not_come_back(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    path = write_claude(user, "s1", spoken("s1"))
    with masked_history(file, user) as history:
        history.capture()
        history.forget(Query(pattern="(?i)zanzibar"))
        kept = texts(history, "s1")
        write_claude(user, "s1", [said("s1", 0, "a new beginning"), *spoken("s1")])
        history.capture()
        assert sorted(texts(history, "s1")) == sorted([*kept, "a new beginning"])
        path.unlink()
        write_claude(user, "s1", spoken("s1"), project="-u-elsewhere")
        history.capture()
        write_claude(user, "s9", spoken("s1"))
        history.capture()
        assert "count the ducks" in texts(history, "s9")
    assert SECRET.encode() not in bytes_left(file).lower()


def test_a_pattern_is_looked_for_in_every_table(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck"), *ran("s1", 2, "make duck", "quack")])
    with masked_history(file, user) as history:
        history.capture()
    (segment,) = (r[0] for r in rows(file, "SELECT id FROM agentic_sessions"))
    plant_rows(file, SECRET)
    kept = add_node(file, "a duck", segment=segment)
    lost = add_node(file, f"a duck in {SECRET}", segment=segment)
    assert bytes_left(file).count(SECRET.encode()) >= 15
    with masked_history(file, user) as history:
        what = Query(pattern=SECRET)
        planned = history.forget(what, dry_run=True)
        assert history.forget(what) == planned
        assert planned.lines == 0
        assert planned.nodes == 1
        assert planned.observed == 3  # of the shell, of the browser, of CI
        assert texts(history, "s1")[0] == "a duck"
    assert rows(file, "SELECT id FROM knowledge_nodes") == [(kept,)]
    assert kept != lost
    assert rows(file, "SELECT command FROM events WHERE source_kind = 'shell'") == [("ls",)]
    assert rows(file, "SELECT url FROM browser_events") == [("https://a.b/",)]
    assert SECRET.encode() not in bytes_left(file)
    assert_sound(file)


def test_what_was_told_of_a_session_goes_with_the_line_that_told_it(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    title = {"type": "ai-title", "aiTitle": f"About {SECRET}", "sessionId": "s1"}
    told = [said("s1", 1, f"first of {SECRET}"), said("s1", 2, "second"), title]
    write_claude(user, "s1", told)
    with masked_history(file, user) as history:
        history.capture()
        assert history.find("s1").name == f"About {SECRET}"
    plant_rows(file, "nothing")
    rows(file, "UPDATE claude_sessions SET session_id = 's1', summary_text = ?", f"of {SECRET}")
    with masked_history(file, user) as history:
        assert history.forget(Query(session=("s1",), pattern=SECRET)).lines == 2
        assert history.find("s1").name == "second"
    assert rows(file, "SELECT count(*) FROM claude_sessions") == [(0,)]
    assert SECRET.encode() not in bytes_left(file)


def test_what_another_program_had_deleted_goes_from_the_free_pages_too(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck"), said("s1", 2, "a goose")])
    with masked_history(file, user) as history:
        history.capture()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(
            "INSERT INTO browser_events (timestamp, url, domain, dwell_ms, extracted_text,"
            " created_at) VALUES (1, 'u', 'd', 1, ?, 1)",
            (f"{SECRET} " * 9000,),
        )
        connection.commit()
        connection.execute("DELETE FROM browser_events")
    assert SECRET.encode() in bytes_left(file)
    with masked_history(file, user) as history:
        history.forget(Query(pattern="goose"))
    assert SECRET.encode() not in bytes_left(file)


def test_records_of_a_document_go_and_stay_away(tmp_path: Path) -> None:
    user = made_up_home(tmp_path / "user")
    database = user / ".local" / "share" / "opencode" / "opencode.db"
    text = "json_extract(data, '$.type') = 'text'"
    with closing(sqlite3.connect(database)) as connection, connection:
        name, data = connection.execute(f"SELECT id, data FROM part WHERE {text}").fetchone()
        old = json.loads(data)["text"]
        part = json.dumps({**json.loads(data), "text": f"on {SECRET} {old}"})
        connection.execute("UPDATE part SET data = ? WHERE id = ?", (part, name))
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        before = texts(history, "ses_0a")
        what = Query(pattern=SECRET)
        assert history.forget(what).lines == 1
        kept = [said_ for said_ in before if SECRET not in said_]
        assert texts(history, "ses_0a") == kept
        with closing(sqlite3.connect(database)) as connection, connection:
            again = part.replace(SECRET, f"{SECRET} again and")
            connection.execute(
                "UPDATE part SET data = ?, time_updated = 1 << 50 WHERE id = ?", (again, name)
            )
        history.capture()
        assert texts(history, "ses_0a") == kept
    file = knowledge_file(tmp_path / "home", user)
    assert SECRET.encode() not in bytes_left(file)
    assert_sound(file)


def test_a_span_of_time_takes_sessions_inside_and_lines_of_others(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", n, f"word{n} of one") for n in range(1, 7)])
    write_claude(user, "s2", [said("s2", n, f"word{n} of two") for n in (3, 4)])
    silent_ = {"type": "progress", "timestamp": "2026-09-01T12:04:00.000Z", "data": {"x": SECRET}}
    write_claude(user, "s3", [said("s3", 1, "before"), silent_, said("s3", 9, "after")])
    with masked_history(file, user) as history:
        history.capture()
        what = Query(since=NOON + 3 * MINUTE, until=NOON + 5 * MINUTE)
        planned = history.forget(what, dry_run=True)
        assert history.forget(what) == planned
        assert (planned.sessions, planned.lines, planned.entries) == (1, 2 + 2 + 1, 4)
        assert texts(history, "s1") == [f"word{n} of one" for n in (1, 2, 5, 6)]
        assert texts(history, "s3") == ["before", "after"]
        history.capture()
        assert {one.session_id for one in history.sessions()} == {"s1", "s3"}
        one = history.find("s1")
        assert (one.entries, one.prompts) == (4, 4)
    left = bytes_left(file)
    assert b"word3" not in left
    assert SECRET.encode() not in left
    assert_sound(file)


def test_what_shells_browsers_and_ci_did_in_a_span_goes_too(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    user.mkdir()
    with masked_history(file, user) as history:
        history.capture()
    plant_rows(file, SECRET)
    with masked_history(file, user) as history:
        assert history.forget(Query(since=1, until=2, agent=("codex",))) == ForgetReport()
        assert history.forget(Query(since=1, until=2, project=("/elsewhere",))) == ForgetReport()
        assert history.forget(Query(since=1, until=2, project=("/",)), dry_run=True).observed == 1
        assert history.forget(Query(since=1, until=2)).observed == 1 + 1 + 2
    assert rows(file, "SELECT timestamp FROM events") == [(2,)]
    assert rows(file, "SELECT timestamp FROM browser_events") == [(2,)]
    assert rows(file, "SELECT count(*) FROM env_snapshots") == [(0,)]
    assert_sound(file)


def test_a_pattern_can_be_kept_to_sessions_projects_programs_and_times(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    for name in ("s1", "s2"):
        write_claude(user, name, [said(name, n, f"duck {n} of {name}") for n in (1, 2)])
    with masked_history(file, user) as history:
        history.capture()
    plant_rows(file, SECRET)
    with masked_history(file, user) as history:
        assert history.forget(Query(pattern="duck", agent=("codex",))).lines == 0
        assert history.forget(Query(pattern="duck", project=("/elsewhere",))).lines == 0
        what = Query(session=("s1",), pattern="duck", since=NOON + 2 * MINUTE)
        assert history.forget(what).lines == 1
        assert texts(history, "s1") == ["duck 1 of s1"]
        assert history.forget(Query(pattern="duck 1", project=("pond",))).lines == 2
        assert texts(history, "s2") == ["duck 2 of s2"]
        assert history.forget(Query(pattern=SECRET, project=("pond",))) == ForgetReport()
    assert rows(file, "SELECT count(*) FROM lessons") == [(1,)]


@settings(max_examples=examples(10))
@given(st.lists(st.sampled_from(["duck", "goose", "swan", "heron"]), min_size=1, max_size=6))
def test_what_stays_is_what_does_not_match(
    tmp_path_factory: pytest.TempPathFactory, birds: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("birds")
    told = [f"{bird} number {n}" for n, bird in enumerate(birds)]
    write_claude(folder / "user", "s1", [said("s1", n, text) for n, text in enumerate(told)])
    with masked_history(folder / "k.db", folder / "user") as history:
        history.capture()
        planned = history.forget(Query(pattern="goose|heron"), dry_run=True)
        assert history.forget(Query(pattern="goose|heron")) == planned
        kept = [text for text in told if "goose" not in text and "heron" not in text]
        assert texts(history, "s1") == kept
        assert planned.lines == len(told) - len(kept)
    assert b"goose number" not in bytes_left(folder / "k.db")


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(values)
def test_every_text_inside_a_value_is_found(value: object) -> None:
    found = sorted(strings_in(value))
    assert found == sorted(_flat(value))


def _flat(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in _flat(item))]
    if isinstance(value, list):
        return [text for item in value for text in _flat(item)]
    return [value] if isinstance(value, str) else []

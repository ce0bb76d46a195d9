"""Cursor's transcripts: what is read from them, and which of them are read at all."""

import json
import os
import shutil
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.cursor_support import (
    CHAT,
    FIXTURES,
    MTIME_MS,
    ChatStore,
    composer,
    editor_database,
    log_at,
    transcript,
    user,
)
from tests.sources.source_support import any_json, broken, feed, lines_of
from threadkeep.base.sqlite import foreign
from threadkeep.knowledge.records import Segment
from threadkeep.knowledge.segments import content_hash, prompts_json, tools_json
from threadkeep.sources.cursor.agent_transcripts import SOURCE, slug_of
from threadkeep.sources.cursor.messages import split_user_text, spoken_ms
from threadkeep.sources.cursor.paths import encode, folder_of
from threadkeep.sources.records import Log

LOG = log_at(
    f"/home/ann/.cursor/projects/home-ann-my-app/agent-transcripts/{CHAT}/{CHAT}.jsonl",
    session_id=CHAT,
    project_dir="/home/ann/my/app",
)
RECORDS = lines_of((FIXTURES / "transcript.jsonl").read_bytes())
FIRST_MS = 1_784_628_660_000  # 2026-07-21T10:11:00Z


def test_the_fixture_is_read_in_full() -> None:
    result = feed(SOURCE, LOG, RECORDS)
    assert result.of("prompt") == [
        "Why does the parser drop the last line?",
        "Add a test for it, please",
    ]
    assert result.of("reasoning") == ["The tail has no line feed."]
    assert result.of("text") == ["Let me look at it.", "The last line is kept now.", "Done."]
    assert result.of("tool_call") == [
        "path: /home/ann/my-app/src/parser.py\nlimit: 40",
        "cd /home/ann/my-app && pytest -q\ndescription: Run the tests",
    ]
    assert result.of("tool_result") == ["1 failed\n[image]"]
    assert result.of("note")[1:] == [
        "[image]",
        "<system_reminder>You are in plan mode.</system_reminder>",
        "The connection was lost",
    ]
    assert result.of("note")[0].startswith("<user_info>")
    assert result.unknown == {"block/hologram": 1, "type/heartbeat": 1}


def test_keys_are_line_numbers_and_times_those_of_the_prompts() -> None:
    entries = feed(SOURCE, LOG, RECORDS).entries
    assert [entry.key for entry in entries[:5]] == ["0", "0#1", "1", "1#1", "1#2"]
    assert len({entry.key for entry in entries}) == len(entries)
    assert entries[0].at == entries[4].at == FIRST_MS
    assert entries[-1].at == FIRST_MS + 29 * 60_000
    assert [entry.error for entry in entries if entry.kind == "tool_result"] == [True]


def test_a_pause_told_by_the_prompts_begins_a_segment() -> None:
    segments = feed(SOURCE, LOG, RECORDS).segments
    first, second = segments[CHAT, 0], segments[CHAT, 1]
    assert (first.start, first.end, second.start) == (FIRST_MS, FIRST_MS, FIRST_MS + 29 * 60_000)
    assert first.tools == [
        ("Read", "/home/ann/my-app/src/parser.py"),
        ("Shell", "cd /home/ann/my-app && pytest -q"),
    ]
    assert (first.messages, second.messages) == (5, 3)


def test_a_path_below_the_project_corrects_its_folder() -> None:
    result = feed(SOURCE, LOG, RECORDS)
    assert result.facts[CHAT].cwd == "/home/ann/my-app"
    assert {(one.cwd, one.project_dir) for one in result.segments.values()} == {
        ("/home/ann/my-app", "my-app")
    }


def test_a_windows_path_corrects_the_folder_too() -> None:
    path = "/w/.cursor/projects/c-Users-ann-my-app/agent-transcripts/x.jsonl"
    given = {"path": "c:\\Users\\ann\\my-app\\src\\a.py"}
    content = [{"type": "tool_use", "name": "Read", "input": given}]
    line = {"role": "assistant", "message": {"content": content}}
    result = feed(SOURCE, log_at(path, session_id="x", project_dir="/c/Users/ann/my/app"), [line])
    assert result.facts["x"].cwd == "c:\\Users\\ann\\my-app"


def test_without_told_times_the_file_is_the_clock_and_makes_no_gap() -> None:
    lines = [{"role": "user", "message": {"content": f"prompt {n}"}} for n in range(3)]
    parser = SOURCE.parser(LOG, None)
    parser.feed(lines[0], b"", 0)
    later = log_at(LOG.path, session_id=CHAT)
    later = Log(later.path, later.stamp._replace(mtime_ns=later.stamp.mtime_ns * 2), CHAT)
    parser = SOURCE.parser(later, parser.state())
    (entry,) = parser.feed(lines[1], b"", 1)
    assert entry.at == 2 * MTIME_MS
    assert [one.index for one in parser.harvest().segments] == [0]


@pytest.mark.parametrize(
    "words, iso",
    [
        ("Tuesday, Jul 21, 2026, 1:11 PM (UTC+3)", "2026-07-21T10:11:00+00:00"),
        ("Thursday, Jan 1, 2026, 12:05 AM (UTC-7)", "2026-01-01T07:05:00+00:00"),
        ("Monday, Feb 2, 2026, 12:30 PM (UTC+5:30)", "2026-02-02T07:00:00+00:00"),
        ("Sunday, March 1, 2026, 23:59 (UTC)", "2026-03-01T23:59:00+00:00"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00+00:00"),
    ],
)
def test_times_are_read_as_cursor_tells_them(words: str, iso: str) -> None:
    assert spoken_ms(words) == datetime.fromisoformat(iso).timestamp() * 1000


@pytest.mark.parametrize(
    "words", ["", "yesterday", "Foo 1, 2026, 1:00 PM", "Feb 31, 2026, 9:00 AM"]
)
def test_what_is_no_time_is_none(words: str) -> None:
    assert spoken_ms(words) is None


@given(st.text(max_size=200))
def test_any_text_can_be_taken_apart(said: str) -> None:
    spoken_ms(said)
    turn = split_user_text(f"<timestamp>{said}", marked=False)
    assert turn.prompt or turn.note
    query = said.replace("<user_query>", "").replace("</user_query>", "")
    assert split_user_text(f"a<user_query>{query}</user_query>b", marked=True) == (
        None,
        query.strip(),
        "a\nb",
    )


def test_a_time_the_user_writes_is_a_part_of_the_prompt() -> None:
    said = "what is <timestamp>2026-01-01T00:00:00Z</timestamp>?"
    assert split_user_text(said, marked=False) == (None, said, "")


@given(cuts=st.lists(st.integers(0, len(RECORDS)), max_size=6))
def test_any_cut_into_batches_gives_the_same(cuts: list[int]) -> None:
    assert feed(SOURCE, LOG, RECORDS, cuts) == feed(SOURCE, LOG, RECORDS)


blocks = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["text", "tool_use", "thinking", "tool_result", "odd"]),
        "text": st.sampled_from(["<user_query>q</user_query>", "x" * 300, "a[REDACTED]", ""]),
        "name": st.just("Read"),
        "input": st.sampled_from([{"path": "/home/ann/my-app/a"}, {"path": "/tmp/b"}, {}]),
    }
)
lines = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "user", "tool"]),
        "message": st.fixed_dictionaries({"content": st.lists(blocks, max_size=3)}),
    }
)


@given(records=st.lists(lines, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=5))
def test_any_log_cut_anywhere_gives_the_same(records: list[Any], cuts: list[int]) -> None:
    cuts = [cut for cut in cuts if cut <= len(records)]
    assert feed(SOURCE, LOG, records, cuts) == feed(SOURCE, LOG, records)


@given(st.lists(any_json | broken(RECORDS), max_size=4))
def test_any_json_can_be_fed(values: list[Any]) -> None:
    result = feed(SOURCE, LOG, [*RECORDS[:1], *values])
    for value in values:
        SOURCE.entries(value, b"", 0)
    assert all(len(name) <= 80 for name in result.unknown)


def test_a_record_nested_to_the_limit_can_be_fed() -> None:
    value: list[Any] = []
    for _ in range(2000):
        value = [value]
    call = {"type": "tool_use", "name": "x", "input": value}
    line = {"role": "assistant", "message": {"content": [call]}}
    (entry,) = SOURCE.parser(LOG, None).feed(line, b"", 0)
    assert (entry.kind, entry.tool) == ("tool_call", "x")


def test_unknown_names_are_short_and_not_endless() -> None:
    records = [{"type": f"{n}" + "x" * 200} for n in range(300)]
    unknown = feed(SOURCE, LOG, records).unknown
    assert len(unknown) == 200
    assert max(map(len, unknown)) <= 80


def test_entries_read_alone_are_those_of_the_pass() -> None:
    alone = [entry for n, record in enumerate(RECORDS) for entry in SOURCE.entries(record, b"", n)]
    passed = feed(SOURCE, LOG, RECORDS).entries
    assert [(e.key, e.role, e.kind, e.text) for e in alone] == [
        (e.key, e.role, e.kind, e.text) for e in passed
    ]


# The contract's own rows.


@pytest.fixture(scope="module")
def golden(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    place = shared_data / "data" / "knowledge" / "golden"
    home = tmp_path_factory.mktemp("golden")
    shutil.copytree(place / "home" / ".cursor", home / ".cursor")
    for path in home.rglob("*.jsonl"):
        path.chmod(0o600)
        os.utime(path, ns=(0, MTIME_MS * 1_000_000))
    rows = json.loads((place / "golden_rows.json").read_text())["agentic_sessions"]
    return home, [row for row in rows if row["harness"] == "cursor"]


def columns(segment: Segment, path: str) -> dict[str, Any]:
    return {
        "session_id": segment.session_id,
        "segment_index": segment.index,
        "project_dir": segment.project_dir,
        "cwd": segment.cwd,
        "git_branch": segment.git_branch,
        "parent_session_id": segment.parent_session_id,
        "is_subagent": int(segment.is_subagent),
        "summary_text": segment.summary,
        "tool_calls_json": tools_json(segment),
        "user_prompts_json": prompts_json(segment),
        "source_file": path,
        "snapshot_diffs_json": segment.diffs_json,
        "message_count": segment.messages,
        "token_count": segment.tokens,
        "start_time": segment.start,
        "end_time": segment.end,
        "content_hash": content_hash(segment),
        **{name: getattr(segment, name) for name in ("model", "agent", "slug", "title")},
    }


def test_segments_equal_the_contracts_rows(golden: tuple[Path, list[Any]]) -> None:
    home, rows = golden
    made = []
    for log in SOURCE.find(user(home)):
        result = feed(SOURCE, log, lines_of(Path(log.path).read_bytes()))
        where = log.path.replace(str(home), "$HOME")
        made += [columns(segment, where) for segment in result.segments.values()]
    known = [{name: row[name] for name in made[0]} for row in rows]
    order = ("session_id", "segment_index")
    made.sort(key=lambda row: [row[name] for name in order])
    assert made == sorted(known, key=lambda row: [row[name] for name in order])


# Where they are looked for.


def test_slugs_stand_for_folders_that_exist(tmp_path: Path) -> None:
    for name in ("my-app", "site.v2", ".dot-dir", "a_b", "with space"):
        folder = tmp_path / "some-where" / name
        folder.mkdir(parents=True)
        slug = "".join(c if c.isalnum() else "-" for c in str(folder).removeprefix("/"))
        assert folder_of(slug, {}) == str(folder)
        assert encode(str(folder)) == encode(slug)


@pytest.mark.parametrize(
    "slug", ["empty-window", "var-folders-x1", "1784628660", "", "agent-transcripts"]
)
def test_some_slugs_stand_for_no_folder(slug: str) -> None:
    assert folder_of(slug, {}) == ""


@given(st.text("ab-._/", max_size=60))
def test_any_slug_gives_an_absolute_guess(slug: str) -> None:
    assert folder_of(f"nowhere-{slug}", {}).startswith("/nowhere")


def test_a_subagent_without_paths_has_the_folder_that_exists(tmp_path: Path) -> None:
    project = tmp_path / "my-app"
    project.mkdir()
    slug = "".join(c if c.isalnum() else "-" for c in str(project).removeprefix("/"))
    path = transcript(tmp_path, slug, f"{CHAT}/subagents/sub.jsonl")
    (log,) = SOURCE.find(user(tmp_path))
    assert (log.session_id, log.parent_session_id, log.is_subagent) == ("sub", CHAT, True)
    result = feed(SOURCE, log, lines_of(path.read_bytes()))
    assert result.segments["sub", 0].cwd == str(project)
    assert result.facts["sub"].parent_session_id == CHAT


def test_find_is_sorted_and_survives_odd_names_and_loops(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/a.jsonl", "new\nline.jsonl", "notes.md"):
        transcript(tmp_path, "p", name)
    folder = tmp_path / ".cursor" / "projects" / "p" / "agent-transcripts"
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_text("{}")
    (folder / "loop").symlink_to(folder)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    transcript(tmp_path, "agent-transcripts", "../c.jsonl")
    logs = list(SOURCE.find(user(tmp_path)))
    assert [log.session_id for log in logs] == ["c", "a", "b", "new\nline", "\\udcff"]
    assert all(log.stamp.size > 0 for log in logs)
    assert list(SOURCE.find(user(tmp_path / "nobody"))) == []
    assert SOURCE.roots(user(tmp_path)) == [tmp_path / ".cursor" / "projects"]
    assert (list(SOURCE.items(logs[0])), list(SOURCE.records(logs[0], ""))) == ([], [])


def test_slugs_are_read_from_paths() -> None:
    assert slug_of(LOG.path) == "home-ann-my-app"
    assert slug_of("/h/.cursor/projects/agent-transcripts/x.jsonl") == ""


# One conversation, several places.

BUBBLE = {"bubbleId": "b1", "type": 1, "text": "hi", "createdAt": "2026-07-21T10:00:00Z"}


def test_what_the_editors_database_has_is_not_read_from_the_transcript(tmp_path: Path) -> None:
    transcript(tmp_path, "p", f"{CHAT}/{CHAT}.jsonl")
    transcript(tmp_path, "p", "other/other.jsonl")
    editor_database(tmp_path, composer(CHAT, [BUBBLE]))
    assert [log.session_id for log in SOURCE.find(user(tmp_path))] == ["other"]


def test_a_conversation_without_messages_in_the_database_is_read_here(tmp_path: Path) -> None:
    transcript(tmp_path, "p", f"{CHAT}/{CHAT}.jsonl")
    editor_database(tmp_path, composer(CHAT, [], name="only a header"))
    assert [log.session_id for log in SOURCE.find(user(tmp_path))] == [CHAT]


def test_what_a_chat_store_has_is_not_read_from_the_transcript(tmp_path: Path) -> None:
    transcript(tmp_path, "p", f"{CHAT}/{CHAT}.jsonl")
    ChatStore(tmp_path, "/p").close()
    assert list(SOURCE.find(user(tmp_path))) == []


def test_a_broken_database_hides_nothing(tmp_path: Path) -> None:
    transcript(tmp_path, "p", f"{CHAT}/{CHAT}.jsonl")
    editor_database(tmp_path, {}).write_bytes(b"no database" * 1000)
    assert [log.session_id for log in SOURCE.find(user(tmp_path))] == [CHAT]


def test_while_the_database_is_locked_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_MS", 1)
    transcript(tmp_path, "p", f"{CHAT}/{CHAT}.jsonl")
    path = editor_database(tmp_path, composer("other", [BUBBLE]))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert list(SOURCE.find(user(tmp_path))) == []
    finally:
        holder.close()

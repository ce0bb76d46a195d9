"""OpenCode's database: what is read from it, and when it is read again."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.cursor_support import log_at
from tests.sources.opencode_support import EXPORT, SESSION, Database, data_folder, user
from tests.sources.source_support import Result, any_json, broken, document, feed, only
from threadkeep.errors import Damaged
from threadkeep.knowledge.records import Segment
from threadkeep.knowledge.segments import content_hash, prompts_json, tools_json
from threadkeep.sources.opencode.database import SOURCE
from threadkeep.sources.records import Log

START = 1_777_926_000_000


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path)
    made.add()
    return made


def log_of(database: Database) -> Log:
    home = database.path.parents[3]
    return next(log for log in SOURCE.find(user(home)) if log.path == str(database.path))


def read(database: Database, item: str = SESSION) -> Result:
    log = log_of(database)
    return feed(SOURCE, log, document(SOURCE, log, item))


def marks(database: Database) -> dict[str, str]:
    return {item.item: item.fingerprint for item in SOURCE.items(log_of(database))}


def test_every_kind_of_part_is_read(database: Database) -> None:
    result = read(database)
    assert [(e.key, e.role, e.kind, e.text) for e in result.entries if not e.tool] == [
        ("prt_01", "user", "prompt", "Sort the basket by price"),
        ("prt_02", "user", "note", "Called the Read tool"),
        ("prt_03", "user", "note", "[file] src/basket.ts"),
        ("prt_04", "user", "note", "[image] shot.png"),
        ("prt_05", "user", "prompt", "Look at the prices"),
        ("prt_12", "assistant", "reasoning", "Prices are strings."),
        ("prt_18", "assistant", "note", "APIError: overloaded"),
        ("prt_1b", "assistant", "text", "The basket is sorted."),
        ("prt_21", "user", "note", "compaction"),
        ("msg_04", "assistant", "note", "MessageAbortedError: stopped"),
        ("prt_31", "assistant", "summary", "We sorted the basket by price."),
    ]
    assert result.unknown == {"part/hologram": 1}
    assert {entry.session_id for entry in result.entries} == {SESSION}


def test_tools_give_a_call_and_what_came_back(database: Database) -> None:
    tools = [entry for entry in read(database).entries if entry.tool]
    assert [(e.key, e.tool, e.text, e.error) for e in tools] == [
        ("prt_13", "bash", "npm test\ndescription: Run the tests", False),
        ("prt_13#1", "bash", "\n  1 failing\nmore", True),
        ("prt_14", "read", "filePath: /home/ann/shop/shot.png", False),
        ("prt_14#1", "read", "\n[image]", False),
        ("prt_15", "edit", "filePath: /home/ann/shop/src/basket.ts", False),
        ("prt_15#1", "edit", "oldString not found", True),
        ("prt_16", "invalid", "tool: sort\nerror: no such tool", False),
        ("prt_16#1", "invalid", "no such tool", True),
        ("prt_17", "grep", "pattern: price\npath: src", False),
    ]
    assert [entry.at for entry in tools[:2]] == [START + 3000, START + 4000]
    assert tools[0].call_id == tools[1].call_id == "call_1"
    assert (tools[0].model, tools[0].role, tools[1].role) == ("gpt-x", "assistant", "tool")


def test_facts_name_the_session(database: Database) -> None:
    facts = read(database).facts[SESSION]
    assert (facts.title, facts.slug, facts.cwd) == (
        "Sort the basket",
        "calm-river",
        "/home/ann/shop",
    )
    assert (facts.agent, facts.model, facts.version) == ("build", "gpt-x", "1.14.30")
    assert (facts.parent_session_id, facts.is_subagent) == ("ses_00", True)


@pytest.mark.parametrize("kind", ["New", "Child"])
def test_a_session_that_nobody_named_has_no_title(database: Database, kind: str) -> None:
    title = f"{kind} session - 2026-08-11T16:16:00.424Z"
    database.run("UPDATE session SET title = ?", title)
    result = read(database)
    assert result.facts[SESSION].title == ""
    assert f"Title: {title}" in result.segments[SESSION, 0].summary


def test_a_model_may_be_stored_with_its_provider(database: Database) -> None:
    stored = '{"id":"gpt-y","providerID":"lab"}'
    database.run("UPDATE session SET model = ?, agent = 'plan'", stored)
    result = read(database)
    assert (result.facts[SESSION].model, result.facts[SESSION].agent) == ("gpt-y", "plan")
    assert "\nAgent: plan\nModel: gpt-y\n" in result.segments[SESSION, 0].summary


def test_usage_counts_reasoning_as_output_and_cache_apart(database: Database) -> None:
    first, second = read(database).usage.values()
    assert (first.input, first.output, first.reasoning) == (100, 50, 10)
    assert (first.cache_read, first.cache_write, first.final) == (1100, 50, True)
    assert (second.input, second.output, second.final) == (900, 60, False)


def test_a_fork_spends_nothing_again(database: Database) -> None:
    database.add(suffix="_fork")
    assert sorted(marks(database)) == [SESSION, f"{SESSION}_fork"]
    fork = read(database, f"{SESSION}_fork")
    assert fork.usage.keys() == read(database).usage.keys()
    assert {entry.key[-5:] for entry in fork.entries if "#" not in entry.key} == {"_fork"}


def test_the_segment_sums_up_the_session(database: Database) -> None:
    segment = read(database).segments[SESSION, 0]
    assert segment.summary.split("\n") == [
        "Opencode session (project: /home/ann/shop, slug: calm-river)",
        "Title: Sort the basket",
        "Snapshot diffs: +5/-2 lines, 1 files",
        "User requests:",
        '  1. "Sort the basket by price"',
        '  2. "Called the Read tool"',
        "Work performed:",
        "  - bash: npm test ->   1 failing",
        "  - read: read /home/ann/shop/shot.png",
        "  - edit: edit /home/ann/shop/src/basket.ts",
        "  - invalid: invalid -> no such tool",
        "  - grep: grep 'price' src",
        "Files touched:",
        "  - src/basket.ts",
        "  - shot.png",
        "  - /home/ann/shop/src/basket.ts",
        "Assistant excerpts:",
        '  - "The basket is sorted."',
        '  - "We sorted the basket by price."',
    ]
    assert (segment.messages, segment.tokens) == (4, 1300 + 960)
    assert (segment.start, segment.end) == (START, START + 100_000)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE part SET data = '{}', time_updated = 1777929999999 WHERE id = 'prt_11'",
        "UPDATE message SET time_updated = 1777929999999 WHERE id = 'msg_01'",
        "UPDATE session SET title = 'renamed'",
        "DELETE FROM part WHERE id = 'prt_01'",
        "DELETE FROM message WHERE id = 'msg_01'",
    ],
)
def test_any_change_changes_the_fingerprint(database: Database, sql: str) -> None:
    before = marks(database)
    assert marks(database) == before
    database.run(sql)
    assert marks(database) != before


def test_other_sessions_and_projects_change_nothing(database: Database) -> None:
    before = marks(database)
    database.run("INSERT INTO project VALUES ('prj1', '/', 9999999999999)")
    database.add(suffix="_fork")
    assert marks(database)[SESSION] == before[SESSION]


def test_the_copy_in_the_event_table_is_not_read(database: Database) -> None:
    before = read(database)
    database.run("INSERT INTO event VALUES ('e1', ?, 1, 'message.updated.1', '{}')", SESSION)
    assert read(database) == before


def test_rows_that_are_no_json_lose_only_themselves(database: Database) -> None:
    database.run("UPDATE part SET data = '{\"type\":' WHERE id = 'prt_01'")
    database.run("UPDATE message SET data = 'x' WHERE id = 'msg_03'")
    result = read(database)
    assert "The basket is sorted." in result.of("text")
    assert result.unknown["part/"] == 1
    assert result.segments[SESSION, 0].messages == 3


def test_columns_that_are_missing_are_done_without(tmp_path: Path) -> None:
    made = Database(tmp_path)
    for sql in (
        "DROP TABLE session",
        "CREATE TABLE session (id TEXT PRIMARY KEY, title TEXT)",
        "INSERT INTO session VALUES ('s', 'T')",
        "ALTER TABLE part DROP COLUMN time_updated",
        "INSERT INTO message VALUES ('m', 's', 1, 1, '{\"role\":\"user\"}')",
        "INSERT INTO part VALUES ('p', 'm', 's', 1, '{\"type\":\"text\",\"text\":\"hi\"}')",
    ):
        made.run(sql)
    assert read(made, "s").of("prompt") == ["hi"]
    before = marks(made)
    made.run('UPDATE part SET data = \'{"type":"text","text":"hi there"}\'')
    assert marks(made) != before
    for table in ("part", "message"):
        made.run(f"DROP TABLE {table}")
    assert read(made, "s").facts["s"].title == "T"
    made.run("DROP TABLE session")
    assert marks(made) == {}
    assert document(SOURCE, log_of(made), "s") == []


def test_databases_of_every_channel_and_place_are_found(tmp_path: Path) -> None:
    for name in ("opencode.db", "opencode-nightly.db", "other.db"):
        (data_folder(tmp_path) / name).write_bytes(b"")
    elsewhere = tmp_path / "x.db"
    elsewhere.write_bytes(b"")
    found = [Path(log.path).name for log in SOURCE.find(user(tmp_path, OPENCODE_DB=str(elsewhere)))]
    assert found == ["opencode-nightly.db", "opencode.db", "x.db"]
    moved = user(tmp_path, XDG_DATA_HOME=str(tmp_path / "m"), OPENCODE_DB=":memory:")
    assert list(SOURCE.find(moved)) == []
    assert SOURCE.roots(moved) == [tmp_path / "m" / "opencode"]
    assert SOURCE.roots(user(tmp_path, OPENCODE_DB="y.db"))[1] == data_folder(tmp_path) / "y.db"


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (data_folder(tmp_path) / "opencode.db").write_bytes(b"nothing of the kind" * 300)
    with pytest.raises(Damaged):
        list(SOURCE.items(only(SOURCE.find(user(tmp_path)))))


def records() -> list[Any]:
    made: list[Any] = [{"type": "session", "id": SESSION, "data": EXPORT["info"]}]
    for message in EXPORT["messages"]:
        made.append({"type": "message", "id": message["info"]["id"], "data": message["info"]})
        role = message["info"]["role"]
        made += [{"type": "part", "id": p["id"], "role": role, "data": p} for p in message["parts"]]
    return made


@given(st.lists(any_json | broken(records()), max_size=5))
def test_any_json_can_be_fed(values: list[Any]) -> None:
    result = feed(SOURCE, log_at("/x/opencode.db"), [records()[0], *values])
    for segment in result.segments.values():
        content_hash(segment)
    for value in values:
        SOURCE.entries(value, b"", 0)


# Rows of the contract, and real sessions.


def columns(segment: Segment) -> dict[str, Any]:
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
        "snapshot_diffs_json": segment.diffs_json,
        "message_count": segment.messages,
        "token_count": segment.tokens,
        "start_time": segment.start,
        "end_time": segment.end,
        "content_hash": content_hash(segment),
        **{name: getattr(segment, name) for name in ("model", "agent", "slug", "title")},
    }


def test_the_segment_equals_the_contracts_row(shared_data: Path, tmp_path: Path) -> None:
    place = shared_data / "data" / "knowledge" / "golden"
    folder = data_folder(tmp_path)
    shutil.copyfile(place / "home/.local/share/opencode/opencode.db", folder / "opencode.db")
    log = only(SOURCE.find(user(tmp_path)))
    (item,) = SOURCE.items(log)
    segments = feed(SOURCE, log, document(SOURCE, log, item.item)).segments
    made = columns(segments[item.item, 0])
    rows = json.loads((place / "golden_rows.json").read_text())["agentic_sessions"]
    (row,) = [row for row in rows if row["harness"] == "opencode"]
    assert made == {name: row[name] for name in made}


def test_a_real_database_is_read_whole(shared_data: Path, tmp_path: Path) -> None:
    packed = shared_data / "data" / "harness" / "opencode" / "db" / "opencode.db.gz"
    (data_folder(tmp_path) / "opencode.db").write_bytes(gzip.decompress(packed.read_bytes()))
    log = only(SOURCE.find(user(tmp_path)))
    results = [feed(SOURCE, log, document(SOURCE, log, one.item)) for one in SOURCE.items(log)]
    assert len(results) == 54
    assert [result.unknown for result in results if result.unknown] == []
    kinds = [entry.kind for result in results for entry in result.entries]
    assert kinds.count("tool_call") == kinds.count("tool_result") == 1829
    assert kinds.count("summary") >= 1
    failed = [e for result in results for e in result.entries if e.error and e.tool == "bash"]
    assert len(failed) >= 138
    assert sum(segment.messages for r in results for segment in r.segments.values()) == 1364
    assert all(entry.at for result in results for entry in result.entries)

"""Candidates: the index of things, kept right whoever writes; budgets that lose nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.knowledge import NOW, ask
from tests.support.toy_sources import line
from tests.support.worlds import World
from threadkeep.capture.capture import History
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_index import (
    inner_words,
    run_title,
    strings_in,
)
from threadkeep.knowledge.search_scope import ANY_NODE, scope_of
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory import candidates
from threadkeep.memory.memory import Memory
from threadkeep.memory.question import read_question
from threadkeep.testing import KnowledgeFactory

SESSION = (
    "INSERT INTO sessions (id, start_time, terminal, shell, hostname, username, created_at) "
    "VALUES ({0}, 1, '{1}', 'zsh', 'box', 'me', 1)"
)
EVENT = (
    "INSERT INTO events (id, session_id, timestamp, command, stdout, exit_code, duration_ms, cwd, "
    "hostname, shell, source_kind, probe_tag, created_at) "
    "VALUES ({id}, {session}, {at}, '{command}', '{out}', {code}, 5, '{cwd}', 'box', 'zsh', "
    "'{kind}', {probe}, 1)"
)
NODE = (
    "INSERT INTO knowledge_nodes (id, uuid, content, embed_text, outcome, created_at, updated_at) "
    "VALUES ({0}, 'u{0}', '{{\"summary\": \"{1}\"}}', '{1}', 'success', 1, 1)"
)
PAGE = (
    "INSERT INTO browser_events "
    "(id, timestamp, url, title, domain, dwell_ms, probe_tag, created_at) "
    "VALUES ({0}, 1, 'https://docs.example/{1}', '{1}', 'docs.example', 1, {2}, 1)"
)
RUN = (
    "INSERT INTO workflow_runs (id, repo, head_sha, event, status, conclusion, html_url, raw_json, "
    "first_seen_at, last_seen_at) VALUES ({0}, 'me/quay', 'abc', 'push', 'completed', '{1}', "
    "'https://ci.example/{0}', '{{\"name\": \"nightly\"}}', 1, 1)"
)


def event(number: int, command: str, **more: Any) -> str:
    values = {
        "id": number,
        "session": 1,
        "at": NOW - 1000,
        "command": command,
        "out": "",
        "code": 0,
        "cwd": "/u/quay",
        "kind": "shell",
        "probe": "NULL",
    }
    values |= more
    return EVENT.format(**values)


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    world = World(tmp_path, knowledge_factory)
    with world.history():
        pass
    world.do(SESSION.format(1, "t-1"))
    return world


@pytest.fixture
def history(world: World) -> Iterator[History]:
    with world.history() as history:
        yield history


def refs(history: History, text: str, **filters: Any) -> list[str]:
    memory = Memory(history.store, history.sources, clock=lambda: NOW)
    return [hit.ref for hit in memory.recall(text, Query(**filters)).hits]


def test_everything_is_found_wherever_it_stands(world: World, history: History) -> None:
    world.do(
        event(1, "terraform quokka", out="plan failed", code=1),
        NODE.format(1, "the quokka was deployed"),
        PAGE.format(1, "quokka", "NULL"),
        RUN.format(9, "failure"),
        "INSERT INTO workflow_jobs (id, run_id, name, status, raw_json) "
        "VALUES (4, 9, 'quokka job', 'completed', '{}')",
        "INSERT INTO lessons (id, repo, summary, first_seen_at, last_seen_at) "
        "VALUES (1, 'me/quay', 'quokka needs water', 1, 1)",
    )
    found = refs(history, "quokka")
    assert set(found) == {"command:1", "node:1", "visit:1", "run:9", "lesson:1"}
    assert refs(history, "plan failed") == ["command:1"]
    assert refs(history, "nightly") == ["run:9"]


def test_what_changed_is_found_by_its_new_words_alone(world: World, history: History) -> None:
    world.do(NODE.format(1, "fat walrus"), event(1, "walrus"), RUN.format(9, "success"))
    assert set(refs(history, "walrus")) == {"node:1", "command:1"}
    world.do(
        "UPDATE knowledge_nodes SET content = '{}', embed_text = 'otter fed' WHERE id = 1",
        "UPDATE events SET command = 'otter' WHERE id = 1",
        "INSERT INTO workflow_jobs (id, run_id, name, status, raw_json) "
        "VALUES (4, 9, 'unit', 'completed', '{}')",
        "INSERT INTO workflow_annotations (job_id, level, message) VALUES (4, 'failure', 'otter')",
    )
    assert refs(history, "walrus") == []
    assert set(refs(history, "otter")) == {"node:1", "command:1", "run:9"}


def test_a_number_that_is_used_again_leads_to_the_new_row(world: World, history: History) -> None:
    world.do(event(1, "walrus"), event(2, "seal"))
    assert refs(history, "seal") == ["command:2"]
    world.do("DELETE FROM events WHERE id = 2")
    assert refs(history, "seal") == []
    world.do(event(2, "otter"))
    assert refs(history, "seal") == []
    assert refs(history, "otter") == ["command:2"]


def test_probes_are_never_found(world: World, history: History) -> None:
    world.do(
        event(1, "walrus", probe="'p'"),
        PAGE.format(1, "walrus", "'p'"),
        NODE.format(1, "walrus"),
        "INSERT INTO knowledge_node_events (knowledge_node_id, event_id) VALUES (1, 1)",
    )
    assert refs(history, "walrus") == []


def test_a_tool_call_of_an_archived_session_is_a_message_alone(world: World) -> None:
    world.write(line(id="a", kind="text", text="walrus"))
    world.capture()
    world.do(SESSION.format(2, "one"), event(1, "walrus", session=2, kind="claude-tool"))
    world.do(SESSION.format(3, "x"), event(2, "a walrus", session=3, kind="claude-tool"))
    with world.history() as history:
        assert set(refs(history, "walrus")) == {"message:1", "command:2"}


def test_a_segment_is_found_while_its_session_is_not_archived(world: World) -> None:
    world.write(line(id="a", kind="prompt", text="walrus in the fjord", at=1))
    world.capture()
    with world.history() as history:
        assert refs(history, "fjord") == ["message:1"]
    world.do(
        "DELETE FROM tk_entries",
        "DELETE FROM tk_sessions",
        "UPDATE agentic_sessions SET summary_text = 'walrus of the fjord'",
    )
    with world.history() as history:
        (ref,) = refs(history, "fjord")
        assert ref.startswith("segment:")
        memory = Memory(history.store, history.sources)
        assert "walrus of the fjord" in memory.open(ref).text


def test_forgetting_leaves_no_words_behind(world: World) -> None:
    world.do(event(1, "zanzibar"), event(2, "walrus"))
    with world.history() as history:
        assert refs(history, "zanzibar") == ["command:1"]
        history.forget(Query(pattern="zanzibar"))
        assert refs(history, "zanzibar") == []
        assert refs(history, "walrus") == ["command:2"]
    assert b"zanzibar" not in world.stored()
    assert world.ask("SELECT row FROM tk_things") == [(2,)]


def test_a_budget_loses_no_rare_word(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [line(id=f"m{n}", kind="text", text=f"common rare{n}", at=n) for n in range(40)]
    world.write(b"".join(said))
    world.capture()
    monkeypatch.setattr(candidates, "BUDGET", 5)
    monkeypatch.setattr(candidates, "_NEWEST", 10)
    with world.history() as history:
        assert refs(history, "common rare3")[0] == "message:4"
        assert refs(history, "common")[0] == "message:40"
        assert refs(history, "common", until=6)[0] == "message:6"
        with history.store.read() as tx:
            found = candidates.find(tx, read_question("common"), scope_of(tx, Query(), ANY_NODE, 0))
        assert found.compared <= 10 + 4


def test_a_file_that_is_only_read_and_has_no_index_still_answers(world: World) -> None:
    world.write(line(id="a", kind="text", text="walrus"))
    world.capture()
    tables = "tk_turns", "tk_things", "tk_thing_words", "tk_indexed", "tk_stale"
    triggers = ask(
        world.database,
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'tk\\_%' ESCAPE '\\'",
    )
    world.do(*(f"DROP TRIGGER {row[0]}" for row in triggers))
    world.do(*(f"DROP TABLE {table}" for table in tables))
    with KnowledgeStore.open(world.database, read_only=True) as store:
        found = Memory(store, world.sources).recall("walrus")
    assert [hit.ref for hit in found.hits] == ["message:1"]
    assert found.notes


def test_small_parts() -> None:
    assert inner_words("call getUserName now") == "get User Name"
    assert strings_in('{"a": ["x", {"b": "y"}], "c": 1}') == ["x", "y"]
    assert strings_in("no json") == ["no json"]
    assert run_title('{"name": "ci", "head_commit": {"message": "fix"}}') == "ci fix"
    assert run_title("[]") == ""

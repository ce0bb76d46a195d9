"""Every hit opens at its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.test_finding import NODE, PAGE, RUN, SESSION, event
from tests.support.knowledge import NOW
from tests.support.toy_sources import line
from tests.support.worlds import World
from threadkeep.errors import Invalid, NotFound
from threadkeep.memory.memory import Memory
from threadkeep.testing import KnowledgeFactory


@pytest.fixture
def memory(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> Iterator[Memory]:
    world = World(tmp_path, knowledge_factory)
    kinds = ("prompt", "tool_call", "text")
    said = [
        line(id=f"m{n}", kind=kinds[n % 3], text=f"said {n}", at=n, cwd="/u/quay") for n in range(9)
    ]
    world.write(b"".join(said))
    world.capture()
    world.do(
        SESSION.format(1, "t-1"),
        *(event(n, f"make {n}", out=f"out {n}", code=n % 2, at=n) for n in range(1, 6)),
        NODE.format(1, "built with make"),
        "INSERT INTO knowledge_node_events (knowledge_node_id, event_id) VALUES (1, 3)",
        "INSERT INTO entities (id, type, name, canonical, first_seen, last_seen, created_at) "
        "VALUES (1, 'tool', 'make', 'make', 1, 1, 1)",
        "INSERT INTO knowledge_node_entities (knowledge_node_id, entity_id) VALUES (1, 1)",
        PAGE.format(1, "guide", "NULL"),
        PAGE.format(2, "secret", "'probe'"),
        RUN.format(9, "failure"),
    )
    with world.history() as history:
        yield Memory(history.store, history.sources, clock=lambda: NOW)


def test_a_message_opens_with_what_was_said_and_done_around_it(memory: Memory) -> None:
    (hit, *_) = memory.recall('"said 4"').hits
    opened = memory.open(hit.ref, around=2)
    assert opened.text == "said 4"
    assert [one.snippet for one in opened.before] == ["said 2", "said 3"]
    assert [one.snippet for one in opened.after] == ["said 5", "said 6"]
    assert opened.hit.key == "m4"
    assert opened.hit.session_id == "one"
    assert opened.facts["session"] == "pi:one"
    assert memory.open(hit.ref, around=0).before == ()


def test_a_command_opens_with_its_output_and_its_neighbours(memory: Memory) -> None:
    opened = memory.open("command:3", around=1)
    assert opened.text == "make 3\nout 3"
    assert (opened.before[0].ref, opened.after[0].ref) == ("command:2", "command:4")
    assert opened.facts["exit_code"] == 1
    assert opened.hit.outcome == "failure"
    assert opened.hit.contract_ref == "shell-3"


def test_a_node_opens_with_its_evidence_and_entities(memory: Memory) -> None:
    opened = memory.open("node:1")
    assert opened.facts["evidence"] == ["shell-3"]
    assert opened.facts["entities"] == {"tool": ["make"]}
    assert opened.hit.title == "built with make"
    assert memory.open("node:u1") == opened
    assert memory.open("shell-3").hit.ref == "command:3"


def test_pages_and_runs_open(memory: Memory) -> None:
    assert memory.open("visit:1").hit.url == "https://docs.example/guide"
    run = memory.open("workflow-9")
    assert run.hit.ref == "run:9"
    assert run.facts["conclusion"] == "failure"


@pytest.mark.parametrize("ref", ["message:999", "node:nope", "command:0", "visit:2", "claude-77"])
def test_what_is_not_there_or_not_to_be_seen_is_not_found(memory: Memory, ref: str) -> None:
    with pytest.raises(NotFound):
        memory.open(ref)


@pytest.mark.parametrize("ref", ["", "message", "thing:1", "message:", "x-y", ":3"])
def test_what_is_no_reference_is_refused(memory: Memory, ref: str) -> None:
    with pytest.raises(Invalid):
        memory.open(ref)

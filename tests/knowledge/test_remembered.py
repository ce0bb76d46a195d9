"""Views of memory: nodes with their evidence, entities and what ties them, lessons, projects."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.many_sessions import NOW, Many
from tests.support.tickets import add_event, insert, put
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.node_words import index_node
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.results import Edge
from threadkeep.testing import KnowledgeFactory


class Remembering(Many):
    """Adds knowledge to the rows."""

    def node(self, name: str, *events: int, **columns: Any) -> int:
        values = {
            "uuid": name,
            "content": json.dumps({"summary": f"summary of {name}"}),
            "embed_text": name,
            "created_at": NOW,
            "updated_at": NOW,
            **columns,
        }
        with self.write() as tx:
            number = insert(tx, "knowledge_nodes", **values)
            index_node(tx, number)
            for event in events:
                put(tx, "knowledge_node_events", knowledge_node_id=number, event_id=event)
        return number

    def command(self, cwd: str, **columns: Any) -> int:
        with self.write() as tx:
            return add_event(tx, at=NOW, cwd=cwd, **columns)

    def entity(self, type_: str, name: str, *nodes: int) -> int:
        seen = dict.fromkeys(("first_seen", "last_seen", "created_at"), NOW)
        values = {"type": type_, "name": name, "canonical": name, **seen}
        number = self.insert("entities", **values)
        for node in nodes:
            link = {"knowledge_node_id": node, "entity_id": number}
            with self.write() as tx:
                put(tx, "knowledge_node_entities", **link)
        return number


@pytest.fixture(scope="module")
def browse(
    tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory
) -> Iterator[Browse]:
    many = Remembering(tmp_path_factory.mktemp("memory"), lasting_factory)
    web, probe = many.command("/u/web"), many.command("/u/web", probe_tag="p")
    first = many.node("first", web, outcome="success", tags='["ci", "docker"]')
    second = many.node("second", many.command("/u/api", git_repo="o/api"), outcome="failure")
    many.node("synthetic", probe)
    many.node("plain", content="no JSON at all")
    docker = many.entity("tool", "docker", first, second)
    make = many.entity("tool", "make", first)
    many.entity("file", "50%_done.md")
    seen = dict.fromkeys(("first_seen", "last_seen"), NOW)
    tie = {"from_entity_id": make, "to_entity_id": docker, "relationship": "used_with"}
    many.insert("relationships", **tie, evidence_count=4, **seen)
    lesson = {"repo": "o/api", "tool": "ruff", "summary": "it came back"}
    many.insert("lessons", **lesson, first_seen_at=1, last_seen_at=2)
    talk = {"session_id": "talk", "harness": "codex", "project_dir": "", "cwd": "/u/talk"}
    times = {"start_time": 5, "end_time": 9, "created_at": 1}
    segment = many.insert("agentic_sessions", **talk, **times, summary_text="s")
    told = many.node("told")
    link = {"knowledge_node_id": told, "agentic_session_id": segment}
    with many.write() as tx:
        put(tx, "knowledge_node_agentic_sessions", **link)
    many.say(many.add("talk", project="talk", ended_at=9), "a prompt", at=6)
    with many.browse() as opened:
        yield opened


def test_nodes_are_listed_the_newest_first_and_probes_never(browse: Browse) -> None:
    assert [one.uuid for one in browse.nodes().items] == ["told", "plain", "second", "first"]
    first = browse.nodes(Query(outcome=("success",))).items[0]
    assert (first.summary, first.tags, first.project) == (
        *("summary of first", ("ci", "docker"), "web"),
    )
    assert first.entities == ("docker", "make")
    with pytest.raises(NotFound):
        browse.node("synthetic")


@pytest.mark.parametrize(
    "asked, expected",
    [
        ({"text": "second"}, ["second"]),
        ({"text": "summary", "outcome": ("failure",)}, ["second"]),
        ({"text": "\U0001f600"}, []),
        ({"project": ("web",)}, ["first"]),
        ({"project": ("/u",)}, ["told", "second", "first"]),
        ({"project": ("o/api",)}, ["second"]),
        ({"project": ("nowhere",)}, []),
    ],
)
def test_nodes_are_found(browse: Browse, asked: dict[str, Any], expected: list[str]) -> None:
    assert [one.uuid for one in browse.nodes(Query(**asked)).items] == expected


def test_pages_of_nodes_are_the_whole_list(browse: Browse) -> None:
    first = browse.nodes(limit=3)
    second = browse.nodes(limit=3, cursor=first.next)
    assert first.items + second.items == browse.nodes().items
    assert second.next is None
    with pytest.raises(Invalid):
        browse.nodes(cursor="x")


def test_a_node_is_told_with_its_evidence(browse: Browse) -> None:
    node = browse.node("first")
    assert node == browse.node(node.row.id) == browse.node(str(node.row.id))
    assert node.content == {"summary": "summary of first"}
    assert node.text == "summary of first"
    (evidence,) = node.evidence
    assert evidence.startswith("command:")
    assert [one.name for one in node.entities] == ["docker", "make"]
    (message,) = browse.node("told").evidence
    assert message.startswith("message:")
    assert browse.node("plain").content == "no JSON at all"
    with pytest.raises(NotFound):
        browse.node(10_000)


def test_entities_are_listed_by_how_often_they_are_mentioned(browse: Browse) -> None:
    assert [(one.name, one.nodes) for one in browse.entities()] == [
        *(("docker", 2), ("make", 1), ("50%_done.md", 0)),
    ]
    assert [one.name for one in browse.entities(type="file")] == ["50%_done.md"]
    assert [one.name for one in browse.entities(text="0%_")] == ["50%_done.md"]
    assert browse.entities(limit=0) == []


def test_an_entity_is_told_with_its_neighbours(browse: Browse) -> None:
    docker, make, _ = browse.entities()
    view = browse.entity(docker.id)
    assert view.row == docker
    assert [one.uuid for one in view.nodes] == ["second", "first"]
    assert view.neighbours == (make,)
    assert set(view.edges) == {
        Edge(make.id, docker.id, "used_with", 4),
        Edge(docker.id, make.id, "together", 1),
    }
    with pytest.raises(NotFound):
        browse.entity(10_000)


def test_the_graph_has_what_is_mentioned_most(browse: Browse) -> None:
    graph = browse.graph(limit=2)
    assert [one.name for one in graph.entities] == ["docker", "make"]
    assert {edge.kind for edge in graph.edges} == {"used_with", "together"}


def test_lessons_and_projects(browse: Browse) -> None:
    assert [one.summary for one in browse.lessons()] == ["it came back"]
    (project,) = browse.projects()
    assert (project.name, project.sessions, project.agents, project.cwd) == (
        *("talk", 1, ("codex",), "/u/app"),
    )

"""Nodes: what was learned, its links to the evidence, what it mentions, and words that find it."""

import json

import pytest

from threadkeep.testing.clock import NOON
from threadkeep.testing.knowledge_suite.rows import KINDS, Factory, RowWriter

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
TYPES = [
    *("project", "file", "tool", "service", "repo", "host", "person", "concept", "domain"),
    "env_var",
]


def test_a_node_is_content_and_text(knowledge_factory: Factory) -> None:
    """Table map: `content` is a JSON blob; embed_text, node_type, outcome, tags are columns."""
    writer = RowWriter(knowledge_factory)
    writer.node(content=json.dumps({"summary": "fixed it"}), embed_text="cargo")
    (row,) = writer.table("knowledge_nodes")
    assert json.loads(row["content"]) == {"summary": "fixed it"}
    assert (row["embed_text"], row["node_type"]) == ("cargo", "observation")
    assert row["outcome"] is row["tags"] is None


def test_a_node_has_a_name_of_its_own(knowledge_factory: Factory) -> None:
    """Table map: the uuid of a node is unique."""
    writer = RowWriter(knowledge_factory)
    writer.node("n1")
    with pytest.raises(knowledge_factory.refused):
        writer.node("n1")


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize("word", ["quokka", "wombat", "dingo"])
def test_a_node_is_found_by_its_words(knowledge_factory: Factory, word: str) -> None:
    """Changelog v6: summary, embed_text and content of a node are indexed when it is written."""
    writer = RowWriter(knowledge_factory)
    content = json.dumps({"summary": "a quokka", "intent": "dingo"})
    number = writer.node(content=content, embed_text="the wombat")
    writer.node("n2", content="{}", embed_text="nothing")
    assert knowledge_factory.find(writer.store, word) == [number]


def test_a_node_that_changes_is_found_by_its_new_words(knowledge_factory: Factory) -> None:
    """Changelog v6: a trigger keeps the index in step with updates."""
    writer = RowWriter(knowledge_factory)
    number = writer.node(content=json.dumps({"summary": "a quokka"}))
    changed = json.dumps({"summary": "a wombat"})
    knowledge_factory.update(writer.store, "knowledge_nodes", number, content=changed)
    assert knowledge_factory.find(writer.store, "wombat") == [number]
    assert knowledge_factory.find(writer.store, "quokka") == []


def test_a_node_that_is_gone_is_not_found(knowledge_factory: Factory) -> None:
    """Changelog v6: a trigger keeps the index in step with deletions."""
    writer = RowWriter(knowledge_factory)
    number = writer.node(embed_text="quokka")
    knowledge_factory.delete(writer.store, "knowledge_nodes", number)
    assert knowledge_factory.find(writer.store, "quokka") == []


def test_content_that_is_no_json_is_no_error(knowledge_factory: Factory) -> None:
    """Changelog v6: a node is indexed whatever its content is."""
    writer = RowWriter(knowledge_factory)
    number = writer.node(content="no json", embed_text="quokka")
    assert knowledge_factory.find(writer.store, "quokka") == [number]


# ---------------------------------------------------------------------- links


@every_kind
def test_a_node_is_tied_to_its_evidence(knowledge_factory: Factory, kind: str) -> None:
    """Foreign keys: link tables tie nodes to the rows they were made of, each pair once."""
    writer = RowWriter(knowledge_factory)
    node, target = writer.node(), writer.of_kind(kind)
    links, column = KINDS[kind].links, KINDS[kind].linked
    pair = {"knowledge_node_id": node, column: target}
    writer.insert(links, **pair)
    (row,) = writer.table(links)
    assert {name: row[name] for name in pair} == pair
    with pytest.raises(knowledge_factory.refused):
        writer.insert(links, **pair)


@every_kind
def test_a_link_without_its_ends_is_refused(knowledge_factory: Factory, kind: str) -> None:
    """Foreign keys: both ends of a link are there."""
    writer = RowWriter(knowledge_factory)
    node, target = writer.node(), writer.of_kind(kind)
    links, column = KINDS[kind].links, KINDS[kind].linked
    for pair in ({"knowledge_node_id": 77, column: target}, {"knowledge_node_id": node, column: 7}):
        with pytest.raises(knowledge_factory.refused):
            writer.insert(links, **pair)
    assert writer.table(links) == []


# ---------------------------------------------------------------------- entities


@pytest.mark.parametrize("kind", TYPES)
def test_an_entity_has_one_of_ten_types(knowledge_factory: Factory, kind: str) -> None:
    """Changelog v13: the types of entities, env_var among them."""
    writer = RowWriter(knowledge_factory)
    writer.entity(kind)
    assert [row["type"] for row in writer.table("entities")] == [kind]


def test_another_type_is_refused(knowledge_factory: Factory) -> None:
    """Changelog v13: the type of an entity is checked."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.entity("colour")


def test_two_spellings_are_one_entity(knowledge_factory: Factory) -> None:
    """Table map: an entity is unique by its type and its canonical name."""
    writer = RowWriter(knowledge_factory)
    writer.entity("tool", "cargo", name="Cargo")
    writer.entity("service", "cargo")
    with pytest.raises(knowledge_factory.refused):
        writer.entity("tool", "cargo", name="cargo ")
    assert [row["name"] for row in writer.table("entities")] == ["Cargo", "cargo"]


def test_entities_are_tied_to_events_and_nodes(knowledge_factory: Factory) -> None:
    """Table map: event_entities and knowledge_node_entities link rows to what they mention."""
    writer = RowWriter(knowledge_factory)
    entity, event, node = writer.entity(), writer.event(), writer.node()
    said = {"event_id": event, "entity_id": entity, "role": "tool", "created_at": NOON}
    told = {"knowledge_node_id": node, "entity_id": entity}
    for table, pair in (("event_entities", said), ("knowledge_node_entities", told)):
        writer.insert(table, **pair)
        with pytest.raises(knowledge_factory.refused):
            writer.insert(table, **pair)
        assert len(writer.table(table)) == 1


def test_a_relationship_is_an_edge_with_a_direction(knowledge_factory: Factory) -> None:
    """Table map: one edge for each source, predicate and target, which counts its evidence."""
    writer = RowWriter(knowledge_factory)
    one, two = writer.entity("tool", "cargo"), writer.entity("project", "app")
    edge = {"from_entity_id": one, "to_entity_id": two, "relationship": "used_in"}
    times = {"first_seen": NOON, "last_seen": NOON}
    writer.insert("relationships", **edge, **times)
    writer.insert(
        "relationships", from_entity_id=two, to_entity_id=one, relationship="used_in", **times
    )
    with pytest.raises(knowledge_factory.refused):
        writer.insert("relationships", **edge, **times)
    assert {(row["weight"], row["evidence_count"]) for row in writer.table("relationships")} == {
        (1.0, 1)
    }

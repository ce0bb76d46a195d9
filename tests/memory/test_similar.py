"""similar: what is like a thing, without the thing itself and its copies."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.remembered import Machine
from threadkeep.errors import NotFound
from threadkeep.knowledge.query import Query
from threadkeep.memory.context import context, overlap, similar, telling_terms, words_of
from threadkeep.memory.fence import strip_context
from threadkeep.memory.memory import Memory
from threadkeep.testing import KnowledgeFactory

PARSER = "The parser reads tokens from the lexer and builds a syntax tree for the compiler."
ALIKE = "A lexer gives tokens; our parser turns them into the syntax tree of each module."
OTHER = "Deploy the website to the staging cluster on Friday."


@pytest.fixture
def machine(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> Machine:
    machine = Machine(tmp_path, knowledge_factory)
    machine.pi("p1", (1, "prompt", PARSER), (2, "text", ALIKE), (3, "text", OTHER))
    machine.pi("p2", (5, "text", PARSER + " Yes."))
    return machine


def ref_of(memory: Memory, text: str) -> str:
    return next(hit.ref for hit in memory.recall(text).hits if memory.open(hit.ref).text == text)


def texts(memory: Memory, what: str, **options: int) -> list[str]:
    return [memory.open(hit.ref).text for hit in similar(memory, what, **options).hits]  # type: ignore[arg-type]


def test_what_is_like_a_hit_is_found_without_the_hit_and_its_copies(machine: Machine) -> None:
    with machine.memory() as memory:
        own = ref_of(memory, PARSER)
        found = texts(memory, own)
    assert found[0] == ALIKE
    assert not any(text.startswith(PARSER) for text in found)


def test_what_is_like_a_text_is_found(machine: Machine) -> None:
    with machine.memory() as memory:
        assert ALIKE in texts(memory, "parser tokens lexer")
        assert len(texts(memory, "parser tokens lexer", limit=1)) == 1
        assert texts(memory, "parser", limit=0) == []
        assert similar(memory, "deploy", Query(role=("user",))).hits == ()


def test_a_reference_that_is_gone_is_said(machine: Machine) -> None:
    with machine.memory() as memory, pytest.raises(NotFound, match="message:999"):
        similar(memory, "message:999")


def test_a_command_is_like_other_commands(machine: Machine) -> None:
    machine.shell(7, "docker compose up --build postgres")
    machine.shell(8, "docker compose logs postgres | tail")
    with machine.memory() as memory:
        own = next(h.ref for h in memory.recall("compose build").hits if "--build" in h.title)
        assert similar(memory, own).hits[0].title.startswith("docker compose logs")


# ---------------------------------------------------------------------- a block for a prompt


def test_a_block_tells_of_each_item_where_it_is_from(machine: Machine) -> None:
    machine.page(9, "Parsers and lexers", extracted_text="A page about the parser and the lexer.")
    with machine.memory() as memory:
        block = context(memory, "parser lexer", new_id=lambda: "feed")
    assert block.startswith("<<<threadkeep-memory id=feed\n")
    assert block.endswith("\nthreadkeep-memory id=feed>>>")
    heads = [line for line in block.splitlines() if line.startswith("[")]
    assert any("user said" in head and "· pi ·" in head and "message:" in head for head in heads)
    assert any("web page (untrusted)" in head and "visit:" in head for head in heads)
    assert all(" ago" in head for head in heads)
    assert f"| {ALIKE}" in block


def test_what_was_recalled_into_a_prompt_is_not_new(machine: Machine) -> None:
    with machine.memory() as memory:
        block = context(memory, "parser lexer")
        assert context(memory, "words that nobody ever said") == ""
        assert len(context(memory, "parser lexer", max_chars=420)) <= 420
    assert strip_context(f"please help\n{block}\nthanks") == "please help\nthanks"


# ---------------------------------------------------------------------- pure


@given(st.text(), st.integers(0, 20))
def test_telling_terms_stand_in_the_text(text: str, most: int) -> None:
    terms = telling_terms(text, most)
    assert len(terms) <= most
    assert set(terms) <= words_of(text)
    assert len(set(terms)) == len(terms)


def test_long_and_repeated_words_tell_most() -> None:
    assert telling_terms("the cat and the compiler; the compiler is a cat", 2) == [
        "compiler",
        "cat",
    ]


@given(st.text(), st.text())
def test_overlap_is_a_part_and_the_same_both_ways(one: str, other: str) -> None:
    first, second = words_of(one), words_of(other)
    assert 0 <= overlap(first, second) == overlap(second, first) <= 1
    assert overlap(first, first) == 1

"""Search: the syntax of queries, filters, and what a hit says."""

from typing import Any

import pytest

from threadkeep.state.session_db import SessionDB
from threadkeep.testing.state_suite.talk import Factory, found_in, session_of, talk


def _corpus(db: SessionDB) -> SessionDB:
    talk(db, "docker", "docker deployment of the gateway", "done, deployed")
    talk(db, "kube", "kubernetes deployment", "pods are up", source="telegram")
    talk(db, "python", "python and java side by side", source="discord")
    talk(db, "snake", "python only")
    talk(db, "phrase", "an exact phrase stands here")
    talk(db, "mixed", "a phrase that is not exact")
    return db


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("docker", {"docker"}),
        ("DOCKER", {"docker"}),
        ("docker deployment", {"docker"}),
        ("docker kubernetes", set()),
        ("deployment", {"docker", "kube"}),
        ("exact phrase", {"phrase", "mixed"}),
        ('"exact phrase"', {"phrase"}),
        ("docker OR kubernetes", {"docker", "kube"}),
        ("python NOT java", {"snake"}),
        ("deploy*", {"docker", "kube"}),
        ("docker AND deployment", {"docker"}),
        ('"docker deployment" OR "python only"', {"docker", "snake"}),
        ("nowhere", set()),
    ],
)
def test_queries_have_the_syntax_of_full_text(
    state_factory: Factory, query: str, wanted: set[str]
) -> None:
    """FTS5 query syntax: words that must all be there, phrases, OR, NOT, and prefixes."""
    assert found_in(_corpus(state_factory.open()), query) == wanted


@pytest.mark.parametrize(
    "query, wanted",
    [
        ('"docker deployment', {"docker"}),
        ("(docker) {deployment}", {"docker"}),
        ("^docker", {"docker"}),
        ("docker AND", {"docker"}),
        ("OR docker", {"docker"}),
        ("NOT docker", {"docker"}),
        ("*docker", {"docker"}),
        ("deploy***", {"docker", "kube"}),
        (None, set()),
        ("", set()),
        ("   ", set()),
    ],
)
def test_what_users_type_is_made_a_valid_query(
    state_factory: Factory, query: Any, wanted: set[str]
) -> None:
    """Full-text search: unmatched quotes, special characters and dangling operators go."""
    assert found_in(_corpus(state_factory.open()), query) == wanted


@pytest.mark.parametrize("term", ["chat-send", "a-b-c", "simulate.p2.test.ts", "my-app.config.ts"])
def test_terms_with_hyphens_are_found_in_one_piece(state_factory: Factory, term: str) -> None:
    """Full-text search: a term with hyphens is taken as a phrase, not as operators."""
    db = state_factory.open()
    talk(db, "s", f"please run {term} now", "the words chat and send are here apart")
    (hit,) = db.search_messages(term)
    assert term in hit["snippet"].replace(">>>", "").replace("<<<", "")


@pytest.mark.parametrize(
    "options, wanted",
    [
        ({}, {"docker", "kube"}),
        ({"source_filter": ["cli"]}, {"docker"}),
        ({"source_filter": ["cli", "telegram"]}, {"docker", "kube"}),
        ({"exclude_sources": ["telegram", "discord"]}, {"docker"}),
        ({"source_filter": ["nowhere"]}, set()),
        ({"source_filter": []}, set()),
        ({"exclude_sources": []}, {"docker", "kube"}),
        ({"role_filter": []}, {"docker", "kube"}),
        ({"role_filter": ["user"]}, {"docker", "kube"}),
        ({"role_filter": ["assistant"]}, set()),
        ({"source_filter": ["cli"], "role_filter": ["user"]}, {"docker"}),
    ],
)
def test_a_search_is_narrowed_by_source_and_role(
    state_factory: Factory, options: dict[str, Any], wanted: set[str]
) -> None:
    """Filtered search: some sources only, all but some, some roles only."""
    assert found_in(_corpus(state_factory.open()), "deployment", **options) == wanted


def test_a_hit_says_where_it_is(state_factory: Factory) -> None:
    """Search results format: id, session, role, time; source, model and start of the session."""
    db = state_factory.open()
    db.create_session("s", "cli", model="m")
    (message_id,) = talk(db, "s", "the walrus swims")
    (hit,) = db.search_messages("walrus")
    (message,) = db.get_messages("s")
    assert (hit["id"], hit["session_id"], hit["role"]) == (message_id, "s", "user")
    assert hit["timestamp"] == message["timestamp"]
    assert (hit["source"], hit["model"]) == ("cli", "m")
    assert hit["session_started"] == session_of(db, "s")["started_at"]


def test_a_snippet_marks_the_match(state_factory: Factory) -> None:
    """Search results format: the snippet has the match between >>> and <<<, and is short."""
    db = state_factory.open()
    talk(db, "s", "word " * 400 + "walrus" + " word" * 400)
    (hit,) = db.search_messages("walrus")
    assert ">>>walrus<<<" in hit["snippet"]
    assert len(hit["snippet"].split()) <= 60


def test_a_hit_has_its_neighbours(state_factory: Factory) -> None:
    """Search results format: the context is one message before and after, of the same session."""
    db = state_factory.open()
    db.create_session("a", "cli")
    db.create_session("b", "cli")
    for number, text in enumerate(("one", "two", "the walrus", "four", "five")):
        db.append_message("a", "user" if number % 2 else "assistant", text)
        db.append_message("b", "user", f"noise {number}")
    (hit,) = db.search_messages("walrus")
    assert [(entry["role"], entry["content"]) for entry in hit["context"]] == [
        ("user", "two"),
        ("assistant", "the walrus"),
        ("user", "four"),
    ]


def test_the_context_is_cut(state_factory: Factory) -> None:
    """Search results format: each content of the context has 200 characters at most."""
    db = state_factory.open()
    talk(db, "s", "b" * 300, "walrus " + "x" * 300, "a" * 300)
    (hit,) = db.search_messages("walrus")
    contents = [entry["content"] for entry in hit["context"]]
    assert contents == ["b" * 200, ("walrus " + "x" * 300)[:200], "a" * 200]


def test_hits_come_in_pages(state_factory: Factory) -> None:
    """Full-text search: 20 hits unless a limit is given; pages miss nothing and repeat nothing."""
    db = state_factory.open()
    ids = talk(db, "s", *(f"walrus number {number}" for number in range(45)))
    pages = [db.search_messages("walrus", limit=10, offset=at) for at in range(0, 60, 10)]
    assert [len(page) for page in pages] == [10, 10, 10, 10, 5, 0]
    assert sorted(hit["id"] for page in pages for hit in page) == ids
    assert len(db.search_messages("walrus")) == 20
    assert sorted(hit["id"] for hit in db.search_messages("walrus", limit=-1)) == ids


def test_what_is_deleted_is_not_found(state_factory: Factory) -> None:
    """FTS5 full-text search: the index follows what is inserted and deleted."""
    db = state_factory.open()
    for session_id in ("s", "t", "u"):
        talk(db, session_id, "walrus here")
    db.delete_session("s")
    db.clear_messages("t")
    assert found_in(db, "walrus") == {"u"}

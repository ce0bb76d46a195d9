"""Search as version 6 has it, beyond the contract's suite: the form of a hit, the helpers."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.states import Factory
from threadkeep.state.hermes_state import SessionDB

Make = Callable[..., list[int]]
KEYS = {
    *("id", "session_id", "role", "snippet", "timestamp", "tool_name", "source", "model"),
    *("session_started", "context"),
}


def sessions_with(db: SessionDB, query: str, **options: Any) -> set[str]:
    return {hit["session_id"] for hit in db.search_messages(query, **options)}


@pytest.fixture
def corpus(db: SessionDB, make: Make) -> SessionDB:
    make("docker", "docker deployment of the gateway", "done, deployed")
    make("kube", "kubernetes deployment", "pods are up", source="telegram")
    make("python", "python and java side by side", source="discord")
    make("snake", "python only")
    make("phrase", "an exact phrase stands here")
    make("mixed", "a phrase that is not exact")
    return db


# ---------------------------------------------------------------------- a hit


def test_hit_has_its_keys(db: SessionDB, make: Make) -> None:
    db.create_session("s", "cli", model="m")
    [message_id] = make("s", "the walrus swims")
    [hit] = db.search_messages("walrus")
    assert set(hit) == KEYS
    session, [message] = db.get_session("s"), db.get_messages("s")
    assert session is not None
    assert hit["id"] == message_id
    assert hit["timestamp"] == message["timestamp"]
    assert hit["session_started"] == session["started_at"]
    assert (hit["role"], hit["source"], hit["model"]) == ("user", "cli", "m")
    assert hit["tool_name"] is None
    assert hit["snippet"] == "the >>>walrus<<< swims"


@pytest.mark.parametrize(
    "texts, wanted",
    [(("walrus", "next"), ["walrus", "next"]), (("before", "walrus"), ["before", "walrus"])],
)
def test_context_at_the_ends_has_two_entries(
    db: SessionDB, make: Make, texts: tuple[str, ...], wanted: list[str]
) -> None:
    make("s", *texts)
    [hit] = db.search_messages("walrus")
    assert [entry["content"] for entry in hit["context"]] == wanted


def test_context_survives_a_clock_that_steps(db: SessionDB, make: Make, clock: Any) -> None:
    make("s", "one")
    clock.pass_days(-1)
    make("s", "walrus")
    clock.pass_days(3)
    make("s", "three")
    [hit] = db.search_messages("walrus")
    assert [entry["content"] for entry in hit["context"]] == ["one", "walrus", "three"]


@pytest.mark.parametrize(
    "text, query, wanted",
    [
        ("run chat-send now", "chat-send", "chat-send"),
        ("see my-app.config.ts for it", "my-app.config.ts", "my-app.config.ts"),
        ("hay needle match hay", '"needle match"', "needle match"),
        ("x " * 300 + "the needle match is here" + " y" * 300, '"needle match"', "needle match"),
    ],
)
def test_snippet_shows_the_term_in_one_piece(
    db: SessionDB, make: Make, text: str, query: str, wanted: str
) -> None:
    make("s", text)
    [hit] = db.search_messages(query)
    assert wanted in hit["snippet"]
    assert f">>>{wanted}<<<" in hit["snippet"]


# ---------------------------------------------------------------------- filters and pages


def test_filters_may_be_given_by_place(corpus: SessionDB) -> None:
    [hit] = corpus.search_messages("deployment", ["cli"], None, ["user"], 5, 0)
    assert hit["session_id"] == "docker"


def test_better_match_comes_first(db: SessionDB, make: Make) -> None:
    make("much", "walrus walrus walrus walrus")
    make("little", "walrus " + "and other things besides " * 30)
    assert [hit["session_id"] for hit in db.search_messages("walrus")] == ["much", "little"]


def test_deleted_and_changed_messages_are_not_found(
    db: SessionDB, make: Make, factory: Factory
) -> None:
    make("s", "walrus here")
    make("t", "walrus there")
    db.delete_session("s")
    assert sessions_with(db, "walrus") == {"t"}
    with factory.raw(db) as other:
        other.execute("UPDATE messages SET content = 'only seals' WHERE session_id = 't'")
    assert db.search_messages("walrus") == []
    assert sessions_with(db, "seals") == {"t"}


# ---------------------------------------------------------------------- helpers


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("hello world", "hello world"),
        ("chat-send", '"chat-send"'),
        ("find chat-send now", 'find "chat-send" now'),
        ("a-b-c", '"a-b-c"'),
        ("P2.2", '"P2.2"'),
        ("simulate.p2.test.ts", '"simulate.p2.test.ts"'),
        ("my-app.config.ts", '"my-app.config.ts"'),
        ('"exact phrase"', '"exact phrase"'),
        ('"a-b c" d-e', '"a-b c" "d-e"'),
        ('"unbalanced', "unbalanced"),
        ("C++", "C"),
        ("hello AND", "hello"),
        ("hello OR", "hello"),
        ("NOT hello", "hello"),
        ("docker OR kubernetes", "docker OR kubernetes"),
        ("python NOT java", "python NOT java"),
        ("deploy*", "deploy*"),
        ("deploy***", "deploy*"),
        ("*deploy", "deploy"),
        ("***", ""),
        ("{braces} (parens) ^caret", "braces parens caret"),
        ("", ""),
    ],
)
def test_sanitizing_a_query(query: str, wanted: str) -> None:
    assert " ".join(SessionDB._sanitize_fts5_query(query).split()) == wanted


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("中文", True),
        ("ひらがな", True),
        ("カタカナ", True),
        ("한국어", True),
        ("mixed 中 text", True),
        ("hello", False),
        ("naïve café", False),
        ("👍", False),
        ("", False),
    ],
)
def test_contains_cjk_is_a_real_bool(text: str, wanted: bool) -> None:  # noqa: FBT001
    assert SessionDB._contains_cjk(text) is wanted

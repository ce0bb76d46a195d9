"""Search: finds what was said, called and answered, and never stands in anybody's way."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.chats import Factory, found_in, new_session, record, text_chunks, turn
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid, NotFound

Json = dict[str, Any]


@pytest.fixture
def session(store: ChatStore) -> Session:
    return new_session(store, title="The title")


# ---------------------------------------------------------------------- what is found


def test_hit_says_where_who_and_shows_the_place(store: ChatStore, session: Session) -> None:
    message = store.say(session, "Please look at the zeppelin in gateway/run.py today")
    (hit,) = store.search("zeppelin")
    assert (hit.session_id, hit.message_id) == (session.id, message.id)
    assert (hit.role, hit.type, hit.title, hit.at) == (
        "user",
        "text",
        "The title",
        message.created_at,
    )
    assert ">>>zeppelin<<<" in hit.snippet
    (same,) = store.search("gateway/run.py")
    assert same.part_id == hit.part_id
    assert ">>>gateway/run.py<<<" in same.snippet


PARTS: list[tuple[Json, str]] = [
    ({"type": "text", "text": "the quokka smiles"}, "quokka"),
    ({"type": "reasoning", "text": "thinking of walruses"}, "walruses"),
    (
        {"type": "tool-read_file", "toolCallId": "c1", "state": "input-available", "input": {}},
        "read_file",
    ),
    (
        {"type": "dynamic-tool", "toolName": "mcp_weather", "toolCallId": "c2", "state": "x"},
        "mcp_weather",
    ),
    (
        {"type": "tool-x", "toolCallId": "c3", "input": {"path": ["deep", {"q": "ocelot"}]}},
        "ocelot",
    ),
    ({"type": "tool-x", "toolCallId": "c4", "output": {"lines": ["a", "narwhal"]}}, "narwhal"),
    ({"type": "tool-x", "toolCallId": "c5", "errorText": "no axolotl there"}, "axolotl"),
    ({"type": "source-url", "sourceId": "s", "url": "https://x", "title": "Pangolins"}, "pangolin"),
    ({"type": "data-note", "data": {"body": "a capybara"}}, "capybara"),
    ({"type": "text", "text": "crème brûlée 東京タワー"}, "creme"),
    ({"type": "text", "text": "crème brûlée 東京タワー"}, "タワー"),
    ({"type": "text", "text": "port 8099 is taken"}, "8099"),
    ({"type": "text", "text": "all good 👍"}, "👍"),
    ({"type": "text", "text": "running late"}, "run"),
]


@pytest.mark.parametrize("part,query", PARTS, ids=[query for _, query in PARTS])
def test_words_of_every_kind_of_part_are_found(
    store: ChatStore, session: Session, part: Json, query: str
) -> None:
    store.say(session, "nothing of interest")
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [part]})
    assert found_in(store.search(query)) == {"m"}


def test_what_is_no_text_is_not_found(store: ChatStore, session: Session) -> None:
    store.put_message(
        session,
        {
            "id": "m",
            "role": "assistant",
            "parts": [
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,wombat"},
                {"type": "text", "text": "x", "providerMetadata": {"p": {"sig": "wombat"}}},
                {"type": "tool-x", "toolCallId": "wombat", "state": "input-available"},
            ],
        },
    )
    assert store.search("wombat") == []


def test_reply_is_found_as_soon_as_its_part_is_done(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("a marmoset appears")[:5]:
            recorder.feed(chunk)
        assert found_in(store.search("marmoset")) == {recorder.message_id}


def test_changed_text_is_found_by_its_new_words_only(store: ChatStore, session: Session) -> None:
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "old walrus"}]}
    store.put_message(session, message)
    assert found_in(store.search("walrus")) == {"m"}
    store.put_message(session, {**message, "parts": [{"type": "text", "text": "new otter"}]})
    assert store.search("walrus") == []
    assert found_in(store.search("otter")) == {"m"}


def test_deleted_messages_are_not_found(store: ChatStore, session: Session) -> None:
    other = new_session(store)
    store.say(session, "walrus one")
    kept = store.say(other, "walrus two")
    store.search("walrus")
    store.delete(session)
    assert found_in(store.search("walrus")) == {kept.id}


def test_search_sees_what_another_program_writes(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    message = store.say(session, "placeholder")
    store.search("anything")
    with factory.raw(store) as other:
        other.execute(
            "UPDATE chat_parts SET data_json = ?",
            (json.dumps({"type": "text", "text": "a secretary bird"}),),
        )
    assert found_in(store.search("secretary")) == {message.id}
    assert store.search("placeholder") == []


# ---------------------------------------------------------------------- how it is asked


def test_all_words_must_occur_and_operators_work(store: ChatStore, session: Session) -> None:
    both = store.say(session, "red fox and brown bear").id
    fox = store.say(session, "red fox alone").id
    bear = store.say(session, "brown bear alone").id
    assert found_in(store.search("fox bear")) == {both}
    assert found_in(store.search("fox OR bear")) == {both, fox, bear}
    assert found_in(store.search("fox NOT bear")) == {fox}
    assert found_in(store.search('"red fox alone"')) == {fox}
    assert found_in(store.search("alo*")) == {fox, bear}
    assert store.search("fox giraffe") == []


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        '"',
        "*",
        "AND",
        "NOT",
        "a AND",
        "(",
        ")",
        "col:x",
        "^x",
        "-",
        "NEAR(",
        "\0",
        "\ud800",
    ],
    ids=ascii,
)
def test_no_way_of_typing_fails(store: ChatStore, session: Session, query: str) -> None:
    store.say(session, "some text")
    assert isinstance(store.search(query), list)


@settings(max_examples=examples(60))
@given(query=st.text(st.characters(), max_size=30))
def test_any_text_is_a_query(lasting_store: ChatStore, query: str) -> None:
    assert isinstance(lasting_store.search(query), list)


def test_best_first_then_newest(store: ChatStore, session: Session) -> None:
    long = store.say(session, "heron " + "and many other words " * 40).id
    short = store.say(session, "heron heron").id
    assert [hit.message_id for hit in store.search("heron")] == [short, long]
    scores = [hit.score for hit in store.search("heron")]
    assert scores == sorted(scores, reverse=True)


# ---------------------------------------------------------------------- filters


def test_filters_by_session_agent_role_and_time(store: ChatStore, session: Session) -> None:
    other = new_session(store, agent="reviewer")
    asked, answered = turn(store, session, "lemur question", "lemur answer")
    elsewhere = store.say(other, "lemur elsewhere")
    assert found_in(store.search("lemur")) == {asked, answered, elsewhere.id}
    assert found_in(store.search("lemur", session=session)) == {asked, answered}
    assert found_in(store.search("lemur", session=other.id)) == {elsewhere.id}
    assert found_in(store.search("lemur", agent="reviewer")) == {elsewhere.id}
    assert found_in(store.search("lemur", role="assistant")) == {answered}
    at = elsewhere.created_at
    assert found_in(store.search("lemur", since=at)) == {elsewhere.id}
    assert found_in(store.search("lemur", until=at)) == {asked, answered}
    assert len(store.search("lemur", limit=1)) == 1


def test_archived_sessions_and_hidden_messages_only_on_request(
    store: ChatStore, session: Session
) -> None:
    asked, answered = turn(store, session, "first ibex", "second ibex")
    store.rewind(session, asked)
    assert found_in(store.search("ibex")) == {asked}
    assert found_in(store.search("ibex", hidden=True)) == {asked, answered}
    store.archive(session)
    assert store.search("ibex") == []
    assert found_in(store.search("ibex", archived=True)) == {asked}


def test_message_hidden_only_in_its_metadata_is_hidden_here_too(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    message = store.say(session, "an ibex")
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET metadata_json = '{\"hidden_at\": 5}'")
    assert store.search("ibex") == []
    assert found_in(store.search("ibex", hidden=True)) == {message.id}
    with factory.raw(store) as other:
        other.execute("UPDATE chat_messages SET metadata_json = '{broken'")
    assert found_in(store.search("ibex")) == {message.id}


def test_session_of_its_own_is_found_behind_thousands_of_newer_matches(
    store: ChatStore, session: Session
) -> None:
    old = store.say(session, "a common word").id
    crowd = new_session(store, agent="crowd")
    part = {"type": "text", "text": "a common word"}
    store.put_message(crowd, {"id": "many", "role": "assistant", "parts": [part] * 2500})
    assert found_in(store.search("common", session=session)) == {old}
    assert found_in(store.search("common", role="user")) == {old}
    assert len(store.search("common", limit=200)) == 200


def test_unknown_session_is_said_not_searched(store: ChatStore) -> None:
    with pytest.raises(NotFound, match="nope"):
        store.search("x", session="nope")


@pytest.mark.parametrize("limit", [0, -1, 201, "5", None, 1.5])
def test_limit_out_of_range_is_refused(store: ChatStore, limit: Any) -> None:
    with pytest.raises(Invalid, match="limit must be a number from 1 to 200"):
        store.search("x", limit=limit)


# ---------------------------------------------------------------------- in trouble


def test_tool_name_that_is_no_text_stands_in_nobodys_way(
    store: ChatStore, session: Session
) -> None:
    odd = {"type": "tool-x", "toolCallId": "c", "toolName": 9, "input": {"k": "zeppelin"}}
    store.put_message(session, {"id": "odd", "role": "assistant", "parts": [odd]})
    other = store.say(new_session(store), "another zeppelin")
    assert found_in(store.search("zeppelin")) == {"odd", other.id}
    store.reindex()
    store.vacuum()
    assert found_in(store.search("9 zeppelin")) == {"odd"}


def test_read_only_store_finds_what_nobody_has_indexed_yet(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    first = store.say(session, "an indexed numbat")
    store.search("numbat")
    second = store.say(session, "a numbat not yet indexed")
    with factory.reopen(store, read_only=True) as reader:
        assert found_in(reader.search("numbat")) == {first.id, second.id}
        assert ">>>numbat<<<" in reader.search("numbat")[0].snippet


def test_reindex_gives_the_same_hits(store: ChatStore, session: Session) -> None:
    for number in range(5):
        turn(store, session, f"question {number} tamarin", f"tamarin {number}")
    record(store, session, text_chunks("tamarin again"))
    before = store.search("tamarin")
    store.reindex()
    assert store.search("tamarin") == before

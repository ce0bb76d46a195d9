"""Redaction: what the hook takes for a secret reaches the disk neither whole nor in pieces."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.chats import Factory, new_session
from threadkeep.base.text import Redact
from threadkeep.chat.store import ChatStore
from threadkeep.chat.stream_redactor import StreamRedactor
from threadkeep.errors import Invalid

Json = dict[str, Any]
SECRET = re.compile(r"password: \S+|sk-\w+|\d{3}-\d{2}-\d{4}")


def hide(text: str) -> str:
    return SECRET.sub("***", text)


def delta(text: str, **more: Any) -> Json:
    return {"type": "text-delta", "id": "t", "delta": text, **more}


END: Json = {"type": "text-end", "id": "t"}


def text_of(chunks: list[Json]) -> str:
    return "".join(chunk.get("delta", "") for chunk in chunks)


def pushed(redact: Redact, *chunks: Json) -> list[Json]:
    redactor = StreamRedactor(redact)
    return [piece for chunk in chunks for piece in redactor.push(chunk)] + redactor.flush()


@pytest.fixture
def store(factory: Factory) -> ChatStore:
    return factory.open(redact=hide)


# ---------------------------------------------------------------------- texts that grow

words = st.sampled_from(["password: hunter2", "sk-abc", "a", "the key", "\n", "\t", "é", "\r\n"])


@given(st.lists(words, max_size=12), st.lists(st.integers(1, 9), min_size=1))
def test_stream_is_redacted_as_if_it_had_come_at_once(said: list[str], sizes: list[int]) -> None:
    text = rest = " ".join(said)
    pieces: list[str] = []
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    released = pushed(hide, *map(delta, pieces), END)
    assert text_of(released) == hide(text)
    assert released[-1] == END


@given(st.lists(st.text("a \n\t", max_size=6000), max_size=6))
def test_nothing_is_lost_or_held_for_ever(pieces: list[str]) -> None:
    redactor = StreamRedactor(str)
    released: list[Json] = []
    for count, piece in enumerate(pieces, 1):
        released += redactor.push(delta(piece))
        waiting = text_of(list(redactor.save().values()))
        assert text_of(released) + waiting == "".join(pieces[:count])
        assert "\n" not in waiting
        assert len(waiting) <= 512 or not re.search("[ \t]", waiting)
        assert len(waiting) <= 4096
    assert text_of(released + redactor.flush()) == "".join(pieces)
    assert redactor.flush() == []


def test_long_line_is_let_go_up_to_its_last_blank_and_a_long_word_whole() -> None:
    redactor = StreamRedactor(str)
    assert redactor.push(delta("word " * 102)) == []
    (released,) = redactor.push(delta("word end"))
    assert released["delta"] == "word " * 103
    assert redactor.push(delta("x" * 4093)) == []
    (whole,) = redactor.push(delta("x"))
    assert whole["delta"] == "end" + "x" * 4094


@pytest.mark.parametrize("size", [1, 7, 40, 200])
def test_a_private_key_is_shown_to_the_hook_whole(size: int) -> None:
    body = "\n".join(f"line{number}ofthekey" for number in range(30))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    whole = re.compile("-----BEGIN RSA.*END RSA PRIVATE KEY-----", re.DOTALL)
    text = f"before\n{key}\nbehind\n"
    pieces = [delta(text[at : at + size]) for at in range(0, len(text), size)]
    given = pushed(lambda said: whole.sub("***", said), *pieces, END)
    assert text_of(given) == "before\n***\nbehind\n"


def test_a_key_without_an_end_is_let_go_when_it_is_too_long_for_one() -> None:
    redactor = StreamRedactor(str)
    waiting = redactor.push(delta("-----BEGIN PRIVATE KEY-----\n" + "a\n" * 100))
    assert waiting == []
    assert text_of(redactor.push(delta("a\n" * 40_000)))


def test_text_waits_through_chunks_that_do_not_end_it() -> None:
    between: list[Json] = [
        {"type": "data-progress", "data": 1, "transient": True},
        {"type": "data-progress", "id": "t", "data": 1},
        {"type": "source-url", "sourceId": "t", "url": "https://example.org"},
        {"type": "reasoning-end", "id": "t"},
        {"type": "tool-input-available", "toolCallId": "t", "toolName": "x", "input": {}},
        {"type": "message-metadata", "messageMetadata": {}},
    ]
    released = pushed(hide, delta("password: "), *between, delta("hunter2\n"), END)
    assert text_of(released) == "***\n"
    assert released[: len(between)] == between


ENDS: list[Json] = [
    *({"type": kind} for kind in ("start", "reset-step", "finish", "abort")),
    *({"type": "error", "errorText": "x"}, END),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end["type"])
def test_text_is_let_go_before_what_ends_it(end: Json) -> None:
    redactor = StreamRedactor(hide)
    redactor.push(delta("sk-abc"))
    assert redactor.push(end) == [delta("***"), end]
    assert redactor.flush() == []


def test_text_of_version_6_is_let_go_before_the_end_of_its_step() -> None:
    redactor = StreamRedactor(hide, 6)
    redactor.push(delta("sk-abc"))
    assert redactor.push({"type": "finish-step"}) == [delta("***"), {"type": "finish-step"}]


def test_secret_cut_by_a_step_of_version_7_is_seen_whole() -> None:
    steps: list[Json] = [{"type": "finish-step"}, {"type": "start-step"}]
    released = pushed(hide, delta("password: hun"), *steps, delta("ter2\n"), END)
    assert released[:2] == steps
    assert text_of(released) == "***\n"


@pytest.mark.parametrize("kind", ["start-step", "finish-step", "reset-step"])
def test_input_of_a_tool_is_let_go_before_the_next_step(kind: str) -> None:
    redactor = StreamRedactor(hide)
    piece = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '"sk-abc"'}
    assert redactor.push(piece) == []
    assert redactor.push({"type": kind})[-1] == {"type": kind}
    assert redactor.flush() == []


def test_input_of_a_tool_is_let_go_before_its_result() -> None:
    redactor = StreamRedactor(hide)
    piece = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"k":"sk-'}
    assert redactor.push(piece) == []
    assert redactor.push({**piece, "inputTextDelta": 'abc"}'}) == []
    call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {}}
    released, then = redactor.push(call)
    assert (released["inputTextDelta"], then) == ('{"k":"***"}', call)


def test_what_a_waiting_delta_says_besides_its_text_is_kept_and_redacted() -> None:
    said = {"p": {"id": "sk-abc", "n": 1}}
    (released, _) = pushed(
        hide, delta("one", providerMetadata=said), delta(" two", providerMetadata=None), END
    )
    assert released == delta("one two", providerMetadata={"p": {"id": "***", "n": 1}})


# ---------------------------------------------------------------------- taking back


def test_restored_redactor_goes_on_as_if_nothing_had_been_pushed() -> None:
    redactor = StreamRedactor(hide)
    redactor.push(delta("pass"))
    before = redactor.save()
    for chunk in (delta("age\n"), delta("word: "), END):
        redactor.push(chunk)
    redactor.flush()
    redactor.restore(before)
    assert redactor.push(delta("word: hunter2\n")) == [delta("***\n")]


@pytest.mark.parametrize("chunk", [delta("b\n"), END, {"type": "data-x", "data": "b"}])
def test_hook_that_raises_leaves_the_redactor_as_it_was(chunk: Json) -> None:
    broken = [False]

    def hook(text: str) -> str:
        if broken[0]:
            raise ValueError(text)
        return text

    redactor = StreamRedactor(hook)
    redactor.push(delta("a"))
    broken[0] = True
    with pytest.raises(ValueError, match=r"[ab]"):
        redactor.push(chunk)
    broken[0] = False
    assert redactor.flush() == [delta("a")]


# ---------------------------------------------------------------------- values

NAMES = ("type", "id", "messageId", "toolCallId", "toolName", "sourceId", "approvalId")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_kept_at_the_top_and_redacted_inside(name: str) -> None:
    fields = ("input", "output", "data", "messageMetadata", "providerMetadata", "toolMetadata")
    inside = {field: {"users": [{name: "sk-abc"}], name: "sk-abc"} for field in fields}
    chunk = {"type": "data-x", **inside, name: "sk-kept"}
    (released,) = StreamRedactor(hide).push(chunk)
    assert released == json.loads(json.dumps(chunk).replace("sk-abc", "***"))


def test_name_that_is_no_text_is_content() -> None:
    (released,) = StreamRedactor(hide).push({"type": "unknown", "id": {"key": "sk-abc"}})
    assert released == {"type": "unknown", "id": {"key": "***"}}


def test_no_way_into_a_stream_leaks(store: ChatStore, factory: Factory) -> None:
    session = new_session(store)
    call = {"toolCallId": "c", "toolName": "x"}
    with store.record(session, "m") as recorder:
        for chunk in (
            {"type": "text-start", "id": "t"},
            *map(delta, ("the pass", "word: ", "hun", "ter2")),
            END,
            {"type": "tool-input-start", **call},
            *(
                {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": piece}
                for piece in ('{"id": "sk', '-hunter2"}')
            ),
            {"type": "tool-input-available", **call, "input": {"id": "sk-hunter2"}},
            {
                "type": "tool-output-available",
                "toolCallId": "c",
                "output": {"users": [{"id": "123-45-6789"}], "pair": ("sk-hunter2", 1)},
            },
        ):
            recorder.feed(chunk)
    stored = json.dumps(factory.contents(store), default=repr)
    assert "hunter2" not in stored
    assert "123-45" not in stored
    text, tool = store.message(session, "m")["parts"]
    assert text["text"] == "the ***"
    assert tool["input"] == {"id": "***"}
    assert tool["output"] == {"users": [{"id": "***"}], "pair": ["***", 1]}


def test_tuple_is_redacted_like_the_array_it_becomes(store: ChatStore) -> None:
    session = new_session(store, metadata={"keys": ("sk-abc", ["sk-abc"])})
    assert store.session(session).metadata == {"keys": ["***", ["***"]]}


def test_compaction_keeps_the_message_its_tail_begins_with(factory: Factory) -> None:
    """A hook that takes every long word for a key must not take the tail from the model."""

    def greedy(text: str) -> str:
        return re.sub(r"\w{20,}", "***", text)

    with factory.open(redact=greedy) as store:
        session = new_session(store)
        store.say(session, "one")
        tail = store.say(session, "two")
        store.compact(session, f"all about {tail.id}", tail_start=tail)
        told = [message["parts"][0]["text"] for message in store.ui_messages(session, "model")]
        assert told == ["all about ***", "two"]


def test_value_nested_too_deep_is_refused_not_a_crash(store: ChatStore) -> None:
    session = new_session(store)
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    for value in (deep, endless):
        part = {"type": "data-x", "data": value}
        with pytest.raises(Invalid, match="nested"):
            store.say(session, [part])
        with pytest.raises(Invalid, match="nested"):
            new_session(store, metadata={"x": value})
        with store.record(session) as recorder, pytest.raises(Invalid, match="nested"):
            recorder.feed(part)
    assert store.ui_messages(session) == []

"""The JSON inside mail: compact, read back as it was, refused when it is none."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.errors import Invalid, TooLarge
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox.records import OutMail, Place, read_content

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=4)


@given(objects)
def test_content_is_read_back_as_it_was_written(content: dict[str, Any]) -> None:
    text = shapes.compact(content)
    assert read_content(text) == content
    assert json.loads(text) == content
    assert shapes.compact(text) == text


@given(objects)
def test_no_space_stands_between_names_and_values(content: dict[str, Any]) -> None:
    assert shapes.compact(content) == json.dumps(
        json.loads(shapes.compact(content)), separators=(",", ":"), ensure_ascii=False
    )


def test_half_a_character_is_kept() -> None:
    content = {"text": "cut \ud83d"}
    text = shapes.compact(content)
    text.encode()
    assert read_content(text) == content


def test_text_is_written_anew_without_its_spaces() -> None:
    assert shapes.compact('{ "questionId" : "q" , "x" : [ 1 ] }') == '{"questionId":"q","x":[1]}'


@pytest.mark.parametrize("odd", ["", "hello", "[1]", "null", '"text"', "{", '{"a":NaN}', "7"])
def test_text_that_is_no_json_object_is_refused(odd: str) -> None:
    with pytest.raises(Invalid):
        shapes.compact(odd)


@pytest.mark.parametrize("odd", [{"a": float("nan")}, {"a": b"x"}, {1: "a"}, {"a": object()}])
def test_values_that_json_has_no_place_for_are_refused(odd: Any) -> None:
    with pytest.raises(Invalid):
        shapes.compact(odd)


def test_the_limit_is_in_bytes_and_exact() -> None:
    room = 20 - len('{"text":""}')
    assert len(shapes.compact({"text": "a" * room}, limit=20)) == 20
    with pytest.raises(TooLarge, match="21 bytes; 20 are allowed"):
        shapes.compact({"text": "a" * (room + 1)}, limit=20)
    with pytest.raises(TooLarge):
        shapes.compact({"text": "é" * room}, limit=20)


@given(st.text(max_size=30))
def test_any_text_of_a_row_is_shown(raw: str) -> None:
    content = read_content(raw)
    assert isinstance(content, dict)
    try:
        is_object = isinstance(json.loads(raw), dict)
    except ValueError:
        is_object = False
    assert is_object or content == {"text": raw}


def test_deep_nonsense_is_shown_as_text() -> None:
    raw = '{"a":' * 100_000
    assert read_content(raw) == {"text": raw}


@pytest.mark.parametrize("text", [7, None, ["x"]])
def test_words_that_are_no_text_are_none(text: object) -> None:
    raw = json.dumps({"text": text})
    mail = OutMail("a", 1, None, "", None, "chat", Place(), raw)
    assert mail.text == ""


def test_the_shapes_have_the_names_that_others_look_for() -> None:
    assert shapes.chat("hi", sender="Ann", sender_id="u1") == {
        "sender": "Ann",
        "senderId": "u1",
        "text": "hi",
    }
    assert shapes.note("hi") == {"text": "hi", "sender": "system", "senderId": "system"}
    assert shapes.task("do") == {"prompt": "do", "script": None}
    assert shapes.edit("m", "new") == {"operation": "edit", "messageId": "m", "text": "new"}
    assert shapes.reaction("m", "x") == {"operation": "reaction", "messageId": "m", "emoji": "x"}
    assert shapes.answer("q", "yes", "u") == {
        "type": "question_response",
        "questionId": "q",
        "selectedOption": "yes",
        "userId": "u",
    }


def test_options_are_labels_or_complete() -> None:
    said = shapes.question("q", "Title", "Which?", ["A", {"label": "B", "value": "b"}])
    assert said == {
        "type": "ask_question",
        "questionId": "q",
        "title": "Title",
        "question": "Which?",
        "options": [
            {"label": "A", "selectedLabel": "A", "value": "A"},
            {"label": "B", "selectedLabel": "B", "value": "b"},
        ],
    }
    assert shapes.is_question(said)
    assert not shapes.is_question({**said, "options": []})
    unusable: list[list[Any]] = [[], [{}], [{"label": 7}]]
    for options in unusable:
        with pytest.raises(Invalid):
            shapes.question("q", "T", "W", options)


@pytest.mark.parametrize(
    "content, clear",
    [({"text": "/clear"}, True), ({"text": " /clear\n"}, True), ({"text": "/clear all"}, False)],
)
def test_only_the_bare_command_clears(content: dict[str, Any], *, clear: bool) -> None:
    assert shapes.is_clear(content) is clear
    assert not shapes.is_clear({"text": ["/clear"]})
    assert not shapes.is_clear({})

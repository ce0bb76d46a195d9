"""What models answer becomes a draft, or is refused with a reason: never anything else."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from threadkeep.knowledge.records import Decision, Mentions, NodeDraft
from threadkeep.memory.learn.model import (
    MOST_CHARACTERS,
    BadAnswer,
    find_object,
    inferred,
    mentions,
    parse,
    repaired,
)

NODE: dict[str, Any] = {
    "summary": "Repaired the parser in src/a.py.",
    "intent": "Make the tests pass.",
    "outcome": "success",
    "entities": {"files": ["src/a.py"], "tools": ["pytest"]},
    "tags": ["bugfix"],
    "key_decisions": ["Use a table."],
    "problems_encountered": ["E0425"],
    "design_decisions": [{"considered": "a loop", "chosen": "a table", "reason": "speed"}],
    "embed_text": "src/a.py pytest E0425",
}
GOOD = json.dumps(NODE)
WANTED = NodeDraft(
    summary="Repaired the parser in src/a.py.",
    intent="Make the tests pass.",
    outcome="success",
    entities=Mentions(files=("src/a.py",), tools=("pytest",)),
    tags=("bugfix",),
    key_decisions=("Use a table.",),
    problems_encountered=("E0425",),
    design_decisions=(Decision("a loop", "a table", "speed"),),
    embed_text="src/a.py pytest E0425",
)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nI hope this helps!",
        f"Sure! Here is the {{JSON}} you asked for:\n\n{GOOD}",
        f'<think>The user wants {{"summary": "x"}} maybe</think>\n{GOOD}',
        GOOD.replace('["bugfix"]', '["bugfix",]').replace("}}", "},}"),
        GOOD[:-1] + " , }",
        json.dumps(NODE, indent=2),
        f"{GOOD}{GOOD}",
    ],
)
def test_what_stands_around_or_is_slightly_wrong_does_not_matter(answer: str) -> None:
    assert parse(answer) == WANTED


def test_lone_backslashes_are_doubled_and_true_escapes_kept() -> None:
    answer = GOOD.replace("a table.", r"C:\projects\new \"x\" \u0041 \d+ \\ ok")
    assert parse(answer).key_decisions == (
        'Use C:\\projects\new "x" A \\d+ \\ ok'.replace("\n", " "),
    )


def test_control_characters_inside_of_strings_are_borne() -> None:
    answer = GOOD.replace("Repaired the", "Repaired\n\tthe\x00\x1b")
    assert parse(answer).summary == "Repaired the parser in src/a.py."


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "{}",
        "[]",
        "null",
        GOOD[:-20],
        "{" * 3_000,
        "[" * 100_000,
        '{"a":' * 9_000,
    ],
)
def test_what_is_no_node_is_refused(answer: str) -> None:
    with pytest.raises(BadAnswer):
        parse(answer)


@pytest.mark.parametrize("field", ["summary", "intent", "embed_text"])
@pytest.mark.parametrize("value", ["", "  \n", None, 7, ["a"]])
def test_the_required_fields_are_required(field: str, value: Any) -> None:
    with pytest.raises(BadAnswer, match=field):
        parse(json.dumps(NODE | {field: value}))


@pytest.mark.parametrize("value", ["done", "", None, 1, ["success"]])
def test_an_outcome_is_one_of_four(value: Any) -> None:
    with pytest.raises(BadAnswer, match="outcome"):
        parse(json.dumps(NODE | {"outcome": value}))


def test_an_outcome_may_be_shouted() -> None:
    assert parse(json.dumps(NODE | {"outcome": " Partial "})).outcome == "partial"


@pytest.mark.parametrize("value", [None, 5, "x", {"files": 3}, [None, 4, {}], {"weird": ["a"]}])
def test_lists_of_the_wrong_kind_are_no_reason_to_refuse(value: Any) -> None:
    fields = ("tags", "key_decisions", "problems_encountered", "design_decisions")
    draft = parse(json.dumps(NODE | dict.fromkeys(fields, value) | {"entities": value}))
    assert draft.summary == WANTED.summary
    assert draft.entities == Mentions()


def test_a_text_in_the_place_of_a_list_is_taken() -> None:
    draft = parse(json.dumps(NODE | {"tags": "ci, bugfix , ci", "key_decisions": "One, two."}))
    assert draft.tags == ("ci", "bugfix")
    assert draft.key_decisions == ("One, two.",)


def test_a_flat_list_of_entities_is_sorted_by_form() -> None:
    flat = ["API_KEY", "src/lib.rs", ".env", "main.py", "TypeError: x", "github.com", "cargo", 3]
    assert mentions(flat) == Mentions(
        env_vars=("API_KEY",),
        files=("src/lib.rs", ".env", "main.py"),
        errors=("TypeError: x",),
        domains=("github.com",),
        tools=("cargo",),
    )


def test_typed_entities_are_sorted_by_their_types() -> None:
    flat = [
        {"type": "Repository", "name": "octo/app"},
        {"kind": "env-var", "value": "HOME"},
        {"type": "nonsense", "name": "errors.py"},
        {"type": "service"},
    ]
    assert mentions(flat) == Mentions(
        projects=("octo/app",), env_vars=("HOME",), files=("errors.py",)
    )


def test_aliases_of_types_and_names_in_objects_are_read() -> None:
    given = {"file": [{"name": "a.py"}, "b.py"], "Tools": "make", "urls": ["x"]}
    assert mentions(given) == Mentions(files=("a.py", "b.py"), tools=("make",))


def test_an_answer_of_a_book_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadAnswer, match="longer"):
        parse(GOOD + " " * MOST_CHARACTERS)


def test_long_fields_are_cut() -> None:
    draft = parse(json.dumps(NODE | {"summary": "a" * 99_000, "tags": ["t" * 900] * 90}))
    assert len(draft.summary) == 2_000
    assert [len(tag) for tag in draft.tags] == [500]


def test_hostile_answers_cost_no_time() -> None:
    for hostile in (
        '"\\' * 90_000,
        "<think>" * 25_000,
        "```" * 60_000,
        ", " * 90_000,
        '{"' * 90_000,
    ):
        with pytest.raises(BadAnswer):
            parse(hostile)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)


@given(st.text(max_size=300))
def test_any_text_is_a_draft_or_refused(text: str) -> None:
    try:
        draft = parse(text)
    except BadAnswer:
        return
    assert draft.summary


@settings(max_examples=examples(30))
@given(st.dictionaries(st.sampled_from(sorted(NODE)), JSON, max_size=4))
def test_any_values_are_a_draft_or_refused(changed: dict[str, Any]) -> None:
    try:
        draft = parse(json.dumps(NODE | changed))
    except BadAnswer:
        return
    assert draft.summary
    assert draft.embed_text


@settings(max_examples=examples(50))
@given(JSON, st.text(alphabet="ab {}[],\"'`\\", max_size=30))
def test_valid_json_is_found_unchanged_whatever_follows(value: Any, after: str) -> None:
    node = NODE | {"extra": value}
    assert find_object(json.dumps(node) + after.replace("```", "")) == node


@settings(max_examples=examples(50))
@given(JSON)
def test_repairing_leaves_valid_json_alone(value: Any) -> None:
    text = json.dumps(value)
    assert json.loads(repaired(text)) == value


@given(st.text(min_size=1, max_size=30))
def test_every_name_has_a_kind(name: str) -> None:
    assert inferred(name) in Mentions.__struct_fields__

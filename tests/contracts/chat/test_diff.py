"""Two sessions side by side: what is the same, what changed, and what only one of them has."""

import copy
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.chats import new_session, reply, turn
from threadkeep.chat.diff import TurnDiff, diff_messages, split_turns
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid, NotFound

Json = dict[str, Any]


def said(role: str, *parts: Json | str, **metadata: Any) -> Json:
    shaped = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    message: Json = {"id": f"{role}-{len(parts)}", "role": role, "parts": shaped}
    return {**message, "metadata": metadata} if metadata else message


def user(*parts: Json | str, **metadata: Any) -> Json:
    return said("user", *parts, **metadata)


def bot(*parts: Json | str, **metadata: Any) -> Json:
    return said("assistant", *parts, **metadata)


def tool(**fields: Any) -> Json:
    return {"type": "tool-search", "toolCallId": "c", "state": "output-available", **fields}


def statuses(turns: list[TurnDiff]) -> list[tuple[str, int | None, int | None]]:
    return [(turn.status, turn.left, turn.right) for turn in turns]


# ---------------------------------------------------------------------- turns


def test_each_user_message_begins_a_turn_and_zero_is_what_came_before() -> None:
    messages = [said("system", "rules"), bot("hi"), user("a"), bot("b"), user("c"), user("d")]
    turns = [(t.number, [m["role"] for m in t.messages]) for t in split_turns(messages)]
    assert turns == [
        (0, ["system", "assistant"]),
        (1, ["user", "assistant"]),
        (2, ["user"]),
        (3, ["user"]),
    ]
    assert split_turns([]) == []
    assert split_turns([user("a")])[0].number == 1


def test_an_added_turn_is_found_between_equal_ones() -> None:
    left = [user("1"), bot("a"), user("2"), bot("b")]
    right = [user("1"), bot("a"), user("new"), bot("x"), user("2"), bot("b")]
    expected = [("same", 1, 1), ("right", None, 2), ("same", 2, 3)]
    assert statuses(diff_messages(left, right)) == expected
    mirrored = [("same", 1, 1), ("left", 2, None), ("same", 3, 2)]
    assert statuses(diff_messages(right, left)) == mirrored


def test_the_common_beginning_counts_more_than_a_longer_match_later() -> None:
    shared = [[user(name), bot(name)] for name in "abcd"]
    left = [message for turn_ in shared for message in turn_]
    right = [*shared[0], user("new"), bot("new"), *left]
    assert statuses(diff_messages(left, right))[0] == ("same", 1, 1)


def test_another_answer_to_the_same_question_is_a_changed_turn() -> None:
    left = [user("1"), bot("a"), user("2"), bot("b")]
    right = [user("0"), bot("z"), user("1"), bot("A"), user("2"), bot("b")]
    found = diff_messages(left, right)
    assert statuses(found) == [("right", None, 1), ("changed", 1, 2), ("same", 2, 3)]
    (message,) = found[1].messages
    assert (message.status, message.role) == ("changed", "assistant")
    (part,) = message.parts
    (field,) = part.fields
    assert (part.status, part.type, field.name, field.left, field.right) == (
        *("changed", "text", "text", "a", "A"),
    )
    assert field.diff == "--- left text\n+++ right text\n@@ -1 +1 @@\n-a\n+A"


def test_turns_that_differ_at_the_same_place_are_compared() -> None:
    found = diff_messages([user("1"), bot("a")], [user("2"), bot("a")])
    assert statuses(found) == [("changed", 1, 1)]
    assert [message.role for message in found[0].messages] == ["user"]


def test_a_turn_of_one_side_lists_its_messages_and_parts() -> None:
    (found,) = diff_messages([], [user("what is this"), bot("it", tool(input={}))])
    assert (found.status, found.right, found.preview) == ("right", 1, "what is this")
    shown = [
        (m.status, m.role, [(p.status, p.type, p.right) for p in m.parts]) for m in found.messages
    ]
    assert shown == [
        ("right", "user", [("right", "text", 0)]),
        ("right", "assistant", [("right", "text", 0), ("right", "tool-search", 1)]),
    ]


# ---------------------------------------------------------------------- what changed


def only_message(left: Json, right: Json) -> Any:
    (found,) = diff_messages([user("q"), left], [user("q"), right])
    (message,) = found.messages
    return message


def test_the_fields_of_a_tool_call_are_named() -> None:
    left = bot(tool(input={"q": 1}, output="a\nb"))
    right = bot(tool(input={"q": 2}, errorText="no", state="output-error"))
    (part,) = only_message(left, right).parts
    assert {field.name: (field.left, field.right) for field in part.fields} == {
        "input": ({"q": 1}, {"q": 2}),
        "output": ("a\nb", None),
        "errorText": (None, "no"),
        "state": ("output-available", "output-error"),
    }


def test_parts_are_found_again_after_one_was_put_in_between() -> None:
    step = {"type": "step-start"}
    left = bot(step, "one", step, tool(input=1), "two")
    right = bot(step, "one", step, tool(input=0), tool(input=1), "two!")
    found = [(p.status, p.type, p.left, p.right) for p in only_message(left, right).parts]
    assert found == [("right", "tool-search", None, 3), ("changed", "text", 4, 5)]


def test_another_tool_is_removed_and_added() -> None:
    left, right = bot(tool()), bot({**tool(), "type": "tool-run"})
    found = [(p.status, p.type) for p in only_message(left, right).parts]
    assert found == [("left", "tool-search"), ("right", "tool-run")]


def test_model_usage_and_other_metadata_are_compared() -> None:
    left = bot("a", model={"model_id": "x"}, usage={"input": 1}, note="n")
    right = bot("a", model={"model_id": "y"}, usage={"input": 2})
    fields = only_message(left, right).fields
    assert [(field.name, field.left, field.right) for field in fields] == [
        ("model", {"model_id": "x"}, {"model_id": "y"}),
        ("note", "n", None),
        ("usage", {"input": 1}, {"input": 2}),
    ]


def test_a_change_of_role_is_named() -> None:
    found = diff_messages([user("q"), bot("a")], [user("q"), said("system", "a")])
    (field,) = found[0].messages[0].fields
    assert (field.name, field.left, field.right) == ("role", "assistant", "system")


def test_ids_provider_data_and_bookkeeping_are_no_content() -> None:
    left = bot({"type": "reasoning", "text": "r", "id": "1", "state": "done"}, tool(), hidden_at=3)
    right = bot(
        {"type": "reasoning", "text": "r", "id": "2", "providerMetadata": {"x": 1}},
        {**tool(), "toolCallId": "d", "callProviderMetadata": {"y": 2}},
    )
    assert statuses(diff_messages([user("q"), left], [user("q"), right])) == [("same", 1, 1)]
    growing = bot({"type": "reasoning", "text": "r", "state": "streaming"}, tool())
    assert statuses(diff_messages([user("q"), left], [user("q"), growing])) == [("changed", 1, 1)]


def test_true_is_not_one_and_the_order_of_keys_does_not_matter() -> None:
    left, right = bot(tool(input={"a": 1, "b": 2})), bot(tool(input={"b": 2, "a": 1}))
    assert diff_messages([left], [right])[0].status == "same"
    right = bot(tool(input={"a": True, "b": 2}))
    assert diff_messages([left], [right])[0].status == "changed"


def test_very_long_texts_are_not_compared_line_by_line() -> None:
    left, right = bot("x\n" * 400_000), bot("y\n" * 400_000)
    (part,) = only_message(left, right).parts
    assert part.fields[0].diff == "(800,000 and 800,000 characters: too long to compare by line)"


def test_long_lists_of_similar_parts_are_aligned_in_reasonable_time() -> None:
    step = {"type": "step-start"}
    left = bot(*(part for n in range(1000) for part in (step, tool(input=n))))
    right = bot(*(part for n in range(1000) for part in (step, tool(input=n + n % 7))))
    parts = only_message(left, right).parts
    assert {part.status for part in parts} <= {"changed", "left", "right"}
    assert parts


def test_a_preview_is_one_harmless_line() -> None:
    (found,) = diff_messages([user("\x1b[31m two\nlines \ud800" + "y" * 200)], [])
    assert found.preview.startswith("two lines \\ud800yyy")
    assert len(found.preview) == 80
    assert diff_messages([user({"type": "data-x"})], [])[0].preview == "data-x"
    assert diff_messages([{"id": "m", "role": "user", "parts": []}], [])[0].preview == ""


# ---------------------------------------------------------------------- sessions


def test_a_fork_shares_its_prefix_and_shows_where_it_parts(store: ChatStore) -> None:
    session = new_session(store, title="t")
    turn(store, session, "q1", "a1", usage={"input": 1})
    store.compact(session, "so far", tail_turns=1)
    turn(store, session, "q2", "a2")
    branch = store.fork(session)
    assert store.diff(session, branch).same
    turn(store, session, "q3", "left")
    turn(store, branch, "q3", "right")
    store.say(branch, "q4")
    found = store.diff(session.id, branch)
    assert (found.left, found.right, found.same) == (session.id, branch.id, False)
    assert statuses(found.turns) == [
        *(("same", 1, 1), ("same", 2, 2), ("changed", 3, 3), ("right", None, 4)),
    ]
    assert found.counts == {"same": 2, "changed": 1, "left": 0, "right": 1}


def test_hidden_messages_are_compared_only_when_asked_for(store: ChatStore) -> None:
    session = new_session(store)
    turn(store, session, "q1", "a1")
    branch = store.fork(session)
    asked, _ = turn(store, session, "q2", "a2")
    store.rewind(session, asked, inclusive=True)
    assert store.diff(session, branch).same
    assert store.diff(session, branch, "all").counts["left"] == 1
    with pytest.raises(Invalid, match="no view"):
        store.diff(session, branch, cast("Any", "nothing"))


def test_a_diff_sees_the_last_chunk(store: ChatStore) -> None:
    session = new_session(store)
    store.say(session, "q")
    branch = store.fork(session)
    reply(store, branch, "xy")
    with store.record(session) as recorder:
        recorder.feed({"type": "start-step"})
        recorder.feed({"type": "text-start", "id": "t"})
        recorder.feed({"type": "text-delta", "id": "t", "delta": "x"})
        (message,) = store.diff(session, branch).turns[0].messages
        fields = {field.name: (field.left, field.right) for field in message.parts[0].fields}
        assert fields == {"text": ("x", "xy"), "state": ("streaming", None)}


def test_an_unknown_session_is_named(store: ChatStore) -> None:
    with pytest.raises(NotFound, match="ses_none"):
        store.diff(new_session(store), "ses_none")


# ---------------------------------------------------------------------- what must always hold

few_texts = st.sampled_from(["a", "b", "a\nb", "\ud800", ""])
some_parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, few_texts),
    st.just({"type": "step-start"}),
    st.builds(
        lambda v, s: tool(input=v, state=s), st.sampled_from([1, True, {"q": None}]), few_texts
    ),
    st.builds(lambda text: {"type": "data-x", "data": text}, few_texts),
)
some_metadata = st.dictionaries(st.sampled_from(["usage", "model", "x"]), few_texts, max_size=1)
some_messages = st.builds(
    lambda role, parts, metadata, number: {**said(role, *parts, **metadata), "id": f"m{number}"},
    st.sampled_from(["user", "assistant", "assistant", "system"]),
    st.lists(some_parts, max_size=3),
    some_metadata,
    st.integers(),
)
conversations = st.lists(some_messages, max_size=8)


@st.composite
def relatives(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """Two conversations, one made from the other by a few changes, or two strangers."""
    left = draw(conversations)
    if draw(st.booleans()):
        return left, draw(conversations)
    right = copy.deepcopy(left)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(right)))
        right[place : place + draw(st.integers(0, 2))] = draw(st.lists(some_messages, max_size=2))
    return left, right


@given(conversations)
def test_a_conversation_is_the_same_as_itself(messages: list[Json]) -> None:
    again = [{**message, "id": f"copy-{n}"} for n, message in enumerate(messages)]
    found = diff_messages(messages, again)
    numbers = [turn.number for turn in split_turns(messages)]
    assert statuses(found) == [("same", number, number) for number in numbers]
    assert all(turn.messages == [] for turn in found)


MIRROR = {"left": "right", "right": "left"}


def shape(found: Any, *, swapped: bool = False) -> Any:
    """Leave of a diff what has no order, previews or unified diffs; its sides may be swapped."""
    if isinstance(found, list):
        return sorted((shape(item, swapped=swapped) for item in found), key=repr)
    if not hasattr(found, "left"):
        return repr(found)
    sides = (repr(found.left), repr(found.right))
    status = getattr(found, "status", getattr(found, "name", ""))
    inner = [getattr(found, name, []) for name in ("messages", "parts", "fields")]
    return (
        MIRROR.get(status, status) if swapped else status,
        sides[::-1] if swapped else sides,
        [shape(item, swapped=swapped) for item in inner],
    )


@given(relatives())
@settings(max_examples=examples(200))
def test_swapping_the_sides_swaps_the_diff(pair: tuple[list[Json], list[Json]]) -> None:
    left, right = pair
    there, back = diff_messages(left, right), diff_messages(right, left)
    assert shape(there) == shape(back, swapped=True)


@given(relatives())
@settings(max_examples=examples(200))
def test_every_turn_is_named_once_and_in_order(pair: tuple[list[Json], list[Json]]) -> None:
    left, right = pair
    found = diff_messages(left, right)
    for side, messages in (("left", left), ("right", right)):
        numbers = [getattr(turn, side) for turn in found if getattr(turn, side) is not None]
        assert numbers == [turn.number for turn in split_turns(messages)]
    for turn_ in found:
        assert (turn_.status == "left") == (turn_.right is None)
        assert (turn_.status == "right") == (turn_.left is None)
        assert bool(turn_.messages) == (turn_.status != "same")


@given(conversations, conversations, conversations)
def test_a_common_beginning_is_always_the_same(
    shared: list[Json], left: list[Json], right: list[Json]
) -> None:
    ends = [{**user("end"), "id": "e"}]
    found = diff_messages([*shared, *ends, *left], [*shared, *ends, *right])
    common = len(split_turns(shared))
    assert [turn.status for turn in found[:common]] == ["same"] * common

"""state show and lineage."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import HOSTILE, Run, document
from tests.support.states import talk
from threadkeep import SessionDB
from threadkeep.cli.state.browse import branches

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path": "a.py"}'},
}


def test_a_conversation_is_shown_with_thoughts_and_tools(run: Run, state: SessionDB) -> None:
    state.create_session("one", "cli", model="acme-1")
    ids = state.append_messages(
        "one",
        [
            {"role": "user", "content": "read it"},
            {"role": "assistant", "reasoning": "look first", "tool_calls": [CALL]},
            {"role": "tool", "tool_name": "read_file", "content": "x" * 3000},
            {"role": "assistant", "content": [{"type": "text", "text": "all x"}]},
        ],
    )
    state.update_token_counts("one", input_tokens=12, output_tokens=3, estimated_cost_usd=0.5)
    text = run("state", "show", "one").stdout
    assert "source cli · model acme-1" in text
    assert "4 messages · 1 tool call" in text
    assert "tokens: input 12, output 3 · $0.5000" in text
    assert f"#{ids[0]} user" in text
    assert "  thinking: look first\n" in text
    assert '  ▸ read_file {"path": "a.py"}\n' in text
    assert "(1,000 more characters)" in text
    assert "\n  all x\n" in text
    assert "x" * 3000 in run("state", "show", "one", "--full").stdout


def test_part_of_a_conversation(run: Run, state: SessionDB) -> None:
    ids = talk(state, "one", *(f"text {n}" for n in range(30)))
    talk(state, "two", "elsewhere")
    last = document(run("state", "show", "one", "--last", "2", "--json"))["messages"]
    assert [one["id"] for one in last] == ids[-2:]
    around = document(run("state", "show", "--around", str(ids[10]), "--json"))
    assert [one["id"] for one in around["messages"]] == ids[5:16]
    assert around["session"]["id"] == "one"
    assert f"▶ #{ids[10]} user" in run("state", "show", "--around", str(ids[10])).stdout
    assert (
        "belongs to session 'one'"
        in run("state", "show", "two", "--around", str(ids[10]), code=3).stderr
    )
    run("state", "show", "--around", "9999", code=3)
    run("state", "show", code=2)


def test_a_session_is_named_in_many_ways(run: Run, state: SessionDB) -> None:
    talk(state, "abc-1", "first")
    talk(state, "abc-2", "second")
    state.set_session_title("abc-1", "My title")
    state.create_session("empty", "cli")
    for ref, found in (("abc-1", "abc-1"), ("My title", "abc-1"), ("last", "abc-2")):
        assert run("state", "show", ref).stdout.startswith(found)
    assert "abc-1, abc-2" in run("state", "show", "abc", code=2).stderr
    assert "there is no session 'x'" in run("state", "show", "x", code=3).stderr
    run("state", "show", "", code=2)


def test_hostile_content_reaches_no_terminal(run: Run, state: SessionDB) -> None:
    state.create_session("one", "cli", system_prompt=HOSTILE)
    state.append_message("one", "assistant", HOSTILE, reasoning=HOSTILE, tool_name=HOSTILE)
    bad = {"function": {"name": HOSTILE, "arguments": HOSTILE}}
    state.append_message("one", "assistant", "half \ud800", tool_calls=[bad, HOSTILE])
    for words in (["one"], ["one", "--prompt", "--full"], ["one", "--json"]):
        text = run("state", "show", *words).stdout
        assert not set(text) & {"\x1b", "\x07", "\u202e", "\ud800"}
        assert "[bold]markup[/bold]" in text


def test_values_that_json_does_not_know(run: Run, state: SessionDB) -> None:
    state.create_session("one", "cli")
    state.append_message("one", "assistant", tool_calls=[{"x": math.nan}], content=b"\xff")
    (message,) = document(run("state", "show", "one", "--json"))["messages"]
    assert message["tool_calls"] == [{"x": "nan"}]
    run("state", "show", "one")


def test_where_a_compressed_session_goes_on(run: Run, state: SessionDB) -> None:
    talk(state, "one", "long talk")
    state.compress_session("one", "two", [{"role": "user", "content": "in short"}])
    assert "continued in two" in run("state", "show", "one").stdout
    assert "child of one" in run("state", "show", "two").stdout


def test_a_lineage_is_a_tree_with_relations(run: Run, state: SessionDB) -> None:
    talk(state, "root", "hello")
    state.compress_session("root", "next")
    state.branch_session("next", "side")
    state.create_session("helper", "cli", parent_session_id="next")
    lines = run("state", "lineage", "side").stdout.splitlines()
    assert lines[0].startswith("root  ")
    assert lines[1].startswith("└─ next  compression")
    assert lines[2].startswith("   ├─ side  branch")
    assert lines[2].endswith("◀")
    assert lines[3].startswith("   └─ helper  (delegate)")
    told = document(run("state", "lineage", "side", "--json"))
    assert told["session_id"] == "side"
    assert [one["depth"] for one in told["lineage"]] == [0, 1, 2, 2]


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    depths = [0]
    for _ in range(draw(st.integers(0, 12))):
        depths.append(draw(st.integers(1, depths[-1] + 1)))
    return depths


@given(trees())
def test_every_line_of_a_tree_has_something_to_hang_on(depths: list[int]) -> None:
    leads = branches(depths)
    assert [len(lead) for lead in leads] == [3 * depth for depth in depths]
    for above, below in pairwise(leads):
        for place, mark in enumerate(below):
            if mark in "│├" and place < len(above):
                assert above[place] in "│├"
            if mark == "└" and place < len(above):
                assert above[place] in "│├"


@pytest.mark.parametrize(
    "depths, drawn",
    [([0], [""]), ([0, 1, 2, 1], ["", "├─ ", "│  └─ ", "└─ "])],
)
def test_a_tree(depths: list[int], drawn: list[str]) -> None:
    assert branches(depths) == drawn

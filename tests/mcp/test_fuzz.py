"""Whatever an agent passes to a tool, it gets an answer or a refusal that it can read."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.mcp.asking import TOOLS
from threadkeep.mcp.tools import MOST_BYTES, ToolContext, call, input_schema

ODD = st.sampled_from(
    ["", "0", "-1", "7d", "tide", "message:1", "node:99", "claude-code:", "%_\\", '"', "NEAR(a b)"]
)
WORDS = ODD | st.text(max_size=12)
NUMBERS = st.integers() | st.sampled_from([-(2**70), 2**70, 0, 1, 100])
ANYTHING = st.none() | st.booleans() | st.floats() | NUMBERS | WORDS | st.lists(WORDS, max_size=2)


def fitting(described: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that the schema of an argument allows."""
    if "enum" in described:
        return st.sampled_from(described["enum"])
    if "anyOf" in described:
        return st.one_of(*map(fitting, described["anyOf"]))
    kinds = {"integer": NUMBERS, "string": WORDS, "null": st.none()}
    return kinds.get(described["type"], st.lists(WORDS, max_size=3))


@pytest.mark.parametrize("name", sorted(set(TOOLS) - {"label", "remember"}))
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_argument_breaks_a_tool(room: ToolContext, name: str, data: st.DataObject) -> None:
    properties = input_schema(TOOLS[name])["properties"]
    given_ = {
        key: data.draw(ANYTHING if data.draw(st.integers(0, 9)) == 0 else fitting(one), label=key)
        for key, one in properties.items()
        if data.draw(st.booleans())
    }
    answer = call(TOOLS[name], room, given_)
    assert "failed inside" not in answer.text
    assert len(answer.text.encode()) <= 2 * MOST_BYTES
    assert answer.is_error == (answer.data is None) or TOOLS[name].answer is None

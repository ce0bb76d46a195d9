"""The reducer against the real `ai` package, over streams that nobody wrote by hand."""

from pathlib import Path
from typing import Any

import pytest

from tests.lengths import at_length
from tests.support import ai_sdk
from tests.support.golden import without_trailing_steps
from tests.support.streams import random_case
from threadkeep.chat.wire.protocol import validate_chunk
from threadkeep.chat.wire.reduce import StreamState
from threadkeep.errors import ProtocolViolation

CASES = at_length(800, 250)


def our_states(case: dict[str, Any], protocol: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the message after every chunk up to the first violation, and whether there was one."""
    initial = case.get("initial_message")
    state = StreamState(initial, initial["id"] if initial else "", protocol=protocol)
    states: list[dict[str, Any]] = []
    for chunk in case["chunks"]:
        before = state.message()
        try:
            state.apply(validate_chunk(chunk, protocol))
        except ProtocolViolation:
            assert state.message() == before
            return states, True
        states.append(state.message())
    return states, False


@pytest.mark.parametrize("protocol", [6, 7])
def test_every_state_equals_the_sdks_own(protocol: int, tmp_path: Path) -> None:
    # Each version is also given streams of the other: what it does not know it leaves alone.
    cases = [random_case(seed, (protocol, 6, 7)[seed % 3]) for seed in range(CASES)]
    verdicts = ai_sdk.judge(cases, ai_sdk.installed_modules(protocol), tmp_path)
    assert [verdict["id"] for verdict in verdicts] == [case["id"] for case in cases]
    violations = 0
    for case, verdict in zip(cases, verdicts, strict=True):
        states, violated = our_states(case, protocol)
        assert violated == (verdict["error"] == "AI_UIMessageStreamError"), case["id"]
        assert len(states) == len(verdict["states"]), case["id"]
        for k, (ours, theirs) in enumerate(zip(states, verdict["states"], strict=True)):
            assert ours == theirs, f"{case['id']} after chunk {k}: {case['chunks'][k]}"
        if "final" in verdict:
            emitted = without_trailing_steps(verdict["final"])
            assert emitted == without_trailing_steps(states[-1]), case["id"]
        violations += violated
    # The generator must keep making both kinds, or the comparison says little.
    assert CASES // 20 < violations < CASES // 2

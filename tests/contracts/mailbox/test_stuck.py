"""When a container counts as stuck: NanoClaw's rules as a table, and what holds for all values."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.clock import iso
from threadkeep.mailbox.context import DEFAULT
from threadkeep.mailbox.host.sweep import stuck_reason
from threadkeep.mailbox.records import Claim, ToolState
from threadkeep.mailbox.rows import sqlite_form

NOW = 1_770_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE


def bash(timeout: Any, tool: str = "Bash") -> ToolState:
    return ToolState(tool, timeout, None)


def taken(age_ms: int, *, as_iso: bool = False) -> Claim:
    write = iso if as_iso else sqlite_form
    return Claim("m", write(NOW - age_ms))


# now - heartbeat (None: no heartbeat), tool, ages of claims, expected
TABLE = [
    ("idle, beating", 0, None, [], None),
    ("no heartbeat, no claim", None, None, [], None),
    ("exactly the ceiling", 30 * MINUTE, None, [], None),
    ("over the ceiling", 30 * MINUTE + 1, None, [], "absolute-ceiling"),
    ("a shell command may take longer", 45 * MINUTE, bash(HOUR), [], None),
    ("exactly as long as it said", HOUR, bash(HOUR), [], None),
    ("longer than it said", HOUR + 1, bash(HOUR), [], "absolute-ceiling"),
    ("a short announcement shortens nothing", 29 * MINUTE, bash(1000), [], None),
    ("another tool's word does not count", 45 * MINUTE, bash(HOUR, "bash"), [], "absolute-ceiling"),
    ("a word that is no number", 45 * MINUTE, bash("3600000"), [], "absolute-ceiling"),
    ("a word that is no length", 45 * MINUTE, bash(float("inf")), [], "absolute-ceiling"),
    ("a word that is true", 45 * MINUTE, bash(bool(1)), [], "absolute-ceiling"),
    ("a broken number", 45 * MINUTE, bash(3_600_000.5), [], None),
    ("a negative number", 10, bash(-5), [MINUTE], None),
    ("fresh claim, no heartbeat", None, None, [59_000], None),
    ("claim exactly at its limit", None, None, [60_000], None),
    ("old claim, no heartbeat", None, None, [61_000], "claim-stuck"),
    ("old claim, older heartbeat", 5 * MINUTE, None, [2 * MINUTE], "claim-stuck"),
    ("old claim, heartbeat at the same time", 2 * MINUTE, None, [2 * MINUTE], "claim-stuck"),
    ("old claim, heartbeat just after", 2 * MINUTE - 1, None, [2 * MINUTE], None),
    ("old claim in a long command", 5 * MINUTE, bash(10 * MINUTE), [2 * MINUTE], None),
    ("one of several", 2 * MINUTE, None, [1000, 10_000, 3 * MINUTE, 4 * MINUTE], None),
    ("the last of several", 150_000, None, [1000, 2 * MINUTE], "claim-stuck"),
    ("the ceiling is looked at first", 31 * MINUTE, None, [HOUR], "absolute-ceiling"),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_the_rules(
    row: tuple[str, int | None, ToolState | None, list[int], str | None],
) -> None:
    _, beat, tool, ages, expected = row
    heartbeat = None if beat is None else NOW - beat
    claims = [taken(age) for age in ages]
    assert stuck_reason(NOW, heartbeat, tool, claims) == expected


def test_a_claim_counts_in_either_form_of_time() -> None:
    for as_iso in (True, False):
        claims = [taken(2 * MINUTE, as_iso=as_iso)]
        assert stuck_reason(NOW, None, None, claims) == "claim-stuck"


@pytest.mark.parametrize("nonsense", ["", "soon", "1770000000000", "2026-13-01 00:00:00"])
def test_a_claim_without_a_time_proves_nothing(nonsense: str) -> None:
    assert stuck_reason(NOW, None, None, [Claim("m", nonsense)]) is None


ages = st.integers(-HOUR, 3 * HOUR)
tools = st.none() | st.builds(
    ToolState,
    st.sampled_from(["Bash", "Read", None]),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=3),
)


@given(st.none() | ages, tools, st.lists(ages, max_size=4))
def test_only_silence_makes_stuck(beat: int | None, tool: Any, claim_ages: list[int]) -> None:
    heartbeat = None if beat is None else NOW - beat
    found = stuck_reason(NOW, heartbeat, tool, [taken(age) for age in claim_ages])
    if found == "absolute-ceiling":
        assert (beat or 0) > DEFAULT.ceiling_ms
    if found == "claim-stuck":
        # Claims are kept in whole seconds.
        assert max(claim_ages) + 1000 > DEFAULT.claim_ms
        assert beat is None or beat >= min(claim_ages)


@given(st.none() | ages, st.lists(ages, max_size=4))
def test_a_longer_announcement_never_makes_stuck(beat: int | None, claim_ages: list[int]) -> None:
    heartbeat = None if beat is None else NOW - beat
    claims = [taken(age) for age in claim_ages]
    short, long = (stuck_reason(NOW, heartbeat, bash(ms), claims) for ms in (0, 10 * HOUR))
    assert long is None or short is not None

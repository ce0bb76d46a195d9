"""The rules about capture: evidence breaks them, silence does not."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from threadkeep.service.doctor.invariants import (
    INVARIANTS,
    Browsing,
    LogBacklog,
    LostReports,
    Memories,
    MissingCommands,
    PendingReports,
    Preflight,
    Probe,
    RefusedReports,
    Snapshot,
    ToolCalls,
    check,
    invariant_of,
    is_busy,
)

NOW = 1_800_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def seen(**observed: Any) -> Snapshot:
    return Snapshot(now=NOW, **observed)


def behind(harness: str = "claude-code", ago: int = MINUTE, **more: Any) -> LogBacklog:
    source = f"agentic-session-{harness}"
    return LogBacklog(source, harness, NOW - ago, 1, f"/logs/{harness}.jsonl", **more)


def keys(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [one.key for one in check(snapshot)]


# What breaks each rule, and the same a moment before it does.
BROKEN: dict[str, tuple[str, Snapshot, Snapshot]] = {
    "I-1": (
        "shell",
        seen(typed=MissingCommands(NOW - 2 * MINUTE, 3, "h")),
        seen(typed=MissingCommands(NOW - 2 * MINUTE, 2, "h")),
    ),
    "I-2": (
        "agentic-session-claude-code",
        seen(behind=(behind(),)),
        seen(behind=(behind(ago=29 * SECOND),)),
    ),
    "I-3": (
        "claude-tool",
        seen(calls=ToolCalls(NOW - 2 * MINUTE, None)),
        seen(calls=ToolCalls(NOW - 2 * MINUTE, NOW - 2 * MINUTE)),
    ),
    "I-4": (
        "browser",
        seen(browsing=Browsing(NOW - HOUR, NOW - HOUR)),
        seen(browsing=Browsing(NOW - MINUTE, NOW - HOUR)),
    ),
    "I-5": ("socket", seen(lost=(LostReports("socket", "spool", 1, NOW),)), seen()),
    "I-6": (
        "spool",
        seen(unclear=RefusedReports(3, 2000, NOW)),
        seen(unclear=RefusedReports(3, 3000, NOW)),
    ),
    "I-7": (
        "watchdog",
        seen(resident=True, watchdog_at=NOW - 3 * MINUTE),
        seen(resident=True, watchdog_at=NOW - MINUTE),
    ),
    "I-8": (
        "shell",
        seen(probes=(Probe("shell", ok=False, ran_at=NOW, since=NOW),)),
        seen(probes=(Probe("shell", ok=True, ran_at=NOW, since=NOW),)),
    ),
    "I-9": (
        "spool",
        seen(resident=True, waiting=(PendingReports("spool", 1, NOW - 10 * MINUTE),)),
        seen(waiting=(PendingReports("spool", 1, NOW - 10 * MINUTE),)),
    ),
    "I-11": (
        "agentic-session-opencode",
        seen(behind=(behind("opencode"),)),
        seen(behind=(behind("opencode", ago=0),)),
    ),
    "I-12": ("brain-preflight", seen(preflight=Preflight(4, NOW, "x")), seen()),
    "I-13": ("agentic-session-codex", seen(behind=(behind("codex"),)), seen()),
    "I-14": ("vectors", seen(vectors_missing=26), seen(vectors_missing=25)),
    "I-15": ("agentic-session-cursor", seen(behind=(behind("cursor"),)), seen()),
    "I-16": ("nodes", seen(duplicates=1), seen(duplicates=0)),
    "I-17": (
        "auto-memory-watcher",
        seen(memories=Memories(NOW - 16 * MINUTE, NOW - 59 * MINUTE)),
        seen(memories=Memories(NOW - 16 * MINUTE, NOW - 61 * MINUTE)),
    ),
    "I-18": (
        "claude-auto-memory",
        seen(memories=Memories(NOW, NOW, failures=4)),
        seen(memories=Memories(NOW, NOW, failures=3)),
    ),
    "I-19": ("claude-auto-memory", seen(memories=Memories(NOW, NOW, waiting=1)), seen()),
    "I-20": ("claude-auto-memory", seen(memories=Memories(NOW, NOW, bare=1)), seen()),
}


@pytest.mark.parametrize("invariant", BROKEN)
def test_evidence_breaks_a_rule_and_less_does_not(invariant: str) -> None:
    source, broken, kept = BROKEN[invariant]
    assert keys(broken) == [(invariant, source)]
    assert check(kept) == []


def test_every_rule_has_a_name_and_a_case_but_the_one_that_holds_by_shape() -> None:
    assert set(INVARIANTS) - set(BROKEN) == {"I-10"}
    assert list(INVARIANTS) == [f"I-{number}" for number in range(1, 21)]


def test_three_sources_that_fail_are_three_violations() -> None:
    names = ("shell", "claude-tool", "browser")
    probes = tuple(Probe(name, ok=False, ran_at=NOW, since=NOW) for name in names)
    assert keys(seen(probes=probes)) == [("I-8", name) for name in names]


def test_every_other_harness_has_the_same_rule_by_its_own_source() -> None:
    harnesses = ("claude-code", "pi", "aider", "gemini-cli", "copilot-cli")
    ground = tuple(behind(name, ago=HOUR) for name in harnesses)
    assert keys(seen(behind=ground)) == [("I-2", f"agentic-session-{one}") for one in harnesses]
    assert {invariant_of(one) for one in ("codex", "cursor", "opencode")} == {
        *("I-11", "I-13", "I-15")
    }


def test_trouble_with_enrichment_breaks_no_rule_of_capture() -> None:
    sick = seen(preflight=Preflight(99, NOW, "gone"), vectors_missing=999, duplicates=9)
    assert {one.invariant for one in check(sick)} == {"I-12", "I-14", "I-16"}


def test_a_probe_of_the_shell_may_be_late_while_nobody_types() -> None:
    late = seen(
        resident=True, probes=(Probe("shell", ok=True, ran_at=NOW - HOUR, since=NOW - HOUR),)
    )
    assert check(late) == []
    assert keys(replace(late, typed_at=NOW - 9 * MINUTE)) == [("I-8", "shell")]
    assert check(replace(late, typed_at=NOW - 10 * MINUTE)) == []
    silent = Probe("shell", ok=True, ran_at=NOW - 24 * HOUR, since=NOW - 24 * HOUR)
    assert keys(replace(late, probes=(silent,))) == [("I-8", "shell")]
    failing = Probe("shell", ok=False, ran_at=NOW, since=NOW)
    assert keys(replace(late, probes=(failing,))) == [("I-8", "shell")]
    other = Probe("claude-tool", ok=True, ran_at=NOW - HOUR, since=NOW - HOUR)
    assert keys(replace(late, probes=(other,))) == [("I-8", "claude-tool")]


# ---------------------------------------------------------------------- time


@given(st.integers(0, 30 * SECOND - 1))
def test_a_missed_log_is_told_within_a_minute_whenever_the_watchdog_looks(phase: int) -> None:
    ticks = [NOW + phase + number * 30 * SECOND for number in range(4)]
    logs = (replace(behind(), since=NOW),)
    told = [now for now in ticks if check(Snapshot(now=now, looked_at=now - 20_000, behind=logs))]
    assert told[0] - NOW < MINUTE
    assert told == ticks[ticks.index(told[0]) :]


def test_a_log_that_nobody_watches_has_a_little_longer() -> None:
    assert check(seen(behind=(behind("aider", MINUTE, polled=True),))) == []
    assert check(seen(behind=(behind("aider", 76 * SECOND, polled=True),))) != []


def test_one_long_look_that_gets_on_is_no_standstill() -> None:
    busy = seen(
        behind=(behind(ago=10 * MINUTE),), captured_at=NOW - SECOND, looked_at=NOW - 5 * MINUTE
    )
    assert is_busy(busy)
    assert check(busy) == []
    closed = replace(behind(ago=SECOND), closed=True, why="Permission denied")
    assert keys(replace(busy, behind=(closed,))) == [("I-2", "agentic-session-claude-code")]
    stuck = replace(busy, captured_at=NOW - 5 * MINUTE)
    assert keys(stuck) == [("I-2", "agentic-session-claude-code")]


def test_others_that_are_captured_do_not_hide_the_one_that_is_not() -> None:
    """Capture looks at all logs as it should, stores from others, and this one stays behind."""
    active = seen(
        behind=(behind(ago=2 * MINUTE),), captured_at=NOW - SECOND, looked_at=NOW - 10 * SECOND
    )
    assert keys(active) == [("I-2", "agentic-session-claude-code")]


everything = st.builds(
    Snapshot,
    now=st.just(NOW),
    awake_since=st.just(NOW - 20 * SECOND),
    resident=st.booleans(),
    looked_at=st.none() | st.integers(0, NOW),
    behind=st.lists(
        st.builds(
            behind, st.sampled_from(["claude-code", "codex", "pi", "aider"]), st.integers(0, NOW)
        ),
        max_size=3,
    ).map(tuple),
    typed=st.none()
    | st.builds(MissingCommands, st.integers(0, NOW), st.integers(1, 99), st.just("h")),
    browsing=st.none() | st.builds(Browsing, st.integers(0, NOW), st.integers(0, NOW)),
    calls=st.none() | st.builds(ToolCalls, st.integers(0, NOW), st.none()),
    watchdog_at=st.none() | st.integers(0, NOW),
    probes=st.lists(
        st.builds(
            Probe,
            st.sampled_from(["shell", "browser"]),
            ok=st.just(value=True),
            ran_at=st.integers(0, NOW),
            since=st.integers(0, NOW),
        ),
        max_size=3,
    ).map(tuple),
    waiting=st.lists(
        st.builds(
            PendingReports, st.sampled_from(["spool"]), st.integers(0, 9), st.integers(0, NOW)
        ),
        max_size=2,
    ).map(tuple),
)


@given(everything)
def test_whatever_became_old_while_the_machine_slept_breaks_no_rule_at_once(
    snapshot: Snapshot,
) -> None:
    assert check(snapshot) == []


@given(everything, st.integers(0, 60 * MINUTE))
def test_no_two_violations_have_the_same_key(snapshot: Snapshot, awake: int) -> None:
    found = check(replace(snapshot, awake_since=NOW - awake))
    assert len({one.key for one in found}) == len(found)


@given(
    st.integers(0, 7 * 24 * HOUR),
    st.booleans(),
    st.lists(st.sampled_from(["shell", "browser", "claude-tool"]), unique=True),
)
def test_an_idle_machine_breaks_no_rule_in_a_week(
    idle: int,
    resident: bool,  # noqa: FBT001  (hypothesis passes it)
    probed: list[str],
) -> None:
    """Nothing changed on the disk since; the service looks and probes, or nobody does."""
    now = NOW + idle
    last = now - 4 * MINUTE if resident else NOW
    snapshot = Snapshot(
        now=now,
        resident=resident,
        looked_at=now - 10 * SECOND if resident else NOW,
        captured_at=NOW,
        watchdog_at=now - 30 * SECOND if resident else NOW,
        probes=tuple(Probe(name, ok=True, ran_at=last, since=last) for name in probed),
        calls=ToolCalls(NOW - HOUR, NOW - HOUR),
        unclear=RefusedReports(1, 0, NOW),
    )
    assert check(snapshot) == []

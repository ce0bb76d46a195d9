"""The checks over facts: the same facts give the same findings, and unused is not red."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from threadkeep.base.sqlite.pragmas import Engine
from threadkeep.knowledge.health import Alarm, Drop, Service, Violation
from threadkeep.service.doctor.checks import examine
from threadkeep.service.doctor.facts import (
    LEVELS,
    CaptureFacts,
    CleanupFacts,
    DiskFacts,
    DoctorFacts,
    DriftFacts,
    Finding,
    HookFacts,
    ModelFacts,
    QueueFacts,
    SourceFacts,
    StoreFacts,
    VectorFacts,
    worst,
)
from threadkeep.service.doctor.invariants import INVARIANTS, PendingReports

NOW = 1_800_000_000_000
DAY = 86_400_000
MB = 1 << 20
ENGINE = Engine("3.53.4", wal_reset_race=False)
STORE = StoreFacts(
    "knowledge", "/h/knowledge.db", exists=True, bytes=MB, version=18, last_backup=NOW
)
CAPTURE = CaptureFacts(sources=(SourceFacts("claude-code", 5, 0),))
WELL = DoctorFacts(
    now=NOW,
    version="1.0",
    engine=ENGINE,
    home="/h",
    disk=DiskFacts("/h", 90_000 * MB, "ext4"),
    stores=(STORE,),
    hooks=(HookFacts("zsh", "whole", "/u/.zshrc"),),
    capture=CAPTURE,
)


def findings(**changed: Any) -> dict[str, Finding]:
    return {one.check: one for one in examine(replace(WELL, **changed))}


def of_capture(**changed: Any) -> dict[str, Finding]:
    return findings(capture=replace(CAPTURE, **changed))


def test_all_well_is_all_well() -> None:
    assert worst(examine(WELL)) in {"ok", "info"}


def test_a_program_that_was_not_used_for_a_month_is_green() -> None:
    """Its logs are old, or were deleted; whatever there is, is in the store."""
    for codex in (SourceFacts("codex", 12, 0), SourceFacts("codex", 0, 0)):
        found = of_capture(sources=(*CAPTURE.sources, codex))
        assert {one.level for one in found.values()} <= {"ok", "info"}


def test_nothing_at_all_is_green() -> None:
    empty = DoctorFacts(
        NOW, "1.0", ENGINE, "/h", stores=(StoreFacts("chat", "/h/chat.db", exists=False),)
    )
    assert worst(examine(empty)) == "info"


@pytest.mark.parametrize(
    "free, level", [(99 * MB, "fail"), (499 * MB, "warn"), (500 * MB, "ok"), (None, None)]
)
def test_room_on_the_disk(free: int | None, level: str | None) -> None:
    found = findings(disk=DiskFacts("/h", free, "ext4")).get("disk")
    assert (found and found.level) == level


def test_a_write_ahead_log_on_a_network_is_a_failure_and_its_absence_is_not() -> None:
    disk = DiskFacts("/h", 9000 * MB, "nfs4", wal_allowed=False)
    bad = replace(STORE, journal="wal")
    assert worst(examine(replace(WELL, disk=disk, stores=(bad,)))) == "fail"
    good = replace(STORE, journal="delete")
    assert worst(examine(replace(WELL, disk=disk, stores=(good,)))) == "info"


def test_the_race_of_old_engines_is_told_and_is_no_failure() -> None:
    found = findings(engine=Engine("3.40.1", wal_reset_race=True))["engine"]
    assert (found.level, "3.51.3" in found.fix) == ("info", True)


def test_a_log_that_cannot_be_emptied_names_who_is_in_the_way() -> None:
    long = replace(STORE, wal_bytes=70 * MB, reader="process 7 (sqlite3)")
    found = findings(stores=(long,))["log"]
    assert (found.level, "process 7" in found.cause) == ("warn", True)


def test_missed_logs_are_worse_while_somebody_captures() -> None:
    missed = (SourceFacts("pi", 3, 1, "/u/x.jsonl"),)
    since = Violation("I-2", "agentic-session-pi", 1, "missed")
    on_demand = of_capture(sources=missed, violations=(since,))["coverage pi"]
    running = of_capture(sources=missed, violations=(since,), resident=True)["coverage pi"]
    other = Violation("I-2", "agentic-session-aider", 1, "missed")
    fresh = of_capture(sources=missed, violations=(other,), resident=True)["coverage pi"]
    assert (on_demand.level, running.level, fresh.level) == ("warn", "fail", "warn")


@pytest.mark.parametrize(
    "why, closed, fix",
    [
        ("", False, "threadkeep capture"),
        ("[Errno 5] Input/output error", False, "threadkeep capture"),
        ("[Errno 13] Permission denied", True, "chmod u+rX '/u/a b.jsonl'"),
        ("/u/a b.jsonl is locked by another program: x", False, "fuser -v '/u/a b.jsonl'"),
        ("ValidationError: no", False, "threadkeep doctor --repair"),
    ],
)
def test_the_fix_of_a_log_that_cannot_be_read_is_one_that_helps(
    why: str, *, closed: bool, fix: str
) -> None:
    missed = SourceFacts("pi", 3, 1, "/u/a b.jsonl", why, closed=closed)
    found = of_capture(sources=(missed,))["coverage pi"]
    assert found.fix == fix
    assert found.level == ("fail" if why else "warn")


def test_an_alarm_whose_rule_is_kept_again_is_no_failure() -> None:
    told = '{"source": "shell", "since_ms": 1, "details": "d"}'
    alarm = Alarm(1, "I-8", NOW, told, None, None, None, 0)
    unclear = replace(alarm, details_json="whatever")
    broken = Violation("I-8", "shell", 1, "d")
    assert of_capture(alarms=(alarm,), violations=(broken,))["alarms"].level == "fail"
    found = of_capture(alarms=(alarm,))
    assert (found["alarms"].level, found["ended alarms"].level) == ("ok", "info")
    assert of_capture(alarms=(unclear,))["alarms"].level == "fail"


def test_claudes_own_cleaning_matters_only_where_something_would_be_lost() -> None:
    def level(days: int | None, missed: int) -> str:
        cleanup = CleanupFacts("/u/.claude/settings.json", days)
        claude = (SourceFacts("claude-code", 5, missed),)
        return of_capture(sources=claude, cleanup=cleanup)["cleanupPeriodDays"].level

    assert level(None, 1) == level(30, 1) == level(0, 1) == "warn"
    assert level(None, 0) == level(3650, 1) == "ok"


def test_the_exact_setting_is_told() -> None:
    cleanup = CleanupFacts("/u/.claude/settings.json", None)
    found = of_capture(sources=(SourceFacts("claude-code", 5, 5),), cleanup=cleanup)
    fix = found["cleanupPeriodDays"].fix
    assert fix == 'put "cleanupPeriodDays": 3650 into /u/.claude/settings.json'


def test_a_service_and_a_file_are_compared() -> None:
    service = Service(7, "mark", "1.0", 18, NOW, NOW)

    def level(**changed: Any) -> str:
        told = replace(service, **changed)
        return worst(examine(replace(WELL, service=told, service_runs=True)))

    assert level() in {"ok", "info"}
    assert level(version="0.9") == "warn"
    assert level(schema=17) == "fail"


def test_an_old_service_is_ended_in_the_way_in_which_it_was_started() -> None:
    old = {"service": Service(7, "mark", "0.9", 18, NOW, NOW), "service_runs": True}
    assert findings(**old)["handshake"].fix == "kill 7"
    installed = findings(**old, service_installed=True)["handshake"]
    assert installed.fix == "threadkeep service install"


def test_a_process_that_does_not_work_is_not_called_running() -> None:
    service = Service(7, "mark", "1.0", 18, NOW, NOW - 3_600_000)
    running = {"service": service, "service_runs": True}
    stopped = findings(**running, service_hindrance="stopped")["service"]
    assert (stopped.level, stopped.fix) == ("warn", "kill -CONT 7")
    silent = findings(**running, service_hindrance="silent", service_installed=True)["service"]
    assert (silent.level, silent.fix) == ("warn", "threadkeep service install")
    assert "60 minutes" in silent.what
    old = replace(service, version="0.9")
    both = findings(service=old, service_runs=True, service_hindrance="stopped")
    assert both["service"].level == both["handshake"].level == "warn"


@pytest.mark.parametrize("stopped_at", [None, NOW])
def test_a_service_that_should_run_is_missed(stopped_at: int | None) -> None:
    ended = replace(Service(7, "mark", "1.0", 18, NOW, NOW), stopped_at=stopped_at)
    assert findings(service=ended)["service"].level == "info"
    missed = findings(service=ended, service_installed=True)["service"]
    assert (missed.level, missed.fix) == ("warn", "threadkeep service install")


def test_vectors_of_another_model_are_told() -> None:
    found = findings(vectors=VectorFacts("old", "new", 0))["vectors"]
    assert (found.level, "old" in found.what, "new" in found.what) == ("warn", True, True)
    assert findings(vectors=VectorFacts("same", "same", 0))["vectors"].level == "ok"


def test_a_model_that_is_not_configured_is_not_missed() -> None:
    assert findings()["model"].level == "info"
    assert findings(model=ModelFacts("http://m/v1"))["model"].level == "ok"


# ---------------------------------------------------------------------- every finding

words = st.text(max_size=12)
some = st.integers(0, 5000)
any_facts = st.builds(
    DoctorFacts,
    now=st.just(NOW),
    version=st.just("1.0"),
    engine=st.just(ENGINE),
    home=st.just("/h"),
    config_trouble=st.sampled_from(["", "config.toml: no"]),
    stores=st.lists(
        st.builds(
            StoreFacts,
            st.sampled_from(["chat", "state", "mailbox", "knowledge"]),
            st.just("/h/x.db"),
            exists=st.booleans(),
            version=st.integers(0, 20),
            older=st.booleans(),
            trouble=st.sampled_from(["", "damaged", "locked", "newer", "foreign", "closed"]),
            said=st.just("said"),
            problems=st.lists(st.just("torn"), max_size=2).map(tuple),
            unindexed=some,
            wal_bytes=st.integers(0, 200 * MB),
            writer=st.sampled_from(["", "process 1"]),
            last_backup=st.none() | st.integers(NOW - 40 * DAY, NOW),
        ),
        max_size=3,
    ).map(tuple),
    hooks=st.lists(
        st.builds(HookFacts, st.just("zsh"), st.sampled_from(["whole", "old", "broken"]), words),
        max_size=1,
    ).map(tuple),
    capture=st.none()
    | st.builds(
        CaptureFacts,
        sources=st.lists(st.builds(SourceFacts, words, some, some, words, words), max_size=3).map(
            tuple
        ),
        violations=st.lists(
            st.builds(Violation, st.sampled_from(list(INVARIANTS)), words, some, words), max_size=4
        ).map(tuple),
        resident=st.booleans(),
        alarms=st.lists(
            st.builds(Alarm, some, words, some, words, st.none(), st.none(), st.none(), st.just(0)),
            max_size=2,
        ).map(tuple),
        waiting=st.lists(st.builds(PendingReports, words, some, some), max_size=2).map(tuple),
        drops=st.lists(st.builds(Drop, words, words, some, some), max_size=2).map(tuple),
        drift=st.lists(st.builds(DriftFacts, words, words, some, st.just(NOW)), max_size=2).map(
            tuple
        ),
    ),
    queues=st.lists(st.builds(QueueFacts, words, some, some, some, some), max_size=2).map(tuple),
)


@given(any_facts)
def test_whatever_is_wrong_has_a_cause_and_one_fix(facts: DoctorFacts) -> None:
    for one in examine(facts):
        assert one.level in LEVELS
        if one.level in {"warn", "fail"}:
            assert one.cause, one
            assert one.fix, one
            assert "\n" not in one.fix
        if one.level == "ok":
            assert not one.fix
            for good, total in re.findall(r"(\d+) of (\d+)", one.what):
                assert good == total, one


@given(any_facts)
def test_a_broken_rule_is_never_ok(facts: DoctorFacts) -> None:
    told = {one.check: one.level for one in examine(facts)}
    if facts.capture is not None:
        assert (told["invariants"] == "ok") is (not facts.capture.violations)
    if any(one.lost or one.failed for one in facts.queues):
        assert "queues" not in told

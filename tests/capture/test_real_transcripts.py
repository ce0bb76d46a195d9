"""Every real transcript of the optional data, captured together as on somebody's machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.user_homes import (
    add_edge_cases,
    archived,
    assert_sound,
    content,
    lines_of,
    open_history,
    real_home,
    settle,
)
from threadkeep.capture.capture import History
from threadkeep.capture.records import AgentReport, CaptureReport
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.results import UsageReport

pytestmark = pytest.mark.slow

HARNESSES = {"claude-code", "codex", "opencode", "gemini-cli", "copilot-cli", "pi", "aider"}


class Captured(NamedTuple):
    """What came of the first look, and the store behind it."""

    history: History
    database: Path
    user: Path
    report: CaptureReport
    spending: UsageReport
    edge_report: CaptureReport


@pytest.fixture(scope="module")
def captured(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Captured]:
    place = tmp_path_factory.mktemp("real")
    user = real_home(shared_data, place / "user")
    with open_history(place / "home", user) as history:
        report = history.capture()
        spending = history.usage()
        add_edge_cases(shared_data, user)
        again = history.capture()
        yield Captured(history, place / "home" / "knowledge.db", user, report, spending, again)


def parts(report: CaptureReport) -> dict[str, AgentReport]:
    return {harness: part for harness, part in report.agents.items() if part.found}


def test_nothing_fails_and_nothing_is_unknown(captured: Captured) -> None:
    assert set(parts(captured.report)) == HARNESSES
    for report in (captured.report, captured.edge_report):
        assert report.errors == 0
        assert {
            harness: part.unknown for harness, part in parts(report).items() if part.unknown
        } == {}
    assert captured.edge_report.of("claude-code").lines > 0


def test_every_line_is_archived_as_it_was_but_for_masked_ones(captured: Captured) -> None:
    store = archived(captured.database)
    differing = 0
    logs = list(captured.user.rglob("*.jsonl"))
    assert len(logs) > 80
    for path in logs:
        stored = store.get((str(path), ""))
        assert stored is not None, path
        given = lines_of(path)
        assert len(stored) == len(given), path
        changed = [(old, new) for old, new in zip(given, stored, strict=True) if old != new]
        assert all(b"[REDACTED]" in new for _, new in changed), path
        differing += len(changed)
    reports = (captured.report, captured.edge_report)
    masked = sum(part.masked_lines for report in reports for part in report.agents.values())
    assert differing <= masked


def test_every_session_can_be_read_and_given_back(captured: Captured) -> None:
    history = captured.history
    sessions = history.sessions(everything=True, limit=10_000)
    assert {session.agent for session in sessions} == HARNESSES
    assert sum(session.entries for session in sessions) > 10_000
    for session in sessions:
        rows = history.store.entries_of(session)
        assert len(rows) == session.entries, session.session_id
        assert len(list(history.transcript(session))) == session.entries, session.session_id


def test_a_second_look_changes_nothing_and_reads_nothing(captured: Captured) -> None:
    before = content(captured.database)
    report = captured.history.capture()
    assert [part for part in parts(report).values() if part.changed or part.lines] == []
    assert content(captured.database) == before
    covered = captured.history.coverage()
    assert {source.percent for source in covered.sources} == {100.0}


def test_tokens_are_those_that_were_counted_by_hand(captured: Captured, shared_data: Path) -> None:
    named = shared_data / "data" / "harness" / "expected_usage.json"
    expected = json.loads(named.read_text())
    claude = captured.spending.by_agent["claude-code"]
    assert (claude.input, claude.output, claude.cache_write, claude.cache_read) == (
        expected["claude"]["input_tokens"],
        expected["claude"]["output_tokens"],
        expected["claude"]["cache_creation_input_tokens"],
        expected["claude"]["cache_read_input_tokens"],
    )
    codex = captured.spending.by_agent["codex"]
    assert (codex.input + codex.cache_read, codex.cache_read, codex.output, codex.reasoning) == (
        expected["codex"]["input_tokens"],
        expected["codex"]["cached_input_tokens"],
        expected["codex"]["output_tokens"],
        expected["codex"]["reasoning_output_tokens"],
    )


def test_a_word_of_a_real_session_is_found(captured: Captured) -> None:
    for harness in sorted(HARNESSES):
        among = Query(agent=(harness,))
        hits = captured.history.search("the file", among, limit=3)
        assert hits, harness
        assert {hit.session.agent for hit in hits} == {harness}


def test_the_store_is_sound(captured: Captured) -> None:
    assert_sound(captured.database)


GROWN = {
    "claude": ".claude/projects/-home-a/{}.jsonl",
    "codex": ".codex/sessions/2026/06/17/rollout-2026-06-17T10-07-16-{}.jsonl",
}


def test_snapshot_after_snapshot_gives_what_the_last_one_gives(
    shared_data: Path, tmp_path: Path
) -> None:
    growth = shared_data / "data" / "harness" / "growth"
    if not growth.is_dir():
        pytest.skip("needs growing transcripts in the optional test data (data/harness/growth)")
    user = tmp_path / "user"
    sessions = {
        user / GROWN[folder.parent.parent.name].format(folder.name): sorted(folder.iterdir())
        for folder in growth.glob("*/*/*")
    }
    assert len(sessions) >= 4
    with open_history(tmp_path / "grown", _made(user)) as history:
        for step in range(max(map(len, sessions.values()))):
            for path, snapshots in sessions.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("r+b" if path.exists() else "wb") as log:
                    log.write(snapshots[min(step, len(snapshots) - 1)].read_bytes())
            settle(user)
            assert history.capture().errors == 0
    with open_history(tmp_path / "whole", user) as history:
        assert history.capture().errors == 0
    grown, whole = (content(tmp_path / name / "knowledge.db") for name in ("grown", "whole"))
    assert grown == whole
    assert sum(len(lines) for lines in archived(tmp_path / "grown" / "knowledge.db").values()) > 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder

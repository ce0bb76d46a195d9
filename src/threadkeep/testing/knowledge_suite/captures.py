"""What was captured: commands, slices of sessions, visits, runs, each of them once."""

import pytest

from threadkeep.testing.clock import NOON
from threadkeep.testing.knowledge_suite.rows import Factory, RowWriter


@pytest.mark.parametrize(
    "table",
    [
        *("events", "sessions", "agentic_sessions", "browser_events", "workflow_runs"),
        *("workflow_jobs", "workflow_annotations", "workflow_log_excerpts", "sha_watchlist"),
        *("lessons", "lesson_pending", "env_snapshots", "knowledge_nodes", "entities"),
        *("event_entities", "knowledge_node_entities", "relationships", "source_health"),
        *("enrichment_queue", "agentic_enrichment_queue", "browser_enrichment_queue"),
        *("workflow_enrichment_queue", "capture_alarms", "knowledge_node_events"),
        *("knowledge_node_agentic_sessions", "knowledge_node_browser_events"),
        *("knowledge_node_workflow_runs", "knowledge_node_lessons"),
    ],
)
def test_a_fresh_store_has_every_table(knowledge_factory: Factory, table: str) -> None:
    """Top-level table map: every live table is there, whoever writes it."""
    assert table in knowledge_factory.contents(knowledge_factory.open())


# ---------------------------------------------------------------------- commands


def test_a_command_begins_as_typed_and_not_enriched(knowledge_factory: Factory) -> None:
    """Changelog v7, v8: `source_kind` is shell unless said, no tool, no probe, not enriched."""
    writer = RowWriter(knowledge_factory)
    writer.event()
    (row,) = writer.table("events")
    assert (row["source_kind"], row["tool_name"], row["probe_tag"]) == ("shell", None, None)
    assert (row["enriched"], row["redaction_count"]) == (0, 0)
    assert row["envelope_id"] is row["env_snapshot_id"] is None


def test_a_call_of_a_tool_is_an_event_too(knowledge_factory: Factory) -> None:
    """Changelog v7: calls of an agent's tools stand in events with their kind and tool."""
    writer = RowWriter(knowledge_factory)
    writer.event(source_kind="claude-tool", tool_name="Bash")
    (row,) = writer.table("events")
    assert (row["source_kind"], row["tool_name"]) == ("claude-tool", "Bash")


def test_a_command_belongs_to_a_session(knowledge_factory: Factory) -> None:
    """Foreign keys: an event references a session, and one without is refused."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.event(session_id=77)
    assert writer.table("events") == []


@pytest.mark.parametrize("kind", ["event", "visit"])
def test_an_envelope_comes_once(knowledge_factory: Factory, kind: str) -> None:
    """Changelog v2, v4: `envelope_id` is unique, so that ingest can be repeated."""
    writer = RowWriter(knowledge_factory)
    add = getattr(writer, kind)
    add(envelope_id="e1")
    with pytest.raises(knowledge_factory.refused):
        add(envelope_id="e1")
    add(envelope_id="e2")


@pytest.mark.parametrize("kind", ["event", "visit"])
def test_without_an_envelope_anything_may_come_again(knowledge_factory: Factory, kind: str) -> None:
    """Changelog v2, v4: rows without an envelope are not compared."""
    writer = RowWriter(knowledge_factory)
    assert getattr(writer, kind)() != getattr(writer, kind)()


@pytest.mark.parametrize("kind", ["event", "segment", "visit"])
def test_a_synthetic_row_is_marked(knowledge_factory: Factory, kind: str) -> None:
    """Changelog v8: `probe_tag` marks what the probe made; it is NULL everywhere else."""
    writer = RowWriter(knowledge_factory)
    getattr(writer, kind)(probe_tag="probe-1")
    table = {"event": "events", "segment": "agentic_sessions", "visit": "browser_events"}[kind]
    assert [row["probe_tag"] for row in writer.table(table)] == ["probe-1"]


def test_events_share_a_snapshot_of_their_environment(knowledge_factory: Factory) -> None:
    """Table map: `env_snapshots` holds an environment once, by its hash, for many events."""
    writer = RowWriter(knowledge_factory)
    given = {"content_hash": "h1", "env_json": "{}", "created_at": NOON}
    snapshot = writer.insert("env_snapshots", **given)
    for _ in range(2):
        writer.event(env_snapshot_id=snapshot)
    assert {row["env_snapshot_id"] for row in writer.table("events")} == {snapshot}
    with pytest.raises(knowledge_factory.refused):
        writer.insert("env_snapshots", **given)
    with pytest.raises(knowledge_factory.refused):
        writer.event(env_snapshot_id=77)


# ---------------------------------------------------------------------- sessions of agents


@pytest.mark.parametrize("harness", ["claude-code", "codex", "cursor", "opencode"])
def test_one_table_holds_every_agent(knowledge_factory: Factory, harness: str) -> None:
    """Changelog v17: agentic_sessions holds the sessions of four harnesses."""
    writer = RowWriter(knowledge_factory)
    writer.segment(harness=harness)
    assert [row["harness"] for row in writer.table("agentic_sessions")] == [harness]


def test_an_unknown_agent_is_refused(knowledge_factory: Factory) -> None:
    """Changelog v17: `harness` is checked against the list of agents."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.segment(harness="nobody's agent")
    assert writer.table("agentic_sessions") == []


def test_a_segment_begins_as_the_first_and_not_enriched(knowledge_factory: Factory) -> None:
    """Changelog v12, v17: segment 0, no subagent, and no hash until a writer gives one."""
    writer = RowWriter(knowledge_factory)
    writer.segment()
    (row,) = writer.table("agentic_sessions")
    assert (row["segment_index"], row["is_subagent"], row["enriched"]) == (0, 0, 0)
    assert row["content_hash"] is row["last_enriched_content_hash"] is None
    assert row["tool_calls_json"] is row["user_prompts_json"] is None


def test_a_session_has_a_row_for_each_segment(knowledge_factory: Factory) -> None:
    """Changelog v17: one row for each session, harness and segment, and never a second."""
    writer = RowWriter(knowledge_factory)
    for index in range(3):
        writer.segment("s1", segment_index=index)
    writer.segment("s1", segment_index=0, harness="cursor")
    writer.segment("s2", segment_index=0)
    with pytest.raises(knowledge_factory.refused):
        writer.segment("s1", segment_index=2)
    assert len(writer.table("agentic_sessions")) == 5


def test_a_segment_says_what_was_enriched_of_it(knowledge_factory: Factory) -> None:
    """Changelog v12: what is stored and what was last enriched are compared by their hashes."""
    writer = RowWriter(knowledge_factory)
    number = writer.segment(content_hash="a")
    knowledge_factory.update(
        writer.store, "agentic_sessions", number, last_enriched_content_hash="a", enriched=1
    )
    knowledge_factory.update(writer.store, "agentic_sessions", number, content_hash="b")
    (row,) = writer.table("agentic_sessions")
    assert (row["content_hash"], row["last_enriched_content_hash"]) == ("b", "a")


# ---------------------------------------------------------------------- runs of CI


def test_a_run_takes_its_jobs_with_it(knowledge_factory: Factory) -> None:
    """Changelog v5: jobs belong to a run, annotations and excerpts to a job."""
    writer = RowWriter(knowledge_factory)
    run = writer.run()
    job = writer.insert(
        "workflow_jobs", id=5, run_id=run, name="test", status="completed", raw_json="{}"
    )
    writer.insert("workflow_annotations", job_id=job, level="failure", message="E501")
    writer.insert("workflow_log_excerpts", job_id=job, excerpt="boom")
    knowledge_factory.delete(writer.store, "workflow_runs", run)
    for table in ("workflow_jobs", "workflow_annotations", "workflow_log_excerpts"):
        assert writer.table(table) == []


def test_a_job_without_a_run_is_refused(knowledge_factory: Factory) -> None:
    """Changelog v5: a job references its run."""
    writer = RowWriter(knowledge_factory)
    with pytest.raises(knowledge_factory.refused):
        writer.insert(
            "workflow_jobs", id=5, run_id=77, name="test", status="completed", raw_json="{}"
        )


def test_a_commit_is_watched_once_in_each_repository(knowledge_factory: Factory) -> None:
    """Table map: `sha_watchlist` has one flag for each repository and commit."""
    writer = RowWriter(knowledge_factory)
    given = {"sha": "a" * 40, "created_at": NOON, "expires_at": NOON + 1}
    writer.insert("sha_watchlist", repo="me/app", **given)
    writer.insert("sha_watchlist", repo="me/other", **given)
    with pytest.raises(knowledge_factory.refused):
        writer.insert("sha_watchlist", repo="me/app", **given)


@pytest.mark.parametrize("table", ["lessons", "lesson_pending"])
def test_a_recurring_failure_is_one_lesson(knowledge_factory: Factory, table: str) -> None:
    """Changelog v5: a lesson is told apart by repository, tool, rule and path."""
    writer = RowWriter(knowledge_factory)
    given = {"repo": "me/app", "tool": "ruff", "rule_id": "E501", "first_seen_at": NOON}
    more = {"summary": "lines are short", "last_seen_at": NOON} if table == "lessons" else {}
    writer.insert(table, **given, **more)
    with pytest.raises(knowledge_factory.refused):
        writer.insert(table, **given, **more)
    writer.insert(table, **{**given, "rule_id": "F401"}, **more)

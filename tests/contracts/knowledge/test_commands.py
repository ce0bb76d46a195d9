"""Commands and visits as rows: once, whichever ways they come; of two visits the longer."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.tickets import Factory
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.commands import (
    NOTHING,
    environment_of,
    give_up_unended,
    has_unended,
    note_environment,
    notice_others,
    write_command,
    write_visit,
)
from threadkeep.knowledge.forget import erase
from threadkeep.knowledge.records import Command, GitState, Output, Visit
from threadkeep.knowledge.store import KnowledgeStore

NOW = 1_800_000_000_000
LS = Command(
    envelope_id="11111111-0000-4000-8000-000000000001",
    session="22222222-2222-4222-8222-222222222222",
    at=NOW,
    command="ls -la",
    cwd="/u/app",
    exit_code=0,
    duration_ms=12,
    hostname="vm",
    shell="bash",
    username="me",
)
PAGE = Visit("33333333-0000-5000-8000-000000000001", NOW, "https://docs.rs/x", "docs.rs", "X", 5000)


@pytest.fixture
def store(factory: Factory) -> Iterator[KnowledgeStore]:
    with factory.open(clock=lambda: NOW) as store:
        yield store


@pytest.fixture
def tx(store: KnowledgeStore) -> Iterator[Tx]:
    with store.context.db.write() as tx:
        yield tx


def change(thing: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(thing, **fields)


def count(tx: Tx, table: str) -> int:
    return int(tx.value(Sql(f"SELECT count(*) FROM {table}")))


def test_a_command_has_a_row_a_session_and_a_ticket(tx: Tx) -> None:
    written = write_command(tx, change(LS, git=GitState("o/r", "main", "abc1234", None)), NOW)
    assert written == (1, True)
    row = dict(zip(*_row(tx, "events"), strict=True))
    assert row == {
        "id": 1,
        "session_id": 1,
        "timestamp": NOW,
        "command": "ls -la",
        "cwd": "/u/app",
        "stdout": None,
        "stderr": None,
        "stdout_truncated": None,
        "stderr_truncated": None,
        "exit_code": 0,
        "duration_ms": 12,
        "hostname": "vm",
        "shell": "bash",
        "git_repo": "o/r",
        "git_branch": "main",
        "git_commit": "abc1234",
        "git_dirty": None,
        "env_snapshot_id": None,
        "envelope_id": LS.envelope_id,
        "source_kind": "shell",
        "tool_name": None,
        "enriched": 0,
        "redaction_count": 0,
        "archived_at": None,
        "probe_tag": None,
        "created_at": NOW,
    }
    session = dict(zip(*_row(tx, "sessions"), strict=True))
    assert session["terminal"] == LS.session
    assert (session["shell"], session["hostname"], session["username"]) == ("bash", "vm", "me")
    assert tx.all(Sql("SELECT event_id, status, max_retries FROM enrichment_queue")) == [
        (1, "pending", 5)
    ]


def _row(tx: Tx, table: str) -> tuple[list[str], tuple[Any, ...]]:
    found = tx.dicts(Sql(f"SELECT * FROM {table}"))[0]
    return list(found), tuple(found.values())


def test_output_is_stored_with_whether_it_was_cut(tx: Tx) -> None:
    write_command(tx, change(LS, stdout=Output("a [REDACTED]", truncated=True)), NOW)
    sql = "SELECT stdout, stdout_truncated, stderr_truncated, redaction_count FROM events"
    assert tx.one(Sql(sql)) == ("a [REDACTED]", 1, None, 1)


def test_a_tool_call_is_of_its_own_kind(tx: Tx) -> None:
    write_command(tx, change(LS, tool_name="Bash"), NOW)
    assert tx.one(Sql("SELECT source_kind, tool_name FROM events")) == (
        "claude-tool",
        "Bash",
    )


def test_the_same_envelope_is_stored_once(tx: Tx) -> None:
    write_command(tx, LS, NOW)
    assert write_command(tx, change(LS, origin="fallback"), NOW) == NOTHING
    assert count(tx, "events") == count(tx, "enrichment_queue") == 1


def test_a_command_that_was_seen_to_begin_is_completed_by_its_end(tx: Tx) -> None:
    begun = change(LS, origin="hook", exit_code=None, duration_ms=0)
    assert write_command(tx, begun, NOW) == (1, True)
    assert count(tx, "enrichment_queue") == 0  # nobody should make sense of half a command
    ended = change(begun, exit_code=2, at=NOW + 700, duration_ms=700)
    assert write_command(tx, ended, NOW) == (1, False)
    assert write_command(tx, begun, NOW) == NOTHING  # what is complete stays so
    sql = "SELECT exit_code, duration_ms, timestamp FROM events"
    assert tx.all(Sql(sql)) == [(2, 700, NOW + 700)]
    assert count(tx, "enrichment_queue") == 1


def test_a_command_that_never_ended_gets_its_ticket_after_a_day(tx: Tx) -> None:
    write_command(tx, change(LS, origin="hook", exit_code=None), NOW)
    assert not has_unended(tx, NOW + 1000)
    assert has_unended(tx, NOW + 86_400_001)
    give_up_unended(tx, NOW + 86_400_001)
    assert count(tx, "enrichment_queue") == 1
    assert not has_unended(tx, NOW + 86_400_001)
    assert write_command(tx, change(LS, origin="hook"), NOW) == (1, False)


@pytest.mark.parametrize(
    "other",
    [
        {"origin": "socket", "at": NOW + 900},
        {"origin": "socket", "at": NOW + 8000},  # Hippo's hook asked git first
        {"origin": "fallback", "at": NOW + 900},
        {"origin": "history", "session": "history", "at": NOW - 400},
    ],
)
def test_the_same_command_that_comes_another_way_is_stored_once(
    tx: Tx, other: dict[str, Any]
) -> None:
    write_command(tx, change(LS, origin="hook"), NOW)
    again = change(LS, envelope_id="44444444-0000-4000-8000-000000000001", **other)
    assert write_command(tx, again, NOW) == NOTHING
    assert count(tx, "events") == 1


@pytest.mark.parametrize(
    "origin, at, new",
    [
        ("hook", NOW, False),
        ("hook", NOW - 5000, False),
        ("history", NOW, False),
        ("hook", NOW + 60_000, True),
        ("run", NOW, True),
    ],
)
def test_rows_that_another_program_wrote_are_known_too(
    tx: Tx, origin: str, at: int, *, new: bool
) -> None:
    write_command(tx, LS, NOW)
    tx.run(Sql("DELETE FROM tk_events"))  # as in a file of Hippo
    notice_others(tx)
    again = change(LS, envelope_id="44444444-0000-4000-8000-000000000001", origin=origin, at=at)
    assert write_command(tx, again, NOW).new == new


@pytest.mark.parametrize(
    "other",
    [
        {"origin": "hook"},  # the same way: typed twice
        {"origin": "socket", "session": "99999999-2222-4222-8222-222222222222"},
        {"origin": "socket", "command": "ls -l"},
        {"origin": "socket", "at": NOW + 60_000},
        {"origin": "socket", "at": NOW - 5000},
        {"origin": "socket", "tool_name": "Bash"},
        {"origin": "run"},
        {"origin": "socket", "probe_tag": "t"},
    ],
)
def test_what_only_looks_alike_is_stored(tx: Tx, other: dict[str, Any]) -> None:
    write_command(tx, change(LS, origin="hook"), NOW)
    again = change(LS, envelope_id="44444444-0000-4000-8000-000000000001", **other)
    assert write_command(tx, again, NOW) == (2, True)


def test_environments_are_kept_by_their_hash_and_only_what_is_allowed(tx: Tx) -> None:
    env = {"PATH": "/usr/bin", "HOME": "/u/ö", "AWS_SECRET_ACCESS_KEY": "x", "LANG": "C"}
    write_command(tx, change(LS, env=env), NOW)
    other = change(LS, env=env, envelope_id="44444444-0000-4000-8000-000000000001")
    write_command(tx, other, NOW)
    text = '{"HOME":"/u/ö","LANG":"C","PATH":"/usr/bin"}'
    digest = sha256(text.encode()).hexdigest()
    assert tx.all(Sql("SELECT content_hash, env_json FROM env_snapshots")) == [(digest, text)]
    assert tx.all(Sql("SELECT DISTINCT env_snapshot_id FROM events")) == [(1,)]


def test_a_shell_has_the_environment_that_it_told_last(tx: Tx) -> None:
    note_environment(tx, "s", 1, {"LANG": "C"}, NOW)
    note_environment(tx, "s", 1, {"LANG": "de"}, NOW)
    note_environment(tx, "s", 2, {"LANG": "fr"}, NOW)
    assert (environment_of(tx, "s", 1), environment_of(tx, "s", 2)) == (2, 3)
    assert environment_of(tx, "s", 3) is None


def test_probes_get_no_ticket_and_are_in_no_list(store: KnowledgeStore) -> None:
    with store.context.db.write() as tx:
        write_command(tx, change(LS, probe_tag="t"), NOW)
        write_visit(tx, change(PAGE, probe_tag="t"), NOW)
        assert count(tx, "enrichment_queue") + count(tx, "browser_enrichment_queue") == 0
    assert not [*store.list_events(), *store.list_visits(), *store.list_shell_sessions()]
    assert store.count_today(0).events == store.count_today(0).sessions == 0


def test_a_later_and_longer_visit_in_the_same_span_replaces_the_row(tx: Tx) -> None:
    write_visit(tx, change(PAGE, extracted_text="short", scroll_depth=0.75), NOW)
    longer = change(PAGE, at=NOW + 9, dwell_ms=9000, extracted_text="long", scroll_depth=0.5)
    assert write_visit(tx, longer, NOW) == (1, False)
    assert write_visit(tx, change(longer, dwell_ms=8000, title="shorter"), NOW) == NOTHING
    sql = "SELECT timestamp, dwell_ms, scroll_depth, extracted_text, title FROM browser_events"
    assert tx.all(Sql(sql)) == [(NOW, 9000, 0.75, "long", "X")]
    assert tx.one(Sql("SELECT content_hash FROM browser_events")) == (sha256(b"long").hexdigest(),)


def test_an_empty_text_takes_nothing_away(tx: Tx) -> None:
    write_visit(tx, change(PAGE, extracted_text="short"), NOW)
    write_visit(tx, change(PAGE, dwell_ms=9000, extracted_text="", title=""), NOW)
    sql = "SELECT dwell_ms, title, extracted_text, content_hash FROM browser_events"
    assert tx.all(Sql(sql)) == [(9000, "X", "short", sha256(b"short").hexdigest())]


def test_depths_are_kept_in_the_precision_of_the_original(tx: Tx) -> None:
    write_visit(tx, change(PAGE, scroll_depth=0.333), NOW)
    assert tx.one(Sql("SELECT scroll_depth FROM browser_events")) == (0.3330000042915344,)


def test_an_enriched_page_with_new_text_waits_again(tx: Tx) -> None:
    write_visit(tx, change(PAGE, extracted_text="short"), NOW)
    tx.run(Sql("UPDATE browser_events SET enriched = 1"))
    tx.run(Sql("UPDATE browser_enrichment_queue SET status = 'done'"))
    write_visit(tx, change(PAGE, dwell_ms=6000, extracted_text="short"), NOW)
    assert tx.one(Sql("SELECT status FROM browser_enrichment_queue")) == ("done",)
    write_visit(tx, change(PAGE, dwell_ms=9000, extracted_text="long"), NOW)
    assert tx.one(Sql("SELECT status FROM browser_enrichment_queue")) == ("pending",)


def test_what_was_forgotten_does_not_come_back(tx: Tx) -> None:
    write_command(tx, LS, NOW)
    write_visit(tx, PAGE, NOW)
    erase(tx, "event", [1])
    erase(tx, "visit", [1])
    assert write_command(tx, LS, NOW) == write_visit(tx, PAGE, NOW) == NOTHING
    assert count(tx, "events") == count(tx, "browser_events") == count(tx, "tk_events") == 0


def test_rows_of_the_original_for_the_same_event_are_equal(tx: Tx, shared_data: Path) -> None:
    golden = shared_data / "data" / "knowledge" / "golden" / "golden_rows.json"
    if not golden.exists():
        pytest.skip(f"needs {golden}; set THREADKEEP_SHARED to the folder with the golden data")
    row = json.loads(golden.read_text())["events"][4]  # a command sent to the original
    sent = change(
        LS,
        envelope_id=row["envelope_id"],
        at=row["timestamp"],
        command=row["command"],
        cwd=row["cwd"],
        stdout=Output(row["stdout"]),
    )
    write_command(tx, sent, row["created_at"])
    ours = dict(zip(*_row(tx, "events"), strict=True))
    placed = ("id", "session_id", "env_snapshot_id")
    assert {k: v for k, v in ours.items() if k not in placed} == {
        k: v for k, v in row.items() if k not in placed
    }

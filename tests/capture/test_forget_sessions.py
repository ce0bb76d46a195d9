"""Forgetting whole sessions: all that is theirs goes, nothing of others, and it stays away."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.forgetting import (
    MINUTE,
    NOON,
    Record,
    add_node,
    all_sessions,
    bytes_left,
    knowledge_file,
    masked_history,
    ran,
    rows,
    said,
    write_claude,
)
from tests.support.user_homes import assert_sound, made_up_home, open_history
from threadkeep.capture.capture import History
from threadkeep.capture.forget import ForgetReport
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.store import KnowledgeStore

CLAUDE = "5e550000-0000-4000-8000-000000000001"
EVERY = [
    *(CLAUDE, "0199aaaa-0000-7000-8000-000000000003", "0199aaaa-0000-7000-8000-000000000002"),
    *("6e000000-0000-4000-8000-000000000001", "6e000000-0000-4000-8000-000000000002", "ses_0a"),
    *("0c0ffee0-0000-4000-8000-000000000001", "019e44d4-0000-7000-8000-000000000001", "old1"),
]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with every program in it, and whose it is."""
    folder = tmp_path_factory.mktemp("captured")
    user = made_up_home(folder / "user")
    with open_history(folder / "home", user) as history:
        history.capture()
    return knowledge_file(folder / "home", user), user


def copy_of(captured: tuple[Path, Path], folder: Path) -> Path:
    target = folder / "k.db"
    rows(captured[0], "VACUUM INTO ?", str(target))
    return target


@pytest.mark.parametrize("session", EVERY)
def test_the_others_stay_as_they_are_and_it_does_not_come_back(
    captured: tuple[Path, Path], tmp_path: Path, session: str
) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    with masked_history(file, user) as history:
        before = all_sessions(history)
        family = {one.session_id for one in [history.find(session)]}
        family |= {one.session_id for one in history.children(history.find(session))}
        what = Query(session=(session,))
        planned = history.forget(what, dry_run=True)
        assert all_sessions(history) == before
        done = history.forget(what)
        assert done == planned
        assert done.sessions >= len(family)
        assert done.lines > 0
        assert done.entries == sum(len(before[name][1]) for name in family if name in before)
        kept = {name: told for name, told in before.items() if name not in family}
        assert all_sessions(history) == kept
        report = history.capture()
        assert sum(part.lines for part in report.agents.values()) == 0  # it is not even read
        assert all_sessions(history) == kept
        assert history.forget(what) == ForgetReport()
    for table in ("tk_sessions", "agentic_sessions", "claude_session_offsets", "sessions"):
        column = "terminal" if table == "sessions" else "session_id"
        assert not rows(file, f"SELECT 1 FROM {table} WHERE {column} = ?", session), table
    assert not rows(file, "SELECT 1 FROM agentic_cursor WHERE last_id = ?", session)
    assert not rows(file, "SELECT * FROM tk_cleaning")
    assert_sound(file)


def test_no_byte_of_it_is_left(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    secret = [said("s1", 1, "zanzibar"), *ran("s1", 2, "make quetzal", "krakatoa")]
    title = {"type": "ai-title", "aiTitle": "Popocatepetl", "sessionId": "s1"}
    write_claude(user, "s1", [*secret, title])
    write_claude(user, "s2", [said("s2", 1, "a goose"), *ran("s2", 2, "make goose", "honk")])
    words = [b"zanzibar", b"quetzal", b"krakatoa", b"Popocatepetl", b"titicaca"]
    with masked_history(file, user) as history:
        history.capture()
        number = rows(file, "SELECT id FROM agentic_sessions WHERE session_id = 's1'")[0][0]
    add_node(file, "Titicaca titicaca", segment=number)
    assert all(word in bytes_left(file) for word in words)
    with masked_history(file, user) as history:
        assert history.search("zanzibar")
        done = history.forget(Query(session=("s1",)))
        assert (done.sessions, done.segments, done.nodes, done.observed) == (1, 1, 1, 1)
        left = bytes_left(file)  # while it is open: nothing waits in the log
        assert [word for word in words if word.lower() in left.lower()] == []
        assert not history.search("zanzibar")
        assert len(history.search("goose")) > 0
    left = bytes_left(file).lower()
    assert [word for word in words if word.lower() in left] == []


def test_a_parent_takes_its_subagents_with_it_and_a_subagent_goes_alone(
    captured: tuple[Path, Path], tmp_path: Path
) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    calls = "SELECT count(*) FROM events WHERE source_kind = 'claude-tool'"
    with masked_history(file, user) as history:
        before = all_sessions(history)
        ((all_calls,),) = rows(file, calls)
        done = history.forget(Query(session=("agent-a1b2c3",)))
        assert done.sessions == 1
        assert rows(file, calls) == [(all_calls - done.observed,)]
        kept = {name: told for name, told in before.items() if name != "agent-a1b2c3"}
        assert all_sessions(history) == kept
        assert history.forget(Query(session=(CLAUDE,))).sessions == 4
        left = {
            one.session_id
            for one in history.sessions(Query(agent=("claude-code",)), everything=True)
        }
        assert left == {"5e550000-0000-4000-8000-000000000002"}
        terminals = rows(
            file,
            "SELECT DISTINCT terminal FROM sessions JOIN events ON events.session_id = sessions.id",
        )
        assert terminals == [("5e550000-0000-4000-8000-000000000002",)]
    assert_sound(file)


def test_what_others_told_of_it_goes_too(captured: tuple[Path, Path], tmp_path: Path) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    ducks, swans = (f"0199aaaa-0000-7000-8000-00000000000{n}" for n in (1, 2))
    with masked_history(file, user) as history:
        assert (history.find(ducks).name, history.find(swans).name) == ("Many ducks", "Swans")
        planned = history.forget(Query(session=(ducks,)), dry_run=True)
        assert history.forget(Query(session=(ducks,))) == planned
        history.capture()
        assert history.find(swans).name == "Swans"
    assert b"Many ducks" not in bytes_left(file)
    assert b'"Ducks"' not in bytes_left(file)


def test_a_subagent_that_only_its_parent_tells_of_goes_with_it(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    call, came = ran("s1", 2, "x", "y")
    task = {"subagent_type": "Explore", "description": "Look at zanzibar"}
    call["message"]["content"][0] |= {"name": "Task", "input": task}
    came["toolUseResult"] = {"agentId": "b7", "status": "completed"}
    write_claude(user, "s1", [said("s1", 1, "a duck"), call, came])
    with masked_history(file, user) as history:
        history.capture()
        assert rows(file, "SELECT title FROM tk_sessions WHERE session_id = 'agent-b7'") == [
            ("Look at zanzibar",)
        ]
        history.forget(Query(session=("s1",)))
        history.capture()
    assert b"zanzibar" not in bytes_left(file)
    assert rows(file, "SELECT * FROM tk_sessions") == []


def test_calls_of_a_subagent_go_with_it_though_they_bear_the_name_of_its_parent(
    tmp_path: Path,
) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck"), *ran("s1", 2, "make duck", "quack")])
    calls = [{**one, "isSidechain": True} for one in ran("s1", 3, "make goose", "honk")]
    write_claude(user, "agent-7", calls, project="-u-pond/s1/subagents")
    commands = "SELECT stdout FROM events ORDER BY timestamp"
    with masked_history(file, user) as history:
        history.capture()
        assert rows(file, commands) == [("quack",), ("honk",)]
        what = Query(session=("agent-7",))
        assert history.forget(what, dry_run=True).observed == 1
        assert history.forget(what).observed == 1
        assert rows(file, commands) == [("quack",)]
        history.capture()
        assert rows(file, commands) == [("quack",)]
    assert_sound(file)


def test_a_project_or_a_program_goes_as_a_whole(
    captured: tuple[Path, Path], tmp_path: Path
) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    with masked_history(file, user) as history:
        before = all_sessions(history)
        meant = {
            one.session_id for one in history.sessions(Query(project=("lake",)), everything=True)
        }
        assert meant
        history.forget(Query(project=("lake",)))
        assert all_sessions(history).keys() == before.keys() - meant
        history.forget(Query(agent=("pi",)))
        assert "pi" not in {one.agent for one in history.sessions(everything=True)}
        history.capture()
        assert "pi" not in {one.agent for one in history.sessions(everything=True)}
        assert not history.sessions(Query(project=("lake",)), everything=True)
    assert_sound(file)


def test_a_project_is_its_copies_and_a_folder_all_below_it(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    places = {
        "s1": "/u/pond",
        "s2": "/u/pond/.claude/worktrees/a",
        "s3": "/u/pond.worktrees/b",
        "s4": "/u/ponder",
        "s5": "/v/POND",
        "s6": "/u/lake/pond-house",
    }
    for name, cwd in places.items():
        write_claude(user, name, [{**said(name, 1, name), "cwd": cwd}])
    with masked_history(file, user) as history:
        history.capture()

        def meant(**query: Any) -> set[str]:
            before = set(all_sessions(history))
            planned = history.forget(Query(**query), dry_run=True)
            return {one.split()[0].rpartition(":")[2] for one in planned.examples} & before

        assert meant(project=("pond",)) == {"s1", "s2", "s3", "s5"}
        assert meant(project=("ada/Pond",)) == {"s1", "s2", "s3", "s5"}
        assert meant(project=("/u/pond",)) == {"s1", "s2", "s3"}
        assert meant(project=("/u",), exclude=(("project", "/u/pond"),)) == {"s4", "s6"}
        assert meant(project=("nowhere",)) == set()
        with pytest.raises(Invalid, match="no project is called") as refused:
            history.forget(Query(project=("pon",)))
        assert "POND, pond, pond-house, ponder" in str(refused.value.hint)
        history.forget(Query(project=("Pond",)))
        assert set(all_sessions(history)) == {"s4", "s6"}


def test_blocks_that_another_log_shares_stay(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    same = [said("s1", 1, "the same")]
    write_claude(user, "s1", same)
    write_claude(user, "s2", same)
    with masked_history(file, user) as history:
        history.capture()
        assert rows(file, "SELECT count(*) FROM tk_blocks") == [(1,)]
        history.forget(Query(session=("s1",)))
        assert list(history.raw(history.find("s2"))) == [json.dumps(same[0]).encode()]


def test_a_log_of_several_sessions_loses_the_lines_of_one(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    path = user / ".gemini" / "tmp" / "pond" / "chats" / "session-2026-09-01T12-00-x.jsonl"
    path.parent.mkdir(parents=True)

    def part(session: str, *texts: str) -> list[Record]:
        said_ = [
            {"id": f"{session}{n}", "type": "user", "content": text, "timestamp": f"2026-09-0{n}"}
            for n, text in enumerate(texts, 1)
        ]
        return [{"sessionId": session, "startTime": "2026-09-01T12:00:00Z"}, *said_]

    def write(*records: Record) -> None:
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        os.utime(path, (1_760_000_000, 1_760_000_000 + len(records)))

    first, second = part("a", "a duck", "two ducks"), part("b", "a goose")
    write(*first, *second)
    with masked_history(file, user) as history:
        history.capture()
        assert {one.session_id for one in history.sessions()} == {"a", "b"}
        goose = [shown.entry.text for shown in history.transcript(history.find("b"))]
        history.forget(Query(session=("a",)))
        assert [one.session_id for one in history.sessions()] == ["b"]
        assert [shown.entry.text for shown in history.transcript(history.find("b"))] == goose
        write(*first, *second, {"sessionId": "b"}, {"id": "b9", "type": "user", "content": "moo"})
        history.capture()
        assert {one.session_id for one in history.sessions()} == {"b"}
        texts = [shown.entry.text for shown in history.transcript(history.find("b"))]
        assert texts == [*goose, "moo"]
    assert b"duck" not in bytes_left(file)
    assert_sound(file)


def test_legacy_rows_and_shared_nodes(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck"), *ran("s1", 2, "make duck", "quack")])
    write_claude(user, "s2", [said("s2", 1, "a goose")])
    with masked_history(file, user) as history:
        history.capture()
    one, two = (r[0] for r in rows(file, "SELECT id FROM agentic_sessions ORDER BY session_id"))
    (event,) = (r[0] for r in rows(file, "SELECT id FROM events"))
    rows(
        file,
        "INSERT INTO claude_sessions (id, session_id, project_dir, cwd, segment_index, start_time,"
        " end_time, summary_text, message_count, source_file, created_at)"
        " VALUES (9, 's1', '', '', 0, 1, 2, 'a duck', 3, '', 1)",
    )
    rows(
        file,
        "INSERT INTO claude_enrichment_queue (claude_session_id, created_at, updated_at)"
        " VALUES (9, 1, 1)",
    )
    all_three = add_node(file, "of one alone", segment=one, event=event, legacy=9)
    shared = add_node(file, "of both", segment=one)
    rows(file, "INSERT INTO knowledge_node_agentic_sessions VALUES (?, ?)", shared, two)
    other = add_node(file, "of the other", segment=two)
    rows(file, "UPDATE agentic_enrichment_queue SET status = 'done'")
    with masked_history(file, user) as history:
        planned = history.forget(Query(session=("s1",)), dry_run=True)
        assert history.forget(Query(session=("s1",))) == planned
        assert planned.nodes == 2
    assert rows(file, "SELECT id FROM knowledge_nodes") == [(other,)]
    assert other not in {all_three, shared}
    assert rows(file, "SELECT name FROM entities") == [("of the other",)]
    assert rows(file, "SELECT status FROM agentic_enrichment_queue") == [("done",)]
    assert rows(file, "SELECT count(*) FROM claude_sessions") == [(0,)]
    assert_sound(file)


def test_vectors_go_with_their_nodes_or_are_named(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck")])
    write_claude(user, "s2", [said("s2", 1, "a goose")])
    with masked_history(file, user) as history:
        history.capture()
    one, two = (r[0] for r in rows(file, "SELECT id FROM agentic_sessions ORDER BY session_id"))
    nodes = [add_node(file, "duck", segment=one), add_node(file, "goose", segment=two)]
    rows(file, "CREATE TABLE knowledge_vectors (knowledge_node_id INTEGER PRIMARY KEY, v BLOB)")
    for node in nodes:
        rows(file, "INSERT INTO knowledge_vectors VALUES (?, zeroblob(8))", node)
    with masked_history(file, user) as history:
        assert history.forget(Query(session=("s1",))).vectors_left == 0
    assert rows(file, "SELECT knowledge_node_id FROM knowledge_vectors") == [(nodes[1],)]
    rows(file, "DROP TABLE knowledge_vectors")
    make_unknown_module(file)
    with masked_history(file, user) as history:
        assert history.forget(Query(session=("s2",))).vectors_left == 1
    assert rows(file, "SELECT count(*) FROM knowledge_nodes") == [(0,)]


def make_unknown_module(file: Path) -> None:
    """Let a file have a virtual table whose extension is not here."""
    sql = "CREATE VIRTUAL TABLE knowledge_vectors USING vec0(knowledge_node_id INTEGER PRIMARY KEY)"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'knowledge_vectors',"
            " 'knowledge_vectors', 0, ?)",
            (sql,),
        )


def test_backups_from_before_are_named(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    write_claude(user, "s1", [said("s1", 1, "a duck")])
    with masked_history(file, user) as history:
        history.capture()
        backup = history.store.backup()
        assert history.forget(Query(session=("s1",)), dry_run=True).backups == [str(backup)]
        assert history.forget(Query(session=("s1",))).backups == [str(backup)]


def test_a_dry_run_needs_no_right_to_write_and_leaves_no_trace(
    captured: tuple[Path, Path], tmp_path: Path
) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    before = file.read_bytes(), file.stat().st_mtime_ns
    with (
        masked_history(tmp_path / "other.db", user) as other,
        KnowledgeStore.open(file, read_only=True) as store,
    ):
        around = msgspec.structs.replace(other.around, store=store)
        history = History(around, other.sources)
        for what in (
            Query(session=(CLAUDE,)),
            Query(pattern="basket"),
            Query(since=NOON - 10**9, until=NOON + MINUTE),
        ):
            assert history.forget(what, dry_run=True).lines > 0
        history.rescan(dry_run=True)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_what_makes_no_sense_is_refused(captured: tuple[Path, Path], tmp_path: Path) -> None:
    file, user = copy_of(captured, tmp_path), captured[1]
    with masked_history(file, user) as history:
        for what, said_ in (
            (Query(), "nothing says what to forget"),
            (Query(pattern="("), "not a valid regular expression"),
            (Query(pattern="x*"), "every text"),
            (Query(since=2, until=2), "ends before"),
        ):
            with pytest.raises(Invalid, match=said_):
                history.forget(what)
        with pytest.raises(NotFound):
            history.forget(Query(session=("nobody",)))
        with pytest.raises(Conflict):
            history.forget(Query(session=("0199aaaa",)))

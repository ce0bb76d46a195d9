"""Conversations of which a Hippo file has only slices are sessions like all others."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.transfer.conftest import DEMO
from threadkeep import Home
from threadkeep.capture.capture import History
from threadkeep.home.opening import open_browse
from threadkeep.knowledge.query import Query
from threadkeep.transfer.adopt import adopt

CLAUDE = "claude-code:5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"
SLICE = (
    "INSERT INTO agentic_sessions (session_id, harness, segment_index, model, project_dir, cwd,"
    " summary_text, tool_calls_json, user_prompts_json, source_file, message_count, token_count,"
    " start_time, end_time, created_at, content_hash, probe_tag)"
    " VALUES (:id, :harness, :index, 'large', 'kiln', '/home/ada/kiln', :summary, :calls, :prompts,"
    " '/gone.jsonl', 4, 70, :at, :at + 1000, 1, :hash, :probe)"
)


def add_slice(path: Path, **values: Any) -> None:
    told: dict[str, Any] = {
        "id": "ada",
        "harness": "claude-code",
        "index": 0,
        "summary": "Session\nUser prompts:\n  - Fire the glaze\nAssistant: the narwhal kiln is hot",
        "calls": json.dumps([{"name": "Bash", "summary": "make glaze"}]),
        "prompts": json.dumps(["Fire the glaze"]),
        "at": 1_790_000_000_000,
        "hash": "h1",
        "probe": None,
    }
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(SLICE, told | values)


@pytest.fixture
def hippo(tmp_path: Path) -> Path:
    """Make a file as Hippo has it, with nothing of ours in it."""
    path = tmp_path / "hippo.db"
    Home(tmp_path / "maker").knowledge(path).close()
    without_ours(path)
    add_slice(path)
    add_slice(
        path, index=1, at=1_790_000_100_000, prompts='["Now the walrus"]', summary="", calls=None
    )
    add_slice(path, id="probe", probe="p")
    return path


def without_ours(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        made = file.execute(
            "SELECT type, name FROM sqlite_master WHERE name LIKE 'tk!_%' ESCAPE '!'"
        )
        own = [row for row in made.fetchall() if row[0] in ("trigger", "table")]
        for kind, name in sorted(own, key=lambda row: (row[0] == "table", row[1])):
            file.execute(f"DROP {kind} IF EXISTS {name}")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "user").mkdir()
    return Home(tmp_path / "home", environ={"HOME": str(tmp_path / "user")})


def found(history: History, word: str) -> list[tuple[str, str]]:
    return [(one.session.session_id, one.shown.row.kind) for one in history.search(word)]


def dump(path: Path) -> list[str]:
    """Return all that a file holds, but for SQLite's own notes on how large its tables are."""
    with closing(sqlite3.connect(path)) as file:
        return [one for one in file.iterdump() if "sqlite_s" not in one]


@pytest.mark.parametrize("merged", [False, True])
def test_every_surface_knows_them(home: Home, hippo: Path, *, merged: bool) -> None:
    if merged:
        home.knowledge().close()
    assert adopt(home, "hippo", hippo).copied is not merged
    with home.history() as history:
        (session,) = history.sessions()
        assert (session.agent, session.session_id, session.project) == (
            "claude-code",
            "ada",
            "kiln",
        )
        assert (session.prompts, session.tool_calls, session.model) == (2, 1, "large")
        assert (session.name, session.version) == ("Fire the glaze", "notes of Hippo")
        assert found(history, "walrus") == [("ada", "prompt")]
        assert found(history, "narwhal") == [("ada", "summary")]
        assert sorted(found(history, "glaze")) == [("ada", "prompt"), ("ada", "tool_call")]
        told = [(one.row.kind, one.entry.text) for one in history.transcript(session)]
        assert told[0] == ("prompt", "Fire the glaze")
        assert told[1] == ("tool_call", "make glaze")
        assert "narwhal kiln" in told[2][1]
        assert told[3] == ("prompt", "Now the walrus")
    with open_browse(home) as browse:
        assert browse.usage().total.output == 140
        assert [turn.prompt for turn in browse.session("claude-code:ada").turns] == [
            "Fire the glaze",
            "Now the walrus",
        ]
    with home.memory() as memory:
        assert memory.recall("narwhal kiln").hits[0].ref.startswith("message:")
    before = dump(home.knowledge_path())
    assert adopt(home, "hippo", hippo).added == 0
    assert dump(home.knowledge_path()) == before


def test_slices_that_grew_are_brought_up_to_date(home: Home, hippo: Path) -> None:
    adopt(home, "hippo", hippo)
    with closing(sqlite3.connect(hippo)) as file, file:
        file.execute(
            'UPDATE agentic_sessions SET user_prompts_json = \'["Now the walrus", "and seals"]\','
            " message_count = 9, end_time = end_time + 500, content_hash = 'h2'"
            " WHERE segment_index = 1"
        )
    add_slice(hippo, index=2, at=1_790_000_200_000, prompts='["At last the orca"]')
    planned = adopt(home, "hippo", hippo, dry_run=True)
    done = adopt(home, "hippo", hippo)
    for one in (planned, done):
        assert (one.added, one.updated, one.skipped) == (1, 1, 2)
    with home.history() as history:
        (session,) = history.sessions()
        assert session.prompts == 4
        assert found(history, "seals") == [("ada", "prompt")]
        assert found(history, "orca") == [("ada", "prompt")]
        assert len(found(history, "walrus")) == 1
    before = dump(home.knowledge_path())
    adopt(home, "hippo", hippo)
    assert dump(home.knowledge_path()) == before


def test_a_file_that_is_used_in_place_knows_them_after_a_capture(home: Home, hippo: Path) -> None:
    with home.history(hippo) as history:
        history.capture()
        assert [one.session_id for one in history.sessions()] == ["ada"]
        add_slice(hippo, id="bob", prompts='["Mend the boat"]')
        history.capture()
        assert {one.session_id for one in history.sessions()} == {"ada", "bob"}
        assert found(history, "boat") == [("bob", "prompt")]


def test_the_log_itself_takes_the_place_of_notes(tmp_path: Path) -> None:
    """What Hippo has noted of conversations whose logs are still there."""
    whole = Home(tmp_path / "whole", environ={})
    with whole.history(user_home=DEMO) as history:
        history.capture()
        wanted = summary(history)
    hippo = tmp_path / "hippo.db"
    with whole.knowledge() as store:
        store.backup(hippo)
    without_ours(hippo)
    home = Home(tmp_path / "home", environ={})
    adopt(home, "hippo", hippo)
    with home.history(user_home=DEMO) as history:
        assert {one.version for one in history.sessions(limit=500)} == {"notes of Hippo"}
        assert CLAUDE in {f"{one.agent}:{one.session_id}" for one in history.sessions(limit=500)}
        history.capture()
        assert summary(history) == wanted
        history.capture()
        assert summary(history) == wanted


def summary(history: History) -> dict[str, Any]:
    sessions = history.sessions(everything=True, limit=1000)
    return {
        "sessions": sorted(
            (one.agent, one.session_id, one.entries, one.prompts, one.first_prompt, one.version)
            for one in sessions
            if one.entries
        ),
        "hits": sorted(one.shown.row.key for one in history.search("the", limit=5000)),
        "usage": history.usage().total,
    }


def test_notes_are_forgotten_like_all_else(home: Home, hippo: Path) -> None:
    adopt(home, "hippo", hippo)
    with home.history() as history:
        history.forget(Query(session=("ada",)))
        assert history.sessions() == []
    adopt(home, "hippo", hippo)
    with home.history() as history:
        history.capture()
        assert history.sessions() == []
        assert found(history, "walrus") == []


def test_secrets_in_notes_are_masked(home: Home, hippo: Path) -> None:
    secret = "AKIA" + "QWERTYUIOP123456"
    add_slice(hippo, id="eve", prompts=json.dumps([f"use {secret} now"]), summary="", calls=None)
    adopt(home, "hippo", hippo)
    with home.history() as history:
        raw = b"\n".join(history.raw(history.find("eve")))
        assert secret.encode() not in raw
        assert b"now" in raw

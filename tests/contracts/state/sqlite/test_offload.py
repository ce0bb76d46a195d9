"""Offloading a message that was damaged in the file does not bless it."""

import base64
import json
import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from threadkeep.state.blob_migration import offload_blobs
from threadkeep.state.check import check
from threadkeep.state.session_db import SessionDB

NOISE = random.Random(3)


def image(size: int = 9_000) -> str:
    """Base64 of bytes that do not compress."""
    return base64.b64encode(NOISE.randbytes(size)).decode()


# ---------------------------------------------------------------------- in a store


@pytest.fixture
def full(db: SessionDB) -> SessionDB:
    """An ended session with everything that is moved, an exact value too, and a running one."""
    run = image()
    big = {"content": "fn main() {}\n" * 3_000}
    calls = [{"id": "c", "function": {"name": "write", "arguments": json.dumps(big)}}]
    for name in ("done", "running"):
        db.create_session(name, "cli")
        db.append_message(name, "user", f"look: data:image/png;base64,{run} ok?")
        db.append_message(
            name,
            "assistant",
            "yes",
            tool_calls=calls,
            reasoning="thinking " * 1_000,
            reasoning_details=[{"text": "deep " * 2_000}],
            codex_reasoning_items=[{"encrypted": image()}],
            finish_reason="stop\ud800",
        )
        db.append_message(name, "tool", "output\n" * 5_000, tool_name="write", tool_call_id="c")
        db.append_message(name, "user", ["a list", {"type": "text", "text": f"with {run}"}])
        db.append_message(name, "user", "short")
    db.end_session("done", "user")
    return db


def offload(db: SessionDB, **options: Any) -> dict[str, Any]:
    return offload_blobs(db.context, **options)


def test_damaged_message_is_not_blessed_by_moving_it(full: SessionDB) -> None:
    with closing(sqlite3.connect(full.db_path, isolation_level=None)) as other:
        [sql] = other.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'tk_message_changed'"
        ).fetchone()
        other.execute("DROP TRIGGER tk_message_changed")
        other.execute("UPDATE messages SET reasoning = upper(reasoning) WHERE id = 2")
        other.execute(sql)
    offload(full)
    assert any("message 2" in problem for problem in check(full.context))

"""Deleting sessions takes Hermes's files of them along, and no others."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.newer_states import opened_form
from tests.support.states import Clock, Factory
from threadkeep.state.session_db import SessionDB
from threadkeep.testing import raw

DAY = 86_400.0
Put = Callable[..., None]


@pytest.fixture
def db(factory: Factory, clock: Clock, form: str | int) -> Iterator[SessionDB]:
    with opened_form(factory, form, clock) as opened:
        opened.set_meta("made", "today")
        yield opened


@pytest.fixture
def put(db: SessionDB, clock: Clock) -> Put:
    """Return `put(id, days=…, messages=…, **columns)`: a session as another program stores it."""

    def put(session_id: str, days: float = 100, messages: int = 1, **columns: Any) -> None:
        at = clock.now - days * DAY
        row: dict[str, Any] = {"id": session_id, "source": "cli", "started_at": at, "ended_at": at}
        row |= {"message_count": messages, **columns}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with raw(db) as connection:
            connection.execute(
                f"INSERT INTO sessions({names}) VALUES ({marks})", tuple(row.values())
            )
            for _ in range(messages):
                connection.execute(
                    "INSERT INTO messages(session_id, role, content, timestamp)"
                    " VALUES (?, 'user', 'said', ?)",
                    (session_id, at),
                )

    return put


def ids(db: SessionDB) -> set[str]:
    return {session["id"] for session in db.search_sessions(limit=100)}


def marked(kind: str, parent: str) -> dict[str, str]:
    return {"model_config": f'{{"_{kind}_from": "{parent}"}}', "parent_session_id": parent}


def test_what_a_session_delegated_goes_with_it_and_other_children_stay(
    db: SessionDB, put: Put, tmp_path: Path
) -> None:
    put("top", system_prompt_hash=None)
    put("helper", **marked("delegate", "top"))
    put("helpers helper", **marked("delegate", "helper"))
    put("branch", **marked("branched", "top"))
    put("broken", model_config="{no json")
    for name in ("top.json", "helper.jsonl", "request_dump_top_1.json", "branch.json"):
        (tmp_path / name).touch()
    targets = db.get_session_delete_targets("top")
    assert targets == ["top", "helper", "helpers helper"]
    assert db.get_session_delete_targets("nobody") == []
    assert not db.delete_session("top", expected_delete_ids=["top"])
    assert db.delete_session("top", tmp_path, expected_delete_ids=targets)
    assert ids(db) == {"branch", "broken"}
    assert (db.get_session("branch") or {})["parent_session_id"] is None
    assert {path.name for path in tmp_path.glob("*.json*")} == {"branch.json"}
    assert not db.delete_session("top")


def test_no_file_outside_the_folder_is_removed(db: SessionDB, put: Put, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "x.json").touch()
    put("../x")
    put("*")
    (inner / "other.json").touch()
    assert db.delete_sessions(["../x", "*"], inner) == 2
    assert (tmp_path / "x.json").exists()
    assert (inner / "other.json").exists()

"""What users of Hermes complain about: files that grow for ever."""

import base64
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.states import Clock
from threadkeep.state.hermes_state import SessionDB
from threadkeep.testing import rows

Make = Callable[..., list[int]]


def one(db: SessionDB, statement: str, *parameters: object) -> Any:
    (value,) = rows(db, statement, *parameters)[0].values()
    return value


def noise(size: int, seed: int = 1) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def picture(seed: int = 1, size: int = 60_000) -> str:
    return f"see data:image/png;base64,{noise(size, seed)} of the walrus"


def bytes_on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.is_file())


def ids(db: SessionDB) -> set[str]:
    return {session["id"] for session in db.search_sessions(limit=-1)}


# ---------------------------------------------------------------------- growth


def test_growth_pruning_makes_the_file_smaller(
    db: SessionDB, make: Make, clock: Clock, tmp_path: Path
) -> None:
    """#13861, #57752, #101316: 17 GB and 50 GB; the file never shrank."""
    for number in range(20):
        make(f"old{number}", *(noise(20_000, number * 10 + part) for part in range(5)))
        db.end_session(f"old{number}", "done")
    clock.pass_days(100)
    make("new", "hello")
    before = bytes_on_disk(tmp_path / "state.db")
    assert before > 2_000_000
    assert db.prune_sessions() == 20
    assert bytes_on_disk(tmp_path / "state.db") < before / 4
    assert ids(db) == {"new"}
    assert db.check() == []


def test_growth_space_of_a_file_made_by_hermes_is_given_back(tmp_path: Path, clock: Clock) -> None:
    """#71418, ssdavidai/alfred#241: VACUUM was absent."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")  # and no auto_vacuum
        made.execute("CREATE TABLE padding(x)")
        made.execute("DROP TABLE padding")
    with SessionDB(path, clock=clock) as db:
        db.create_session("old", "cli")
        db.append_messages(
            "old", [{"role": "tool", "content": noise(20_000, n)} for n in range(60)]
        )
        db.end_session("old", "done")
        clock.pass_days(100)
        before = bytes_on_disk(path)
        assert db.prune_sessions() == 1
        db.compact()
        assert bytes_on_disk(path) < before / 4


def test_growth_vacuum_can_be_asked_for(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#101316."""
    make("s", *(noise(20_000, part) for part in range(20)))
    make("t", "stays")
    db.delete_session("s")
    db.vacuum()
    assert bytes_on_disk(tmp_path / "state.db") < 450_000
    assert [message["content"] for message in db.get_messages("t")] == ["stays"]


def test_blobs_are_kept_once_when_offloaded(db: SessionDB, make: Make, tmp_path: Path) -> None:
    """#69672: the same picture in every turn of every session."""
    text = picture()
    for number in range(6):
        make(f"s{number}", text)
        db.end_session(f"s{number}", "done")
    make("running", text)
    before = bytes_on_disk(tmp_path / "state.db")
    db.compact(offload=True)
    assert one(db, "SELECT count(*) FROM tk_blobs") == 1
    assert one(db, "SELECT max(length(content)) FROM messages WHERE session_id <> 'running'") < 1000
    assert one(db, "SELECT content FROM messages WHERE session_id = 'running'") == text
    for number in range(6):
        assert [message["content"] for message in db.get_messages(f"s{number}")] == [text]
        assert db.get_messages_as_conversation(f"s{number}")[0]["content"] == text
    assert bytes_on_disk(tmp_path / "state.db") < before / 3
    assert len(db.search_messages("walrus")) == 7
    assert db.check() == []
    db.inline_blobs()
    assert one(db, "SELECT min(length(content)) FROM messages") == len(text)

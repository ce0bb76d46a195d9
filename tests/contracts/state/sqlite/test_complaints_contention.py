"""What users of Hermes complain about: locked, leaking and damaged files."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.children import Child, wait_until
from threadkeep.aio import AsyncSessionDB
from threadkeep.base.sqlite import connect
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.errors import Busy, Closed, Damaged
from threadkeep.state.hermes_state import SessionDB


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one session of two messages."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "the walrus")
        db.append_message("s", "assistant", "swims")
    return path


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the write lock the way a program does that knows nothing of ours."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE sessions SET end_reason = 'mine' WHERE id = 's'")
        yield other


def look_at_everything(db: SessionDB) -> None:
    assert [hit["session_id"] for hit in db.search_messages("walrus")] == ["s"]
    assert len(db.get_messages("s")) == 2
    assert [session["id"] for session in db.list_sessions_rich()] == ["s"]
    assert db.export_session("s") is not None
    assert db.resolve_session_id("s") == "s"


# ---------------------------------------------------------------------- locked


def test_locked_at_start_still_opens_and_searches(path: Path) -> None:
    """#3139, PR#3180, PR#3385: 'database is locked' at start switched search off."""
    with locked(path), SessionDB(path, timeout=0.01) as db:
        look_at_everything(db)


def test_locked_file_is_read_without_waiting(path: Path) -> None:
    """PR#3385: 15 to 20 seconds of freeze; here readers have no patience to spend."""
    with SessionDB(path, timeout=0.01) as db, locked(path):
        look_at_everything(db)
        with pytest.raises(Busy):
            db.append_message("s", "user", "x")
        look_at_everything(db)


def test_locked_many_open_a_new_store_at_once(tmp_path: Path) -> None:
    """#3139: the first start of several programs."""

    def work(number: int) -> None:
        with SessionDB(tmp_path / "new" / "state.db") as db:
            db.create_session(f"s{number}", "cli")
            db.append_message(f"s{number}", "user", "hello")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    with SessionDB(tmp_path / "new" / "state.db") as db:
        assert (db.session_count(), db.message_count()) == (8, 8)
        assert db.check() == []


def test_locked_writer_waits_and_is_served(path: Path) -> None:
    """#57921, #74478: a turn is not lost because a sibling is busy."""
    with SessionDB(path) as db, locked(path) as other, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(db.append_message, "s", "user", f"x{n}") for n in range(4)]
        look_at_everything_unended(db)
        assert not any(future.done() for future in waiting)
        other.execute("COMMIT")
        assert sorted(future.result() for future in waiting) == [3, 4, 5, 6]
        assert db.get_session("s")["end_reason"] == "mine"  # type: ignore[index]


def look_at_everything_unended(db: SessionDB) -> None:
    look_at_everything(db)
    assert db.get_session("s")["end_reason"] is None  # type: ignore[index]


def test_locked_error_names_the_file_the_cause_and_the_wait(path: Path) -> None:
    """#57921, #74478: after the time budget the error says what happened, and nothing is stored."""
    with SessionDB(path, timeout=0.05) as db:
        with locked(path), pytest.raises(Busy, match=r"state\.db is locked by .*0\.05 s") as caught:
            db.append_messages("s", [{"role": "user", "content": "x"}] * 3)
        assert caught.value.hint
        assert db.message_count() == 2
        assert db.append_message("s", "user", "now it works") == 3


HOLDER = """
from threadkeep.state.hermes_state import SessionDB
db = SessionDB(sys.argv[1])
db._conn.execute("BEGIN IMMEDIATE")
say("held")
hear()
"""


def test_locked_by_one_of_ours_says_which(path: Path) -> None:
    """#74478: who holds the lock is part of the cause."""
    with SessionDB(path, timeout=0.05) as db, Child(HOLDER, path) as child:
        child.expect("held")
        look_at_everything(db)
        with pytest.raises(Busy, match=f"process {child.pid}"):
            db.append_message("s", "user", "x")
        look_at_everything(db)


def test_locked_by_one_of_ours_at_start_still_opens_and_searches(path: Path) -> None:
    """#3139, #57921: a sibling's long write keeps nobody from opening and reading."""
    with Child(HOLDER, path) as child:
        child.expect("held")
        with SessionDB(path, timeout=0.05) as db:
            look_at_everything(db)


def test_locked_many_processes_write_at_once(path: Path) -> None:
    """#3139: gateway, command line and workers share the file; nobody fails, nothing is lost."""
    script = """
from threadkeep.state.hermes_state import SessionDB
with SessionDB(sys.argv[1]) as db:
    say("ready")
    hear()
    for number in range(20):
        db.append_message("s", "user", f"{sys.argv[2]} {number}")
say("done")
"""
    with Child(script, path, "a") as one, Child(script, path, "b") as two:
        for child in (one, two):
            child.expect("ready")
        for child in (one, two):
            child.tell("go")
        for child in (one, two):
            child.expect("done")
    with SessionDB(path) as db:
        assert db.message_count("s") == 42
        assert db.get_session("s")["message_count"] == 42  # type: ignore[index]
        said = [message["content"] for message in db.get_messages("s")]
        assert [text for text in said if text.startswith("a ")] == [f"a {n}" for n in range(20)]


# ---------------------------------------------------------------------- event loops


def test_event_loop_goes_on_while_a_writer_waits(path: Path) -> None:
    """#40695, #60747, #60794, #92413: stalls of the loop up to 605 s."""

    async def scenario() -> None:
        async with await AsyncSessionDB.open(path) as db:
            with locked(path) as other:
                writes = [
                    asyncio.create_task(db.append_message("s", "user", f"x{n}")) for n in range(12)
                ]
                await asyncio.sleep(0)
                assert len(await db.get_messages("s")) == 2
                assert len(await db.search_messages("walrus")) == 1
                assert len(await db.list_sessions_rich()) == 1
                assert not any(write.done() for write in writes)
                other.execute("COMMIT")
            assert sorted([await write for write in writes]) == list(range(3, 15))

    asyncio.run(scenario())


def test_event_loop_use_after_close_is_clear(path: Path) -> None:
    """#60794."""

    async def scenario() -> None:
        db = await AsyncSessionDB.open(path)
        await db.close()
        await db.close()
        with pytest.raises(Closed, match=r"state\.db was closed"):
            await db.get_messages("s")

    asyncio.run(scenario())


def test_readers_are_not_behind_a_writer_of_the_same_process(path: Path) -> None:
    """#92413: one lock around every statement made readers wait for writers."""
    entered, leave = threading.Event(), threading.Event()

    def hold(text: str) -> str:
        if text == "hold":
            entered.set()
            assert leave.wait(60)
        return text

    with SessionDB(path, redact=hold) as db, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(db.append_message, "s", "user", "hold")
        assert entered.wait(60)
        look_at_everything(db)
        leave.set()
        assert writing.result() == 3


# ---------------------------------------------------------------------- handles


def descriptors(folder: Path) -> int:
    """Count the files of a folder that this process has open."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:  # the folder's own descriptor
            continue
    return sum(link.startswith(str(folder)) for link in links)


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@needs_proc
def test_handles_are_given_back_at_close(path: Path) -> None:
    """#72782, #75269, #79742, #83512: leaks until EMFILE."""
    for _ in range(20):
        with SessionDB(path) as db:
            look_at_everything(db)
            db._conn.execute("SELECT 1")  # type: ignore[union-attr]
            db.append_message("s", "tool", "x")
            db.clear_messages("nobody")
            db.rewind_to_message("s", db.get_messages("s")[-1]["id"], any_role=True)
    wait_until(lambda: descriptors(path.parent) == 0)


@needs_proc
def test_handles_are_bounded_with_many_readers(path: Path) -> None:
    """#84233, #88033, #94736."""
    with SessionDB(path) as db:
        for _ in range(
            3
        ):  # SQLite itself keeps what 32 threads at once had open, for the next ones
            with ThreadPoolExecutor(32) as pool:
                list(pool.map(lambda _: look_at_everything(db), range(128)))
            assert descriptors(path.parent) <= 3 * (32 + 2)


@pytest.mark.parametrize("name", ["append_message", "get_messages", "search_messages", "backup"])
def test_handles_use_after_close_is_no_nonetype_error(path: Path, name: str) -> None:
    """#83512, #88033: 'NoneType' object has no attribute 'execute'."""
    arguments = {"append_message": ("s", "user", "x"), "backup": ()}
    db = SessionDB(path)
    db.close()
    with pytest.raises(Closed, match="closed") as caught:
        getattr(db, name)(*arguments.get(name, ("s",)))
    assert "open the store again" in str(caught.value)


def test_live_file_is_never_opened_outside_sqlite(path: Path) -> None:
    """#69784, #71724, #90950, #100368, #101064, #102589; nesquena/hermes-webui#7554.

    Closing such a file would drop the locks of the whole process on it.
    """
    script = """
path = sys.argv[1]
live = {path, path + "-wal", path + "-shm"}
opened = []
sys.addaudithook(lambda event, args: opened.append(args) if event == "open" else None)
from threadkeep.state.hermes_state import SessionDB
with SessionDB(path) as db:
    db.append_message("s", "user", "more")
    db.search_messages("more"); db.list_sessions_rich(); db.check(); db.size_report()
    db.backup(); list(db.iter_export()); db.prune_sessions(); db.reindex(); db.vacuum()
    db.compact(); db._conn.execute("SELECT 1")
    with SessionDB(path, read_only=True) as look:
        look.export_all()
    db.append_message("s", "user", "last")
    say(" ".join(str(args) for args in opened if str(args[0]) in live) or "nothing")
"""
    with Child(script, path) as child:
        child.expect("nothing")


def test_live_file_keeps_its_log_when_a_short_lived_reader_leaves(path: Path) -> None:
    """#109786, #109740, #110054: sidecars were unlinked under a live writer."""
    with SessionDB(path) as db:
        db.append_message("s", "user", "before")
        log = path.with_name("state.db-wal")
        inode = log.stat().st_ino
        script = """
from threadkeep.state.hermes_state import SessionDB
with SessionDB(sys.argv[1], read_only=True) as db:
    say(db.message_count())
"""
        with Child(script, path) as child:
            child.expect("3")
            assert child.end() == 0
        assert log.stat().st_ino == inode
        db.append_message("s", "user", "after")
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM messages").fetchone() == (4,)


# ---------------------------------------------------------------------- file systems, damage


def test_journal_mode_of_a_shared_file_is_never_changed(path: Path) -> None:
    """#89293, #85608, #55305, #46797: silent changes of the mode."""
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with SessionDB(path) as db:
        db.append_message("s", "user", "x")
        look = db.get_messages("s")
        assert (len(look), sqlite_file(db.context.db).journal_mode) == (3, "delete")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_journal_file_system_without_shared_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """#22032, #110848: WAL on a network file system; the user is told what happens instead."""
    monkeypatch.setattr(connect, "wal_allowed", lambda _: (False, "nfs4"))
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        assert db._conn.execute("PRAGMA journal_mode").fetchone()[0] == "delete"  # type: ignore[union-attr]
        assert db.message_count() == 1
    assert "nfs4" in caplog.text


def everything_in(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(".lock")
    }


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + b"\xff" * 8176, b"hello"])
def test_damaged_file_is_refused_and_not_multiplied(tmp_path: Path, content: bytes) -> None:
    """#86747, #76660: a repair loop wrote 89 GB of backups."""
    path = tmp_path / "state.db"
    path.write_bytes(content)
    before = everything_in(tmp_path)
    for _ in range(3):
        with pytest.raises(Damaged, match=r"state\.db"):
            SessionDB(path)
    assert everything_in(tmp_path) == before


def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """#68805: a file of 0 bytes bricked the install."""
    path = tmp_path / "state.db"
    path.touch()
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        assert db.session_count() == 1
    assert os.stat(path).st_size > 0

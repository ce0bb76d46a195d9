"""Imports of originals: the copy is the store, a merge adds what is missing, nothing else moves."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mail_boxes import contents, make_theirs
from tests.faults.old_files import make_old_file
from tests.faults.old_knowledge_files import make_old_knowledge
from tests.faults.old_state_files import UNNUMBERED, WITHOUT_INDEX, make_old_state
from tests.support.chats import new_session, turn
from tests.support.hermes_v6 import HermesV6
from tests.support.knowledge import do
from tests.support.newer_states import make_newer_state
from threadkeep import Home
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, SchemaMismatch
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.letters import letters
from threadkeep.transfer.adopt import adopt
from threadkeep.transfer.originals import PROGRAMS, find_original


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "user")}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "ours")


def looks(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mtime_ns


@contextmanager
def untouched(*paths: Path) -> Iterator[None]:
    before = [looks(path) for path in paths]
    yield
    assert [looks(path) for path in paths] == before


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if "importing" in path.name]


# ---------------------------------------------------------------------- finding


def test_originals_are_found_where_their_programs_keep_them(tmp_path: Path) -> None:
    user = tmp_path / "user"
    places = {
        "hermes": ".hermes/state.db",
        "grida": ".grida/agent/sessions.db",
        "hippo": ".local/share/hippo/hippo.db",
        "nanoclaw": "nanoclaw/data/v2-sessions/here",
    }
    assert set(places) == set(PROGRAMS)
    environ = {"HOME": str(user)}
    for program, place in places.items():
        with pytest.raises(NotFound, match=str(user)):
            find_original(program, None, environ)
        (user / place).parent.mkdir(parents=True)
        (user / place).touch()
        found = find_original(program, None, environ)
        assert found == ((user / place).parent if program == "nanoclaw" else user / place)


def test_variables_and_named_folders_lead_to_originals(tmp_path: Path) -> None:
    for name in ("state.db", "sessions.db", "hippo/hippo.db", "agent/sessions.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    environ = {"HOME": str(tmp_path / "user")}
    for program, variable, file in (
        ("hermes", "HERMES_HOME", "state.db"),
        ("grida", "GRIDA_AGENT_USER_DATA", "sessions.db"),
        ("grida", "GRIDA_HOME", "agent/sessions.db"),
        ("hippo", "XDG_DATA_HOME", "hippo/hippo.db"),
    ):
        named = {**environ, variable: str(tmp_path)}
        assert find_original(program, None, named) == tmp_path / file
    assert find_original("hermes", tmp_path, environ) == tmp_path / "state.db"
    assert find_original("grida", tmp_path / "sessions.db", environ) == tmp_path / "sessions.db"
    with pytest.raises(Invalid):
        find_original("word", None, environ)


def test_a_database_of_another_kind_is_refused(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE notes (text)")
    for program in ("hermes", "grida", "hippo"):
        with untouched(path), pytest.raises(Invalid):
            adopt(home, program, path)
    with pytest.raises(NotFound):
        adopt(home, "nanoclaw", tmp_path)
    assert not home.paths().data.exists()


# ---------------------------------------------------------------------- Hermes


@pytest.fixture
def hermes(tmp_path: Path) -> Path:
    path = tmp_path / "user" / ".hermes" / "state.db"
    path.parent.mkdir(parents=True)
    with HermesV6(path) as theirs:
        for session in ("one", "two"):
            theirs.create_session(session)
            theirs.append(session, "user", f"hello from {session}")
    return path


def test_hermes_becomes_the_state_store(home: Home, hermes: Path, environ: dict[str, str]) -> None:
    with untouched(hermes):
        planned = adopt(home, "hermes", dry_run=True, environ=environ)
        assert not home.state_path().exists()
        done = adopt(home, "hermes", environ=environ)
    assert (planned.copied, planned.added, planned.dry_run) == (True, 2, True)
    assert (done.copied, done.added, done.target) == (True, 2, home.paths().data / "state.db")
    assert done.original.counts == {"sessions": 2, "messages": 2}
    assert done.original.version == 6
    with home.state(must_exist=True) as state:
        assert [one["content"] for one in state.get_messages("one")] == ["hello from one"]
        assert state.search_messages("hello")
        assert state.check() == []
        assert sqlite_file(state.context.db).journal_mode == "wal"
    assert home.backups(store="state") == []
    assert leftovers(home.paths().data) == []
    assert os.stat(done.target).st_mode & 0o777 == 0o600
    assert os.stat(done.target).st_nlink == 1


@pytest.mark.parametrize("version", [UNNUMBERED, WITHOUT_INDEX, 1, 3, 5])
def test_any_older_hermes_is_brought_up(home: Home, tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    make_old_state(path, version)
    done = adopt(home, "hermes", path)
    with home.state(must_exist=True) as state:
        assert state.session_count() == done.added > 0
        assert state.check() == []
    assert home.backups(store="state") == []


def test_a_copy_has_what_is_only_in_the_log_of_a_running_program(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    with HermesV6(hermes) as theirs:
        theirs.append("one", "user", "just now")
        assert Path(f"{hermes}-wal").stat().st_size > 0
        adopt(home, "hermes", environ=environ)
        theirs.append("one", "user", "it goes on")
    with home.state() as state:
        said = [one["content"] for one in state.get_messages("one")]
    assert said == ["hello from one", "just now"]


def test_a_home_that_uses_hermes_in_place_gets_a_store_of_its_own(
    hermes: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    home = Home(environ=environ)
    assert home.state_path() == hermes
    done = adopt(home, "hermes", environ=environ)
    assert done.target == home.paths().data / "state.db"
    assert home.state_path() == done.target
    with pytest.raises(Conflict, match="already"):
        adopt(home, "hermes", target=hermes, environ=environ)


def test_a_second_import_adds_only_what_is_new(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    adopt(home, "hermes", environ=environ)
    with home.state() as state:
        state.append_message("one", "user", "said to us")
        state.ensure_session("ours", "cli")
    before = dump(home.state_path())
    again = adopt(home, "hermes", environ=environ)
    assert (again.copied, again.added, again.skipped) == (False, 0, 2)
    assert dump(home.state_path()) == before
    with HermesV6(hermes) as theirs:
        theirs.create_session("three", parent="one")
        theirs.append("three", "user", "a third")
        heard: list[tuple[int, int]] = []
        more = adopt(home, "hermes", environ=environ, progress=lambda *counts: heard.append(counts))
    assert (more.added, more.skipped, heard) == (1, 2, [(1, 1)])
    with home.state() as state:
        assert state.session_count() == 4
        assert state.message_count("one") == 2
        assert (state.get_session("three") or {})["parent_session_id"] == "one"


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return list(file.iterdump())


def newest_hermes(path: Path) -> None:
    """Make a file with more in it than anybody knows, and something in all of it."""
    path.unlink()
    make_newer_state(path, 999)
    do(
        path,
        "INSERT INTO sessions(id, source, started_at, cwd, mood, input_tokens, pinned)"
        " VALUES ('late', 'cli', 5, '/w', 'wild', 9, 1)",
        "INSERT INTO messages(session_id, role, content, timestamp, weather, api_content)"
        " VALUES ('late', 'user', 'said', 6, 'rain', 'sent')",
        "INSERT INTO messages(session_id, role, content, timestamp, active)"
        " VALUES ('late', 'user', 'taken back', 7, 0)",
        "INSERT INTO session_model_usage(session_id, model, input_tokens) VALUES ('late', 'm', 9)",
        "INSERT INTO state_meta VALUES ('last_vacuum', '1')",
    )


def test_a_newer_hermes_is_copied_with_all_that_it_has(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    newest_hermes(hermes)
    with untouched(hermes):
        planned = adopt(home, "hermes", dry_run=True, environ=environ)
        assert not home.state_path().exists()
        done = adopt(home, "hermes", environ=environ)
    for one in (planned, done):
        assert (one.copied, one.added, one.skipped, one.notes) == (True, 1, 0, [])
    with home.state(must_exist=True) as state:
        session = state.get_session("late")
        assert session is not None
        assert (session["mood"], session["cwd"]) == ("wild", "/w")
        assert state.usage()[0]["model"] == "m"
        assert state.get_messages("late")[0]["weather"] == "rain"
        state.append_message("late", "user", "here")
    assert adopt(home, "hermes", environ=environ).added == 0
    with home.state() as state:
        assert [one["content"] for one in state.get_messages("late")] == ["said", "here"]


def test_a_merge_of_a_newer_hermes_takes_what_fits_and_names_the_rest(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    with home.state() as state:
        state.create_session("ours", "cli")
    newest_hermes(hermes)
    with untouched(hermes):
        done = adopt(home, "hermes", environ=environ)
    assert (done.copied, done.added) == (False, 1)
    told = " ".join(done.notes)
    assert "sessions: mood were not imported" in told
    assert "messages: weather were not imported" in told
    assert "moods, state_meta" in told
    with home.state() as state:
        session = state.get_session("late")
        assert session is not None
        assert (session["cwd"], session["pinned"], session["message_count"]) == ("/w", 1, 1)
        (row,) = state.get_messages("late")
        assert (row["content"], row["api_content"]) == ("said", "sent")
        every = state.get_messages("late", include_inactive=True)
        assert [one["content"] for one in every] == ["said", "taken back"]
        assert {one["model"]: one["input_tokens"] for one in state.usage()} == {"m": 9}
    again = adopt(home, "hermes", environ=environ)
    assert (again.added, again.updated) == (0, 0)


def test_a_damaged_original_leaves_nothing_behind(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    with hermes.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 8000)
    with untouched(hermes), pytest.raises(Damaged):
        adopt(home, "hermes", environ=environ)
    assert not home.state_path().exists()
    assert leftovers(home.paths().data) == []


@pytest.mark.parametrize("odd", ["VIEW later", "TRIGGER later AFTER UPDATE ON sessions"])
@pytest.mark.parametrize("program", ["hermes", "hippo"])
def test_what_may_never_end_does_not_become_a_part_of_our_store(
    home: Home, tmp_path: Path, program: str, odd: str
) -> None:
    """The first write of ours would start a trigger, while the store is locked."""
    path = tmp_path / "theirs.db"
    if program == "hermes":
        HermesV6(path).close()
    else:
        make_old_knowledge(path, 17)
    endless = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    body = f"AS {endless}" if "VIEW" in odd else f"BEGIN SELECT max(i) FROM ({endless}); END"
    do(path, f"CREATE {odd} {body}")
    with untouched(path), pytest.raises(Damaged, match=r"'later' in .* may never end"):
        adopt(home, program, path)
    assert not home.state_path().exists()
    assert not home.knowledge_path().exists()


def test_what_a_killed_import_left_is_swept(
    home: Home, hermes: Path, environ: dict[str, str]
) -> None:
    data = home.paths().data
    data.mkdir()
    (data / ".state.db.999999999.importing").write_bytes(b"half")
    (data / f".state.db.{os.getppid()}.importing").write_bytes(b"of another that runs")
    adopt(home, "hermes", environ=environ)
    assert leftovers(data) == [f".state.db.{os.getppid()}.importing"]


# ---------------------------------------------------------------------- Grida


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_grida_becomes_the_chat_store(home: Home, tmp_path: Path, version: int) -> None:
    path = tmp_path / "sessions.db"
    make_old_file(path, version)
    with untouched(path):
        done = adopt(home, "grida", path)
        again = adopt(home, "grida", path)
    assert (done.copied, done.original.version) == (True, version)
    assert done.added == done.original.counts["sessions"] > 0
    assert (again.copied, again.added, again.skipped) == (False, 0, done.added)
    with home.chat(must_exist=True) as chat:
        assert len(chat.sessions().items) == done.added
        assert chat.verify().ok
    assert leftovers(home.paths().data) == []


def test_grida_is_merged_into_a_chat_store(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_old_file(path, 1)
    with home.chat() as chat:
        turn(chat, new_session(chat), "ours", "too")
    with untouched(path):
        planned = adopt(home, "grida", path, dry_run=True)
        done = adopt(home, "grida", path)
    assert (planned.added, planned.copied) == (done.added, done.copied)
    assert done.added == done.original.counts["sessions"]
    assert done.problems == []
    before = dump(home.chat_path())
    assert adopt(home, "grida", path).added == 0
    assert dump(home.chat_path()) == before
    assert leftovers(home.paths().data) == []


def test_a_newer_grida_is_refused(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_old_file(path, 3)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA user_version = 4")
    with untouched(path), pytest.raises(SchemaMismatch):
        adopt(home, "grida", path)
    assert not home.chat_path().exists()
    assert leftovers(home.paths().data) == []


# ---------------------------------------------------------------------- NanoClaw

CENTRAL = """
CREATE TABLE agent_groups (id TEXT PRIMARY KEY, name TEXT, folder TEXT);
CREATE TABLE messaging_groups (id TEXT PRIMARY KEY, channel_type TEXT, platform_id TEXT, name TEXT,
  is_group INTEGER);
CREATE TABLE messaging_group_agents (id TEXT PRIMARY KEY, messaging_group_id TEXT,
  agent_group_id TEXT, session_mode TEXT, priority INTEGER);
CREATE TABLE sessions (id TEXT PRIMARY KEY, agent_group_id TEXT, messaging_group_id TEXT,
  thread_id TEXT, agent_provider TEXT, status TEXT, created_at TEXT);
INSERT INTO agent_groups VALUES ('ag-1', 'Helper', 'helper');
INSERT INTO messaging_groups VALUES ('mg-1', 'slack', 'C1', 'general', 1);
INSERT INTO messaging_group_agents VALUES ('w', 'mg-1', 'ag-1', 'per-thread', 3);
INSERT INTO sessions VALUES ('sess-1700000000002-b', 'ag-1', 'mg-1', 'T1', 'claude', 'active',
  '2026-01-02T03:04:05.000Z');
"""


@pytest.fixture
def nanoclaw(tmp_path: Path) -> Path:
    """Make an installation with two sessions, of which its index knows one."""
    data = tmp_path / "nanoclaw" / "data"
    for session in ("sess-1700000000001-a", "sess-1700000000002-b", "sess-1700000000003-c"):
        folder = make_theirs(data / "v2-sessions" / "ag-1" / session)
        for box in ("inbox", "outbox"):
            (folder / box / "m1").mkdir(parents=True)
            (folder / box / "m1" / "note.txt").write_text(f"{box} of {session}")
    with closing(sqlite3.connect(data / "v2.db")) as file, file:
        file.executescript(CENTRAL)
    return tmp_path / "nanoclaw"


def test_nanoclaw_sessions_come_into_the_mailroom(home: Home, nanoclaw: Path) -> None:
    theirs = sorted((nanoclaw / "data" / "v2-sessions" / "ag-1").iterdir())
    files = [path for folder in theirs for path in sorted(folder.rglob("*")) if path.is_file()]
    with untouched(*files):
        planned = adopt(home, "nanoclaw", nanoclaw, dry_run=True)
        assert not home.paths().data.exists()
        done = adopt(home, "nanoclaw", nanoclaw)
    assert (planned.added, done.added, done.problems) == (3, 3, [])
    assert done.original.counts == {"sessions": 3, "messages": 240}
    with home.mailroom() as room:
        sessions: dict[str, Any] = {one.id: one for one in room.index.sessions()}
        assert set(sessions) == {folder.name for folder in theirs}
        known = sessions["sess-1700000000002-b"]
        assert (known.thread_id, known.agent_provider, known.status) == ("T1", "claude", "active")
        assert room.index.messaging_group(known.messaging_group_id).name == "general"
        assert room.index.agents_of("slack", "C1")[0].priority == 3
        assert room.index.agent_group("Helper").id == "ag-1"
        # Two have no chat: of them the newer one is active.
        assert sessions["sess-1700000000003-c"].status == "active"
        assert sessions["sess-1700000000001-a"].status == "closed"
        assert sessions["sess-1700000000001-a"].created_at == "2023-11-14T22:13:20.001Z"
        host = room.host(known)
        assert len(host.inbox(limit=100)) == 40
        assert host.send("and now to us").seq is not None
        copied = room.folder(known).path
    assert (copied / "inbox" / "m1" / "note.txt").read_text() == "inbox of sess-1700000000002-b"
    again = adopt(home, "nanoclaw", nanoclaw)
    assert (again.added, again.skipped) == (0, 3)
    assert adopt(home, "nanoclaw", nanoclaw, dry_run=True).skipped == 3
    assert leftovers(home.paths().data) == []


def tell(folder: Path, name: str, sql: str) -> None:
    with closing(sqlite3.connect(folder / f"{name}bound.db")) as file, file:
        file.execute(sql)


def test_new_mail_of_known_folders_comes_with_the_next_import(home: Home, nanoclaw: Path) -> None:
    adopt(home, "nanoclaw", nanoclaw)
    name = "sess-1700000000002-b"
    theirs = nanoclaw / "data" / "v2-sessions" / "ag-1" / name
    with home.mailroom() as room:
        host = room.host(name)
        ours = host.send("said here")
        before = {mail.id for mail in host.inbox(limit=1000)}
        waiting = next(m.id for m in host.inbox("pending", limit=1000) if m.id != ours.id)
    into_in = "INSERT INTO messages_in (id, seq, kind, timestamp, content) VALUES"
    into_out = (
        "INSERT INTO messages_out (id, seq, kind, timestamp, channel_type, platform_id, content)"
        " VALUES"
    )
    number = ours.seq  # which they have given as well
    tell(
        theirs,
        "in",
        f"""{into_in} ('new-1', {number}, 'chat', '2026-11-18 03:00:00',
         '{{"text":"said there","attachments":[{{"localPath":"inbox/new-1/a.txt"}}]}}')""",
    )
    tell(theirs, "in", f"UPDATE messages_in SET status = 'completed' WHERE id = '{waiting}'")
    tell(
        theirs,
        "out",
        f"""{into_out} ('went-1', 9001, 'chat', '2026-11-18 03:00:01',
         'slack', 'C1', '{{"text":"sent there"}}')""",
    )
    tell(
        theirs,
        "out",
        f"""{into_out} ('went-2', 9003, 'chat', '2026-11-18 03:00:02',
         'slack', 'C1', '{{"text":"not sent yet"}}')""",
    )
    tell(
        theirs,
        "in",
        """INSERT INTO delivered (message_out_id, delivered_at)
         VALUES ('went-1', '2026-11-18 03:00:03')""",
    )
    (theirs / "inbox" / "new-1").mkdir()
    (theirs / "inbox" / "new-1" / "a.txt").write_text("file")
    planned = adopt(home, "nanoclaw", nanoclaw, dry_run=True)
    assert (planned.added, planned.updated, planned.skipped) == (0, 1, 2)
    done = adopt(home, "nanoclaw", nanoclaw)
    assert (done.added, done.updated, done.skipped, done.problems) == (0, 1, 2, [])
    again = adopt(home, "nanoclaw", nanoclaw)
    assert (again.added, again.updated, again.skipped) == (0, 0, 3)
    with home.mailroom() as room:
        host = room.host(name)
        assert {mail.id for mail in host.inbox(limit=1000)} - before == {"new-1"}
        assert host.mail(ours.id).seq == ours.seq != host.mail("new-1").seq
        assert host.mail(waiting).status == "completed"
        assert {m.id for m in host.outbox(limit=1000)} >= {"went-1", "went-2"}
        states = {letter.id: letter.state for letter in letters(host.context, direction="out")}
        assert (states["went-1"], states["went-2"]) == ("delivered", "waiting")
        assert [one for one in host.verify() if one.severity == "error"] == []
        assert (room.folder(name).path / "inbox" / "new-1" / "a.txt").read_text() == "file"


def test_what_was_removed_here_does_not_come_again(home: Home, nanoclaw: Path) -> None:
    adopt(home, "nanoclaw", nanoclaw)
    with home.mailroom() as room:
        host = room.host("sess-1700000000002-b")
        gone = host.inbox(limit=1000)[0].id
        with host.context.folder.inbound.write() as tx:
            tx.run(Sql("DELETE FROM messages_in WHERE id = ?"), (gone,))
    assert adopt(home, "nanoclaw", nanoclaw).updated == 0


def test_an_agent_at_work_keeps_its_file(home: Home, nanoclaw: Path) -> None:
    adopt(home, "nanoclaw", nanoclaw)
    name = "sess-1700000000002-b"
    theirs = nanoclaw / "data" / "v2-sessions" / "ag-1" / name
    tell(
        theirs,
        "in",
        """INSERT INTO messages_in (id, seq, kind, timestamp, content)
         VALUES ('new-1', 9000, 'chat', '2026-11-18 03:00:00', '{"text":"x"}')""",
    )
    with home.mailroom() as room:
        path = room.folder(name).path
    with Container(path) as container:
        container.start()
        done = adopt(home, "nanoclaw", nanoclaw)
        assert (done.updated, len(done.problems)) == (0, 1)
        assert "an agent is running" in done.problems[0]
    assert adopt(home, "nanoclaw", nanoclaw).updated == 1


def test_mailboxes_do_not_go_into_a_file(home: Home, nanoclaw: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        adopt(home, "nanoclaw", nanoclaw, target=tmp_path / "mail.db")
    assert not home.paths().data.exists()


def test_a_hostile_folder_is_reported_and_the_others_come(home: Home, nanoclaw: Path) -> None:
    group = nanoclaw / "data" / "v2-sessions" / "ag-1"
    bad = group / "sess-1700000000001-a"
    secret = nanoclaw / "secret"
    (bad / "outbound.db").rename(secret)
    (bad / "outbound.db").symlink_to(secret)
    linked = group / "sess-1700000000003-c" / "outbox" / "m1" / "link.txt"
    linked.symlink_to(secret)
    before = contents(bad)
    done = adopt(home, "nanoclaw", nanoclaw)
    assert (done.added, len(done.problems)) == (2, 1)
    assert "sess-1700000000001-a" in done.problems[0]
    assert done.original.counts["unreadable"] == 1
    assert contents(bad) == before
    ours = home.paths().data / "mailbox" / "ag-1"
    copied = ours / "sess-1700000000003-c" / "outbox" / "m1"
    assert [path.name for path in copied.iterdir()] == ["note.txt"]
    assert not (ours / "sess-1700000000001-a").exists()


def test_a_folder_with_a_damaged_file_leaves_nothing_behind(home: Home, nanoclaw: Path) -> None:
    bad = nanoclaw / "data" / "v2-sessions" / "ag-1" / "sess-1700000000001-a" / "outbound.db"
    with closing(sqlite3.connect(bad)) as file, file:
        file.execute("CREATE TABLE more AS SELECT randomblob(2000) FROM messages_out")
        (page,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'more'").fetchone()
    with bad.open("r+b") as raw:
        raw.seek((page - 1) * 4096)
        raw.write(b"\xff" * 4096)
    done = adopt(home, "nanoclaw", nanoclaw)
    assert (done.added, len(done.problems)) == (2, 1)
    assert leftovers(home.paths().data) == []


def test_an_import_that_was_cut_off_is_finished(home: Home, nanoclaw: Path) -> None:
    half = home.paths().data / "mailbox" / "ag-1" / ".sess-1700000000001-a.importing"
    half.mkdir(parents=True)
    (half / "inbound.db").write_bytes(b"half")
    adopt(home, "nanoclaw", nanoclaw)
    # Killed after the folder had its name, before the index knew it.
    with home.mailroom() as room, room.index.context.db.write() as tx:
        tx.run(Sql("DELETE FROM sessions"))
    assert adopt(home, "nanoclaw", nanoclaw).added == 3
    assert leftovers(home.paths().data) == []


# ---------------------------------------------------------------------- Hippo


@pytest.mark.parametrize("version", [1, 9, 17])
def test_hippo_becomes_the_knowledge_store(
    home: Home, shared_data: Path, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "hippo.db"
    path.write_bytes((shared_data / f"data/knowledge/migrations/seed_v{version}.db").read_bytes())
    with untouched(path):
        done = adopt(home, "hippo", path)
    assert (done.copied, done.original.version) == (True, version)
    with KnowledgeStore.open(done.target) as store:
        assert store.access.writable
        assert store.access.brought_up.steps == ()
    again = adopt(home, "hippo", path)
    assert (again.copied, again.added, again.skipped) == (False, 0, done.added)
    elsewhere = adopt(home, "hippo", path, target=tmp_path / "other.db")
    assert elsewhere.target.exists()
    assert leftovers(home.paths().data) == []


def test_vectors_that_need_an_extension_are_copied_along(
    home: Home, shared_data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "hippo.db"
    path.write_bytes((shared_data / "data/knowledge/migrations/seed_v17.db").read_bytes())
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE knowledge_vectors_rowids (rowid INTEGER PRIMARY KEY, id)")
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'knowledge_vectors', 'knowledge_vectors',"
            " 0, 'CREATE VIRTUAL TABLE knowledge_vectors USING vec0(v FLOAT[768])')"
        )
    done = adopt(home, "hippo", path)
    with closing(sqlite3.connect(done.target)) as file:
        names = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    assert names >= {"knowledge_vectors", "knowledge_vectors_rowids"}

"""The folder: NanoClaw's tables exactly, older folders brought up, hostile ones refused."""

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import cannot_run
from tests.support.children import exit_code, fork
from tests.support.mail import CHAT, FakeClock, MailFactory, look, open_pair
from threadkeep.errors import Damaged, Invalid, NotFound, ReadOnly
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.folder import (
    Folder,
    Owner,
    heartbeat_path,
    inbound_db_path,
    outbound_db_path,
    provision,
    session_dir,
)
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import OutMail

Column = tuple[str, str, int, str | None, int]


def text(
    name: str, *, needed: bool = False, default: str | None = None, key: bool = False
) -> Column:
    return (name, "TEXT", int(needed), default, int(key))


def number(
    name: str, *, needed: bool = False, default: str | None = None, key: bool = False
) -> Column:
    return (name, "INTEGER", int(needed), default, int(key))


# Name, type, NOT NULL, default and key of each column, in NanoClaw's order.
INBOUND: dict[str, list[Column]] = {
    "messages_in": [
        text("id", key=True),
        number("seq"),
        text("kind", needed=True),
        text("timestamp", needed=True),
        text("status", default="'pending'"),
        *(text(name) for name in ("process_after", "recurrence", "series_id")),
        number("tries", default="0"),
        number("trigger", needed=True, default="1"),
        *(text(name) for name in ("platform_id", "channel_type", "thread_id")),
        text("content", needed=True),
        text("source_session_id"),
        number("on_wake", needed=True, default="0"),
    ],
    "delivered": [
        text("message_out_id", key=True),
        text("platform_message_id"),
        text("status", needed=True, default="'delivered'"),
        text("delivered_at", needed=True),
    ],
    "destinations": [
        text("name", key=True),
        text("display_name"),
        text("type", needed=True),
        *(text(name) for name in ("channel_type", "platform_id", "agent_group_id")),
    ],
    "session_routing": [
        number("id", key=True),
        *(text(name) for name in ("channel_type", "platform_id", "thread_id")),
    ],
}
OUTBOUND: dict[str, list[Column]] = {
    "messages_out": [
        text("id", key=True),
        number("seq"),
        text("in_reply_to"),
        text("timestamp", needed=True),
        *(text(name) for name in ("deliver_after", "recurrence")),
        text("kind", needed=True),
        *(text(name) for name in ("platform_id", "channel_type", "thread_id")),
        text("content", needed=True),
    ],
    "processing_ack": [
        text("message_id", key=True),
        text("status", needed=True),
        text("status_changed", needed=True),
    ],
    "session_state": [
        text("key", key=True),
        text("value", needed=True),
        text("updated_at", needed=True),
    ],
    "container_state": [
        number("id", key=True),
        text("current_tool"),
        number("tool_declared_timeout_ms"),
        text("tool_started_at"),
        text("updated_at", needed=True),
    ],
}


def ask(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements with plain sqlite3; give the rows of the last one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def columns(path: Path, table: str) -> list[Column]:
    return [row[1:] for row in ask(path, f"PRAGMA table_info({table})")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ag-1-team01" / "sess-1-abcdef"


# ---------------------------------------------------------------------- layout


@pytest.mark.parametrize("file, tables", [("inbound.db", INBOUND), ("outbound.db", OUTBOUND)])
def test_every_table_is_nanoclaws_column_by_column(
    path: Path, file: str, tables: dict[str, list[Column]]
) -> None:
    provision(path)
    assert {name: columns(path / file, name) for name in tables} == tables
    rows = ask(path / file, "SELECT name FROM sqlite_master WHERE type = 'table'")
    others = {name for (name,) in rows} - set(tables)
    assert others
    assert all(name.startswith(("tk_", "sqlite_")) for name in others)


def test_the_index_and_the_single_rows_are_nanoclaws(path: Path) -> None:
    provision(path)
    indexed = ask(path / "inbound.db", "PRAGMA index_info(idx_messages_in_series)")
    assert [name for (_, _, name) in indexed] == ["series_id"]
    for file, insert in (
        ("inbound.db", "INSERT INTO session_routing (id) VALUES (2)"),
        ("outbound.db", "INSERT INTO container_state (id, updated_at) VALUES (2, '')"),
    ):
        with pytest.raises(sqlite3.IntegrityError):
            ask(path / file, insert)


@pytest.mark.parametrize("file", ["inbound.db", "outbound.db"])
def test_the_files_are_such_as_nanoclaw_makes(path: Path, file: str) -> None:
    provision(path)
    wanted = {
        "page_size": 4096,
        "encoding": "UTF-8",
        "user_version": 0,
        "application_id": 0,
        "journal_mode": "delete",
        "synchronous": 2,
    }
    assert {name: ask(path / file, f"PRAGMA {name}")[0][0] for name in wanted} == wanted
    assert ask(path / file, "PRAGMA integrity_check") == [("ok",)]


def test_what_we_add_cannot_break_nanoclaws_program(path: Path) -> None:
    """No text in double quotes (its SQLite refuses that), no foreign keys, no views."""
    provision(path)
    for file in ("inbound.db", "outbound.db"):
        rows = ask(path / file, "SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL")
        assert {kind for kind, _ in rows} <= {"table", "index", "trigger"}
        for _, sql in rows:
            assert '"' not in sql
            assert "REFERENCES" not in sql.upper()
            assert "RAISE(ABORT" not in sql.upper().replace(" ", "")


def test_the_folder_has_its_places_and_nothing_else(path: Path) -> None:
    folder = provision(path)
    found = {entry.name for entry in path.iterdir()}
    assert found == {"inbound.db", "outbound.db", "outbox"}
    assert (folder.heartbeat_path, folder.inbox_path) == (path / ".heartbeat", path / "inbox")


def test_everything_is_for_the_owner_alone(path: Path) -> None:
    provision(path).beat()
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in (path, *path.iterdir())}
    assert modes == {
        "sess-1-abcdef": 0o700,
        "outbox": 0o700,
        "inbound.db": 0o600,
        "outbound.db": 0o600,
        ".heartbeat": 0o600,
    }
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_paths_are_those_of_the_seed(tmp_path: Path) -> None:
    place = tmp_path / "ag" / "sess"
    assert session_dir(tmp_path, "ag", "sess") == place
    assert inbound_db_path(tmp_path, "ag", "sess") == place / "inbound.db"
    assert outbound_db_path(tmp_path, "ag", "sess") == place / "outbound.db"
    assert heartbeat_path(tmp_path, "ag", "sess") == place / ".heartbeat"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b", "x" * 300])
def test_names_that_would_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    for parts in ((name, "sess"), ("ag", name)):
        with pytest.raises(Invalid, match="cannot name a folder"):
            session_dir(tmp_path, *parts)


# ---------------------------------------------------------------------- making


def test_a_folder_that_is_there_is_kept(factory: MailFactory) -> None:
    pair = open_pair(factory)
    pair.host.send("kept")
    before = pair.rows("SELECT * FROM messages_in")
    provision(pair.path)
    assert pair.rows("SELECT * FROM messages_in") == before


def test_a_folder_that_lost_a_file_gets_it_back(path: Path) -> None:
    provision(path)
    (path / "outbound.db").unlink()
    with pytest.raises(NotFound, match="is not a mailbox"):
        Host(path)
    provision(path)
    assert Container(path).poll() == []


@pytest.mark.parametrize("side", [Host, Container])
def test_a_folder_that_is_none_is_refused_and_not_made(
    path: Path, side: Callable[[Path], object]
) -> None:
    with pytest.raises(NotFound, match="is not a mailbox"):
        side(path)
    assert not path.exists()


def test_a_maker_that_died_between_two_names_of_a_file_does_no_harm(path: Path) -> None:
    provision(path)
    os.link(path / "inbound.db", path / ".inbound.db.0a1b2c3d4e5f.new")
    with pytest.raises(Damaged):
        Host(path)
    provision(path)
    Host(path).send("works")
    assert {entry.name for entry in path.iterdir()} == {"inbound.db", "outbound.db", "outbox"}


def test_a_link_in_the_place_of_the_outbox_is_refused(path: Path, tmp_path: Path) -> None:
    path.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (path / "outbox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="is a link"):
        provision(path)


def test_a_file_in_the_place_of_the_folder_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("in the way")
    with pytest.raises(ReadOnly, match="sess-1-abcdef"):
        provision(path)


def test_a_folder_knows_its_group_and_session(path: Path, tmp_path: Path) -> None:
    assert Host.create(path).context[4:6] == ("ag-1-team01", "sess-1-abcdef")
    other = tmp_path / "box"
    Host.create(other, agent_group="ag-9", session="sess-9")
    assert Host(other).context[4:6] == ("ag-9", "sess-9")
    assert Container(other).context[4:6] == ("ag-9", "sess-9")
    Host.create(other, session="sess-10")
    assert Host(other).context[4:6] == ("ag-9", "sess-10")
    Host.create(other)
    assert Host(other).context[4:6] == ("ag-9", "sess-10")


def work_as_nobody(path: Path) -> None:
    os.setgid(65534)
    os.setuid(65534)
    container = Container(path)
    container.start()
    container.complete(container.claim(container.poll()))
    container.beat()
    container.send("hello", files=[("a.txt", b"x")])


def test_root_can_give_the_folder_to_the_agent() -> None:
    if os.geteuid() != 0:
        cannot_run("needs root, to give files to somebody else")
    with tempfile.TemporaryDirectory() as place:  # pytest's own folder is for root alone
        Path(place).chmod(0o755)
        path = Path(place) / "box"
        host = Host.create(path, owner=Owner(65534, 65534))
        host.write_routing(CHAT)
        host.send("hi", attachments=[{"name": "a.txt", "data": "eA=="}])
        owners = {entry.stat().st_uid for entry in (path, *path.rglob("*"))}
        assert owners == {65534}
        assert exit_code(fork(lambda: work_as_nobody(path))) == 0
        assert [mail.text for mail in host.outbox()] == ["hello"]
        assert host.send("again").seq == 4
        (path / "outbound.db").unlink()
        provision(path)  # what root adds to it later is the agent's as well
        assert (path / "outbound.db").stat().st_uid == 65534


# ---------------------------------------------------------------------- older folders

NEWER = ("series_id", "trigger", "source_session_id", "on_wake")


def make_old(path: Path, *, without: tuple[str, ...], plain_delivered: bool = False) -> None:
    """Make a folder as an older NanoClaw did: without some columns, and with one message."""
    path.mkdir(parents=True)
    (path / "outbox").mkdir()

    def declare(column: Column) -> str:
        name, kind, needed, default, key = column
        extra = f"{' NOT NULL' * needed}{f' DEFAULT {default}' if default else ''}"
        return f"{name} {kind}{extra}{' PRIMARY KEY' * key}"

    for file, tables in (("inbound.db", INBOUND), ("outbound.db", OUTBOUND)):
        for table, all_columns in tables.items():
            gone = without if table == "messages_in" else ()
            if table == "delivered" and plain_delivered:
                gone = ("platform_message_id", "status")
            kept = [declare(column) for column in all_columns if column[0] not in gone]
            ask(path / file, f"CREATE TABLE {table} ({', '.join(kept)})")
    ask(
        path / "inbound.db",
        "INSERT INTO messages_in (id, seq, kind, timestamp, content, channel_type, platform_id)"
        " VALUES ('old', 2, 'chat', '2025-01-01T00:00:00Z', '{\"text\":\"old\"}', 'slack', 'C1')",
    )


@pytest.mark.parametrize("without", [*((name,) for name in NEWER), NEWER])
def test_the_host_adds_the_columns_that_an_older_folder_lacks(
    path: Path, without: tuple[str, ...]
) -> None:
    make_old(path, without=without, plain_delivered=True)
    host = Host(path)
    assert set(columns(path / "inbound.db", "messages_in")) == set(INBOUND["messages_in"])
    assert set(columns(path / "inbound.db", "delivered")) == set(INBOUND["delivered"])
    old = host.mail("old")
    assert (old.series_id, old.trigger, old.source_session_id, old.on_wake) == (
        "old" if "series_id" in without else None,
        True,
        None,
        False,
    )
    assert host.due() == 1
    assert host.send("new").seq == 4
    assert ask(path / "inbound.db", "PRAGMA index_info(idx_messages_in_series)") != []


@pytest.mark.parametrize("without", [*((name,) for name in NEWER), NEWER])
def test_the_container_works_on_an_older_folder_without_changing_inbound(
    path: Path, without: tuple[str, ...]
) -> None:
    make_old(path, without=without, plain_delivered=True)
    before = (path / "inbound.db").read_bytes()
    container = Container(path, clock=FakeClock())
    container.start()
    assert container.triggered()
    (mail,) = container.poll()
    assert (mail.id, mail.series_id, mail.trigger, mail.on_wake) == (
        "old",
        "old" if "series_id" in without else None,
        True,
        False,
    )
    assert container.claim(["old"]) == ["old"]
    container.complete([mail])
    assert container.poll() == []
    assert container.tasks() == []
    assert container.system_mail() == []
    sent = container.insert_message("chat", {"text": "out"}, CHAT)
    assert sent.seq == 3
    assert container.edit(3, "better").content["messageId"] == sent.id
    assert container.react(2, "x").content["messageId"] == "old"
    assert isinstance(container.mail(3), OutMail)
    assert (path / "inbound.db").read_bytes() == before


def test_the_container_works_where_names_and_routing_were_unknown(path: Path) -> None:
    make_old(path, without=())
    ask(path / "inbound.db", "DROP TABLE destinations", "DROP TABLE session_routing")
    container = Container(path)
    assert container.destinations() == []
    assert not container.routing().known
    with pytest.raises(Invalid, match="no default destination"):
        container.send("where to?")


@pytest.mark.parametrize("table", ["session_state", "container_state"])
def test_the_container_adds_a_table_that_an_older_outbound_lacks(path: Path, table: str) -> None:
    make_old(path, without=())
    ask(path / "outbound.db", f"DROP TABLE {table}")
    container = Container(path)
    assert columns(path / "outbound.db", table) == OUTBOUND[table]
    container.set_state("k", "v")
    container.tool_started("Bash")


def test_an_old_session_state_gets_its_column(path: Path) -> None:
    make_old(path, without=())
    ask(
        path / "outbound.db",
        "DROP TABLE session_state",
        "CREATE TABLE session_state (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "INSERT INTO session_state VALUES ('sdk_session_id', 's-1')",
    )
    container = Container(path)
    container.start("Claude")
    assert container.get_state("continuation:claude") == "s-1"


def test_a_folder_that_is_complete_is_not_written_when_it_is_opened(path: Path) -> None:
    provision(path)
    before = {file: (path / file).stat().st_mtime_ns for file in ("inbound.db", "outbound.db")}
    Host(path)
    Container(path)
    assert {file: (path / file).stat().st_mtime_ns for file in before} == before


# ---------------------------------------------------------------------- hostile folders


@pytest.mark.parametrize("file", ["inbound.db", "outbound.db"])
@pytest.mark.parametrize("kind", [os.symlink, os.link])
def test_a_linked_database_is_refused(
    path: Path, tmp_path: Path, file: str, kind: Callable[[Path, Path], None]
) -> None:
    provision(path)
    victim = tmp_path / "victim.db"
    (path / file).rename(victim)
    before = victim.read_bytes()
    kind(victim, path / file)
    with pytest.raises(Damaged, match=file):
        Host(path).outbox()
    with pytest.raises(Damaged, match=file):
        Container(path).send("x")
    assert victim.read_bytes() == before


def test_an_endless_view_in_the_place_of_the_outbox_is_refused_at_once(path: Path) -> None:
    host = Host.create(path)
    ask(
        path / "outbound.db",
        "DROP TABLE messages_out",
        """CREATE VIEW messages_out AS
           WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id,
           x AS seq, NULL AS in_reply_to, '' AS timestamp, '' AS deliver_after, '' AS recurrence,
           'chat' AS kind, '' AS platform_id, '' AS channel_type, '' AS thread_id, '' AS content
           FROM n""",
    )
    with pytest.raises(Damaged, match="messages_out"):
        host.outbox()
    assert host.send("other mail is unaffected").seq == 2


def test_no_value_in_outbound_stops_the_host_from_reading_the_rest(factory: MailFactory) -> None:
    pair = open_pair(factory)
    pair.container.send("before")
    odd = (
        "(x'ff00', 3, x'00', 7, 8.5, x'ff', x'ff', 9, x'00ff', x'7b7d')",
        "(CAST(x'ff41' AS TEXT), 5, 0, 'now', 'soon', '', 0, 0, 0, CAST(x'7bff' AS TEXT))",
        "(NULL, NULL, NULL, '', NULL, '', NULL, NULL, NULL, 'no JSON')",
        "('nul' || char(0) || 'x', 9, NULL, '', NULL, 'chat', '', '', '', '{\"text\":5}')",
    )
    for row in odd:
        look(
            pair.path,
            "INSERT INTO outbound.messages_out (id, seq, in_reply_to, timestamp, deliver_after,"
            f" kind, platform_id, channel_type, thread_id, content) VALUES {row}",
        )
    pair.container.send("after")
    mails = pair.host.outbox()
    assert len(mails) == 6
    assert {"before", "after"} <= {mail.text for mail in mails}
    assert all(isinstance(mail.kind, str) and isinstance(mail.content, dict) for mail in mails)


def test_a_heartbeat_is_a_time_and_nothing_else(path: Path, tmp_path: Path) -> None:
    folder = provision(path)
    assert folder.heartbeat_ms() is None
    folder.beat()
    assert folder.heartbeat_ms() is not None
    folder.forget_heartbeat()
    assert folder.heartbeat_ms() is None
    victim = tmp_path / "victim"
    victim.touch()
    (path / ".heartbeat").symlink_to(victim)
    assert folder.heartbeat_ms() is None
    with pytest.raises(ReadOnly):
        folder.beat()
    folder.forget_heartbeat()
    assert victim.exists()


def test_pipes_in_the_place_of_signs_of_life_hold_nobody_up(path: Path) -> None:
    folder = provision(path)
    os.mkfifo(folder.heartbeat_path)
    os.mkfifo(folder.agent_lock_path)
    container = Container(path)
    with pytest.raises(Damaged, match=r"\.agent\.lock"):
        container.start()
    with pytest.raises(ReadOnly, match=r"\.heartbeat"):
        container.beat()
    assert folder.heartbeat_ms() is None
    assert Host(path).due() == 0


def test_the_lock_of_the_host_is_out_of_the_agents_reach(path: Path) -> None:
    folder = Folder(path)
    assert folder.host_lock_path.parent == path.parent
    assert folder.agent_lock_path.parent == path

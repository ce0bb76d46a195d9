"""A database of another program, made to do harm: it is set aside, all other logs come in."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from tests.capture.redact.formats import draw
from tests.support.forgetting import masked_history
from tests.support.hostile_databases import READERS, REFUSED, Reader, make_hostile
from tests.support.toy_sources import ToyDocuments
from tests.support.user_homes import assert_sound, open_history
from tests.support.worlds import World, as_it_is
from threadkeep.base.sqlite import foreign
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.base.sqlite.guard import Budget
from threadkeep.capture.capture import History
from threadkeep.capture.observed.shell_history import HistoryFile, Tally, read_past
from threadkeep.capture.rebuild import Places
from threadkeep.errors import Damaged, ThreadkeepError
from threadkeep.knowledge.archive import LogRow
from threadkeep.knowledge.health import health_name
from threadkeep.knowledge.query import Query
from threadkeep.sources.records import DocumentItem, Log, UserHome

GOOD = "5e550000-0000-4000-8000-00000000000f"
MOST_BYTES = 300 * 1024 * 1024


def good_log(user: Path) -> None:
    path = user / ".claude" / "projects" / "-u-app" / f"{GOOD}.jsonl"
    path.parent.mkdir(parents=True)
    said = {"role": "user", "content": "a harmless sentence"}
    about = {"type": "user", "uuid": "u1", "timestamp": "2026-05-01T10:00:00.000Z"}
    path.write_text(json.dumps({**about, "message": said}) + "\n")


def good_database(user: Path) -> None:
    """Another database of the same kind of reader, that nobody touched."""
    path = user / ".local" / "share" / "opencode" / "opencode-dev.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE session (id, title)")
        connection.execute("CREATE TABLE message (id, session_id, data)")
        connection.execute("CREATE TABLE part (id, message_id, session_id, data)")
        connection.execute("INSERT INTO session VALUES ('good', 'a title')")
        data = json.dumps({"role": "user", "time": {"created": 1}})
        connection.execute("INSERT INTO message VALUES ('m', 'good', ?)", (data,))
        part = json.dumps({"type": "text", "text": "a harmless row"})
        connection.execute("INSERT INTO part VALUES ('p', 'm', 'good', ?)", (part,))


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_told_and_all_others_come_in(tmp_path: Path, attack: str) -> None:
    user = tmp_path / "user"
    good_log(user)
    good_database(user)
    paths = {name: make_hostile(user, reader, attack) for name, reader in READERS.items()}
    with open_history(tmp_path / "home", user) as history:
        report = history.capture()
        assert {hit.session.session_id for hit in history.search("harmless")} == {GOOD, "good"}
    with closing(sqlite3.connect(tmp_path / "home" / "knowledge.db")) as store:
        noted = dict(store.execute("SELECT path, error FROM tk_logs WHERE item = ''"))
        asked = "SELECT source FROM source_health WHERE consecutive_failures > 0"
        failing = {source for (source,) in store.execute(asked)}
    for name, reader in READERS.items():
        path, why = str(paths[name]), REFUSED[attack][1]
        told = report.of(reader.agent).errors
        assert any(path in where and why in said for where, said in told.items()), (name, told)
        assert why in (noted[path] or ""), name
        assert health_name(reader.agent) in failing


_OF_ATUIN = ("id", "timestamp", "duration", "exit", "command", "cwd", "session", "hostname")
ATUIN = Reader("", ".local/share/atuin/history.db", "history", _OF_ATUIN, "")


# A value that is too large for a command is counted, not told: the other commands come in.
@pytest.mark.parametrize("attack", sorted(REFUSED.keys() - {"large-value"}))
def test_a_history_of_commands_is_no_way_in(tmp_path: Path, attack: str) -> None:
    path = make_hostile(tmp_path, ATUIN, attack)
    with pytest.raises(ThreadkeepError) as told:
        list(read_past(HistoryFile("atuin", path), Tally()))
    assert str(path) in told.value.message
    assert REFUSED[attack][1] in told.value.message


ODD = ("NULL", "x'00ff'", "-1", "9e999", "''", "'[1]'")


@pytest.mark.parametrize("ending", ["", " WITHOUT ROWID"])
@pytest.mark.parametrize("value", ODD)
def test_rows_of_any_type_keep_nothing_out(tmp_path: Path, value: str, ending: str) -> None:
    """A table of the right name may hold anything: it is read, or told, and the others come in."""
    user = tmp_path / "user"
    good_log(user)
    good_database(user)
    for reader in READERS.values():
        odd_table(user / reader.path, reader, value, ending)
    atuin = user / ATUIN.path
    odd_table(atuin, ATUIN, value, ending)
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        assert {hit.session.session_id for hit in history.search("harmless")} == {GOOD, "good"}
    with suppress(Damaged):
        assert len(list(read_past(HistoryFile("atuin", atuin), Tally()))) <= 1
    assert_sound(tmp_path / "home" / "knowledge.db")


def odd_table(path: Path, reader: Reader, value: str, ending: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ", ".join(reader.columns)
    key = ", odd INTEGER PRIMARY KEY" if ending else ""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(reader.others)
        connection.execute(f"CREATE TABLE {reader.target} ({names}{key}){ending}")
        values = ", ".join([value] * len(reader.columns)) + (", 1" if ending else "")
        connection.execute(f"INSERT INTO {reader.target} VALUES ({values})")


def test_a_file_that_another_program_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_MS", 1)
    user = tmp_path / "user"
    good_log(user)
    good_database(user)
    path = user / READERS["opencode"].path
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.executescript(READERS["opencode"].others + "CREATE TABLE session (id, title)")
        owner.execute("BEGIN EXCLUSIVE")
        with open_history(tmp_path / "home", user) as history:
            told = history.capture().of("opencode").errors
            assert {hit.session.session_id for hit in history.search("harmless")} == {GOOD, "good"}
            assert "locked" in told[str(path)]
            owner.execute("COMMIT")
            assert history.capture().of("opencode").errors == {}


_CHILD = """
import re, sys
from pathlib import Path
from tests.support.user_homes import open_history

for user in map(Path, sys.argv[1:]):
    with open_history(user / "home", user) as history:
        assert history.capture().of("claude-code").lines == 1
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(int(peak) * 1024)  # what `resource` gives counts the process that started us, too
"""


def test_no_bomb_takes_much_memory(tmp_path: Path) -> None:
    homes = []
    for attack in ("bomb-view", "generated-extra", "large-value"):
        homes.append(tmp_path / attack)
        good_log(homes[-1])
        for reader in READERS.values():
            make_hostile(homes[-1], reader, attack)
    command = [sys.executable, "-c", _CHILD, *map(str, homes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < MOST_BYTES, done.stdout


# ---------------------------------------------------------------------- odd, but no harm


def plain(path: Path, *statements: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def ids(path: Path) -> list[str]:
    with open_foreign(path) as database:
        return [row[0] for row in database.rows("SELECT id FROM session ORDER BY id")]


def test_what_is_never_read_does_no_harm(tmp_path: Path) -> None:
    path = plain(
        tmp_path / "a.db",
        "CREATE TABLE session (id TEXT PRIMARY KEY, data, CHECK (length(data) < 9)) WITHOUT ROWID",
        "CREATE INDEX i ON session (hex(data), id) WHERE length(data) > 1",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
        " SELECT i FROM n",
        "CREATE VIRTUAL TABLE words USING fts5(data)",
        "CREATE TRIGGER t AFTER INSERT ON session BEGIN INSERT INTO words VALUES (new.data); END",
        "INSERT INTO session VALUES ('a', 'xx'), ('b', 'y')",
    )
    assert ids(path) == ["a", "b"]
    with open_foreign(path) as database:
        assert database.count("session") == 2
        assert database.columns("session") == ["id", "data"]
        with pytest.raises(Damaged, match=r"'v' in .* is a view, not a table"):
            list(database.rows("SELECT * FROM v"))
        with pytest.raises(Damaged, match=r"'words' in .* is a virtual table"):
            list(database.rows("SELECT * FROM words"))
        with pytest.raises(Damaged, match="was not read"):
            list(database.rows("SELECT * FROM session ORDER BY (SELECT max(i) FROM v)"))


def test_a_log_without_its_index_is_read(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.db", "PRAGMA journal_mode = WAL", "CREATE TABLE session (id)")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO session VALUES ('in the log')")
        copy = tmp_path / "b" / "b.db"
        copy.parent.mkdir()
        for suffix in ("", "-wal"):
            Path(f"{copy}{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())
    assert ids(copy) == ["in the log"]


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    path = plain(
        tmp_path / "a.db", "CREATE TABLE session (id)", "INSERT INTO session VALUES ('a'), ('b')"
    )
    other = plain(tmp_path / "b.db", "CREATE VIEW session AS SELECT 'other' AS id")
    with open_foreign(path) as database:
        found = database.rows("SELECT id FROM session ORDER BY id")
        assert next(found) == ("a",)
        other.replace(path)
        assert list(found) == [("b",)]
    with pytest.raises(Damaged, match="view"):
        ids(path)


def test_a_schema_that_turns_hostile_under_a_reader_is_refused(tmp_path: Path) -> None:
    """One snapshot is read; whoever opens the file anew is told."""
    path = plain(
        tmp_path / "a.db",
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE session (id)",
        "INSERT INTO session VALUES ('a')",
    )
    with open_foreign(path) as database:
        plain(path, "DROP TABLE session", "CREATE VIEW session AS SELECT 'other' AS id")
        assert list(database.rows("SELECT id FROM session")) == [("a",)]
    with pytest.raises(Damaged, match="view"):
        ids(path)


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_pipe_beside_a_database_is_not_waited_for(tmp_path: Path, suffix: str) -> None:
    path = plain(tmp_path / "a.db", "CREATE TABLE session (id)")
    os.mkfifo(f"{path}{suffix}")
    with pytest.raises(Damaged, match=f"{suffix} is a link or not a regular file"):
        ids(path)


# ---------------------------------------------------------------------- pages without an end


def endless_pages(path: Path) -> Path:
    """Make a table whose inner pages all lead to the same page below: 70 to the 15th rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE session (id)")
        connection.execute("INSERT INTO session VALUES ('x')")
        connection.execute("CREATE TABLE room (a)")
        connection.execute("INSERT INTO room VALUES (zeroblob(512 * 20))")
    data = bytearray(path.read_bytes())
    leaf = bytes(data[512:1024])
    first, last = 4, 18
    for page in (2, *range(first, last)):
        below = first if page == 2 else page + 1
        cells = b"".join(below.to_bytes(4, "big") + b"\x01" for _ in range(70))
        start = 512 - len(cells)
        places = b"".join((start + 5 * n).to_bytes(2, "big") for n in range(70))
        head = b"\x05\0\0" + (70).to_bytes(2, "big") + start.to_bytes(2, "big") + b"\0"
        whole = head + below.to_bytes(4, "big") + places
        data[512 * (page - 1) : 512 * page] = whole + b"\0" * (start - len(whole)) + cells
    data[512 * (last - 1) : 512 * last] = leaf
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "ask", ["SELECT id FROM session", "SELECT count(*), max(id) FROM session", "count"]
)
def test_pages_that_lead_in_circles_come_to_an_end(tmp_path: Path, ask: str) -> None:
    path = endless_pages(tmp_path / "a.db")
    with (
        pytest.raises(Damaged, match="kept a query running for 200,000 steps"),
        open_foreign(path, Budget(60.0, 200_000)) as database,
    ):
        if ask == "count":
            database.count("session")
        for _ in database.rows(ask):
            pass
    with pytest.raises(Damaged, match="skipped"):  # not again and again
        ids(path)


# ---------------------------------------------------------------------- the lock


class Looking(ToyDocuments):
    """Documents during whose reading somebody else wants to write to the store."""

    def __init__(self, database: Path) -> None:
        super().__init__()
        self.database = database
        self.wrote: list[str] = []
        self.waited: list[str] = []

    def find(self, user: UserHome) -> Iterator[Log]:
        for log in super().find(user):
            self._write("find")
            yield log

    def items(self, log: Log) -> Iterator[DocumentItem]:
        for item in super().items(log):
            self._write("items")
            yield item

    def records(self, log: Log, item: str) -> Iterator[tuple[str, bytes]]:
        for record in super().records(log, item):
            self._write("records")
            yield record

    def _write(self, where: str) -> None:
        """Try to write, as another program would that has no patience at all."""
        with closing(sqlite3.connect(self.database, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                self.wrote.append(where)
            except sqlite3.OperationalError:
                self.waited.append(where)


def test_others_can_write_while_a_document_is_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    looking = Looking(world.database)
    world.sources = {"toy-docs": looking}
    for name in ("a", "b"):
        said = {"id": "e", "kind": "prompt", "text": name, "at": 1}
        document = json.dumps({f"{name}1": {"k": said}, f"{name}2": {"k": said}}).encode()
        world.write(document, to=world.home / "docs" / f"{name}.json")
    assert world.capture().of("aider").entries == 4
    assert looking.wrote.count("items") == 4
    assert looking.wrote.count("records") >= 4


STEPS: dict[str, Callable[[History], object]] = {
    "undo": lambda history: history.undo_masks("github-token"),
    "rescan": History.rescan,
    "forget lines": lambda history: history.forget(Query(pattern="duck")),
    "forget a session": lambda history: history.forget(Query(session=("a1",))),
    "plan": lambda history: history.forget(Query(pattern="duck"), dry_run=True),
}


@pytest.mark.parametrize("step", STEPS)
def test_others_can_write_while_a_document_is_made_anew(tmp_path: Path, step: str) -> None:
    """What goes, or is masked, is rebuilt in the order that the original has."""
    token = draw(Random(1), "ghp_[0-9a-zA-Z]{36}")
    says = {"c": "last", "b": f"a duck and {token}", "a": "first"}
    about = {"kind": "prompt", "at": 1}
    told = {key: {"id": key, "text": text, **about} for key, text in says.items()}
    names = {key: {**one, "id": f"{key}2", "names": ["a1"]} for key, one in told.items()}
    path = tmp_path / "docs" / "a.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"a1": told, "a2": names}))
    looking = Looking(tmp_path / "k.db")
    unmasked = as_it_is if step == "rescan" else None
    with masked_history(looking.database, tmp_path, unmasked) as opened:
        History(opened.around, {"toy-docs": looking}).capture()
    looking.wrote.clear()
    with masked_history(looking.database, tmp_path) as opened:
        STEPS[step](History(opened.around, {"toy-docs": looking}))
    assert looking.wrote
    assert looking.waited == []
    assert_sound(looking.database)


def test_a_repair_reads_no_log_under_the_lock(tmp_path: Path) -> None:
    """Finding where logs lie is a look at other programs' files, too."""
    looking = Looking(tmp_path / "k.db")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.json").write_text("{}")
    with masked_history(looking.database, tmp_path) as opened:
        places = Places(opened.around, {"toy-docs": looking})
        row = LogRow(reader="toy-docs", harness="aider", path=str(tmp_path / "docs" / "a.json"))
        found = places.write(lambda tx: places.log(tx, row))
    assert found.path == row.path
    assert (looking.wrote, looking.waited) == (["find"], [])

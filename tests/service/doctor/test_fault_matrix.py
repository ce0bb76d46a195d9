"""Every kind of damage, and what the doctor says about it: the right name, and the right fix."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.histories import claude_log, said
from tests.support.knowledge import ask, assert_sound, do
from threadkeep.base.processes import my_mark
from threadkeep.home.home import Home
from threadkeep.home.observed import install_hook
from threadkeep.service.doctor.doctor import DoctorReport, diagnose, repair
from threadkeep.service.doctor.facts import Finding

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
NODE = (
    "INSERT INTO knowledge_nodes (uuid, content, embed_text, created_at, updated_at)"
    " VALUES ('u', '{\"summary\": \"s\"}', 'some words', 1, 1)"
)


class Ward:
    """A home with a chat and a knowledge store, whose user has a log and a shell with the hook."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.user.mkdir()
        self.folder = folder / "home"
        (self.user / ".zshrc").write_text("alias ll='ls -l'\n")
        claude_log(self.user, said("user", "where does the tide go"))
        home = self.home
        with home.chat() as chat:
            chat.say(chat.create_session(agent="a", model="p/m"), "a question about tides")
        with home.history(user_home=self.user) as history:
            history.capture()
        do(self.knowledge, NODE)
        install_hook(home, "zsh")
        self.files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.looks = {path: path.stat() for path in folder.rglob("*")}

    def heal(self) -> None:
        """Bring back every file as it was, in its place: a new inode would be another log."""
        spool = self.folder / "spool"
        if spool.is_file():
            spool.unlink()
            spool.mkdir()
        for path in self.folder.parent.rglob("*"):
            if path.is_file() and path not in self.files:
                path.unlink()
        for path, data in self.files.items():
            path.write_bytes(data)
        for path, looks in self.looks.items():
            path.chmod(looks.st_mode)
            os.utime(path, ns=(looks.st_atime_ns, looks.st_mtime_ns))

    @property
    def home(self) -> Home:
        return Home(self.folder, environ={"HOME": str(self.user), "SHELL": "/bin/zsh"})

    @property
    def knowledge(self) -> Path:
        return self.folder / "knowledge.db"

    @property
    def chat(self) -> Path:
        return self.folder / "chat.db"

    def examine(self, *, deep: bool = False) -> DoctorReport:
        return diagnose(self.home, version="1.0", deep=deep)

    def found(self, group: str, check: str, *, deep: bool = False) -> Finding:
        findings = self.examine(deep=deep).findings
        return next(one for one in findings if (one.group, one.check) == (group, check))


@pytest.fixture(scope="module")
def one_ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return Ward(tmp_path_factory.mktemp("ward"))


@pytest.fixture
def ward(one_ward: Ward) -> Ward:
    one_ward.heal()
    return one_ward


def test_a_sound_home_has_nothing_wrong(ward: Ward) -> None:
    wrong = [one for one in ward.examine(deep=True).findings if one.level in {"warn", "fail"}]
    assert wrong == []


# ---------------------------------------------------------------------- damage


def tear(path: Path, page: int = 3, size: int = 8192) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    with path.open("r+b") as file:
        file.seek(page * size)
        file.write(os.urandom(size))


def tear_pages(ward: Ward) -> None:
    for page in range(4, 12):
        tear(ward.knowledge, page)


def tear_pages_with_backup(ward: Ward) -> None:
    ward.home.backup(store="knowledge")
    tear_pages(ward)


def tear_header(ward: Ward) -> None:
    tear(ward.knowledge, 0)


def drop_node_words(ward: Ward) -> None:
    do(ward.knowledge, "DELETE FROM knowledge_fts")


def drop_entry_words(ward: Ward) -> None:
    do(ward.knowledge, "DELETE FROM tk_entry_words_docsize")


def open_file(ward: Ward) -> None:
    ward.knowledge.chmod(0o644)


def open_folder(ward: Ward) -> None:
    ward.folder.chmod(0o755)


def lose_hook(ward: Ward) -> None:
    (ward.user / ".zshrc").write_text("alias ll='ls -l'\n")


def lose_hook_file(ward: Ward) -> None:
    (ward.folder / "hooks" / "hook.zsh").unlink()


def age_hook(ward: Ward) -> None:
    (ward.folder / "hooks" / "hook.zsh").write_text("# of an older version\n")


def break_log(ward: Ward) -> None:
    broken = ward.user / ".local" / "share" / "opencode" / "opencode.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no database, whatever its name says\n" * 100)
    with ward.home.history(user_home=ward.user) as history:
        history.capture()


def miss_log(ward: Ward) -> None:
    claude_log(ward.user, said("user", "nobody has read this"), name="made-up-2")


def leave_tickets(ward: Ward) -> None:
    do(
        ward.knowledge,
        "DELETE FROM agentic_enrichment_queue",
        "INSERT INTO agentic_enrichment_queue (session_id, status, locked_at, locked_by,"
        f" enqueued_at, updated_at) SELECT id, 'processing', {NOW - 3_600_000}, 'dead', 1, 1"
        " FROM agentic_sessions LIMIT 1",
    )


def fail_tickets(ward: Ward) -> None:
    leave_tickets(ward)
    do(ward.knowledge, "UPDATE agentic_enrichment_queue SET status = 'failed'")


def newer_knowledge(ward: Ward) -> None:
    do(ward.knowledge, "PRAGMA user_version = 24")


def newer_chat(ward: Ward) -> None:
    do(ward.chat, "PRAGMA user_version = 99")


def foreign_chat(ward: Ward) -> None:
    ward.chat.write_bytes(b"")
    do(ward.chat, "CREATE TABLE theirs (x)")


def break_schema(ward: Ward) -> None:
    """Damage the name of a table: SQLite then quotes bytes that are no UTF-8."""
    data = ward.knowledge.read_bytes()
    row = b"sessionssessions\x03CREATE TABLE sessions"  # name, table, first page, statement
    assert row in data
    damaged = b"\xcc\xccssionssessions\x03CREATE TABLE (essions"
    ward.knowledge.write_bytes(data.replace(row, damaged))


def block_spool(ward: Ward) -> None:
    spool = ward.folder / "spool"
    spool.rmdir()
    spool.write_text("in the way")


def break_config(ward: Ward) -> None:
    (ward.folder / "config.toml").write_text("[capture\n")


def ended_alarm(ward: Ward) -> None:
    do(
        ward.knowledge,
        "INSERT INTO capture_alarms (invariant_id, raised_at, details_json) VALUES ('I-8', 1,"
        ' \'{"source": "shell", "since_ms": 1, "details": "gone"}\')',
    )


def raise_alarm(ward: Ward) -> None:
    ended_alarm(ward)
    fail_probe(ward)


def break_position(ward: Ward) -> None:
    """Damage what capture remembers of where the parser of a log stopped; then the log grows."""
    do(ward.knowledge, "UPDATE tk_logs SET parser = x'93ff00'")
    claude_log(ward.user, said("user", "where does the tide go"), said("assistant", "out", 2))
    with ward.home.history(user_home=ward.user) as history:
        assert history.capture().errors


def fail_probe(ward: Ward) -> None:
    do(
        ward.knowledge,
        f"UPDATE source_health SET probe_ok = 0, probe_last_run_ts = {NOW} WHERE source = 'shell'",
    )


def old_backup(ward: Ward) -> None:
    backup = ward.home.backup(store="knowledge")
    os.utime(backup, (NOW / 1000 - 8 * 86_400,) * 2)


def old_service(ward: Ward, schema: int = 18) -> None:
    do(
        ward.knowledge,
        "INSERT INTO tk_service (id, pid, mark, version, schema, started_at, heartbeat)"
        f" VALUES (1, 7, '{my_mark()}', '0.9', {schema}, 1, 1)",
    )


def behind_service(ward: Ward) -> None:
    old_service(ward, schema=17)


def crash_part(ward: Ward) -> None:
    do(
        ward.knowledge,
        "INSERT INTO tk_service_parts (part, started_at, crashes, last_error, last_crash_at)"
        f" VALUES ('watcher', 1, 3, 'boom', {NOW})",
    )


def no_model(ward: Ward) -> None:
    (ward.folder / "config.toml").write_text('[model]\nurl = "http://127.0.0.1:9/v1"\n')


def drift(ward: Ward) -> None:
    do(ward.knowledge, f"INSERT INTO tk_unknown VALUES ('codex', 'new-thing', 30, 1, {NOW})")


def short_memory(ward: Ward) -> None:
    (ward.user / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    miss_log(ward)


Damage = Callable[[Ward], None]
MATRIX: list[tuple[Damage, str, str, str, str]] = [
    (tear_pages, "knowledge", "integrity", "fail", ".recover"),
    (tear_pages_with_backup, "knowledge", "integrity", "fail", "threadkeep restore last --store"),
    (tear_header, "knowledge", "file", "fail", ".recover"),
    (drop_node_words, "knowledge", "index", "fail", "threadkeep doctor --repair"),
    (drop_entry_words, "knowledge", "index", "fail", "threadkeep doctor --repair"),
    (open_file, "knowledge", "permissions", "warn", "chmod 600 {home}/knowledge.db"),
    (open_folder, "knowledge", "permissions", "warn", "chmod 700 {home}"),
    (lose_hook, "capture", "hooks", "fail", "threadkeep shell-init zsh"),
    (lose_hook_file, "capture", "hooks", "fail", "threadkeep shell-init zsh"),
    (age_hook, "capture", "hooks", "warn", "threadkeep shell-init zsh"),
    (break_log, "capture", "coverage opencode", "fail", "threadkeep capture"),
    (miss_log, "capture", "coverage claude-code", "warn", "threadkeep capture"),
    (leave_tickets, "work", "queue agentic", "warn", "threadkeep enrich"),
    (fail_tickets, "work", "queue agentic", "warn", "threadkeep doctor --repair"),
    (newer_knowledge, "knowledge", "version", "fail", "pip install --upgrade threadkeep"),
    (newer_chat, "chat", "version", "fail", "pip install --upgrade threadkeep"),
    (foreign_chat, "chat", "version", "fail", "mv {home}/chat.db"),
    (break_schema, "knowledge", "file", "fail", "sqlite3 {home}/knowledge.db .recover"),
    (block_spool, "capture", "spool", "fail", "mv {home}/spool {home}/spool.other"),
    (break_config, "machine", "config", "fail", "edit the file"),
    (raise_alarm, "capture", "alarms", "fail", "threadkeep alarms list"),
    (ended_alarm, "capture", "ended alarms", "info", "threadkeep watchdog run"),
    (break_position, "capture", "coverage claude-code", "fail", "threadkeep doctor --repair"),
    (fail_probe, "capture", "I-8", "fail", "threadkeep probe"),
    (old_backup, "knowledge", "backup", "warn", "threadkeep backup --store knowledge"),
    (old_service, "work", "handshake", "warn", "kill 7"),
    (behind_service, "work", "handshake", "fail", "kill 7"),
    (crash_part, "work", "part watcher", "warn", "threadkeep service status"),
    (no_model, "work", "model", "warn", "curl -s http://127.0.0.1:9/v1/models"),
    (drift, "capture", "drift codex", "warn", "pip install --upgrade threadkeep"),
    (short_memory, "capture", "cleanupPeriodDays", "warn", '"cleanupPeriodDays": 3650'),
]


@pytest.mark.parametrize(
    "damage, group, check, level, fix", MATRIX, ids=[row[0].__name__ for row in MATRIX]
)
def test_the_doctor_names_the_damage_and_the_fix(
    ward: Ward, damage: Damage, group: str, check: str, level: str, fix: str
) -> None:
    damage(ward)
    finding = ward.found(group, check)
    assert finding.level == level
    assert fix.format(home=ward.folder) in finding.fix
    assert finding.cause
    assert "\n" not in finding.fix


def test_a_file_without_our_tables_is_looked_at_all_the_same(ward: Ward) -> None:
    """As Hippo alone writes it: nothing was captured into it, and that is no fault of it."""
    with closing(sqlite3.connect(ward.knowledge)) as connection:
        listed = "SELECT type, name FROM sqlite_master WHERE name LIKE 'tk_%' AND type = 'table'"
        tables = [row[1] for row in connection.execute(listed)]
        virtual = [name for name in tables if name in {"tk_entry_words", "tk_thing_words"}]
        connection.execute("PRAGMA foreign_keys = OFF")
        for name in (*virtual, *tables):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
    assert ward.found("capture", "coverage").level == "info"
    wrong = {one.check for one in ward.examine().findings if one.level in {"warn", "fail"}}
    assert wrong == {"cleanupPeriodDays"}  # what is not captured, Claude Code deletes


def test_an_older_file_says_what_brings_it_up(ward: Ward) -> None:
    do(ward.knowledge, "PRAGMA user_version = 17")
    finding = ward.found("knowledge", "version")
    assert (finding.level, finding.fix) == ("warn", "threadkeep knowledge migrate")


# ---------------------------------------------------------------------- what only a deep look sees


def change_block(ward: Ward) -> None:
    do(ward.knowledge, "UPDATE tk_blocks SET digest = zeroblob(16) WHERE id = 1")


def change_message(ward: Ward) -> None:
    with closing(sqlite3.connect(ward.chat)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE chat_parts SET data_json = replace(data_json, 'tide', 'time')")
        connection.commit()


def change_words(ward: Ward) -> None:
    do(ward.knowledge, "UPDATE knowledge_fts SET embed_text = 'other words'")


def tear_words(ward: Ward) -> None:
    do(ward.knowledge, "UPDATE tk_entry_words_data SET block = zeroblob(9) WHERE id > 100")


@pytest.mark.parametrize(
    "damage, store, fix",
    [
        (change_block, "knowledge", ".recover"),
        (change_message, "chat", ".recover"),
        (change_words, "knowledge", "threadkeep doctor --repair"),
        (tear_words, "knowledge", "threadkeep doctor --repair"),
    ],
)
def test_a_deep_check_finds_what_no_page_shows_and_it_is_remembered(
    ward: Ward, damage: Damage, store: str, fix: str
) -> None:
    damage(ward)
    finding = ward.found(store, "deep check", deep=True)
    assert finding.level == "fail"
    assert fix in finding.fix
    assert ward.found(store, "deep check") == finding


def test_a_schema_that_cannot_be_read_is_told_by_a_deep_check(ward: Ward) -> None:
    break_schema(ward)
    assert ward.found("knowledge", "file", deep=True).level == "fail"


def test_the_age_of_a_deep_check_is_shown(ward: Ward) -> None:
    assert "none yet" in ward.found("knowledge", "deep check").what
    assert "sound today" in ward.found("knowledge", "deep check", deep=True).what
    do(ward.knowledge, f"UPDATE tk_deep_checks SET checked_at = {NOW - 40 * DAY}")
    finding = ward.found("knowledge", "deep check")
    assert (finding.level, finding.what) == ("info", "sound 40 days ago")


@pytest.mark.parametrize("damage", [drop_node_words, drop_entry_words, change_words])
def test_indexes_are_built_anew(ward: Ward, damage: Damage) -> None:
    damage(ward)
    assert repair(ward.home).indexed > 0
    assert "index" not in {one.check for one in ward.examine().findings}
    assert ward.found("knowledge", "deep check", deep=True).level == "ok"


def twin_nodes(ward: Ward) -> None:
    link = "INSERT INTO knowledge_node_agentic_sessions SELECT max(n.id), min(s.id)"
    link += " FROM knowledge_nodes AS n, agentic_sessions AS s"
    for uuid in ("one", "two"):
        do(ward.knowledge, NODE.replace("'u'", f"'{uuid}'"), link)


def test_tickets_that_failed_are_tried_again(ward: Ward) -> None:
    fail_tickets(ward)
    assert repair(ward.home).tickets == 1
    assert "queue agentic" not in {one.check for one in ward.examine().findings}


def test_a_log_that_could_not_be_read_on_is(ward: Ward) -> None:
    break_position(ward)
    repair(ward.home)
    assert ward.found("capture", "coverage claude-code").level == "ok"
    roles = "SELECT role FROM tk_entries AS e JOIN tk_sessions AS s ON s.id = e.session"
    roles += " WHERE harness = 'claude-code' ORDER BY role"
    assert ask(ward.knowledge, roles) == [("assistant",), ("user",)]


def test_a_node_that_is_there_twice_is_there_once(ward: Ward) -> None:
    twin_nodes(ward)
    assert "doctor --repair" in ward.found("capture", "I-16").fix
    assert repair(ward.home).twins == 1
    assert "I-16" not in {one.check for one in ward.examine().findings}
    assert ask(ward.knowledge, "SELECT uuid FROM knowledge_nodes ORDER BY id") == [("u",), ("one",)]
    assert_sound(ward.knowledge)


# ---------------------------------------------------------------------- who is in the way

HOLD = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); {}; print()"
HOLD += "; sys.stdout.flush(); sys.stdin.read()"


@contextmanager
def holding(path: Path, *statements: str) -> Iterator[int]:
    """Let another process run statements on a file and keep what they lock."""
    code = HOLD.format("; ".join(f"c.execute({one!r}).fetchall()" for one in statements))
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


def test_who_holds_the_lock_is_named(ward: Ward) -> None:
    with holding(ward.knowledge, "BEGIN IMMEDIATE") as pid:
        finding = ward.found("knowledge", "lock")
    assert finding.level == "warn"
    assert f"process {pid}" in finding.what
    assert finding.fix == f"fuser -v {ward.knowledge}"


def test_who_keeps_the_file_for_itself_is_told(ward: Ward) -> None:
    exclusive = ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "SELECT 1 FROM sessions")
    with holding(ward.knowledge, *exclusive):
        finding = ward.found("knowledge", "file")
    assert (finding.level, finding.fix) == ("fail", f"fuser -v {ward.knowledge}")


def test_who_only_has_it_open_is_no_problem(ward: Ward) -> None:
    with holding(ward.knowledge, "BEGIN", "SELECT count(*) FROM sessions") as pid:
        finding = ward.found("knowledge", "processes")
    assert finding.level == "ok"
    assert f"process {pid}" in finding.what

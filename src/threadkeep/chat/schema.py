"""The schema of a chat file, and how files of other programs become one."""

import re
from collections.abc import Mapping

import msgspec

from threadkeep.base.database import Database
from threadkeep.base.engines import engine_problems
from threadkeep.base.hashes import content_hash
from threadkeep.base.match import Phrase
from threadkeep.base.sql import Engine, load_queries, load_text
from threadkeep.base.sqlite.catalogue import object_names, set_user_version, user_version
from threadkeep.base.sqlite.checks import journal_mode
from threadkeep.base.sqlite.connect import Tuning
from threadkeep.base.sqlite.schema import Schema, SchemaStep, add_missing_columns
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Sql, Tx
from threadkeep.chat.context import ChatContext
from threadkeep.chat.journal import check_row, read_open
from threadkeep.chat.records import UNTITLED, Json, is_time, read_object, usage_in
from threadkeep.chat.rows import COLUMNS, SESSION, TABLES, check_hash, rehash
from threadkeep.chat.runs import prompt_digest
from threadkeep.chat.search import PART_WORDS
from threadkeep.errors import Damaged, SchemaMismatch, ThreadkeepError

# ------------------------------------------------------------------------------
# Checking a chat store: SQLite's own checks, then every row against its content hash.

_FEW = 20
_BATCH = 1000


class VerifyReport(msgspec.Struct):
    """What a check found; `ok` when nothing is wrong."""

    problems: list[str] = msgspec.field(default_factory=list)
    checked: int = 0
    unhashed: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether no problem was found."""
        return not self.problems


def verify(ctx: ChatContext, *, adopt: bool = True) -> VerifyReport:
    """Check the whole store.

    Rows that another program wrote carry no hash; they are counted, and with `adopt` hashed as
    they are now, so that later damage to them is noticed.
    """
    report = check_database(ctx.db)
    if adopt and report.ok and report.unhashed and not ctx.db.read_only:
        with ctx.db.write() as tx:
            for kind in TABLES:
                adopt_unhashed(tx, kind)
    return report


def check_database(database: Database) -> VerifyReport:
    """Check a database that has the chat schema, without changing it."""
    report = VerifyReport()
    try:
        with database.read() as tx:
            report.problems += engine_problems(tx)
            if not report.problems:
                for kind in TABLES:
                    _check_rows(tx, kind, report)
                _check_journal(tx, report)
                _check_recordings(tx, report)
                _check_prompts(tx, report)
        report.problems += [] if report.problems else _index_problems(database)
    except ThreadkeepError as error:
        report.problems.append(str(error))
    return report


def problems_of(database: Database) -> list[str]:
    """Return the problems of a database, for backups to be judged by."""
    return check_database(database).problems


def _select(kind: str, where: str) -> str:
    columns = ", ".join(f't."{name}"' for name in COLUMNS[kind])
    return f'SELECT h.hash, {columns} FROM "{TABLES[kind]}" t {where}'  # noqa: S608


_WITH_HASH = "LEFT JOIN tk_hashes h ON h.kind = '{kind}' AND h.id = t.id"


def _check_rows(tx: Tx, kind: str, report: VerifyReport) -> None:
    for row in tx.each(Sql(_select(kind, _WITH_HASH.format(kind=kind)))):
        report.checked += 1
        if row[0] is None:
            report.unhashed += 1
        elif content_hash(*row[1:]) != row[0]:
            _complain(report, f"the {kind} {from_sql(row[1])!r} has changed since it was written")
    missing = f"""SELECT h.id FROM tk_hashes h LEFT JOIN "{TABLES[kind]}" t ON t.id = h.id
                  WHERE h.kind = '{kind}' AND t.id IS NULL"""  # noqa: S608
    for (row_id,) in tx.all(Sql(missing)):
        _complain(report, f"the {kind} {from_sql(row_id)!r} is missing")


def _check_journal(tx: Tx, report: VerifyReport) -> None:
    stream, seq = "", 0
    sql = (
        "SELECT stream_id, seq, kind, message_id, part_id, data_json, created_at, checksum"
        " FROM chat_events WHERE (stream_id, seq) > (:stream, :seq)"
        " ORDER BY stream_id, seq LIMIT :limit"
    )
    while rows := tx.all(Sql(sql), {"stream": stream, "seq": seq, "limit": _BATCH}):
        for row in rows:
            try:
                check_row(row)
            except Damaged as error:
                _complain(report, error.message)
        stream, seq = rows[-1][0], rows[-1][1]
        report.checked += len(rows)


def _check_recordings(tx: Tx, report: VerifyReport) -> None:
    for message_id, noted in tx.each(Sql("SELECT message_id, open_json FROM tk_recordings")):
        report.checked += 1
        try:
            read_open(noted, from_sql(message_id))
        except Damaged as error:
            _complain(report, error.message)


def _check_prompts(tx: Tx, report: VerifyReport) -> None:
    # The guide suggests this table to everybody: rows of another shape are another program's.
    ours = "SELECT digest, body FROM system_prompts WHERE body IS NOT NULL AND length(digest) = 64"
    for digest, body in tx.each(Sql(ours)):
        report.checked += 1
        if prompt_digest(from_sql(body)) != digest:
            _complain(report, f"the system prompt {digest!r} has changed since it was written")


def _complain(report: VerifyReport, problem: str) -> None:
    if len(report.problems) < _FEW:
        report.problems.append(problem)


def _index_problems(database: Database) -> list[str]:
    """The full-text index must at least answer; its words can always be rebuilt."""
    try:
        with database.read() as tx:
            PART_WORDS.ids(tx, Phrase(("a",)), limit=1)
    except ThreadkeepError as error:
        return [f"the full-text index is damaged: {error.message} (reindex rebuilds it)"]
    return []


def adopt_unhashed(tx: Tx, kind: str) -> int:
    """Hash the rows that have no hash yet; give how many there were."""
    where = _WITH_HASH.format(kind=kind) + " WHERE h.hash IS NULL"
    rows = tx.all(Sql(_select(kind, where)))
    for row in rows:
        params = {"kind": kind, "id": row[1], "hash": content_hash(*row[1:])}
        tx.run("put_hash", params)
    return len(rows)


PACKAGE = "threadkeep.chat"
VERSION = 2
# The guide author's own store numbers its columns with user_version and refuses higher ones.
GUIDE_VERSION = 3

QUERIES = load_queries(PACKAGE)
# With an untrusted schema SQLite 3.38 to 3.40 lets no trigger call a JSON function.
TUNING = Tuning(writer=("PRAGMA trusted_schema = ON",))
_HEAD = load_text(PACKAGE, "head.sql")
_SIDE = load_text(PACKAGE, "side.sql")

_ADDED = {
    "chat_sessions": {"title": "TEXT", "workspace_id": "TEXT", "mode": "TEXT"},
    "chat_messages": {"hidden_at": "INTEGER"},
    "chat_parts": {"continuation_run_id": "TEXT"},
}
_TRIGGERS_OF_2 = ("tk_message_shown", "tk_session_untitled", "tk_session_title_gone")
# The guide suggests this table by name, so another program may have it, with its own idea of it.
_SHARED = {"system_prompts": {"body": "TEXT", "created_at": "INTEGER"}}


def queries(engine: Engine) -> Mapping[str, str]:
    """Return the named queries of a chat store as an engine takes them."""
    return QUERIES if engine == "sqlite" else load_queries(PACKAGE, engine=engine)


def read_version(tx: Tx) -> int | None:
    """Return our version of a file; 0 for the three tables of another program, None for neither."""
    tables, theirs = tx.tables(), user_version(tx)
    if "chat_sessions" in tables and theirs > GUIDE_VERSION:
        msg = f"the file has user_version {theirs}; this program knows up to {GUIDE_VERSION}"
        raise SchemaMismatch(msg, hint="upgrade threadkeep; the file was not touched")
    if "tk_meta" in tables:
        value = tx.value("get_meta", {"key": "schema_version"})
        return None if value is None else _number(value)
    return 0 if set(TABLES.values()) <= tables else None


def _number(value: object) -> int:
    if not re.fullmatch("[0-9]{1,9}", str(value)):
        msg = f"the file says that its schema_version is {value!r}"
        raise Damaged(msg, hint="restore a backup with `threadkeep restore`; keep the file")
    return int(str(value))


def write_version(tx: Tx, version: int) -> None:
    """Write down our version."""
    tx.run("set_meta", {"key": "schema_version", "value": str(version)})


def adopt(tx: Tx) -> None:
    """Make a file with only the three tables one of ours; nothing in them is lost."""
    shared = _tables_in_the_way(tx)
    for table, columns in _ADDED.items():
        add_missing_columns(tx, table, columns)
    _separate_equal_places(tx)
    for statement in split_statements(_HEAD):
        code = _code(statement)
        for kind in ("CREATE INDEX", "CREATE UNIQUE INDEX"):
            if code.startswith(kind):
                tx.run(Sql(code.replace(kind, f"{kind} IF NOT EXISTS", 1)))
    for statement in split_statements(_SIDE):
        if _created_name(statement) not in shared:
            tx.run(Sql(statement))
    for table in shared:
        add_missing_columns(tx, table, _SHARED[table])
    tx.run(Sql("UPDATE chat_sessions SET title = ? WHERE title IS NULL"), (UNTITLED,))
    _fill_hidden(tx)
    _fill_usage(tx)
    for kind in TABLES:
        adopt_unhashed(tx, kind)
    tx.run("mark_all_dirty")
    set_user_version(tx, GUIDE_VERSION)


def _tables_in_the_way(tx: Tx) -> set[str]:
    """Name the tables of ours that the file has already and that can be shared; refuse others."""
    wanted = {_created_name(statement) for statement in split_statements(_SIDE)}
    present = object_names(tx) & wanted
    for name in present:
        if name not in _SHARED or "digest" not in tx.columns(name):
            msg = f"the file has something called {name!r} that another program put there"
            raise SchemaMismatch(msg, hint="rename it, or give another path; nothing was changed")
    return present


def _created_name(statement: str) -> str:
    found = re.match(r"CREATE (?:\w+ )?(?:TABLE|INDEX|TRIGGER) (\w+)", _code(statement))
    return found[1] if found else ""


def _code(statement: str) -> str:
    lines = (line for line in statement.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()


def _separate_equal_places(tx: Tx) -> None:
    """Two parts at one place of a message make the unique index fail: number them again."""
    twice = tx.all(
        Sql(
            'SELECT DISTINCT message_id FROM chat_parts GROUP BY message_id, "index"'
            " HAVING count(*) > 1"
        )
    )
    for (message_id,) in twice:
        rows = tx.all(
            Sql('SELECT id FROM chat_parts WHERE message_id = ? ORDER BY "index", created_at, id'),
            (message_id,),
        )
        for place, (part_id,) in enumerate(rows):
            tx.run(Sql('UPDATE chat_parts SET "index" = ? WHERE id = ?'), (place, part_id))


def _fill_hidden(tx: Tx) -> None:
    """Older files say only in the metadata that a message is hidden."""
    rows = tx.all(
        Sql(
            "SELECT id, metadata_json FROM chat_messages"
            " WHERE hidden_at IS NULL AND metadata_json LIKE '%hidden_at%'"
        )
    )
    for message_id, metadata_json in rows:
        hidden_at = read_object(metadata_json).get("hidden_at")
        if is_time(hidden_at):
            sql = "UPDATE chat_messages SET hidden_at = ? WHERE id = ?"
            tx.run(Sql(sql), (hidden_at, message_id))


def _fill_usage(tx: Tx) -> None:
    """Usage that the other program recorded counts as recorded."""
    rows = tx.all(
        Sql(
            "SELECT id, session_id, metadata_json FROM chat_messages"
            " WHERE role = 'assistant' AND metadata_json LIKE '%usage%'"
        )
    )
    for message_id, session_id, metadata_json in rows:
        usage = read_object(metadata_json).get("usage")
        if isinstance(usage, dict):
            ids = {"message_id": message_id, "session_id": session_id, "cost_usd": 0.0}
            tx.run("put_usage", {**usage_in(usage), **ids})


def settle_titles(tx: Tx) -> None:
    """Give untitled sessions the title that the guide author's store needs, and keep it so."""
    for (session_id,) in tx.all(Sql("SELECT id FROM chat_sessions WHERE title IS NULL")):
        row = tx.one("get_session", {"id": session_id})
        assert row is not None  # noqa: S101  (found just now)
        try:
            check_hash(tx, SESSION, row)
        except Damaged:
            continue  # a new hash would hide the damage; `verify` reports it
        sql = "UPDATE chat_sessions SET title = ? WHERE id = ?"
        tx.run(Sql(sql), (UNTITLED, session_id))
        rehash(tx, SESSION, session_id)
    for statement in split_statements(_SIDE):
        name = _created_name(statement)
        if name in _TRIGGERS_OF_2:
            tx.run(Sql(f"DROP TRIGGER IF EXISTS {name}"))
            tx.run(Sql(statement))


def finish_copy(tx: Tx) -> None:
    """Have the words of a file whose rows came from a server indexed by the next search."""
    tx.run("mark_all_dirty")


def create_script() -> str:
    """Return the SQL of a fresh file."""
    return f"{_HEAD}\n{_SIDE}\nPRAGMA user_version = {GUIDE_VERSION};\n"


SCHEMA = Schema(
    name="chat",
    version=VERSION,
    head=create_script(),
    steps=(
        SchemaStep(1, "0001_adopt", code=adopt),
        SchemaStep(2, "0002_titles", code=settle_titles),
    ),
    read_version=read_version,
    write_version=write_version,
)


# ------------------------------------------------------------------------------
# What is in a file, told without reading it whole.


class ChatFacts(msgspec.Struct, frozen=True):
    """What is in a chat file, and who records into it."""

    schema_version: int | None
    journal_mode: str
    event_log: bool
    sessions: int
    messages: int
    live_recordings: list[Json]


def facts(_: ChatContext, tx: Tx) -> ChatFacts:
    """Report what is in the file, and which recordings are in progress."""
    live = [row for row in tx.all("all_recordings") if tx.is_alive(row[3])]
    return ChatFacts(
        schema_version=VERSION if tx.engine == "postgres" else read_version(tx),
        journal_mode=journal_mode(tx) if tx.engine == "sqlite" else tx.engine,
        event_log=tx.value("get_meta", {"key": "event_log"}) == "on",
        sessions=int(tx.value(Sql("SELECT count(*) FROM chat_sessions"))),
        messages=int(tx.value(Sql("SELECT count(*) FROM chat_messages"))),
        live_recordings=[
            {
                "session_id": from_sql(row[1]),
                "message_id": from_sql(row[0]),
                "process": int(row[3].split(":")[0]),
                "started_at": row[5],
            }
            for row in live
        ],
    )

"""What the versions of Hermes Agent's session file differ in, as data.

A file is judged by its tables, not by its number: Hermes adds columns without a new number, and a
program of any version writes a file of any other. So there are two sorts of answers only: those of
the seed's version 6, for a file that has nothing newer, and those of today.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from threadkeep.base.database import Database
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.catalogue import (
    ColumnFacts,
    column_facts,
    definitions,
    foreign_keys,
    object_names,
    schema_cookie,
)
from threadkeep.base.sqlite.schema import DeclaredColumn, add_missing_columns, declared_columns
from threadkeep.base.sqlite.statements import split_statements
from threadkeep.base.text import Redact, pattern, redact_texts
from threadkeep.base.tx import NoText, Sql, Tx
from threadkeep.errors import SchemaMismatch

PACKAGE: Final = "threadkeep.state"
SCHEMA_VERSION: Final = 6
# The newest that was run beside ours; files of later numbers are judged by their tables as well.
NEWEST_TRIED: Final = 26

# The columns of version 6: from then on every file has them.
SESSIONS_OF_6: Final = (
    *("id", "source", "user_id", "model", "model_config", "system_prompt", "parent_session_id"),
    *("started_at", "ended_at", "end_reason", "message_count", "tool_call_count"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "billing_provider", "billing_base_url", "billing_mode"),
    *("estimated_cost_usd", "actual_cost_usd", "cost_status", "cost_source", "pricing_version"),
    "title",
)
MESSAGES_OF_6: Final = (
    *("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name"),
    *("timestamp", "token_count", "finish_reason", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)


class Answers(NamedTuple):
    """How a store of a version answers where versions differ; one field for each difference."""

    # Turns of a conversation carry their time and what else was stored with them; what a harness
    # put into them is taken out.
    whole_turns: bool
    # A continuation is told from other children by marks, not by comparing times.
    marked_lineage: bool
    # A session that is created again gets what it lacks, and a child what it has from its parent.
    fills_sessions: bool
    # Ensuring a session gives its id.
    ensure_gives_id: bool
    # A list or dict as content is stored in the column itself, behind a NUL.
    content_in_column: bool
    # Usage of a session that is missing makes it, and the first usage that counts tells its route.
    usage_makes_session: bool
    # A session that went on in another when it was compacted takes no more messages.
    closed_by_compression: bool
    # JSON that is given as text is stored as it is, not as JSON of a text.
    json_given_as_text: bool
    # A rewind leaves the messages in their table, marked.
    marked_rewinds: bool
    # A session may be the delegate of one that it has no more as its parent.
    lost_delegates: bool
    # Pruning takes sessions that ended, and none that was merely abandoned.
    prunes_ended_only: bool


V6: Final = Answers(*[False] * len(Answers._fields))
TODAY: Final = Answers(*[True] * len(Answers._fields))


# The tables that every newest file has, and those that are made when they are first needed.
_ALL_TABLES: Final = ("newest.sql", "telegram.sql", "backends.sql")


@cache
def newest_columns() -> Mapping[str, tuple[DeclaredColumn, ...]]:
    """Return the columns of each known table in its newest form."""
    return declared_columns(load_text(PACKAGE, "newest.sql"))


@cache
def known_columns() -> Mapping[str, tuple[DeclaredColumn, ...]]:
    """Return the columns of each known table, also of those that a file has only on demand."""
    scripts = (load_text(PACKAGE, name) for name in _ALL_TABLES)
    return declared_columns("\n".join(scripts))


# ------------------------------------------------------------------------------
# What a session file really looks like: its tables and columns, whatever its number says.
#
# Queries name a table as `full.sessions` where they want it in its newest form: columns that the
# file
# lacks are there with their defaults, a table that it lacks is empty, a system prompt is the text
# itself wherever it is kept, and columns that we do not know come along in `*`.

SIDE_VERSION: Final = 2
MODEL_USAGE: Final = "session_model_usage"
_RELIED_ON: Final = {"sessions": SESSIONS_OF_6, "messages": MESSAGES_OF_6}
_FULL: Final = pattern(r"\bfull\.(\w+)")
_CREATED: Final = pattern(r"CREATE (?:UNIQUE )?(TABLE|INDEX) (\w+)")
# Where a file of ours has no column yet, our side tables know.
_BESIDE: Final = {
    "archived": "coalesce((SELECT CASE WHEN f.archived_at IS NULL THEN 0 ELSE 1 END"
    " FROM tk_flags f WHERE f.session_id = t.id), 0)",
    "pinned": "coalesce((SELECT CASE WHEN f.pinned_at IS NULL THEN 0 ELSE 1 END"
    " FROM tk_flags f WHERE f.session_id = t.id), 0)",
    "title_source": "(SELECT CASE f.title_source WHEN 'auto' THEN 'llm' ELSE f.title_source END"
    " FROM tk_flags f WHERE f.session_id = t.id AND f.titled IS NOT DISTINCT FROM t.title)",
}
# Columns that Hermes adds one by one, when one is first written.
LATER_COLUMNS: Final[Mapping[str, str]] = {
    "compression_recovery_deadline": "REAL",
    "compression_overload_streak": "INTEGER NOT NULL DEFAULT 0",
}
# On a server all tables and columns are there from the beginning. What a verb would have added to a
# file is noted in tk_meta under such a key, so that the store answers as a file would.
_NOTED: Final = "has:"
_NEWEST: Final = "newest"
# In tk_meta: which of these are in columns by now.
_CARRIED: Final = "marks_in_columns"
# Our own tables that queries join; a file that is Hermes's own has none of them.
_OURS: Final = {
    "tk_relations": ("session_id", "parent_id", "kind"),
    "tk_flags": ("session_id", "pinned_at", "archived_at", "title_source"),
}
_PROMPT: Final = (
    "coalesce((SELECT p.prompt FROM system_prompts p WHERE p.hash = t.system_prompt_hash),"
    " t.system_prompt)"
)


class Form(NamedTuple):
    """The tables of a file; `refusal` says why it must not be written, if so."""

    cookie: int | str
    number: int
    tables: Mapping[str, tuple[str, ...]]
    side: bool
    refusal: str | None
    answers: Answers
    tasks: bool  # usage is counted by task: not in versions 20 and 21
    server: bool = False

    @property
    def is_newest(self) -> bool:
        """Tell whether every table and column that we know by name is there."""
        return not any(map(self.missing_columns, newest_columns()))

    def missing_columns(self, table: str) -> list[DeclaredColumn]:
        """Return the known columns of a table that the file lacks."""
        present = self.tables.get(table, ())
        return [column for column in known_columns()[table] if column.name not in present]


def _cookie(tx: Tx) -> int | str:
    """Return what is another one after any change of the form."""
    if tx.engine == "sqlite":
        return schema_cookie(tx)
    return " ".join(str(row[0]).removeprefix(_NOTED) for row in tx.all("noted_forms"))


def survey(tx: Tx) -> Form:
    """Look at a store: a few statements, none of which reads a row of the sessions."""
    if tx.engine == "postgres":
        return _as_noted(str(_cookie(tx)))
    cookie = _cookie(tx)
    kinds = definitions(tx, "table", "view")
    views = [name for name, sql in kinds.items() if not sql.upper().startswith("CREATE TABLE")]
    infos = {table: column_facts(tx, table) for table in known_columns() if table in kinds}
    tables = {table: tuple(column.name for column in facts) for table, facts in infos.items()}
    number = _number(tx) if "schema_version" in kinds else 1
    side = _side_version(tx) if "tk_meta" in kinds else 0
    # An older file lacks columns rightly, and gets them when it is opened for writing.
    reasons = [*_lost(tables)] if number > SCHEMA_VERSION else []
    reasons.extend(_demanding(infos))
    reasons.extend(f"{table} is not an ordinary table" for table in infos if table in views)
    if side > SIDE_VERSION:
        reasons.append(f"a newer threadkeep keeps its own tables there (version {side})")
    newer = number > SCHEMA_VERSION or "active" in tables.get("messages", ())
    return Form(
        cookie=cookie,
        number=number,
        tables=tables,
        side=side > 0,
        refusal="; ".join(reasons) or None,
        answers=TODAY if newer else V6,
        tasks=any(column.name == "task" and column.key for column in infos.get(MODEL_USAGE, ())),
    )


@lru_cache(maxsize=16)
def _as_noted(cookie: str) -> Form:
    """Return the form that a file would have by now; the tables themselves are in their newest."""
    noted = set(cookie.split())
    newest = _NEWEST in noted
    tables: dict[str, tuple[str, ...]] = {"sessions": SESSIONS_OF_6, "messages": MESSAGES_OF_6}
    for table, columns in known_columns().items():
        added = newest and table in newest_columns()
        if added or table in noted:
            old = tables.get(table, ())
            tables[table] = (*old, *(each.name for each in columns if each.name not in old))
    later = [name for name in LATER_COLUMNS if name in noted]
    tables["sessions"] = (*tables["sessions"], *later)
    return Form(
        cookie=cookie,
        number=SCHEMA_VERSION,
        tables=tables,
        side=True,
        refusal=None,
        answers=TODAY if newest else V6,
        tasks=True,
        server=True,
    )


def _number(tx: Tx) -> int:
    value = tx.value(Sql("SELECT max(version) FROM schema_version"))
    return value if isinstance(value, int) else 1


def _side_version(tx: Tx) -> int:
    row = tx.one(Sql("SELECT value FROM tk_meta WHERE key = 'side_version'"))
    return int(row[0]) if row is not None and str(row[0]).isdigit() else 0


def _lost(tables: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Tell what we rely on and the file has no longer."""
    for table, columns in _RELIED_ON.items():
        gone = sorted(set(columns) - set(tables.get(table, ())))
        if gone:
            yield f"{table} has no column {', '.join(gone)}"


def _demanding(infos: Mapping[str, list[ColumnFacts]]) -> Iterator[str]:
    """Tell of columns that every writer must fill and we do not know."""
    for table, facts in infos.items():
        known = {column.name for column in known_columns()[table]}
        for one in facts:
            demands = one.never_null and one.default is None and not one.key
            if demands and one.name not in known:
                yield f"{table} has a column {one.name} that must be filled, and we do not know how"


class Queries(Mapping[str, str]):
    """The named queries of a store, in the words of the file that is open."""

    def __init__(self, plain: Mapping[str, str], schema: str = "main") -> None:
        self._plain = plain
        self.schema = schema  # of the tables themselves: views may have the same names
        self._written: dict[str, str] = {}
        self._form: Form | None = None

    def fit(self, form: Form) -> None:
        """Write queries for a file of this form from now on."""
        self._form = form
        self._written = {}

    def text(self, sql: str) -> str:
        """Put in what `full.…` means in the file that is open."""
        form, schema = self._form, self.schema
        return _FULL.sub(lambda found: _source(form, found[1], schema), sql)

    def __getitem__(self, name: str) -> str:
        """Return the SQL of a query."""
        written = self._written
        sql = written.get(name)
        if sql is None:
            sql = written[name] = self.text(self._plain[name])
        return sql

    def __iter__(self) -> Iterator[str]:
        """Return the names of the queries."""
        return iter(self._plain)

    def __len__(self) -> int:
        """Count the queries."""
        return len(self._plain)


def _source(form: Form | None, table: str, schema: str) -> str:
    """Write a table in its newest form, as something to select from."""
    if form is None:
        return f"{schema}.{table}"
    if table in _OURS:
        return table if form.side else _nothing(_OURS[table])
    present = form.tables.get(table, () if form.server else None)
    if present is None:
        return _nothing(column.name for column in known_columns()[table])
    added = [
        f"{_otherwise(form, column.name, column.default)} AS {column.name}"
        for column in form.missing_columns(table)
    ]
    # While Hermes brings a file further, the table of prompts is there before the column.
    prompt = (
        table == "sessions" and "system_prompt_hash" in present and "system_prompts" in form.tables
    )
    if not added and not prompt and not form.server:
        return f"{schema}.{table}"
    shown = [
        f"{_PROMPT} AS system_prompt" if prompt and name == "system_prompt" else _quoted(name)
        for name in present
    ]
    return f"(SELECT {', '.join([*shown, *added])} FROM {schema}.{table} t)"  # noqa: S608


def _quoted(name: str) -> str:
    """Another program's column may have any name."""
    return 't."{}"'.format(name.replace('"', '""'))


def _nothing(columns: Iterable[str]) -> str:
    return f"(SELECT {', '.join(f'NULL AS {name}' for name in columns)} WHERE false)"


def _otherwise(form: Form, column: str, default: str) -> str:
    if form.side and column in _BESIDE:
        return _BESIDE[column]
    return f"t.{column}" if form.server else default


class Forms:
    """Knows the form of an open file, and looks again when anybody has changed its schema."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._current: Form | None = None
        # The form to which a message was written and looked at, by its cookie.
        self.tried: int | str | None = None

    @property
    def current(self) -> Form:
        """The form as of the last look."""
        if self._current is None:
            msg = "the file has not been read yet"
            raise SchemaMismatch(msg, hint="open the store first")
        return self._current

    def look(self, tx: Tx) -> Form:
        """Return the form of the file as this transaction sees it (2 µs if nothing changed)."""
        cookie = _cookie(tx)
        if self._current is None or cookie != self._current.cookie:
            self.look_again(tx)
        return self.current

    def look_again(self, tx: Tx) -> None:
        """Survey the file, whatever was known of it."""
        self._current = survey(tx)
        self._queries.fit(self._current)

    def note(self, tx: Tx, name: str) -> None:
        """Note on a server what a verb would have added to a file."""
        tx.run("set_meta", {"key": f"{_NOTED}{name}", "value": "1"})
        self.look_again(tx)

    def refuse_unwritable(self, tx: Tx) -> None:
        """Raise if the file must not be written as it is now."""
        refusal = self.look(tx).refusal
        if refusal is not None:
            msg = f"this file can only be read: {refusal}"
            raise SchemaMismatch(msg, hint="upgrade threadkeep; nothing was changed")


# ---------------------------------------------------------------------- widening


def widen(forms: Forms, tx: Tx) -> None:
    """Add every known table, column and index that the file lacks, as Hermes does when it opens.

    Only additions, each with its default: programs of any version continue with the file. The
    number stays, so that a newer Hermes still moves older data in its own way when it comes.
    """
    form = forms.look(tx)
    if form.is_newest:
        return
    if form.server:
        forms.note(tx, _NEWEST)
    else:
        for table, columns in newest_columns().items():
            if table in form.tables:
                declared = {column.name: column.declared for column in columns}
                add_missing_columns(tx, table, declared)
        _create_missing(tx, "newest.sql")
    if MODEL_USAGE not in form.tables:
        _seed_usage(tx, form)
    forms.look_again(tx)
    if has_uncarried(tx, forms.current):
        carry_over(tx, forms.current)


def _create_missing(tx: Tx, script: str) -> None:
    """Make the tables and indexes of a script that a file lacks."""
    present = object_names(tx)
    for statement in split_statements(load_text(PACKAGE, script)):
        found = _CREATED.search(statement)
        if found is not None and found[2] not in present:
            tx.run(Sql(statement))


def add_column(forms: Forms, tx: Tx, column: str) -> None:
    """Add one of the later columns of sessions, unless it is there."""
    if column in forms.current.tables["sessions"]:
        return
    if forms.current.server:
        forms.note(tx, column)
        return
    add_missing_columns(tx, "sessions", {column: LATER_COLUMNS[column]})
    forms.look_again(tx)


def add_backends(forms: Forms, tx: Tx) -> None:
    """Add the table of the processes that serve sessions, unless it is there."""
    if "gateway_heartbeats" in forms.current.tables:
        return
    if forms.current.server:
        forms.note(tx, "gateway_heartbeats")
        return
    _create_missing(tx, "backends.sql")
    forms.look_again(tx)


TOPIC_BINDINGS: Final = "telegram_dm_topic_bindings"


def add_topics(forms: Forms, tx: Tx) -> None:
    """Add the tables of Telegram topics, or bring older ones up to the newest form."""
    if forms.current.server:
        for table in known_columns():
            if table.startswith("telegram_"):
                forms.note(tx, table)
        return
    keys = foreign_keys(tx, TOPIC_BINDINGS)
    stays_behind = any(key.parent == "sessions" and key.on_delete != "CASCADE" for key in keys)
    old = f"{TOPIC_BINDINGS}_old"
    if stays_behind:  # SQLite cannot change a foreign key: the table is made again
        tx.run(Sql(f"ALTER TABLE {TOPIC_BINDINGS} RENAME TO {old}"))
        for (index,) in tx.all("indexes_of", {"table": old}):
            tx.run(Sql(f'DROP INDEX "{index}"'))
    _create_missing(tx, "telegram.sql")
    if stays_behind:
        names = ", ".join(column.name for column in known_columns()[TOPIC_BINDINGS])
        tx.run(Sql(f"INSERT INTO {TOPIC_BINDINGS}({names}) SELECT {names} FROM {old}"))  # noqa: S608
        tx.run(Sql(f"DROP TABLE {old}"))
    forms.look_again(tx)


def _seed_usage(tx: Tx, form: Form) -> None:
    """Write into the new table of usage what was known before there was one."""
    if form.side:
        tx.run("seed_noted_usage")
    tx.run("seed_model_usage")


def has_uncarried(tx: Tx, form: Form) -> bool:
    """Tell whether another program has given a file of ours columns for what we kept beside it."""
    return form.side and bool(_uncarried(tx, form))


def carry_over(tx: Tx, form: Form) -> None:
    """Write into new columns, once each, what our side tables knew before there were any.

    Only what is set: the program that made the columns may have set others meanwhile.
    """
    for column in _uncarried(tx, form):
        source = _BESIDE[column]
        unset = "IS NOT NULL" if column == "title_source" else "<> 0"
        tx.run(
            Sql(
                f"UPDATE sessions AS t SET {column} = {source}"  # noqa: S608
                f" WHERE t.id IN (SELECT session_id FROM tk_flags) AND {source} {unset}"
            )
        )
    carried = " ".join(name for name in _BESIDE if name in form.tables["sessions"])
    tx.run("set_meta", {"key": _CARRIED, "value": carried})


def _uncarried(tx: Tx, form: Form) -> list[str]:
    """Versions brought these columns one by one, so each is carried over when it has come."""
    carried = str(tx.value("get_meta", {"key": _CARRIED}) or "")
    there = form.tables["sessions"]
    return [name for name in _BESIDE if name in there and name not in carried.split()]


# ------------------------------------------------------------------------------
# What every verb of the session store works with, and the names of the contract's columns.

log = logging.getLogger(__name__)

R = TypeVar("R")
Json = dict[str, Any]
# Unix seconds, as the contract keeps them.
Seconds = Callable[[], float]

SESSION_COLUMNS: Final = SESSIONS_OF_6
MESSAGE_COLUMNS: Final = MESSAGES_OF_6


def now() -> float:
    """Return the time, as programs may have replaced `time.time` in their tests."""
    return time.time()


class Notices:
    """Says each thing once per store: the tenth identical warning helps nobody."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, topic: str, message: str, *values: object) -> None:
        """Log a warning, unless this topic had one since it was last settled."""
        if topic not in self._said:
            self._said.add(topic)
            log.warning(message, *values)

    def settle(self, topic: str) -> None:
        """Let the topic be worth a warning again."""
        self._said.discard(topic)


class StateContext(NamedTuple):
    """The surroundings of a verb; clock and redaction are arguments, never globals."""

    db: Database
    clock: Seconds
    notices: Notices
    forms: Forms
    redact: Redact | None = None

    @property
    def form(self) -> Form:
        """What the file looks like."""
        return self.forms.current

    @property
    def side(self) -> bool:
        """Tell whether the file has our side tables: one that is Hermes's own has none."""
        return self.forms.current.side

    def widen(self, tx: Tx) -> None:
        """Give the file every table and column that we know of."""
        widen(self.forms, tx)


def reading(ctx: StateContext, act: Callable[[Tx], R]) -> R:
    """Do something in one read transaction; one damaged text does not hide all others."""
    try:
        with ctx.db.read() as tx:
            ctx.forms.look(tx)
            return act(tx)
    except NoText as error:
        ctx.notices.warn("text", "%s; where it is not text, U+FFFD is read", error)
    with ctx.db.read(lenient=True) as tx:
        ctx.forms.look(tx)
        return act(tx)


def clean(ctx: StateContext, value: Any) -> Any:
    """Pass every text inside a value through the host's redaction hook."""
    return value if ctx.redact is None else redact_texts(ctx.redact, value)

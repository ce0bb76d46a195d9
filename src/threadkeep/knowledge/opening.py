"""How a knowledge store is opened: a file is created, brought up to 18 or 23, or only looked at.

On a server the tables of every version are there from the beginning; see `schema_on_server`.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.engines import Place, Queries, is_url, open_database, prepare
from threadkeep.base.sqlite.connect import Tuning
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound, ReadOnly, SchemaMismatch
from threadkeep.knowledge.records import OrphanRow
from threadkeep.knowledge.schema import (
    NEWEST,
    SCHEMA_VERSION,
    TUNING,
    FittedQueries,
    SchemaFinding,
    explain_version,
    read_version,
    refuse_newer_now,
    schema_on_server,
    seed_health,
    target_of,
    unseeded,
    user_version,
)

log = logging.getLogger(__name__)

Backup = Callable[[Database, str], object]


class UpgradeReport(msgspec.Struct, frozen=True):
    """What opening for writing did to a file: the steps that ran, the rows it set aside."""

    steps: tuple[str, ...] = ()
    set_aside: tuple[OrphanRow, ...] = ()


class Access(msgspec.Struct, frozen=True):
    """What may be done with an open file, and why not more."""

    path: str
    finding: SchemaFinding
    writable: bool
    brought_up: UpgradeReport = UpgradeReport()


class KnowledgeFile(NamedTuple):
    """An open knowledge file."""

    database: Database
    access: Access


def open_knowledge(
    path: Place,
    queries: Queries,
    *,
    read_only: bool = False,
    schema: int = SCHEMA_VERSION,
    budget: float = DEFAULT_BUDGET,
    backup: Backup | None = None,
    clock: Clock = now_ms,
) -> KnowledgeFile:
    """Open a knowledge store for writing if its version allows that, else for reading.

    A new file gets the version `schema`, 18 or 23. An older file is brought up to it first, after
    a backup (`backup` is called with the database and a reason); one that is beyond it stays. One
    of a version that we do not know is only read. Read-only, nothing is brought up. On a server
    nothing of this is asked: the tables of every version are there.
    """
    if is_url(path):
        return _open_on_server(path, queries, budget, clock, read_only=read_only)
    if str(path) == ":memory:":
        msg = "a knowledge store is a file: other connections of it could not see it in memory"
        raise Invalid(msg, hint="give a path in a temporary folder")
    if read_only:
        return _open_to_look(Path(path), queries, budget)
    fitting = _Fitting(queries("sqlite"))
    database = SqliteDatabase(path, fitting.queries, budget=budget, tuning=fitting.tuning())
    try:
        with database.read() as tx:
            version = read_version(tx)
        if version is None or version <= NEWEST:
            done = bring_up(database, backup, clock, schema)
            finding = fitting.fit(database)
            _tell(database.path, done, finding.version)
            return KnowledgeFile(
                database, Access(database.name, finding, writable=True, brought_up=done)
            )
    except BaseException:
        database.close()
        raise
    database.close()
    return _open_to_look(Path(path), queries, budget)


def _open_on_server(
    place: Place, queries: Queries, budget: float, clock: Clock, *, read_only: bool
) -> KnowledgeFile:
    database = open_database(place, "knowledge", queries, budget=budget, read_only=read_only)
    try:
        prepare(database, schema_on_server())
        if not read_only:
            _seed(database, clock())
    except BaseException:
        database.close()
        raise
    access = Access(database.name, explain_version(NEWEST), writable=not read_only)
    return KnowledgeFile(database, access)


def _seed(database: Database, now: int) -> None:
    """Make the rows that each member of a home begins with."""
    with database.read() as tx:
        missing = unseeded(tx)
    if missing:
        database.again(lambda tx: seed_health(tx, sorted(missing), now))


class _Fitting:
    """The queries of an open file, which fit its version, and nobody writes another one by them."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.queries = FittedQueries(queries)
        self._version = NEWEST

    def tuning(self) -> Tuning:
        return TUNING._replace(guard=self._refuse_newer)

    def fit(self, database: Database) -> SchemaFinding:
        with database.read() as tx:
            self._version = user_version(tx)
            self.queries.fit(tx.tables())
        return explain_version(self._version)

    def _refuse_newer(self, tx: Tx) -> None:
        refuse_newer_now(tx, self._version)


def bring_up(
    database: Database, backup: Backup | None, clock: Clock, schema: int = SCHEMA_VERSION
) -> UpgradeReport:
    """Create a schema in an empty file, or bring an older one up to it; then heal the file."""
    from threadkeep.knowledge.migrations import knowledge_schema  # noqa: PLC0415  (not to look)
    from threadkeep.knowledge.repair import (  # noqa: PLC0415
        count_set_aside,
        finish_making,
        heal,
        list_set_aside,
    )

    def save(reason: str) -> object:
        if backup is None:
            from threadkeep.base.sqlite.backup import make_backup  # noqa: PLC0415  (seldom made)

            return make_backup(database, reason=reason, clock=clock)
        return backup(database, reason)

    with database.read() as tx:
        before = count_set_aside(tx)
    finish_making(database, clock)
    with database.read() as tx:
        target = target_of(read_version(tx), schema)
    steps = prepare(database, knowledge_schema(clock, target), save)
    heal(database, clock)
    with database.read() as tx:
        aside = list_set_aside(tx, before + 1)
    return UpgradeReport(tuple(steps), tuple(aside))


def _tell(path: Path, done: UpgradeReport, version: int) -> None:
    if done.steps:
        log.info("%s was brought to schema version %d", path, version)
    if done.set_aside:
        aside = len(done.set_aside)
        log.warning("%s: %d rows without their parent went to tk_orphans", path, aside)


def _open_to_look(path: Path, queries: Queries, budget: float) -> KnowledgeFile:
    fitting = _Fitting(queries("sqlite"))
    tuning = fitting.tuning()
    database = SqliteDatabase(path, fitting.queries, budget=budget, read_only=True, tuning=tuning)
    try:
        finding = find_version(database)
        _refuse_unreadable(database, finding)
        fitting.fit(database)
    except BaseException:
        database.close()
        raise
    if not finding.writable:
        log.warning("%s can only be read: %s", database.name, finding.cause)
    return KnowledgeFile(database, Access(database.name, finding, writable=False))


def _refuse_unreadable(database: Database, finding: SchemaFinding) -> None:
    if not finding.readable:
        msg = f"{database.name} has knowledge schema version {finding.version}: {finding.cause}"
        raise SchemaMismatch(msg, hint=finding.fix)


def find_version(database: Database, path: Path | None = None) -> SchemaFinding:
    """Say what the version of a file means; one that is no knowledge file is refused.

    `path` is the name to call it by, for a copy.
    """
    with database.read() as tx:
        version, number = read_version(tx), user_version(tx)
    if version is None:
        said = f"has user_version {number} and not the tables of one"
        msg = f"{path or database.name} is not a knowledge store: it {said}"
        raise Invalid(msg, hint="give another path; this file was not touched")
    return explain_version(version)


def refuse_write(access: Access) -> None:
    """Raise, with the way out, if an open file may not be written."""
    if access.writable:
        return
    if access.finding.writable:
        raise ReadOnly(f"{access.path} is open read-only", hint="open it for writing")
    msg = f"{access.path} cannot be written: {access.finding.cause}"
    raise SchemaMismatch(msg, hint=access.finding.fix)


# ------------------------------------------------------------------------------
# What the verbs of the knowledge store work with.


class KnowledgeContext(NamedTuple):
    """The open file, and the clock in epoch milliseconds."""

    db: Database
    access: Access
    clock: Callable[[], int]


def need_captured(tx: Tx, access: Access) -> None:
    """Raise if a file is open for reading into which nothing has been captured."""
    if "tk_sessions" in tx.tables():
        return
    how = "`threadkeep capture` does it; --db names the file"
    if not access.finding.writable:
        how = f"`threadkeep import hippo {access.path}` takes over what it has"
    raise NotFound(f"nothing was captured into {access.path} yet", hint=how)

"""A home moved from SQLite files to a PostgreSQL server, or back, with every row compared.

The target is built beside its place, in a home called `NAME_new` or in the folder `NAME_new`, and
renamed at the end: until then nobody sees it. The source is read in one transaction and never
written. An interrupted move continues where it stopped when it is run again; `abandon` removes
it. The mailbox stays files and is not moved.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from threadkeep.base.engines import is_url
from threadkeep.base.files import remove_folder
from threadkeep.base.sqlite.connect import PLAIN, Tuning
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.declaration import Table, declared_by
from threadkeep.base.sqlite.schema import Schema
from threadkeep.base.sqlite.table_copy import SqliteSource, SqliteTarget, columns_in_use
from threadkeep.base.table_copy import CopiedTable, CopySource, CopyTarget, Tell, copy_table
from threadkeep.base.tx import Tx
from threadkeep.chat import schema as chat
from threadkeep.errors import Conflict, Invalid, NotFound, SchemaMismatch, UnsupportedEngine
from threadkeep.knowledge import schema as knowledge
from threadkeep.state import schema as state

if TYPE_CHECKING:
    from threadkeep.base.postgres.pool import HomeAddress
    from threadkeep.base.postgres.table_copy import PostgresCopy
    from threadkeep.home.home import Home

_SUFFIX: Final = "_new"


class _Moved(NamedTuple):
    """A store that is moved: its file, its schema on either side, tables that are made again.

    A file may have one of several schemas; the first that has a place for all rows is made.
    """

    name: str
    file: str
    schemas: tuple[Schema, ...]
    queries: Mapping[str, str]
    on_server: Schema
    tuning: Tuning = PLAIN
    made_again: frozenset[str] = frozenset()
    refill: Callable[[Tx], None] | None = None  # has them made in a file
    # What to do with a file that cannot be copied as it is.
    otherwise: str = "open it once with this program, which brings it up; or keep the file"


_STORES: Final = (
    _Moved(
        *("chat", "chat.db", (chat.SCHEMA,), chat.QUERIES, chat.SCHEMA, chat.TUNING),
        made_again=frozenset({"tk_search_docs", "tk_search_dirty"}),
        refill=chat.finish_copy,
    ),
    _Moved(
        *("state", "state.db", (state.SCHEMA,), state.QUERIES, state.SERVER_SCHEMA, state.TUNING),
        made_again=frozenset({"tk_docs", "tk_dirty"}),
        refill=state.finish_copy,
        otherwise="Hermes Agent has extended the file: write it out with `threadkeep state export"
        " --all -o FILE`, take it out of the home, and read FILE with `threadkeep state import`"
        " when the rest is moved; columns that only newer versions of Hermes have are left out",
    ),
    _Moved(
        *("knowledge", "knowledge.db", knowledge.file_schemas(), knowledge.NO_QUERIES),
        *(knowledge.schema_on_server(), knowledge.TUNING),
        made_again=knowledge.MADE_AGAIN,
        refill=knowledge.want_index,
    ),
)


class MovedStore(msgspec.Struct, frozen=True):
    """What became of a store: its rows, how many were written this time, a digest of each table."""

    store: str
    rows: int
    written: int
    digests: dict[str, str]


class HomeMove(msgspec.Struct, frozen=True):
    """What was moved, and where it is now."""

    source: str
    target: str
    stores: list[MovedStore]


def migrate(home: "Home", target: str, *, source: str | None = None, tell: Tell) -> HomeMove:
    """Move a home: from its files to the URL of a server, or from a URL to a new folder."""
    if source is not None and is_url(source):
        if is_url(target):
            msg = "cannot move a home from one server to another"
            raise Invalid(msg, hint="pg_dump and pg_restore copy a home")
        return _indexed(_to_folder(source, Path(target).absolute(), tell), home, target)
    if not is_url(target):
        msg = f"{target} is not a URL of a server, and the home is in a folder already"
        raise Invalid(msg, hint="give postgresql://user@host/database?home=NAME")
    return _indexed(_to_server(type(home)(source) if source else home, target, tell), home, target)


def _indexed(done: HomeMove, home: "Home", target: str) -> HomeMove:
    """Index the words of what was captured, which are not moved; what cuts this is made up for."""
    if any(one.store == "knowledge" for one in done.stores):
        with type(home)(target, environ=home.environ).history() as history:
            history.reindex()
    return done


def schemas_on_server() -> dict[str, Schema]:
    """Return the schema of each store that can be on a server."""
    return {one.name: one.on_server for one in _STORES}


def read_url(url: str) -> "HomeAddress":
    """Read the URL of a home on a server; say so where its driver is missing."""
    try:
        from threadkeep.base.postgres.pool import HomeAddress
    except ImportError as error:
        msg = f"homes on PostgreSQL need psycopg, which cannot be loaded: {error}"
        raise UnsupportedEngine(msg, hint="pip install 'threadkeep[postgres]'") from error
    return HomeAddress.read(url)


def _to_server(home: "Home", url: str, tell: Tell) -> HomeMove:
    address = read_url(url)
    from threadkeep.base.postgres import schema as server
    from threadkeep.base.postgres.table_copy import PostgresCopy

    folder = home.paths().data
    files = {one.name: home.store_path(one.name) for one in _STORES}
    found = [one for one in _STORES if files[one.name].exists()]
    if not found:
        msg = f"there is no store in {folder} to move"
        raise NotFound(msg, hint="name the folder of a home with --from")
    new = f"{address.home}{_SUFFIX}"
    with ExitStack() as stack:
        connection = stack.enter_context(server.connected(address))
        if server.has_home(connection, address.home):
            msg = f"{address.shown} already exists; nothing was changed"
            raise Conflict(msg, hint="give the home another name: ?home=NAME")
        moved = []
        for one in found:
            source, tables = stack.enter_context(_source_file(one, files[one.name]))
            place = server.StorePlace(new, one.name)
            server.begin_copy(connection, place, one.on_server)
            target = PostgresCopy(address.shown, connection, place)
            moved.append(_copied(one, source, target, tables, tell))
        # As one transaction: what a cut leaves behind are tables that rows can be copied into.
        with connection.transaction():
            for one in found:
                server.finish_copy(connection, server.StorePlace(new, one.name), one.on_server)
            server.rename(connection, new, address.home)
    return HomeMove(str(folder), address.shown, moved)


def _to_folder(url: str, folder: Path, tell: Tell) -> HomeMove:
    address = read_url(url)
    from threadkeep.base.postgres import schema as server
    from threadkeep.base.postgres.table_copy import PostgresCopy

    if folder.exists() and any(folder.iterdir()):
        msg = f"{folder} already exists and is not empty; nothing was changed"
        raise Conflict(msg, hint="name a folder that does not exist yet with --to")
    new = folder.with_name(f"{folder.name}{_SUFFIX}")
    with ExitStack() as stack:
        connection = stack.enter_context(server.connected(address))
        stack.enter_context(server.snapshot(connection))
        moved = []
        for one in _STORES:
            place = server.StorePlace(address.home, one.name)
            version = server.version_of(connection, place)
            if version is None:
                continue
            if version != one.on_server.version:
                msg = f"{address.shown} has version {version} of the {one.name} store"
                raise SchemaMismatch(msg, hint="open it once with this program, or upgrade it")
            server.enter(connection, place)
            source = PostgresCopy(address.shown, connection, place)
            schema = _fitting(one, source)
            file = SqliteDatabase(new / one.file, one.queries, tuning=one.tuning)
            target = SqliteTarget(stack.enter_context(file), schema)
            moved.append(_copied(one, source, target, _copied_tables(one, schema), tell))
            target.finish(one.refill)
        if not moved:
            msg = f"{address.shown} has no store to move"
            raise NotFound(msg, hint="check the name of the home in the URL")
    if folder.exists():
        folder.rmdir()
    new.rename(folder)
    return HomeMove(address.shown, str(folder), moved)


def abandon(target: str) -> bool:
    """Take away what a move that was cut has left at its target; tell whether there was any."""
    if not is_url(target):
        folder = Path(target).absolute()
        new = folder.with_name(f"{folder.name}{_SUFFIX}")
        return remove_folder(new)
    address = read_url(target)
    from threadkeep.base.postgres import schema as server

    new_home = f"{address.home}{_SUFFIX}"
    with server.connected(address) as connection:
        there = server.has_home(connection, new_home)
        server.drop(connection, new_home)
    return there


# ---------------------------------------------------------------------- the two ends


@contextmanager
def _source_file(one: _Moved, path: Path) -> Iterator[tuple[SqliteSource, list[CopiedTable]]]:
    """Read a file as it is at one moment; say which tables of it are copied."""
    file = SqliteDatabase(path, one.queries, read_only=True, tuning=one.tuning)
    with file, file.read() as tx:
        version = one.schemas[0].read_version(tx)
        schema = next((schema for schema in one.schemas if schema.version == version), None)
        if schema is None:
            msg = f"{path} has version {version} of the {one.name} store"
            raise SchemaMismatch(msg, hint=one.otherwise)
        tables = [one for one in _copied_tables(one, schema) if one.name in tx.tables()]
        names = {table.name: set(table.columns) for table in tables}
        lost = columns_in_use(tx, names, leaving_out=one.made_again)
        if lost:
            msg = f"{path} has what PostgreSQL cannot hold: {', '.join(lost)}"
            raise Invalid(msg, hint=one.otherwise)
        yield SqliteSource(str(path), tx), tables


def _fitting(one: _Moved, source: "PostgresCopy") -> Schema:
    """Return the first schema of a file in which everything has a place that is on the server."""
    there = _tables(one.on_server).keys() - one.made_again
    for schema in one.schemas:
        lost = sorted(table for table in there - _tables(schema).keys() if source.has_rows(table))
        if not lost:
            return schema
    msg = f"a file cannot hold what is in {', '.join(lost)} of {source.name}"
    raise Invalid(msg, hint="keep it on the server; nothing was changed")


def _tables(schema: Schema) -> dict[str, Table]:
    return declared_by(schema.head).tables


def _copied_tables(one: _Moved, schema: Schema) -> list[CopiedTable]:
    """Return the tables that both sides have."""
    here, there = _tables(schema), _tables(one.on_server)
    names = sorted(here.keys() & there.keys() - one.made_again)
    return [_as_copied(here[name], there[name]) for name in names]


def _as_copied(here: Table, there: Table) -> CopiedTable:
    common = {column.name for column in there.columns}
    columns = [column for column in here.columns if column.name in common]
    return CopiedTable(
        here.name,
        tuple(column.name for column in columns),
        tuple(column.declared for column in columns),
        here.key,
    )


def _copied(
    one: _Moved, source: CopySource, target: CopyTarget, tables: list[CopiedTable], tell: Tell
) -> MovedStore:
    copies = [copy_table(source, target, table, tell) for table in tables]
    return MovedStore(
        one.name,
        sum(copy.rows for copy in copies),
        sum(copy.written for copy in copies),
        {copy.table: copy.digest for copy in copies if copy.rows},
    )

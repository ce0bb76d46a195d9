"""The schema of a home on PostgreSQL: made, brought up, entered, dropped.

A home has the schema `tk_NAME` with its members, and one schema for each store beside it, since
stores have tables of the same name. Whatever changes them holds an advisory lock and waits five
seconds for others at most; each step is one transaction with its version. Where the login may make
roles, one that nobody logs in with owns the tables, and another has the rights that members get.
"""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors

from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.errors import translate
from threadkeep.base.postgres.pool import Connection, HomeAddress, connect
from threadkeep.base.postgres.tables import (
    Translation,
    filled,
    own_columns,
    statements_of,
    walls,
)
from threadkeep.base.sql import load_text
from threadkeep.base.sqlite.declaration import declared_by
from threadkeep.base.sqlite.schema import Schema
from threadkeep.base.tx import Row
from threadkeep.errors import Busy, Conflict, Invalid, NoStore, NotFound, ReadOnly, SchemaMismatch

PACKAGE: Final = "threadkeep.base.postgres"
_KNOWS_JSON: Final = 16  # the first one with `IS JSON`
_LOCK_TIMEOUT: Final = "5s"
# What a store has besides where an extension is installed: its script, and a table of that.
_OPTIONAL: Final = {"knowledge": ("vector", "tk_vector_rows")}
_UNFINISHED: Final = -1  # the version of a store that is being copied


class StorePlace(NamedTuple):
    """The schemas of a store in a database, by the name of its home."""

    home_name: str
    store: str

    @property
    def home(self) -> str:
        """The schema of what the stores of the home share."""
        return f"tk_{self.home_name}"

    @property
    def schema(self) -> str:
        """The schema of the store's own tables."""
        return f"tk_{self.home_name}_{self.store}"

    @property
    def path(self) -> str:
        """Where the names in queries are looked for."""
        return f"{self.schema},{self.home}"


class Member(NamedTuple):
    """Who a connection writes for, and the scope that its rows get."""

    owner: int
    scope: int


class _Roles(NamedTuple):
    """Who owns the tables of a home and who may use them; None where the login could make none."""

    owner: str | None
    member: str | None


@contextmanager
def connected(address: HomeAddress) -> Iterator[Connection]:
    """Open a connection for upkeep of a home; what goes wrong over it is told in our words."""
    with closing(connect(address, "pg_catalog")) as connection:
        try:
            yield connection
        except psycopg.Error as error:
            raise translate(error, address.shown) from error


# ---------------------------------------------------------------------- making


def prepare(database: PostgresDatabase, schema: Schema) -> list[str]:
    """Make the tables of a store or bring them up; give the names of the steps that ran.

    For a database that is read only nothing is changed: tables that are not there are an error.
    """
    place = StorePlace(database.address.home, schema.name)
    try:
        with closing(database.connect()) as connection:
            if database.read_only:
                _need_store(connection, place, schema)
                ran = []
            else:
                ran = prepare_on(connection, place, schema)
    except psycopg.Error as error:
        raise database.trouble(error) from error
    database.enter = partial(enter, place=place)
    return ran


def _need_store(connection: Connection, place: StorePlace, schema: Schema) -> None:
    version = version_of(connection, place)
    if version is None:
        msg = f"there is no {place.store} store in the home {place.home_name!r} yet"
        raise NoStore(msg, hint="open it for writing to create one")
    _refuse_newer(place, schema, version)
    enter(connection, place)


def prepare_on(connection: Connection, place: StorePlace, schema: Schema) -> list[str]:
    """Do the same over a connection."""
    version = version_of(connection, place)
    ran = [] if version == schema.version else _bring_up(connection, place, schema)
    _add_optional(connection, place)
    _begin(connection, place, schema, enter(connection, place))
    return ran


def _add_optional(connection: Connection, place: StorePlace) -> None:
    """Make what a store has with an extension that was installed since, if the login may."""
    extension, table = _OPTIONAL.get(place.store, ("", ""))
    sql = (
        "SELECT quote_ident(n.nspname) FROM pg_extension AS e"
        " JOIN pg_namespace AS n ON n.oid = e.extnamespace"
        " WHERE e.extname = %s AND to_regclass(%s) IS NULL"
        " AND has_schema_privilege(coalesce((SELECT owner_role FROM {home}.tk_home), session_user),"
        " %s, 'CREATE') AND pg_has_role("
        "coalesce((SELECT owner_role FROM {home}.tk_home), session_user), 'MEMBER')"
    )
    names = (extension, f"{place.schema}.{table}", place.schema)
    if not extension or _ask(connection, place, sql, names) is None:
        return
    with _alone(connection, place):
        _become_owner(connection, place)
        row = _ask(connection, place, sql, names)
        if row is None:  # somebody else was quicker
            return
        text = load_text(f"threadkeep.{place.store}", f"postgres/with_{extension}.sql")
        values = {"own": own_columns(place.home), "home": place.home, extension: row[0]}
        _run(connection, filled(text, values))
        _run(connection, walls([table], place.home))
        role = _roles(connection, place).member
        if role:
            _run(connection, _grants_on_store(place.schema, role))


def version_of(connection: Connection, place: StorePlace) -> int | None:
    """Return the version of a store's tables, None if it has none."""
    if not has_home(connection, place.home_name):
        return None
    sql = "SELECT version FROM {home}.tk_versions WHERE store = %s"
    row = _ask(connection, place, sql, (place.store,))
    return None if row is None else int(row[0])


def _bring_up(connection: Connection, place: StorePlace, schema: Schema) -> list[str]:
    with _alone(connection, place):
        _become(connection, None)
        if not has_home(connection, place.home_name):
            _make_home(connection, place)
        _become_owner(connection, place)
        if version_of(connection, place) is None:
            _make_store(connection, place, schema)
            return []
    ran = []
    for step in schema.steps:
        with _alone(connection, place):
            _become_owner(connection, place)
            version = version_of(connection, place) or 0
            _refuse_unfinished(place, version)
            _refuse_newer(place, schema, version)
            if step.number > version:
                _run(connection, _script_of(place, f"{step.name}.sql"))
                _write_version(connection, place, step.number)
                ran.append(step.name)
    return ran


@contextmanager
def _alone(connection: Connection, place: StorePlace) -> Iterator[None]:
    """Hold the lock of a home for one transaction."""
    try:
        with connection.transaction():
            sql = "SELECT set_config('lock_timeout', %s, true), set_config('search_path', %s, true)"
            connection.execute(sql, (_LOCK_TIMEOUT, place.path))
            sql = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
            connection.execute(sql, (f"threadkeep {place.home}",))
            yield
    except errors.LockNotAvailable as error:
        msg = f"the tables of {place.home_name!r} are in use, or somebody else is changing them"
        raise Busy(msg, hint="try again; nothing was changed") from error


def _refuse_unfinished(place: StorePlace, version: int | None) -> None:
    if version == _UNFINISHED:
        msg = f"a migration into the home {place.home_name!r} is not finished"
        raise Conflict(msg, hint="run it again to finish it, or drop what is there")


def _refuse_newer(place: StorePlace, schema: Schema, version: int) -> None:
    if version > schema.version:
        msg = (
            f"{place.schema} has {schema.name} schema version {version};"
            f" this program knows versions up to {schema.version}"
        )
        raise SchemaMismatch(msg, hint="upgrade threadkeep; nothing was changed")


def _run(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def _write_version(connection: Connection, place: StorePlace, version: int) -> None:
    sql = (
        "INSERT INTO {home}.tk_versions (store, version) VALUES (%s, %s)"
        " ON CONFLICT (store) DO UPDATE SET version = excluded.version RETURNING 1"
    )
    _ask(connection, place, sql, (place.store, version))


def _script_of(place: StorePlace, file: str) -> list[str]:
    """Return the statements of a store's script for PostgreSQL alone; most have none."""
    try:
        text = load_text(f"threadkeep.{place.store}", f"postgres/{file}")
    except FileNotFoundError:
        return []
    return filled(text, {"own": own_columns(place.home), "home": place.home})


# ---------------------------------------------------------------------- a home


def _make_home(connection: Connection, place: StorePlace) -> None:
    roles = _make_roles(connection, place)
    _make_schema(connection, place.home, roles)
    _become(connection, roles.owner)
    names = {"home": place.home}
    for file in ("home.sql", "members.sql", "policies.sql"):
        _run(connection, filled(load_text(PACKAGE, file), names))
    _run(connection, _functions(connection, place))
    put = "INSERT INTO {home}.tk_home (owner_role, member_role) VALUES (%s, %s) RETURNING 1"
    _ask(connection, place, put, roles)
    put = (
        "INSERT INTO {home}.tk_members (id, role, name)"
        " VALUES (%s, coalesce(CAST(%s AS text), session_user), session_user) RETURNING id"
    )
    role = roles.owner if _passes_walls(connection) else None
    _join(connection, place, _ask(connection, place, put, (_random(), role)))
    if roles.member:
        _run(connection, _grants_on_home(place.home, roles.member))


def _join(connection: Connection, place: StorePlace, member: Row | None) -> int:
    """Give a member the scope that its rows get; nobody else sees it."""
    assert member is not None  # noqa: S101  (what was inserted just now)
    sql = "INSERT INTO {home}.tk_scopes (id, owner, project) VALUES (%s, %s, '') RETURNING owner"
    row = _ask(connection, place, sql, (_random(), member[0]))
    return int((row or member)[0])


def add_member(connection: Connection, home: str, login: str, name: str) -> int:
    """Let a login of the server into a home; give the number of the new member."""
    place = StorePlace(home, "")
    with _alone(connection, place):
        _become(connection, None)
        roles = _roles(connection, place)
        if roles.member is None:
            msg = f"the home {home!r} was created by a login without CREATEROLE: it has one member"
            raise Invalid(
                msg, hint="create another home with a login that has CREATEROLE, and migrate"
            )
        connection.execute(f'GRANT "{roles.member}" TO "{login}"'.encode())
        _become(connection, roles.owner)
        sql = "INSERT INTO {home}.tk_members (id, role, name) VALUES (%s, %s, %s) RETURNING id"
        return _join(connection, place, _ask(connection, place, sql, (_random(), login, name)))


def _random() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1


def _make_roles(connection: Connection, place: StorePlace) -> _Roles:
    """Make the two roles of a home, if the login may.

    Roles belong to the server and not to a database, so their names have a random part: members of
    one home get no rights on another of the same name.
    """
    sql = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = session_user"
    if not _value(connection, sql):
        return _Roles(None, None)
    stem = f"{place.home}_{os.urandom(4).hex()}"
    roles = _Roles(f"{stem}_owner", f"{stem}_member")
    for role in roles:
        connection.execute(f'CREATE ROLE "{role}" NOLOGIN'.encode())
        connection.execute(f'GRANT "{role}" TO CURRENT_USER'.encode())
    return roles


def _make_schema(connection: Connection, name: str, roles: _Roles) -> None:
    owner = f' AUTHORIZATION "{roles.owner}"' if roles.owner else ""
    connection.execute(f"CREATE SCHEMA {name}{owner}".encode())


def _functions(connection: Connection, place: StorePlace) -> list[str]:
    older = connection.info.server_version // 10_000 < _KNOWS_JSON
    files = ("functions.sql", *(["functions_of_15.sql"] if older else ["functions_of_16.sql"]))
    path = f"SET LOCAL search_path = {place.home}, pg_catalog"
    return [path, *(one for file in files for one in statements_of(load_text(PACKAGE, file)))]


def _grants_on_home(home: str, role: str) -> Iterator[str]:
    yield f'GRANT USAGE ON SCHEMA {home} TO "{role}"'
    yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {home} FROM PUBLIC"
    yield f'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {home} TO "{role}"'
    yield f'GRANT SELECT ON ALL TABLES IN SCHEMA {home} TO "{role}"'
    tables = ", ".join(f"{home}.{name}" for name in ("tk_scopes", "tk_shares", "tk_begun"))
    yield f'GRANT INSERT, UPDATE, DELETE ON {tables} TO "{role}"'


# ---------------------------------------------------------------------- a store


def _make_store(connection: Connection, place: StorePlace, schema: Schema) -> None:
    made = Translation(declared_by(schema.head), place.home)
    _make_tables(connection, place, made)
    _finish_tables(connection, place, made, schema.version)


def _make_tables(connection: Connection, place: StorePlace, made: Translation) -> None:
    _become(connection, None)
    roles = _roles(connection, place)
    _make_schema(connection, place.schema, roles)
    _become(connection, roles.owner)
    connection.execute(f"SET LOCAL search_path = {place.path}".encode())
    _run(connection, made.tables)


def _finish_tables(
    connection: Connection,
    place: StorePlace,
    made: Translation,
    version: int,
    fill: Sequence[str] = (),
) -> None:
    _run(connection, made.rest)
    _run(connection, _script_of(place, "head.sql"))
    _run(connection, fill)
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
    tables = [row[0] for row in connection.execute(sql, (place.schema,)).fetchall()]
    _run(connection, walls(tables, place.home))
    role = _roles(connection, place).member
    if role:
        _run(connection, _grants_on_store(place.schema, role))
    _write_version(connection, place, version)


def _grants_on_store(schema: str, role: str) -> Iterator[str]:
    yield f'GRANT USAGE ON SCHEMA {schema} TO "{role}"'
    yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC"
    yield f'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO "{role}"'
    yield f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO "{role}"'
    yield f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO "{role}"'


def _roles(connection: Connection, place: StorePlace) -> _Roles:
    row = _ask(connection, place, "SELECT owner_role, member_role FROM {home}.tk_home")
    return _Roles(*(row or (None, None)))


def _become_owner(connection: Connection, place: StorePlace) -> None:
    _become(connection, _roles(connection, place).owner)


def _become(connection: Connection, role: str | None) -> None:
    name = f'"{role}"' if role else "NONE"
    connection.execute(f"SET LOCAL ROLE {name}".encode())


def _passes_walls(connection: Connection) -> bool:
    """Tell whether row-level security does not hold for the login."""
    sql = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user"
    return bool(_value(connection, sql))


def _value(connection: Connection, sql: str) -> Any:
    row = connection.execute(sql.encode()).fetchone()
    return None if row is None else row[0]


def _ask(
    connection: Connection, place: StorePlace, sql: str, params: Sequence[Any] = ()
) -> Row | None:
    """Return the first row of a query in which `{home}` stands for the schema of the home."""
    return connection.execute(sql.format(home=place.home).encode(), params).fetchone()


# ---------------------------------------------------------------------- copying


def begin_copy(connection: Connection, place: StorePlace, schema: Schema) -> None:
    """Make the tables of a store, and no more, for rows to be copied into them.

    Without indexes, triggers and walls this is quick, and nothing is done to the rows. The
    connection is then one of the role that owns them. What an earlier try left is gone on with.
    """
    with _alone(connection, place):
        _become(connection, None)
        if not has_home(connection, place.home_name):
            _make_home(connection, place)
        _become_owner(connection, place)
        version = version_of(connection, place)
        if version is None:
            _make_tables(connection, place, Translation(declared_by(schema.head), place.home))
            _write_version(connection, place, _UNFINISHED)
        elif version != _UNFINISHED:
            msg = f"{place.schema} is a complete store, which no rows can be copied into"
            raise Conflict(msg, hint="`threadkeep migrate --abandon` removes it; then move again")
    enter(connection, place)
    owner = _roles(connection, place).owner
    if owner:
        connection.execute(f'SET ROLE "{owner}"'.encode())


def finish_copy(connection: Connection, place: StorePlace, schema: Schema) -> None:
    """Make the rest of a store whose rows are there, and what it keeps beside them (`fill.sql`)."""
    try:
        _finish_copy(connection, place, schema)
    except psycopg.Error as error:  # rows that refer to nothing, or stand there twice
        raise translate(error, place.schema) from error


def _finish_copy(connection: Connection, place: StorePlace, schema: Schema) -> None:
    with _alone(connection, place):
        restart_numbers(connection, place)
        made = Translation(declared_by(schema.head), place.home)
        fill = _script_of(place, "fill.sql")
        _finish_tables(connection, place, made, schema.version, fill)
        sql = (
            "INSERT INTO {home}.tk_begun (store, owner) VALUES"
            " (%s, CAST(current_setting('tk.owner') AS bigint)) ON CONFLICT DO NOTHING RETURNING 1"
        )
        _ask(connection, place, sql, (place.store,))


def rename(connection: Connection, home: str, name: str) -> None:
    """Give a home another name, in one transaction."""
    old, new = StorePlace(home, ""), StorePlace(name, "")
    with _alone(connection, old):
        _become(connection, None)
        if has_home(connection, name):
            msg = f"there is a home {name!r} in the database already"
            raise Conflict(msg, hint="drop it, or give another name; nothing was changed")
        schemas = [(old.home, new.home)]
        schemas += [
            (StorePlace(home, store).schema, StorePlace(name, store).schema)
            for store in _stores(connection, old)
        ]
        for before, after in schemas:
            connection.execute(f"ALTER SCHEMA {before} RENAME TO {after}".encode())
        _become_owner(connection, new)
        _run(connection, filled(load_text(PACKAGE, "members.sql"), {"home": new.home}))


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """See one moment until the block ends, and write nothing."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def has_home(connection: Connection, home: str) -> bool:
    """Tell whether a database has a home of a name."""
    sql = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
    return connection.execute(sql, (StorePlace(home, "").home,)).fetchone() is not None


def _stores(connection: Connection, place: StorePlace) -> list[str]:
    row = _ask(connection, place, "SELECT array_agg(store) FROM {home}.tk_versions")
    return (row and row[0]) or []


# ---------------------------------------------------------------------- using


def enter(connection: Connection, place: StorePlace) -> Member:
    """Make a connection one of a store: names are looked for there, rows are the member's.

    A login for which row-level security does not hold takes the role that owns the tables.
    """
    roles = _roles(connection, place)
    if roles.owner and _passes_walls(connection):
        connection.execute(f'SET ROLE "{roles.owner}"'.encode())
    sql = (
        "SELECT m.id, s.id, coalesce(has_schema_privilege(to_regnamespace(%s), 'USAGE'), true)"
        " FROM (SELECT {home}.tk_me() AS id) AS m"
        " JOIN {home}.tk_scopes AS s ON s.owner = m.id AND s.project = ''"
    )
    row = _ask(connection, place, sql, (place.schema,))
    if row is None:
        login = _value(connection, "SELECT session_user")
        msg = f"the login {login!r} is not a member of the home {place.home_name!r}"
        raise NotFound(msg, hint="ask a member to add it, or give the URL of another home")
    if not row[2]:  # its tables would only be told to be missing
        msg = f"the login may not use the {place.store} store of the home {place.home_name!r}"
        raise ReadOnly(msg, hint=f"ask its owner: GRANT USAGE ON SCHEMA {place.schema}")
    member = Member(int(row[0]), int(row[1]))
    settings = {
        "tk.owner": member.owner,
        "tk.scope": member.scope,
        "tk.host": socket.gethostname(),
        "tk.user": os.environ.get("USER") or "unknown",
        "search_path": place.path,
    }
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
    return member


def _begin(connection: Connection, place: StorePlace, schema: Schema, member: Member) -> None:
    """Put in the rows that the store begins with for a member who is new to it."""
    names = (place.store, member.owner)
    sql = "SELECT 1 FROM {home}.tk_begun WHERE store = %s AND owner = %s"
    if _ask(connection, place, sql, names):
        return
    with connection.transaction():
        _run(connection, Translation(declared_by(schema.head), place.home).inserts)
        sql = (
            "INSERT INTO {home}.tk_begun (store, owner) VALUES (%s, %s)"
            " ON CONFLICT DO NOTHING RETURNING 1"
        )
        _ask(connection, place, sql, names)


def restart_numbers(connection: Connection, place: StorePlace) -> None:
    """Let the next row of each table have the number behind the largest that the table has."""
    sql = (
        "SELECT t.relname, a.attname, CAST(d.objid AS regclass) FROM pg_depend AS d"
        " JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'"
        " JOIN pg_class AS t ON t.oid = d.refobjid"
        " JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid"
        " WHERE d.deptype = 'a' AND t.relnamespace = CAST(%s AS regnamespace)"
    )
    for table, column, sequence in connection.execute(sql, (place.schema,)).fetchall():
        largest = f'SELECT coalesce(max("{column}"), 0) + 1 FROM {place.schema}."{table}"'  # noqa: S608
        connection.execute(f"SELECT setval(%s, ({largest}), false)".encode(), (sequence,))


def drop(connection: Connection, home: str) -> None:
    """Drop a home with all that is in it."""
    place = StorePlace(home, "")
    with _alone(connection, place):
        if not has_home(connection, home):
            return
        _become(connection, None)
        roles = _roles(connection, place)
        stores = _stores(connection, place)
        schemas = [place.home, *(StorePlace(home, store).schema for store in stores)]
        connection.execute(f"DROP SCHEMA {', '.join(schemas)} CASCADE".encode())
        for role in filter(None, roles):
            connection.execute(f'DROP ROLE "{role}"'.encode())

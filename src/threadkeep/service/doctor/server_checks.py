"""The doctor's checks of a PostgreSQL server and of a home on it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadkeep.base.engines import is_url
from threadkeep.base.sqlite.declaration import declared_by
from threadkeep.home.backups import KINDS
from threadkeep.home.migration import read_url, schemas_on_server
from threadkeep.service.doctor.facts import Finding, Level, ok

if TYPE_CHECKING:
    from threadkeep.base.postgres.health import HomeFacts, ServerFacts, ServerHealth, ServerTable
    from threadkeep.home.home import Home

_SERVER: Final = "server"
_HOME: Final = "home"
_DOC: Final = "docs/postgres.md"
_TESTED: Final = range(13, 19)
_MILLION: Final = 1_000_000
_MUCH_XID: Final = 1_500 * _MILLION  # of 2,147 million
_FULL: Final = 0.9  # of the connections that the server takes
_DEAD: Final = 0.4  # of the rows of a table
_FEW: Final = 10_000
_LONG: Final = 30.0  # seconds
_BEHIND: Final = 60.0
_MUCH_LOG: Final = 10 << 30
# Extensions that help, and what each brings; nothing needs one.
_EXTENSIONS: Final = {
    "pg_stat_statements": "it says which queries are slow; nothing else needs one",
    "vector": "with pgvector, a program that asks a single question does not read all vectors"
    " first, which takes seconds over a slow network if there are more than 20,000",
}


def servers_of(home: "Home", path: str | Path | None = None) -> list[str]:
    """Return the URLs of the servers that stores of a home are on; `path` is another knowledge."""
    stores: dict[str, str | Path | None] = {**dict.fromkeys(KINDS), "knowledge": path}
    places = [home.place(name, given) for name, given in stores.items()]
    return sorted({str(place) for place in places if is_url(place)})


def look_at_server(url: str) -> "ServerHealth":
    """Return what the server of a URL says of itself and of the home there."""
    address = read_url(url)
    from threadkeep.base.postgres.health import look  # noqa: PLC0415  (an extra)
    from threadkeep.base.postgres.schema import connected  # noqa: PLC0415

    schemas = schemas_on_server()
    indexes = {name: [*declared_by(schema.head).indexes] for name, schema in schemas.items()}
    with connected(address) as connection:
        return look(connection, address.home, indexes)


def examine_server(url: str) -> list[Finding]:
    """Look at the server of a URL and at the home there, and say what is wrong and what helps."""
    health = look_at_server(url)
    versions = {name: schema.version for name, schema in schemas_on_server().items()}
    return [*check_server(health), *check_home(health, read_url(url).home, versions)]


def check_server(health: "ServerHealth") -> Iterator[Finding]:
    """Judge a server."""
    server = health.server
    yield _version(server)
    yield from _login(server)
    yield from _extensions(server)
    if not server.is_durable:
        said = "the server may lose what it acknowledged (fsync or full_page_writes is off)"
        fix = "ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET full_page_writes = on"
        cause = "somebody traded safety for speed; a crash can damage every database in it"
        yield Finding(_SERVER, "durability", "fail", said, cause, fix, _DOC)
    if not server.vacuums:
        said = "autovacuum is off: tables only grow"
        cause = "somebody switched it off, maybe for a bulk load"
        yield Finding(
            _SERVER, "autovacuum", "warn", said, cause, "ALTER SYSTEM SET autovacuum = on"
        )
    used = f"{server.connections} of {server.most_connections} connections are in use"
    full = server.connections > _FULL * server.most_connections
    fix = "raise max_connections, or put PgBouncer in front"
    cause = "every process that writes keeps a few open"
    yield (
        Finding(_SERVER, "connections", "warn", used, cause, fix)
        if full
        else ok(_SERVER, "connections", used)
    )
    if not server.is_private:
        said = "the connection is not encrypted"
        cause = "the server has no certificate, or the URL does not ask for it"
        yield Finding(_SERVER, "tls", "warn", said, cause, "add ?sslmode=verify-full to the URL")
    if server.oldest_xid > _MUCH_XID:
        said = (
            f"the oldest transaction is {server.oldest_xid:,} back; at 2 billion the database stops"
        )
        cause = "autovacuum cannot keep up, or an old transaction or slot holds it"
        yield Finding(_SERVER, "wraparound", "fail", said, cause, "VACUUM (FREEZE)", _DOC)
    yield from _running(health)
    yield from _replication(health)


def _version(server: "ServerFacts") -> Finding:
    number = server.version // 10_000
    said = f"PostgreSQL {number}.{server.version % 10_000}"
    if number in _TESTED:
        return ok(_SERVER, "version", said)
    return Finding(_SERVER, "version", "info", said, "it is newer than what was tried")


def _login(server: "ServerFacts") -> Iterator[Finding]:
    if server.passes_walls:
        said = f"row-level security does not hold for the login {server.login}"
        cause = "it is a superuser or has BYPASSRLS; threadkeep gives that up after connecting"
        fix = "connect with a separate login"
        yield Finding(_SERVER, "login", "warn", said, cause, fix, _DOC)
    else:
        yield ok(_SERVER, "login", f"{server.login} is held by row-level security")
    if server.is_replica:
        said = "this is a replica: it can be read only"
        cause = "the URL names a server that follows another"
        yield Finding(_SERVER, "replica", "info", said, cause, "give the primary's URL to write")


def _extensions(server: "ServerFacts") -> Iterator[Finding]:
    for name, brings in _EXTENSIONS.items():
        if name in server.extensions:
            yield ok(_SERVER, "extensions", f"{name} is installed")
            continue
        can = name in server.available
        fix = f"CREATE EXTENSION {name}" if can else f"install {name} on the server, if you want it"
        yield Finding(_SERVER, "extensions", "info", f"{name} is not installed", brings, fix)


def _running(health: "ServerHealth") -> Iterator[Finding]:
    long = [one for one in health.running if one.seconds > _LONG]
    if not long:
        yield ok(_SERVER, "queries", f"nothing has been running for {_LONG:.0f} s")
    for one in long:
        said = f"process {one.pid} is {one.state} for {one.seconds:.0f} s"
        cause = f"it waits for {one.waits_for} others" if one.waits_for else "nothing stops it"
        fix = f"SELECT pg_terminate_backend({one.pid})"
        yield Finding(_SERVER, "queries", "warn", said, cause, fix)
    for slow in health.slow or ():
        said = f"{slow.mean_ms:,.0f} ms on average, {slow.calls:,} times: {slow.query}"
        yield Finding(_SERVER, "slow queries", "info", said, "of all programs in this database")


def _replication(health: "ServerHealth") -> Iterator[Finding]:
    for one in health.replicas:
        said = f"{one.name} is {one.seconds_behind:.0f} s, {one.bytes_behind:,} bytes behind"
        late = one.seconds_behind > _BEHIND
        cause = "its disk or the network cannot keep up" if late else ""
        yield Finding(_SERVER, "replication", "warn" if late else "ok", said, cause)
    for slot in health.slots:
        if not slot.active and slot.bytes_kept > _MUCH_LOG:
            said = f"the slot {slot.name} keeps {slot.bytes_kept:,} bytes of log that nothing reads"
            fix = f"SELECT pg_drop_replication_slot('{slot.name}')"
            cause = "the replica it was made for is gone"
            yield Finding(_SERVER, "replication", "warn", said, cause, fix)
    if health.seconds_behind > _BEHIND:
        said = f"this replica is {health.seconds_behind:.0f} s behind"
        yield Finding(_SERVER, "replication", "warn", said, "the primary writes faster, or is away")


def check_home(health: "ServerHealth", name: str, versions: Mapping[str, int]) -> Iterator[Finding]:
    """Judge a home on a server."""
    home = health.home
    if home is None:
        fix = "open it for writing, or `threadkeep migrate --to` its URL"
        cause = "nobody wrote into it yet, or the URL names another"
        level: Level = "info" if health.server.makes_schemas else "fail"
        if not health.server.makes_schemas:
            cause = f"the login {health.server.login} may not make schemas in this database"
            fix = f'GRANT CREATE ON DATABASE … TO "{health.server.login}"'
        yield Finding(_HOME, "home", level, f"there is no home {name!r}", cause, fix, _DOC)
        return
    size = sum(table.bytes for table in home.tables) >> 20
    members = f"{home.members} member{'' if home.members == 1 else 's'}"
    yield ok(_HOME, "home", f"{name}: {size:,} MB, {members}")
    for store, number in sorted(home.versions.items()):
        yield _store(store, number, versions)
    if not home.has_roles:
        said = "the home has one member, and can have no others"
        cause = "the login that made it may make no roles (CREATEROLE)"
        yield Finding(_HOME, "roles", "info", said, cause, "", _DOC)
    yield from _tables(home)
    if home.lost_indexes:
        said = f"indexes are missing: {', '.join(home.lost_indexes)}"
        cause = "somebody dropped them, or creating them was interrupted"
        fix = "create them again; docs/postgres.md says how to see their statements"
        yield Finding(_HOME, "indexes", "warn", said, cause, fix, _DOC)
    else:
        yield ok(_HOME, "indexes", "every index is there")


def _store(store: str, number: int, versions: Mapping[str, int]) -> Finding:
    wanted = versions.get(store, number)
    if number < 0:
        said = f"a move of the {store} store is unfinished"
        fix = "run `threadkeep migrate` again, or with --abandon"
        return Finding(_HOME, store, "warn", said, "it was cut", fix, _DOC)
    if number == wanted:
        return ok(_HOME, store, f"the {store} store has version {number}")
    if number < wanted:
        said = f"the {store} store has version {number}, of {wanted}"
        return Finding(_HOME, store, "info", said, "nobody opened it since", "open it for writing")
    said = f"the {store} store has version {number}; this program knows {wanted}"
    return Finding(_HOME, store, "fail", said, "a newer threadkeep wrote it", "upgrade threadkeep")


def _tables(home: "HomeFacts") -> Iterator[Finding]:
    plain = [table for table in home.tables if table.kind in "rp"]
    for table in home.tables:
        if table.kind not in "rp":
            said = f"{_named(table)} is a view, which row-level security does not hold"
            cause = "we make none: somebody else did"
            yield Finding(_HOME, "views", "warn", said, cause, f"DROP VIEW {_named(table)}", _DOC)
    open_ = [_named(table) for table in plain if not table.has_walls]
    if open_:
        said = f"row-level security is off: {', '.join(open_)}"
        cause = "somebody switched it off"
        fix = f"ALTER TABLE {open_[0]} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        yield Finding(_HOME, "walls", "fail", said, cause, fix, _DOC)
    hidden = [_named(table) for table in plain if not table.readable]
    if hidden:
        said = f"{len(hidden)} tables cannot be read by this login, {hidden[0]} among them"
        cause = "it lacks the rights that members have"
        yield Finding(_HOME, "privileges", "fail", said, cause, "add it as a member", _DOC)
    bloated = [t for t in plain if t.dead > _FEW and t.dead > _DEAD * (t.live + t.dead)]
    for table in bloated:
        said = f"{_named(table)} has {table.dead:,} dead rows beside {table.live:,}"
        cause = "autovacuum cannot keep up, or an old transaction holds it"
        yield Finding(_HOME, "bloat", "warn", said, cause, f"VACUUM ANALYZE {_named(table)}")
    blind = [table for table in plain if table.live > _FEW and not table.is_analyzed]
    for table in blind:
        said = f"nothing is known of the {table.live:,} rows of {_named(table)}: plans are guesses"
        yield Finding(_HOME, "statistics", "warn", said, "", f"ANALYZE {_named(table)}")
    if not bloated and not blind and not open_ and not hidden:
        yield ok(
            _HOME,
            "tables",
            f"{len(plain)} tables: row-level security, rights and disk space are fine",
        )


def _named(table: "ServerTable") -> str:
    return f"{table.schema}.{table.name}"

"""What a server says of itself and of a home on it; nothing is judged here, nothing is written."""

from typing import Any, Final, TypeVar

import msgspec
from psycopg import errors

from threadkeep.base.postgres.pool import Connection
from threadkeep.base.postgres.schema import StorePlace, has_home

T = TypeVar("T", bound=msgspec.Struct)

_SERVER: Final = """
SELECT current_setting('server_version_num')::int AS version, r.rolname AS login,
  r.rolsuper OR r.rolbypassrls AS passes_walls, r.rolcreaterole OR r.rolsuper AS makes_roles,
  has_database_privilege(current_database(), 'CREATE') AS makes_schemas,
  pg_is_in_recovery() AS is_replica,
  current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AS is_durable,
  current_setting('autovacuum') = 'on' AS vacuums,
  current_setting('max_connections')::int AS most_connections,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
    OR inet_server_addr() IS NULL AS is_private,
  (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS oldest_xid,
  coalesce((SELECT array_agg(extname::text) FROM pg_extension), '{}') AS extensions,
  coalesce((SELECT array_agg(name::text) FROM pg_available_extensions), '{}') AS available
FROM pg_roles AS r WHERE r.rolname = session_user"""
_RUNNING: Final = """
SELECT pid, state, coalesce(extract(epoch FROM now() - CASE state WHEN 'active' THEN query_start
  ELSE state_change END), 0)::float8 AS seconds, cardinality(pg_blocking_pids(pid)) AS waits_for
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND state IN ('active', 'idle in transaction') ORDER BY 3 DESC LIMIT 50"""
_REPLICAS: Final = """
SELECT coalesce(nullif(application_name, ''), client_addr::text, pid::text) AS name,
  coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint AS bytes_behind,
  coalesce(extract(epoch FROM replay_lag), 0)::float8 AS seconds_behind FROM pg_stat_replication"""
_BEHIND: Final = """
SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
  ELSE coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 0) END::float8"""
_SLOTS: Final = """
SELECT slot_name::text AS name, active,
  coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS bytes_kept
FROM pg_replication_slots"""
_TABLES: Final = """
SELECT n.nspname AS schema, c.relname AS name, pg_total_relation_size(c.oid) AS bytes,
  coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
  coalesce(s.last_analyze, s.last_autoanalyze) IS NOT NULL AS is_analyzed,
  c.relkind::text AS kind, c.relrowsecurity AND c.relforcerowsecurity AS has_walls,
  has_table_privilege(c.oid, 'SELECT') AS readable,
  coalesce(s.seq_tup_read, 0) AS read_by_scan
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE n.nspname = ANY (string_to_array(%s, ','))
  AND c.relkind IN ('r', 'p', 'm', 'v') ORDER BY 1, 2"""
_INDEXES: Final = """
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = to_regnamespace(%s) AND i.indisvalid"""
_SLOW: Final = """
SELECT left(regexp_replace(query, '\\s+', ' ', 'g'), 120) AS query, calls,
  mean_exec_time::float8 AS mean_ms FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND mean_exec_time > %s ORDER BY total_exec_time DESC LIMIT 5"""
_SLOW_MS: Final = 500


class ServerFacts(msgspec.Struct, frozen=True):
    """A server and the login that asks."""

    version: int
    login: str
    passes_walls: bool  # row-level security does not hold for it
    makes_roles: bool
    makes_schemas: bool
    is_replica: bool
    is_durable: bool
    vacuums: bool
    most_connections: int
    connections: int
    is_private: bool  # over TLS, or a socket of the machine
    oldest_xid: int
    extensions: list[str]
    available: list[str]


class RunningQuery(msgspec.Struct, frozen=True):
    """What a connection does, and for how long."""

    pid: int
    state: str
    seconds: float
    waits_for: int


class ReplicaFacts(msgspec.Struct, frozen=True):
    """A server that follows this one."""

    name: str
    bytes_behind: int
    seconds_behind: float


class SlotFacts(msgspec.Struct, frozen=True):
    """What a follower, there or not, makes the server keep."""

    name: str
    active: bool
    bytes_kept: int


class ServerTable(msgspec.Struct, frozen=True):
    """A table of a home."""

    schema: str
    name: str
    bytes: int
    live: int
    dead: int
    is_analyzed: bool
    kind: str
    has_walls: bool
    readable: bool
    read_by_scan: int


class SlowQuery(msgspec.Struct, frozen=True):
    """A query that takes long whenever it is run."""

    query: str
    calls: int
    mean_ms: float


class HomeFacts(msgspec.Struct, frozen=True):
    """A home, as far as it is there; `versions` has a number below 0 for a half-done move."""

    versions: dict[str, int]
    members: int
    has_roles: bool
    tables: list[ServerTable]
    lost_indexes: list[str]


class ServerHealth(msgspec.Struct, frozen=True):
    """All of it; None where there is no home, or where the login may not ask."""

    server: ServerFacts
    running: list[RunningQuery]
    replicas: list[ReplicaFacts]
    slots: list[SlotFacts]
    seconds_behind: float
    home: HomeFacts | None
    slow: list[SlowQuery] | None


def look(connection: Connection, home: str, indexes: dict[str, list[str]]) -> ServerHealth:
    """Look at a server and a home; `indexes` names those that each store should have."""
    (server,) = _rows(connection, _SERVER, ServerFacts)
    slow = None
    if "pg_stat_statements" in server.extensions:
        try:
            slow = _rows(connection, _SLOW, SlowQuery, (_SLOW_MS,))
        except (errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState):
            slow = None
    behind = connection.execute(_BEHIND).fetchone() if server.is_replica else None
    return ServerHealth(
        server,
        _rows(connection, _RUNNING, RunningQuery),
        [] if server.is_replica else _rows(connection, _REPLICAS, ReplicaFacts),
        [] if server.is_replica else _rows(connection, _SLOTS, SlotFacts),
        float(behind[0]) if behind else 0.0,
        _home(connection, home, indexes) if has_home(connection, home) else None,
        slow,
    )


def _home(connection: Connection, home: str, indexes: dict[str, list[str]]) -> HomeFacts:
    schema = StorePlace(home, "").home
    asked = (
        "SELECT (SELECT coalesce(json_object_agg(store, version), '{}')::text"  # noqa: S608
        f" FROM {schema}.tk_versions),"
        f" (SELECT count(*) FROM {schema}.tk_members WHERE revoked_at IS NULL),"
        f" (SELECT member_role IS NOT NULL FROM {schema}.tk_home)"
    )
    versions, members, has_roles = connection.execute(asked.encode()).fetchone() or ("{}", 0, False)
    stores: dict[str, int] = msgspec.json.decode(versions, type=dict[str, int])
    places = {store: StorePlace(home, store).schema for store in stores}
    lost = [
        f"{store}.{name}"
        for store, number in stores.items()
        if number >= 0
        for name in sorted(set(indexes.get(store, ())) - _indexes(connection, places[store]))
    ]
    tables = _rows(connection, _TABLES, ServerTable, (",".join(places.values()),))
    return HomeFacts(stores, int(members), bool(has_roles), tables, lost)


def _indexes(connection: Connection, schema: str) -> set[str]:
    return {str(row[0]) for row in connection.execute(_INDEXES, (schema,)).fetchall()}


def _rows(connection: Connection, sql: str, kind: type[T], params: tuple[Any, ...] = ()) -> list[T]:
    cursor = connection.execute(sql.encode(), params or None)
    names = [column.name for column in cursor.description or ()]
    rows = (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return [msgspec.convert(row, kind, strict=False) for row in rows]

"""How a home fares in numbers, in the text format that Prometheus and its kin scrape."""

from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.errors import ThreadkeepError
from threadkeep.home.migration import read_url
from threadkeep.service.doctor.server_checks import look_at_server, servers_of
from threadkeep.service.health import HomeHealth, health_of

if TYPE_CHECKING:
    from threadkeep.base.postgres.health import ServerHealth
    from threadkeep.home.home import Home

_MS: Final = 1000.0
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """A number, of what, and what tells it from others of the same name."""

    name: str
    help: str
    value: float | None  # None: it is not known, and not said
    labels: tuple[tuple[str, str], ...] = ()


def metrics_of(home: "Home", path: str | Path | None = None) -> str:
    """Return the numbers of a home, and of the server that it is on; nothing is changed."""
    samples = [*_of_home(home, path), *_of_servers(home, path)]
    lines: list[str] = []
    for name in dict.fromkeys(one.name for one in samples):
        same = [one for one in samples if one.name == name and one.value is not None]
        if same:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [
                f"# HELP threadkeep_{name} {same[0].help}",
                f"# TYPE threadkeep_{name} {kind}",
            ]
            lines += map(_line, same)
    return "\n".join([*lines, ""])


def _line(sample: Sample) -> str:
    told = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in sample.labels)
    labels = f"{{{told}}}" if told else ""
    return f"threadkeep_{sample.name}{labels} {sample.value!r}"


def _of_home(home: "Home", path: str | Path | None) -> Iterator[Sample]:
    status = home.status(knowledge_path=path)
    health = health_of(home, path, status)
    yield Sample("info", "The version of threadkeep.", 1, (("version", version("threadkeep")),))
    said = "Whether `threadkeep serve` runs for this home."
    yield Sample("serving", said, int(health.serving.running))
    for row in health.stores:
        of = (("store", row.name),)
        if not row.exists:
            continue
        yield Sample("store_up", "Whether a store can be read.", int(not row.problem), of)
        yield Sample("store_bytes", "The size of a store.", row.bytes, of)
        yield Sample("store_wal_bytes", "The size of its write-ahead log.", row.wal_bytes, of)
        at = row.last_backup and datetime.fromisoformat(row.last_backup).timestamp()
        said = "When a store was last backed up, in seconds of the epoch."
        yield Sample("store_backup_timestamp_seconds", said, at or None, of)
    for name, one in (
        ("knowledge", status.knowledge),
        ("chat", status.chat),
        ("state", status.state),
    ):
        if one.exists and not one.problem:
            of = (("store", name),)
            yield Sample("sessions", "Sessions in a store.", one.sessions, of)
            yield Sample("messages", "Messages in a store.", one.messages, of)
    said = "Replies that are being recorded now."
    yield Sample("recordings", said, len(status.chat.live_recordings))
    yield from _of_capture(health)


def _of_capture(health: HomeHealth) -> Iterator[Sample]:
    active = [one for one in health.alarms if one.state == "active"]
    yield Sample("alarms", "Alarms that go on and that nobody has seen.", len(active))
    yield Sample("tickets_waiting", "Rows that wait to be learned from.", health.waiting)
    yield Sample("tickets_failed", "Rows that could not be learned from.", health.failed)
    for row in health.sources:
        of = (("source", row.source),)
        said = "When something of a source was last captured, in seconds of the epoch."
        at = row.last_event and row.last_event / _MS
        yield Sample("source_event_timestamp_seconds", said, at, of)
        said = "How often a source failed since its last success."
        yield Sample("source_failures", said, row.failures, of)
        yield Sample("source_events_hour", "What came of a source in an hour.", row.last_hour, of)
    for drop in health.drops:
        told = (("source", drop.source), ("reason", drop.reason))
        yield Sample("dropped_total", "What did not become a row.", drop.count, told)


# ---------------------------------------------------------------------- PostgreSQL


def _of_servers(home: "Home", path: str | Path | None) -> Iterator[Sample]:
    said = "Whether the server of a home answers."
    for url in servers_of(home, path):
        of = (("home", read_url(url).home),)
        try:
            health = look_at_server(url)
        except ThreadkeepError:
            yield Sample("server_up", said, 0, of)
        else:
            yield Sample("server_up", said, 1, of)
            yield from _of_server(health, of)


def _of_server(health: "ServerHealth", of: tuple[tuple[str, str], ...]) -> Iterator[Sample]:
    server = health.server
    yield Sample("server_connections", "Connections to the server.", server.connections, of)
    said = "Connections that the server accepts."
    yield Sample("server_connections_limit", said, server.most_connections, of)
    said = "Transactions since the oldest one; at 2 billion the database stops."
    yield Sample("server_oldest_transaction", said, server.oldest_xid, of)
    waiting = sum(1 for one in health.running if one.waits_for)
    yield Sample("server_queries_waiting", "Queries that wait for others.", waiting, of)
    longest = max((one.seconds for one in health.running), default=0.0)
    said = "How long the longest query or idle transaction has been running."
    yield Sample("server_longest_query_seconds", said, longest, of)
    said = "How far a replica is behind."
    for one in health.replicas:
        told = (*of, ("replica", one.name))
        yield Sample("server_replica_behind_seconds", said, one.seconds_behind, told)
        yield Sample("server_replica_behind_bytes", said, one.bytes_behind, told)
    for table in health.home.tables if health.home else ():
        told = (*of, ("table", f"{table.schema}.{table.name}"))
        yield Sample("table_bytes", "The size of a table with its indexes.", table.bytes, told)
        yield Sample("table_rows", "Rows of a table, about.", table.live, told)
        yield Sample("table_dead_rows", "Rows that wait for a vacuum.", table.dead, told)

"""A user's home with logs and a knowledge store, captured by a new process each time."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.knowledge import NOW, everything
from tests.support.toy_sources import ToyDocuments, ToyLines, stamp_back
from threadkeep.base.block import Stored, read_list
from threadkeep.base.engines import Place, is_url
from threadkeep.base.postings import Postings
from threadkeep.base.tx import Sql, Tx
from threadkeep.capture.capture import ALL, History
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.intake import CaptureContext, MachineUser, Mask
from threadkeep.capture.records import AgentReport, CaptureReport, Exclusion, Watcher, silent
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.records import Source, UserHome
from threadkeep.testing import KnowledgeFactory

# Times of writing, places and row numbers differ between two stores that hold the same.
_DIFFERING = {
    "tk_logs": {"id", "path", "device", "inode", "ctime_ns", "captured_at", "checked_at", "host"},
    "tk_sessions": {"id", "hostname", "username"},
    "agentic_sessions": {"id", "source_file"},
    "source_health": {"id", "events_last_1h", "events_last_24h"},
    "claude_session_offsets": {"path", "inode", "device"},
}
_JOINED = {
    "log_blocks": "SELECT l.session_id, l.harness, b.first_line, b.lines, k.digest, k.data FROM "
    "tk_log_blocks b JOIN tk_logs l ON l.id = b.log_id JOIN tk_blocks k ON k.id = b.block_id",
    "blocks": "SELECT digest, size, codec, data FROM tk_blocks",
    "records": "SELECT l.item, r.key, r.digest, r.line FROM tk_records r "
    "JOIN tk_logs l ON l.id = r.log_id",
    "entries": "SELECT s.session_id, e.key, l.session_id, e.line, e.part, e.role, e.kind, e.at, "
    "e.tool, e.error, e.hash FROM tk_entries e JOIN tk_sessions s ON s.id = e.session "
    "JOIN tk_logs l ON l.id = e.log_id",
    "usage": "SELECT u.key, s.session_id, u.at, u.model, u.input, u.output, u.final "
    "FROM tk_usage u JOIN tk_sessions s ON s.id = u.session",
    "unknown": "SELECT harness, kind, count, last_seen FROM tk_unknown",
    "tickets": "SELECT a.session_id, a.segment_index, q.status, q.retry_count, q.enqueued_at, "
    "q.updated_at FROM agentic_enrichment_queue q JOIN agentic_sessions a ON a.id = q.session_id",
    "events": "SELECT envelope_id, timestamp, command, stdout, exit_code, duration_ms, cwd, "
    "git_branch, source_kind, tool_name, redaction_count FROM events",
}
# Only a store at 23, as all on servers are, has rows for memories.
_SOME = {"source_health": "WHERE source NOT LIKE '%auto-memory%'"}
_OF_SERVERS = {"tk_owner", "tk_scope"}
_WHOLE = ("tk_logs", "tk_sessions", "agentic_sessions", "source_health", "claude_session_offsets")


@cache
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.db"
        KnowledgeStore.open(path, clock=lambda: NOW).close()
        return path.read_bytes()


def as_it_is(lines: bytes, _before: bytes, _after: bytes) -> MaskedBlock:
    """Mask nothing."""
    return MaskedBlock(lines)


def _postings(tx: Tx, index: str) -> Iterator[tuple[str, int, int]]:
    """Read every word of an index in plain rows, with its document and its place there."""
    words = Postings(index)
    for row in words.rows(tx, f"SELECT {Stored.columns} FROM {{index}}_blocks"):
        block = Stored(row)
        sql = "SELECT term, n, docs, pos FROM {index}_postings WHERE block = :block"
        for term, *packed in words.rows(tx, sql, {"block": block.block}):
            found = read_list(*packed)
            places = iter(found.places)
            for offset, count in zip(found.offsets, found.counts, strict=True):
                for place in islice(places, count):
                    yield bytes(term).decode(), block.numbers[offset], place


def stored_in(factory: KnowledgeFactory, store: KnowledgeStore) -> bytes:
    """Return all that a store holds; of a file every byte, its free pages as well."""
    place = factory.place(store)
    return repr(factory.contents(store)).encode() if is_url(place) else Path(place).read_bytes()


class World:
    """Logs and a store in one folder; time stands still unless a test moves it.

    With a factory the store is of its engine.
    """

    def __init__(self, folder: Path, factory: KnowledgeFactory | None = None) -> None:
        self.home = folder
        self.factory = factory
        file = folder / "store" / "knowledge.db"
        self.place: Place = file if factory is None else factory.place()
        self._served: KnowledgeStore | None = None
        self.now = NOW
        self.exclude: tuple[str, ...] = ()
        self.mask: Mask = as_it_is
        self.documents = ToyDocuments()
        self.sources: Mapping[str, Source] = {"toy": ToyLines(), "toy-docs": self.documents}

    # ------------------------------------------------------------------ the logs

    def log(self, name: str = "one") -> Path:
        return self.home / "logs" / f"{name}.jsonl"

    def write(self, data: bytes, name: str = "one", *, to: Path | None = None) -> Path:
        """Rewrite a log in its place, as if it happened now."""
        path = to or self.log(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        stamp_back(path, self.now)
        return path

    def append(self, data: bytes, name: str = "one") -> None:
        path = self.log(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        stamp_back(path, self.now)

    # ------------------------------------------------------------------ the store

    @contextmanager
    def history(self) -> Iterator[History]:
        with self._opened() as store:
            yield History(self.around(store), self.sources)

    @contextmanager
    def _opened(self) -> Iterator[KnowledgeStore]:
        """Open the store; on a server, where that takes twenty milliseconds, once for all."""
        if self.factory is None or not is_url(self.place):
            with self.store() as store:
                yield store
            return
        if self._served is None:
            self._served = self.factory.reopen(self.place, clock=lambda: self.now)  # type: ignore[arg-type]
        yield self._served

    def store(self, **options: Any) -> KnowledgeStore:
        return KnowledgeStore.open(self.prepared(), clock=lambda: self.now, **options)

    def around(self, store: KnowledgeStore) -> CaptureContext:
        return CaptureContext(
            store=store,
            user=UserHome(self.home),
            mask=self.mask,
            clock=lambda: self.now,
            who=MachineUser("box", "somebody"),
            exclusion=Exclusion(self.exclude),
        )

    @property
    def database(self) -> Path:
        """The file of the store, for tests of files."""
        assert not is_url(self.place)
        return Path(self.place)

    def prepared(self) -> Place:
        """Put an empty store in its place: made once for all, it takes most of a short test."""
        if not is_url(self.place) and not self.database.exists():
            self.database.parent.mkdir(parents=True, exist_ok=True)
            self.database.write_bytes(_empty_store())
        return self.place

    def capture(
        self, wanted: CaptureFilter = ALL, *, dry_run: bool = False, show: Watcher = silent
    ) -> CaptureReport:
        with self._opened() as store:
            return capture(self.around(store), self.sources, wanted, dry_run=dry_run, show=show)

    def lines_report(self, report: CaptureReport) -> AgentReport:
        return report.of(ToyLines.agent)

    def raw(self, name: str = "one") -> list[bytes]:
        with self.history() as history:
            return list(history.raw(history.find(name)))

    def texts(self, name: str = "one") -> list[str]:
        with self.history() as history:
            return [shown.entry.text for shown in history.transcript(history.find(name))]

    def session(self, name: str = "one") -> CapturedSession:
        with self.history() as history:
            return history.find(name)

    @contextmanager
    def outside(self) -> Iterator[Any]:
        """Open what is stored as another program would."""
        self.prepared()
        if self.factory is not None and is_url(self.place):
            with self.factory.raw(self.place) as connection:  # type: ignore[arg-type]  # a place
                yield connection
        else:
            with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection

    def ask(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        with self.outside() as connection:
            cursor = connection.execute(sql, params)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def do(self, *statements: str) -> None:
        with self.outside() as connection:
            for statement in statements:
                connection.execute(statement)

    def log_row(self, name: str = "one") -> dict[str, Any]:
        (row,) = self._dicts(f"SELECT * FROM tk_logs WHERE session_id = '{name}'")
        return row

    def health(self, source: str = "agentic-session-pi") -> dict[str, Any]:
        (row,) = self._dicts(f"SELECT * FROM source_health WHERE source = '{source}'")
        return row

    def _dicts(self, sql: str) -> list[dict[str, Any]]:
        with self.outside() as connection:
            rows = [dict(zip(r.keys(), r, strict=True)) for r in connection.execute(sql).fetchall()]
        return [{k: v for k, v in row.items() if k not in _OF_SERVERS} for row in rows]

    def held(self) -> dict[str, list[Any]]:
        """Return all that the store holds, in a form in which two stores can be compared."""
        found: dict[str, list[Any]] = {}
        for table in _WHOLE:
            left_out = _DIFFERING.get(table, {"id"})
            rows = self._dicts(f"SELECT * FROM {table} {_SOME.get(table, '')}")
            found[table] = [
                {name: value for name, value in row.items() if name not in left_out} for row in rows
            ]
        for name, sql in _JOINED.items():
            found[name] = [tuple(row.values()) for row in self._dicts(sql)]
        found["words"] = self._words()
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    def _words(self) -> list[Any]:
        """Return which words lead to which entries; those of replaced entries lead nowhere."""
        if is_url(self.place):
            with self.store(read_only=True) as store, store.read() as tx:
                named: dict[int, str] = dict(tx.all(Sql("SELECT id, key FROM tk_entries")))
                return [
                    (term, named[entry], place)
                    for term, entry, place in _postings(tx, ENTRY_WORDS.table)
                    if entry in named
                ]
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(
                "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, tk_entry_words, instance)"
            )
            sql = "SELECT v.term, e.key, v.offset FROM temp.v JOIN tk_entries e ON e.id = v.doc"
            return connection.execute(sql).fetchall()

    def stored(self) -> bytes:
        """Return all that is stored."""
        with self.store(read_only=True) as store:
            return stored_in(self.factory or KnowledgeFactory(), store)

    def contents(self) -> dict[str, list[dict[str, Any]]]:
        """Return every row of every table."""
        with self.store(read_only=True) as store:
            return (self.factory or KnowledgeFactory()).contents(store)

    def state(self) -> object:
        """Return what differs after anything was written; in a file also if it is the same."""
        if is_url(self.place):
            return self.contents()
        return everything(self.database), self._change_counter()

    def _change_counter(self) -> bytes:
        """Return the counter that the database file holds, and the size of its write-ahead log."""
        wal = Path(f"{self.database}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        return self.database.read_bytes()[24:28] + size.to_bytes(8, "big")

"""A user's home with logs and a knowledge store, captured by a new process each time."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.knowledge import NOW, ask
from tests.support.toy_sources import ToyDocuments, ToyLines, stamp_back
from threadkeep.capture.capture import ALL, History
from threadkeep.capture.engine import CaptureFilter, capture
from threadkeep.capture.intake import CaptureContext, MachineUser, Mask
from threadkeep.capture.records import AgentReport, CaptureReport, Exclusion, Watcher, silent
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.records import Source, UserHome

# Times of writing, places and row numbers differ between two stores that hold the same.
_DIFFERING = {
    "tk_logs": {"id", "path", "device", "inode", "ctime_ns", "captured_at", "checked_at"},
    "agentic_sessions": {"id", "source_file"},
    "source_health": {"events_last_1h", "events_last_24h"},
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


class World:
    """Logs and a store in one folder; time stands still unless a test moves it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.database = folder / "store" / "knowledge.db"
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
        with KnowledgeStore.open(self._prepared(), clock=lambda: self.now) as store:
            yield History(self.around(store), self.sources)

    def around(self, store: KnowledgeStore) -> CaptureContext:
        return CaptureContext(
            store=store,
            user=UserHome(self.home),
            mask=self.mask,
            clock=lambda: self.now,
            who=MachineUser("box", "somebody"),
            exclusion=Exclusion(self.exclude),
        )

    def _prepared(self) -> Path:
        """Put an empty store in its place: made once for all, it takes most of a short test."""
        if not self.database.exists():
            self.database.parent.mkdir(parents=True, exist_ok=True)
            self.database.write_bytes(_empty_store())
        return self.database

    def capture(
        self, wanted: CaptureFilter = ALL, *, dry_run: bool = False, show: Watcher = silent
    ) -> CaptureReport:
        with KnowledgeStore.open(self._prepared(), clock=lambda: self.now) as store:
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

    def ask(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        return ask(self.database, sql, *params)

    def log_row(self, name: str = "one") -> dict[str, Any]:
        (row,) = self._dicts(f"SELECT * FROM tk_logs WHERE session_id = '{name}'")
        return row

    def health(self, source: str = "agentic-session-pi") -> dict[str, Any]:
        (row,) = self._dicts(f"SELECT * FROM source_health WHERE source = '{source}'")
        return row

    def _dicts(self, sql: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def held(self) -> dict[str, list[Any]]:
        """Return all that the store holds, in a form in which two stores can be compared."""
        found: dict[str, list[Any]] = {}
        for table in _WHOLE:
            left_out = _DIFFERING.get(table, {"id"})
            rows = self._dicts(f"SELECT * FROM {table}")
            found[table] = [
                {name: value for name, value in row.items() if name not in left_out} for row in rows
            ]
        for name, sql in _JOINED.items():
            found[name] = [tuple(row.values()) for row in self._dicts(sql)]
        found["words"] = self._words()
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    def _words(self) -> list[Any]:
        """Return which words lead to which entries; those of replaced entries lead nowhere."""
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(
                "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, tk_entry_words, instance)"
            )
            sql = "SELECT v.term, e.key, v.offset FROM temp.v JOIN tk_entries e ON e.id = v.doc"
            return connection.execute(sql).fetchall()

    def change_counter(self) -> bytes:
        """Return the counter that the database file holds, and the size of its write-ahead log."""
        wal = Path(f"{self.database}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        return self.database.read_bytes()[24:28] + size.to_bytes(8, "big")

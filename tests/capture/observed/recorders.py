"""A backend that remembers what the server asked of it, and fails or waits when told to."""

import threading
from collections import Counter

from threadkeep.capture.observed.envelopes import read_line
from threadkeep.capture.observed.protocol import (
    CollectorStatus,
    EntityInfo,
    EventInfo,
    QueryHit,
    SessionInfo,
)
from threadkeep.knowledge.records import Command, Heartbeat, Observed, Visit, Watch

ANSWER_SECONDS = 60  # far more than anything takes: it ends a test that would hang


class Recorder:
    """Keeps everything in lists; `gate` holds `store` up while it is shut."""

    def __init__(self) -> None:
        self.stored: list[Command | Visit] = []
        self.batches: list[int] = []
        self.kept: list[Observed] = []
        self.drops: Counter[str] = Counter()
        self.watches: list[Watch] = []
        self.heartbeats: list[Heartbeat] = []
        self.asked: list[object] = []
        self.store_error: Exception | None = None
        self.keep_error: Exception | None = None
        self.drop_error: Exception | None = None
        self.read_error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self._changed = threading.Condition()

    def wait_for_stored(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.stored) >= count, ANSWER_SECONDS)

    def wait_for_kept(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.kept) >= count, ANSWER_SECONDS)

    def store(self, things: list[Command | Visit]) -> None:
        self.entered.set()
        assert self.gate.wait(ANSWER_SECONDS)
        if self.store_error is not None:
            raise self.store_error
        with self._changed:
            self.stored += things
            self.batches.append(len(things))
            self._changed.notify_all()

    def keep(self, lines: list[bytes]) -> None:
        if self.keep_error is not None:
            raise self.keep_error
        with self._changed:
            self.kept += [read_line(line, "test") for line in lines]
            self._changed.notify_all()

    def dropped(self, reason: str, count: int) -> None:
        if self.drop_error is not None:
            raise self.drop_error
        self.drops[reason] += count

    def status(self) -> CollectorStatus:
        self._read(())
        return CollectorStatus(version="9", events_today=len(self.stored))

    def sessions(self, since_ms: int | None, limit: int) -> list[SessionInfo]:
        self._read((since_ms, limit))
        return [SessionInfo(1, 2, None, "laptop", "zsh", 3, None)]

    def events(
        self, session_id: int | None, since_ms: int | None, project: str | None, limit: int
    ) -> list[EventInfo]:
        self._read((session_id, since_ms, project, limit))
        return [
            EventInfo(at, 1, thing.at, thing.command, 0, 1, thing.cwd, None, enriched=False)
            for at, thing in enumerate(self.stored)
            if isinstance(thing, Command)
        ]

    def entities(self, entity_type: str | None) -> list[EntityInfo]:
        self._read((entity_type,))
        return [EntityInfo(1, "tool", "cargo", None, 5, 6)]

    def query(self, text: str) -> list[QueryHit]:
        self._read((text,))
        return [QueryHit(1, text, "/", 7, "keyword")]

    def watch(self, watch: Watch) -> None:
        self.watches.append(watch)

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        self.heartbeats.append(heartbeat)

    def _read(self, asked: object) -> None:
        self.asked.append(asked)
        if self.read_error is not None:
            raise self.read_error

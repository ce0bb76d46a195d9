"""What the server needs from whoever stands behind it, and which request asks for what."""

from typing import Protocol

from threadkeep.collect.protocol import (
    Ack,
    CollectorStatus,
    Entities,
    EntityInfo,
    EventInfo,
    Events,
    GetEntities,
    GetEvents,
    GetSessions,
    GetStatus,
    IngestEvent,
    QueryHit,
    QueryResult,
    RawQuery,
    RegisterWatchSha,
    Request,
    Response,
    SessionInfo,
    Sessions,
    Shutdown,
    UpdateSourceHealthHeartbeat,
    heartbeat_of,
    rows_wanted,
    watch_of,
)
from threadkeep.knowledge.observed import Command, Heartbeat, Visit, Watch

Event = Command | Visit


class Backend(Protocol):
    """What the server does with what it hears.

    One thread calls all of it but `keep`, which may be called beside the others. What a method
    raises becomes the answer to the request; events that `store` refused go to `keep`.
    """

    def store(self, things: list[Event], /) -> None:
        """Store events, all or none, each once however often it comes."""

    def keep(self, lines: list[bytes], /) -> None:
        """Leave lines of the spool for later; on the disk when this returns."""

    def dropped(self, reason: str, count: int, /) -> None:
        """Write down for good that so many events were lost."""

    def status(self) -> CollectorStatus:
        """Tell how it is going."""

    def sessions(self, since_ms: int | None, limit: int, /) -> list[SessionInfo]:
        """Give the newest sessions."""

    def events(
        self, session_id: int | None, since_ms: int | None, project: str | None, limit: int, /
    ) -> list[EventInfo]:
        """Give the newest commands."""

    def entities(self, entity_type: str | None, /) -> list[EntityInfo]:
        """Give what the knowledge mentions."""

    def query(self, text: str, /) -> list[QueryHit]:
        """Find commands with this text in them."""

    def watch(self, watch: Watch, /) -> None:
        """Wait for the CI runs of a commit."""

    def heartbeat(self, heartbeat: Heartbeat, /) -> None:
        """Write down a producer's sign of life."""


def answer(backend: Backend, request: Request, now: int) -> Response:
    """Do what a request asks for."""
    match request:
        case GetStatus():
            return backend.status()
        case GetSessions():
            return Sessions(backend.sessions(request.since_ms, rows_wanted(request.limit)))
        case GetEvents(session, since, project, limit):
            return Events(backend.events(session, since, project, rows_wanted(limit)))
        case GetEntities():
            return Entities(backend.entities(request.entity_type))
        case RawQuery():
            return QueryResult(backend.query(request.text))
        case RegisterWatchSha():
            backend.watch(watch_of(request, now))
        case UpdateSourceHealthHeartbeat():
            backend.heartbeat(heartbeat_of(request))
        case IngestEvent() | Shutdown():
            pass  # the server's own business
    return Ack()

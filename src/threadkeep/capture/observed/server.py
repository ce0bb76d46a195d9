"""The socket server: takes events and answers requests, whatever its clients do.

An event loop in a thread of its own reads and writes; it never waits for the store. One worker
thread calls the backend, so requests are answered in the order in which they came and after the
events that came before them. A second one leaves events in the spool while the first is held up.

A client can hang, send half a frame, garbage, a wrong length, or come a thousand times: each of
these is bounded by `Limits`, counted, and costs the other clients nothing.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.frames import SOCKET_LIMIT, FrameDecoder, encode_frame
from threadkeep.base.local_socket import LocalSocket, peer_uid, place_of
from threadkeep.capture.observed import protocol
from threadkeep.capture.observed.envelopes import UnknownEnvelope, read_envelope, write_line
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge
from threadkeep.knowledge.records import Command, Heartbeat, Visit, Watch

# ------------------------------------------------------------------------------
# What the server needs from whoever stands behind it, and which request asks for what.

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

    def status(self) -> protocol.CollectorStatus:
        """Tell how it is going."""

    def sessions(self, since_ms: int | None, limit: int, /) -> list[protocol.SessionInfo]:
        """Return the newest sessions."""

    def events(
        self, session_id: int | None, since_ms: int | None, project: str | None, limit: int, /
    ) -> list[protocol.EventInfo]:
        """Return the newest commands."""

    def entities(self, entity_type: str | None, /) -> list[protocol.EntityInfo]:
        """Return what the knowledge mentions."""

    def query(self, text: str, /) -> list[protocol.QueryHit]:
        """Find commands with this text in them."""

    def watch(self, watch: Watch, /) -> None:
        """Wait for the CI runs of a commit."""

    def heartbeat(self, heartbeat: Heartbeat, /) -> None:
        """Write down a producer's heartbeat."""


def answer(backend: Backend, request: protocol.Request, now: int) -> protocol.Response:
    """Do what a request asks for."""
    match request:
        case protocol.GetStatus():
            return backend.status()
        case protocol.GetSessions():
            return protocol.Sessions(
                backend.sessions(request.since_ms, protocol.rows_wanted(request.limit))
            )
        case protocol.GetEvents(session, since, project, limit):
            return protocol.Events(
                backend.events(session, since, project, protocol.rows_wanted(limit))
            )
        case protocol.GetEntities():
            return protocol.Entities(backend.entities(request.entity_type))
        case protocol.RawQuery():
            return protocol.QueryResult(backend.query(request.text))
        case protocol.RegisterWatchSha():
            backend.watch(protocol.watch_of(request, now))
        case protocol.UpdateSourceHealthHeartbeat():
            backend.heartbeat(protocol.heartbeat_of(request))
        case protocol.IngestEvent() | protocol.Shutdown():
            pass  # the server's own business
    return protocol.Ack()


# ------------------------------------------------------------------------------
# Between the socket and the store: events wait a moment, to be stored many at a time.
#
# An event that was taken is stored; if the store cannot have it, it goes to the spool; only if that
# fails too is it lost, and then it is counted.

log = logging.getLogger(__name__)

LOST: Final = "spool"  # the reason of a drop: neither the store nor the spool took it


class Buffer:
    """Events that wait to be stored; every method may be called by any thread."""

    def __init__(self, backend: Backend, *, batch: int, most: int, most_bytes: int) -> None:
        self._backend = backend
        self._batch = batch
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._guard = threading.Lock()
        self._keeping = threading.Lock()
        self._untold: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def add(self, event: Event, size: int) -> bool:
        """Take an event; False if there is no room for it, so `relieve` first."""
        with self._guard:
            too_many = len(self._waiting) >= self._most
            if self._waiting and (too_many or self._bytes + size > self._most_bytes):
                return False
            self._waiting.append((event, size))
            self._bytes += size
            return True

    def is_due(self) -> bool:
        """Tell whether enough events wait to be stored at once."""
        return len(self._waiting) >= self._batch

    def lose(self, reason: str, count: int = 1) -> None:
        """Count events that nobody can have; the backend is told with the next flush."""
        with self._guard:
            self._untold[reason] += count
            self._counts["lost"] += count

    def flush(self) -> None:
        """Store what waits; when this returns, all that was added before is where it belongs."""
        left = len(self._waiting)
        while left > 0 and (batch := self._take()):
            left -= len(batch)
            self._store(batch)
        with self._keeping:  # what somebody has taken out to make room is in the spool now
            pass
        self._tell_losses()

    def relieve(self) -> None:
        """Make room: leave the oldest events in the spool."""
        with self._keeping:
            if batch := self._take():
                self._keep(batch)

    def counts(self) -> dict[str, int]:
        """Tell how many events were stored, kept in the spool, and lost."""
        with self._guard:
            return {name: self._counts[name] for name in ("stored", "kept", "lost")}

    def _take(self) -> list[Event]:
        with self._guard:
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._bytes -= sum(size for _, size in taken)
        return [event for event, _ in taken]

    def _store(self, batch: list[Event]) -> None:
        try:
            self._backend.store(batch)
        except Exception as error:  # noqa: BLE001  whatever it was, the spool has them then
            log.warning("%d events go to the spool: the store failed: %s", len(batch), error)
            with self._keeping:
                self._keep(batch)
        else:
            self._count("stored", len(batch))

    def _keep(self, batch: list[Event]) -> None:
        try:
            self._backend.keep([write_line(event) for event in batch])
        except Exception:
            log.exception("%d events are lost: the spool failed, too", len(batch))
            self.lose(LOST, len(batch))
        else:
            self._count("kept", len(batch))

    def _count(self, name: str, count: int) -> None:
        with self._guard:
            self._counts[name] += count

    def _tell_losses(self) -> None:
        with self._guard:
            untold, self._untold = self._untold, Counter()
        for reason, count in untold.items():
            try:
                self._backend.dropped(reason, count)
            except Exception as error:  # noqa: BLE001  the next flush tells it again
                log.warning("%d lost events could not be written down: %s", count, error)
                with self._guard:
                    self._untold[reason] += count


_CHUNK: Final = 64 << 10
# What a client wrote before the end is in the kernel already: one turn of the loop brings it.
_GRACE: Final = 0.05
_T = TypeVar("_T")


class CollectorLimits(msgspec.Struct, frozen=True):
    """How much, and how long: of everything that a client could have without end."""

    flush_seconds: float = 0.1
    batch: int = 50  # events of one transaction
    buffered: int = 1000  # events; those beyond go to the spool
    buffered_bytes: int = 32 << 20
    frame: int = SOCKET_LIMIT
    unfinished_bytes: int = 64 << 20  # of all frames that are still coming in
    connections: int = 128
    patience: float = 0.25  # after so long a silence a connection may have to make room
    idle_seconds: float = 300.0
    frame_seconds: float = 10.0  # from the first byte of a frame to its last
    reply_seconds: float = 10.0  # until the client has read the answer
    drain_seconds: float = 2.0  # at the end, for what clients have sent already


class _Connection:
    """One client, as far as the server knows it."""

    def __init__(self, link: socket.socket, limit: int, now: float) -> None:
        self.link = link
        self.decoder = FrameDecoder(limit=limit)
        self.since = now  # the last whole frame, or the first byte of the next one
        self.busy = False
        self.writer: asyncio.StreamWriter | None = None
        self.waiting: asyncio.Timeout | None = None

    def feed(self, data: bytes, now: float) -> None:
        if not self.decoder.held:
            self.since = now
        self.decoder.feed(data)

    def abort(self) -> None:
        if self.writer is None:
            self.link.close()
        else:
            self.writer.transport.abort()


class CollectorServer:
    """Listens at a path from `start` to `stop`, in threads of its own."""

    def __init__(
        self,
        path: Path,
        backend: Backend,
        *,
        limits: CollectorLimits | None = None,
        clock: Clock = now_ms,
        uid: int | None = None,
    ) -> None:
        """Only processes of the user `uid` may connect, by default those of our own."""
        self.path = place_of(path, uid=os.getuid())
        self._wanted = path
        self._backend = backend
        self._limits = limits or CollectorLimits()
        self._clock = clock
        self._uid = os.getuid() if uid is None else uid
        self._counts: Counter[str] = Counter()
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._buffer = Buffer(
            backend,
            batch=self._limits.batch,
            most=self._limits.buffered,
            most_bytes=self._limits.buffered_bytes,
        )
        self._worker = ThreadPoolExecutor(1, "threadkeep-store")
        self._spooler = ThreadPoolExecutor(1, "threadkeep-spool")
        self._ready, self._ended = threading.Event(), threading.Event()
        self.asked = False  # a client asked for the end
        self.failure: Exception | None = None  # why it ended although nobody asked for it
        self._thread = threading.Thread(target=self._run, name="threadkeep-socket", daemon=True)

    def start(self) -> None:
        """Take the place, or raise Conflict; when this returns, clients are heard."""
        self._place = LocalSocket(self._wanted)
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Store what clients have sent so far, then end; the place is free when this returns."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop ended at this very moment
                self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server has ended: by `stop`, by a client that asked, by a failure."""
        return self._ended.wait(timeout)

    def counts(self) -> dict[str, int]:
        """Tell what happened so far.

        connections, requests, errors (frames that nobody understands), timeouts, refused (of other
        users), evicted (to make room); events that were stored, kept in the spool, and lost.
        """
        names = ("connections", "requests", "errors", "timeouts", "refused", "evicted")
        return {name: self._counts[name] for name in names} | self._buffer.counts()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001  whoever waits for the end is told
            self.failure = error
        finally:
            self._place.close()
            self._ready.set()
            self._ended.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending, self._added, self._due = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._place.socket.settimeout(0)
        self._listen()
        flushing = asyncio.create_task(self._flush_regularly())
        self._ready.set()
        await self._ending.wait()
        self._place.hide()  # from now on clients leave their events in the spool
        self._loop.remove_reader(self._place.socket)
        self._accept_waiting()
        await self._let_clients_finish()
        flushing.cancel()
        self._spooler.shutdown()
        await self._on(self._worker, self._buffer.flush)
        self._worker.shutdown()

    async def _let_clients_finish(self) -> None:
        soon = self._loop.time() + _GRACE
        for connection in self._connections:
            if connection.waiting is not None and not connection.waiting.expired():
                connection.waiting.reschedule(soon)
        if tasks := set(self._connections.values()):
            _, late = await asyncio.wait(tasks, timeout=self._limits.drain_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _flush_regularly(self) -> None:
        while True:
            await self._added.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.flush_seconds):
                    await self._due.wait()
            self._added.clear()
            self._due.clear()
            await self._on(self._worker, self._buffer.flush)

    async def _on(self, pool: ThreadPoolExecutor, work: Callable[..., _T], *values: Any) -> _T:
        return await self._loop.run_in_executor(pool, work, *values)

    def _listen(self) -> None:
        if not self._ending.is_set():
            self._loop.add_reader(self._place.socket, self._accept_waiting)

    def _listen_later(self) -> None:
        """Let clients queue in the kernel for a moment; it takes 128 of them."""
        self._loop.remove_reader(self._place.socket)
        self._loop.call_later(max(self._limits.patience, 0.01), self._listen)

    def _accept_waiting(self) -> None:
        while self._has_room():
            try:
                link, _ = self._place.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors: some will be free again
                log.warning("cannot accept a connection at %s: %s", self.path, error)
                break
            self._welcome(link)
        self._listen_later()

    def _has_room(self) -> bool:
        if self._ending.is_set() or len(self._connections) < self._limits.connections:
            return True
        oldest = self._loop.time() - self._limits.patience
        idle = [c for c in self._connections if not c.busy and c.writer and c.since <= oldest]
        if not idle:
            return False
        evicted = min(idle, key=lambda connection: connection.since)
        self._counts["evicted"] += 1
        del self._connections[evicted]
        evicted.abort()
        return True

    def _welcome(self, link: socket.socket) -> None:
        try:
            is_ours = peer_uid(link) in (None, self._uid)
        except OSError:  # it has gone already
            is_ours = False
        if not is_ours:
            self._counts["refused"] += 1
            link.close()
            return
        self._counts["connections"] += 1
        link.settimeout(0)
        connection = _Connection(link, self._limits.frame, self._loop.time())
        self._connections[connection] = asyncio.create_task(self._serve(connection))

    async def _serve(self, connection: _Connection) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection.link, limit=_CHUNK)
            writer.transport.set_write_buffer_limits(high=0)  # drain() waits for the client
            connection.writer = writer
            await self._converse(connection, reader, writer)
        except TimeoutError:
            self._counts["timeouts"] += 1
        except ConnectionError:
            pass  # it has gone; nobody is there to be told
        finally:
            connection.abort()
            self._connections.pop(connection, None)
            self._listen()

    async def _converse(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await self._receive(connection, reader):
            connection.feed(data, self._loop.time())
            connection.busy = True
            try:
                while (frame := connection.decoder.take()) is not None:
                    await self._attend(frame, writer)
                    connection.since = self._loop.time()
                if connection.decoder.held:  # whoever has said all is not to blame
                    self._check_unfinished()
            except TooLarge as error:  # where the next frame begins, nobody knows
                self._counts["errors"] += 1
                return await self._send(protocol.Error(str(error)), writer)
            connection.busy = False
        self._counts["errors"] += bool(connection.decoder.held)  # it ended within a frame
        return None

    async def _receive(self, connection: _Connection, reader: asyncio.StreamReader) -> bytes:
        limits, now = self._limits, self._loop.time()
        seconds = limits.frame_seconds if connection.decoder.held else limits.idle_seconds
        deadline = connection.since + seconds
        if self._ending.is_set():
            deadline = min(deadline, now + _GRACE)
        try:
            async with asyncio.timeout_at(deadline) as connection.waiting:
                return await reader.read(_CHUNK)
        except TimeoutError:
            if connection.decoder.held and not self._ending.is_set():
                raise  # drop by drop it would continue forever
            data = await _what_is_there(reader)
            if not data and not self._ending.is_set():
                raise
            return data
        finally:
            connection.waiting = None

    def _check_unfinished(self) -> None:
        held = sum(connection.decoder.held for connection in self._connections)
        if held > self._limits.unfinished_bytes:
            raise TooLarge("too much is being sent at once", hint="try again in a moment")

    async def _attend(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        """Answer one frame, if its request has an answer."""
        self._counts["requests"] += 1
        try:
            request = protocol.decode_request(frame)
        except Invalid as error:
            self._counts["errors"] += 1
            return await self._send(protocol.Error(str(error)), writer)
        if isinstance(request, protocol.IngestEvent):
            return await self._ingest(request, len(frame))
        response = await self._on(self._worker, self._respond, request)
        await self._send(response, writer)
        if isinstance(request, protocol.Shutdown):
            self.asked = True
            self._ending.set()
        return None

    async def _ingest(self, request: protocol.IngestEvent, size: int) -> None:
        try:
            event = read_envelope(request.envelope, "socket")
        except UnknownEnvelope:
            self._buffer.lose("unsupported")
        except Invalid as error:
            log.debug("an event was refused: %s", error)
            self._buffer.lose("invalid")
        else:
            while not self._buffer.add(event, size):
                await self._on(self._spooler, self._buffer.relieve)
        self._added.set()
        if self._buffer.is_due():
            self._due.set()

    def _respond(self, request: protocol.Request) -> protocol.Response:
        """Runs in the worker: first what came before, then the request."""
        try:
            self._buffer.flush()
            return answer(self._backend, request, self._clock())
        except ThreadkeepError as error:
            return protocol.Error(str(error))
        except Exception as error:
            log.exception("a request failed: %s", type(request).__name__)
            return protocol.Error(f"{type(request).__name__} failed: {error}")

    async def _send(self, response: protocol.Response, writer: asyncio.StreamWriter) -> None:
        try:
            frame = encode_frame(protocol.encode_response(response), limit=self._limits.frame)
        except TooLarge:
            words = protocol.Error("the answer is too long for a frame (ask for fewer rows)")
            frame = encode_frame(protocol.encode_response(words))
        writer.write(frame)
        async with asyncio.timeout(self._limits.reply_seconds):
            await writer.drain()


async def _what_is_there(reader: asyncio.StreamReader) -> bytes:
    """Bytes may have come in the very turn in which the time was over."""
    try:
        async with asyncio.timeout(0):
            return await reader.read(_CHUNK)
    except TimeoutError:
        return b""

"""Replies as they stream: recorded while they arrive, and resumed by an AI SDK client.

`GET /chat/{chat_id}/stream` speaks the protocol that `useChat` resumes by: 204 when nothing is
recorded, else the chunks of the reply from its first one on, then those that come, then `[DONE]`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Any, Final, cast

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep import ChatStore, Recorder, Session
from threadkeep.base import json
from threadkeep.base.verb_table import Given
from threadkeep.base.verbs import Name
from threadkeep.chat.replies import Active, Replies, Reply, active_reply, ask_to_stop, find_run
from threadkeep.chat.ui_messages import open_chat, save_messages, settled_messages
from threadkeep.chat.wire.sse import DONE, encode_sse
from threadkeep.errors import Invalid, NoStore
from threadkeep.home.stores import Stores
from threadkeep.web.answers import json_answer
from threadkeep.web.api.endpoints import Unfit, read_address, routes_of
from threadkeep.web.api.verb import Json, verb

# ------------------------------------------------------------------------------
# Recording a reply from the body of a request, chunk by chunk while it arrives.

AGENT: Final = "web"
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
EVENT: Final = b"data: "
_GONE: Final = 499  # the client went away; nobody reads this


class RecordRequest(Given, frozen=True):
    """A chat and who replies in it; the id of a message continues with that one.

    `protocol` is the version of the AI SDK that the stream comes from.
    """

    chat_id: Name
    agent: Name = AGENT
    model: Name | None = None
    message_id: Name | None = None
    protocol: Annotated[int, msgspec.Meta(ge=6, le=7)] = 7


class Recorded(msgspec.Struct, frozen=True):
    """What was stored of a reply.

    `status` is why it ended: finish, abort, error, or cut where the stream had no end.
    """

    id: str
    session_id: str
    run_id: str
    status: str
    finish_reason: str | None
    error_text: str | None
    usage: dict[str, int]
    skipped: int  # chunks that did not fit the stream
    violations: list[str]
    message: Json


class Taking:
    """A recorder that threads take turns at: the end waits for a chunk that is being stored."""

    def __init__(
        self, chat: ChatStore, session: Session, recorder: Recorder, *, is_new: bool
    ) -> None:
        self.chat = chat
        self.session = session
        self.recorder = recorder
        self._is_new = is_new
        self._turn = threading.Lock()

    def take(self, data: bytes, stored: Callable[[], None]) -> None:
        """Store what has arrived, as events of a stream; then say so."""
        with self._turn:
            self.recorder.feed_sse(data)
        stored()

    def close(self, error: BaseException | None = None, *, stopped: str | None = None) -> None:
        """End the recording; `stopped` is why somebody wanted that."""
        with self._turn:
            if stopped is not None:
                self.recorder.abort(stopped)
            self.recorder.close(error)

    def undo(self) -> None:
        """Take back a session that was begun for a reply which was refused."""
        if self._is_new and self.recorder.message is None:
            self.chat.delete(self.session)


async def record(request: Request) -> Response:
    """Record a reply: an SSE body, JSON lines, or an array of chunks.

    The answer is the stored message. It comes before the body has ended when somebody asked to
    stop the reply: then the rest is not wanted.
    """
    told = read_address(RecordRequest, request.query_params.multi_items(), request.path_params)
    stores: Stores = request.app.state.stores
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # An array is known when all of it has come: before that nothing begins.
    body = await _array(request) if kind == _JSON else None
    taking = await run_in_threadpool(_begin, stores, told)
    watch = StopWatcher(stores.replies(), told.chat_id, taking.recorder.run_id)
    pieces = _once(body) if body is not None else _arriving(request, watch, lines=kind == _LINES)
    try:
        waits = await _take_all(taking, pieces, watch)
        recorded = await run_in_threadpool(_recorded, taking) if waits else None
    except Exception:
        await run_in_threadpool(taking.undo)
        raise
    return Response(None, _GONE) if recorded is None else json_answer(request, recorded)


def _begin(stores: Stores, told: RecordRequest) -> Taking:
    chat, save_on = stores.chat("begin"), cast("Any", stores.home.config.chat.save_on)
    session, is_new = open_chat(chat, told.chat_id, agent=told.agent, model=told.model or {})
    recorder = chat.record(
        session,
        told.message_id,
        save_on=save_on,
        protocol=told.protocol,
        agent=told.agent,
        model=told.model,
    )
    return Taking(chat, session, recorder, is_new=is_new)


async def _take_all(taking: Taking, pieces: AsyncIterator[bytes], watch: "StopWatcher") -> bool:
    """Record what arrives, whatever ends it; False if nobody waits for an answer."""
    try:
        async for piece in pieces:
            await run_in_threadpool(taking.take, piece, watch.begin)
        await run_in_threadpool(taking.close, stopped=watch.heeded)
    except ClientDisconnect:
        await run_in_threadpool(taking.close)
        return False
    except asyncio.CancelledError:  # the server ends
        taking.close()
        raise
    except Exception as error:
        await run_in_threadpool(taking.close, error)
        raise
    finally:
        watch.end()
    return True


def _recorded(taking: Taking) -> Recorded:
    chat, session, recorder = taking.chat, taking.session, taking.recorder
    run = find_run(chat, recorder.run_id)
    if run is None or recorder.message_id is None:
        reason = f": {recorder.violations[0]}" if recorder.violations else ""
        hint = 'every chunk is an object with a "type", one a line or one an event'
        raise Invalid(f"no chunk was found in the body{reason}", hint=hint)
    return Recorded(
        id=recorder.message_id,
        session_id=session.id,
        run_id=run.id,
        status=run.end_reason or "cut",
        finish_reason=run.finish_reason,
        error_text=run.error_text,
        usage=run.usage,
        skipped=recorder.violation_count,
        violations=recorder.violations,
        message=chat.message(session, recorder.message_id),
    )


# ---------------------------------------------------------------------- what arrives


async def _array(request: Request) -> bytes:
    chunks = json.decode(await request.body())
    if not isinstance(chunks, list):
        hint = "send an array of chunks, JSON lines or an event stream, with its content-type"
        raise Invalid("the body is not an array of chunks", hint=hint)
    return b"".join(map(encode_sse, chunks))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _arriving(request: Request, watch: "StopWatcher", *, lines: bool) -> AsyncIterator[bytes]:
    """Return the body as it comes, until it ends or the reply is to stop."""
    stopping = asyncio.create_task(watch.asked.wait())
    arriving = aiter(request.stream())
    if lines:
        yield EVENT
    try:
        while True:
            packet = asyncio.ensure_future(anext(arriving, None))
            await asyncio.wait({packet, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                packet.cancel()
                watch.heeded = watch.reason
                return
            data = packet.result()
            if data is None:
                return
            yield events_of(data) if lines else data
    finally:
        stopping.cancel()


def events_of(data: bytes) -> bytes:
    """Make events of JSON lines, cut anywhere; `EVENT` goes before the first piece."""
    return data.replace(b"\n", b"\n\n" + EVENT)  # of a blank line one without data: none


class StopWatcher:
    """Looks out for somebody who wants the reply to stop, once there is something of it."""

    def __init__(self, replies: Replies, session_id: str, run_id: str) -> None:
        self.asked = asyncio.Event()
        self.heeded: str | None = None  # why it was stopped
        self._replies = replies
        self._session_id, self._run_id = session_id, run_id
        self._loop = asyncio.get_running_loop()
        self._reply: Reply | None = None

    @property
    def reason(self) -> str | None:
        """Why it is to stop; None if nobody asked."""
        return self._reply.stop if self._reply is not None else None

    def begin(self) -> None:
        """Look out, if that has not begun yet and something is stored by now."""
        if self._reply is None:
            self._reply = self._replies.join(
                self._session_id, self._look, chunks=False, run_id=self._run_id
            )
            self._look()

    def end(self) -> None:
        """Look no more."""
        if self._reply is not None:
            self._replies.leave(self._reply, self._look, chunks=False)
            self._reply = None

    def _look(self) -> None:
        if self.reason is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.asked.set)


KEEP_ALIVE_SECONDS: Final = 15.0
_KEEP_ALIVE: Final = b": still here\n\n"
_HEADERS: Final = {
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
_EVENTS: Final = "text/event-stream"
_REASON: Final = "stopped by the user"


class OneClientChat(Given, frozen=True):
    """A chat, by the id that its client gave it; it is the id of the session."""

    chat_id: Name


class SavedBy(Given, frozen=True):
    """A chat, and whose it is when it begins."""

    chat_id: Name
    agent: Name = AGENT


class Saved(Given, frozen=True):
    """How many messages were new, or other than before."""

    changed: int


class Wish(Given, frozen=True):
    """Which reply to stop, by its run or its message, and why."""

    run_id: Name | None = None
    message_id: Name | None = None
    reason: Name = _REASON


class Doing(Given, frozen=True):
    """Whether a reply is recorded, which one, and whether it was asked to stop."""

    active: bool
    run_id: str | None = None
    message_id: str | None = None
    stop: bool = False
    reason: str | None = None


# ---------------------------------------------------------------------- resuming


async def stream(request: Request) -> Response:
    """Return the reply that is recorded right now from its first chunk on; 204 if there is none."""
    asked = read_address(OneClientChat, request.query_params.multi_items(), request.path_params)
    stores: Stores = request.app.state.stores
    if request.method == "HEAD":
        found = await run_in_threadpool(_doing, stores, asked.chat_id)
        return Response(None, 204) if found is None else _headed(found.run_id, found.message_id)
    try:
        replies = await run_in_threadpool(stores.replies)
    except NoStore:
        return Response(None, 204)
    more = asyncio.Event()
    wake = _waker(more)
    reply = await run_in_threadpool(replies.join, asked.chat_id, wake)
    if reply is None:
        return Response(None, 204)
    headers = _headers(reply.run_id, reply.message_id)
    return StreamingResponse(
        _events(replies, reply, more, wake), headers=headers, media_type=_EVENTS
    )


def _headers(run_id: str, message_id: str) -> dict[str, str]:
    """Say with the stream what `stop` needs to know."""
    named = message_id if message_id.isascii() and message_id.isprintable() else ""
    return {**_HEADERS, "x-threadkeep-run": run_id, "x-threadkeep-message": named}


def _headed(run_id: str, message_id: str) -> Response:
    return Response(None, 200, headers=_headers(run_id, message_id), media_type=_EVENTS)


def _waker(more: asyncio.Event) -> Callable[[], None]:
    """Return what the thread that reads calls when there is more."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it who waited
            loop.call_soon_threadsafe(more.set)

    return wake


async def _events(
    replies: Replies, reply: Reply, more: asyncio.Event, wake: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Return what is there, then what comes; a client that goes away ends only this."""
    sent = 0
    try:
        while True:
            more.clear()
            over = reply.over  # before the frames: the last of them come first
            fresh = reply.frames[sent:]
            if fresh:
                sent += len(fresh)
                yield b"".join(fresh)
            elif over:
                yield DONE
                return
            elif not await _came(more):
                yield _KEEP_ALIVE
    finally:
        replies.leave(reply, wake)


async def _came(more: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(more.wait(), KEEP_ALIVE_SECONDS)
    except TimeoutError:
        return False
    return True


# ---------------------------------------------------------------------- stopping


def _doing(stores: Stores, chat_id: str) -> Active | None:
    with suppress(NoStore):
        return active_reply(stores.chat("ask"), chat_id)
    return None


def doing(stores: Stores, asked: OneClientChat) -> Doing:
    """Tell whether a reply is recorded in a chat, and whether it was asked to stop."""
    found = _doing(stores, asked.chat_id)
    if found is None:
        return Doing(active=False)
    return _told(found)


def stop(stores: Stores, asked: OneClientChat, body: Wish) -> Doing:
    """Ask whoever records a reply to stop; name its run or its message, so that no other ends."""
    guard = frozenset(name for name in (body.run_id, body.message_id) if name is not None)
    if not guard:
        msg = "the request does not say which reply to stop"
        raise Unfit(
            msg, hint="send its run_id, or its message_id; GET on this address returns them"
        )
    return _told(ask_to_stop(stores.chat("change"), asked.chat_id, guard, body.reason))


def _told(found: Active) -> Doing:
    return Doing(
        active=True,
        run_id=found.run_id,
        message_id=found.message_id,
        stop=found.stop,
        reason=found.reason,
    )


# ---------------------------------------------------------------------- the list of messages


def ui_messages(stores: Stores, asked: OneClientChat) -> list[Json]:
    """Return a chat as `useChat` begins with it: without the reply that is recorded right now."""
    with suppress(NoStore):
        return settled_messages(stores.chat("ask"), asked.chat_id)
    return []


def add_ui_messages(stores: Stores, asked: SavedBy, body: list[Json] | Json) -> Saved:
    """Add messages of a client, or replace those of the same ids; the chat begins with them."""
    return _save(stores, asked, [body] if isinstance(body, dict) else body, whole=False)


def put_ui_messages(stores: Stores, asked: SavedBy, body: list[Json]) -> Saved:
    """Save all that a client shows: what it no longer has is hidden."""
    return _save(stores, asked, body, whole=True)


def _save(stores: Stores, asked: SavedBy, messages: list[Any], *, whole: bool) -> Saved:
    chat = stores.chat("begin")
    session, is_new = open_chat(chat, asked.chat_id, agent=asked.agent, model={})
    try:
        return Saved(changed=save_messages(chat, session, messages, whole=whole))
    except BaseException:
        if is_new:  # what was refused leaves nothing behind
            chat.delete(session)
        raise


VERBS: Final = (
    verb("GET", "/chat/{chat_id}/stop", doing),
    verb("POST", "/chat/{chat_id}/stop", stop, 202),
    verb("GET", "/chat/{chat_id}/ui-messages", ui_messages),
    verb("POST", "/chat/{chat_id}/ui-messages", add_ui_messages),
    verb("PUT", "/chat/{chat_id}/ui-messages", put_ui_messages),
)
ROUTES: Final = (
    Route("/chat/{chat_id}/stream", stream, methods=["GET"]),
    Route("/chat/{chat_id}/record", record, methods=["POST"]),
    *routes_of(VERBS),
)

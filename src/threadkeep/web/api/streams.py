"""Replies as they stream: recorded while they arrive, and resumed by an AI SDK client.

`GET /chat/{chat_id}/stream` speaks the protocol that `useChat` resumes by: 204 when nothing is
recorded, else the chunks of the reply from its first one on, then those that come, then `[DONE]`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.chat.replies import Active, Replies, Reply, active_reply, ask_to_stop
from threadkeep.chat.ui_messages import open_chat, save_messages, settled_messages
from threadkeep.chat.wire.sse import DONE
from threadkeep.home.stores import Stores
from threadkeep.web.api.answering import routes_of
from threadkeep.web.api.opening import changing_chat, has_chat, reading_chat
from threadkeep.web.api.reading import Unfit, read_address
from threadkeep.web.api.recording import AGENT, record
from threadkeep.web.api.verb import Json, Name, Strict, verb

KEEP_ALIVE_SECONDS: Final = 15.0
_KEEP_ALIVE: Final = b": still here\n\n"
_HEADERS: Final = {
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
_EVENTS: Final = "text/event-stream"
_REASON: Final = "stopped by the user"


class OneClientChat(Strict, frozen=True):
    """A chat, by the id that its client gave it; it is the id of the session."""

    chat_id: Name


class SavedBy(Strict, frozen=True):
    """A chat, and whose it is when it begins."""

    chat_id: Name
    agent: Name = AGENT


class Saved(Strict, frozen=True):
    """How many messages were new, or other than before."""

    changed: int


class Wish(Strict, frozen=True):
    """Which reply to stop, by its run or its message, and why."""

    run_id: Name | None = None
    message_id: Name | None = None
    reason: Name = _REASON


class Doing(Strict, frozen=True):
    """Whether a reply is recorded, which one, and whether it was asked to stop."""

    active: bool
    run_id: str | None = None
    message_id: str | None = None
    stop: bool = False
    reason: str | None = None


# ---------------------------------------------------------------------- resuming


async def stream(request: Request) -> Response:
    """Give the reply that is recorded right now from its first chunk on; 204 if there is none."""
    asked = read_address(OneClientChat, request.query_params.multi_items(), request.path_params)
    stores: Stores = request.app.state.stores
    if not await run_in_threadpool(has_chat, stores):
        return Response(None, 204)
    if request.method == "HEAD":
        found = await run_in_threadpool(_doing, stores, asked.chat_id)
        return Response(None, 204) if found is None else _headed(found.run_id, found.message_id)
    replies = await run_in_threadpool(stores.replies)
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
    """Give what the thread that reads calls when there is more."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it who waited
            loop.call_soon_threadsafe(more.set)

    return wake


async def _events(
    replies: Replies, reply: Reply, more: asyncio.Event, wake: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Give what is there, then what comes; a client that goes away ends only this."""
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
    with reading_chat(stores) as chat:
        return active_reply(chat, chat_id)


def doing(stores: Stores, asked: OneClientChat) -> Doing:
    """Tell whether a reply is recorded in a chat, and whether it was asked to stop."""
    found = _doing(stores, asked.chat_id) if has_chat(stores) else None
    if found is None:
        return Doing(active=False)
    return _told(found)


def stop(stores: Stores, asked: OneClientChat, body: Wish) -> Doing:
    """Ask whoever records a reply to stop; name its run or its message, so that no other ends."""
    guard = frozenset(name for name in (body.run_id, body.message_id) if name is not None)
    if not guard:
        msg = "it is not said which reply is to stop"
        raise Unfit(msg, hint="send its run_id, or its message_id; GET on this address tells them")
    return _told(ask_to_stop(changing_chat(stores), asked.chat_id, guard, body.reason))


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
    """Give a chat as `useChat` begins with it: without the reply that is recorded right now."""
    if not has_chat(stores):
        return []
    with reading_chat(stores) as chat:
        return settled_messages(chat, asked.chat_id)


def add_ui_messages(stores: Stores, asked: SavedBy, body: list[Json] | Json) -> Saved:
    """Add messages of a client, or replace those of the same ids; the chat begins with them."""
    return _save(stores, asked, [body] if isinstance(body, dict) else body, whole=False)


def put_ui_messages(stores: Stores, asked: SavedBy, body: list[Json]) -> Saved:
    """Save all that a client shows: what it no longer has is hidden."""
    return _save(stores, asked, body, whole=True)


def _save(stores: Stores, asked: SavedBy, messages: list[Any], *, whole: bool) -> Saved:
    chat = stores.chat()
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

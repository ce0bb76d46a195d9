"""Verbs called by their names: what the remote client speaks, and where its recorders are kept.

`POST /call/{store}/{verb}` takes the arguments as a JSON object and gives the store's own answer. A
verb that streams, or one that is asked to tell how far it is (`Prefer: progress`), answers in JSON
lines: `[value]` is a piece or the answer, `{"progress": […]}` a step, `{"problem": {…}}` the end.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.aio import AsyncChatStore
from threadkeep.base import json
from threadkeep.base.clock import now_ms
from threadkeep.base.ids import IdSource
from threadkeep.base.verb_table import Json, Verb, find_verb
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Event
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.home.stores import Stores
from threadkeep.verbs import CHAT, TABLES
from threadkeep.web.answers import (
    JSON_TYPE,
    LINES_TYPE,
    OF_PYTHON,
    as_json,
    kind_of,
    last_line,
    problem,
    problem_of,
    told_lines,
    wants_progress,
)

log = logging.getLogger(__name__)

_BAD: Final = 400
_ALIVE_SECONDS: Final = 15.0
_IDLE_SECONDS: Final = 900.0  # after which a recorder that nobody feeds is closed


async def call(request: Request) -> Response:
    """Call a verb by its name."""
    one = _meant(request)
    given = one.named(_object(await request.body()))
    if (one.owner, one.name) == (CHAT, "tail"):
        return await _tailed(request, given)
    return await run_in_threadpool(_called, request, one, given)


def _meant(request: Request) -> Verb:
    store, name = request.path_params["store"], request.path_params["verb"]
    if store not in TABLES:
        raise NotFound(f"there is no store {store[:80]!r}", hint=f"there are {', '.join(TABLES)}")
    return find_verb(TABLES[store], store, name)


def _called(request: Request, one: Verb, given: Json) -> Response:
    stores: Stores = request.app.state.stores
    if one.progresses and wants_progress(request):
        lines = told_lines(lambda told: stores.call(one, {**given, "progress": told}))
        return StreamingResponse(lines, media_type=LINES_TYPE)
    try:
        answer = stores.call(one, given)
        if one.streams:
            pieces = (as_json([piece]) + b"\n" for piece in answer)
            first = next(pieces, b"")  # so that a refusal has its own status
            return StreamingResponse(_chained(first, pieces), media_type=LINES_TYPE)
        return _answered(answer)
    except ThreadkeepError:
        raise
    except OF_PYTHON as error:
        return _refused(error)


def _object(raw: bytes) -> Json:
    given = json.decode(raw or b"{}")
    if not isinstance(given, dict):
        raise Invalid("the body is not an object", hint="send the arguments by their names")
    return given


def _answered(answer: Any) -> Response:
    return Response(as_json(answer), 200, media_type=JSON_TYPE)


def _refused(error: Exception) -> Response:
    if isinstance(error, ThreadkeepError):
        return problem_of(error, called=True)
    return problem(_BAD, str(error), kind=kind_of(error))


# ---------------------------------------------------------------------- piece by piece


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    try:
        yield from rest
    except ThreadkeepError as error:  # what was sent cannot be taken back
        yield last_line(error)


async def _tailed(request: Request, given: Json) -> Response:
    """Follow a session as long as the client does: a tail that waits holds no thread."""
    stores: Stores = request.app.state.stores
    face = AsyncChatStore(await run_in_threadpool(stores.chat, "ask"))
    try:
        await face.session(given.get("session", ""))  # so that a refusal has its own status
        events = face.tail(**given)
    except BaseException as error:
        face.pools.let_go()
        if isinstance(error, TypeError):
            return _refused(error)
        raise
    return StreamingResponse(_followed(face, events), media_type=LINES_TYPE)


async def _followed(face: AsyncChatStore, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    coming: asyncio.Future[Event | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({coming}, timeout=_ALIVE_SECONDS)
            if not coming.done():
                yield b"\n"
                continue
            event, coming = coming.result(), None
            if event is None:
                return
            yield as_json([event]) + b"\n"
    except ThreadkeepError as error:
        yield last_line(error)
    finally:
        if coming is not None:
            coming.cancel()
        face.pools.let_go()


# ---------------------------------------------------------------------- recorders


class _Kept:
    """A recorder that a client feeds, one chunk after the other."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.turn = threading.Lock()
        self.used = time.monotonic()


class Recordings:
    """The recorders of clients; one that nobody feeds for a quarter of an hour is closed."""

    def __init__(self) -> None:
        self._ids = IdSource(now_ms)
        self._guard = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def begin(self, recorder: Recorder) -> str:
        """Keep a recorder; give what names it."""
        self._close_idle()
        name = self._ids.new("rec")
        with self._guard:
            self._kept[name] = _Kept(recorder)
        return name

    def use(self, name: str, act: Callable[[Recorder], Any]) -> Any:
        """Do something with a recorder, in turn."""
        self._close_idle(besides=name)
        with self._guard:
            kept = self._kept.get(name)
        if kept is None:
            msg = f"there is no recorder {name[:80]!r}, or it has ended"
            raise NotFound(msg, hint="start another; what was fed is stored")
        with kept.turn:
            kept.used = time.monotonic()
            return act(kept.recorder)

    def end(self, name: str) -> None:
        """Forget a recorder that was closed."""
        with self._guard:
            self._kept.pop(name, None)

    def close(self) -> None:
        """Close all that are left: their clients cannot continue."""
        self._close_those(list(self._kept))

    def _close_idle(self, besides: str = "") -> None:
        latest = time.monotonic() - _IDLE_SECONDS
        kept = [(name, one.used) for name, one in list(self._kept.items()) if name != besides]
        self._close_those([name for name, used in kept if used < latest])

    def _close_those(self, names: list[str]) -> None:
        for name in names:
            with self._guard:
                kept = self._kept.pop(name, None)
            if kept is not None:
                with kept.turn:
                    _close_left(kept.recorder)


def _close_left(recorder: Recorder) -> None:
    """Close a recorder whose client is gone; its trouble is nobody else's."""
    try:
        recorder.close()
    except ThreadkeepError as error:
        log.warning("a recording that its client left could not be closed: %s", error)


class _RemoteError(Exception):
    """Why a client's recording ended, in the words of the client."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self._told = told

    def __repr__(self) -> str:
        return self._told


class _RemoteStop(_RemoteError, KeyboardInterrupt):
    """Somebody stopped a client."""


async def begin_recording(request: Request) -> Response:
    """Begin to record a reply; the answer names the recorder."""
    raw = await request.body()
    return await run_in_threadpool(_begun, request, raw)


def _begun(request: Request, raw: bytes) -> Response:
    stores: Stores = request.app.state.stores
    try:
        recorder = stores.chat("change").record(**_object(raw))
    except TypeError as error:
        return _refused(error)
    name = _recordings(request).begin(recorder)
    return _answered({"recording": name, **_state(recorder)})


def _recordings(request: Request) -> Recordings:
    found: Recordings = request.app.state.recordings
    return found


def _state(recorder: Recorder) -> Json:
    return {
        "session_id": recorder.session_id,
        "run_id": recorder.run_id,
        "message_id": recorder.message_id,
        "violations": recorder.violations,
        "violation_count": recorder.violation_count,
        "strict": recorder.strict,
        "protocol": recorder.protocol,
    }


async def feed_recording(request: Request) -> Response:
    """Do one step of a recorder: feed, sse, flush, abort, close; `message` gives what there is."""
    raw = await request.body()
    return await run_in_threadpool(_stepped, request, raw)


def _stepped(request: Request, raw: bytes) -> Response:
    name, step = request.path_params["recording"], request.path_params["step"]
    if step not in _STEPS:
        raise NotFound(f"a recorder has no {step[:80]!r}", hint=f"it has {', '.join(_STEPS)}")
    recordings = _recordings(request)

    def act(recorder: Recorder) -> Json:
        _STEPS[step](recorder, raw)
        found = _state(recorder)
        return {**found, "message": recorder.message} if step == "message" else found

    found = recordings.use(name, act)
    if step == "close":
        recordings.end(name)
    return _answered(found)


def _close(recorder: Recorder, raw: bytes) -> None:
    told = _object(raw)
    if told.get("error") is None:
        recorder.close()
        return
    kind = _RemoteStop if told.get("stopped") else _RemoteError
    recorder.close(kind(str(told["error"])))


_STEPS: Final[dict[str, Callable[[Recorder, bytes], None]]] = {
    "feed": lambda recorder, raw: recorder.feed(_object(raw).get("chunk")),  # type: ignore[arg-type]
    "sse": lambda recorder, raw: recorder.feed_sse(raw),
    "flush": lambda recorder, _: recorder.flush(),
    "abort": lambda recorder, raw: recorder.abort(_object(raw).get("reason")),
    "message": lambda _, __: None,
    "close": _close,
}

ROUTES: Final = (
    Route("/call/{store}/{verb}", call, methods=["POST"]),
    Route("/recordings", begin_recording, methods=["POST"]),
    Route("/recordings/{recording}/{step}", feed_recording, methods=["POST"]),
)

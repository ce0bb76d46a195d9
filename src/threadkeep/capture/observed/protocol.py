"""What is said over the socket: requests and responses as typed values, and as Hippo's JSON.

Every message is `{"type": NAME, "data": ...}`; one that has nothing to add has only its type.
"""

import re
from typing import Annotated, Any, Final, TypeVar

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.capture.observed.envelopes import convert, cut
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Heartbeat, Watch

DEFAULT_ROWS: Final = 50
MOST_ROWS: Final = 10_000
LONGEST_WATCH: Final = 30 * 86_400  # seconds
HEARTBEAT_SOURCES: Final = (
    "agentic-session-claude",
    "browser",
    "claude-tool",
    "shell",
    "watchdog",
)
_LONGEST_ERROR: Final = 512  # characters
_SHA: Final = re.compile(r"[0-9A-Fa-f]{4,64}", re.ASCII)
_REPO: Final = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_HINT: Final = 'send {"type": NAME, "data": ...}'

_Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Words = Annotated[str, msgspec.Meta(max_length=4096)]  # what SQLite is asked to look for
_T = TypeVar("_T")


class IngestEvent(msgspec.Struct, frozen=True):
    """Take an event; there is no answer. What is in the envelope, `envelopes` can tell."""

    envelope: dict[str, Any]


class GetStatus(msgspec.Struct, frozen=True):
    """Ask how it is going."""


class GetSessions(msgspec.Struct, frozen=True):
    """The newest sessions."""

    since_ms: _Int | None = None
    limit: _Count | None = None


class GetEvents(msgspec.Struct, frozen=True):
    """The newest commands."""

    session_id: _Int | None = None  # the row's number, not the UUID
    since_ms: _Int | None = None
    project: _Words | None = None  # a piece of the folder's path
    limit: _Count | None = None


class GetEntities(msgspec.Struct, frozen=True):
    """What the knowledge mentions."""

    entity_type: _Words | None = None


class RawQuery(msgspec.Struct, frozen=True):
    """Commands with this text in them."""

    text: _Words


class RegisterWatchSha(msgspec.Struct, frozen=True):
    """Wait for the CI runs of a commit."""

    sha: str
    repo: str
    ttl_secs: _Count


class UpdateSourceHealthHeartbeat(msgspec.Struct, frozen=True):
    """A producer's heartbeat."""

    source: str
    ts: _Int
    last_error_msg: str | None = None  # what went wrong with it last; None: all is well


class Shutdown(msgspec.Struct, frozen=True):
    """Store what you have, then end."""


Request = (
    IngestEvent
    | GetStatus
    | GetSessions
    | GetEvents
    | GetEntities
    | RawQuery
    | RegisterWatchSha
    | UpdateSourceHealthHeartbeat
    | Shutdown
)


class Ack(msgspec.Struct, frozen=True):
    """It is done."""


class CollectorStatus(msgspec.Struct, frozen=True):
    """How it is going; days begin at midnight UTC."""

    version: str = ""
    uptime_secs: int = 0
    events_today: int = 0
    sessions_today: int = 0
    queue_depth: int = 0
    queue_failed: int = 0
    drop_count: int = 0
    inference_reachable: bool = False
    brain_reachable: bool = False
    db_size_bytes: int = 0
    fallback_files_pending: int = 0


class SessionInfo(msgspec.Struct, frozen=True):
    """One session of a shell."""

    id: int
    start_time: int
    end_time: int | None
    hostname: str
    shell: str
    event_count: int
    summary: str | None


class EventInfo(msgspec.Struct, frozen=True):
    """One command."""

    id: int
    session_id: int
    timestamp: int
    command: str
    exit_code: int | None
    duration_ms: int
    cwd: str
    git_branch: str | None
    enriched: bool


class EntityInfo(msgspec.Struct, frozen=True):
    """One thing that the knowledge mentions."""

    id: int
    entity_type: str
    name: str
    canonical: str | None
    first_seen: int
    last_seen: int


class QueryHit(msgspec.Struct, frozen=True):
    """One command that was found."""

    event_id: int
    command: str
    cwd: str
    timestamp: int
    relevance: str


class Sessions(msgspec.Struct, frozen=True):
    """The sessions that were asked for."""

    rows: list[SessionInfo]


class Events(msgspec.Struct, frozen=True):
    """The commands that were asked for."""

    rows: list[EventInfo]


class Entities(msgspec.Struct, frozen=True):
    """The entities that were asked for."""

    rows: list[EntityInfo]


class QueryResult(msgspec.Struct, frozen=True):
    """The commands that were found."""

    rows: list[QueryHit]


class Error(msgspec.Struct, frozen=True):
    """Why a request was not answered."""

    message: str


Rows = Sessions | Events | Entities | QueryResult
Response = Ack | CollectorStatus | Rows | Error

_REQUESTS: Final[dict[str, type[Request]]] = {
    kind.__name__: kind
    for kind in (
        *(GetStatus, GetSessions, GetEvents, GetEntities, RawQuery),
        *(RegisterWatchSha, UpdateSourceHealthHeartbeat, Shutdown),
    )
}
_ROWS: Final[dict[str, type[Rows]]] = {
    kind.__name__: kind for kind in (Sessions, Events, Entities, QueryResult)
}


class _Message(msgspec.Struct):
    type: str
    data: Any = None


def decode_request(raw: bytes) -> Request:
    """Read a request; Invalid says what is wrong with it."""
    message = _read(decode(raw), _Message, "the request")
    if message.type == "IngestEvent":
        if not isinstance(message.data, dict):
            raise Invalid("IngestEvent holds no envelope", hint="its data is the envelope")
        return IngestEvent(message.data)
    kind = _REQUESTS.get(message.type)
    if kind is None:
        msg = f"there is no request {cut(message.type, 60)!a}"
        raise Invalid(msg, hint="known: " + ", ".join(("IngestEvent", *_REQUESTS)))
    return _read({} if message.data is None else message.data, kind, message.type)


def encode_request(request: Request) -> bytes:
    """Write a request."""
    if isinstance(request, IngestEvent):
        return _write("IngestEvent", request.envelope)
    fields = msgspec.structs.asdict(request)
    if isinstance(request, UpdateSourceHealthHeartbeat) and request.last_error_msg is None:
        del fields["last_error_msg"]  # older daemons do not know it
    return _write(type(request).__name__, fields or None)


def decode_response(raw: bytes) -> Response:
    """Read a response, of an older Hippo too."""
    message = _read(decode(raw), _Message, "the response")
    match message.type:
        case "Ack":
            return Ack()
        case "Error":
            return Error(_read(message.data, str, "the error"))
        case "Status" if isinstance(message.data, dict):
            older = {"inference_reachable": message.data.get("lmstudio_reachable", False)}
            return _read(older | message.data, CollectorStatus, "the status")
        case name if name in _ROWS:
            return _read({"rows": message.data}, _ROWS[name], name)
    raise Invalid(f"there is no response {cut(message.type, 60)!a}", hint=_HINT)


def encode_response(response: Response) -> bytes:
    """Write a response; a status has the older name of one field as well."""
    name = type(response).__name__
    match response:
        case Ack():
            return _write(name, None)
        case Error(message):
            return _write(name, message)
        case CollectorStatus():
            older = {"lmstudio_reachable": response.inference_reachable}
            return _write("Status", msgspec.structs.asdict(response) | older)
    return _write(name, [msgspec.structs.asdict(row) for row in response.rows])


def rows_wanted(limit: int | None) -> int:
    """Tell how many rows a request gets: fifty unless it says, and never without end."""
    return DEFAULT_ROWS if limit is None else min(limit, MOST_ROWS)


def watch_of(request: RegisterWatchSha, now: int) -> Watch:
    """Read what to wait for, from now on."""
    if not _SHA.fullmatch(request.sha):
        shown = cut(request.sha, 80)
        raise Invalid(f"{shown!a} is not a commit", hint="send its hexadecimal id")
    if not _REPO.fullmatch(request.repo):
        shown = cut(request.repo, 80)
        raise Invalid(f"{shown!a} is not a repository", hint="send owner/name")
    ttl = min(request.ttl_secs, LONGEST_WATCH)
    return Watch(sha=request.sha.lower(), repo=request.repo, at=now, ttl_secs=ttl)


def heartbeat_of(request: UpdateSourceHealthHeartbeat) -> Heartbeat:
    """Read a heartbeat; only those who have reason to give one may."""
    if request.source not in HEARTBEAT_SOURCES:
        msg = f"{cut(request.source, 80)!a} gives no heartbeat"
        raise Invalid(msg, hint="known: " + ", ".join(HEARTBEAT_SOURCES))
    return Heartbeat(source=request.source, at=request.ts, error=error_of(request.last_error_msg))


def error_of(said: str | None) -> str | None:
    """Give as much of a producer's error as is kept."""
    return said[:_LONGEST_ERROR] if said else None


def _write(name: str, data: Any) -> bytes:
    return encode({"type": name} if data is None else {"type": name, "data": data}).encode()


def _read(value: Any, shape: type[_T], what: str) -> _T:
    return convert(value, shape, what, _HINT)

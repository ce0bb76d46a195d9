"""What a relay must know of a session to go on with it at another server.

A client speaks to one server. When that goes away, the next one is told again how the session
began, and is asked again what had no answer yet. All values are plain, and nothing is changed in
place.
"""

from typing import Any, Final, NamedTuple

import msgspec

WRITING: Final = frozenset({"remember"})  # asked twice, it would be done twice
_INTERNAL: Final = -32603


class _Params(msgspec.Struct):
    name: Any = None
    request_id: Any = msgspec.field(name="requestId", default=None)


class _Message(msgspec.Struct):
    """As much of a JSON-RPC message as a relay looks at."""

    id: Any = None
    method: str | None = None
    params: Any = None


class SessionLog(NamedTuple):
    """How a session began, and what is open in it; ids are kept as JSON."""

    beginning: bytes | None = None  # the request `initialize`
    begun: bytes | None = None  # the notification that follows its answer
    answered: bool = False  # the client has the answer to `initialize`
    pending: tuple[tuple[bytes, bytes], ...] = ()  # id and request, in the order they came


class Resumed(NamedTuple):
    """What to tell the next server, and what to tell the client itself."""

    log: SessionLog
    to_server: tuple[bytes, ...]
    to_client: tuple[bytes, ...]
    swallowed: bytes | None  # the id of an answer that the client has already


def sent(log: SessionLog, line: bytes) -> SessionLog:
    """Note what a client said."""
    message = _read(line)
    if message is None or message.method is None:
        return log
    if message.method == "notifications/initialized":
        return log._replace(begun=line)
    if message.method == "notifications/cancelled":
        return _without(log, _id(_params(message).request_id))
    if message.id is None:
        return log
    if message.method == "initialize":
        log = log._replace(beginning=line, answered=False)
    return log._replace(pending=(*log.pending, (_id(message.id), line)))


def received(log: SessionLog, line: bytes) -> SessionLog:
    """Note what a server said."""
    answered = answer_id(line)
    if answered is None:
        return log
    if log.beginning is not None and answered == _id_of(log.beginning):
        log = log._replace(answered=True)
    return _without(log, answered)


def answer_id(line: bytes) -> bytes | None:
    """Give the id of what a message answers, None if it is no answer."""
    message = _read(line)
    if message is None or message.method is not None or message.id is None:
        return None
    return _id(message.id)


def resumed(log: SessionLog) -> Resumed:
    """Tell how to go on at another server."""
    first = _id_of(log.beginning) if log.beginning is not None else None
    again = [(number, line) for number, line in log.pending if number != first]
    safe = [line for _, line in again if not _writes(line)]
    lost = [number for number, line in again if _writes(line)]
    begin = [line for line in (log.beginning, log.begun) if line is not None]
    kept = tuple(entry for entry in log.pending if entry[0] not in lost)
    swallowed = first if log.answered else None
    return Resumed(
        log._replace(pending=kept),
        (*begin, *safe),
        tuple(_unknown_end(number) for number in lost),
        swallowed,
    )


def failed(log: SessionLog, why: str) -> tuple[bytes, ...]:
    """Answer everything that is open with an error."""
    return tuple(_error(number, why) for number, _ in log.pending)


# ---------------------------------------------------------------------- inside


def _read(line: bytes) -> _Message | None:
    try:
        return msgspec.json.decode(line, type=_Message)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _params(message: _Message) -> _Params:
    try:
        return msgspec.convert(message.params or {}, _Params)
    except msgspec.ValidationError:
        return _Params()


def _id(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _id_of(line: bytes) -> bytes | None:
    message = _read(line)
    return None if message is None else _id(message.id)


def _without(log: SessionLog, number: bytes) -> SessionLog:
    return log._replace(pending=tuple(one for one in log.pending if one[0] != number))


def _writes(line: bytes) -> bool:
    message = _read(line)
    if message is None or message.method != "tools/call":
        return False
    return _params(message).name in WRITING


def _unknown_end(number: bytes) -> bytes:
    why = "the server ended while it wrote; look with recall whether the note is there"
    return _error(number, why)


def _error(number: bytes, why: str) -> bytes:
    told = {"code": _INTERNAL, "message": why}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": msgspec.Raw(number), "error": told})

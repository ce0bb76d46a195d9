"""The native-messaging host: a browser starts it, sends what was read, and gets short answers.

Standard output belongs to the browser: whoever calls `serve` must see to it that nothing else in
the process prints there.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from threadkeep.base.clock import Clock
from threadkeep.base.frames import NATIVE_LIMIT, FrameDecoder, encode_frame
from threadkeep.base.json import decode, encode
from threadkeep.collect.protocol import error_of
from threadkeep.collect.visits import VisitRejection, VisitRules, time_in, visit_of
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge
from threadkeep.knowledge.observed import Heartbeat, Observed

Deliver = Callable[[Observed], object]

_CHUNK: Final = 1 << 16
_ORIGIN: Final = re.compile(r"chrome-extension://[a-p]{32}/")
_SHOWN: Final = 200


class ByteSource(Protocol):
    """What messages are read from: `sys.stdin.buffer`, for example."""

    def read1(self, size: int, /) -> bytes:
        """Give what is there, at most `size` bytes; nothing means the end."""


class ByteSink(Protocol):
    """What answers are written to: `sys.stdout.buffer`, for example."""

    def write(self, data: bytes, /) -> int:
        """Take all of the bytes."""

    def flush(self) -> None:
        """Send them on their way."""


def check_caller(arguments: Sequence[str]) -> None:
    """Refuse arguments that no browser passes.

    Chromium names the extension's origin, Firefox the manifest and the extension's id. Which
    extension may call is in the manifest; the browser has seen to that before it started us.
    """
    match arguments:
        case [] | [_, _]:
            return
        case [origin, *_] if _ORIGIN.fullmatch(origin):
            return
    raise Invalid(
        "the native-messaging host was called with arguments that no browser passes",
        hint="a browser starts it; set it up with `threadkeep browser install`",
    )


def serve(
    stdin: ByteSource, stdout: ByteSink, rules: VisitRules, deliver: Deliver, clock: Clock
) -> None:
    """Answer a browser's messages, one after the other, until it closes its side.

    A wrong length ends it after one answer: nobody can tell where the next message begins.
    """
    frames = FrameDecoder(limit=NATIVE_LIMIT, order="native")
    try:
        while data := stdin.read1(_CHUNK):
            frames.feed(data)
            for message in iter(frames.take, None):
                _send(stdout, answer(message, rules, deliver, clock))
    except TooLarge as error:
        _send(stdout, _error(error.message))
    except BrokenPipeError:  # the browser is gone, and what it sent is kept
        return


def answer(message: bytes, rules: VisitRules, deliver: Deliver, clock: Clock) -> dict[str, Any]:
    """Do what one message asks for, and give the answer to it."""
    try:
        found = _understood(message, rules, clock())
    except Invalid as error:
        return _error(error.message)
    if isinstance(found, dict):
        return found
    if isinstance(found, VisitRejection):
        return {"status": "filtered"}
    try:
        deliver(found)
    except (ThreadkeepError, OSError) as error:
        # Its own words may name folders of this machine, and a browser is not the place for them.
        return _error(f"threadkeep could not keep it: {type(error).__name__}")
    return {"status": "ok"}


def _understood(
    message: bytes, rules: VisitRules, now_ms: int
) -> Observed | VisitRejection | dict[str, Any]:
    """Read one message: something to deliver, something left out, or the answer itself."""
    value = decode(message)
    if not isinstance(value, dict):
        raise Invalid("a message must be a JSON object", hint="send one object per message")
    match value.get("type"):
        case "heartbeat":
            said = value.get("last_error_msg")
            error = error_of(said if isinstance(said, str) else None)
            return Heartbeat("browser", time_in(value, "sent_at_ms", now_ms), error)
        case "config":
            return _configuration(rules)
        case _:  # older extensions name visits in other ways, or not at all
            return visit_of(value, rules, now_ms)


def _configuration(rules: VisitRules) -> dict[str, Any]:
    """Tell the extension what it need not send at all."""
    return {
        "status": "ok",
        "enabled": rules.enabled,
        "domains": list(rules.domains),
        "exclude": list(rules.exclude),
        "min_dwell_ms": rules.min_dwell_ms,
    }


def _error(said: str) -> dict[str, Any]:
    return {"status": "error", "error": said[:_SHOWN]}


def _send(stdout: ByteSink, reply: dict[str, Any]) -> None:
    body = encode(reply).encode()
    if len(body) > NATIVE_LIMIT:  # a browser would end the connection
        body = encode(_error("the answer is too large for a browser")).encode()
    stdout.write(encode_frame(body, limit=NATIVE_LIMIT, order="native"))
    stdout.flush()

"""Answers: JSON, problems, and tags by which a client knows that nothing has changed."""

import hashlib
import math
import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from html import escape
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from threadkeep.base import json
from threadkeep.base.verb_table import Verb, plain, said_by
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.verbs import each_verb
from threadkeep.web.guard import RequestRefusal

JSON_TYPE: Final = "application/json"
LINES_TYPE: Final = "application/x-ndjson"
TEXT_TYPE: Final = "text/plain"
_WORDS: Final = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    414: "address_too_long",
    415: "media_type",
    421: "wrong_host",
    422: "unprocessable",
    429: "too_many",
    431: "headers_too_large",
    503: "busy",
    507: "full",
}
_EXTRA: Final = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}}
_LOCKED: Final = (
    "<!doctype html><html lang=en><head><meta charset=utf-8>"
    "<meta name=viewport content='width=device-width, initial-scale=1'>"
    "<meta name=color-scheme content='light dark'><title>threadkeep</title></head>"
    "<body><main><h1>threadkeep</h1><p>{message}</p><p>{hint}</p></main></body></html>"
)


class WebProblem(msgspec.Struct, frozen=True):
    """What went wrong, as every failed call of the API says it."""

    error: str  # a word for programs
    message: str  # for people
    hint: str = ""
    kind: str = ""  # the class of the error, for the client that raises it again


def problem(status: int, message: str, hint: str = "", kind: str = "") -> Response:
    """Say what went wrong, for programs."""
    body = WebProblem(_WORDS.get(status, "failed"), message, hint, kind)
    return Response(as_json(body), status, media_type=JSON_TYPE)


def problem_of(error: ThreadkeepError, *, called: bool = False) -> Response:
    """Say what a store refused; who `called` a verb by its name reads Python's words."""
    hint = error.hint if called else said_by(error.hint, each_verb(), _address)
    return problem(error.http_status, error.message, hint, kind_of(error))


def _address(one: Verb, argument: str, value: str) -> str:
    address = f"{one.method} /api{one.path}" if one.path else ""
    return f"{address} with {argument}={value.lower()}" if address and argument else address


def kind_of(error: Exception) -> str:
    """Name the class of an error so that it can be found again."""
    return f"{type(error).__module__}:{type(error).__qualname__}"


def as_json(value: Any) -> bytes:
    """Write records and plain values as JSON, whatever text and numbers are in them."""
    given = plain(value)
    try:
        return json.encode(given).encode()
    except Invalid:
        return json.encode(_finite(given)).encode()


def _finite(value: Any) -> Any:
    """Copy a value: a number that JSON does not know becomes its name."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def json_answer(request: Request, value: Any, status: int = 200) -> Response:
    """Answer with JSON and its tag; 304 to who has it already."""
    return tagged(request, as_json(value), JSON_TYPE, status)


def tagged(request: Request, body: bytes, media_type: str, status: int = 200) -> Response:
    """Answer with a tag made of the content."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    if request.method in {"GET", "HEAD"} and status == HTTPStatus.OK:
        if tag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers={"etag": tag})
        return Response(body, status, headers={"etag": tag}, media_type=media_type)
    return Response(body, status, media_type=media_type)


# ------------------------------------------------------------------------------
# Long work that tells how far it is: a JSON line for each step, then one with the answer.

# What a store's function says of arguments that it cannot use; the client raises the same again.
OF_PYTHON: Final = (
    *(ValueError, TypeError, AttributeError, LookupError),
    *(ArithmeticError, RuntimeError),
)


def wants_progress(request: Request) -> bool:
    """Tell whether a client asked to hear how far the work is."""
    return "progress" in request.headers.get("prefer", "")


def told_lines(run: Callable[[Callable[..., None]], Any]) -> Iterator[bytes]:
    """Run something in a thread; give a line for each step that it tells, then its answer."""
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def told(*step: Any) -> None:
        lines.put(as_json({"progress": list(step)}) + b"\n")

    def work() -> None:
        try:
            lines.put(as_json([run(told)]) + b"\n")
        except (ThreadkeepError, *OF_PYTHON) as error:
            lines.put(last_line(error))
        finally:
            lines.put(None)

    # The thread belongs to the question: its stores stay open until this is answered.
    work_here = copy_context().run
    threading.Thread(target=work_here, args=(work,), name="threadkeep-call", daemon=True).start()
    while (line := lines.get()) is not None:
        yield line


def last_line(error: Exception) -> bytes:
    """Say at the end of lines what went wrong: what was sent cannot be taken back."""
    hint = error.hint if isinstance(error, ThreadkeepError) else ""
    message = error.message if isinstance(error, ThreadkeepError) else str(error)
    return as_json({"problem": WebProblem("failed", message, hint, kind_of(error))}) + b"\n"


def wants_page(headers: dict[str, str]) -> bool:
    """Tell a browser that shows a page from a program."""
    return "text/html" in headers.get("accept", "")


def refusal(refused: RequestRefusal, headers: dict[str, str]) -> Response:
    """Say that a request is not let in; a browser gets a page without anything to load."""
    if wants_page(headers):
        hint, message = escape(refused.hint), escape(refused.message)
        text = _LOCKED.format(message=message, hint=hint)
        answer: Response = HTMLResponse(text, refused.status)
    else:
        answer = problem(refused.status, refused.message, refused.hint)
    answer.headers.update(_EXTRA.get(refused.status, {}))
    return answer

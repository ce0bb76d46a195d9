"""One endpoint for each address of the API: it reads the request, calls the verb, answers."""

from collections.abc import Iterable, Iterator, MutableMapping
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.base import json
from threadkeep.errors import Invalid
from threadkeep.web.answers import JSON_TYPE, problem, tagged
from threadkeep.web.api.openapi import LINES_TYPE
from threadkeep.web.api.reading import read_address, read_body
from threadkeep.web.api.verb import GivenLines, Lines, Verb
from threadkeep.web.gate import Receive, Send
from threadkeep.web.lane import Reads

_TAKEN: Final = {True: LINES_TYPE, False: JSON_TYPE}
_PIECE: Final = 64 * 1024


class Endpoint:
    """The verbs of one address, by method."""

    def __init__(self, verbs: Iterable[Verb]) -> None:
        self._verbs: dict[str, Verb] = {one.method: one for one in verbs}
        reads = ["HEAD"] if "GET" in self._verbs else []
        self._allowed = ", ".join([*self._verbs, *reads, "OPTIONS"])

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        answer = await self._answer(request)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS":
            return Response(None, 204, headers={"allow": self._allowed})
        if method not in self._verbs:
            refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, "that cannot be done here")
            refused.headers["allow"] = self._allowed
            return refused
        one = self._verbs[method]
        if one.reads:
            reads: Reads = request.app.state.reads
            return await reads.answer(request, partial(_done, one, raw=b""), kept=one.kept)
        raw = b"" if one.body is None else await request.body()
        return await run_in_threadpool(_done, one, request, raw)


def _done(one: Verb, request: Request, raw: bytes) -> Response:
    pairs = request.query_params.multi_items()
    given: list[Any] = [read_address(one.asked, pairs, request.path_params)]
    if one.body is not None:
        taken = _TAKEN[one.body is GivenLines]
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != taken:
            return problem(415, f"the body must be {taken}")
        given.append(_lines(raw) if one.body is GivenLines else read_body(one.body, raw))
    return _written(one, request, one.call(request.app.state.stores, *given))


def _lines(raw: bytes) -> GivenLines:
    if not raw.strip():
        raise Invalid("the body is empty", hint="send what an export gave")
    return GivenLines(raw)


def _written(one: Verb, request: Request, answer: Any) -> Response:
    if isinstance(answer, Lines):
        return StreamingResponse(_pieces(answer.lines), one.status, media_type=LINES_TYPE)
    plain = msgspec.to_builtins(answer, enc_hook=_plain)
    return tagged(request, json.encode(plain).encode(), JSON_TYPE, one.status)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(type(value))


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    """Give lines in pieces worth sending; the first is made now, so that a refusal is said."""
    rest = iter(lines)
    first = next(rest, None)
    return _joined(chain([first], rest)) if first is not None else iter(())


def _joined(lines: Iterable[str]) -> Iterator[bytes]:
    held = bytearray()
    for line in lines:
        held += line.rstrip("\n").encode("utf-8", "replace") + b"\n"
        if len(held) >= _PIECE:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def routes_of(verbs: Iterable[Verb]) -> list[Route]:
    """Give a route for each address; one with a name in it comes behind the plain ones."""
    by_path: dict[str, list[Verb]] = {}
    for one in verbs:
        by_path.setdefault(one.path, []).append(one)
    plain_first = sorted(by_path, key=lambda path: path.count("{"))
    return [Route(path, Endpoint(by_path[path])) for path in plain_first]

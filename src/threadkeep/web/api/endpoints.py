"""One endpoint for each address of the API: it reads the request, calls the verb, answers."""

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from threadkeep.base import json
from threadkeep.base.old_words import renamed, today
from threadkeep.base.verbs import fault_words
from threadkeep.errors import Invalid
from threadkeep.web import aliases
from threadkeep.web.answers import (
    JSON_TYPE,
    LINES_TYPE,
    TEXT_TYPE,
    as_json,
    problem,
    tagged,
    told_lines,
    wants_progress,
)
from threadkeep.web.api.verb import ApiVerb, GivenLines, Lines
from threadkeep.web.gate import Receive, Send
from threadkeep.web.page import Reads

# ------------------------------------------------------------------------------
# Requests read strictly: what does not fit is refused with the name of the field.

S = TypeVar("S")

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}
_LISTS: Final = (inspect.CollectionType, inspect.VarTupleType)


class Unfit(Invalid):
    """A body is JSON, but not what the verb takes."""

    http_status = 422


def read_address(kind: type[S], pairs: Iterable[tuple[str, str]], path: Mapping[str, str]) -> S:
    """Read what an address says, the names of its path among it."""
    known = {field.encode_name: field.type for field in _fields(kind)}
    given = list(pairs)
    said = {name for name, _ in given}
    found: dict[str, Any] = {}
    for name, text in given:
        new, value = renamed(name, text, known)
        # An old word beside its new one is refused.
        _take(found, known, *((name, text) if new != name and new in said else (new, value)))
    found |= {name: _value(known[name], text) for name, text in path.items()}
    try:
        return msgspec.convert(found, kind, strict=True)
    except msgspec.ValidationError as error:
        reason = fault_words(error, kind, found)
        raise Invalid(f"the address is not valid: {reason}", hint=_hint(known)) from None


def _take(found: dict[str, Any], known: Mapping[str, inspect.Type], name: str, text: str) -> None:
    if name not in known:
        raise Invalid(f"there is no parameter {name[:80]!r} here", hint=_hint(known))
    if isinstance(_bare(known[name]), _LISTS):
        found.setdefault(name, []).append(_value(known[name], text))
    elif name in found:
        raise Invalid(f"the parameter {name!r} was given twice", hint="give it once")
    else:
        found[name] = _value(known[name], text)


def _hint(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"it takes {names}" if names else "it takes no parameters"


def _fields(kind: Any) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(kind)
    return found.fields if isinstance(found, inspect.StructType) else ()


def _value(kind: inspect.Type, text: str) -> Any:
    """Read text as a number or a truth where one is wanted; anything else stays text."""
    wanted = _wanted(kind)
    if isinstance(wanted, inspect.IntType) and _WHOLE.fullmatch(text):
        return int(text)
    if isinstance(wanted, inspect.FloatType) and _DECIMAL.fullmatch(text):
        return float(text)
    if isinstance(wanted, inspect.BoolType):
        return _BOOLEANS.get(text, text)
    return text


def _bare(kind: inspect.Type) -> inspect.Type:
    """Take off what only describes a type."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _wanted(kind: inspect.Type) -> inspect.Type:
    """Look through lists and through "or nothing": an address cannot say nothing."""
    kind = _bare(kind)
    if isinstance(kind, _LISTS):
        return _wanted(kind.item_type)
    if isinstance(kind, inspect.UnionType):
        return _wanted(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    return kind


def read_body(kind: type[S], raw: bytes) -> S:
    """Read a JSON body."""
    value = json.decode(raw)
    if isinstance(value, dict):
        value = today(value, {field.encode_name for field in _fields(kind)})
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(with_whole(value, inspect.type_info(kind)), kind, strict=True)
    except msgspec.ValidationError as error:
        reason = fault_words(error, kind, value)
        raise Unfit(f"the body is not valid: {reason}", hint="see /api/openapi.json") from None


def with_whole(value: Any, kind: inspect.Type) -> Any:
    """Write 8.0 as 8 where a whole number is wanted: to JSON they are the same."""
    kind = _bare(kind)
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    for one in map(_bare, kinds):
        if isinstance(one, inspect.IntType) and isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(one, inspect.StructType) and isinstance(value, dict):
            known = {field.encode_name: field.type for field in one.fields}
            return {
                key: with_whole(item, known[key]) if key in known else item
                for key, item in value.items()
            }
        if isinstance(one, _LISTS) and isinstance(value, list):
            return [with_whole(item, one.item_type) for item in value]
    return value


_TAKEN: Final = {True: LINES_TYPE, False: JSON_TYPE}
_PIECE: Final = 64 * 1024


class Endpoint:
    """The verbs of one address, by method."""

    def __init__(self, verbs: Iterable[ApiVerb]) -> None:
        self._verbs: dict[str, ApiVerb] = {one.method: one for one in verbs}
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


def _done(one: ApiVerb, request: Request, raw: bytes) -> Response:
    pairs = request.query_params.multi_items()
    given: list[Any] = [read_address(one.asked, pairs, request.path_params)]
    if one.body is not None:
        taken = _TAKEN[one.body is GivenLines]
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != taken:
            return problem(415, f"the body must be {taken}")
        given.append(_lines(raw) if one.body is GivenLines else read_body(one.body, raw))
    call = partial(one.call, request.app.state.stores, *given)
    if one.progresses and wants_progress(request):
        lines = told_lines(lambda told: call(progress=told))
        return StreamingResponse(lines, one.status, media_type=LINES_TYPE)
    return _written(one, request, call())


def _lines(raw: bytes) -> GivenLines:
    if not raw.strip():
        raise Invalid("the body is empty", hint="send what an export returned")
    return GivenLines(raw)


def _written(one: ApiVerb, request: Request, answer: Any) -> Response:
    if isinstance(answer, Lines):
        return StreamingResponse(_pieces(answer.lines), one.status, media_type=LINES_TYPE)
    if isinstance(answer, str):
        return tagged(request, answer.encode(), TEXT_TYPE, one.status)
    return tagged(request, as_json(answer), JSON_TYPE, one.status)


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    """Return lines in pieces worth sending; the first is made now, so that a refusal is said."""
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


def routes_of(verbs: Iterable[ApiVerb]) -> list[Route]:
    """Return a route for each address, old ones too; one with a name in it comes last."""
    by_path: dict[str, list[ApiVerb]] = {}
    for one in verbs:
        by_path.setdefault(one.path, []).append(one)
    by_path |= {old: by_path[new] for old, new in aliases.API.items() if new in by_path}
    plain_first = sorted(by_path, key=lambda path: path.count("{"))
    return [Route(path, Endpoint(by_path[path])) for path in plain_first]

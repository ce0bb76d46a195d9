"""The description of the API (OpenAPI 3.1), made of the table of its verbs."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.web.answers import JSON_TYPE, LINES_TYPE, TEXT_TYPE, WebProblem
from threadkeep.web.api.verb import ApiVerb, Empty, GivenLines, Json, Lines

_SCHEMAS: Final = "#/components/schemas/"
_RESPONSES: Final = "#/components/responses/"
_QUALIFIED: Final = re.compile(r"threadkeep\.(\w+)\.(?:\w+\.)*(\w+)")
_PROBLEMS: Final = {
    "400": "The request does not say what it must, or says it wrongly.",
    "401": "No token, or a wrong one.",
    "403": "Not allowed: another page asks, or the store can only be read.",
    "404": "Not found.",
    "409": "A conflict: another writer, or an earlier change.",
    "413": "It is too large.",
    "414": "The address is too long.",
    "415": "The body has another type than this takes.",
    "421": "The server does not answer for that host.",
    "422": "The body is JSON, but does not say what it must.",
    "429": "Too many requests at once.",
    "503": "The store is busy: try again.",
    "507": "The disk is full.",
}
_READ: Final = ("400", "401", "403", "404", "409", "414", "421", "429", "503")
_WRITE: Final = (*_READ, "413", "415", "422", "507")
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "With `progress` a JSON line for each step, then one with the answer in a list.",
}
_ETAG: Final = {
    "etag": {
        "description": "Changes with the content; sent back in If-None-Match it gives a 304.",
        "schema": {"type": "string"},
    }
}


def document(verbs: Sequence[ApiVerb], version: str) -> Json:
    """Describe all verbs, what they take and what they give."""
    kinds = [WebProblem, *(kind for one in verbs for kind in _kinds(one))]
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=_plain_schema, ref_template=_SCHEMAS + "{name}"
    )
    given = iter(schemas[1:])
    paths: dict[str, Json] = {}
    asked = set()
    for one in verbs:
        shapes = [next(given) for _ in _kinds(one)]
        operation = _operation(one, shapes, components)
        paths.setdefault(f"/api{one.path}", {})[one.method.lower()] = operation
        if one.asked is not Empty:
            asked.add(_name_in(shapes[0]))
    parts: Json = {
        "schemas": {name: kind for name, kind in components.items() if name not in asked},
        "responses": {name: _problem(text, schemas[0]) for name, text in _PROBLEMS.items()},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    tags = [{"name": tag} for tag in dict.fromkeys(one.tag for one in verbs)]
    found = {**_head(version), "tags": tags, "paths": paths, "components": parts}
    renamed: Json = _renamed(found, components)
    return renamed


def _head(version: str) -> Json:
    told = "Everything that a home keeps. Lists are pages: `items` and `next`."
    return {
        "openapi": "3.1.0",
        "info": {"title": "threadkeep", "version": version, "description": told},
        "security": [{"token": []}],
    }


def _kinds(one: ApiVerb) -> list[Any]:
    """Return the types of a verb that have a schema: of the address, the body, the answer."""
    body = [] if one.body in (None, GivenLines) else [one.body]
    answer = [] if one.answer is Lines else [one.item or one.answer]
    return [one.asked, *body, *answer]


def _name_in(schema: Json) -> str:
    name: str = schema["$ref"].removeprefix(_SCHEMAS)
    return name


def _plain_schema(kind: type) -> Json:
    if kind is Path:
        return {"type": "string"}
    if kind is object:
        return {"description": "Anything."}
    raise NotImplementedError(kind)


def _operation(one: ApiVerb, schemas: list[Json], components: Json) -> Json:
    asked, *rest = schemas
    shape = components[_name_in(asked)]
    found: Json = {"operationId": one.name, "summary": one.summary, "tags": [one.tag]}
    found["parameters"] = [*_parameters(one, shape), *([_PREFER] if one.progresses else [])]
    if one.body is GivenLines:
        found["requestBody"] = _content(LINES_TYPE, {"type": "string"}, required=True)
    elif one.body is not None:
        found["requestBody"] = _content(JSON_TYPE, rest[0], required=True)
    statuses = _WRITE if one.write else _READ
    found["responses"] = {
        str(one.status): _answer(one, rest[-1:]),
        **({} if one.write or one.answer is Lines else {"304": {"description": "Not changed."}}),
        **{status: {"$ref": _RESPONSES + status} for status in statuses},
    }
    return found


def _parameters(one: ApiVerb, shape: Json) -> Iterable[Json]:
    for name, schema in shape["properties"].items():
        in_path = f"{{{name}}}" in one.path
        plain = _without_null(schema)
        yield {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in shape.get("required", ()),
            "schema": plain,
        }


def _without_null(schema: Json) -> Json:
    """Take out "or null": an address leaves a parameter out instead."""
    kept = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    plain = {key: value for key, value in schema.items() if value is not None and key != "anyOf"}
    if len(kept) == 1:
        return {**kept[0], **plain}
    return {**plain, "anyOf": kept} if kept else plain


def _answer(one: ApiVerb, schema: list[Json]) -> Json:
    if one.answer is Lines:
        content = _content(LINES_TYPE, {"type": "string"})
        return {"description": "One line for each.", **content}
    shape = schema[0] if one.item is None else _page_of(schema[0])
    kind = TEXT_TYPE if one.answer is str else JSON_TYPE
    etag = {} if one.write else {"headers": _ETAG}
    found = {"description": "The answer.", **_content(kind, shape), **etag}
    if one.progresses:
        found["content"][LINES_TYPE] = {"schema": {"type": "string"}}
    return found


def _page_of(item: Json) -> Json:
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["items", "next"],
    }


def _content(media_type: str, schema: Json, **more: Any) -> Json:
    return {"content": {media_type: {"schema": schema}}, **more}


def _problem(description: str, schema: Json) -> Json:
    return {"description": description, **_content(JSON_TYPE, schema)}


def _renamed(value: Any, names: Iterable[str]) -> Any:
    """Shorten the names of types that only their module tells apart; write pairs as lists."""
    short = {name: _short(name) for name in names}

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            return {short.get(key, key): walk(item) for key, item in _as_list(part).items()}
        if isinstance(part, list):
            return [walk(item) for item in part]
        if isinstance(part, str) and part.startswith(_SCHEMAS):
            name = part.removeprefix(_SCHEMAS)
            return _SCHEMAS + short.get(name, name)
        return part

    return walk(value)


def _as_list(schema: Json) -> Json:
    """Say of a list with a schema for each place only what any place may hold.

    Few programs that read such descriptions know `prefixItems`.
    """
    if "prefixItems" not in schema:
        return schema
    places: list[Json] = schema["prefixItems"]
    rest = {key: value for key, value in schema.items() if key != "prefixItems"}
    return {**rest, "items": {"anyOf": places}}


def _short(name: str) -> str:
    found = _QUALIFIED.fullmatch(name)
    return name if found is None else found[1].capitalize() + found[2]


# ------------------------------------------------------------------------------
# How the two addresses that stream are described: they take and give no plain JSON.

_CHAT: Final = {
    "name": "chat_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The id of the session; useChat's own will do.",
}
_EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}


def _refused(*statuses: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _named(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string"}}


PATHS: Final[Json] = {
    "/api/chat/{chat_id}/stream": {
        "get": {
            "operationId": "follow_reply",
            "summary": "Follow the reply that is recorded now, from its first chunk on.",
            "tags": ["chat"],
            "parameters": [_CHAT],
            "responses": {
                "200": {"description": "Its chunks, then [DONE].", "content": _EVENTS},
                "204": {"description": "No reply is recorded now."},
                **_refused("400", "401"),
            },
        }
    },
    "/api/chat/{chat_id}/record": {
        "post": {
            "operationId": "record_reply",
            "summary": "Record a reply chunk by chunk while it arrives.",
            "tags": ["chat"],
            "parameters": [_CHAT, *(_named(one) for one in ("agent", "model", "message_id"))],
            "requestBody": {
                "required": True,
                "content": {
                    **_EVENTS,
                    "application/x-ndjson": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                },
            },
            "responses": {
                "200": {
                    "description": "What was stored, and why it ended.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                },
                **_refused("400", "401", "409", "413", "415", "422"),
            },
        }
    },
}

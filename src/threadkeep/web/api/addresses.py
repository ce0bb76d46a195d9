"""The addresses of the table: each line of `threadkeep.verbs` that has one, as it is served."""

from collections.abc import Iterator
from typing import Any, cast, get_args, get_origin

from threadkeep.base.page import Page
from threadkeep.base.verb_table import Given, Verb
from threadkeep.home.stores import Stores
from threadkeep.verbs import TABLES
from threadkeep.web.api.verb import ApiVerb, Empty, GivenLines, Lines, Method, tag_of


def verbs_of_tables() -> Iterator[ApiVerb]:
    """Give the verbs that have addresses of their own."""
    for lines in TABLES.values():
        yield from (address(one) for one in lines.values() if one.path)


def address(one: Verb) -> ApiVerb:
    """Make a verb of the API of a line of the table."""

    def call(stores: Stores, asked: Given, body: Any = None) -> Any:
        given = one.taken(asked, None if one.upload else body)
        if one.upload:
            given[one.upload] = body.raw.splitlines(keepends=True)
        return _shown(one, stores.call(one, given), given)

    method = cast("Method", one.method)
    asked = one.asked if one.asked.__struct_fields__ else Empty
    body: Any = GivenLines if one.upload else one.body
    if body is not None and body is not GivenLines and not body.__struct_fields__:
        body = Empty
    name = f"{tag_of(one.path)}_{one.name}"
    return ApiVerb(
        method,
        one.path,
        call,
        name,
        one.said,
        tag_of(one.path),
        asked,
        body,
        _answer(one),
        one.status,
        one.kept,
    )


def _answer(one: Verb) -> Any:
    if one.shape is not None:
        return one.shape
    if one.streams:
        return Lines
    if get_origin(one.answer) is list:
        return Page[get_args(one.answer)[0]]  # type: ignore[misc]
    return one.answer


def _shown(one: Verb, value: Any, given: dict[str, Any]) -> Any:
    if one.streams:
        return Lines(value)
    if one.shape is None and isinstance(value, list):
        return Page(value)
    return one.shown(value, given)

"""The addresses of the table: each line of `threadkeep.verbs` that has one, as it is served."""

from collections.abc import Iterator
from typing import Any, cast, get_args, get_origin

import msgspec

from threadkeep.base.page import Page
from threadkeep.base.verb_table import Given, Verb
from threadkeep.base.verbs import Name
from threadkeep.chat.records import Message
from threadkeep.home.stores import Stores
from threadkeep.verbs import TABLES, Used
from threadkeep.web.api.verb import ApiVerb, Empty, GivenLines, Json, Lines, Method, tag_of, verb


def _verbs_of_tables() -> Iterator[ApiVerb]:
    """Return the verbs that have addresses of their own."""
    for lines in TABLES.values():
        yield from (address(one) for one in lines.values() if one.path)


def address(one: Verb) -> ApiVerb:
    """Make a verb of the API of a line of the table."""

    def call(stores: Stores, asked: Given, body: Any = None, **progress: Any) -> Any:
        given = one.taken(asked, None if one.upload else body) | progress
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
        one.progresses,
    )


def _answer(one: Verb) -> Any:
    if one.shown_as is not None:
        return one.shown_as
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


# ------------------------------------------------------------------------------
# The two verbs of the chat store whose requests look different here.


class OneChat(Given, frozen=True):
    """A session, by its id."""

    session: Name


class OneMessage(Given, frozen=True):
    """A message of a session."""

    session: Name
    message: Name


class UseMore(Given, frozen=True):
    """What was used, to be added or, with `replace`, put in the place of what is there."""

    usage: Json
    message: Name | None = None
    cost_usd: float | None = None
    replace: bool = False


class UiMessage(Given, frozen=True):
    """A whole message in the AI SDK's shape."""

    role: str
    parts: tuple[Json, ...]
    metadata: Json = msgspec.field(default_factory=dict)


def add_usage(stores: Stores, asked: OneChat, body: UseMore) -> Used:
    """Count what was used, for a session or for one message of it."""
    chat = stores.chat("change")
    chat.record_usage(asked.session, **msgspec.structs.asdict(body))
    return Used(*chat.spend(asked.session))


def put_message(stores: Stores, asked: OneMessage, body: UiMessage) -> Message:
    """Store a whole message, or put it in the place of the one that is there."""
    given = {"id": asked.message, **msgspec.to_builtins(body)}
    return stores.chat("change").put_message(asked.session, given)


_ONE = "/chat/sessions/{session}"
VERBS: tuple[ApiVerb, ...] = (
    *_verbs_of_tables(),
    verb("POST", f"{_ONE}/usage", add_usage),
    verb("PUT", f"{_ONE}/messages/{{message}}", put_message),
)

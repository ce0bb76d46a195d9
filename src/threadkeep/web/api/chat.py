"""The two verbs of the chat store whose requests look different here."""

import msgspec

from threadkeep.base.verb_table import Given
from threadkeep.chat.records import Message
from threadkeep.home.stores import Stores
from threadkeep.verbs import Used
from threadkeep.web.api.verb import ApiVerb, Json, Name, verb


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
    verb("POST", f"{_ONE}/usage", add_usage),
    verb("PUT", f"{_ONE}/messages/{{message}}", put_message),
)

"""What every verb of the chat store works with: the database, the clock, ids, and the options."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.clock import Clock
from threadkeep.base.database import Database
from threadkeep.base.ids import IdSource
from threadkeep.base.text import Redact, redact_texts
from threadkeep.errors import Invalid, TooLarge

PART_LIMIT = 64 * 1024 * 1024
NOTHING: Mapping[str, Any] = MappingProxyType({})
_COMPACTION = "data-compaction"
_TAIL_START = "tail_start_id"


class ChatContext(NamedTuple):
    """The surroundings of a verb; clock, ids and redaction are arguments, never globals."""

    db: Database
    clock: Clock
    ids: IdSource
    redact: Redact | None = None
    part_limit: int = PART_LIMIT


def clean(ctx: ChatContext, value: Any) -> Any:
    """Pass every text inside a JSON value through the host's redaction hook.

    A compaction keeps the id its tail begins with: a redacted one would be no message's.
    """
    if ctx.redact is None:
        return value
    cleaned = redact_texts(ctx.redact, value)
    if isinstance(value, dict) and value.get("type") == _COMPACTION:
        data = value.get("data")
        if isinstance(data, dict) and isinstance(data.get(_TAIL_START), str):
            cleaned["data"][_TAIL_START] = data[_TAIL_START]
    return cleaned


def encode_part(ctx: ChatContext, part: Any, what: str) -> str:
    """Encode a part, or refuse it when it is larger than the store takes."""
    text = json.encode(part)
    if len(text) > ctx.part_limit:
        raise too_large(ctx, what, len(text))
    return text


def too_large(ctx: ChatContext, what: str, size: int) -> TooLarge:
    """Make the error for a value over the limit."""
    msg = f"{what} has {size:,} characters; a part may have at most {ctx.part_limit:,}"
    return TooLarge(msg, hint="store the content as a file and keep its URL in the part")


def need_object(value: object, what: str) -> dict[str, Any]:
    """Check that a value is a JSON object."""
    if value is NOTHING:
        return {}
    if not isinstance(value, dict):
        msg = f"{what} must be an object, not {type(value).__name__}"
        raise Invalid(msg, hint=f"pass {what} as a dict")
    return value


def need_text(value: object, what: str) -> str:
    """Check that a value is text."""
    if not isinstance(value, str):
        msg = f"{what} must be text, not {type(value).__name__}"
        raise Invalid(msg, hint=f"pass {what} as a string")
    return value


def optional_text(value: object, what: str) -> str | None:
    """Check that a value is text, or None."""
    return None if value is None else need_text(value, what)


def need_whole(value: object, what: str) -> int:
    """Check that a value is a whole number that is not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"{what} must be a non-negative whole number, not {value!r}"
        raise Invalid(msg, hint=f"pass {what} as an int; times are epoch milliseconds")
    return value


def optional_whole(value: object, what: str) -> int | None:
    """Check that a value is a whole number that is not negative, or None."""
    return None if value is None else need_whole(value, what)


def need_list(value: object, what: str) -> list[Any]:
    """Check that a value is a list or a tuple."""
    if not isinstance(value, (list, tuple)):
        msg = f"{what} must be a list, not {type(value).__name__}"
        raise Invalid(msg, hint=f"pass {what} as a list, [] for none")
    return list(value)

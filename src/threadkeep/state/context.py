"""What every verb of the session store works with, and the names of the contract's columns."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from threadkeep.base.redacting import Redact, redact_texts
from threadkeep.base.sqlite import Database, Tx
from threadkeep.base.trouble import NoText

log = logging.getLogger(__name__)

R = TypeVar("R")
Json = dict[str, Any]
# Unix seconds, as the contract keeps them.
Seconds = Callable[[], float]

SESSION_COLUMNS: Final = (
    *("id", "source", "user_id", "model", "model_config", "system_prompt", "parent_session_id"),
    *("started_at", "ended_at", "end_reason", "message_count", "tool_call_count"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "billing_provider", "billing_base_url", "billing_mode"),
    *("estimated_cost_usd", "actual_cost_usd", "cost_status", "cost_source", "pricing_version"),
    "title",
)
MESSAGE_COLUMNS: Final = (
    *("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name"),
    *("timestamp", "token_count", "finish_reason", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)


def now() -> float:
    """Give the time, as programs may have replaced `time.time` in their tests."""
    return time.time()


class Notices:
    """Says each thing once per store: the tenth identical warning helps nobody."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, topic: str, message: str, *values: object) -> None:
        """Log a warning, unless this topic had one since it was last settled."""
        if topic not in self._said:
            self._said.add(topic)
            log.warning(message, *values)

    def settle(self, topic: str) -> None:
        """Let the topic be worth a warning again."""
        self._said.discard(topic)


class Context(NamedTuple):
    """The surroundings of a verb; clock and redaction are arguments, never globals.

    `side` tells whether the file has our side tables: a file that is only read may not.
    """

    db: Database
    clock: Seconds
    notices: Notices
    redact: Redact | None = None
    side: bool = True


def reading(ctx: Context, act: Callable[[Tx], R]) -> R:
    """Do something in one read transaction; one damaged text does not hide all others."""
    try:
        with ctx.db.read() as tx:
            return act(tx)
    except NoText as error:
        ctx.notices.warn("text", "%s; where it is no text, U+FFFD is read", error)
    with ctx.db.read(lenient=True) as tx:
        return act(tx)


def clean(ctx: Context, value: Any) -> Any:
    """Pass every text inside a value through the host's redaction hook."""
    return value if ctx.redact is None else redact_texts(ctx.redact, value)

"""What the versions of Hermes Agent's session file differ in, as data.

A file is judged by its tables, not by its number: Hermes adds columns without a new number, and a
program of any version writes a file of any other. So there are two sorts of answers only: those of
the seed's version 6, for a file that has nothing newer, and those of today.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from threadkeep.base.schema import DeclaredColumn, declared_columns
from threadkeep.base.sql import load_text

PACKAGE: Final = "threadkeep.state"
SCHEMA_VERSION: Final = 6
# The newest that was run beside ours; files of later numbers are judged by their tables as well.
NEWEST_TRIED: Final = 26

# The columns of version 6: from then on every file has them.
SESSIONS_OF_6: Final = (
    *("id", "source", "user_id", "model", "model_config", "system_prompt", "parent_session_id"),
    *("started_at", "ended_at", "end_reason", "message_count", "tool_call_count"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "billing_provider", "billing_base_url", "billing_mode"),
    *("estimated_cost_usd", "actual_cost_usd", "cost_status", "cost_source", "pricing_version"),
    "title",
)
MESSAGES_OF_6: Final = (
    *("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name"),
    *("timestamp", "token_count", "finish_reason", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)


class Answers(NamedTuple):
    """How a store of a version answers where versions differ; one field for each difference."""

    # Turns of a conversation carry their time and what else was stored with them; what a harness
    # put into them is taken out.
    whole_turns: bool
    # A continuation is told from other children by marks, not by comparing times.
    marked_lineage: bool
    # A session that is created again gets what it lacks, and a child what it has from its parent.
    fills_sessions: bool
    # Ensuring a session gives its id.
    ensure_gives_id: bool
    # A list or dict as content is stored in the column itself, behind a NUL.
    content_in_column: bool
    # Usage of a session that is missing makes it, and the first usage that counts tells its route.
    usage_makes_session: bool
    # A session that went on in another when it was compacted takes no more messages.
    closed_by_compression: bool
    # JSON that is given as text is stored as it is, not as JSON of a text.
    json_given_as_text: bool
    # A rewind leaves the messages in their table, marked.
    marked_rewinds: bool
    # A session may be the delegate of one that it has no more as its parent.
    lost_delegates: bool
    # Pruning takes sessions that ended, and none that was merely abandoned.
    prunes_ended_only: bool


V6: Final = Answers(*[False] * len(Answers._fields))
TODAY: Final = Answers(*[True] * len(Answers._fields))


# The tables that every newest file has, and those that are made when they are first needed.
_ALL_TABLES: Final = ("newest.sql", "telegram.sql", "backends.sql")


@cache
def newest_columns() -> Mapping[str, tuple[DeclaredColumn, ...]]:
    """Give the columns of each known table in its newest form."""
    return declared_columns(load_text(PACKAGE, "newest.sql"))


@cache
def known_columns() -> Mapping[str, tuple[DeclaredColumn, ...]]:
    """Give the columns of each known table, also of those that a file has only on demand."""
    scripts = (load_text(PACKAGE, name) for name in _ALL_TABLES)
    return declared_columns("\n".join(scripts))

"""What a node of knowledge says, before it becomes a row."""

from typing import Literal

import msgspec

Outcome = Literal["success", "partial", "failure", "unknown"]

# The name that nodes carry as their model when rules alone have written them.
BY_RULES = "threadkeep-rules"
# The version of the contract's prompts and fields that nodes follow.
ENRICHMENT_VERSION = 3


class Mentions(msgspec.Struct, frozen=True):
    """What a node mentions, each name as it stands in the source."""

    projects: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    env_vars: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """A choice that was made, and why."""

    considered: str
    chosen: str
    reason: str


class NodeDraft(msgspec.Struct, frozen=True):
    """The content of a node, in the contract's order, and the text that it is found by."""

    summary: str
    intent: str
    outcome: Outcome = "unknown"
    entities: Mentions = Mentions()
    tags: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    problems_encountered: tuple[str, ...] = ()
    design_decisions: tuple[Decision, ...] = ()
    embed_text: str = ""  # a column of its own, not a part of the content
    memory_categories: tuple[str, ...] = ()  # of a memory, as a model names them: rows of their own


class Evidence(msgspec.Struct, frozen=True):
    """The rows that a node rests on."""

    events: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()  # rows of agentic_sessions
    visits: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()
    lessons: tuple[int, ...] = ()
    revisions: tuple[int, ...] = ()  # of memories; what is linked are their sections

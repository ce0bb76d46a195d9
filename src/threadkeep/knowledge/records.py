"""What is captured of a conversation, before it becomes rows."""

from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool", "system"]
Kind = Literal[
    "prompt",  # what a person (or, for a subagent, its parent) asked
    "text",  # what the agent answered
    "reasoning",  # what it thought
    "tool_call",  # what it did
    "tool_result",  # what came back
    "summary",  # what a compaction left
    "note",  # context, notices and errors that the program itself put in
]


class Image(msgspec.Struct, frozen=True):
    """A picture in a conversation: its bytes as base64, or where it is."""

    media_type: str
    data: str = ""
    url: str = ""


class Entry(msgspec.Struct, gc=False):
    """One thing said or done in a conversation: a message, or one block of it."""

    # Unique within its session; the same record gives the same key whenever it is read.
    key: str
    role: Role
    kind: Kind
    at: int | None  # epoch milliseconds, None if the log does not say
    text: str  # what is shown and searched
    session_id: str = ""  # empty: the session of its log
    tool: str = ""
    call_id: str = ""
    error: bool = False
    model: str = ""
    input: Any = None  # the arguments of a tool call, as the program gave them
    images: tuple[Image, ...] = ()
    parent: str = ""  # the record it goes on from, where the program keeps a tree of them
    origin: str = ""  # the session that it was copied from, as `harness:session_id`


class Usage(msgspec.Struct, gc=False):
    """What one answer of a model cost; of several with one key the one with most output counts."""

    key: str  # unique for the harness, over all its sessions: a replayed answer counts once
    at: int | None
    model: str
    input: int = 0  # without what came from or went to the cache
    output: int = 0  # with reasoning
    cache_read: int = 0
    cache_write: int = 0  # all of it
    cache_write_1h: int = 0  # the part that is kept for an hour
    reasoning: int = 0
    final: bool = True  # False: the log may have been cut before the last count came
    session_id: str = ""
    stands_in: bool = False  # it counts only where nothing else is known of what its session took


class SessionFacts(msgspec.Struct, gc=False, omit_defaults=True):
    """What is known about a session; empty means nothing new is known."""

    parent_session_id: str = ""
    is_subagent: bool = False
    title: str = ""
    agent: str = ""  # the agent's role or name inside its program
    model: str = ""
    cwd: str = ""  # where it works now
    began_in: str = ""  # where it worked first, if that may be another folder
    git_branch: str = ""
    slug: str = ""
    version: str = ""  # of the program that wrote the log
    hidden: bool = False  # internal threads: kept, but not listed by default
    continues: str = ""  # the session that it was handed over from, as `harness:session_id`


class Segment(msgspec.Struct, gc=False):
    """A slice of a session, the unit of enrichment: one row of `agentic_sessions`."""

    session_id: str
    index: int
    start: int
    end: int
    project_dir: str
    cwd: str
    summary: str
    prompts: list[str] | None
    tools: list[tuple[str, str]] | None  # name, summary
    texts: list[str]
    messages: int
    tokens: int = 0
    git_branch: str | None = None
    is_subagent: bool = False
    parent_session_id: str | None = None
    model: str = ""
    agent: str = ""
    slug: str = ""
    title: str = ""
    diffs_json: str = "null"
    hashed: bytes = b""  # what the content hash is made of, if not of the three common fields
    is_open: bool = False  # more may come to it: it will be given again


class ToolRun(msgspec.Struct, gc=False):
    """A tool call with its result: one row of `events`, of kind claude-tool."""

    call_id: str
    session_id: str
    at: int
    tool: str
    command: str
    cwd: str
    git_branch: str | None
    exit_code: int = 0
    duration_ms: int = 0
    output: str | None = None
    truncated: bool = False

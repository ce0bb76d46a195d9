"""What is captured of a conversation, before it becomes rows."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from threadkeep.base.text import pattern

Role = Literal["user", "assistant", "tool", "system"]
NOTES: Final = "hippo-notes"  # the reader of another program's slices
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
    parent: str = ""  # the record it continues from, where the program keeps a tree of them
    origin: str = ""  # the session that it was copied from, as `agent:session_id`


class Reader(Protocol):
    """What reads the lines of one program's logs: all that the archive needs to show a text."""

    @property
    def agent(self) -> str:
        """The program that wrote them."""
        ...

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read the entries of one record alone; `line` is it as it stands, `number` its place."""
        ...


Readers = Mapping[str, Reader]  # by the name that the archive keeps with each log


class Usage(msgspec.Struct, gc=False):
    """What one answer of a model cost; of several with one key the one with most output counts."""

    key: str  # unique for the agent, over all its sessions: a replayed answer counts once
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
    continues: str = ""  # the session that it was handed over from, as `agent:session_id`


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


# ------------------------------------------------------------------------------
# What shells and browsers report, as it is stored: one command, one visit to a page.


class Output(msgspec.Struct, frozen=True):
    """What a command printed, or as much of it as was kept."""

    content: str
    truncated: bool = False
    original_bytes: int = 0


class GitState(msgspec.Struct, frozen=True):
    """Where a command found its repository; what nobody knows is None."""

    repo: str | None = None  # owner/name, or the name of the work tree
    branch: str | None = None
    commit: str | None = None
    is_dirty: bool | None = None


class Command(msgspec.Struct, frozen=True):
    """A command that somebody ran in a shell, or a tool that an agent called."""

    envelope_id: str  # one event has one id, whichever ways it comes
    session: str  # the session's UUID, kept in `sessions.terminal`
    at: int  # epoch milliseconds: when it had ended
    command: str
    cwd: str
    exit_code: int | None = None  # None: it was never seen to end
    duration_ms: int = 0
    hostname: str = ""
    shell: str = ""
    username: str = ""
    stdout: Output | None = None
    stderr: Output | None = None
    env: dict[str, str] = {}  # variables as they were; only the allowed ones are kept
    git: GitState | None = None  # None: nobody has looked yet
    tool_name: str | None = None
    probe_tag: str | None = None
    origin: str = "socket"  # which way it came: hook, socket, fallback, run, history


class Visit(msgspec.Struct, frozen=True):
    """A page that somebody read; url and referrer without secret parameters."""

    envelope_id: str
    at: int  # epoch milliseconds: when it was reported
    url: str
    domain: str
    title: str | None = None
    dwell_ms: int = 0
    scroll_depth: float | None = None
    extracted_text: str | None = None
    search_query: str | None = None
    referrer: str | None = None
    probe_tag: str | None = None


class Heartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of a producer that may have nothing to report."""

    source: str  # the row of `source_health`
    at: int
    error: str | None = None  # what went wrong with it last; None takes back what it said before


class Watch(msgspec.Struct, frozen=True):
    """A commit whose CI runs somebody waits for."""

    sha: str
    repo: str
    at: int
    ttl_secs: int = 1200


Observed = Command | Visit | Heartbeat | Watch


# ------------------------------------------------------------------------------
# A run: a command that somebody ran, or a tool that an agent called, with what came of it.

# Tools of agents that run a command line.
_SHELL_TOOLS: Final = frozenset(
    {
        *("bash", "shell", "sh", "exec", "exec_command", "local_shell", "local_shell_call"),
        *("run_shell_command", "run_terminal_cmd", "shell_command", "terminal", "execute_command"),
        *("run_command", "run", "container.exec", "powershell", "command"),
    }
)


class CommandAttempt(msgspec.Struct, frozen=True):
    """One run, whichever table it stands in."""

    id: int
    at: int
    command: str
    tool: str | None  # None: somebody typed it
    exit_code: int | None  # None: nobody saw how it ended
    output: str  # the end of what it printed
    cwd: str
    key: str  # its name, the same whenever it is captured
    repo: str | None = None
    session: str = ""
    is_open: bool = False  # it has not ended yet


def is_shell_tool(tool: str | None) -> bool:
    """Tell whether a run is a command line, typed by somebody or run by an agent."""
    return tool is None or tool.lower() in _SHELL_TOOLS


# ------------------------------------------------------------------------------
# What a node of knowledge says, before it becomes a row.

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


class CapturedSession(msgspec.Struct, frozen=True):
    """One captured session."""

    id: int
    agent: str
    session_id: str
    parent_session_id: str | None
    is_subagent: bool
    hidden: bool
    title: str
    profile: str
    model: str
    cwd: str
    project: str
    git_branch: str
    slug: str
    version: str
    first_prompt: str
    started_at: int | None
    ended_at: int | None
    entries: int
    prompts: int
    tool_calls: int
    errors: int

    @property
    def name(self) -> str:
        """What to call it in a list: its title, else how it began."""
        title = "" if _NO_TITLE.fullmatch(self.title) else self.title
        return title or title_of_prompt(self.first_prompt) or self.slug or self.session_id


# What programs write where nobody gave a title.
_NO_TITLE: Final = pattern(
    r"(?:untitled session|new (?:session|chat|agent)\b.*|fork: session_\w+)", re.IGNORECASE
)
_PLAN: Final = pattern(r"implement the following plan:\s*#+\s*(?:plan:\s*)?", re.IGNORECASE)
_FIELD: Final = pattern(r"\[\[ ## \w+ ## \]\]\s*")
_ADDRESS: Final = pattern(r"https?://[^\s/]+/(?:[^\s]*/)?([^\s/]+/[^\s/?#]+)\S*\s+(?=\S+ \S)")


def title_of_prompt(prompt: str) -> str:
    """Return a prompt as a title: of a plan its heading, an address behind what is said of it."""
    text = _FIELD.sub("", prompt.strip(), count=1)
    if plan := _PLAN.match(text):
        return text[plan.end() :].partition(" ## ")[0]
    if address := _ADDRESS.match(text):
        text = f"{text[address.end() :]} ({address[1]})"
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
    return text[1:-1] if is_quoted else text


_WIDTH = len(CapturedSession.__struct_fields__)


class EntryRow(msgspec.Struct, frozen=True):
    """Where an entry stands in the archive, and what it is."""

    id: int
    session: int
    key: str
    log_id: int
    line: int
    part: int
    role: str
    kind: str
    at: int | None
    tool: str | None
    error: bool
    hash: int


_ENTRY_WIDTH = len(EntryRow.__struct_fields__)


def to_session(row: tuple[Any, ...]) -> CapturedSession:
    """Make a session of a row that begins with its columns."""
    values = list(row[:_WIDTH])
    values[4], values[5] = bool(values[4]), bool(values[5])
    return CapturedSession(*values)


def to_entry(row: tuple[Any, ...]) -> EntryRow:
    """Make an entry of a row that begins with its columns."""
    values = list(row[:_ENTRY_WIDTH])
    values[-2] = bool(values[-2])
    return EntryRow(*values)


class OrphanRow(msgspec.Struct, frozen=True):
    """A row of `tk_orphans`: where it was, all of it, what was wrong, and when that was seen."""

    table_name: str
    row: dict[str, Any]
    reason: str
    found_at: int

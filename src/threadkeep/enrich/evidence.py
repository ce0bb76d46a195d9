"""What nodes are derived from, as plain values: commands, conversations, visits and runs."""

import msgspec


class CommandEvidence(msgspec.Struct, frozen=True):
    """One command or tool call, with what it printed."""

    id: int
    session: int
    at: int  # epoch milliseconds, when it was reported
    command: str
    output: str
    exit_code: int | None
    duration_ms: int
    cwd: str
    repo: str
    branch: str
    commit: str
    by_agent: bool  # False: typed by a person
    tool: str = ""  # as the agent calls it
    told_by_session: bool = False  # the node of the agent's session is about it


class VisitEvidence(msgspec.Struct, frozen=True):
    """One visit to a page."""

    id: int
    at: int
    url: str
    title: str
    domain: str
    dwell_ms: int
    query: str  # what was searched for there
    text: str


class MessageEvidence(msgspec.Struct, frozen=True):
    """One thing said or done in a conversation."""

    role: str
    kind: str
    text: str
    tool: str = ""
    call_id: str = ""
    error: bool = False


class Slice(msgspec.Struct, frozen=True):
    """A slice of a conversation; `said` is empty where the archive does not have it."""

    id: int
    harness: str
    cwd: str
    project_dir: str
    branch: str
    title: str
    is_subagent: bool
    summary: str  # the contract's own account of it
    prompts: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]  # name, and what it was given in short
    commits: tuple[str, ...]  # messages
    changed: tuple[str, ...]  # files in the diffs
    began_with: str = ""  # the first prompt of the whole conversation
    said: tuple[MessageEvidence, ...] = ()


class MemoryNote(msgspec.Struct, frozen=True):
    """A revision of a memory."""

    revision: int
    repository: str
    logical_path: str
    category: str  # that its name tells, empty if none
    is_current: bool  # no newer one has come
    sections: tuple[tuple[str, str], ...]  # the headings above each, and what it says


class Remark(msgspec.Struct, frozen=True):
    """What a job of CI said about a line of code."""

    level: str
    tool: str
    rule: str
    path: str
    line: int | None
    message: str


class JobDone(msgspec.Struct, frozen=True):
    """One job of a run."""

    name: str
    conclusion: str
    remarks: tuple[Remark, ...] = ()
    excerpt: str = ""  # the end of its log


class RunDone(msgspec.Struct, frozen=True):
    """One run of CI."""

    id: int
    repo: str
    sha: str
    branch: str
    event: str
    conclusion: str
    url: str
    actor: str
    name: str  # of the workflow
    title: str  # of the change that it checked
    at: int | None
    seconds: int | None
    jobs: tuple[JobDone, ...] = ()

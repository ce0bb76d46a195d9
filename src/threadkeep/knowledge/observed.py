"""What shells and browsers report, as it is stored: one command, one visit to a page."""

import msgspec


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
    """A sign of life of a producer that may have nothing to report."""

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

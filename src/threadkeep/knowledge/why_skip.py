"""Why a row tells nothing and is passed over: a trivial command, a short session, a glance."""

import re
from typing import Final

from threadkeep.base.json import decode
from threadkeep.errors import Invalid

_TRIVIAL: Final = re.compile(r"clear|exit|true|:|exec\s+[\w/.-]+|")
_TRIVIAL_MS: Final = 100
_FEW_MESSAGES: Final = 3
_GLANCE_MS: Final = 1000
_SCROLLED: Final = 0.15
_READING_MS: Final = 120_000


def why_skip_shell(
    *, command: str, stdout: str | None, stderr: str | None, duration_ms: int
) -> str | None:
    """Say why a command tells nothing, None if it may."""
    if stdout or stderr or duration_ms >= _TRIVIAL_MS or not _TRIVIAL.fullmatch(command.strip()):
        return None
    return f"{command.strip()!r} without output, over after {duration_ms} ms"


def why_skip_agentic(
    *,
    harness: str,
    message_count: int,
    tool_calls_json: str | None,
    snapshot_diffs_json: str | None = None,
    commit_messages_json: str | None = None,
) -> str | None:
    """Say why a segment tells nothing, None if it may; opencode keeps its work elsewhere."""
    if message_count >= _FEW_MESSAGES:
        return None
    if harness == "opencode":
        idle = not (_says_something(snapshot_diffs_json) or _says_something(commit_messages_json))
        without = "diffs and commits"
    else:
        idle, without = not _says_something(tool_calls_json), "tool calls"
    return f"{message_count} messages are under 3, and no {without}" if idle else None


def why_skip_browser(
    *, dwell_ms: int, scroll_depth: float | None, search_query: str | None
) -> str | None:
    """Say why a visit tells nothing, None if it may."""
    if dwell_ms < _GLANCE_MS:
        return f"looked at for {dwell_ms} ms only"
    if search_query or dwell_ms >= _READING_MS or (scroll_depth or 0) >= _SCROLLED:
        return None
    return f"hardly scrolled ({scroll_depth or 0:.2f}) within {dwell_ms} ms, and not searched for"


def _says_something(text: str | None) -> bool:
    """Tell whether JSON holds anything; what is no JSON holds nothing."""
    try:
        return bool(text and decode(text))
    except Invalid:
        return False

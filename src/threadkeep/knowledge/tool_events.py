"""Tool calls of agents as rows of `events`, beside the commands that people typed."""

import uuid

from threadkeep.base.tx import Tx
from threadkeep.knowledge.commands import session_of
from threadkeep.knowledge.records import ToolRun

_MASK = "[REDACTED]"


def write_tool_runs(
    tx: Tx, runs: list[ToolRun], *, shell: str, hostname: str, username: str, now: int
) -> int:
    """Store tool calls, each once, and complete those whose result has come; count the new."""
    if not runs:
        return 0
    who = {"shell": shell, "hostname": hostname, "username": username, "now": now}
    sessions: dict[str, int] = {}
    for run in runs:
        if run.session_id not in sessions:
            sessions[run.session_id] = _session(tx, run, who)
    last = tx.value("last_event") or 0
    tx.run_bulk("put_tool_event", [_values(run, sessions[run.session_id], who) for run in runs])
    return tx.run("enqueue_events_after", {"last": last, "now": now})


def _session(tx: Tx, run: ToolRun, who: dict[str, object]) -> int:
    found = session_of(tx, run.session_id)
    if found is not None:
        return found
    return tx.insert("insert_shell_session", {**who, "terminal": run.session_id, "start": run.at})


def _values(run: ToolRun, session: int, who: dict[str, object]) -> dict[str, object]:
    return {
        **who,
        "envelope": str(uuid.uuid5(uuid.NAMESPACE_URL, run.call_id)),
        "session": session,
        "at": run.at,
        "tool": run.tool,
        "command": run.command,
        "masked": run.command.count(_MASK),
        "cwd": run.cwd,
        "git_branch": run.git_branch,
        "git_dirty": None if run.git_branch is None else 0,
        "stdout": run.output,
        "truncated": None if run.output is None else int(run.truncated),
        "exit_code": run.exit_code,
        "duration": run.duration_ms,
    }

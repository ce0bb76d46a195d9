"""Tool calls of agents as rows of `events`, beside the commands that people typed."""

import uuid

from threadkeep.base.sqlite import Tx
from threadkeep.knowledge.records import ToolRun

_MASK = "[REDACTED]"


def write_tool_runs(
    tx: Tx, runs: list[ToolRun], *, shell: str, hostname: str, username: str, now: int
) -> int:
    """Store tool calls, each once, and complete those whose result has come; count the new."""
    fresh = 0
    sessions: dict[str, int] = {}
    for run in runs:
        if run.session_id not in sessions:
            who = {"shell": shell, "hostname": hostname, "username": username, "now": now}
            sessions[run.session_id] = _session(tx, run, who)
        fresh += _write(tx, run, sessions[run.session_id], shell, hostname, now)
    return fresh


def _session(tx: Tx, run: ToolRun, who: dict[str, object]) -> int:
    found = tx.value("shell_session", {"terminal": run.session_id})
    if found is not None:
        return int(found)
    return tx.insert("insert_shell_session", {**who, "terminal": run.session_id, "start": run.at})


def _write(tx: Tx, run: ToolRun, session: int, shell: str, hostname: str, now: int) -> bool:
    envelope = str(uuid.uuid5(uuid.NAMESPACE_URL, run.call_id))
    outcome = {
        "stdout": run.output,
        "truncated": None if run.output is None else int(run.truncated),
        "exit_code": run.exit_code,
        "duration": run.duration_ms,
        "envelope": envelope,
    }
    if tx.value("tool_event", {"envelope": envelope}) is not None:
        tx.run("complete_tool_event", outcome)
        return False
    event = tx.insert(
        "insert_tool_event",
        {
            **outcome,
            "session": session,
            "at": run.at,
            "command": run.command,
            "cwd": run.cwd,
            "hostname": hostname,
            "shell": shell,
            "git_branch": run.git_branch,
            "git_dirty": None if run.git_branch is None else 0,
            "tool": run.tool,
            "masked": run.command.count(_MASK),
            "now": now,
        },
    )
    tx.run("enqueue_event", {"event": event, "now": now})
    return True

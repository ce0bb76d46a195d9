"""Commands as rows of `events`: stored once, whichever ways and however often they come."""

import json
import uuid
from collections.abc import Mapping
from hashlib import sha256
from struct import pack, unpack
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest
from threadkeep.knowledge.records import Command, GitState, Output, ToolRun, Visit

# Variables that say something about the work, and are not secrets by their nature.
ALLOWED_VARIABLES: Final = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TERM_PROGRAM", "LANG"),
        *("LC_ALL", "PATH", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "EDITOR", "VISUAL", "TMPDIR"),
        *("VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "NODE_ENV", "RAILS_ENV", "APP_ENV", "AWS_PROFILE"),
        *("AWS_DEFAULT_REGION", "KUBECONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        "HIPPO_SESSION_ID",
    )
)
HISTORY: Final = "history"
_MASK: Final = "[REDACTED]"
# Two hooks of one shell look at the clock one after the other; a history knows whole seconds.
_SLACK_MS: Final = 1500
# Hippo's hook asks git before it tells: in a large repository that takes seconds.
_LATE_MS: Final = 10_000
_TOLD_LATE: Final = ("socket", "fallback")
# Way -> the ways by which the same command may have come before, and how much earlier and later
# than this one it seems to have begun. What `run` reports, nobody else sees.
_MIRRORS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "hook": dict.fromkeys(_TOLD_LATE, (_SLACK_MS, _LATE_MS)) | {HISTORY: (_SLACK_MS, _SLACK_MS)},
    HISTORY: dict.fromkeys(_TOLD_LATE, (_SLACK_MS, _LATE_MS)) | {"hook": (_SLACK_MS, _SLACK_MS)},
    **dict.fromkeys(_TOLD_LATE, dict.fromkeys(("hook", HISTORY), (_LATE_MS, _SLACK_MS))),
}
_PATIENCE_MS: Final = 86_400_000  # with commands that do not end
_FIRST_MS: Final = -(1 << 62)  # no column holds what is long before it


class WriteResult(NamedTuple):
    """What came of a command or a visit."""

    event: int | None  # its row; None if there was one already, or must be none
    new: bool  # False: a row that was there has been completed


NOTHING: Final = WriteResult(None, new=False)


def environment(variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Return hash and JSON of the variables that are kept; None if there are none."""
    kept = {name: text for name, text in variables.items() if name in ALLOWED_VARIABLES}
    if not kept:
        return None
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("utf-8", "replace")).hexdigest(), text


def keep_environment(tx: Tx, variables: Mapping[str, str], now: int) -> int | None:
    """Store the variables that are kept, each set of them once; give its row."""
    kept = environment(variables)
    if kept is None:
        return None
    digest, text = kept
    tx.run("put_snapshot", {"hash": digest, "json": text, "now": now})
    return int(tx.value("snapshot", {"hash": digest}))


def note_environment(
    tx: Tx, session: str, pid: int, variables: Mapping[str, str], now: int
) -> None:
    """Remember the environment in which the next commands of a shell run."""
    snapshot = keep_environment(tx, variables, now)
    if snapshot is not None:
        values = {"session": session, "pid": pid, "snapshot": snapshot, "now": now}
        tx.run("put_shell_environment", values)


def environment_of(tx: Tx, session: str, pid: int) -> int | None:
    """Return the environment that a shell reported last."""
    found = tx.value("shell_environment", {"session": session, "pid": pid})
    return None if found is None else int(found)


def notice_others(tx: Tx) -> None:
    """Take note of commands that other programs stored since; once, before some are written."""
    tx.run("note_others")


def write_command(tx: Tx, command: Command, now: int, snapshot: int | None = None) -> WriteResult:
    """Store a command whose secrets are masked, and its ticket, unless it is there already.

    One that was reported when it began is completed when its end comes.
    """
    found = tx.one("event_by_envelope", {"envelope": command.envelope_id})
    if found is not None:
        return _complete(tx, command, found, snapshot, now)
    if _was_forgotten(tx, command) or _came_before(tx, command):
        return NOTHING
    if snapshot is None:
        snapshot = keep_environment(tx, command.env, now)
    values = _values(command, snapshot, now) | {"session_id": _session(tx, command, now)}
    event = tx.insert("insert_command", values)
    running = command.exit_code is None and command.origin == "hook"
    origin = {"origin": command.origin, "started": _started(command), "running": int(running)}
    tx.run("note_origin", origin | {"event": event})
    if command.probe_tag is None and not running:
        tx.run("enqueue_command", {"event": event, "now": now})
    return WriteResult(event, new=True)


def has_unended(tx: Tx, now: int) -> bool:
    """Tell whether commands run for so long that their end is not waited for any more."""
    return tx.value("unended_commands", {"before": now - _PATIENCE_MS}) is not None


def give_up_unended(tx: Tx, now: int) -> None:
    """Enqueue commands that run for a day; their end still counts if it comes."""
    values = {"before": now - _PATIENCE_MS}
    tx.run("enqueue_unended", values | {"now": now})
    tx.run("give_up_unended", values)


def is_known(tx: Tx, command: str) -> bool:
    """Tell whether a command was ever stored, at any time, though it may be forgotten now."""
    if tx.value("known_command", {"command": command}) is not None:
        return True
    return tx.value("was_ever_forgotten", {"digest": _digest(command)}) is not None


def _complete(
    tx: Tx, command: Command, found: tuple[Any, ...], snapshot: int | None, now: int
) -> WriteResult:
    event, exit_code = found
    if exit_code is not None or command.exit_code is None:
        return NOTHING
    tx.run("end_command", _values(command, snapshot, now) | {"id": event})
    tx.run("note_end", {"id": event})
    if command.probe_tag is None:
        tx.run("enqueue_command", {"event": event, "now": now})
    return WriteResult(event, new=False)


def _was_forgotten(tx: Tx, command: Command) -> bool:
    if tx.value("was_forgotten", {"envelope": command.envelope_id}) is not None:
        return True
    values = {
        "digest": _digest(command.command),
        "started": _started(command),
        "slack": _SLACK_MS,
    }
    return tx.value("was_forgotten_then", values) is not None


def _digest(command: str) -> bytes:
    return digest(command.encode("utf-8", "replace"))


def _came_before(tx: Tx, command: Command) -> bool:
    if command.probe_tag is not None or command.tool_name is not None:
        return False
    started = _started(command)
    values: dict[str, object] = {
        "origin": command.origin,
        "command": command.command,
        "session": command.session,
    }
    for other, (earlier, later) in _MIRRORS.get(command.origin, {}).items():
        times = {"other": other, "first": started - earlier, "last": started + later}
        if tx.value("seen_another_way", values | times) is not None:
            return True
    return False


def _started(command: Command) -> int:
    return max(command.at - command.duration_ms, _FIRST_MS)


def session_of(tx: Tx, terminal: str) -> int | None:
    """Find the session of a terminal."""
    found = tx.value("shell_session", {"terminal": terminal})
    if found is None and tx.count("note_terminals"):
        found = tx.value("shell_session", {"terminal": terminal})
    return None if found is None else int(found)


def _session(tx: Tx, command: Command, now: int) -> int:
    found = session_of(tx, command.session)
    if found is not None:
        return found
    values = {
        "terminal": command.session,
        "start": _started(command),
        "shell": command.shell,
        "hostname": command.hostname,
        "username": command.username,
        "now": now,
    }
    return tx.insert("insert_shell_session", values)


def _values(command: Command, snapshot: int | None, now: int) -> dict[str, object]:
    git = command.git or GitState()
    return {
        "at": command.at,
        "command": command.command,
        "exit_code": command.exit_code,
        "duration": command.duration_ms,
        "cwd": command.cwd,
        "hostname": command.hostname,
        "shell": command.shell,
        "git_repo": git.repo,
        "git_branch": git.branch,
        "git_commit": git.commit,
        "git_dirty": None if git.is_dirty is None else int(git.is_dirty),
        "snapshot": snapshot,
        "envelope": command.envelope_id,
        "source_kind": "shell" if command.tool_name is None else "claude-tool",
        "tool_name": command.tool_name,
        "redactions": _masks(command),
        "probe_tag": command.probe_tag,
        "now": now,
        **_output("stdout", command.stdout),
        **_output("stderr", command.stderr),
    }


def _output(name: str, output: Output | None) -> dict[str, object]:
    if output is None:
        return {name: None, f"{name}_truncated": None}
    return {name: output.content, f"{name}_truncated": int(output.truncated)}


def _masks(command: Command) -> int:
    texts = [command.command, *(o.content for o in (command.stdout, command.stderr) if o)]
    return sum(text.count(_MASK) for text in texts)


# ------------------------------------------------------------------------------
# Visits to pages as rows of `browser_events`: once for each page and span of time.


def write_visit(tx: Tx, visit: Visit, now: int) -> WriteResult:
    """Store a visit whose secrets are masked, and its ticket; a longer one replaces a shorter."""
    found = tx.value("visit_by_envelope", {"envelope": visit.envelope_id})
    values = _visits_values(visit, now)
    if found is not None:
        return _lengthen(tx, int(found), values)
    if tx.value("was_forgotten", {"envelope": visit.envelope_id}):
        return NOTHING
    event = tx.insert("insert_visit", values)
    if visit.probe_tag is None:
        tx.run("enqueue_visit", {"event": event, "now": now})
    return WriteResult(event, new=True)


def _lengthen(tx: Tx, event: int, values: dict[str, object]) -> WriteResult:
    if not tx.count("lengthen_visit", values | {"id": event}):
        return NOTHING
    if values["probe_tag"] is None and not tx.value("is_enriched_visit", {"id": event}):
        tx.run("enqueue_visit", {"event": event, "now": values["now"]})
    return WriteResult(event, new=False)


def _single(number: float | None) -> float | None:
    # Hippo holds it in 32 bits; written like that, its rows and ours are equal.
    return None if number is None else float(unpack("f", pack("f", number))[0])


def _visits_values(visit: Visit, now: int) -> dict[str, object]:
    text = visit.extracted_text
    return {
        "at": visit.at,
        "url": visit.url,
        "title": visit.title,
        "domain": visit.domain,
        "dwell": visit.dwell_ms,
        "scroll": _single(visit.scroll_depth),
        "text": text,
        "query": visit.search_query,
        "referrer": visit.referrer,
        "hash": None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest(),
        "envelope": visit.envelope_id,
        "probe_tag": visit.probe_tag,
        "now": now,
    }


# ------------------------------------------------------------------------------
# Tool calls of agents as rows of `events`, beside the commands that people typed.

_TOOL_EVENTS_MASK = "[REDACTED]"


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
            sessions[run.session_id] = _tool_events_session(tx, run, who)
    last = tx.value("last_event") or 0
    tx.run_bulk(
        "put_tool_event", [_tool_events_values(run, sessions[run.session_id], who) for run in runs]
    )
    return tx.count("enqueue_events_after", {"last": last, "now": now})


def _tool_events_session(tx: Tx, run: ToolRun, who: dict[str, object]) -> int:
    found = session_of(tx, run.session_id)
    if found is not None:
        return found
    return tx.insert("insert_shell_session", {**who, "terminal": run.session_id, "start": run.at})


def _tool_events_values(run: ToolRun, session: int, who: dict[str, object]) -> dict[str, object]:
    return {
        **who,
        "envelope": str(uuid.uuid5(uuid.NAMESPACE_URL, run.call_id)),
        "session": session,
        "at": run.at,
        "tool": run.tool,
        "command": run.command,
        "masked": run.command.count(_TOOL_EVENTS_MASK),
        "cwd": run.cwd,
        "git_branch": run.git_branch,
        "git_dirty": None if run.git_branch is None else 0,
        "stdout": run.output,
        "truncated": None if run.output is None else int(run.truncated),
        "exit_code": run.exit_code,
        "duration": run.duration_ms,
    }


def envelope_of(run: ToolRun) -> str:
    """Name the event that a tool call is stored as."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, run.call_id))


def event_number(tx: Tx, envelope: str) -> int | None:
    """Return the row number of the event that a tool call is stored as."""
    found = tx.value("number_of_event", {"envelope": envelope})
    return None if found is None else int(found)


def rewrite_tool_run(tx: Tx, number: int, run: ToolRun) -> None:
    """Store a tool call again, as its log tells it now."""
    said = {"command": run.command, "stdout": run.output, "cwd": run.cwd, "id": number}
    outcome = {
        "truncated": None if run.output is None else int(run.truncated),
        "exit_code": run.exit_code,
        "duration": run.duration_ms,
        "git_branch": run.git_branch,
        "masked": run.command.count(_MASK),
    }
    tx.run("rewrite_tool_event", {**said, **outcome})


def renew_ticket(tx: Tx, number: int, now: int) -> None:
    """Let a command be learned from once more."""
    tx.run("renew_event_ticket", {"event": number, "now": now})


# ------------------------------------------------------------------------------
# How far the files of a spool were read, and synthetic events that go the whole way.

_OLD_SHELL_MS: Final = 90 * 86_400_000


def spool_place(tx: Tx, name: str) -> tuple[int, bool]:
    """Return how far a file was read, and whether that is inside something that is too long."""
    row = tx.one("spool_cursor", {"name": name})
    return (0, False) if row is None else (row[0], bool(row[1]))


def move_spool_place(tx: Tx, name: str, offset: int, now: int, *, skipping: bool) -> None:
    """Remember how far a file was read."""
    values = {"name": name, "offset": offset, "skipping": int(skipping)}
    tx.run("move_spool_cursor", values | {"now": now})


def drop_spool_place(tx: Tx, name: str) -> None:
    """Forget how far a file was read."""
    tx.run("drop_spool_cursor", {"name": name})


def old_spool_names(tx: Tx, before: int) -> list[str]:
    """Return the files in which nobody has read since a moment."""
    return [name for (name,) in tx.all("spool_names", {"before": before})]


def forget_old_shells(tx: Tx, now: int) -> None:
    """Forget the environments of shells that ended long ago."""
    tx.run("forget_old_shells", {"before": now - _OLD_SHELL_MS})


def probe_arrived(tx: Tx, tag: str) -> int | None:
    """Tell when the synthetic event with a tag was stored."""
    found = tx.value("probe_arrived", {"tag": tag})
    return None if found is None else int(found)


def drop_old_probes(tx: Tx, before: int) -> None:
    """Take out the synthetic events of before a moment."""
    for old in ("old_probes", "old_visit_probes"):
        tx.run(old, {"before": before})

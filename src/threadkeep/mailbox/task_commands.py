"""Tasks as `ncl tasks` shows them: rows for programs, a table for people, and ids made of names."""

import re
from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Final

from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.mailbox import content as shapes, inbound, tasks, versions
from threadkeep.mailbox.arguments import shown
from threadkeep.mailbox.attachments import is_safe_name
from threadkeep.mailbox.commands import CommandCall, CommandRefused, CommandReply, Flag, HostCommand
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.inbound import NewMail, put
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.recurrence import check_recurrence, next_due, next_times
from threadkeep.mailbox.rows import mail_of, read_moment

_PROMPT: Final = 120
_SLUG: Final = 24
_NAMED, _NAMELESS = 4, 6  # hex digits at the end of an id
_COLUMNS: Final = ("id", "status", "schedule", "next run", "runs", "failed", "prompt")
_PROMPT_SHOWN: Final = 48


def new_task_id(name: str | None, seed: str) -> str:
    """Make the id of a task of its name; the same seed gives the same id."""
    slug = re.sub("[^a-z0-9]+", "-", (name or "").lower()).strip("-")[:_SLUG].strip("-")
    digits = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{slug}-{digits[:_NAMED]}" if slug else f"t-{digits[:_NAMELESS]}"


def run_id(series: str, seed: str) -> str:
    """Make the id of an extra run of a series; the same seed gives the same id."""
    digits = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{series}-run-{digits[:_NAMELESS]}"


def row(ctx: MailContext, mail: Mail) -> Json:
    """Show one row of a task."""
    said = shapes.task_of(mail.content)
    prompt, origin = _text(said, "prompt"), said.get("originSessionId")
    return {
        "agent_group_id": ctx.agent_group,
        "session_id": ctx.session,
        "series_id": mail.series_id or mail.id,
        "row_id": mail.id,
        "status": mail.status,
        "process_after": mail.process_after,
        "recurrence": mail.recurrence,
        "prompt": prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 3]}...",
        "has_script": int(bool(_text(said, "script"))),
        "origin_session_id": origin if isinstance(origin, str) else None,
        "created_at": mail.timestamp,
        "tries": mail.tries,
    }


def listed(ctx: MailContext, tx: Tx, mail: Mail) -> Json:
    """Show a task in a list: when it runs, and how its runs went so far."""
    shown = row(ctx, mail)
    completed, failed, last = tx.one("series_history", {"id": shown["series_id"]}) or (0, 0, None)
    return {
        **shown,
        "schedule": mail.recurrence or "once",
        "runs": completed,
        "failed_runs": failed,
        "last_run": last,
        "next_run": mail.process_after,
        "log": tasks.log_path(shown["series_id"]),
    }


def whole(ctx: MailContext, tx: Tx, mail: Mail, log_lines: int) -> Json:
    """Show all of a task: whole prompt and script, its history, and the end of its log."""
    shown, said = row(ctx, mail), shapes.task_of(mail.content)
    completed, failed, _ = tx.one("series_history", {"id": shown["series_id"]}) or (0, 0, None)
    return {
        **shown,
        "prompt": _text(said, "prompt"),
        "script": _text(said, "script") or None,
        "completed_runs": completed,
        "failed_runs": failed,
        "recent_log": tasks.newest_log(ctx, shown["series_id"], log_lines),
    }


def table(rows: Sequence[Json]) -> str:
    """Show tasks as a table for people."""
    if not rows:
        return "No tasks."
    lines = [_COLUMNS, *map(_line, rows)]
    wide = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def _line(shown: Json) -> tuple[str, ...]:
    prompt = " ".join(shown["prompt"].split())
    return (
        shown["series_id"],
        shown["status"],
        shown["schedule"],
        shown["next_run"] or "now",
        str(shown["runs"]),
        str(shown["failed_runs"]),
        prompt if len(prompt) <= _PROMPT_SHOWN else f"{prompt[: _PROMPT_SHOWN - 3]}...",
    )


def _text(said: Json, name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------------------
# `ncl tasks …`: the commands by which an agent looks after its tasks, as NanoClaw 2.1 has them.
#
# Tasks are made in the folder of whoever asks, and found in all of the agent's.

MOST_RUNS: Final = 4  # a day, of a task that wakes the agent each time
_LOG_LINES: Final = 10
_LIVE: Final = ("pending", "paused")
_CLEARED: Final = frozenset(("", "null", "none"))
# Who types `ncl tasks` is of a version that knows this word.
_CALLED_OFF: Final = versions.VERSIONS["2.1"].called_off

# ---------------------------------------------------------------------- looking


def _list(call: CommandCall, ctx: MailContext, tx: Tx) -> list[Json]:
    wanted = call.text("status")
    if wanted is not None and wanted not in _LIVE:
        raise CommandRefused("invalid-args", "--status must be pending or paused")
    series: dict[str, list[Mail]] = {}
    for mail in map(mail_of, tx.all("all_live_tasks")):
        if wanted is None or mail.status == wanted:
            series.setdefault(mail.series_id or mail.id, []).append(mail)
    found = [carrier for rows in series.values() if (carrier := tasks.carrier_of(rows))]
    return [listed(ctx, tx, mail) for mail in found]


def _list_reply(_: CommandCall, found: list[list[Json]]) -> CommandReply:
    rows = [row for folder in found for row in folder]
    rows.sort(key=lambda row: (read_moment(row["next_run"]) or 0, row["series_id"]))
    return CommandReply(rows, table(rows))


def _get(call: CommandCall, ctx: MailContext, tx: Tx) -> Json | None:
    mail = _find(tx, call.need("id"))
    return None if mail is None else whole(ctx, tx, mail, _LOG_LINES)


def _find(tx: Tx, task_id: str) -> Mail | None:
    """Return the row that stands for a task: what carries it on, else its newest."""
    rows = tasks.rows_of(tx, task_id)
    live = [row for row in rows if row.status in _LIVE]
    return tasks.carrier_of(live) or (rows[-1] if rows else None)


def _first(call: CommandCall, found: list[Json | None]) -> CommandReply:
    for one in found:
        if one is not None:
            return CommandReply(one)
    raise CommandRefused("handler-error", f"task not found: {_shown_id(call)}")


# ---------------------------------------------------------------------- making


def _create(call: CommandCall, ctx: MailContext, tx: Tx) -> Json:
    cron, script = _clearable(call, "recurrence"), _clearable(call, "script")
    when = call.text("process_after")
    if cron is not None:
        cron = _checked_cron(call, ctx, cron, script)
    if cron is None and not when:
        hint = "say when it should run, or how often with --recurrence"
        raise CommandRefused("handler-error", "--process-after is required", hint=hint)
    mail = inbound.put_task(
        ctx,
        tx,
        call.need("prompt"),
        when or None,
        cron,
        script,
        task_id=_free_id(call, tx),
        origin=ctx.session or None,
    )
    return row(ctx, mail)


def _free_id(call: CommandCall, tx: Tx) -> str:
    """Make an id of the request: asked again after a crash, the task has the same one."""
    number = 0
    while True:
        seed = f"{call.ctx.session}\0{call.request_id}\0{number}"
        task_id = new_task_id(call.text("name"), seed)
        if not tasks.rows_of(tx, task_id):
            return task_id
        number += 1


def _checked_cron(call: CommandCall, ctx: MailContext, cron: str, script: str | None) -> str:
    """Refuse what would wake the agent all day long, unless a script decides or it is meant."""
    cron = check_recurrence(cron, ctx.zone)
    if script or call.is_on("dangerously_override_recurrence_limit"):
        return cron
    times = next_times(cron, ctx.clock(), ctx.zone, MOST_RUNS + 1)
    day = timedelta(days=1).total_seconds() * 1000
    if times[-1].timestamp() * 1000 - ctx.clock() < day:
        msg = f"the recurrence {shown(cron)} means more than {MOST_RUNS} runs a day"
        hint = (
            "choose a longer interval, give a --script that decides whether to wake you, or, if "
            "whoever wants it knows the cost, pass --dangerously-override-recurrence-limit"
        )
        raise CommandRefused("handler-error", msg, hint=hint)
    return cron


def _clearable(call: CommandCall, name: str) -> str | None:
    value = call.text(name)
    return None if value is None or value.strip() in _CLEARED else value


# ---------------------------------------------------------------------- changing


def _update(call: CommandCall, ctx: MailContext, tx: Tx) -> tuple[int, list[str]]:
    task_id = call.need("id")
    live = [row for row in tasks.rows_of(tx, task_id) if row.status in _LIVE]
    carrier = tasks.carrier_of(live)
    changes = {name: _change(call, name) for name in _CHANGES if name in call.flags}
    if not changes:
        hint = "give " + ", ".join(f"--{name.replace('_', '-')}" for name in _CHANGES)
        raise CommandRefused("handler-error", "nothing to update", hint=hint)
    if carrier is None:
        return 0, []
    cron = changes.get("recurrence")
    if cron is not None:
        script = changes.get("script", carrier.content.get("script"))
        changes["recurrence"] = cron = _checked_cron(call, ctx, cron, script)
        if "process_after" not in changes and not _is_due(ctx, carrier):
            due = next_due(cron, ctx.clock(), ctx.zone)
            changes["process_after"] = iso(round(due.timestamp() * 1000))
    said, times = tasks.checked_changes(ctx, changes)
    return tasks.change(ctx, tx, task_id, said, times), [n for n in _CHANGES if n in call.flags]


def _change(call: CommandCall, name: str) -> str | None:
    value = call.text(name)
    if name in ("recurrence", "script"):
        return _clearable(call, name)
    if not value or not value.strip():
        raise CommandRefused("invalid-args", f"--{name.replace('_', '-')} cannot be empty")
    return value


def _is_due(ctx: MailContext, mail: Mail) -> bool:
    due = read_moment(mail.process_after)
    return due is None or due <= ctx.clock()


def _update_reply(call: CommandCall, found: list[tuple[int, list[str]]]) -> CommandReply:
    touched = _touched(call, [count for count, _ in found]).data
    return CommandReply({**touched, "fields": next(names for count, names in found if count)})


def _touched(call: CommandCall, counts: list[int]) -> CommandReply:
    if not sum(counts):
        raise CommandRefused("handler-error", f"no live task matched: {_shown_id(call)}")
    return CommandReply({"series_id": call.need("id"), "touched": sum(counts)})


def _pause(call: CommandCall, _: MailContext, tx: Tx) -> int:
    return tasks.hold(tx, call.need("id"))


def _resume(call: CommandCall, _: MailContext, tx: Tx) -> int:
    return tasks.go_on(tx, call.need("id"))


def _delete(call: CommandCall, ctx: MailContext, tx: Tx) -> int:
    removed = tasks.delete(tx, call.need("id"))
    if removed:
        tasks.remove_log(ctx, call.need("id"))
    return removed


def _cancel(call: CommandCall, _: MailContext, tx: Tx) -> int:
    if call.is_on("all"):
        if call.text("id"):
            raise CommandRefused("invalid-args", "give an id, or --all, not both")
        return tx.count("cancel_all_tasks", {"status": _CALLED_OFF})
    if not call.text("id"):
        raise CommandRefused("invalid-args", "--id is required, or --all")
    return tasks.call_off(tx, call.need("id"), _CALLED_OFF)


def _cancel_reply(call: CommandCall, counts: list[int]) -> CommandReply:
    return CommandReply({"cancelled": sum(counts)}) if call.is_on("all") else _touched(call, counts)


# ---------------------------------------------------------------------- running and logging


def _run(call: CommandCall, ctx: MailContext, tx: Tx) -> Json | None:
    """Put a run of now beside the one that carries the series on, which stays as it is."""
    mail = _find(tx, call.need("id"))
    if mail is None:
        return None
    series = mail.series_id or mail.id
    row_id = run_id(series, f"{call.ctx.session}\0{call.request_id}")
    now = ctx.now_iso()
    if not is_safe_name(row_id):
        row_id = ctx.new_id("task")
    new = NewMail(row_id, "task", mail.raw, now, mail.place, process_after=now, series_id=series)
    written, _ = put(tx, new)
    return {"series_id": series, "row_id": written.id, "status": written.status}


def _append_log(call: CommandCall, ctx: MailContext, tx: Tx) -> Json | None:
    """Add to the log beside the task, where `tasks get` finds it."""
    series = _logged_series(call, ctx, tx)
    if series is None:
        return None
    said_ms = read_moment(call.request.timestamp)  # not now: asked again, it is the same line
    at = ctx.now_iso() if said_ms is None else iso(said_ms)
    tasks.append_log(ctx, series, call.need("msg"), at)
    return {"series": series, "timestamp": at, "path": tasks.log_path(series), "ok": True}


def _logged_series(call: CommandCall, ctx: MailContext, tx: Tx) -> str | None:
    """Give the series of this folder that is meant: the named one, else what the session is for."""
    wanted = call.text("id")
    own = tasks.series_of_thread(Place(*(tx.one("routing") or ())).thread_id)
    if not wanted and ctx is call.ctx and own is None:
        msg = "--id is required: this is not the session of one task"
        raise CommandRefused("handler-error", msg)
    if ctx is call.ctx and (wanted or own) == own:
        return own
    mail = _find(tx, wanted) if wanted else None
    return None if mail is None else mail.series_id or mail.id


def _only(_: CommandCall, found: list[Any]) -> CommandReply:
    return CommandReply(found[-1])


def _shown_id(call: CommandCall) -> str:
    return call.need("id")[:80]


def _is_there(call: CommandCall, tx: Tx) -> bool:
    task_id = call.text("id")
    if task_id is None:
        return bool(tx.all("all_live_tasks"))
    return bool(tx.all("task_ids", {"id": task_id}))


# ---------------------------------------------------------------------- the table

_ID: Final = Flag("id", "The task, by the id of its series.", required=True)
_SESSION: Final = Flag("session", "Only in this session of yours.")
_CRON: Final = Flag("recurrence", "How often: a cron expression, in your group's time zone.")
_WHEN: Final = Flag("process_after", "When: ISO 8601; without a zone, in your group's.")
_SCRIPT: Final = Flag(
    "script", 'Bash before the run; its last line {"wakeAgent": true or false, "data": …} decides.'
)
_ALL: Final = Flag("all", "All tasks of your group, which is the default.", is_switch=True)
_OVERRIDE: Final = Flag(
    "dangerously_override_recurrence_limit",
    f"Allow more than {MOST_RUNS} runs a day without a script.",
    is_switch=True,
)
_CHANGES: Final = ("prompt", "process_after", "recurrence", "script")

COMMANDS: Final = {
    command.name: command
    for command in (
        HostCommand(
            "tasks-list",
            "List the tasks that are still to come, and how their runs have gone so far.",
            (Flag("status", "Only those that are pending, or paused."), _SESSION, _ALL),
            _list,
            _list_reply,
            writes=False,
        ),
        HostCommand(
            "tasks-get",
            "Show one task: prompt, script, history and the end of its log.",
            (_ID, _SESSION),
            _get,
            _first,
            writes=False,
        ),
        HostCommand(
            "tasks-create",
            "Create a task that runs once (--process-after) or repeatedly (--recurrence).",
            (
                Flag("prompt", "What to do when it runs.", required=True),
                Flag("name", "A short name, which its id begins with."),
                _CRON,
                _WHEN,
                _SCRIPT,
                _OVERRIDE,
            ),
            _create,
            _only,
            everywhere=False,
        ),
        HostCommand(
            "tasks-update",
            "Change a task that is still to come, including a run that is already due.",
            (
                _ID,
                Flag("prompt", "What to do instead."),
                _WHEN,
                _CRON._replace(about="How often; `none` makes the next run the last."),
                _SCRIPT._replace(about="Bash before the run; `none` takes it away."),
                _OVERRIDE,
                _SESSION,
            ),
            _update,
            _update_reply,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-pause",
            "Pause a task.",
            (_ID, _SESSION),
            _pause,
            _touched,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-resume",
            "Resume a paused task.",
            (_ID, _SESSION),
            _resume,
            _touched,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-cancel",
            "Cancel a task and all its later runs, or all tasks.",
            (
                _ID._replace(required=False),
                _ALL._replace(about="Every task of your group."),
                _SESSION,
            ),
            _cancel,
            _cancel_reply,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-delete",
            "Delete a task, its history and its log.",
            (_ID, _SESSION),
            _delete,
            _touched,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-run",
            "Run a task once, now; its schedule stays as it is.",
            (_ID, _SESSION),
            _run,
            _first,
            concerns=_is_there,
        ),
        HostCommand(
            "tasks-append-log",
            "Add a line to the log of a task; nobody is notified.",
            (
                Flag("msg", "What was done.", required=True),
                Flag("id", "The task; in a session of its own, that one."),
            ),
            _append_log,
            _first,
            concerns=_is_there,
        ),
    )
}

"""What a clock that was ahead has left in a mailbox, set right once the clock is.

A run of a series, or another try, is put off by the clock of that moment. If that was two days
ahead, it would sleep for two days. What somebody wanted at a time of his own is never moved.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from threadkeep.base import nofollow
from threadkeep.base.clock import is_due, iso, zone_name
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound, ReadOnly
from threadkeep.mailbox import content as shapes, inbound, versions
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.attachments import is_safe_name
from threadkeep.mailbox.context import MailContext, backoff_seconds, run_pause_ms
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.notices import called, tell
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.recurrence import check_recurrence, missed_times, next_due
from threadkeep.mailbox.rows import (
    keep_in_hash,
    mail_of,
    normal_moment,
    read_moment,
    sqlite_form,
    whole_iso,
)

# Clocks of a host and a container may differ by some seconds.
_SLACK_MS: Final = 60_000


def put_off(ctx: MailContext, tx: Tx) -> list[tuple[Mail, str, str]]:
    """Give what waits for a time that a clock ahead of ours computed, when it is due and from when.

    A run follows the moment it was written at, which is now: else the time that is due now would
    look like one that somebody wants if the clock is set right once more.
    """
    ahead = {"ahead": sqlite_form(ctx.clock() + _SLACK_MS)}
    runs = [mail_of(row) for row in tx.all("runs_written_ahead", ahead)]
    tries = [mail_of(row) for row in tx.all("tries_put_off", ahead)]
    found = [(mail, _run_due(ctx, mail), ctx.now_iso()) for mail in runs]
    found += [(mail, _try_due(ctx, mail), mail.timestamp) for mail in tries]
    return [(mail, due, written) for mail, due, written in found if due is not None]


def set_right(ctx: MailContext, tx: Tx) -> None:
    """Bring forward what is late."""
    for mail, due, written in put_off(ctx, tx):
        tx.run("set_right", {"id": mail.id, "process_after": due, "timestamp": written})
        keep_in_hash(tx, inbound.get(tx, mail.id))


def _run_due(ctx: MailContext, mail: Mail) -> str | None:
    """Return when a run of a series is due, if it waits for the time that followed its writing."""
    due, written = read_moment(mail.process_after), read_moment(mail.timestamp)
    if due is None or written is None or mail.recurrence is None:
        return None
    try:
        if _next(ctx, mail.recurrence, written) != due:
            return None  # somebody wants it at that time
        following = _next(ctx, mail.recurrence, ctx.clock())
    except Invalid:  # it has no time that could be computed
        return None
    return iso(following) if following < due else None


def _try_due(ctx: MailContext, mail: Mail) -> str | None:
    """Return when mail is tried again that is put off for longer than any pause takes."""
    due = read_moment(mail.process_after)
    pause = backoff_seconds(ctx.policy, mail.tries)
    if due is None or pause is None or not is_due(due, ctx.clock(), pause * 1000):
        return None
    return whole_iso(ctx.clock() + pause * 1000)


def _next(ctx: MailContext, cron: str, after: int) -> int:
    return round(next_due(cron, after, ctx.zone).timestamp() * 1000)


# ------------------------------------------------------------------------------
# What the runs of a task did, in words: one line each in `tasks/<series>.md` of the folder.

log = logging.getLogger(__name__)
KIND: Final = "task_log"
FOLDER: Final = "tasks"
THREAD: Final = "system:tasks:"  # where mail goes in the session of one series
_TEXT: Final = 500  # characters of one line
_TAIL: Final = 64 * 1024


def series_of_thread(thread_id: str | None) -> str | None:
    """Return the series whose session has this thread, None for a chat's."""
    if thread_id is None or not thread_id.startswith(THREAD):
        return None
    return thread_id.removeprefix(THREAD) or None


def log_path(series: str) -> str:
    """Return where the log of a series is, from the folder of the session on."""
    return f"{FOLDER}/{series}.md"


def append_log(ctx: MailContext, series: str, text: str, at: str) -> None:
    """Add a line to the log of a series, on the disk when this returns; the same one only once."""
    name = _name(series)
    data = f"- {at} {line(text)}\n".encode("utf-8", "replace")
    with _in_reach(ctx):
        nofollow.make_dir(ctx.folder.path, FOLDER)
        nofollow.append(ctx.folder.path, (FOLDER,), name, data, unless_in_last=_TAIL)


def line(text: str) -> str:
    """Return words in one line of at most 500 characters, as a `task_log` has them."""
    words = " ".join(text.split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"


def keep(ctx: MailContext, mail: Outgoing) -> None:
    """Add what a run said of itself to the log of its series; other records lie in their rows."""
    series = _series_of(ctx, mail) if mail.kind == KIND else None
    if series is None or not mail.text.strip():
        return
    said_ms = read_moment(mail.timestamp)
    try:
        append_log(ctx, series, mail.text, ctx.now_iso() if said_ms is None else iso(said_ms))
    except Invalid as error:  # the agent put something in its way; nobody waits for a log
        log.warning("the log of %s was not kept: %s", series, error)


def _series_of(ctx: MailContext, mail: Outgoing) -> str | None:
    with ctx.folder.inbound.read() as tx:
        place = Place(*(tx.one("routing") or ()))
        run = None if mail.in_reply_to is None else inbound.find(tx, mail.in_reply_to)
    if run is not None and run.kind == "task":
        return run.series_id or run.id
    return series_of_thread(place.thread_id)


def newest_log(ctx: MailContext, series: str, count: int) -> list[str]:
    """Return the last lines of the log of a series; none if there is no log, or none to be read."""
    try:
        with _in_reach(ctx):
            data = nofollow.read_end(ctx.folder.path, (FOLDER,), _name(series), _TAIL)
    except Invalid:
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    return [one for one in lines if one.strip()][-count:]


def remove_log(ctx: MailContext, series: str) -> None:
    """Remove the log of a series; none there is fine, and one out of reach stays."""
    if is_safe_name(f"{series}.md"):
        try:
            with _in_reach(ctx):
                nofollow.remove_tree(ctx.folder.path, FOLDER, f"{series}.md")
        except Invalid as error:
            log.warning("the log of %s was not removed: %s", series, error)


@contextmanager
def _in_reach(ctx: MailContext) -> Iterator[None]:
    """Refuse what the agent put in the way, or locked; it is told so without paths of the host."""
    try:
        yield
    except (Invalid, NotFound, ReadOnly) as error:
        log.info("in %s: %s", ctx.folder.path, error)
        hint = f"`{FOLDER}` must be a folder and the log a plain file, both readable by the host"
        raise Invalid("the log of this task cannot be reached", hint=hint) from error


def _name(series: str) -> str:
    if not is_safe_name(f"{series}.md"):
        raise Invalid("the name of this task cannot be a file name", hint="give it another id")
    return f"{series}.md"


# ------------------------------------------------------------------------------
# Tasks that are still to come, and series of them: each run is followed by the next.

CHANGES: Final = frozenset(("prompt", "script", "process_after", "recurrence"))
TOO_LATE: Final = "the next run was due before anybody took this one, and late runs are let go"

# ------------------------------------------------------------------ one task


def live(ctx: MailContext) -> list[Mail]:
    """List the tasks that are still to come, held ones among them."""
    with ctx.folder.inbound.read() as tx:
        return [mail_of(row) for row in tx.all("all_live_tasks")]


def cancel(ctx: MailContext, task_id: str) -> int:
    """Drop a task by its id or its series, with all later runs; give how many rows that were."""
    side = versions.look(ctx).container
    word = versions.OLDEST.called_off if side is None else side.called_off
    return _write(ctx, task_id, lambda tx: call_off(tx, task_id, word))


def pause(ctx: MailContext, task_id: str) -> int:
    """Hold a task until it is resumed; give how many rows that were."""
    return _write(ctx, task_id, lambda tx: hold(tx, task_id))


def resume(ctx: MailContext, task_id: str) -> int:
    """Resume a task that was on hold; one that is overdue by now runs once."""
    return _write(ctx, task_id, lambda tx: go_on(tx, task_id))


def _write(ctx: MailContext, task_id: str, verb: Callable[[Tx], int]) -> int:
    """Change live rows of a task; where there are none, nothing is written."""
    with ctx.folder.inbound.read() as tx:
        if not tx.all("live_tasks", {"id": task_id}):
            return 0
    with ctx.folder.inbound.write() as tx:
        return verb(tx)


# ------------------------------------------------------------------ inside a transaction


def call_off(tx: Tx, task_id: str, word: str) -> int:
    """End the live rows of a task with the word of a version for it."""
    return tx.count("cancel_task", {"id": task_id, "status": word})


def hold(tx: Tx, task_id: str) -> int:
    """Hold the pending rows of a task."""
    return tx.count("move_task", {"id": task_id, "before": "pending", "status": "paused"})


def go_on(tx: Tx, task_id: str) -> int:
    """Let the held rows of a task continue."""
    return tx.count("move_task", {"id": task_id, "before": "paused", "status": "pending"})


def delete(tx: Tx, task_id: str) -> int:
    """Remove all rows of a task, its history among them; give how many there were."""
    ids = [row[0] for row in tx.all("task_ids", {"id": task_id})]
    for row_id in ids:
        for query in ("forget_hash", "forget_dead", "forget_hops", "delete_mail"):
            tx.run(query, {"id": row_id})
    return len(ids)


def rows_of(tx: Tx, task_id: str) -> list[Mail]:
    """Return all rows of a task by its id or its series, in the order of their numbers."""
    return [mail_of(row) for row in tx.all("task_rows", {"id": task_id})]


def update(ctx: MailContext, task_id: str, changes: Mapping[str, Any]) -> int:
    """Change prompt, script, process_after or recurrence of a task; give how many rows changed.

    None, or an empty text, takes script and recurrence away. Words change in every row that is
    still to come, the times only in the one that carries the series on.
    """
    said, times = checked_changes(ctx, changes)
    return _write(ctx, task_id, lambda tx: change(ctx, tx, task_id, said, times))


def change(
    ctx: MailContext, tx: Tx, task_id: str, said: Json, times: Mapping[str, str | None]
) -> int:
    """Change the live rows of a task, all of them: one that is due already as well."""
    rows = [mail_of(row) for row in tx.all("live_tasks", {"id": task_id})]
    carrier = carrier_of(rows)
    for row in rows:
        _change(ctx, tx, row, said, times if row is carrier else {})
    return len(rows)


def carrier_of(rows: Iterable[Mail]) -> Mail | None:
    """Choose the row that carries a series on: one that recurs, and of those the newest."""
    return max(rows, key=lambda row: (row.recurrence is not None, row.seq or 0), default=None)


def checked_changes(
    ctx: MailContext, changes: Mapping[str, Any]
) -> tuple[Json, dict[str, str | None]]:
    """Return the words and the times that shall change; refuse what no task has."""
    odd = sorted(set(changes) - CHANGES)
    if odd or not changes:
        what = f"a task has no field {odd[0][:40]!r}" if odd else "nothing to change"
        raise Invalid(what, hint="give " + ", ".join(sorted(CHANGES)))
    said = {name: _text(name, changes[name]) for name in ("prompt", "script") if name in changes}
    if "prompt" in said and said["prompt"] is None:
        raise Invalid("a task needs a prompt", hint="say what the agent should do")
    times: dict[str, str | None] = {}
    if "recurrence" in changes:
        cron = _text("recurrence", changes["recurrence"])
        times["recurrence"] = None if cron is None else check_recurrence(cron, ctx.zone)
    if changes.get("process_after") is not None:
        times["process_after"] = normal_moment(changes["process_after"], ctx.zone)
    return said, times


def _text(name: str, given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given if given and given.strip() else None
    raise Invalid(f"the {name} of a task must be text, not {type(given).__name__}", hint="quote it")


def _change(
    ctx: MailContext, tx: Tx, row: Mail, said: Json, times: Mapping[str, str | None]
) -> None:
    known = shapes.task_of(row.content)
    raw = shapes.compact({**known, **said}, ctx.policy.content_bytes) if said else row.raw
    kept = {"process_after": row.process_after, "recurrence": row.recurrence}
    tx.run("change_task", {"id": row.id, "content": raw, **kept, **times})
    keep_in_hash(tx, inbound.get(tx, row.id))


# ------------------------------------------------------------------ series


def rearm(ctx: MailContext) -> list[Mail]:
    """Return every series whose run is over its next one; without any nothing is written.

    What a clock that was ahead has put off for too long is set right as well.

    How missed runs are made up for is the policy's choice. `collapse`: a late run stands for all
    that were missed, the next is the first due time from now. `all`: each missed time gets a run
    of its own, the oldest first. `skip`: a run that nobody took before the following one was due
    is let go, so that nothing runs late.
    """
    late = _too_late(ctx) if ctx.policy.catch_up == "skip" else []
    with ctx.folder.inbound.read() as tx:
        if not late and not tx.all("to_rearm") and not put_off(ctx, tx):
            return []
    with ctx.folder.inbound.write() as tx:
        set_right(ctx, tx)
        for message_id in late:
            if tx.count("let_go", {"id": message_id}):
                tx.run("bury", {"id": message_id, "reason": TOO_LATE, "now": ctx.now_sql()})
        over = [mail_of(row) for row in tx.all("to_rearm")]
        runs = [rearm_one(ctx, tx, mail) for mail in over]
    return [run for run in runs if run is not None]


def _too_late(ctx: MailContext) -> list[str]:
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        rows = tx.all("overdue_unclaimed", {"now": ctx.now_sql()})
        mails = [inbound.get(tx, message_id) for (message_id,) in rows]
    return [mail.id for mail in mails if _is_too_late(ctx, mail)]


def _is_too_late(ctx: MailContext, mail: Mail) -> bool:
    due = read_moment(mail.process_after)
    if due is None or mail.recurrence is None:
        return False
    try:
        return _ms(next_due(mail.recurrence, due, ctx.zone)) <= ctx.clock()
    except Invalid:  # no next time: this run is the last, and nothing makes it too late
        return False


def rearm_one(ctx: MailContext, tx: Tx, mail: Mail) -> Mail | None:
    """Follow a run that is over by the next one, and end its own part in the series.

    `mail` is the row as it was: after a run that was put on hold meanwhile, the next one waits.
    None if the series continues already, or cannot.
    """
    series = mail.series_id or mail.id
    zone_name(ctx.zone, {})  # a zone that is not known here is no fault of the series
    tx.run("clear_recurrence", {"id": mail.id})
    if tx.one("live_row_of_series", {"series_id": series}) is not None:
        return None
    failures = int(tx.value("failed_in_a_row", {"series_id": series}))
    try:
        runs = _next_runs(ctx, mail, series, failures)
    except Invalid as error:
        _end_series(ctx, tx, mail, error.message)
        return None
    if failures >= ctx.policy.runs_failed:
        worn = f"Task {called(mail)} failed {failures} times in a row and is now on hold."
        tell(ctx, tx, f"{worn} Resume it when it can work again.", [mail.id])
    return [inbound.put(tx, run)[0] for run in runs][-1]


def _next_runs(ctx: MailContext, mail: Mail, series: str, failures: int) -> list[NewMail]:
    """Shape the runs that follow: missed ones if all are wanted, then the one to come.

    After failures the series waits longer and longer, and after too many it is put on hold: else
    what cannot work would wake its agent forever.
    """
    worn = failures >= ctx.policy.runs_failed
    cron, now, held = mail.recurrence or "", ctx.clock(), mail.status == "paused" or worn
    due = read_moment(mail.process_after)
    # By a clock that is ahead of ours a run may be over before its time: it is not due again then.
    # But no more than one time is passed over, however far ahead that clock was.
    rest = 0 if worn else run_pause_ms(ctx.policy, failures)
    soonest = next_due(cron, now + rest, ctx.zone)
    following = soonest if due is None or due < _ms(soonest) else next_due(cron, soonest, ctx.zone)
    missed: list[datetime] = []
    if ctx.policy.catch_up == "all" and due is not None and due < now and not held and not rest:
        most = ctx.policy.catch_up_runs
        missed = missed_times(cron, _moment(due), _moment(now), ctx.zone, most)
    status = "paused" if held else "pending"
    return [
        *(_run(ctx, mail, series, at, recurrence=None, status="pending") for at in missed),
        _run(ctx, mail, series, following, recurrence=cron, status=status),
    ]


def _run(ctx: MailContext, mail: Mail, series: str, at: datetime, **fields: str | None) -> NewMail:
    return NewMail(
        ctx.new_id("task" if mail.kind == "task" else "msg"),
        mail.kind,
        mail.raw,
        ctx.now_iso(),
        mail.place,
        process_after=iso(_ms(at)),
        series_id=series,
        **fields,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _end_series(ctx: MailContext, tx: Tx, mail: Mail, why: str) -> None:
    """Another program wrote a recurrence that cannot be read: say so once, and keep the reason."""
    before = tx.one("dead_of", {"id": mail.id})
    reason = why if before is None else f"{before[0]}; {why}"
    tx.run("bury", {"id": mail.id, "reason": reason, "now": ctx.now_sql()})
    tell(ctx, tx, f"Task {called(mail)} will not run again: {why}", [mail.id])

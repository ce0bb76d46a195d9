"""What a clock that was ahead has left in a mailbox, set right once the clock is.

A run of a series, or another try, is put off by the clock of that moment. If that was two days
ahead, it would sleep for two days. What somebody wanted at a time of his own is never moved.
"""

from typing import Final

from threadkeep.base.clock import is_due, iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.mailbox import inbound
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.policy import backoff_seconds
from threadkeep.mailbox.records import Mail
from threadkeep.mailbox.recurrence import next_due
from threadkeep.mailbox.rows import keep_in_hash, mail_of
from threadkeep.mailbox.times import read_moment, sqlite_form, whole_iso

# Clocks of a host and a container may differ by some seconds.
_SLACK_MS: Final = 60_000


def late(ctx: MailContext, tx: Tx) -> list[tuple[Mail, str]]:
    """Give what waits for a time that was computed by a clock ahead of ours, and when it is due."""
    ahead = {"ahead": sqlite_form(ctx.clock() + _SLACK_MS)}
    runs = [mail_of(row) for row in tx.all("runs_written_ahead", ahead)]
    tries = [mail_of(row) for row in tx.all("tries_put_off", ahead)]
    found = [(mail, _run_due(ctx, mail)) for mail in runs]
    found += [(mail, _try_due(ctx, mail)) for mail in tries]
    return [(mail, due) for mail, due in found if due is not None]


def set_right(ctx: MailContext, tx: Tx) -> None:
    """Bring forward what is late."""
    for mail, due in late(ctx, tx):
        kept = {"content": mail.raw, "recurrence": mail.recurrence}
        tx.run("change_task", {"id": mail.id, "process_after": due, **kept})
        keep_in_hash(tx, inbound.get(tx, mail.id))


def _run_due(ctx: MailContext, mail: Mail) -> str | None:
    """Give when a run of a series is due, if it waits for the time that followed its writing."""
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
    """Give when mail is tried again that is put off for longer than any pause takes."""
    due = read_moment(mail.process_after)
    pause = backoff_seconds(ctx.policy, mail.tries)
    if due is None or pause is None or not is_due(due, ctx.clock(), pause * 1000):
        return None
    return whole_iso(ctx.clock() + pause * 1000)


def _next(ctx: MailContext, cron: str, after: int) -> int:
    return round(next_due(cron, after, ctx.zone).timestamp() * 1000)

"""`threadkeep mail retry`: dead letters shown, tried again, purged."""

import click

from threadkeep.base.clock import now_ms, parse_duration
from threadkeep.cli.command import PROBLEMS, Call, as_typed, command, confirm
from threadkeep.cli.mail.group import hosting, message_ref, session_argument
from threadkeep.cli.mail.words import Json, when
from threadkeep.cli.output import counted, document, fail, note, one_line, table, write
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import DeadLetter, Delivery, Mail
from threadkeep.mailbox.rows import read_moment


@command(
    "retry",
    "threadkeep mail retry last --list",
    "threadkeep mail retry last 6",
    "threadkeep mail retry last --purge --older-than 30d --dry-run",
)
@session_argument
@click.argument("message", required=False)
@click.option("--list", "listing", is_flag=True, help="Only show the dead letters.")
@click.option("--purge", is_flag=True, help="Remove what they say instead of trying again.")
@click.option("--older-than", default="30d", show_default=True, metavar="AGE", help="With --purge.")
@click.option("--force", is_flag=True, help="Also what may have been sent already.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, do nothing.")
def retry(
    call: Call,
    *,
    session: str,
    message: str | None,
    listing: bool,
    purge: bool,
    older_than: str,
    force: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Try dead letters once more: all of a session, or MESSAGE, named by number or id.

    Mail to the agent is tried under a new id. Mail of which nobody knows whether it was sent is
    left out, unless --force.
    """
    if listing and (purge or force):
        raise Invalid("--list only shows", hint="leave it out, or --purge and --force")
    host = hosting(call, session)
    found = _dead(host, message)
    if listing:
        _show_dead(call, found)
    elif purge:
        age = 0 if message is not None else parse_duration(older_than)
        _purge(call, host, _older(found, age), yes=yes, dry_run=dry_run)
    else:
        chosen = found if message is not None else _worth_it(found, force=force)
        return _retry_all(call, host, chosen, force=force, dry_run=dry_run)
    return 0


def _dead(host: Host, message: str | None) -> list[DeadLetter]:
    found = host.dead_letters()
    if message is None:
        return found
    which = message_ref(message)
    chosen = [letter for letter in found if which in (letter.id, letter.seq)]
    if not chosen:
        hint = "`threadkeep mail retry SESSION --list` shows them"
        raise NotFound(f"there is no dead letter {message[:80]!r}", hint=hint)
    return chosen


def _worth_it(found: list[DeadLetter], *, force: bool) -> list[DeadLetter]:
    return [
        letter
        for letter in found
        if letter.retried_as is None and (force or letter.state != "unknown")
    ]


def _older(found: list[DeadLetter], age: int) -> list[DeadLetter]:
    latest = now_ms() - age
    return [letter for letter in found if (read_moment(letter.at) or 0) <= latest]


def _show_dead(call: Call, found: list[DeadLetter]) -> None:
    if call.as_json:
        document(dead=found)
        return
    columns = ("number", "id", "state", "tries", "when", "reason", "retried as", "text")
    rows = [
        (
            str(letter.seq),
            letter.id,
            letter.state,
            str(letter.tries),
            when(letter.at),
            letter.reason,
            letter.retried_as or "",
            letter.text,
        )
        for letter in found
    ]
    table(columns, rows, wide="text", spare=("retried as", "when", "tries", "id"))
    if not found:
        note("there is no dead letter")


def _retry_all(
    call: Call, host: Host, chosen: list[DeadLetter], *, force: bool, dry_run: bool
) -> int:
    """Try what can be tried; one that cannot does not stop those behind it."""
    tried: list[Json] = []
    problems = 0
    for letter in chosen:
        try:
            now = letter.id if dry_run else _name(host.retry(letter.id, force=force))
        except ThreadkeepError as error:
            fail(f"{one_line(letter.id)}: {error.message}", as_typed(error.hint))
            problems += 1
        else:
            shown = {"id": letter.id, "seq": letter.seq, "direction": letter.direction}
            tried.append(shown if dry_run else {**shown, "now": now})
            if not call.as_json:
                write(now)
    if call.as_json:
        document(retried=tried, dry_run=dry_run)
    else:
        note(f"{'would try' if dry_run else 'tried'} {counted(len(tried), 'dead letter')} again")
    return PROBLEMS if problems else 0


def _name(tried: Mail | Delivery) -> str:
    return tried.id if isinstance(tried, Mail) else tried.message_out_id


def _purge(call: Call, host: Host, chosen: list[DeadLetter], *, yes: bool, dry_run: bool) -> None:
    count = 0
    if chosen and not dry_run:
        confirm(f"remove what {counted(len(chosen), 'dead letter')} say?", yes=yes)
        count = sum(host.purge(letter.id) for letter in chosen)
    if call.as_json:
        document(dead=[letter.id for letter in chosen], purged=count, dry_run=dry_run)
        return
    for letter in chosen:
        write(letter.id)
    told = counted(len(chosen) if dry_run else count, "dead letter")
    note(f"{'would purge' if dry_run else 'purged'} {told}")

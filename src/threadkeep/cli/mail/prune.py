"""`threadkeep mail prune`: old mail of an agent removed."""

import click

from threadkeep.base.clock import parse_duration
from threadkeep.cli.command import Call, command, confirm
from threadkeep.cli.mail.group import hosting, session_argument
from threadkeep.cli.output import counted, document, note


@command(
    "prune",
    "threadkeep mail prune last --older-than 90d --dry-run",
    "threadkeep mail prune ./box --keep 1000 --yes",
)
@session_argument
@click.option("--older-than", metavar="AGE", help="Only what is older: 90d, 12h.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="The newest N stay.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, do nothing.")
def prune(
    call: Call,
    *,
    session: str,
    older_than: str | None,
    keep: int | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Remove old, delivered mail of the agent, and acknowledgements that the host has recorded.

    Give an age, a number to keep, or both. Mail that is waiting, has failed, or answers mail that
    is still open is kept. This is refused while an agent works in the folder. Mail that was
    removed can no longer be edited, reacted to or traced.
    """
    host = hosting(call, session)
    age = None if older_than is None else parse_duration(older_than)
    found = host.prune(older_than_ms=age, keep=keep, dry_run=True)
    if not dry_run and (found.messages or found.answers):
        confirm(f"remove {counted(found.messages, 'message')} for good?", yes=yes)
        found = host.prune(older_than_ms=age, keep=keep)
    if call.as_json:
        document(messages=found.messages, answers=found.answers, dry_run=dry_run)
        return
    word = "would remove" if dry_run else "removed"
    note(f"{word} {counted(found.messages, 'message')}, {counted(found.answers, 'answer')}")

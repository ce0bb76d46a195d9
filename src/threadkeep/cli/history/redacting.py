"""`threadkeep redact`: what is taken for a secret, and secrets that came in before their rule."""

import sys
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, command, group, store_command
from threadkeep.cli.history.live import progress_bar
from threadkeep.cli.history.opening import looking
from threadkeep.cli.output import counted, document, note, one_line, table, warn, write

if TYPE_CHECKING:
    from threadkeep.capture.redact.engine import SecretMatch

_SHOWN = 4  # letters of a secret that are repeated, so that one knows which is meant


@group(
    "redact",
    'threadkeep redact test "password = hunter2hunter2"',
    "threadkeep redact rules",
    "threadkeep redact rescan --dry-run",
    "threadkeep redact undo --dry-run prefixed-token",
)
def redact() -> None:
    """Secrets: they are masked before anything is stored."""


@command("test", 'threadkeep redact test "token: ghp_…"', "threadkeep redact test - < .env --json")
@click.argument("text", required=False)
def check(call: Call, *, text: str | None) -> None:
    """Show what of TEXT would be masked, by which rule and why; without TEXT, or with -, of stdin.

    First the rules with the places they found and what speaks for a secret there, then the text as
    it would be stored. Nothing is stored here.
    """
    given = sys.stdin.read() if text in (None, "-") else str(text)
    redactor = call.home.redactor()
    found, masked = redactor.scan(given), redactor.text(given)
    if call.as_json:
        places = [{**one._asdict(), "line": _line_of(given, one)} for one in found]
        document(findings=places, masked=masked)
        return
    rows = [
        (
            one.rule,
            str(_line_of(given, one)),
            f"{one.start}-{one.end}",
            _hint_of(given, one),
            one.why,
        )
        for one in found
    ]
    table(("rule", "line", "place", "begins with", "why"), rows, wide="why")
    write(masked.removesuffix("\n"))
    if masked == given:
        note("nothing here is taken for a secret")


def _line_of(text: str, found: "SecretMatch") -> int:
    return text.count("\n", 0, found.start) + 1


def _hint_of(text: str, found: "SecretMatch") -> str:
    return f"{one_line(text[found.start : found.end])[:_SHOWN]}…"


@command("rules", "threadkeep redact rules", "threadkeep redact rules --json", lists=True)
def rules(call: Call) -> None:
    """List the rules for secrets: our own, and those of the files that the configuration names."""
    from threadkeep.home.opening import rule_book

    book = rule_book(call.home)
    if call.as_json:
        call.answer("rules", rules=book.rules, refused=book.refused)
        return
    rows = [(rule.id, rule.origin, ", ".join(rule.keywords)) for rule in book.rules]
    table(("rule", "from", "looks at"), rows, wide="looks at", spare=("from",))
    for rule in book.refused:
        warn(f"{rule.origin}: {rule.id} is not used: {rule.reason}")
    note(counted(len(book.rules), "rule"))


@store_command("rescan", "threadkeep redact rescan --dry-run", "threadkeep redact rescan")
@click.option("--dry-run", is_flag=True, help="Say what would be masked, change nothing.")
def rescan(call: Call, *, dry_run: bool) -> None:
    """Look through all that was captured with the rules of today, and mask what they find.

    For secrets that came in before there was a rule for them.
    """
    opened = looking(call) if dry_run else call.home.history(call.db, must_exist=True)
    with opened as history, progress_bar(wanted=not call.as_json) as show:
        done = history.rescan(dry_run=dry_run, show=show)
    if call.as_json:
        document(rescan=done, dry_run=dry_run)
        return
    table(("rule", "lines"), [(name, f"{count:,}") for name, count in done.rules.items()])
    would = "would mask" if dry_run else "masked"
    lines = counted(done.lines, "line")
    note(f"{would} {lines} of {counted(done.logs, 'log')} and {counted(done.rows, 'row')}")
    if done.lines and not dry_run:
        note("older backups still hold them: `threadkeep backup --store knowledge --list`")


@store_command(
    "undo",
    "threadkeep redact undo --dry-run secret-assignment",
    "threadkeep redact undo 5f0c2a7e",
)
@click.argument("name", metavar="RULE|SESSION")
@click.option("--dry-run", is_flag=True, help="Say what would be put back, change nothing.")
def undo(call: Call, *, name: str, dry_run: bool) -> None:
    """Put back what RULE masked by mistake, or all that is masked in SESSION.

    The original is read again from its log, as long as that exists, and only where everything
    around the mask is still the same. The rule masks no more in these sessions. What was marked as
    private stays so.
    """
    opened = looking(call) if dry_run else call.home.history(call.db, must_exist=True)
    with opened as history, progress_bar(wanted=not call.as_json) as show:
        done = history.undo_masks(name, dry_run=dry_run, show=show)
    if call.as_json:
        document(undo=done, dry_run=dry_run)
        return
    table(("rule", "masks"), [(rule, f"{count:,}") for rule, count in done.rules.items()])
    would = "would put back" if dry_run else "put back"
    note(f"{would} {counted(done.lines, 'line')} of {counted(done.logs, 'log')}")
    if done.unlike:
        note(f"{counted(done.unlike, 'line')} with a mask did not stand in the log any more")
    for path in done.gone:
        warn(f"{path} is not there any more: what is masked of it stays masked")


for _command in (check, rules, rescan, undo):
    redact.add_command(_command)

"""`threadkeep knowledge`: knowledge files as files, their version and their soundness."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import PROBLEMS, Call, group, store_command
from threadkeep.cli.output import counted, document, facts, fail, note, progress, table, warn, write
from threadkeep.errors import SchemaMismatch

if TYPE_CHECKING:
    from threadkeep.knowledge.upgrade import KnowledgeCheck, Migration


@group(
    "knowledge",
    "threadkeep knowledge check",
    "threadkeep knowledge migrate ~/.local/share/hippo/hippo.db --dry-run",
)
def knowledge() -> None:
    """Knowledge files in Hippo's format: check or migrate one."""


@store_command("check", "threadkeep knowledge check", "threadkeep knowledge check ./copy.db --json")
@click.argument("file", required=False)
def check(call: Call, *, file: str | None) -> int:
    """Check a knowledge file and its schema version.

    Exit code 5 if this program cannot write its version, 1 if the file is damaged.
    """
    from threadkeep.knowledge.upgrade import check_knowledge

    with progress("checking"):
        found = check_knowledge(_named(call, file))
    if call.as_json:
        document(
            path=found.path,
            ok=found.fits and not found.problems,
            version=found.finding,
            problems=found.problems,
        )
    else:
        _tell_check(found)
    if not found.fits:
        return SchemaMismatch.exit_code
    return PROBLEMS if found.problems else 0


def _named(call: Call, file: str | None) -> Path:
    return call.home.knowledge_path(file or call.db)


def _tell_check(found: "KnowledgeCheck") -> None:
    facts({"file": str(found.path), "schema version": str(found.finding.version)})
    for problem in found.problems:
        write(problem, "red")
    if found.fits:
        note(f"{found.finding.cause}; {counted(len(found.problems), 'problem')}")
    else:
        fail(found.finding.cause, found.finding.fix)


@store_command(
    "migrate",
    "threadkeep knowledge migrate ./hippo.db --dry-run",
    "threadkeep knowledge migrate ./hippo.db",
    "threadkeep knowledge migrate --to 23",
)
@click.argument("file", required=False)
@click.option(
    "--to",
    type=int,
    metavar="VERSION",
    help="The schema version: 18 unless given, 23 for today's Hippo. There is no way back.",
)
@click.option("--dry-run", is_flag=True, help="Try it on a private copy; leave the file alone.")
def migrate(call: Call, *, file: str | None, to: int | None, dry_run: bool) -> int:
    """Migrate an older knowledge FILE to schema version 18 or 23, after a backup.

    Default: the home's own file. Orphaned rows are set aside, not deleted. Each version of Hippo
    works with one schema version only: 23 is that of August 2026.
    """
    from threadkeep.knowledge.upgrade import migrate_knowledge

    with progress("trying" if dry_run else "migrating"):
        done = migrate_knowledge(_named(call, file), to=to, dry_run=dry_run)
    if call.as_json:
        document(migration=done)
    else:
        _tell_migration(done)
    return PROBLEMS if done.problems else 0


def _tell_migration(done: "Migration") -> None:
    rows = [
        (name, _number(rows.before), _number(rows.after))
        for name, rows in done.rows.items()
        if rows.before != rows.after or rows.after
    ]
    table(("table", "rows before", "rows after"), rows)
    would = "would go" if done.dry_run else "went"
    steps = f" ({', '.join(done.steps)})" if done.steps else ": nothing to do"
    before, after = done.version_before, done.version_after
    note(f"{done.path} {would} from version {before} to {after}{steps}")
    if done.backup:
        note(f"the file as it was before is in {done.backup}")
    if done.set_aside:
        note(f"{counted(len(done.set_aside), 'row')} without a parent set aside in tk_orphans")
    for problem in done.problems:
        warn(problem)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


for _command in (check, migrate):
    knowledge.add_command(_command)

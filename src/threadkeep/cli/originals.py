"""`threadkeep import`: take over the data of an installed original in one command."""

import click

from threadkeep.cli.command import PROBLEMS, Call, store_command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import counted, document, note, progress, size_text, warn
from threadkeep.errors import Invalid
from threadkeep.transfer.originals import PROGRAMS, AdoptReport, Original

_EXPORTS = ("chatgpt", "claude-ai")  # services whose data exports are read
_SINGULAR = {"sessions": "session", "messages": "message", "events": "event", "nodes": "node"}


@store_command(
    "import",
    "threadkeep import hermes",
    "threadkeep import hippo --dry-run",
    "threadkeep import grida ~/.grida/agent",
    "threadkeep import nanoclaw ~/code/nanoclaw",
    "threadkeep import chatgpt ~/Downloads/export.zip",
    "threadkeep import claude-ai ~/Downloads/data.zip",
)
@click.argument("program", type=OneOf((*PROGRAMS, *_EXPORTS)))
@click.argument("path", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would be imported; import nothing.")
def import_(call: Call, *, program: str, path: str | None, dry_run: bool) -> int | None:
    """Import the data of Hermes Agent, Grida, Hippo or NanoClaw, or the export of a chat service.

    The data is read from its usual place, or from PATH. If this home has no such store yet, a copy
    becomes the store; otherwise new sessions, and new messages of known ones, are added. The
    original is not changed, local changes are kept, and importing twice is safe. --db imports into
    another file.

    For ChatGPT and Claude.ai, PATH is the ZIP file of the data export, or its unpacked folder. The
    conversations are listed and searched like those of agents; a later export adds what is new.
    """
    if program in _EXPORTS:
        return _import_export(call, program, path, dry_run=dry_run)
    with progress(f"importing from {program}") as advance:
        done = call.home.adopt(program, path, target=call.db, dry_run=dry_run, progress=advance)
    if call.as_json:
        document(**{"import": done})
    else:
        _tell(done)
    return PROBLEMS if done.problems else None


def _import_export(call: Call, service: str, path: str | None, *, dry_run: bool) -> int | None:
    """Bring in a data export of a chat service."""
    from threadkeep.cli.history.capture import report_json, tell_errors, tell_report

    if path is None:
        raise Invalid(f"which export of {service}?", hint=f"threadkeep import {service} FILE.zip")
    with call.home.history(call.db) as history:
        report = history.import_export(service, path, dry_run=dry_run)
    if call.as_json:
        document(**{"import": report_json(report, None, None)})
    else:
        tell_report(report)
    return tell_errors(report) or None


def _tell(done: AdoptReport) -> None:
    note(_found(done.original))
    sessions = counted(done.added, "session")
    would = "would be " if done.dry_run else ""
    if done.copied:
        note(f"a copy of it {'would become' if done.dry_run else 'is now'} {done.target}")
    else:
        note(f"{sessions} {would}added to {done.target}, {_known(done)}")
    for table, rows in done.tables.items():
        left = f", {rows.left:,} cannot be taken" if rows.left else ""
        note(f"{table}: {rows.new:,} new, {rows.there:,} already there{left}")
    for text in done.notes:
        note(text)
    for problem in done.problems:
        warn(problem)


def _known(done: AdoptReport) -> str:
    """Say what came of the sessions that were there before."""
    there = f"{done.skipped:,} already present"
    if not done.updated:
        return there
    return f"{counted(done.updated, 'session')} brought up to date, {there}"


def _found(original: Original) -> str:
    version = "" if original.version is None else f" (schema version {original.version})"
    counts = ", ".join(
        counted(count, _SINGULAR[what]) if what in _SINGULAR else f"{count:,} {what}"
        for what, count in original.counts.items()
    )
    return f"found {original.path}{version}: {counts}, {size_text(original.bytes)}"

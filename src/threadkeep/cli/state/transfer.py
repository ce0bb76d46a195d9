"""`threadkeep state export` and `import`: sessions out and in, as lines of JSON."""

from collections.abc import Iterator
from pathlib import Path

import click

from threadkeep import SessionDB
from threadkeep.cli.command import Call
from threadkeep.cli.export_file import print_pieces, save_pieces
from threadkeep.cli.options import OneOf, complete_state_session
from threadkeep.cli.output import counted, document, note, progress
from threadkeep.cli.state.group import reading, state_command, writing
from threadkeep.errors import Invalid
from threadkeep.state.naming import (
    find_state_session,
    session_as_lines,
    session_as_object,
    session_lines,
)

_PAGE = 500
_FORMATS = ("jsonl", "sessions")


@state_command(
    "export",
    "threadkeep state export last",
    "threadkeep state export --all -o sessions.jsonl",
)
@click.argument("session", required=False, shell_complete=complete_state_session)
@click.option("--all", "everything", is_flag=True, help="Every session, including archived ones.")
@click.option("--source", help="With --all: only sessions of this source.")
@click.option("--lineage", is_flag=True, help="The whole chain of compressions of SESSION.")
@click.option(
    "--format",
    "kind",
    type=OneOf(_FORMATS),
    default="jsonl",
    show_default=True,
    help="A line for each message, or one for each session with all in it, as Hermes has it.",
)
@click.option("-o", "--output", metavar="FILE", help="Write a file that only you can read.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(
    call: Call,
    *,
    session: str | None,
    everything: bool,
    source: str | None,
    lineage: bool,
    kind: str,
    output: str | None,
    force: bool,
) -> None:
    """Export a session, its lineage, or all sessions as JSON Lines for `import`.

    With -o and --json it reports what was written.
    """
    _check_choice(session, source, everything=everything, lineage=lineage)
    with reading(call) as store:
        found = _lines(store, session, source, lineage=lineage, kind=kind)
        lines = (f"{line}\n" for line in found)
        if output is None:
            print_pieces(lines)
            return
        target, total = Path(output), _total(store, session, kind)
        file = call.home.file("state", call.db)
        count, size = save_pieces(lines, target, file, force=force, total=total)
    if call.as_json:
        document(file=target, format=kind, lines=count, bytes=size)
    else:
        note(f"wrote {counted(count, 'line')}, {size:,} bytes, to {target}")


def _check_choice(
    session: str | None, source: str | None, *, everything: bool, lineage: bool
) -> None:
    if everything == (session is not None):
        raise Invalid("export one session, or --all", hint="name a session, or --all")
    if everything and lineage:
        raise Invalid("--lineage needs a session", hint="--all has every lineage in it")
    if not everything and source is not None:
        raise Invalid("--source chooses among all sessions", hint="add --all, or leave it out")


def _lines(
    store: SessionDB, session: str | None, source: str | None, *, lineage: bool, kind: str
) -> Iterator[str]:
    if session is None and kind == "jsonl":
        yield from store.iter_export(source)
        return
    for session_id in _chosen(store, session, source, lineage=lineage):
        if kind == "jsonl":
            yield from session_as_lines(store, session_id)
        else:
            yield session_as_object(store, session_id)


def _chosen(
    store: SessionDB, session: str | None, source: str | None, *, lineage: bool
) -> list[str]:
    if session is None:
        return _all_ids(store, source)
    found = find_state_session(store, session)
    return store.get_compression_lineage(found) if lineage else [found]


def _all_ids(store: SessionDB, source: str | None) -> list[str]:
    """Return all ids, the newest first; a session that begins meanwhile may shift a page by one."""
    ids: dict[str, None] = {}
    offset = 0
    while page := store.search_sessions(source, _PAGE, offset):
        ids.update(dict.fromkeys(one["id"] for one in page))
        offset += _PAGE
    return list(ids)


def _total(store: SessionDB, session: str | None, kind: str) -> int:
    if session is not None:
        return 0
    return store.session_count(include_archived=True) + (
        store.message_count() if kind == "jsonl" else 0
    )


@state_command(
    "import",
    "threadkeep state import sessions.jsonl",
    "hermes sessions export - | threadkeep state import -",
)
@click.argument("file")
@click.option(
    "--on-conflict",
    type=OneOf(["skip", "update", "replace", "error"]),
    default="skip",
    show_default=True,
    help="What to do with a session that is there already.",
)
def import_(call: Call, *, file: str, on_conflict: str) -> None:
    """Import sessions exported by `export` or Hermes; importing twice is safe.

    FILE has JSON Lines or a list of sessions; - reads stdin. Each session is stored whole or not at
    all.
    """
    with click.open_file(file, "rb") as given, progress("importing") as advance:
        lines = session_lines(given)
        with writing(call) as store:
            counts = store.import_sessions(
                lines,
                on_conflict=on_conflict,
                progress=advance and (lambda count: advance(count, 0)),
            )
            path = store.database.name
    if call.as_json:
        document(file=path, **{"import": counts})
    named = ("added", "updated", "replaced", "skipped")
    told = [f"{counted(counts[name], 'session')} {name}" for name in named if counts.get(name)]
    note(", ".join(told) + f", {counted(counts['messages'], 'message')}, in {path}")

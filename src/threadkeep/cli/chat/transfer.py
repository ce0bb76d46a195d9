"""`threadkeep chat export`, `import` and `diff`: sessions out, in, and side by side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from threadkeep import ChatStore
from threadkeep.base.text import printable
from threadkeep.cli.command import PROBLEMS, Call, as_typed, session_argument, store_command
from threadkeep.cli.export_file import print_pieces, save_pieces
from threadkeep.cli.options import OneOf, complete_session
from threadkeep.cli.output import (
    StyledText,
    document,
    note,
    one_line,
    progress,
    safe_json,
    warn,
    write,
    write_pieces,
)
from threadkeep.cli.transcript import value_text
from threadkeep.errors import Invalid

_FORMATS = ("jsonl", "json", "csv", "markdown")
_SHOWN = 200


@store_command(
    "export",
    "threadkeep chat export last --format markdown",
    "threadkeep chat export --all -o sessions.jsonl",
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--format", "kind", type=OneOf(_FORMATS), help="[default: jsonl]")
@click.option("--all", "everything", is_flag=True, help="Every session, including archived ones.")
@click.option("-o", "--output", metavar="FILE", help="Write a file that only you can read.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(
    call: Call,
    *,
    session: str | None,
    kind: str | None,
    everything: bool,
    output: str | None,
    force: bool,
) -> None:
    """Export a session, or all, as JSON Lines (lossless), JSON, CSV or Markdown.

    --json is short for --format json; with -o it reports what was written instead.
    """
    if everything == (session is not None):
        raise Invalid("export one session, or --all", hint="name a session, or --all")
    chosen = kind or ("json" if call.as_json and output is None else "jsonl")
    with call.reading() as store:
        if output is None:
            harmless = safe_json if chosen.startswith("json") else printable
            print_pieces(_pieces(store, session, chosen), harmless)
            return
        target = Path(output)
        pieces = _pieces(store, session, chosen)
        _, size = save_pieces(pieces, target, call.home.file("chat", call.db), force=force)
    if call.as_json:
        document(file=target, format=chosen, bytes=size)
    else:
        note(f"wrote {size:,} bytes to {target}")


def _pieces(store: ChatStore, session: str | None, kind: str) -> Iterator[str]:
    if session is None:
        return store.export_all(kind)
    return store.export(store.find_session(session), kind)


@store_command("import", "threadkeep chat import sessions.jsonl", "threadkeep chat import -")
@click.argument("file")
@click.option("--replace", is_flag=True, help="Replace sessions that differ.")
def import_(call: Call, *, file: str, replace: bool) -> int:
    """Import sessions from JSON Lines or JSON; importing twice is safe.

    FILE comes from `export`; - reads stdin. Sessions that exist with different content are left
    alone and reported, and the exit code is 1.
    """
    with click.open_file(file, "rb") as given, progress("importing") as advance:
        lines = call.home.checked_input(given, path=call.db)
        with call.writing() as store:
            report = store.import_sessions(
                lines, replace=replace, progress=advance and (lambda count: advance(count, 0))
            )
    if call.as_json:
        document(ok=report.ok, **{"import": report})
    for conflict in report.conflicts:
        warn(f"{conflict.place}: {conflict.reason} ({as_typed(conflict.hint)})")
    counted = {
        "imported": len(report.imported),
        "replaced": len(report.replaced),
        "unchanged": len(report.unchanged),
        "left out": len(report.conflicts),
    }
    note(", ".join(f"{count} {what}" for what, count in counted.items() if count) or "no session")
    return 0 if report.ok else PROBLEMS


# ---------------------------------------------------------------------- diff


@store_command("diff", "threadkeep chat diff ses_019a4c21 last")
@session_argument
@click.argument("other", shell_complete=complete_session)
@click.option("--view", type=OneOf(["transcript", "model", "all"]), default="transcript")
def diff(call: Call, *, session: str, other: str, view: Any) -> None:
    """Compare two sessions turn by turn: a fork and its parent, two answers to one question."""
    with call.reading() as store:
        found = store.diff(store.find_session(session), store.find_session(other), view)
    if call.as_json:
        document(same=found.same, counts=found.counts, diff=found)
        return
    write(f"< {found.left}", "red")
    write(f"> {found.right}", "green")
    for turn in found.turns:
        write_pieces(_turn(turn))
    counted = [f"{count} {what}" for what, count in found.counts.items() if count]
    note(f"turns: {', '.join(counted) or 'none'}")


_MARKS = {"same": ("=", "dim"), "changed": ("~", "yellow"), "left": ("<", "red")}
_MARKS["right"] = (">", "green")


def _turn(turn: Any) -> Iterator[StyledText]:
    mark, style = _MARKS[turn.status]
    numbers = "/".join("-" if n is None else str(n) for n in (turn.left, turn.right))
    yield StyledText(f"{mark} turn {numbers}  {one_line(turn.preview)}\n", style)
    if turn.status != "changed":
        return
    for message in turn.messages:
        mark, style = _MARKS[message.status]
        ids = " ".join(one_line(found) for found in (message.left, message.right) if found)
        yield StyledText(f"  {mark} {one_line(message.role)}  {ids}\n", style)
        for field in message.fields:
            yield from _field(field, "    ")
        for part in message.parts:
            mark, style = _MARKS[part.status]
            yield StyledText(f"    {mark} {one_line(part.type)}  {one_line(part.preview)}\n", style)
            for field in part.fields:
                yield from _field(field, "      ")


def _field(field: Any, indent: str) -> Iterator[StyledText]:
    if field.diff is None:
        before, after = (one_line(value_text(v, _SHOWN)) for v in (field.left, field.right))
        yield StyledText(f"{indent}{one_line(field.name)}: {before} → {after}\n")
        return
    for line in field.diff.split("\n")[2:]:  # without the two lines that name the sides
        style = {"-": "red", "+": "green"}.get(line[:1], "dim")
        yield StyledText(f"{indent}{line}\n", style)

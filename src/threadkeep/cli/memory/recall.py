"""`threadkeep recall`, `similar` and `open`: one question over everything that was kept."""

from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.words import Json, when
from threadkeep.cli.memory.asking import filter_options, opening_command, read_filters, remembering
from threadkeep.cli.memory.opened import show_opened
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import document, note, one_line, paging, write, write_pieces
from threadkeep.cli.wrap import StyledText, marked
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadkeep.memory.records import Hit, HitScore, RecallResult

_TITLE = 70


@store_command(
    "recall",
    'threadkeep recall "how did we fix the flaky departures test"',
    "threadkeep recall E0425 --project lighthouse --explain",
    'threadkeep recall "too many clients" --kind command --kind message --since 30d',
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(10)
@click.option("--explain", is_flag=True, help="Say why each hit stands where it does.")
def recall(call: Call, *, words: tuple[str, ...], limit: int, explain: bool, **chosen: Any) -> None:
    """Find WORDS in everything: messages, commands, pages, CI, and what was learned from them.

    Ask in plain words, or give a name, a path, an error code. The best hit comes first; below each
    stands the command that opens it at its place.
    """
    filters = read_filters(**chosen)
    with remembering(call) as memory:
        found = memory.recall(" ".join(words), filters, limit=max(limit, 0), explain=explain)
    show_found(call, found)


@store_command(
    "similar",
    "threadkeep similar message:512",
    "threadkeep similar node:17 --limit 5",
    lists=True,
    pages=True,
)
@click.argument("ref")
@filter_options
@limit_option(10)
def similar(call: Call, *, ref: str, limit: int, **chosen: Any) -> None:
    """Find what is like REF: a hit that another question gave, or any text."""
    filters = read_filters(**chosen)
    with remembering(call) as memory:
        found = memory.similar(ref, filters=filters, limit=max(limit, 0))
    show_found(call, found)


@store_command("open", "threadkeep open message:512", "threadkeep open command:7 --around 10")
@click.argument("ref")
@click.option("--around", default=3, show_default=True, help="How many before and after it.")
@click.option("--full", is_flag=True, help="Show all of a long text.")
def open_(call: Call, *, ref: str, around: int, full: bool) -> None:
    """Show what is behind REF, whole, with what stands around it."""
    with remembering(call) as memory:
        try:
            opened = memory.open(ref, around=max(around, 0))
        except Invalid as error:
            hint = f"{error.hint}; `threadkeep show {ref}` opens a session"
            raise Invalid(error.message, hint=error.hint if ":" in ref else hint) from None
    if call.as_json:
        document(opened=opened)
        return
    write(hit_line(opened.hit), "bold")
    show_opened(call, opened, full=full)


def show_found(call: Call, found: "RecallResult") -> None:
    """Print an answer: the hits, or what to do where there are none."""
    if call.as_json:
        call.answer("hits", **found_json(call, found))
        return
    with paging(wanted=call.pager):
        show_hits(call, found.hits)
    for said in found.notes:
        note(said)
    if not found.hits:
        note("nothing found; fewer words find more, and `threadkeep capture` brings in what is new")


def found_json(call: Call, found: "RecallResult") -> Json:
    """Shape an answer for `--json`."""
    import msgspec

    hits = [{**msgspec.to_builtins(hit), "open": opening_command(call, hit)} for hit in found.hits]
    return {**msgspec.structs.asdict(found), "hits": hits}


def show_hits(call: Call, hits: "Sequence[Hit]") -> None:
    """Print hits: what and when, the words with their neighbours, how to open each."""
    for hit in hits:
        write(hit_line(hit), "bold")
        write_pieces([StyledText("  "), *marked(one_line(hit.snippet)), StyledText("\n")])
        if hit.why is not None:
            write(f"  {_why(hit.why)}", "dim")
        write(f"  {opening_command(call, hit)}", "dim")


def hit_line(hit: "Hit") -> str:
    """Name a hit on one line: its kind, when, where, and what it is called."""
    same = f"{hit.same} more like it" if hit.same else ""
    place = hit.harness or hit.source
    facts = [hit.kind, when(hit.at), place, hit.project, hit.outcome, one_line(hit.title, _TITLE)]
    return " · ".join(one_line(fact) for fact in (*facts, same) if fact)


def _why(why: "HitScore") -> str:
    told = [
        f"{why.total:.3f}",
        f"words {why.words:.2f} ({', '.join(why.terms)})"
        if why.terms
        else f"words {why.words:.2f}",
        "in a row" if why.phrase else "",
        f"around {why.around:.2f}" if why.around else "",
        "" if why.meaning is None else f"meaning {why.meaning:.2f}",
        f"age ×{why.recency:.2f}",
        f"kind ×{why.weight:.2f}",
    ]
    return " · ".join(one for one in told if one)

"""`threadkeep memories`: the notes that Claude keeps, as they are now, and their history."""

from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.words import when
from threadkeep.cli.memory.asking import remembering
from threadkeep.cli.options import limit_option, since_option
from threadkeep.cli.output import note, one_line, paging, table, write
from threadkeep.cli.times import read_times

if TYPE_CHECKING:
    from threadkeep.knowledge.memory_documents import MemoryPart, MemoryRevision

_TEXT = 100
_COLUMNS = ("repository", "note", "heading", "state", "text", "ref")


@store_command(
    "memories",
    "threadkeep memories",
    "threadkeep memories kiln --category project",
    "threadkeep memories --repository ada/kiln --path project_glaze.md --history",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1)
@click.option("--repository", default="", metavar="R", help="Only of this repository.")
@click.option("--path", default="", metavar="NAME", help="Only the note of this name.")
@click.option(
    "--category", default="", metavar="C", help="Only: user, feedback, project, reference, index."
)
@since_option("Only notes that changed since a date, or within: 12h, 7d.")
@click.option("--history", is_flag=True, help="What became of one note; needs both its names.")
@click.option("--waiting", is_flag=True, help="Where nothing is found, notes not yet learned.")
@limit_option(20)
def memories(
    call: Call,
    *,
    words: tuple[str, ...],
    repository: str,
    path: str,
    category: str,
    since: str | None,
    history: bool,
    waiting: bool,
    limit: int,
) -> None:
    """List the notes that Claude keeps for projects, those with the text WORDS in them.

    They are captured into stores of schema version 23 (`[stores] knowledge_schema`, or `threadkeep
    knowledge migrate --to 23`). `threadkeep recall --source memory` finds what was learned of them.
    """
    from threadkeep.knowledge.memory_documents import MemoryFilter

    first, _ = read_times(since, None)
    asked = MemoryFilter(
        text=" ".join(words),
        repository=repository,
        category=category,
        logical_path=path,
        since=first,
        limit=max(limit, 1),
        unpublished=waiting,
    )
    with remembering(call) as memory:
        if history:
            revisions, more = memory.memory_history(asked)
            _show_history(call, revisions, more=more)
        else:
            parts, more = memory.memories(asked)
            _show(call, parts, more=more)


def _show(call: Call, parts: "list[MemoryPart]", *, more: bool) -> None:
    if call.as_json:
        call.answer("memories", memories=parts, truncated=more)
        return
    with paging(wanted=call.pager):
        table(_COLUMNS, [_row(one) for one in parts], wide="text", spare=("state", "heading"))
    if not parts:
        note("no note is known; a store of schema version 23 captures them")
    elif more:
        note("there are more; -n shows more of them")
    else:
        note(f"`{typed(call, 'open', 'REF')}` opens one of them")


def _row(one: "MemoryPart") -> tuple[str, ...]:
    state = one.projection_status if one.document_state == "active" else one.document_state
    ref = f"memory-{one.chunk_id}" if one.chunk_id is not None else ""
    said = one_line(one.evidence_excerpt, _TEXT)
    return (one.repository, one.logical_path, one.heading_path or "", state, said, ref)


def _show_history(call: Call, revisions: "list[MemoryRevision]", *, more: bool) -> None:
    if call.as_json:
        call.answer("revisions", revisions=revisions, truncated=more)
        return
    with paging(wanted=call.pager):
        for one in revisions:
            at = when(one.revision_created_at)
            write(f"{one.revision_number} · {at} · {one.change_kind} · {one.summary or ''}", "bold")
            if one.diff_text:
                write(one.diff_text)
    if not revisions:
        note("no such note is known; `threadkeep memories` lists them")

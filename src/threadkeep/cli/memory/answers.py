"""`threadkeep ask`, `fixed` and `context`: what memory answers, and what it gives to a prompt."""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from threadkeep.cli.command import Call, store_command, typed
from threadkeep.cli.memory.recall import filter_options, read_within, remembering
from threadkeep.cli.options import limit_option, project_option, since_option, until_option
from threadkeep.cli.output import document, note, one_line, paging, progress, table, write
from threadkeep.cli.times import read_times
from threadkeep.cli.words import when
from threadkeep.knowledge.query import Query

if TYPE_CHECKING:
    from threadkeep.knowledge.memory_documents import MemoryPart, MemoryRevision
    from threadkeep.memory.ask import Answer, Citation
    from threadkeep.memory.fixed import Fix, FixStep
    from threadkeep.memory.timeline import Moment


_STEP = 160


@store_command(
    "ask",
    'threadkeep ask "why do users have to log in again after a deploy?"',
    'threadkeep ask "which broker did we choose" --project lighthouse --no-model',
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(8, "Maximum number of passages.")
@click.option("--no-model", is_flag=True, help="Quote only, even if a model is configured.")
def ask(call: Call, *, words: tuple[str, ...], limit: int, no_model: bool, **chosen: Any) -> None:
    """Answer a question with quoted passages, each with its source.

    If [model] is configured, the model writes the answer from these passages; claims they do not
    support are left out.
    """
    from threadkeep.home.opening import answering

    within, nodes = read_within(**chosen)
    with remembering(call) as memory:
        model = None if no_model else answering(call.home, memory)
        with nullcontext() if model is None else progress("the model is writing"):
            answer = memory.ask(
                " ".join(words),
                within=within,
                nodes=nodes,
                limit=max(limit, 0),
                answer_with=model,
            )
    if call.as_json:
        document(answer=answer)
        return
    _show_answer(call, answer)


def _show_answer(call: Call, answer: "Answer") -> None:
    write(answer.text)
    if answer.citations:
        write()
    for one in answer.citations:
        write(f"[{one.number}] {_place(one)}", "dim")
        write(f"    {typed(call, 'open', one.ref)}", "dim")
    for said in answer.notes:
        note(said)


def _place(one: "Citation") -> str:
    facts = (one.day, one.label, one.agent, one_line(one.title, 60))
    return " · ".join(fact for fact in facts if fact)


@store_command(
    "fixed",
    'threadkeep fixed "ModuleNotFoundError: No module named tide"',
    "make 2>&1 | tail -20 | threadkeep fixed -",
    lists=True,
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(5)
def fixed(call: Call, *, words: tuple[str, ...], limit: int, **chosen: Any) -> None:
    """Find how an error was fixed before: what was changed before the same command succeeded.

    WORDS is the error or a part of it; `-` reads it from stdin.
    """
    error = sys.stdin.read() if words == ("-",) else " ".join(words)
    within, _ = read_within(**chosen)
    with remembering(call) as memory:
        fixes = memory.fixed(error, within=within, limit=max(limit, 0))
    if call.as_json:
        call.answer("fixes", fixes=fixes)
        return
    for fix in fixes:
        _show_fix(call, fix)
    if not fixes:
        note("No known fix: no failure like this was recorded; `recall` searches everything")


def _show_fix(call: Call, fix: "Fix") -> None:
    place = f" in {one_line(fix.project)}" if fix.project else ""
    write(f"{one_line(fix.error, _STEP)}{place}", "bold")
    write(f"  failed  {_step(fix.failure)}")
    if fix.success is None:
        write("  not seen to pass since" + (", but next came" if fix.between else ""))
    for step in fix.between:
        write(f"  then    {_step(step)}")
    if fix.success is not None:
        write(_passed(fix))
    last = fix.success or fix.failure
    write(f"  {typed(call, 'open', last.ref)}", "dim")


def _passed(fix: "Fix") -> str:
    later = "" if fix.evidence == "same session" else " (another session)"
    return f"  passed  {_step(fix.success)}{later}" if fix.success else ""


def _step(step: "FixStep") -> str:
    return f"{when(step.at)}  {one_line(step.text, _STEP)}"


@store_command(
    "context",
    'threadkeep context "deploy of harbor" --project harbor',
    'threadkeep context "rate limit" --max-chars 2000 >> prompt.txt',
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(8, "Maximum number of hits.")
@click.option("--max-chars", default=4000, show_default=True, help="Maximum length in characters.")
def context(
    call: Call, *, words: tuple[str, ...], limit: int, max_chars: int, **chosen: Any
) -> None:
    """Print what is remembered about WORDS as a block for a prompt: fenced, labeled and dated.

    Stored text cannot close the fence, and a block that appears in an agent's log is not summarized
    again.
    """
    within, nodes = read_within(**chosen)
    with remembering(call) as memory:
        block = memory.context(
            " ".join(words), within=within, nodes=nodes, limit=max(limit, 0), max_chars=max_chars
        )
    if call.as_json:
        document(context=block)
    elif block:
        write(block)
    else:
        note("Nothing is remembered about this")


# ------------------------------------------------------------------------------
# `threadkeep memories`: the notes that Claude keeps, as they are now, and their history.

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
@since_option("Only notes changed since this date or age: 2026-03-01, 12h, 7d.")
@click.option(
    "--history", is_flag=True, help="The history of one note; needs --repository and --path."
)
@click.option(
    "--waiting", is_flag=True, help="If nothing is found, include notes not yet processed."
)
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
    """List the notes that Claude keeps for projects; with WORDS, those that contain the text.

    They are captured into stores of schema version 23 (`[stores] knowledge_schema`, or `threadkeep
    knowledge migrate --to 23`). `threadkeep recall --kind node` also finds the summaries of them.
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
            revisions, more = memory.store.nodes.memory_history(asked)
            _show_history(call, revisions, more=more)
        else:
            parts, more = memory.store.nodes.memories(asked)
            _show(call, parts, more=more)


def _show(call: Call, parts: "list[MemoryPart]", *, more: bool) -> None:
    if call.as_json:
        call.answer("memories", memories=parts, truncated=more)
        return
    with paging(wanted=call.pager):
        table(_COLUMNS, [_row(one) for one in parts], wide="text", spare=("state", "heading"))
    if not parts:
        note("No notes yet; a store of schema version 23 captures them")
    elif more:
        note("More with -n")
    else:
        note(f"`{typed(call, 'open', 'REF')}` opens one")


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
        note("No such note; `threadkeep memories` lists them")


# ------------------------------------------------------------------------------
# `threadkeep timeline`: what happened, in the order of time, of all kinds together.

_TIMELINE_COLUMNS = ("when", "project", "what", "text", "ref")


@store_command(
    "timeline",
    "threadkeep timeline yesterday",
    "threadkeep timeline last week",
    "threadkeep timeline --project harbor --since 3d",
    lists=True,
    pages=True,
)
@click.argument("day", nargs=-1)
@click.option("--day", "on", metavar="DAY", help="The same as DAY.")
@project_option()
@since_option()
@until_option()
@limit_option(200, "The latest N.")
def timeline(
    call: Call,
    *,
    day: tuple[str, ...],
    on: str | None,
    project: str | None,
    since: str | None,
    until: str | None,
    limit: int,
) -> None:
    """Show what happened, in order: agent turns, commands, page visits, CI runs and commits.

    DAY is a date, `yesterday`, `monday` or `last week`; by default today.
    """
    zone = ZoneInfo(call.home.zone)
    whole = " ".join(day) or on or ("today" if since is None and until is None else None)
    first, last = read_times(since, until, whole)
    with remembering(call) as memory:
        moments = memory.timeline(
            within=Query(project=(project,) if project else (), since=first, until=last),
            zone=zone,
            limit=max(limit, 0),
        )
    if call.as_json:
        call.answer("timeline", timeline=moments)
        return
    with paging(wanted=call.pager):
        table(
            _TIMELINE_COLUMNS,
            [_timeline_row(one) for one in moments],
            wide="text",
            spare=("ref", "project", "what"),
        )
    if moments:
        note(f"`{typed(call, 'open', 'REF')}` opens one")
    else:
        note("Nothing recorded in this time; `threadkeep sessions` lists the latest")


def _timeline_row(one: "Moment") -> tuple[str, ...]:
    times = f" ×{one.count}" if one.count > 1 else ""
    failed = " failed" if one.outcome == "failure" else ""
    what = f"{one.agent or ''} {one.kind}{failed}{times}".lstrip()
    tools = ", ".join(f"{name} {count}" for name, count in one.tools.items())
    errors = f"{one.errors} failed" if one.errors else ""
    said = " · ".join(part for part in (one_line(one.text, _TEXT), tools, errors) if part)
    return when(one.at), one.project or "", what, said, one.ref

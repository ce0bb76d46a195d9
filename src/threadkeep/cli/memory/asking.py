"""How the commands that ask memory open it, and what a hit must be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import click

from threadkeep.cli.command import Call, Function
from threadkeep.cli.history.opening import typed
from threadkeep.cli.options import harness_option, project_option, since_option, until_option
from threadkeep.cli.output import warn
from threadkeep.cli.times import read_times
from threadkeep.errors import Busy, ReadOnly
from threadkeep.knowledge.records import Outcome, Role
from threadkeep.memory.records import Filters, Kind

if TYPE_CHECKING:
    from threadkeep.memory.memory import Memory
    from threadkeep.memory.records import Hit


@contextmanager
def remembering(call: Call) -> Iterator["Memory"]:
    """Open memory; what came since the last look is collected and indexed where that can be."""
    _collect(call)
    with _opened(call) as memory:
        try:
            memory.index()
        except (Busy, ReadOnly) as error:
            warn(f"what came last may be missing: {error.message}")
        yield memory


def _collect(call: Call) -> None:
    """Take in what shells and browsers have left for the home's own store."""
    from threadkeep.home.status import reports_waiting

    if call.db is None and reports_waiting(call.home):
        from threadkeep.home.observed import collected  # loads the collector

        with collected(call.home) as (_, trouble):
            if trouble is not None:
                warn(f"commands and visits that wait are missing: {trouble.message}")


def _opened(call: Call) -> "Memory":
    from threadkeep.home.opening import open_memory_to_ask

    return open_memory_to_ask(call.home, call.db)


def filter_options(function: Function) -> Function:
    """Add the options that say what a hit must be."""
    options: list[Callable[[Function], Function]] = [
        project_option(),
        click.option(
            "--source",
            metavar="S",
            help="Only from: shell, agent, browser, ci, memory, or a program.",
        ),
        harness_option(),
        since_option(),
        until_option(),
        click.option("--branch", metavar="B", help="Only on this branch."),
        click.option("--entity", metavar="E", help="Only what mentions this file, tool or name."),
        click.option(
            "--role", type=click.Choice(get_args(Role)), help="Only messages of this one."
        ),
        click.option(
            "--outcome", type=click.Choice(get_args(Outcome)), help="Only what ended like this."
        ),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            type=click.Choice(get_args(Kind)),
            help="Only these.",
        ),
        click.option("--category", metavar="C", help="Only memories: user, feedback, project, …"),
        click.option(
            "--include-excluded", is_flag=True, help="Also what rests on nothing real or settled."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def read_filters(*, since: str | None, until: str | None, **chosen: Any) -> Filters:
    """Read the options that say what a hit must be."""
    first, last = read_times(since, until)
    return Filters(since=first, until=last, **chosen)


def opening_command(call: Call, hit: "Hit") -> str:
    """Give the command that opens a hit at its place."""
    return typed(call, "open", hit.ref)

"""`threadkeep usage`: tokens of all agents, by program, model, project and day."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.opening import among_options, looking, read_among
from threadkeep.cli.output import counted, document, note, table

if TYPE_CHECKING:
    from threadkeep.home.captured import Spent

Json = dict[str, Any]

_COLUMNS = ("answers", "input", "output", "cache read", "cache write", "reasoning", "tokens")
_SPARE = ("reasoning", "cache write", "answers")


@store_command(
    "usage", "threadkeep usage --by day --since 7d", "threadkeep usage --project harbor --json"
)
@click.option(
    "--by",
    type=click.Choice(["model", "project", "day", "harness"]),
    default="model",
    show_default=True,
    help="What a row of the table is about.",
)
@among_options
def usage(call: Call, *, by: str, **chosen: Any) -> None:
    """Sum up the tokens that agents used; an answer that stands in several logs counts once.

    Input is what was not read from a cache. With --json all sums are in one document, and
    `harnesses` has them in each program's own words.
    """
    among = read_among(**chosen)
    with looking(call) as history:
        spent = history.usage(among, zone=ZoneInfo(call.home.zone))
    if call.as_json:
        document(
            total=spent.total,
            by_model=spent.by_model,
            by_project=spent.by_project,
            by_day=spent.by_day,
            harnesses={name: own_words(name, one) for name, one in spent.by_harness.items()},
        )
        return
    sums: Mapping[str, Spent] = getattr(spent, f"by_{by}")
    rows = [_row(name, one) for name, one in sums.items() if one.total]
    table((by, *_COLUMNS), [*rows, _row("total", spent.total)] if rows else [], spare=_SPARE)
    if not rows:
        note("nobody reported tokens for that")
    if spent.total.unfinished:
        told = counted(spent.total.unfinished, "answer")
        note(f"{told} without a last count in the log: output may be higher")


def _row(name: str, spent: "Spent") -> tuple[str, ...]:
    counts = (
        *(spent.answers, spent.input, spent.output, spent.cache_read, spent.cache_write),
        *(spent.reasoning, spent.total),
    )
    return (name, *(f"{count:,}" for count in counts))


def own_words(harness: str, spent: "Spent") -> Json:
    """Name the tokens of a program as it names them itself; Codex's input has the cached part."""
    if harness == "codex":
        return {
            "input_tokens": spent.input + spent.cache_read + spent.cache_write,
            "cached_input_tokens": spent.cache_read,
            "output_tokens": spent.output,
            "reasoning_output_tokens": spent.reasoning,
        }
    return {
        "api_messages": spent.answers,
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "cache_creation_input_tokens": spent.cache_write,
        "cache_read_input_tokens": spent.cache_read,
    }

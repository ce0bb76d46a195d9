"""`threadkeep recall`, `similar` and `open`: one question over everything that was kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, get_args

import click
import msgspec

from threadkeep.cli.command import Call, Function, store_command, typed
from threadkeep.cli.options import (
    OneOf,
    agent_option,
    file_option,
    limit_option,
    project_option,
    since_option,
    until_option,
)
from threadkeep.cli.output import document, note, one_line, paging, warn, write, write_snippet
from threadkeep.cli.times import read_times
from threadkeep.cli.words import Json, folded, none_has, when
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import Kind, Query
from threadkeep.knowledge.records import Outcome, Role
from threadkeep.knowledge.search_scope import NodeChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from threadkeep.memory.memory import Memory
    from threadkeep.memory.records import Fold, Hit, HitDetail, HitScore, RecallResult


# ------------------------------------------------------------------------------
# How the commands that ask memory open it, and what a hit must be.


@contextmanager
def remembering(call: Call) -> Iterator["Memory"]:
    """Open memory; what came since the last look is collected where that can be."""
    _collect(call)
    with _opened(call) as memory:
        yield memory


def _collect(call: Call) -> None:
    """Take in what shells and browsers have left for the home's own store."""
    from threadkeep.home.home import reports_waiting

    if call.db is None and reports_waiting(call.home):
        from threadkeep.home.observed import collected  # loads the collector

        with collected(call.home) as (_, trouble):
            if trouble is not None:
                warn(f"pending commands and visits are not included: {trouble.message}")


def _opened(call: Call) -> "Memory":
    from threadkeep.home.opening import open_memory_to_ask

    return open_memory_to_ask(call.home, call.db)


def filter_options(function: Function) -> Function:
    """Add the options that say what a hit must be."""
    options: list[Callable[[Function], Function]] = [
        project_option(),
        agent_option(),
        since_option(),
        until_option(),
        click.option("--branch", metavar="B", help="Only on this branch."),
        file_option(),
        click.option("--entity", metavar="E", help="Only what mentions this file, tool or name."),
        click.option("--role", type=OneOf(get_args(Role)), help="Only messages of this role."),
        click.option("--outcome", type=OneOf(get_args(Outcome)), help="Only with this outcome."),
        click.option(
            "--kind",
            multiple=True,
            type=OneOf(get_args(Kind)),
            help="Only these.",
        ),
        click.option("--category", metavar="C", help="Only memories: user, feedback, project, …"),
        click.option(
            "--include-excluded", is_flag=True, help="Include items without solid evidence."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def read_within(
    *,
    since: str | None,
    until: str | None,
    category: str | None,
    include_excluded: bool,
    **chosen: Any,
) -> tuple[Query, NodeChoice]:
    """Read the options that say what a hit must be."""
    first, last = read_times(since, until)
    several: dict[str, Any] = {
        name: (value,) if isinstance(value, str) else tuple(value or ())
        for name, value in chosen.items()
        if name != "entity"
    }
    query = Query(**several, entity=chosen.get("entity"), since=first, until=last)
    return query, NodeChoice(category=category, excluded=include_excluded)


newest_option: Final = click.option(
    "--newest", is_flag=True, help="Newest first instead of best first."
)
all_hits_option: Final = click.option(
    "--all-hits", is_flag=True, help="Every hit, instead of the best of each session."
)


def folded_by(all_hits: bool) -> "Fold":  # noqa: FBT001  (an option's value)
    """Say what is shown once: a session, unless all hits are wanted."""
    return "nothing" if all_hits else "session"


def opening_commands(call: Call, hit: "Hit") -> dict[str, str]:
    """Return the commands that open a hit: at its place, and a message in its session."""
    commands = {"open": typed(call, "open", hit.ref)}
    if hit.session_id and hit.key:
        name = f"{hit.agent}:{hit.session_id}"
        commands["show"] = typed(call, "show", name, "--at", hit.ref)
    return commands


# ------------------------------------------------------------------------------
# What `threadkeep open` shows: a thing as a person reads it, with what is around it.

_LINES, _CHARACTERS = 60, 6_000
_AROUND: Final = 120
# What is told in words of its own, or by the line above.
_TOLD: Final = frozenset({"content", "entities", "evidence", "title"})
_LISTS: Final = (
    ("key_decisions", "decided"),
    ("problems_encountered", "problem"),
)
_CHOICE: Final = ("chosen", "considered", "reason")
_MENTIONS: Final = ("files", "tools", "services", "errors", "env_vars", "domains", "projects")


def show_opened(call: Call, opened: "HitDetail", *, full: bool) -> None:
    """Print a hit: its text, what is known about it, and how to continue from there."""
    for before in opened.before:
        write(f"  {_neighbour(before)}", "dim")
    for line in _body(opened, full=full):
        write(line)
    for after in opened.after:
        write(f"  {_neighbour(after)}", "dim")
    for name, value in opened.facts.items():
        if name not in _TOLD and value not in (None, "", [], {}, (), False):
            told = when(value) if name.endswith("_at") else one_line(str(value))
            write(f"{name}: {told}", "dim")
    for command in _ways_on(call, opened):
        write(command, "dim")


def _body(opened: "HitDetail", *, full: bool) -> Iterator[str]:
    content = opened.facts.get("content")
    if isinstance(content, dict) and isinstance(content.get("summary"), str):
        yield from _note(content)
    else:
        text = opened.text
        yield text if full else folded(text, lines=_LINES, characters=_CHARACTERS)


def _note(content: dict[str, Any]) -> Iterator[str]:
    """Write a node as a note: what was wanted, what came of it, what it mentions."""
    yield one_line(content["summary"])
    for name, word in _LISTS:
        yield from (f"{word}: {one_line(one)}" for one in _texts(content.get(name)))
    weighed = content.get("design_decisions")
    for one in weighed if isinstance(weighed, list) else ():
        if isinstance(one, dict):
            chosen, other, why = (one_line(str(one.get(name) or "?")) for name in _CHOICE)
            yield f"chosen: {chosen}, not {other}: {why}"
    mentioned = content.get("entities")
    known = mentioned if isinstance(mentioned, dict) else {}
    for name in _MENTIONS:
        if names := _texts(known.get(name)):
            yield f"{name.replace('_', ' ')}: {', '.join(map(one_line, names))}"
    if tags := _texts(content.get("tags")):
        yield f"tags: {', '.join(map(one_line, tags))}"


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _ways_on(call: Call, opened: "HitDetail") -> Iterator[str]:
    for source in opened.facts.get("evidence") or ():
        yield typed(call, "open", source)
    hit = opened.hit
    if hit.session_id and hit.key:
        yield typed(call, "show", f"{hit.agent}:{hit.session_id}", "--at", hit.ref)


def _neighbour(hit: "Hit") -> str:
    said = one_line(hit.snippet or hit.title, _AROUND)
    return f"{when(hit.at)} {hit.role or hit.kind} {hit.ref}: {said}"


_TITLE = 70


@store_command(
    "recall",
    'threadkeep recall "how did we fix the flaky departures test"',
    "threadkeep recall E0425 --project lighthouse --explain",
    'threadkeep recall "too many clients" --kind command --kind message --since 30d',
    "threadkeep recall --file board.py --kind node",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1)
@filter_options
@newest_option
@all_hits_option
@limit_option(10)
@click.option("--explain", is_flag=True, help="Explain the rank of each hit.")
def recall(
    call: Call,
    *,
    words: tuple[str, ...],
    limit: int,
    explain: bool,
    newest: bool,
    all_hits: bool,
    **chosen: Any,
) -> None:
    """Search everything for WORDS: messages, commands, visits, runs, lessons and knowledge.

    Ask in plain words, or give a name, a path, an error code. Matches with all words come first,
    and each session appears once with its best hit, followed by the command that opens it. Without
    WORDS the latest that the options choose is shown.
    """
    within, nodes = read_within(**chosen)
    if not words and (within, nodes) == (Query(), NodeChoice()):
        raise Invalid("no words and no filter", hint='threadkeep recall "slow query"')
    how: Json = {"explain": explain, "newest": newest, "fold": folded_by(all_hits)}
    with remembering(call) as memory:
        found = memory.recall(" ".join(words), within, nodes=nodes, limit=max(limit, 0), **how)
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
    """Find what is similar to REF, a hit of another search, or to any text."""
    within, nodes = read_within(**chosen)
    with remembering(call) as memory:
        found = memory.similar(ref, within=within, nodes=nodes, limit=max(limit, 0))
    show_found(call, found)


@store_command("open", "threadkeep open message:512", "threadkeep open command:7 --around 10")
@click.argument("ref")
@click.option(
    "--around", default=3, show_default=True, help="How many entries before and after it."
)
@click.option("--full", is_flag=True, help="Show long texts in full.")
def open_(call: Call, *, ref: str, around: int, full: bool) -> None:
    """Show REF in full, with its context."""
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
    """Print an answer: the hits, each with the command that opens it, or what to do without any."""
    if call.as_json:
        call.answer("hits", **found_json(call, found))
        return
    with paging(wanted=call.pager):
        show_hits(call, found.hits)
    for said in (*none_has(found.missing), *found.notes):
        note(said)
    if not found.hits:
        note("No matches; try fewer words, or `threadkeep capture` to bring in what is new")


def found_json(call: Call, found: "RecallResult") -> Json:
    """Shape an answer for `--json`."""
    hits = [{**msgspec.to_builtins(hit), **opening_commands(call, hit)} for hit in found.hits]
    return {**msgspec.structs.asdict(found), "hits": hits}


def show_hits(call: Call, hits: "Sequence[Hit]") -> None:
    """Print hits: what and when, the words with their neighbours, how to open each."""
    for hit in hits:
        write(hit_line(hit), "bold")
        write_snippet(hit.snippet)
        if hit.why is not None:
            write(f"  {_why(hit.why)}", "dim")
        write(f"  {typed(call, 'open', hit.ref)}", "dim")


def hit_line(hit: "Hit") -> str:
    """Name a hit on one line: its kind, when, where, and what it is called."""
    part = f"{hit.part.replace('_', ' ')} {hit.tool or ''}".strip() if hit.part else ""
    facts = [
        hit.kind,
        when(hit.at),
        hit.agent,
        hit.project,
        part,
        hit.outcome,
        one_line(hit.title, _TITLE),
    ]
    same = f"{hit.same} more like it" if hit.same else ""
    more = f"{hit.more} more in this session" if hit.more else ""
    return " · ".join(one_line(fact) for fact in (*facts, same, more) if fact)


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

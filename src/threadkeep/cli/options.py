"""Options that mean the same wherever they stand: one name, one short form, one completion."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click

from threadkeep.base.text import not_one_of
from threadkeep.cli.output import one_line
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from datetime import tzinfo

    from click.shell_completion import CompletionItem

    from threadkeep.cli.command import Call
    from threadkeep.home.home import Home
    from threadkeep.knowledge.query import Query
    from threadkeep.knowledge.records import CapturedSession

    Items = list[CompletionItem]


# ------------------------------------------------------------------------------
# What the shell offers after a tab: sessions by id and by title, projects, agents, files.

_OFFERED = 200
_LOOKED_AT = 1000  # sessions, for the names of projects and agents
_TITLE = 60


def complete_session(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the newest sessions whose id begins as typed; a shell never sees an error."""
    try:
        with _home(ctx).chat(_db_of(ctx), read_only=True) as store:
            found = store.sessions(archived=None, limit=_OFFERED).items
    except ThreadkeepError:
        return []
    return _items(((one.id, one.title or one.agent) for one in found), incomplete)


def complete_state_session(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the newest sessions of the state store in the same way, by title as well."""
    try:
        with _home(ctx).state(_db_of(ctx), read_only=True) as store:
            found = store.list_sessions_rich(
                limit=_OFFERED,
                include_children=True,
                include_archived=True,
                include_hidden=True,
            )
    except ThreadkeepError:
        return []
    named = [(one["id"], one["title"] or one["preview"] or one["source"]) for one in found]
    titles = ((one["title"], one["id"]) for one in found if one["title"])
    return _items(named, incomplete) or _items(titles, incomplete)


def complete_captured(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the latest captured sessions by id; by title where no id begins as typed."""
    found = _captured(ctx, _OFFERED)
    named = [("last", "the latest session")] if found else []
    ids = _items([*named, *((one.session_id, one.name) for one in found)], incomplete)
    titles = ((one_line(one.name), f"{one.agent} {one.session_id}") for one in found)
    return ids or _items(titles, incomplete)


def complete_mail_session(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the newest sessions with a mailbox, and folders where a path is being typed."""
    if os.sep in incomplete or incomplete.startswith("."):
        return _paths(incomplete, "dir")
    try:
        with _home(ctx).mail_index() as index:
            names = {group.id: group.name for group in index.agent_groups()}
            found = index.sessions()[-_OFFERED:][::-1]
    except ThreadkeepError:
        return []
    return _items(((one.id, names.get(one.agent_group_id, "")) for one in found), incomplete)


def complete_project(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the last names of the folders that captured sessions were in, the latest first."""
    if os.sep in incomplete:
        return _paths(incomplete, "dir")
    from pathlib import PurePath

    places = [one.cwd or one.project for one in _captured(ctx, _LOOKED_AT)]
    named = {PurePath(place).name: place for place in places if place}
    return _items(named.items(), incomplete)


def complete_agent(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Offer the agents that something was captured of."""
    found = sorted({one.agent for one in _captured(ctx, _LOOKED_AT)})
    return _items(((name, "") for name in found), incomplete)


def complete_file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Let the shell offer files."""
    return _paths(incomplete, "file")


def complete_folder(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "Items":
    """Let the shell offer folders."""
    return _paths(incomplete, "dir")


def _paths(incomplete: str, type_: str) -> "Items":
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=type_)]


def _captured(ctx: click.Context, limit: int) -> list["CapturedSession"]:
    try:
        with _home(ctx).knowledge(_db_of(ctx), read_only=True) as store:
            return store.sessions(limit=limit)
    except ThreadkeepError:
        return []


def _items(named: Iterable[tuple[str, str]], incomplete: str) -> "Items":
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(value, help=one_line(told, _TITLE))
        for value, told in named
        if value.startswith(incomplete) and value.isprintable() and value
    ]


def _home(ctx: click.Context) -> "Home":
    from threadkeep.home.home import Home

    return Home(ctx.find_root().params.get("home"))


def _db_of(ctx: click.Context) -> str | None:
    """Find `--db` on the command or on its group: nothing was run yet, only parsed."""
    scope: click.Context | None = ctx
    while scope is not None:
        if scope.params.get("db"):
            return str(scope.params["db"])
        scope = scope.parent
    return None


F = TypeVar("F", bound=Callable[..., Any])


class Option(Protocol):
    """What adds an option to a command's function, whatever its own type."""

    def __call__(self, function: F, /) -> F:
        """Add it."""


SINCE = "From this date or age on: 2026-03-01, monday, 12h, 7d."
UNTIL = "Up to this date or age: 2026-03-01, yesterday, 12h, 7d."


def agent_option(
    help: str = "Only this agent, such as codex.",  # noqa: A002
    *,
    multiple: bool = False,
) -> Option:
    """Add the option that names an agent."""
    return click.option(
        "--agent",
        metavar="NAME",
        multiple=multiple,
        shell_complete=complete_agent,
        help=help,
    )


def project_option(
    help: str = "Only this project: a name, or a folder with everything below it.",  # noqa: A002
    *,
    multiple: bool = False,
) -> Option:
    """Add the option that names a project."""
    return click.option(
        "--project", metavar="P", multiple=multiple, shell_complete=complete_project, help=help
    )


_SESSIONS = ("agent", "project", "branch", "model", "file", "since", "until")


_SHORT = {"md": "markdown"}


class OneOf(click.Choice[str]):
    """One of some names; the whole name may be longer or shorter where that means one of them.

    `claude` is `claude-code` where no other begins so, and the other way round.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read a name, or refuse it with the names there are and the nearest of them."""
        names = [str(one) for one in self.choices]
        if not isinstance(value, str) or value in names:
            return super().convert(value, param, ctx)
        low = _SHORT.get(value.lower(), value.lower())
        meant = [one for one in names if one.startswith(low) or low.startswith(f"{one}-")]
        if len(meant) == 1:
            return super().convert(meant[0], param, ctx)
        raise click.BadParameter(not_one_of(value, names), ctx, param)


def query_options(*fields: str, words: bool = True, everything: bool = True) -> Option:
    """Add options for fields of a query, those of sessions unless others are named.

    The command gets the `query` they say. With `words` its arguments are the filter language; with
    `everything` there is --all.
    """
    named = fields or _SESSIONS
    named = (*named, "on") if "since" in named else named
    options = [_FIELD_OPTIONS[name]() for name in named]
    if everything:
        told = "Include subagents and internal threads."
        options.append(click.option("--all", "everything", is_flag=True, help=told))
    if words:
        options.insert(0, click.argument("said", nargs=-1, metavar="[FILTER]..."))

    def decorate(function: F) -> F:
        @wraps(function)
        def run(call: "Call", **given: Any) -> Any:
            taken = (*named, "said", "everything")
            chosen = {name: given.pop(name) for name in taken if name in given}
            return function(call, query=read_query(call, **_with_day(chosen)), **given)

        for option in reversed(options):
            option(run)
        return cast("F", run)

    return decorate


def _with_day(chosen: dict[str, Any]) -> dict[str, Any]:
    """Take words that are a day, such as `yesterday`, for that day: only where it is for a look."""
    words = " ".join(chosen.get("said", ()))
    spoken = any(chosen.get(name) is not None for name in ("since", "until", "on"))
    if not words or spoken or "on" not in chosen:
        return chosen
    from threadkeep.cli.times import day_span

    if day_span(words) is None:
        return chosen
    from threadkeep.cli.output import note

    note(f"Showing {words}; --on {words!r} says the same")
    return {**chosen, "said": (), "on": words}


def read_query(
    call: "Call",
    *,
    said: Iterable[str] = (),
    since: str | None = None,
    until: str | None = None,
    on: str | None = None,
    everything: bool = False,
    **named: Any,
) -> "Query":
    """Read what the filter language says, and what the options beside it say."""
    from msgspec.structs import replace

    from threadkeep.base.clock import now_ms
    from threadkeep.cli.output import note
    from threadkeep.knowledge.query import fill_query, unread

    given = {**named, "q": " ".join(said)}
    spoken = (since, until, on) != (None, None, None)
    if spoken:
        from threadkeep.cli.times import read_times

        given["since"], given["until"] = read_times(since, until, on)
    query = fill_query(given, now_ms(), _zone(call) if given["q"] else UTC)
    for one in unread(query.text) if said else ():
        note(f"{one_line(one)!r} is not a known filter: searching for it as words")
    is_all = everything and "all" not in query.marks
    return replace(query, marks=(*query.marks, "all")) if is_all else query


def _zone(call: "Call") -> "tzinfo":
    """Return the time zone that words of the filter language are read in; finding it takes 1 ms."""
    from zoneinfo import ZoneInfo

    return ZoneInfo(call.home.zone)


def file_option() -> Option:
    """Add the option that names a file."""
    return _several("file", "F", "Only what touched this file: its name, or the end of its path.")


def since_option(help: str = SINCE) -> Option:  # noqa: A002
    """Add the option that says when it begins."""
    return click.option("--since", metavar="TIME", help=help)


def on_option() -> Option:
    """Add the option that names a day or a week."""
    return click.option("--on", metavar="DAY", help="On this day: 2026-03-01, yesterday, monday.")


def until_option(help: str = UNTIL) -> Option:  # noqa: A002
    """Add the option that says when it ends."""
    return click.option("--until", metavar="TIME", help=help)


_FIELD_OPTIONS: dict[str, Callable[[], Option]] = {
    "agent": partial(agent_option, multiple=True),
    "project": partial(project_option, multiple=True),
    "branch": lambda: _several("branch", "B", "Only this git branch."),
    "model": lambda: _several("model", "M", "Only this model."),
    "session": lambda: _several(
        "session", "ID", "Only this session: its number or the beginning of its id."
    ),
    "file": file_option,
    "tool": lambda: _several("tool", "T", "Only this tool, such as ruff."),
    "role": lambda: click.option(
        "--role",
        type=OneOf(("user", "tool")),
        help="Who ran it: a person (user) or an agent (tool).",
    ),
    "failed": lambda: click.option("--failed", is_flag=True, help="Only what failed."),
    "since": since_option,
    "until": until_option,
    "on": on_option,
}


def _several(name: str, metavar: str, told: str) -> Option:
    return click.option(f"--{name}", metavar=metavar, multiple=True, help=told)


def limit_option(default: int, help: str = "How many.") -> Option:  # noqa: A002
    """Add the option that says how many are shown."""
    return click.option("-n", "--limit", default=default, show_default=True, help=help)


def db_option(help: str = "Use this store file.") -> Option:  # noqa: A002
    """Add the option that names the file of a store."""
    return click.option("--db", metavar="PATH", shell_complete=complete_file, help=help)


def folder_option(name: str, help: str) -> Option:  # noqa: A002
    """Add an option that names a folder."""
    return click.option(name, metavar="DIR", shell_complete=complete_folder, help=help)

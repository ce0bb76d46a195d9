"""`threadkeep sources`: what there is on the disk, and how much of it is in the store."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.capture import agents_named, roots_option, user_home_option
from threadkeep.cli.history.sessions import LogPlaces, comparing
from threadkeep.cli.options import agent_option
from threadkeep.cli.output import counted, is_terminal, note, size_text, table, warn, write
from threadkeep.cli.words import when

if TYPE_CHECKING:
    from threadkeep.capture.coverage import Coverage, SourceCoverage

_DISK = (
    *(
        "source",
        "agent",
        "logs",
        "captured",
        "checked",
        "size",
        "deleted by agent",
        "excluded",
        "places",
    ),
)
_OWN = ("chat", "state", "mailbox")  # stores of threadkeep itself
_PLACES = 6  # of one source; there may be hundreds of projects
_STORE = ("agent", "sessions", "messages", "lines", "size", "bad lines", "failed", "last")


@store_command(
    "sources",
    "threadkeep sources",
    "threadkeep sources --agent droid",
    "threadkeep sources --json",
    lists=True,
)
@agent_option("Only this agent, with every place that is looked into and what moves it.")
@user_home_option
@roots_option
def sources(
    call: Call, *, agent: str | None, user_home: str | None, roots: tuple[str, ...]
) -> None:
    """Show which agents were found, how much of each is captured, and what could not be read.

    Prints what is on disk by source, what is in the store by agent, which agents were not found and
    where they were looked for, and record types that this version does not know. A log counts as
    captured if it has not changed since it was read; "checked" is the last time its content was
    compared with the store. Places that cannot be read are listed with a fix.
    """
    with comparing(call, LogPlaces(user_home, roots)) as history:
        named = agents_named(history, [agent] if agent else [])
        found = history.coverage()
    if agent:
        found = _only(found, named)
    if call.as_json:
        call.answer("sources", **_as_json(found))
        return
    below = user_home or os.environ.get("HOME", "")
    disk = list(_disk(found, below))
    if disk or not agent:
        table(_DISK, disk, wide="places", spare=("agent", "size", "checked"))
    if found.stored:
        write()
        table(_STORE, list(_store(found)), spare=("bad lines", "lines"))
    missing = [] if agent else list(_missing(found, below))
    if agent:
        if disk:
            write()
        table(("source", "looked for in", "there"), list(_looked(found, below)))
    if missing:
        write()
        columns = ("not found", "looked for in", "moved by")
        table(columns, missing, wide="looked for in", spare=("moved by",))
    if found.unknown:
        write()
        rows = [(one.agent, one.kind, f"{one.count:,}", one.path or "") for one in found.unknown]
        table(("agent", "unknown record", "count", "last seen in"), rows, wide="last seen in")
    _remarks(found, agent)
    _elsewhere(found, agent)


def _only(found: "Coverage", agents: frozenset[str]) -> "Coverage":
    found.sources = [one for one in found.sources if one.agent in agents]
    found.stored = {name: one for name, one in found.stored.items() if name in agents}
    found.unknown = [one for one in found.unknown if one.agent in agents]
    return found


def _looked(found: "Coverage", home: str) -> Iterator[tuple[str, str, str]]:
    """Name every place of an agent, also those of other systems."""
    for one in found.sources:
        there = set(one.places)
        for place in dict.fromkeys([*one.looked, *one.places]):
            yield one.name, _short(place, home), "yes" if place in there else ""


def _disk(found: "Coverage", home: str) -> Iterator[tuple[str, ...]]:
    here = {one.agent for one in found.sources if one.found or one.gone}
    for one in found.sources:
        is_known_otherwise = one.agent in here and not (one.passed or one.unseen)
        if one.found or one.gone or one.unseen or (one.places and not is_known_otherwise):
            yield (
                one.name,
                one.agent,
                f"{one.found:,}",
                _percent(one),
                when(one.checked_at),
                size_text(one.bytes_found),
                f"{one.gone:,}",
                f"{one.excluded:,}",
                _places(one.places, home),
            )


def _missing(found: "Coverage", home: str) -> Iterator[tuple[str, str, str]]:
    """Name each program of which nothing is here, where it was looked for, and what moves it."""
    looked: dict[str, list[str]] = {}
    variables: dict[str, set[str]] = {}
    for one in found.sources:
        looked.setdefault(one.agent, []).extend(one.looked)
        variables.setdefault(one.agent, set()).update(one.variables)
    here = {one.agent for one in found.sources if one.found or one.gone or one.passed}
    for agent, places in sorted(looked.items()):
        if agent not in {*here, *found.stored, *_OWN} and places:
            named = ", ".join(sorted(variables[agent]))
            yield agent, _places(list(dict.fromkeys(places)), home), named


def _places(places: list[str], home: str) -> str:
    more = [f"{len(places) - _PLACES:,} more"] if len(places) > _PLACES else []
    return ", ".join([*(_short(place, home) for place in places[:_PLACES]), *more])


def _short(place: str, home: str) -> str:
    """Write a place below the home that is looked into with ~, for a person."""
    root = os.path.abspath(home) + os.sep
    return f"~/{place.removeprefix(root)}" if is_terminal() and place.startswith(root) else place


def _percent(one: "SourceCoverage") -> str:
    """Round down: what is not whole must not look whole."""
    shown = f"{int(one.percent * 10) / 10:g} %" if one.found else "skipped" if one.passed else ""
    return f"{shown} ?".strip() if one.unseen else shown


def _store(found: "Coverage") -> Iterator[tuple[str, ...]]:
    for agent, one in found.stored.items():
        yield (
            agent,
            f"{one.sessions:,}",
            f"{one.entries:,}",
            f"{one.lines:,}",
            size_text(one.source_bytes),
            f"{one.bad_lines:,}",
            f"{one.failed:,}",
            when(one.captured_at),
        )


def _as_json(found: "Coverage") -> dict[str, object]:
    listed = [
        {
            **{name: getattr(one, name) for name in one.__struct_fields__},
            "percent": one.percent,
        }
        for one in found.sources
    ]
    return {"sources": listed, "stored": found.stored, "unknown": found.unknown}


def _remarks(found: "Coverage", agent: str | None) -> None:
    behind = sum(one.found - one.current for one in found.sources)
    gone = sum(one.gone for one in found.sources)
    failed = sum(one.failed for one in found.stored.values())
    if not any(one.found or one.gone or one.passed for one in found.sources):
        note(f"No {agent or 'agent'} logs found; --user-home DIR looks elsewhere")
    if behind:
        some = next(path for one in found.sources for path in one.behind)
        note(f"{counted(behind, 'log')} not captured yet, such as {some}: `threadkeep capture`")
    if gone:
        note(f"{counted(gone, 'log')} kept though no longer on the disk")
    unchecked = sum(one.unchecked for one in found.sources)
    if unchecked:
        told = f"{counted(unchecked, 'log')} touched since all that was read was compared"
        note(f"{told}: `threadkeep capture` does it")
    for one in found.sources:
        for path, said in one.passed.items():
            note(f"{one.name}: {path} was skipped: {said}")
    for path, said in {p: s for one in found.sources for p, s in one.unseen.items()}.items():
        warn(f"{path} cannot be read: {said}")
    if failed:
        warn(f"{counted(failed, 'log')} could not be read; `threadkeep capture` says why")


def _elsewhere(found: "Coverage", agent: str | None) -> None:
    """Say how to look in another folder."""
    if agent:
        variables = sorted({name for one in found.sources for name in one.variables})
        moved = f"set {' or '.join(variables)}, or " if variables else ""
        note(f"To look in another folder, {moved}make a place that is listed a link to it")
    elif is_terminal():
        note("`threadkeep sources --agent NAME` lists every place of an agent and what moves it")

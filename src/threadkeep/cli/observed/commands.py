"""`threadkeep commands`: the commands that people and agents ran, and the pages that were read."""

import os
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from threadkeep.cli.command import Call, alias, store_command, typed
from threadkeep.cli.options import limit_option, query_options
from threadkeep.cli.output import is_terminal, note, one_line, paging, table, warn, write
from threadkeep.cli.words import Json, duration, folded, printed, when

if TYPE_CHECKING:
    from threadkeep.capture.observed.observed import Observations
    from threadkeep.knowledge.command_list import CommandRow, StoredVisit
    from threadkeep.knowledge.query import Query

_COLUMNS = ("when", "exit", "took", "folder", "session", "ref", "command")
_SPARE = ("took", "folder", "exit", "session")
_VISITED = ("when", "read for", "site", "title")
_SESSION = 8  # and so much of the beginning of a session's id
_FOLDER = 28  # a terminal shows so much of the end of a folder
_ALL = 2**31
_SHOWN = {"lines": 12, "characters": 2000}
_NONE_YET = (
    "Nothing reported yet; `threadkeep shell-init zsh` (or bash, fish) begins with commands, "
    "`threadkeep browser install firefox` with pages"
)


class _Detail(NamedTuple):
    """How much is shown of each command."""

    output: bool
    full: bool


@store_command(
    "commands",
    "threadkeep commands --since 2h",
    "threadkeep commands cargo project:harbor outcome:failed",
    "threadkeep commands --visits sqlite --limit 5 --json",
    lists=True,
    pages=True,
)
@query_options(
    *("session", "agent", "project", "branch", "file", "since", "until", "failed", "role"),
    everything=False,
)
@click.option("--visits", is_flag=True, help="List web pages instead of commands.")
@click.option("--output", is_flag=True, help="Include the output, or the text of the page.")
@click.option("--full", is_flag=True, help="Show all of it; a terminal shows only a part.")
@limit_option(30, "How many; -1 for all.")
def commands(
    call: Call, *, query: "Query", visits: bool, output: bool, full: bool, limit: int
) -> None:
    """List commands, newest last; with words, those that contain all of them.

    Reports from shells and browsers are collected first. A missing exit code means that the end of
    the command was not seen.
    """
    from threadkeep.home.home import reports_waiting
    from threadkeep.home.observed import collected
    from threadkeep.knowledge.query import refuse_others

    refuse_others(query, "visit" if visits else "command")
    is_new = call.db is None and not call.home.has("knowledge")
    if is_new and not reports_waiting(call.home):
        _tell_none(call, visits=visits)
        return
    page = _ALL if limit < 0 else limit
    detail = _Detail(output=output or full, full=full)
    with collected(call.home, call.db) as (observations, trouble):
        if trouble is not None:
            warn(f"the latest reports are not included: {trouble.message}")
        show = _show_visits if visits else _show_commands
        with paging(wanted=call.pager):
            count = show(call, observations, query, page, detail)
    if call.as_json:
        return
    if not count:
        note(f"No {'visits' if visits else 'commands'} match")
    elif count == limit:
        note(f"More with --limit {limit * 2}; `{_opens(call)}` opens one")
    elif not visits:
        note(f"`{_opens(call)}` opens one")


def _opens(call: Call) -> str:
    return typed(call, "open", "REF")


ALIASES = (alias(commands, "events"),)


def _tell_none(call: Call, *, visits: bool) -> None:
    if call.as_json:
        name = "visits" if visits else "commands"
        call.answer(name, **{name: []})
    else:
        note(_NONE_YET)


# ---------------------------------------------------------------------- commands


def _show_commands(
    call: Call, observations: "Observations", query: "Query", page: int, detail: _Detail
) -> int:
    found = observations.events(query, limit=page)[::-1]
    if call.as_json:
        call.answer("commands", commands=[command_json(one, output=detail.output) for one in found])
    elif detail.output:
        for one in found:
            _show_whole(one, full=detail.full)
    else:
        table(_COLUMNS, [_row(one) for one in found], wide="command", spare=_SPARE)
    return len(found)


def command_json(event: "CommandRow", *, output: bool) -> Json:
    """Shape a command for `--json`."""
    shown: Json = msgspec.structs.asdict(event)
    if not output:
        del shown["stdout"], shown["stderr"]
    return shown


def _row(event: "CommandRow") -> tuple[str, ...]:
    named = (_session(event), f"command:{event.id}", _said(event))
    return (when(event.timestamp), _exit(event), _took(event), _folder(event.cwd), *named)


def _session(event: "CommandRow") -> str:
    name = event.session or ""
    return name[:_SESSION] if is_terminal() else name


def _exit(event: "CommandRow") -> str:
    return "" if event.exit_code is None else str(event.exit_code)


def _took(event: "CommandRow") -> str:
    if not is_terminal():
        return str(event.duration_ms)
    return duration(event.duration_ms) if event.duration_ms else ""


def _said(event: "CommandRow") -> str:
    return f"[{event.tool_name}] {event.command}" if event.tool_name else event.command


def _folder(cwd: str) -> str:
    """Write a folder whole for a program; for a person its end, the home as `~`."""
    if not is_terminal():
        return cwd
    home = os.environ.get("HOME", "").rstrip("/")
    if home and (cwd == home or cwd.startswith(home + "/")):
        cwd = "~" + cwd.removeprefix(home)
    flat = one_line(cwd)
    return flat if len(flat) <= _FOLDER else "…" + flat[1 - _FOLDER :]


def _show_whole(event: "CommandRow", *, full: bool) -> None:
    code = "no exit code" if event.exit_code is None else f"exit {event.exit_code}"
    facts = [when(event.timestamp), code, duration(event.duration_ms), event.cwd]
    facts.append(f"command:{event.id}")
    write(one_line(" · ".join(fact for fact in facts if fact)), "dim")
    write(f"$ {one_line(_said(event))}", "bold")
    for text in (event.stdout, event.stderr):
        if text:
            write(printed(text, full=full, **_SHOWN))


# ---------------------------------------------------------------------- pages


def _show_visits(
    call: Call, observations: "Observations", query: "Query", page: int, detail: _Detail
) -> int:
    found = observations.visits(query, limit=page)[::-1]
    if call.as_json:
        call.answer("visits", visits=[visit_json(one, output=detail.output) for one in found])
    elif detail.output:
        for one in found:
            _show_page(one, full=detail.full)
    else:
        table(_VISITED, [_visit_row(one) for one in found], wide="title", spare=("read for",))
    return len(found)


def visit_json(visit: "StoredVisit", *, output: bool) -> Json:
    """Shape a visit for `--json`."""
    shown: Json = msgspec.structs.asdict(visit)
    if not output:
        del shown["extracted_text"]
    return shown


def _visit_row(visit: "StoredVisit") -> tuple[str, ...]:
    read = duration(visit.dwell_ms) if is_terminal() else str(visit.dwell_ms)
    titled = f"{visit.title} " if visit.title else ""
    return (when(visit.timestamp), read, visit.domain, f"{titled}{visit.url}")


def _show_page(visit: "StoredVisit", *, full: bool) -> None:
    facts = [when(visit.timestamp), duration(visit.dwell_ms), visit.domain, visit.url]
    write(one_line(" · ".join(facts)), "dim")
    write(one_line(visit.title or visit.url), "bold")
    if visit.extracted_text:
        text = visit.extracted_text.strip()
        write(text if full or not is_terminal() else folded(text, **_SHOWN))

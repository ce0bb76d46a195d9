"""`threadkeep capture` and `watch`: bring in what agents did on this machine."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from threadkeep import __version__
from threadkeep.cli.command import PROBLEMS, SECONDS, Call, program, store_command, typed
from threadkeep.cli.history.progress import progress_bar, speed_text, without_log
from threadkeep.cli.history.sessions import (
    LogPlaces,
    comparing,
    session_rows,
    session_table,
    short_id,
)
from threadkeep.cli.memory.learn import Learner, tell_learned
from threadkeep.cli.memory.recall import opening_commands, show_hits
from threadkeep.cli.options import complete_agent, complete_folder, folder_option, since_option
from threadkeep.cli.output import (
    counted,
    document,
    json_line,
    note,
    one_line,
    size_text,
    table,
    warn,
    write,
)
from threadkeep.cli.signals import ended_by_signals, need_reader
from threadkeep.cli.times import read_times
from threadkeep.cli.words import Json, one_name, project_of, session_json
from threadkeep.errors import Invalid, ThreadkeepError

if TYPE_CHECKING:
    import threading

    from threadkeep.capture.capture import History
    from threadkeep.capture.engine import CaptureFilter
    from threadkeep.capture.observed.intake import BatchReport
    from threadkeep.capture.records import AgentReport, CaptureReport
    from threadkeep.memory.records import Hit


# ------------------------------------------------------------------------------
# A first look at a captured history: the latest sessions, a search, and what to try next.

_LATEST: Final = 5
_HITS: Final = 3
_WORD: Final = re.compile(r"[^\W\d_]{5,20}")
_NEXT: Final = (
    *(("sessions",), ("show", "last"), ("recall", "how was it fixed")),
    *(("ask", "what did we decide"), ("search", "some words"), ("usage",)),
)
# About this machine, which a demo is not.
_NEXT_HERE: Final = (("sources",), ("timeline", "--since", "7d"), ("doctor",), ("serve",))
# So common in what people ask that a search for them shows nothing.
_COMMON: Final = frozenset(
    (
        *("about", "after", "again", "before", "could", "first", "other", "please", "should"),
        *("their", "there", "these", "thing", "those", "where", "which", "while", "would", "write"),
    )
)


def demo_path(call: Call) -> str:
    """Return the file of the demo's own store."""
    return str(call.home.demo_history)


def without_history(call: Call) -> Call:
    """Say that no agent was found here, and give the call that works on the demo's own store."""
    path = demo_path(call)
    note("No agent logs were found on this machine. This is a DEMO: a small made-up history of")
    note(f"several agents on a few projects, captured into {path}.\n")
    return call._replace(db=path)


def show_around(call: Call, history: "History") -> dict[str, Any]:
    """Show the latest sessions and an example search; with `--json` only give them."""
    latest = history.sessions(limit=_LATEST)
    word = example_word([one.first_prompt for one in latest])
    hits = _said_about(history, word) if word else ()
    told = [{**msgspec.to_builtins(hit), **opening_commands(call, hit)} for hit in hits]
    found = {
        "sessions": [session_json(one) for one in latest],
        "search": {"text": word, "hits": told},
    }
    if not call.as_json:
        write("\nThe latest sessions:\n", "bold")
        session_table(session_rows(history, latest))
        if hits:
            write(f"\nWhat was said about “{word}”:\n", "bold")
            show_hits(call, hits)
    return found


def _said_about(history: "History", word: str) -> "tuple[Hit, ...]":
    from threadkeep.knowledge.query import Query
    from threadkeep.memory.memory import Memory

    memory = Memory(history.store, history.sources)
    return memory.recall(word, Query(kind=("message",)), limit=_HITS, fold="session").hits


def example_word(prompts: Sequence[str]) -> str:
    """Choose a word to search for: the longest that the first of some prompts has."""
    for prompt in prompts:
        words: list[str] = _WORD.findall(prompt)
        words = [word for word in words if word.lower() not in _COMMON]
        if words:
            return max(words, key=len)
    return ""


def what_to_try(call: Call, *, demo: bool) -> None:
    """Name the commands to continue with, as they can be typed here."""
    started = program(sys.argv[0])
    note("\nTry next:")
    for words in _NEXT if demo else (*_NEXT, *_NEXT_HERE):
        write(f"  {started}{typed(call, *words).removeprefix('threadkeep')}", err=True)


# ------------------------------------------------------------------------------
# What `threadkeep capture` says about the spool: commands and visits beside the agents' logs.


class SpoolReport(NamedTuple):
    """What came of the spool; in a dry run only how much lies in it."""

    stored: "BatchReport | None"
    waiting: int = 0
    trouble: str = ""

    def as_json(self) -> Json:
        """Shape it for `--json`."""
        counts: Json = {} if self.stored is None else msgspec.structs.asdict(self.stored)
        return {**counts, "waiting": self.waiting, "error": self.trouble or None}


def tell_collected(found: SpoolReport | None, *, quiet: bool) -> int:
    """Say what came of the spool, trouble in any case; give the exit code."""
    if found is None:
        return 0
    if found.trouble:
        warn(f"commands and visits were not collected: {found.trouble}")
        return PROBLEMS
    if not quiet and found.stored is None and found.waiting:
        note(f"would collect {counted(found.waiting, 'file')} of commands and visits")
    if not quiet and found.stored is not None and any(msgspec.structs.astuple(found.stored)):
        note(collected_words(found.stored))
    return 0


def collect_reports(call: Call, *, dry_run: bool = False) -> SpoolReport:
    """Collect what shells and browsers left; a dry run only counts the files."""
    from threadkeep.capture.observed.intake import BatchReport
    from threadkeep.home.home import reports_waiting

    try:
        waiting = reports_waiting(call.home, call.db)
        if dry_run:
            return SpoolReport(None, waiting)
        if not waiting:
            return SpoolReport(BatchReport())
        from threadkeep.home.observed import collect_now

        return SpoolReport(collect_now(call.home, call.db))
    except ThreadkeepError as error:
        return SpoolReport(None, trouble=error.message)


def collected_words(stored: "BatchReport") -> str:
    """Write what was collected, leaving out what is zero."""
    more = {
        "updated": stored.updated,
        "known before": stored.known,
        "excluded": stored.excluded,
        "not understood": stored.refused,
    }
    told = [f"{stored.new:,} new", *(f"{count:,} {name}" for name, count in more.items() if count)]
    return f"commands and visits: {', '.join(told)}"


_COLUMNS = (
    *("agent", "found", "new", "lines", "messages", "size"),
    *("bad lines", "masked lines", "unknown types", "errors"),
)
_SPARE = ("bad lines", "lines", "unknown types", "found")
_TITLE = 50

user_home_option = folder_option(
    "--user-home", "Look for logs below this folder instead of your home."
)
roots_option = click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    shell_complete=complete_folder,
    help="Also look below this folder for logs kept in projects, such as Aider's; repeatable.",
)


@store_command(
    "capture",
    "threadkeep capture",
    "threadkeep capture --agent claude-code --since 7d",
    "threadkeep capture --dry-run --json",
)
@click.option(
    "--agent",
    "sources",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_agent,
    help="Only this agent; `threadkeep sources` lists them.",
)
@since_option("Only logs changed since this date or age: 2026-03-01, 12h, 7d.")
@user_home_option
@roots_option
@click.option("--dry-run", is_flag=True, help="List the logs with something new; read nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@click.option("--or-demo", is_flag=True, help="If no agent has left a log, show a demo history.")
def capture(
    call: Call,
    *,
    sources: tuple[str, ...],
    since: str | None,
    user_home: str | None,
    roots: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    or_demo: bool,
) -> int:
    """Capture the logs of coding agents on this machine: every line, once, with secrets masked.

    Logs are only read, never changed, and what was captured is kept when the agent deletes its log.
    A second run reads only what is new; an interrupted one continues where it stopped. Reports from
    shells and browsers are collected as well, unless --agent is given. Then new sessions are
    summarized by rules; `threadkeep enrich` can use a model.
    """
    first, _ = read_times(since, None)
    if or_demo and not dry_run:
        return _with_a_look_around(call, sources, first, LogPlaces(user_home, roots))
    if dry_run:
        with comparing(call, LogPlaces(user_home, roots)) as history, without_log():
            report = history.capture(_wanted(history, sources, first), dry_run=True)
        observed, learned = None if sources else collect_reports(call, dry_run=True), None
    else:
        with call.home.history(call.db, user_home=user_home, roots=roots) as history:
            report, observed, learned = _brought_in(
                call, history, sources, first, quiet=quiet or call.as_json
            )
    if call.as_json:
        document(capture=report_json(report, observed, learned))
    elif not quiet:
        tell_report(report)
        tell_learned(learned)
    return tell_errors(report) | tell_collected(observed, quiet=quiet or call.as_json)


class _Brought(NamedTuple):
    """What a capture brought in, and how many nodes were made of it."""

    report: "CaptureReport"
    observed: SpoolReport | None
    learned: int | None


def _brought_in(
    call: Call,
    history: "History",
    sources: tuple[str, ...],
    since: int | None,
    *,
    quiet: bool,
    observe: bool = True,
) -> _Brought:
    """Capture logs, and reports unless single agents are named; learn from all of it."""
    learner = Learner(call, history)
    with progress_bar(wanted=not quiet) as show, without_log():
        wanted = _wanted(history, sources, since)
        report = history.capture(
            wanted, show=show, learn=learner.learn if learner.is_wanted else None
        )
    observed = collect_reports(call) if observe and not sources else None
    came = any(part.lines or part.memories for part in report.agents.values())
    if observed is not None and observed.stored is not None:
        came = came or any(msgspec.structs.astuple(observed.stored))
    return _Brought(report, observed, learner.finish(something_came=came, quiet=quiet))


def _wanted(history: "History", named: tuple[str, ...], since: int | None) -> "CaptureFilter":
    from threadkeep.capture.engine import CaptureFilter

    return CaptureFilter(agents_named(history, named), since)


def agents_named(history: "History", named: Sequence[str]) -> frozenset[str]:
    """Read names of agents and of their sources."""
    agents = {name: source.agent for name, source in history.sources.items()}
    known = agents | {agent: agent for agent in agents.values()}
    for name in named:
        if name not in known:
            msg = f"unknown agent {name!r}"
            raise Invalid(msg, hint=f"the agents are {', '.join(sorted(known))}")
    return frozenset(known[name] for name in named)


# ---------------------------------------------------------------------- with a look around


def _with_a_look_around(
    call: Call, sources: tuple[str, ...], since: int | None, where: LogPlaces
) -> int:
    """Capture, or capture the demo where there is nothing; then show what can be done with it."""
    if _anything_found(call, sources, since, where):
        return _captured_and_shown(call, sources, since, where)
    demo = without_history(call)
    from threadkeep.cli.history.demo_logs import demo_folder

    folder = demo_folder(call.home, datetime.now(UTC))
    return _captured_and_shown(demo, (), None, LogPlaces(str(folder)), demo=True)


def _anything_found(
    call: Call, sources: tuple[str, ...], since: int | None, where: LogPlaces
) -> bool:
    with without_log(), comparing(call, where) as history:
        look = history.capture(_wanted(history, sources, since), dry_run=True)
    return any(part.found for part in look.agents.values())


def capture_or_demo(call: Call, user_home: str | None) -> Call:
    """Capture, or the demo where there is nothing; give the call that works on what came of it."""
    if not _anything_found(call, (), None, LogPlaces(user_home)):
        from threadkeep.cli.history.demo_logs import demo_folder

        user_home = str(demo_folder(call.home, datetime.now(UTC)))
        call = without_history(call)
    with call.home.history(call.db, user_home=user_home) as history:
        report, _, learned = _brought_in(call, history, (), None, quiet=call.as_json, observe=False)
    if not call.as_json:
        tell_report(report)
        tell_learned(learned)
        tell_errors(report)
    return call


def _captured_and_shown(
    call: Call,
    sources: tuple[str, ...],
    since: int | None,
    where: LogPlaces,
    *,
    demo: bool = False,
) -> int:
    with call.home.history(call.db, user_home=where.user_home, roots=where.roots) as history:
        report, observed, learned = _brought_in(
            call, history, sources, since, quiet=call.as_json, observe=not demo
        )
        if call.as_json:
            shown = show_around(call, history)
            path = history.store.access.path
            document(demo=demo, db=path, capture=report_json(report, observed, learned), **shown)
        else:
            tell_report(report)
            tell_learned(learned)
            show_around(call, history)
            what_to_try(call, demo=demo)
    return tell_errors(report) | tell_collected(observed, quiet=call.as_json)


# ---------------------------------------------------------------------- a report


def report_json(
    report: "CaptureReport",
    observed: SpoolReport | None = None,
    learned: int | None = None,
) -> dict[str, object]:
    """Shape a report for `--json`; commands, visits and nodes only where they were looked at."""
    parts = {name: msgspec.to_builtins(part) for name, part in report.agents.items()}
    return {
        "dry_run": report.dry_run,
        "seconds": report.seconds,
        "errors": report.errors,
        "agents": parts,
        "harnesses": parts,  # what it was called before
        **({} if observed is None else {"observed": observed.as_json()}),
        **({} if learned is None else {"nodes": learned}),
    }


def tell_report(report: "CaptureReport") -> None:
    """Show what a run found and took, by agent, and what it came to."""
    parts = {name: part for name, part in report.agents.items() if _is_worth_a_row(part)}
    table(_COLUMNS, [_row(name, part) for name, part in parts.items()], spare=_SPARE)
    if not parts:
        note("No agent logs found; --user-home DIR looks elsewhere")
        return
    new = sum(part.changed for part in parts.values())
    if report.dry_run:
        note(f"would read {counted(new, 'log')}")
        return
    note(_total(parts, report.seconds))


def _is_worth_a_row(part: "AgentReport") -> bool:
    return bool(part.found or part.errors or part.passed)


def _total(parts: Mapping[str, "AgentReport"], seconds: float) -> str:
    size = sum(part.source_bytes for part in parts.values())
    lines = sum(part.lines for part in parts.values())
    messages = sum(part.entries for part in parts.values())
    notes = sum(part.memories for part in parts.values())
    if not lines:
        said = f"{counted(notes, 'note')} of Claude's" if notes else "Nothing new"
        return f"{said} ({seconds:.1f} s)"
    told = f"{counted(lines, 'line')} with {counted(messages, 'message')}, {size_text(size)}"
    return f"{told} in {seconds:.1f} s ({speed_text(size, seconds)})"


def _row(name: str, part: "AgentReport") -> tuple[str, ...]:
    counts = (part.found, part.changed, part.lines, part.entries)
    wrong = (part.bad_lines, part.masked_lines, sum(part.unknown.values()), len(part.errors))
    return (
        name,
        *(f"{count:,}" for count in counts),
        size_text(part.source_bytes),
        *(f"{count:,}" for count in wrong),
    )


def tell_errors(report: "CaptureReport") -> int:
    """Name the logs that could not be read, and what to do; give the exit code."""
    for name, part in report.agents.items():
        for path, why in part.passed.items():
            note(f"{name}: {path} was skipped: {one_line(why)}")
        for path, problem in part.errors.items():
            warn(f"{name}: {_problem(path, problem)}")
    if report.errors:
        note(f"{counted(report.errors, 'log')} could not be read; the next run retries")
    return PROBLEMS if report.errors else 0


def _problem(path: str, problem: str) -> str:
    return one_line(problem if path in problem else f"{path}: {problem}")


# ---------------------------------------------------------------------- watch


@store_command("watch", "threadkeep watch", "threadkeep watch --interval 10 --json")
@click.option(
    "--interval",
    type=SECONDS,
    default=2.0,
    show_default=True,
    help="Seconds between scans, where the system does not report changes.",
)
@user_home_option
@roots_option
@click.option("--once", is_flag=True, help="Scan once and exit.")
@click.option("--no-socket", is_flag=True, help="Do not listen for Hippo's programs.")
def watch(
    call: Call,
    *,
    interval: float,
    user_home: str | None,
    roots: tuple[str, ...],
    once: bool,
    no_socket: bool,
) -> int:
    """Keep capturing what agents write, with a line for each update.

    Commands and visits are collected as they arrive, and CI is followed if [github] is enabled. It
    runs until you press Ctrl-C. With --json every line is a capture report.
    """
    from threadkeep.service.parts import shake_hands

    shake_hands(call.home, warn, call.db)
    opened = call.home.history(call.db, user_home=user_home, roots=roots)
    with opened as history, ended_by_signals() as stop:
        follower = CapturePrinter(call, history)
        with without_log():
            with progress_bar(wanted=not call.as_json) as show:
                report = history.capture(show=show)
            follower.tell(report)
            collected = tell_collected(collect_reports(call), quiet=call.as_json)
            if once:
                return (PROBLEMS if report.errors else 0) | collected
            with _kept_current(call, stop, socket=not no_socket):
                note("Watching; Ctrl-C to stop")
                history.watch(
                    lambda: stop.is_set() or not need_reader(),
                    follower.tell,
                    poll_seconds=interval,
                )
    return 0


@contextmanager
def _kept_current(call: Call, stop: "threading.Event", *, socket: bool) -> Iterator[None]:
    """Collect, listen and follow CI beside the logs, until the block ends."""
    from threadkeep.service.parts import keeping

    with (
        call.home.observations(call.db) as observations,
        keeping(call.home, observations, stop, note, version=__version__, socket=socket),
    ):
        yield


class CapturePrinter:
    """Tells what each capture brought; a log that stays unreadable is named once."""

    def __init__(self, call: Call, history: "History") -> None:
        self._call = call
        self._history = history
        self._told: set[tuple[str, str]] = set()

    def tell(self, report: "CaptureReport") -> None:
        """Say what one capture brought."""
        brought = {name: part for name, part in report.agents.items() if part.lines}
        new = self._new_errors(report)
        if self._call.as_json:
            if brought or new:
                json_line(report_json(report))
            return
        for name, part in brought.items():
            self._line(name, part)
        for path, problem in new:
            warn(_problem(path, problem))

    def _new_errors(self, report: "CaptureReport") -> set[tuple[str, str]]:
        found = {pair for part in report.agents.values() for pair in part.errors.items()}
        new = found - self._told
        self._told = found
        return new

    def _line(self, agent: str, part: "AgentReport") -> None:
        from threadkeep.knowledge.query import Query

        newest = self._history.sessions(Query(agent=(agent,), marks=("all",)), limit=1)
        about = [
            f"{one_line(project_of(one))}  {short_id(self._history, one)}  {one_name(one, _TITLE)}"
            for one in newest
        ]
        write("  ".join([f"{agent} +{counted(part.entries, 'message')}", *about]))

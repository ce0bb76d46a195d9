"""What happened, in the order of time: commands, turns of agents, visits, runs and commits.

Rows are read without their texts first; texts are read from the archive for what is shown alone.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge import span_rows
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.shapes import steps_of
from threadkeep.knowledge.span_rows import RowSpan
from threadkeep.knowledge.workflow_runs import commit_message
from threadkeep.memory.fixed import Archive
from threadkeep.memory.memory import ANYTHING, MemoryReader
from threadkeep.memory.opened import TimelineTurn, turns_of

# ------------------------------------------------------------------------------
# Commits, as far as commands tell of them: those that they make, and those that they bring.

_SHORT: Final = 10
_LONGEST: Final = 200
_READ: Final = 8_192  # characters of a command
_BRINGS: Final = frozenset({"merge", "pull", "cherry-pick", "rebase", "revert", "am"})
_GIVEN: Final = re.compile(
    r"(?:\s-[a-zA-Z]*m|\s--message)[=\s]*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|(\S+))", re.DOTALL
)
_DOCUMENT: Final = re.compile(r"<<-?\s*['\"\\]?(\w+)['\"]?\n(.*?)\n[ \t]*\1\b", re.DOTALL)


def commit_text(command: str) -> str | None:
    """Return the first line of the message that a command commits with, empty if it names none.

    None: the command makes no commit.
    """
    command = command[:_READ]
    if "commit" not in command or not any(
        step.program == "git" and step.words[:1] == ("commit",) for step in steps_of(command)
    ):
        return None
    document = _DOCUMENT.search(command)
    if document is not None:
        return _first_line(document[2])
    given = _GIVEN.search(command[command.index("commit") :])
    return _first_line(next((one for one in given.groups() if one), "")) if given else ""


def commits_among(rows: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the commits that commands, the latest first, made or came upon.

    A command is id, time, text, exit code, duration, folder, repository, branch, commit, kind.
    """
    heads: dict[str, str] = {}
    for row in reversed(rows):
        event, at, command, exit_code, _, cwd, repo, branch, head, kind, *_ = row
        place = repo or str(cwd)
        before = heads.get(place)
        heads[place] = head or before or ""
        message = commit_text(str(command)) if exit_code == 0 else None
        is_new = bool(head) and bool(before) and head != before
        if message is None and not (is_new and _moves(str(command))):
            continue
        named = head[:_SHORT] if head and is_new else ""
        text = " ".join(part for part in (named, message or _first_line(str(command))) if part)
        yield {
            "at": at,
            "kind": "commit",
            "text": f"{text} ({branch})" if branch else text,
            "ref": f"command:{event}",
            "agent": None if kind == "shell" else "claude-code",
            "project": place.rstrip("/") if repo else place.rstrip("/").rsplit("/", 1)[-1],
            "outcome": "success",
        }


def _moves(command: str) -> bool:
    """Tell whether a command brings a commit without a message of its own."""
    return any(
        step.program == "git" and not _BRINGS.isdisjoint(step.words[:1])
        for step in steps_of(command)
    )


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip()[:_LONGEST] if lines else ""


MomentKind = Literal["command", "prompt", "answer", "work", "visit", "run", "commit"]

_NEAR_MS: Final = 5 * 60_000  # a page read so close to the work belongs to it
_SESSIONS: Final = 500
_SHOWN: Final = 400  # characters of a text
_END_OF_TIME: Final = 1 << 62
_RAN_BY: Final = {"shell": None, "claude-tool": "claude-code"}
_ONE_DAY: Final = timedelta(days=1)


class Moment(msgspec.Struct, frozen=True):
    """One thing that happened, or several of the same kind in a row."""

    at: int  # epoch milliseconds
    kind: MomentKind
    text: str
    ref: str  # opens it
    agent: str | None = None  # who did it; None: a person, a browser or CI
    project: str | None = None
    outcome: str | None = None  # success, failure; None: nobody knows, or there is none
    count: int = 1  # so often in a row
    tools: dict[str, int] = {}  # what an agent used, and how often
    errors: int = 0  # how many of its calls failed
    session_id: str | None = None
    until: int | None = None  # when the last of several was


class TimeSpan(msgspec.Struct, frozen=True):
    """A stretch of time, from its first moment to before its last."""

    since: int
    until: int


def timeline(
    memory: MemoryReader,
    within: Query = ANYTHING,
    *,
    day: date | None = None,
    zone: tzinfo = UTC,
    limit: int = 200,
) -> list[Moment]:
    """Tell what happened in a span of time, the latest `limit` things of it, the earliest first."""
    span = span_of(day, within.since, within.until, zone)
    with memory.store.read(lenient=True) as tx:
        has_archive = "tk_entries" in tx.tables()
        rows = RowSpan(span.since, span.until, within, limit * 4, has_archive)
        done = [*_commands(tx, rows), *_runs(tx, rows), *_segments(tx, rows)]
        turns = list(_turns(tx, rows, memory.clock(), limit)) if has_archive else []
        done += [moment for moment, _ in turns]
        visits = _visits(tx, rows)
        if within.project:
            visits = near(visits, done)
        mixed = in_time([*done, *visits])[-limit:] if limit > 0 else []
        unread = {moment.ref: turn for moment, turn in turns}
        archive = Archive(tx, memory.sources)
        return [_with_text(archive, one, unread.get(one.ref)) for one in mixed]


def span_of(day: date | None, since: int | None, until: int | None, zone: tzinfo) -> TimeSpan:
    """Return the span that is meant: a day in a zone, or from a moment to another."""
    if day is None:
        first = 0 if since is None else since
        return TimeSpan(first, _END_OF_TIME if until is None else until)
    if since is not None or until is not None:
        msg = "day cannot be combined with since or until"
        raise Invalid(msg, hint="give either day, or since and until")
    after = _END_OF_TIME if day == date.max else _midnight(day + _ONE_DAY, zone)
    return TimeSpan(_midnight(day, zone), after)


def in_time(moments: Iterable[Moment]) -> list[Moment]:
    """Put moments in order, and fold the same command run again and again into one."""
    ordered = sorted(moments, key=lambda one: (one.at, one.kind, one.ref))
    folded: list[Moment] = []
    for one in ordered:
        if folded and _is_same(folded[-1], one):
            last = folded[-1]
            count = last.count + one.count
            folded[-1] = msgspec.structs.replace(last, count=count, until=one.at, ref=one.ref)
        else:
            folded.append(one)
    return folded


def near(visits: Sequence[Moment], work: Sequence[Moment], within: int = _NEAR_MS) -> list[Moment]:
    """Return the visits that were made close to some work."""
    times = sorted(one.at for one in work)
    return [one for one in visits if _is_near(times, one.at, within)]


# ---------------------------------------------------------------------- inside


def _is_near(times: Sequence[int], at: int, within: int) -> bool:
    first = bisect_left(times, at - within)
    return first < len(times) and times[first] <= at + within


def _midnight(day: date, zone: tzinfo) -> int:
    return int(datetime.combine(day, time.min, zone).timestamp() * 1000)


def _is_same(last: Moment, one: Moment) -> bool:
    kinds = {last.kind, one.kind}
    return kinds == {"command"} and (last.text, last.project, last.outcome) == (
        *(one.text, one.project, one.outcome),
    )


def _commands(tx: Tx, span: RowSpan) -> list[Moment]:
    rows = span_rows.commands(tx, span)
    commits = [Moment(**commit) for commit in commits_among(rows)]
    told = {commit.ref for commit in commits}
    shown = (_command(row) for row in rows if row[11])
    return [*commits, *(one for one in shown if one.ref not in told)]


def _command(row: tuple[Any, ...]) -> Moment:
    event, at, command, exit_code, _, cwd, repo, *_rest = row
    agent = _RAN_BY.get(row[9], "agent")
    ended = None if exit_code is None else ("success" if exit_code == 0 else "failure")
    text = " ".join(str(command).split())[:_SHOWN]
    project = repo or str(cwd).rstrip("/").rsplit("/", 1)[-1] or None
    return Moment(at, "command", text, f"command:{event}", agent, project, ended)


def _visits(tx: Tx, span: RowSpan) -> list[Moment]:
    found = []
    for visit, at, url, title, query in span_rows.visits(tx, span):
        text = f"searched: {query}" if query else (title or url)
        found.append(Moment(at, "visit", text[:_SHOWN], f"visit:{visit}"))
    return found


def _runs(tx: Tx, span: RowSpan) -> list[Moment]:
    found = []
    for run, at, repo, sha, branch, event, status, conclusion, raw in span_rows.runs(tx, span):
        said = commit_message(raw)
        ended = conclusion or status
        text = f"{event} on {branch or '?'} at {sha[:10]}: {ended}" + (f" ({said})" if said else "")
        outcome = {"success": "success", "failure": "failure"}.get(conclusion or "")
        found.append(Moment(at, "run", text, f"run:{run}", None, repo, outcome))
    return found


def _segments(tx: Tx, span: RowSpan) -> list[Moment]:
    """Tell slices of conversations that another program stored, and the archive does not have."""
    found = []
    for segment, at, harness, session_id, title, summary, folder in span_rows.slices(tx, span):
        text = " ".join(str(title or summary).split())[:_SHOWN]
        project = str(folder).rstrip("/").rsplit("/", 1)[-1] or None
        moment = Moment(at, "work", text, f"segment:{segment}", harness, project)
        found.append(msgspec.structs.replace(moment, session_id=session_id))
    return found


def _turns(tx: Tx, span: RowSpan, now: int, limit: int) -> Iterable[tuple[Moment, TimelineTurn]]:
    """Yield what agents were asked and answered, without the texts."""
    times: list[int] = []
    for session in span_rows.sessions(tx, span._replace(limit=_SESSIONS), now):
        if len(times) - bisect_left(times, session.ended_at or 0) >= limit:
            return  # enough happened since this session and all before it
        rows = span_rows.turns(tx, session.id, span.since, span.until)
        for turn in turns_of(rows):
            moment = Moment(
                at=turn.at,
                kind=turn.kind,
                text="",
                ref=f"message:{turn.row.id}",
                agent=session.agent,
                project=session.project or None,
                tools=turn.tools,
                errors=turn.errors,
                session_id=session.session_id,
            )
            insort(times, turn.at)
            yield moment, turn


def _with_text(archive: Archive, moment: Moment, turn: TimelineTurn | None) -> Moment:
    if turn is None:
        return moment
    if turn.kind == "work":
        used = ", ".join(f"{count} {tool}" for tool, count in turn.tools.items())
        return msgspec.structs.replace(moment, text=used)
    text = " ".join(archive.text(turn.row)[: 4 * _SHOWN].split())[:_SHOWN]
    return msgspec.structs.replace(moment, text=text)

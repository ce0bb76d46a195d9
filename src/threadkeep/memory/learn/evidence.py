"""What nodes are derived from, as plain values: commands, conversations, visits and runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.archive import load_log_by_id, read_lines
from threadkeep.knowledge.memory_documents import category_of
from threadkeep.knowledge.records import EntryRow, Readers, to_entry
from threadkeep.knowledge.schema import names
from threadkeep.knowledge.transcript import entries_in
from threadkeep.memory.learn.commands import does
from threadkeep.memory.learn.text_cleaning import asked, plain


class CommandEvidence(msgspec.Struct, frozen=True):
    """One command or tool call, with what it printed."""

    id: int
    session: int
    at: int  # epoch milliseconds, when it was reported
    command: str
    output: str
    exit_code: int | None
    duration_ms: int
    cwd: str
    repo: str
    branch: str
    commit: str
    by_agent: bool  # False: typed by a person
    tool: str = ""  # as the agent calls it
    told_by_session: bool = False  # the node of the agent's session is about it


class VisitEvidence(msgspec.Struct, frozen=True):
    """One visit to a page."""

    id: int
    at: int
    url: str
    title: str
    domain: str
    dwell_ms: int
    query: str  # what was searched for there
    text: str


class MessageEvidence(msgspec.Struct, frozen=True):
    """One thing said or done in a conversation."""

    role: str
    kind: str
    text: str
    tool: str = ""
    call_id: str = ""
    error: bool = False


class Slice(msgspec.Struct, frozen=True):
    """A slice of a conversation; `said` is empty where the archive does not have it."""

    id: int
    harness: str
    cwd: str
    project_dir: str
    branch: str
    title: str
    is_subagent: bool
    summary: str  # the contract's own account of it
    prompts: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]  # name, and what it was given in short
    commits: tuple[str, ...]  # messages
    changed: tuple[str, ...]  # files in the diffs
    began_with: str = ""  # the first prompt of the whole conversation
    said: tuple[MessageEvidence, ...] = ()


class MemoryNote(msgspec.Struct, frozen=True):
    """A revision of a memory."""

    revision: int
    repository: str
    logical_path: str
    category: str  # that its name tells, empty if none
    is_current: bool  # no newer one has come
    sections: tuple[tuple[str, str], ...]  # the headings above each, and what it says


class Remark(msgspec.Struct, frozen=True):
    """What a job of CI said about a line of code."""

    level: str
    tool: str
    rule: str
    path: str
    line: int | None
    message: str


class JobDone(msgspec.Struct, frozen=True):
    """One job of a run."""

    name: str
    conclusion: str
    remarks: tuple[Remark, ...] = ()
    excerpt: str = ""  # the end of its log


class RunDone(msgspec.Struct, frozen=True):
    """One run of CI."""

    id: int
    repo: str
    sha: str
    branch: str
    event: str
    conclusion: str
    url: str
    actor: str
    name: str  # of the workflow
    title: str  # of the change that it checked
    at: int | None
    seconds: int | None
    jobs: tuple[JobDone, ...] = ()


# ------------------------------------------------------------------------------
# Which entries of a session belong to which of its segments.
#
# A segment says when it began and ended, and how many prompts and tool calls it holds. As a rule
# the
# time alone tells. Where segments touch, since a program wrote many lines with one timestamp, the
# counts do: else each of them would be made from the same entries, over and over.

MOST_ENTRIES: Final = 600  # of one segment
_SESSIONS: Final = 64  # kept in mind: a session is looked through once, not for each segment


class SegmentSpan(NamedTuple):
    """A segment: from when to when, and what of it can be counted."""

    id: int
    start: int
    end: int
    prompts: int
    tools: int


class EntryMoment(NamedTuple):
    """An entry of a session: when it was, and what it is."""

    id: int
    at: int
    kind: str


def share_out(
    spans: Sequence[SegmentSpan], moments: Iterable[EntryMoment], most: int = MOST_ENTRIES
) -> dict[int, list[int]]:
    """Give each segment its entries, at most so many; both are in order, nothing is given twice."""
    shares: dict[int, list[int]] = {span.id: [] for span in spans}
    place, taken = 0, {"prompt": 0, "tool_call": 0}
    for one in moments:
        while place + 1 < len(spans) and _is_next(spans[place], spans[place + 1], one, taken):
            place, taken = place + 1, {"prompt": 0, "tool_call": 0}
        if not spans or not spans[place].start <= one.at <= spans[place].end:
            continue
        if one.kind in taken:
            taken[one.kind] += 1
        if len(shares[spans[place].id]) < most:
            shares[spans[place].id].append(one.id)
    return shares


def _is_next(
    span: SegmentSpan, following: SegmentSpan, one: EntryMoment, taken: Mapping[str, int]
) -> bool:
    """Tell whether an entry is no longer of a segment but of the following ones."""
    if one.at > span.end:
        return True
    if one.at < following.start or one.kind not in taken:
        return False
    full = taken["prompt"] >= span.prompts
    return full and (one.kind == "prompt" or taken["tool_call"] >= span.tools)


class Spans:
    """The entries of segments, looked up a session at a time."""

    def __init__(self) -> None:
        self._known: dict[int, dict[SegmentSpan, list[int]]] = {}

    def entries(self, tx: Tx, session: int, span: SegmentSpan, key: Mapping[str, str]) -> list[int]:
        """Give the entries of a segment, by the row of its session and the names of that."""
        shares = self._known.get(session)
        if shares is None or span not in shares:  # it is new here, or has grown
            shares = self._known[session] = _shares(tx, session, key)
            for oldest in list(self._known)[: -_SESSIONS or None]:
                del self._known[oldest]
        return shares.get(span, [])


def _shares(tx: Tx, session: int, key: Mapping[str, str]) -> dict[SegmentSpan, list[int]]:
    """Share out a whole session, each of its logs for itself."""
    rows = [(SegmentSpan(*row[:-1]), row[-1]) for row in tx.all("evidence_spans", key)]
    shares: dict[SegmentSpan, list[int]] = {span: [] for span, _ in rows}
    moments = tx.all("evidence_moments", {"session": session})
    for path, group in groupby(moments, itemgetter(-1)):
        own = [span for span, source in rows if source == path] or [span for span, _ in rows]
        found = share_out(own, (EntryMoment(*row[:-1]) for row in group))
        for span in own:
            shares[span] += found[span.id][: MOST_ENTRIES - len(shares[span])]
    return shares


# ------------------------------------------------------------------------------
# Evidence, read from the store: rows become plain values, and the archive is looked into.

AROUND_MS: Final = 5 * 60_000
_VISITS_AROUND: Final = 10
# More than any rule looks at: a result of many megabytes is not carried around.
_TEXT_LIMIT: Final = 64_000
_MOST_REMARKS: Final = 60
_EXCERPT: Final = 16_000
_TITLE: Final = 400
_CLOSE: Final = 200  # lines that are read over rather than sought


# ---------------------------------------------------------------------- commands and visits


def read_commands(tx: Tx, ids: Sequence[int]) -> list[CommandEvidence]:
    """Read commands with what they printed."""
    return [_command(row) for row in tx.all("evidence_commands", {"ids": encode(list(ids))})]


def _command(row: tuple[Any, ...]) -> CommandEvidence:
    number, session, at, command, stdout, stderr, code, duration, *place, kind, tool, told = row
    cwd, repo, branch, commit = map(_text, place)
    return CommandEvidence(
        id=number,
        session=session,
        at=at,
        command=_text(command),
        output="\n".join(filter(None, (_text(stdout), _text(stderr)))),
        exit_code=code,
        duration_ms=duration,
        cwd=cwd,
        repo=repo,
        branch=branch,
        commit=commit,
        by_agent=kind != "shell",
        tool=_text(tool),
        told_by_session=bool(told),
    )


def read_visits(tx: Tx, ids: Sequence[int]) -> list[tuple[VisitEvidence, float | None]]:
    """Read visits, each with how far the page was scrolled."""
    rows = tx.all("evidence_visits", {"ids": encode(list(ids))})
    return [(_visit(row), row[-1]) for row in rows]


def visits_around(tx: Tx, since: int, until: int) -> list[VisitEvidence]:
    """Read what was looked at around some time, without the pages' text."""
    span = {"since": since - AROUND_MS, "until": until + AROUND_MS, "limit": _VISITS_AROUND}
    return [_visit(row) for row in tx.all("evidence_visits_around", span)]


def _visit(row: tuple[Any, ...]) -> VisitEvidence:
    number, at, url, title, domain, dwell, query, text, _ = row
    return VisitEvidence(
        *(number, at, _text(url), _text(title), _text(domain), dwell, _text(query), _text(text))
    )


# ---------------------------------------------------------------------- slices of conversations


class SliceRow(msgspec.Struct, frozen=True):
    """A row of `agentic_sessions` before its archive is looked into, with what eligibility asks."""

    piece: Slice
    session_id: str
    span: SegmentSpan
    message_count: int
    tool_calls_json: str | None
    snapshot_diffs_json: str | None
    commit_messages_json: str | None


def read_slices(tx: Tx, ids: Sequence[int]) -> list[SliceRow]:
    """Read segments as their rows tell them."""
    return [_slice_row(row) for row in tx.all("evidence_segments", {"ids": encode(list(ids))})]


def _slice_row(row: tuple[Any, ...]) -> SliceRow:
    number, harness, session_id, _, cwd, project_dir, branch, title, is_subagent, summary = row[:10]
    prompts, tools, commits, diffs, start, end, messages, *counts = row[10:]
    piece = Slice(
        *(number, harness, _short(cwd), _short(project_dir), _short(branch), _short(title)),
        is_subagent=bool(is_subagent),
        summary=_text(summary),
        prompts=tuple(_texts(_list(prompts))),
        tools=tuple(_tools(_list(tools))),
        commits=tuple(_texts(_list(commits))),
        changed=tuple(_changed(_json(diffs))),
    )
    span = SegmentSpan(number, start, end, *counts)
    return SliceRow(piece, _text(session_id), span, messages, tools, diffs, commits)


def _tools(calls: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for call in calls:
        if isinstance(call, dict):
            yield _text(call.get("name")), _text(call.get("summary"))


def _changed(diffs: Any) -> Iterator[str]:
    """Name the files of stored diffs: a list of them, or an object with such a list."""
    found = diffs.get("files", diffs.get("diffs")) if isinstance(diffs, dict) else diffs
    for one in found if isinstance(found, list) else ():
        name = one.get("file", one.get("path")) if isinstance(one, dict) else one
        if isinstance(name, str):
            yield name[:_TITLE]


def with_archive(tx: Tx, sources: Readers, spans: Spans, row: SliceRow) -> Slice:
    """Add what the archive has of a segment: everything said and done in its time."""
    if not {"tk_sessions", "tk_entries"} <= names(tx, "table"):
        return row.piece
    key = {"harness": row.piece.harness, "session_id": row.session_id}
    found = tx.one("evidence_session", key)
    if found is None:
        return row.piece
    ids = encode(spans.entries(tx, found[0], row.span, key))
    rows = [to_entry(one) for one in tx.all("evidence_entries", {"ids": ids})]
    said = tuple(_of_use(_said(tx, sources, rows)))
    is_whole = any(one.kind == "prompt" for one in said) or not any(map(asked, row.piece.prompts))
    return msgspec.structs.replace(
        row.piece, began_with=_text(found[1]), said=said if is_whole else ()
    )


def _said(tx: Tx, sources: Readers, rows: Iterable[EntryRow]) -> Iterator[MessageEvidence]:
    """Read entries of the archive, given in the order of their lines."""
    for log_id, group in groupby(rows, attrgetter("log_id")):
        log = load_log_by_id(tx, log_id)
        wanted: dict[int, list[str]] = {}
        for row in group:
            wanted.setdefault(row.line, []).append(row.key)
        if log is None or not wanted:
            continue
        for number, line in _archived(tx, log_id, sorted(wanted)):
            entries = entries_in(sources, log, line, number)
            for one in (entries[key] for key in wanted[number] if key in entries):
                text = one.text[:_TEXT_LIMIT]
                yield MessageEvidence(one.role, one.kind, text, one.tool, one.call_id, one.error)


def _archived(tx: Tx, log_id: int, wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Read some lines of a log: those that stand close together in one go, no others between."""
    for _, group in groupby(enumerate(wanted), lambda pair: (pair[1] - pair[0]) // _CLOSE):
        numbers = {number for _, number in group}
        first, last = min(numbers), max(numbers)
        for number, line in enumerate(read_lines(tx, log_id, first, last - first + 1), first):
            if number in numbers:
                yield number, line


def _of_use(said: Iterable[MessageEvidence]) -> Iterator[MessageEvidence]:
    """Leave out results that only repeat a file: what came of commands, and errors, tell more."""
    commands = set()
    for one in said:
        if one.kind == "tool_call" and does(one.tool) == "runs":
            commands.add(one.call_id)
        if one.kind != "tool_result" or one.error or one.call_id in commands:
            yield one


# ---------------------------------------------------------------------- runs of CI


def read_note(tx: Tx, revision: int) -> MemoryNote | None:
    """Read a revision of a memory with its sections; None if it is gone."""
    row = tx.one("memory_to_publish", {"id": revision})
    if row is None:
        return None
    _, _, _, _, _, repository, logical_path, _, current, _ = row
    parts = tx.all("chunks_of_revision", {"id": revision})
    return MemoryNote(
        *(revision, _text(repository), _text(logical_path)),
        category=category_of(_text(logical_path)) or "",
        is_current=current == revision,
        sections=tuple((_text(path), _text(text)) for _, path, text in parts),
    )


def read_run(tx: Tx, number: int) -> RunDone | None:
    """Read a run of CI with its jobs; None if it is gone."""
    row = tx.one("evidence_run", {"id": number})
    if row is None:
        return None
    number, repo, sha, branch, event, conclusion, url, actor, raw, started, completed = row
    told = _json(raw)
    told = told if isinstance(told, dict) else {}
    return RunDone(
        *(number, _text(repo), _text(sha), _text(branch), _text(event), _text(conclusion)),
        *(_text(url), _text(actor), _text(told.get("name"))[:_TITLE]),
        *(_text(told.get("display_title"))[:_TITLE], started),
        seconds=(completed - started) // 1000 if started and completed else None,
        jobs=tuple(_job(tx, *job) for job in tx.all("evidence_jobs", {"id": number})),
    )


def _job(tx: Tx, number: int, name: str, conclusion: str | None) -> JobDone:
    remarks = tx.all("evidence_remarks", {"id": number, "limit": _MOST_REMARKS})
    excerpts = tx.all("evidence_excerpts", {"id": number, "length": _EXCERPT})
    return JobDone(
        *(_text(name), _text(conclusion)),
        tuple(_remark(row) for row in remarks),
        "\n".join(_text(row[0]) for row in excerpts),
    )


def _remark(row: tuple[Any, ...]) -> Remark:
    level, tool, rule, path, line, message = row
    return Remark(_text(level), _text(tool), _text(rule), _text(path), line, _text(message))


# ---------------------------------------------------------------------- values


def _text(value: Any) -> str:
    """Give a stored text, empty for none; one that no UTF-8 can hold is stored as bytes."""
    return from_sql(value) if isinstance(value, str | bytes) else ""


def _short(value: Any) -> str:
    return plain(_text(value), _TITLE)


def _json(text: Any) -> Any:
    try:
        return decode(text) if text else None
    except Invalid:
        return None


def _list(text: Any) -> list[Any]:
    found = _json(text)
    return found if isinstance(found, list) else []


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))

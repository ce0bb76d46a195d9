"""Evidence, read from the store: rows become plain values, and the archive is looked into."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.capture.transcripts import Sources, entries_in
from threadkeep.enrich.evidence import (
    CommandEvidence,
    JobDone,
    MemoryNote,
    MessageEvidence,
    Remark,
    RunDone,
    Slice,
    VisitEvidence,
)
from threadkeep.enrich.spans import SegmentSpan, Spans
from threadkeep.enrich.tools import does
from threadkeep.enrich.wording import asked, plain
from threadkeep.errors import Invalid
from threadkeep.knowledge.archive import read_lines
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.logs import load_log_by_id
from threadkeep.knowledge.memory_names import category_of
from threadkeep.knowledge.reading import EntryRow, to_entry

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


def with_archive(tx: Tx, sources: Sources, spans: Spans, row: SliceRow) -> Slice:
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


def _said(tx: Tx, sources: Sources, rows: Iterable[EntryRow]) -> Iterator[MessageEvidence]:
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

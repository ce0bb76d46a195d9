"""What nodes of conversations are derived from, as plain values: what was said and done."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from threadkeep.base.json import decode
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Readers
from threadkeep.knowledge.segments import SegmentSpan, Spans, archived_entries, segment_rows
from threadkeep.memory.learn.commands import does
from threadkeep.memory.learn.text_cleaning import asked, plain


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


# ------------------------------------------------------------------------------
# Evidence, read from the store: rows become plain values, and the archive is looked into.

# More than any rule looks at: a result of many megabytes is not carried around.
_TEXT_LIMIT: Final = 64_000
_TITLE: Final = 400


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
    return [_slice_row(row) for row in segment_rows(tx, ids)]


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
    found = spans.session(tx, row.piece.harness, row.session_id)
    if found is None:
        return row.piece
    entries = archived_entries(tx, sources, spans.entries(tx, found, row.span), spans.recent)
    said = tuple(
        _of_use(
            MessageEvidence(
                one.role, one.kind, one.text[:_TEXT_LIMIT], one.tool, one.call_id, one.error
            )
            for one in entries
        )
    )
    is_whole = any(one.kind == "prompt" for one in said) or not any(map(asked, row.piece.prompts))
    return msgspec.structs.replace(
        row.piece, began_with=found.first_prompt, said=said if is_whole else ()
    )


def _of_use(said: Iterable[MessageEvidence]) -> Iterator[MessageEvidence]:
    """Leave out results that only repeat a file: what came of commands, and errors, tell more."""
    commands = set()
    for one in said:
        if one.kind == "tool_call" and does(one.tool) == "runs":
            commands.add(one.call_id)
        if one.kind != "tool_result" or one.error or one.call_id in commands:
            yield one


# ---------------------------------------------------------------------- values


def _text(value: Any) -> str:
    """Return a stored text, empty for none; one that no UTF-8 can hold is stored as bytes."""
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

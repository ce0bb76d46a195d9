"""Hippo's notes of a session: the slices that its file has, where the log itself is not here.

A slice tells the prompts, the tool calls in few words and what was said in excerpts. That is less
than a transcript and more than nothing, so it is archived and read like one, until the log comes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources.common import number, rows, table, text
from threadkeep.sources.own import (
    OwnStoreRecord,
    Row,
    SessionParser,
    fingerprint,
    frame_of,
    line,
    moment,
    read_safely,
    row_of,
)
from threadkeep.sources.records import DocumentItem, Log, Parser, UserHome

_VERSION: Final = "notes of Hippo"  # where others have the version of the program
_AS_JSON: Final = frozenset(("tool_calls_json", "user_prompts_json", "commit_messages_json"))
_TELLING: Final = 40  # characters of a prompt or a call by which it is known again in the summary


class HippoNotes:
    """The slices of some sessions of one program; without any it only reads what is archived."""

    kind: Final = "document"

    def __init__(
        self, agent: str = "hippo", slices: Mapping[str, Sequence[Row]] | None = None
    ) -> None:
        """Take the slices of each session, in their order."""
        self.agent: Final = agent
        self._slices = slices or {}

    def roots(self, user: UserHome) -> list[Path]:  # noqa: ARG002
        """Name nothing: they are rows of our own store."""
        return []

    def find(self, user: UserHome) -> Iterator[Log]:  # noqa: ARG002
        """Yield nothing: they are brought in with the file that they are in."""
        yield from ()

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser; it has no state."""
        del state
        return SessionParser(log, "Hippo", read_record)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:  # noqa: ARG002
        """Read one record alone."""
        return list(read_safely(read_record, record).entries)

    def items(self, log: Log) -> Iterable[DocumentItem]:  # noqa: ARG002
        """Yield the sessions."""
        return [DocumentItem(name, fingerprint(*slices)) for name, slices in self._slices.items()]

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        """Yield the slices of one session."""
        for one in self._slices.get(item, ()):
            told = row_of(one, _AS_JSON)
            yield f"slice:{one['segment_index']}", line(type="slice", session=item, row=told)


def read_record(record: Any) -> OwnStoreRecord:
    """Read one slice; its file has learned from it, so there is nothing new to learn from."""
    kind, session_id, row, _ = frame_of(record)
    if kind != "slice" or not session_id:
        return OwnStoreRecord(unknown=kind or "no type")
    return OwnStoreRecord(
        session_id, _entries(session_id, row), _facts(row), _usage(session_id, row), copied=True
    )


def _entries(session_id: str, row: Row) -> list[Entry]:
    name, began = number(row.get("segment_index")), moment(row.get("start_time"))
    prompts = [one for one in map(text, rows(row.get("user_prompts_json"))) if one.strip()]
    calls = [table(one) for one in rows(row.get("tool_calls_json"))]
    found = [
        Entry(f"{name}/prompt-{n}", "user", "prompt", began, said, session_id)
        for n, said in enumerate(prompts)
    ]
    for n, call in enumerate(calls):
        entry = Entry(f"{name}/call-{n}", "assistant", "tool_call", began, "", session_id)
        entry.tool, entry.text = text(call.get("name")), text(call.get("summary"))
        found.append(entry)
    said = _rest(text(row.get("summary_text")), [one.text for one in found])
    if said:
        at = moment(row.get("end_time"))
        found.append(Entry(f"{name}/summary", "assistant", "summary", at, said, session_id))
    return found


def _rest(summary: str, told: Iterable[str]) -> str:
    """Return those lines of a summary that do not repeat a prompt or a call."""
    known = [lines[0][:_TELLING] for one in told if (lines := one.strip().splitlines())]
    kept = (one for one in summary.splitlines() if not any(begin in one for begin in known))
    return "\n".join(kept).strip()


def _facts(row: Row) -> SessionFacts:
    return SessionFacts(
        parent_session_id=text(row.get("parent_session_id")),
        is_subagent=row.get("is_subagent") == 1,
        title=text(row.get("title")),
        agent=text(row.get("agent")),
        model=text(row.get("model")),
        cwd=text(row.get("cwd")),
        git_branch=text(row.get("git_branch")),
        slug=text(row.get("slug")),
        version=_VERSION,
    )


def _usage(session_id: str, row: Row) -> list[Usage]:
    """Return the one number that a slice has: of OpenCode all tokens, else those of the answers."""
    tokens = number(row.get("token_count"))
    if tokens <= 0:
        return []
    use = Usage(
        key=f"{session_id}/slice-{number(row.get('segment_index'))}",
        at=moment(row.get("end_time")),
        model=text(row.get("model")),
        session_id=session_id,
    )
    whole = "input" if row.get("harness") == "opencode" else "output"
    return [msgspec.structs.replace(use, **{whole: tokens})]

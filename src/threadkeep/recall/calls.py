"""Tool calls of agents as the archive has them: the call, its result, and what was run."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.archived import ArchivedEntries
from threadkeep.capture.transcripts import Sources
from threadkeep.knowledge.failures import AttemptBatch, Look
from threadkeep.knowledge.reading import EntryRow, to_entry
from threadkeep.knowledge.records import Entry
from threadkeep.knowledge.runs import CommandAttempt, is_shell_tool

_WIDTH: Final = len(EntryRow.__struct_fields__)
_CALLS_LOOKED_AT: Final = 16  # an agent rarely starts more at once
_OUTPUT: Final = 8_000  # characters from the end: there the error is
# What describes a call beside the command itself.
_BESIDE: Final = re.compile(
    r"(?:description|timeout(?:_?ms)?|workdir|cwd|directory|dir_path|run_in_background|login"
    r"|is_?background|justification|with_escalated_permissions|sandbox_permissions|yield_time_ms"
    r"|max_output_tokens|prefix_rule|mode|explanation|shellId|initial_wait|tty)(?:: .*)?$"
)
_LISTED: Final = re.compile(r"^(?:command|cmd): (\[.*\])$", re.MULTILINE)
_PATH: Final = re.compile(
    r"^(?:file_?[pP]ath|path|file|filename|target_file|absolute_path|notebook_path): (.+)$"
    r"|^\*\*\* (?:Update|Add|Delete) File: (.+)$",
    re.MULTILINE,
)


class Archive:
    """Entries of the archive within one transaction, and which call belongs to which result."""

    def __init__(self, tx: Tx, sources: Sources) -> None:
        self.tx = tx
        self._entries = ArchivedEntries(tx, sources)
        self.entry = self._entries.entry
        self.text = self._entries.text

    def call_of(self, row: EntryRow) -> tuple[EntryRow, Entry] | None:
        """Find the call that a result belongs to."""
        result = self.entry(row)
        if result is None:
            return None
        near: tuple[EntryRow, Entry] | None = None
        for other in self._rows("calls_before", row):
            call = self.entry(other)
            if call is not None and result.call_id and call.call_id == result.call_id:
                return other, call
            if call is not None and near is None and not (call.call_id and result.call_id):
                near = other, call
        return near

    def result_of(self, row: EntryRow) -> tuple[EntryRow, Entry] | None:
        """Find the result of a call."""
        call = self.entry(row)
        for other in self._rows("result_behind", row) if call is not None else ():
            result = self.entry(other)
            if result is not None and call is not None and call.call_id == result.call_id:
                return other, result
        return None

    def run_of(self, row: EntryRow, session_id: str, cwd: str) -> CommandAttempt | None:
        """Give a result with its call as a run."""
        found = self.call_of(row)
        return None if found is None else self.paired(found, row, session_id, cwd)

    def paired(
        self, call: tuple[EntryRow, Entry], row: EntryRow, session_id: str, cwd: str
    ) -> CommandAttempt:
        """Make a run of a call and its result."""
        tool = call[1].tool or row.tool or "tool"
        return CommandAttempt(
            id=row.id,
            at=row.at or call[0].at or 0,
            command=command_in(tool, call[1].text),
            tool=tool,
            exit_code=int(row.error),
            output=self.text(row)[-_OUTPUT:],
            cwd=cwd,
            key=f"{session_id}\n{row.key}",
            session=session_id,
        )

    def _rows(self, query: str, row: EntryRow) -> Iterator[EntryRow]:
        values = {"log": row.log_id, "line": row.line, "part": row.part, "session": row.session}
        return map(to_entry, self.tx.all(query, values | {"limit": _CALLS_LOOKED_AT}))


def archived_runs(sources: Sources) -> Look:
    """Give the reader of archived tool calls that `learn_failures` takes."""

    def look(tx: Tx, after: int, limit: int) -> AttemptBatch:
        upto = tx.value("entries_to", {"after": after, "limit": limit})
        if upto is None:
            return AttemptBatch([], after)
        rows = tx.all("results_between", {"after": after, "upto": upto})
        archive = Archive(tx, sources)
        return AttemptBatch(
            [run for row in rows if (run := _run(archive, row)) is not None], int(upto)
        )

    return look


def _run(archive: Archive, row: tuple[Any, ...]) -> CommandAttempt | None:
    session_id, harness, cwd = row[_WIDTH : _WIDTH + 3]
    return archive.run_of(to_entry(row), f"{harness}:{session_id}", cwd)


# ---------------------------------------------------------------------- what was run


def command_in(tool: str, text: str) -> str:
    """Give the command that a call ran, or the tool with the file it was called for."""
    if is_shell_tool(tool):
        listed = _LISTED.search(text)
        if listed:
            return _joined(listed[1])
        kept = (line for line in text.splitlines() if not _BESIDE.match(line))
        return "\n".join(kept).strip() or tool
    found = _PATH.search(text)
    return f"{tool} {(found[1] or found[2]).strip()}" if found else tool


def _joined(listed: str) -> str:
    """Write a command given as a list of words as one line; of `bash -lc TEXT` the text."""
    try:
        words = msgspec.json.decode(listed, type=list[str])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return listed
    if len(words) == 3 and words[1] in {"-c", "-lc"}:  # noqa: PLR2004
        return words[2]
    return shlex.join(words)

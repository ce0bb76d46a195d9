"""From the archive back to text: whole sessions, single entries, and the raw lines."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter

import msgspec

from threadkeep.base.fts import snippet
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.archive import digest, read_block, read_lines
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.copies import COPY
from threadkeep.knowledge.logs import LogRow, load_log_by_id, logs_of_session
from threadkeep.knowledge.reading import (
    CapturedSession,
    CapturedSessionFilter,
    EntryRow,
    entries_of,
    search_rows,
)
from threadkeep.knowledge.records import Entry
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.files import TAIL_BYTES
from threadkeep.sources.records import Source

Sources = Mapping[str, Source]


class TranscriptEntry(msgspec.Struct, frozen=True):
    """One entry with its text, and the log that it stands in."""

    row: EntryRow
    entry: Entry


class EntryHit(msgspec.Struct, frozen=True):
    """An entry that a search found, with the place where the words are."""

    session: CapturedSession
    shown: TranscriptEntry
    snippet: str
    rank: float


def transcript(
    context: KnowledgeContext, tx: Tx, sources: Sources, session: CapturedSession
) -> Iterator[TranscriptEntry]:
    """Yield everything said and done in a session, in its order."""
    rows = entries_of(context, tx, session)
    for log_id, group in groupby(rows, attrgetter("log_id")):
        log = load_log_by_id(tx, log_id)
        if log is not None:
            shown = _shown(tx, sources, log, list(group))
            yield from shown if log.item == "" else _in_time(shown)


def _shown(
    tx: Tx, sources: Sources, log: LogRow, rows: list[EntryRow]
) -> Iterator[TranscriptEntry]:
    """Read the lines of some entries of one log, given in the order of their lines."""
    wanted = iter(rows)
    row = next(wanted, None)
    if row is None:
        return
    for number, line in enumerate(read_lines(tx, log.id, row.line), row.line):
        if row.line > number:
            continue
        entries = entries_in(sources, log, line, number)
        while row is not None and row.line == number:
            if row.key in entries:
                yield TranscriptEntry(as_said(row, entries[row.key]), entries[row.key])
            row = next(wanted, None)
        if row is None:
            return


def as_said(row: EntryRow, entry: Entry) -> EntryRow:
    """Give the row of a copy as that of what was said; any other as it is."""
    said: EntryRow = msgspec.structs.replace(row, kind=entry.kind) if row.kind == COPY else row
    return said


def _in_time(shown: Iterable[TranscriptEntry]) -> list[TranscriptEntry]:
    """Order what came out of a database: a record that changed stands behind later ones there."""
    last = 0
    keyed = []
    for one in shown:
        last = one.row.at if one.row.at is not None else last
        keyed.append((last, one))
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])]


def entries_in(sources: Sources, log: LogRow, line: bytes, number: int) -> dict[str, Entry]:
    """Read the entries of one archived line, by key; none if its source is not there any more."""
    source = sources.get(log.reader)
    if source is None:
        return {}
    try:
        records = decode_line(line)
    except Invalid:
        return {}
    found = (entry for record in records for entry in source.entries(record, line, number))
    return {entry.key: entry for entry in found}


def entry_at(tx: Tx, sources: Sources, row: EntryRow) -> Entry | None:
    """Read one entry from its place in the archive."""
    log = load_log_by_id(tx, row.log_id)
    block = tx.one("block_at", {"log": row.log_id, "line": row.line})
    if log is None or block is None:
        return None
    lines = read_block(tx, block[1])
    at = row.line - block[0]
    return entries_in(sources, log, lines[at], row.line).get(row.key) if at < len(lines) else None


def search(
    context: KnowledgeContext,
    tx: Tx,
    sources: Sources,
    text: str,
    among: CapturedSessionFilter = CapturedSessionFilter(),  # noqa: B008  (a constant)
    *,
    role: str | None = None,
    kind: str | None = None,
    session_id: str | None = None,
    newest: bool = False,
    limit: int = 20,
    width: int = 160,
) -> list[EntryHit]:
    """Find what was said and done by words, and show where they stand."""
    found = search_rows(
        context,
        tx,
        text,
        among,
        role=role,
        kind=kind,
        session_id=session_id,
        newest=newest,
        limit=limit,
    )
    hits = []
    for row, session, rank in found:
        entry = entry_at(tx, sources, row)
        if entry is not None:
            hits.append(
                EntryHit(
                    session, TranscriptEntry(row, entry), snippet(entry.text, text, width), rank
                )
            )
    return hits


def raw_lines(context: KnowledgeContext, tx: Tx, session: CapturedSession) -> Iterator[bytes]:
    """Yield the archived lines of a session as they were, but for masked secrets.

    Of a log that holds several sessions only the lines that belong to this one.
    """
    rows = entries_of(context, tx, session)
    for log in logs_of_session(tx, session.harness, session.session_id):
        lines = read_lines(tx, log.id)
        if log.session_id == session.session_id:
            yield from lines
        else:
            mine = {row.line for row in rows if row.log_id == log.id}
            yield from (line for number, line in enumerate(lines) if number in mine)


def ends_open(tx: Tx, session: CapturedSession) -> bool:
    """Tell whether the last line of a session stands in its log without a line feed.

    The digest of the last bytes read tells; where a secret was masked in these, nothing does.
    """
    logs = logs_of_session(tx, session.harness, session.session_id)
    last = logs[-1] if logs else None
    if last is None or last.tail is None or last.session_id != session.session_id:
        return False
    text = b"\n".join(read_lines(tx, last.id, max(0, last.lines - TAIL_BYTES)))
    return digest(text[-TAIL_BYTES:]) == last.tail

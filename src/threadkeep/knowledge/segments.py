"""Segments become rows of `agentic_sessions`, and tickets for enrichment when they have changed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.clock import is_due
from threadkeep.base.json import compact, encode
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.archive import read_block
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.records import Entry, Readers, Segment, to_entry

# ------------------------------------------------------------------------------
# The content hash of a segment: the contract's formula, byte for byte.


def _compact_texts(value: Any) -> str:
    """Render JSON of texts alone in the same way, in a sixth of the time."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return compact(value)


def tools_json(segment: Segment) -> str | None:
    """Render the tool calls as they are stored and hashed."""
    if segment.tools is None:
        return None
    return _compact_texts([{"name": name, "summary": summary} for name, summary in segment.tools])


def prompts_json(segment: Segment) -> str | None:
    """Render the prompts as they are stored and hashed."""
    return None if segment.prompts is None else _compact_texts(segment.prompts)


def content_hash(segment: Segment) -> str:
    """Hash what a slice holds; equal hashes mean there is nothing new to learn from it."""
    fields = (tools_json(segment) or "[]", prompts_json(segment) or "[]", "\n".join(segment.texts))
    common = "|".join(fields).encode("utf-8", "replace")
    from hashlib import sha256  # noqa: PLC0415  (2 ms; what only reads needs none)

    return sha256(segment.hashed or common).hexdigest()


# A ticket this young is left alone: a growing segment would else be enriched at every message.
SETTLE_MS = 300_000
# A segment that nothing was added to for so long, and that was never learned from as it is now,
# missed its ticket in the last minutes of its growth.
_AT_REST_MS = 30 * 60_000
_AT_ONCE = 10


class _Stored(NamedTuple):
    id: int
    last_enriched_hash: str | None


def write_segment(tx: Tx, harness: str, segment: Segment, source_file: str, now: int) -> bool:
    """Store a segment by its key, with a ticket if the gate lets it; tell whether it changed."""
    hashed = content_hash(segment)
    key = {"session_id": segment.session_id, "harness": harness, "index": segment.index}
    found = tx.one("segment_by_key", key)
    values = _values(harness, segment, source_file, hashed)
    if found is None:
        enqueue(tx, tx.insert("insert_segment", {**values, "now": now}), now)
        return True
    stored = _Stored(*found)
    if not tx.count("update_segment", {**values, "id": stored.id}):
        return False  # as it was
    tx.run("place_segment", {"id": stored.id, "cwd": segment.cwd})
    if _wants_ticket(tx, stored, hashed, now):
        enqueue(tx, stored.id, now)
    return True


def _wants_ticket(tx: Tx, stored: _Stored, hashed: str, now: int) -> bool:
    queued = tx.one("segment_ticket", {"id": stored.id})
    if queued is not None and queued[0] == "processing":
        return False
    if hashed == stored.last_enriched_hash:
        return False
    if queued is None or queued[1] is None:
        return True
    return is_due(queued[1] + SETTLE_MS, now, SETTLE_MS)


def enqueue(tx: Tx, segment_id: int, now: int) -> None:
    """Give a segment a ticket for enrichment, or renew the one it has."""
    tx.run("enqueue_segment", {"id": segment_id, "now": now})


def segment_number(tx: Tx, harness: str, session_id: str, index: int) -> int | None:
    """Return the row number of a segment."""
    values = {"session_id": session_id, "harness": harness, "index": index}
    found = tx.value("number_of_segment", values)
    return None if found is None else int(found)


def legacy_numbers(tx: Tx, session_id: str, index: int) -> list[int]:
    """Return the frozen rows of the same slice, which are linked to the same nodes."""
    found = tx.all("legacy_by_key", {"session_id": session_id, "index": index})
    return [row[0] for row in found]


def move_segment(tx: Tx, number: int, start: int) -> None:
    """Let a segment begin at another time."""
    tx.run("move_segment", {"id": number, "start": start})


def settle(tx: Tx, now: int) -> int:
    """Give tickets to segments that came to rest behind the gate; a few at a time, oldest first."""
    rows = tx.all("segments_at_rest", {"before": now - _AT_REST_MS, "limit": _AT_ONCE})
    for (segment_id,) in rows:
        enqueue(tx, segment_id, now)
    return len(rows)


def _values(harness: str, segment: Segment, source_file: str, hashed: str) -> dict[str, object]:
    return {
        "session_id": segment.session_id,
        "harness": harness,
        "index": segment.index,
        "model": segment.model,
        "agent": segment.agent,
        "project_dir": segment.project_dir,
        "cwd": segment.cwd,
        "git_branch": segment.git_branch,
        "slug": segment.slug,
        "title": segment.title,
        "parent": segment.parent_session_id,
        "is_subagent": int(segment.is_subagent),
        "summary": segment.summary,
        "tools": tools_json(segment),
        "prompts": prompts_json(segment),
        "source_file": source_file,
        "diffs": segment.diffs_json,
        "messages": segment.messages,
        "tokens": segment.tokens,
        "start": segment.start,
        "end": segment.end,
        "hash": hashed,
    }


# ------------------------------------------------------------------------------
# Which entries of a session belong to which of its segments.
#
# A segment says when it began and ended, and how many prompts and tool calls it holds. As a rule
# the time alone tells. Where segments touch, since a program wrote many lines with one timestamp,
# the counts do: else each of them would be made from the same entries, over and over.

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


class SegmentSession(NamedTuple):
    """The captured session that a segment is of."""

    id: int
    harness: str
    session_id: str
    first_prompt: str


class Spans:
    """The entries of segments, looked up a session at a time; `recent` are those at hand."""

    def __init__(self, recent: RecentEntries | None = None) -> None:
        self.recent = recent
        self._known: dict[int, dict[SegmentSpan, list[int]]] = {}

    def session(self, tx: Tx, harness: str, session_id: str) -> SegmentSession | None:
        """Return the captured session of a segment; None where the archive does not have it."""
        if not {"tk_sessions", "tk_entries"} <= tx.tables():
            return None
        found = tx.one("evidence_session", {"harness": harness, "session_id": session_id})
        if found is None:
            return None
        prompt = from_sql(found[1]) if found[1] else ""
        return SegmentSession(found[0], harness, session_id, prompt)

    def entries(self, tx: Tx, session: SegmentSession, span: SegmentSpan) -> list[int]:
        """Return the numbers of the entries of a segment."""
        shares = self._known.get(session.id)
        if shares is None or span not in shares:  # it is new here, or has grown
            shares = self._known[session.id] = _shares(tx, session)
            for oldest in list(self._known)[: -_SESSIONS or None]:
                del self._known[oldest]
        return shares.get(span, [])


def _shares(tx: Tx, session: SegmentSession) -> dict[SegmentSpan, list[int]]:
    """Share out a whole session, each of its logs for itself."""
    key = {"harness": session.harness, "session_id": session.session_id}
    rows = [(SegmentSpan(*row[:-1]), row[-1]) for row in tx.all("evidence_spans", key)]
    shares: dict[SegmentSpan, list[int]] = {span: [] for span, _ in rows}
    moments = tx.all("evidence_moments", {"session": session.id})
    for path, group in groupby(moments, itemgetter(-1)):
        own = [span for span, source in rows if source == path] or [span for span, _ in rows]
        found = share_out(own, (EntryMoment(*row[:-1]) for row in group))
        for span in own:
            shares[span] += found[span.id][: MOST_ENTRIES - len(shares[span])]
    return shares


def segment_rows(tx: Tx, ids: Sequence[int]) -> list[Row]:
    """Return the rows of segments as they are stored, in their order."""
    return tx.all("evidence_segments", {"ids": encode(list(ids))})


def archived_entries(
    tx: Tx, sources: Readers, ids: Sequence[int], recent: RecentEntries | None = None
) -> Iterator[Entry]:
    """Read entries from the archive in the order of their lines; what is gone is left out."""
    from threadkeep.knowledge.archived import ArchivedEntries  # noqa: PLC0415  (to learn alone)

    archive = ArchivedEntries(tx, sources, recent)
    for row in tx.all("evidence_entries", {"ids": encode(list(ids))}):
        entry = archive.entry(to_entry(row))
        for block in archive.damaged:
            read_block(tx, block)  # says what is wrong: nothing is learned from a half
        if entry is not None:
            yield entry


# ------------------------------------------------------------------------------
# Slices that another program wrote: they may be all that is known of a session.

_COLUMNS: Final = (
    *("session_id", "harness", "segment_index", "model", "agent", "project_dir", "cwd"),
    *("git_branch", "slug", "title", "parent_session_id", "is_subagent", "summary_text"),
    *("tool_calls_json", "user_prompts_json", "commit_messages_json", "source_file"),
    *("message_count", "token_count", "start_time", "end_time"),
)


def last_slice(tx: Tx) -> int:
    """Return the number of the last segment."""
    return int(tx.value("last_slice") or 0)


def noted_sessions(tx: Tx, reader: str, after: int) -> dict[str, list[str]]:
    """Return the sessions, by harness, of which only slices behind a number are here."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for harness, session_id in tx.all("noted_sessions", {"after": after, "reader": reader}):
        found[harness].append(session_id)
    return found


def slices_of(tx: Tx, harness: str, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the slices of sessions of one agent, by session."""
    values = {"harness": harness, "names": encode(list(names))}
    slices: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in tx.all("slices_of_sessions", values):
        told = dict(zip(_COLUMNS, row, strict=True))
        slices[told["session_id"]].append(told)
    return slices

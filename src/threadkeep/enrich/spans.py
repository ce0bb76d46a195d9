"""Which entries of a session belong to which of its segments.

A segment says when it began and ended, and how many prompts and tool calls it holds. As a rule the
time alone tells. Where segments touch, since a program wrote many lines with one timestamp, the
counts do: else each of them would be made from the same entries, over and over.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from threadkeep.base.tx import Tx

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

"""Which messages may be hits in a file that is Hermes's own: its indexes are asked, not ours.

Words are looked up in `messages_fts`, parts of words and scripts without spaces in
`messages_fts_trigram`; how far they reach is read from the tables themselves. What an index cannot
answer is read from the messages, a few at a time: each look is a transaction of its own, because in
a file without a write-ahead log an open one stops every writer.
"""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from threadkeep.base.fts import FullTextError, contains_unspaced
from threadkeep.base.tx import Row, Tx
from threadkeep.state.candidates import LAST_ID, ROUNDS, CandidateIds, IdRange
from threadkeep.state.content import decode_content
from threadkeep.state.context import StateContext, reading
from threadkeep.state.drain import parts_of
from threadkeep.state.exact import readable_text
from threadkeep.state.index_text import whole_text
from threadkeep.state.search_query import (
    Group,
    StateTerm,
    is_literal,
    matches,
    may_be_in,
    raw_expression,
)

log = logging.getLogger(__name__)

_WORDS: Final = "messages_fts"
_PARTS: Final = "messages_fts_trigram"
_BASE: Final = ("content", "tool_name", "tool_calls")
# Rows that one transaction reads: some milliseconds.
_CHUNK: Final = 2_000
_MOST_ROWS: Final = 200_000
_TRIGRAM: Final = 3
# Chinese, Japanese and Korean without their marks of combination: found as it was typed.
_UNSPACED: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3]+")


class Reach(NamedTuple):
    """What the indexes of a file cover: columns by table, and ids that no index has yet."""

    words: tuple[str, ...]
    parts: tuple[str, ...]
    unindexed: tuple[int, int] | None
    last: int


class ContractFinder:
    """Finds the messages of one search through the indexes that Hermes keeps."""

    def __init__(
        self, ctx: StateContext, groups: Sequence[Group], place: IdRange, *, tools: bool
    ) -> None:
        """Ask for groups of terms; `tools` says that results of tools are wanted alone."""
        self._ctx = ctx
        self._groups = groups
        self._place = place
        self._tools = tools
        self._order = "newest" if place.newest else "oldest"

    def rounds(self) -> Iterator[CandidateIds]:
        """Give more and more ids; what one round finds, the next finds as well."""
        reach = reading(self._ctx, _reach)
        read: set[int] = set()
        asked: list[Group] = []
        for group in self._groups:
            if reach.words and not is_literal(group) and self._answerable(group, reach):
                asked.append(group)
            else:
                read |= self._read([group], self._place, reach)
        if asked and reach.unindexed is not None:
            first, last = reach.unindexed
            read |= self._read(asked, self._cut(first, last), reach)
        yield from self._ask_all(asked, reach, read)

    def _ask_all(self, asked: list[Group], reach: Reach, read: set[int]) -> Iterator[CandidateIds]:
        for limit in ROUNDS:
            try:
                found = [self._ask(group, limit, reach) for group in asked]
            except FullTextError as error:
                self._ctx.notices.warn(
                    "contract index",
                    "the full-text index of %s does not answer (%s); messages are read instead",
                    self._ctx.db.path,
                    error,
                )
                yield CandidateIds(read | self._read(asked, self._place, reach), cut=False)
                return
            cut = any(each.cut for each in found)
            ids = read.union(*(each.ids for each in found))
            yield CandidateIds(ids, cut)
            if not cut:
                return

    def _answerable(self, group: Group, reach: Reach) -> bool:
        """A script without spaces needs the index of parts, and three characters a term."""
        unspaced = [term for term in group.wanted if contains_unspaced(term.typed)]
        if not unspaced:
            return True
        return bool(reach.parts) and not self._tools and all(map(_fits_trigrams, group.wanted))

    def _ask(self, group: Group, limit: int, reach: Reach) -> CandidateIds:
        if any(contains_unspaced(term.typed) for term in group.wanted):
            ids = self._matching(_PARTS, _parts_expression(group), limit)
            return CandidateIds(set(ids), limit == len(ids))
        ids = self._matching(_WORDS, raw_expression(group.wanted, group.unwanted), limit)
        found = set(ids)
        if set(_BASE) - set(reach.words):  # an index of before version 11
            found |= self._read([group], self._place, reach, columns=_BASE[1:])
        return CandidateIds(found, limit == len(ids))

    def within_words(self) -> Iterator[CandidateIds]:
        """Give what has the terms as parts of words, for a search that no whole word answered."""
        reach = reading(self._ctx, _reach)
        if not reach.parts or self._tools:
            return
        found: set[int] = set()
        for group in self._groups:
            spaced = not any(contains_unspaced(term.typed) for term in group.wanted)
            if spaced and not is_literal(group) and all(map(_fits_trigrams, group.wanted)):
                try:
                    found.update(self._matching(_PARTS, _parts_expression(group), ROUNDS[0]))
                except FullTextError as error:
                    log.debug("the index of parts does not answer: %s", error)
        yield CandidateIds(found, cut=False)

    def _matching(self, table: str, query: str, limit: int) -> list[int]:
        if not query:
            return []
        params = {"query": query, "first": self._place.first, "last": self._place.last}
        name = f"{'raw' if table == _WORDS else 'parts'}_{self._order}"

        def ask(tx: Tx) -> list[Row] | FullTextError:
            try:  # here: outside of the transaction it is an error like any other
                return tx.all(name, {**params, "limit": limit})
            except FullTextError as error:
                return error

        rows = reading(self._ctx, ask)
        if isinstance(rows, FullTextError):
            raise rows
        return [int(row[0]) for row in rows]

    # ------------------------------------------------------------------ reading

    def _cut(self, first: int, last: int) -> IdRange:
        place = self._place
        return place._replace(first=max(first, place.first), last=min(last, place.last))

    def _read(
        self,
        groups: Sequence[Group],
        place: IdRange,
        reach: Reach,
        columns: Sequence[str] = _BASE,
    ) -> set[int]:
        """Read messages from one end, a few in each transaction; a bounded number in all."""
        found: set[int] = set()
        first, last = place.first, min(place.last, reach.last)
        steps = _steps(max(first, 1), last, newest=place.newest)
        needle = _needle(groups)
        for low, high in steps[: _MOST_ROWS // _CHUNK]:
            params = {"first": low, "last": high, "limit": -1, **needle}
            look = partial(self._look, params=params, groups=groups, columns=columns)
            found.update(reading(self._ctx, look))
        if len(steps) > _MOST_ROWS // _CHUNK:
            self._ctx.notices.warn(
                "scan", "a search in %s read %d messages at most", self._ctx.db.path, _MOST_ROWS
            )
        return found

    def _look(
        self, tx: Tx, params: dict[str, Any], groups: Sequence[Group], columns: Sequence[str]
    ) -> list[int]:
        rows = tx.all("scan_for" if "needle" in params else "scan_newest", params)
        return [row[0] for row in rows if self._has(tx, groups, row, columns)]

    def _has(self, tx: Tx, groups: Sequence[Group], row: Row, columns: Sequence[str]) -> bool:
        content = _as_read(row[2]) if "content" in columns else b""
        shown = (*row[:2], content, *row[3:])
        if not any(shown[2:5]):
            return False
        if not may_be_in(groups, b"\n".join(filter(None, shown[2:5]))):
            return False
        return matches(groups, whole_text(parts_of(self._ctx, tx, shown)))


def _as_read(content: bytes | None) -> bytes | None:
    """Give the text of a content that is a list of parts in the column."""
    if content is None or not content.startswith(b"\0"):
        return content
    said = decode_content(content.decode("utf-8", "replace"))
    return content if isinstance(said, str) else readable_text(said).encode("utf-8", "replace")


def _steps(first: int, last: int, *, newest: bool) -> list[tuple[int, int]]:
    """Cut a range of ids into small ones, from the end where reading begins."""
    starts = range(first, last + 1, _CHUNK)
    steps = [(start, min(start + _CHUNK - 1, last)) for start in starts]
    return steps[::-1] if newest else steps


def _needle(groups: Sequence[Group]) -> dict[str, str]:
    """Name a text that SQLite itself can look for, as it is and as JSON has it, if there is one."""
    if len(groups) != 1:
        return {}
    runs = [run for term in groups[0].wanted for run in _UNSPACED.findall(term.typed)]
    if not runs:
        return {}
    longest = max(runs, key=len)
    return {"needle": longest, "escaped": json.dumps(longest)[1:-1]}


def _fits_trigrams(term: StateTerm) -> bool:
    return len(term.typed) >= _TRIGRAM


def _parts_expression(group: Group) -> str:
    wanted = [_quoted(term.typed) for term in group.wanted]
    unwanted = [_quoted(term.typed) for term in group.unwanted if _fits_trigrams(term)]
    return " NOT ".join([" AND ".join(wanted), *unwanted])


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


def _reach(tx: Tx) -> Reach:
    """Look which indexes there are, what they cover, and whether they can be trusted."""
    words, parts = _indexed(tx, _WORDS), _indexed(tx, _PARTS)
    notes = {str(key): value for key, value in tx.all("index_notes")}
    last = int(tx.value("newest_message_id") or 0)
    if notes.get("fts_stale") not in (None, "", "0"):
        words = parts = ()
    high = _number(notes.get("fts_rebuild_high_water"))
    if high is None:
        return Reach(words, parts, None, last)
    done = _number(notes.get("fts_rebuild_progress"))
    return Reach(words, parts, ((done or 0) + 1, high), last)


def _indexed(tx: Tx, table: str) -> tuple[str, ...]:
    """Name the columns that an index covers; none if it is missing or of another kind."""
    if "fts5" not in str(tx.value("definition_of", {"name": table}) or "").lower():
        return ()
    try:
        rows = tx.execute(f'PRAGMA table_info("{table}")').fetchall()
    except FullTextError as error:  # it has lost a part of itself
        log.debug("the index %s cannot be opened: %s", table, error)
        return ()
    return tuple(str(row[1]) for row in rows)


def _number(value: object) -> int | None:
    text = str(value)
    return min(int(text), LAST_ID) if text.isdigit() else None

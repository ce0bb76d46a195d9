"""Which messages may be hits: ids from the two indexes, or from reading where those cannot answer.

Every source is asked for its newest (or oldest) matches, a thousand at first. A message is in
the contract's index or wholly in ours; but of most tool results ours has the name and the
contract's the content, so terms that occur in names of tools are asked for in both ways.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain, combinations
from typing import Any, Final, NamedTuple

from threadkeep.base.match import Match, Phrase, all_of, without
from threadkeep.base.tx import BROKEN_TABLE, Row, Tx, engine_words
from threadkeep.base.word_index import WordIndex
from threadkeep.base.words import contains_unspaced
from threadkeep.state.context import StateContext, reading
from threadkeep.state.rows import decode_content
from threadkeep.state.schema import MESSAGE_WORDS, SEARCH_WORDS, TRIGRAMS
from threadkeep.state.search.index_fill import (
    LAST_DOC,
    NAMES_FROM,
    how_far,
    parts_of,
    raw_bytes,
    warn_of_damage,
    whole_text,
)
from threadkeep.state.search.query import (
    Group,
    StateTerm,
    is_literal,
    is_unspaced,
    matches,
    may_be_in,
    our_match,
    raw_match,
    raw_match_of_any,
)
from threadkeep.state.side_values import readable_text

LAST_ID: Final = (1 << 63) - 1
# Of a word in 157,000 messages the newest 1,000 are listed in 0.4 ms, all of them in 59 ms; to read
# and compare 200 takes 2 ms, a third of what version 6 takes for all matches of three words.
ROUNDS: Final = (200, 1_000, 4_000, 16_000, 64_000, 256_000, -1)
# Reading 200,000 messages of 640 characters takes about two seconds.
_SCANNED_ROWS: Final = 200_000
_SCANNED_CHARACTERS: Final = 400_000_000
_MAX_NAMES: Final = 3
TRIGGERS: Final = 3  # of the contract's index
_WHOLE: Final = (0, NAMES_FROM - 1)
_NAMES: Final = (NAMES_FROM, LAST_DOC)


class IdRange(NamedTuple):
    """Where to look: between which ids, and from which end."""

    first: int = 0
    last: int = LAST_ID
    newest: bool = True


class CandidateIds(NamedTuple):
    """Ids of messages, and whether a source had more than it was asked for."""

    ids: frozenset[int] | set[int]
    cut: bool


class Finder:
    """Finds the messages of one search in one snapshot; remembers which index did not answer."""

    def __init__(self, ctx: StateContext, tx: Tx, groups: Sequence[Group], place: IdRange) -> None:
        self._ctx = ctx
        self._tx = tx
        self._place = place
        self._groups = groups
        self._indexed = [group for group in groups if not is_literal(group)]
        self._order = "newest" if place.newest else "oldest"
        self._broken = False
        self._cursor = LAST_ID  # behind it our index has every message but the changed ones
        self._changed: set[int] = set()
        self._unread = place  # what the last reading left out

    def rounds(self) -> Iterator[CandidateIds]:
        """Return more and more ids; what one round finds, the next finds as well."""
        literal = [group for group in self._groups if is_literal(group)]
        read = self._scan(literal) if literal else set()
        read |= self._read_unindexed()
        for limit in ROUNDS:
            trusted = not self._broken
            found = [self._ask(group, limit) for group in self._indexed]
            if self._broken and trusted:
                read |= self._read_all()
                found = [self._ask(group, limit) for group in self._indexed]
            cut = any(each.cut for each in found)
            ids = set[int]().union(*(each.ids for each in found))
            if 0 < limit < len(ids):  # two indexes gave some each: the rest is for the next round
                cut = True
                ids = set(sorted(ids, reverse=self._place.newest)[:limit])
            yield CandidateIds(read | ids, cut)
            if not cut:
                return

    # ------------------------------------------------------------------ asking indexes

    def _ask(self, group: Group, limit: int) -> CandidateIds:
        wanted, unwanted = group
        whole = self._docs(our_match(wanted, unwanted), _WHOLE, limit)
        if any(map(is_unspaced, wanted)):  # ours has every such message whole
            return CandidateIds(set(whole), limit == len(whole))
        raw = self._raw(raw_match(wanted, unwanted), limit)
        named = self._ask_names(group, limit)
        # Where the contract's index follows later, it has a changed message as it was: it was read.
        ids = named.ids.union(set(raw) - self._changed - self._spoilt(group, raw), whole)
        return CandidateIds(ids, named.cut or limit in (len(raw), len(whole)))

    def _ask_names(self, group: Group, limit: int) -> CandidateIds:
        """Find results of tools: some terms in the name, the rest, if any, in the content."""
        names = [term for term in group.wanted if self._is_name(term)][:_MAX_NAMES]
        ids: set[int] = set()
        cut = False
        sizes = range(1, len(names) + 1)
        for chosen in chain.from_iterable(combinations(names, size) for size in sizes):
            found = self._docs(our_match(chosen, group.unwanted), _NAMES, limit)
            rest = [term for term in group.wanted if term not in chosen]
            contents: Collection[int] = ()
            if rest and found:
                contents = self._raw(raw_match(rest, group.unwanted), limit)
                ids.update(set(found).intersection(contents))
            elif found:
                unwanted = raw_match_of_any(group.unwanted)
                ids.update(set(found).difference(self._raw(unwanted, -1, self._span(found))))
            cut = cut or limit in (len(found), len(contents))
        return CandidateIds(ids, cut)

    def _is_name(self, term: StateTerm) -> bool:
        match = our_match([term])
        if match is None:
            return False
        return bool(self._trusted(lambda: SEARCH_WORDS.ids(self._tx, match, _NAMES, limit=1)))

    def _spoilt(self, group: Group, raw: Collection[int]) -> set[int]:
        """Of hits of the contract's index: those with an unwanted word in what only ours has."""
        if not raw or not group.unwanted:
            return set()
        spoilt = {one for one in raw if one > self._cursor or one in self._changed}  # were read
        for term in group.unwanted:
            span = self._span(raw)
            spoilt.update(self._docs(our_match([*group.wanted, term]), _WHOLE, -1, span))
            spoilt.update(self._docs(our_match([term]), _NAMES, -1, span))
        return spoilt

    def _span(self, ids: Collection[int]) -> IdRange:
        return self._place._replace(first=min(ids), last=max(ids))

    def _raw(self, match: Match | None, limit: int, place: IdRange | None = None) -> list[int]:
        if match is None:
            return []
        first, last, newest = place or self._place
        return self._trusted(
            lambda: MESSAGE_WORDS.ids(self._tx, match, (first, last), newest=newest, limit=limit)
        )

    def _docs(
        self,
        match: Match | None,
        docs: tuple[int, int],
        limit: int,
        place: IdRange | None = None,
    ) -> list[int]:
        if match is None:
            return []
        first, last, _ = place or self._place
        span = {"first": first, "last": last, "first_doc": docs[0], "last_doc": docs[1]}
        asked = {"match": SEARCH_WORDS.asked(self._tx, match), **span, "limit": limit}
        name = f"docs_{self._order}"
        return self._trusted(lambda: [int(row[0]) for row in self._tx.all(name, asked)])

    def _trusted(self, ask: Callable[[], list[int]]) -> list[int]:
        """Ask an index; one that does not answer is none, and its messages are read instead."""
        try:
            return ask()
        except BROKEN_TABLE as error:
            self._give_up(engine_words(error))
            return []

    def _give_up(self, why: str) -> None:
        self._broken = True
        warn_of_damage(self._ctx, why)

    # ------------------------------------------------------------------ reading

    def _read_unindexed(self) -> set[int]:
        """Read what our index has not seen yet; everything, if an index is not to be trusted."""
        if not self._indexed:
            return set()
        try:
            lost = self._tx.kept(_lost_index, lambda: _lost_index(self._tx))
            if lost is not None:
                self._give_up(lost)
                return self._read_all()
            self._cursor = how_far(self._tx).cursor
            return self._scan(self._indexed, self._cursor + 1) | self._read_changed()
        except BROKEN_TABLE as error:
            self._give_up(engine_words(error))
            return self._read_all()

    def _read_all(self) -> set[int]:
        """Read as many messages as is bearable; from now on indexes are asked for the rest only.

        One index alone would give hits that the other would have refused: for `NOT`, for example.
        """
        found = self._scan(self._indexed)
        self._place = self._unread
        return found

    def _read_changed(self) -> set[int]:
        first, last, _ = self._place
        found: set[int] = set()
        for row in self._tx.each("changed_messages", {"limit": _SCANNED_ROWS}):
            self._changed.add(row[0])
            if first <= row[0] <= last and self._has(self._indexed, row):
                found.add(row[0])
        return found

    def _scan(self, groups: Sequence[Group], first: int = 0) -> set[int]:
        """Read messages from one end and give those that match; a bounded number of them."""
        first = max(first, self._place.first)
        params = {"first": first, "last": self._place.last, "limit": _SCANNED_ROWS + 1}
        found: set[int] = set()
        characters = 0
        self._unread = self._place._replace(first=LAST_ID, last=0)
        rows = self._tx.each(f"scan_{self._order}", params)
        for number, row in enumerate(rows):
            characters += len(row[2] or b"")
            if self._has(groups, row):
                found.add(row[0])
            if number == _SCANNED_ROWS or characters > _SCANNED_CHARACTERS:
                self._ctx.notices.warn(
                    "scan",
                    "a search in %s read %d messages and left it at that: run reindex()",
                    self._ctx.db.name,
                    number,
                )
                behind = {"last": row[0] - 1} if self._place.newest else {"first": row[0] + 1}
                self._unread = self._place._replace(**behind)
                break
        return found

    def _has(self, groups: Sequence[Group], row: Row) -> bool:
        if not row[5] and not may_be_in(groups, b"\n".join(map(raw_bytes, row[2:5]))):
            return False
        return matches(groups, whole_text(parts_of(self._ctx, self._tx, row)))


def _lost_index(tx: Tx) -> str | None:
    """Tell what another program did to the contract's index; on a server there is none."""
    if tx.engine != "sqlite":
        return None
    if len(tx.all("triggers_of_index")) < TRIGGERS:
        return "its triggers are gone"
    return None if tx.one("emptied_index") is None else "it was emptied"


# ------------------------------------------------------------------------------
# Which messages may be hits in a file that is Hermes's own: its indexes are asked, not ours.
#
# Words are looked up in `messages_fts`, parts of words and scripts without spaces in
# `messages_fts_trigram`; how far they reach is read from the tables themselves. What an index
# cannot
# answer is read from the messages, a few at a time: each look is a transaction of its own, because
# in
# a file without a write-ahead log an open one stops every writer.

log = logging.getLogger(__name__)

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

    def rounds(self) -> Iterator[CandidateIds]:
        """Return more and more ids; what one round finds, the next finds as well."""
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
            except BROKEN_TABLE as error:
                self._ctx.notices.warn(
                    "contract index",
                    "the full-text index of %s does not answer (%s); messages are read instead",
                    self._ctx.db.name,
                    engine_words(error),
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
            ids = self._matching(TRIGRAMS, _parts_match(group), limit)
            return CandidateIds(set(ids), limit == len(ids))
        ids = self._matching(MESSAGE_WORDS, raw_match(group.wanted, group.unwanted), limit)
        found = set(ids)
        if set(_BASE) - set(reach.words):  # an index of before version 11
            found |= self._read([group], self._place, reach, columns=_BASE[1:])
        return CandidateIds(found, limit == len(ids))

    def within_words(self) -> Iterator[CandidateIds]:
        """Return what has the terms as parts of words, for a search that no whole word answered."""
        reach = reading(self._ctx, _reach)
        if not reach.parts or self._tools:
            return
        found: set[int] = set()
        for group in self._groups:
            spaced = not any(contains_unspaced(term.typed) for term in group.wanted)
            if spaced and not is_literal(group) and all(map(_fits_trigrams, group.wanted)):
                try:
                    found.update(self._matching(TRIGRAMS, _parts_match(group), ROUNDS[0]))
                except BROKEN_TABLE as error:
                    log.debug("the index of parts does not answer: %s", error)
        yield CandidateIds(found, cut=False)

    def _matching(self, index: WordIndex, match: Match | None, limit: int) -> list[int]:
        if match is None:
            return []
        first, last, newest = self._place
        span = (first, last)
        return reading(self._ctx, lambda tx: index.ids(tx, match, span, newest=newest, limit=limit))

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
                "scan", "a search in %s read %d messages at most", self._ctx.db.name, _MOST_ROWS
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
    """Return the text of a content that is a list of parts in the column."""
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


def _parts_match(group: Group) -> Match:
    """Ask for terms as they were typed, wherever they stand in a word."""
    unwanted = (Phrase((term.typed,)) for term in group.unwanted if _fits_trigrams(term))
    return without(all_of(Phrase((term.typed,)) for term in group.wanted), unwanted)


def _reach(tx: Tx) -> Reach:
    """Look which indexes there are, what they cover, and whether they can be trusted."""
    words, parts = _indexed(tx, MESSAGE_WORDS.table), _indexed(tx, TRIGRAMS.table)
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
        return tuple(tx.columns(table))
    except BROKEN_TABLE as error:  # it has lost a part of itself
        log.debug("the index %s cannot be opened: %s", table, error)
        return ()


def _number(value: object) -> int | None:
    text = str(value)
    return min(int(text), LAST_ID) if text.isdigit() else None

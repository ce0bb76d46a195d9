"""Which messages may be hits: ids from the two indexes, or from reading where those cannot answer.

Every source is asked for its newest (or oldest) matches, a thousand at first. A message is in
the contract's index or wholly in ours; but of most tool results ours has the name and the
contract's the content, so terms that occur in names of tools are asked for in both ways.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple

from threadkeep.base.fts import FullTextError
from threadkeep.base.tx import Row, Tx
from threadkeep.state.context import StateContext
from threadkeep.state.drain import how_far, parts_of
from threadkeep.state.index import warn_of_damage
from threadkeep.state.index_text import LAST_DOC, NAMES_FROM, whole_text
from threadkeep.state.layout import QUERIES
from threadkeep.state.search_query import (
    Group,
    StateTerm,
    any_of,
    is_literal,
    is_unspaced,
    matches,
    may_be_in,
    our_expression,
    raw_expression,
)

LAST_ID: Final = (1 << 63) - 1
# Of a word in 157,000 messages the newest 1,000 are listed in 0.4 ms, all of them in 59 ms; to read
# and compare 200 takes 2 ms, a third of what version 6 takes for all matches of three words.
ROUNDS: Final = (200, 1_000, 4_000, 16_000, 64_000, 256_000, -1)
# Reading 200,000 messages of 640 characters takes about two seconds.
_SCANNED_ROWS: Final = 200_000
_SCANNED_CHARACTERS: Final = 400_000_000
_MAX_NAMES: Final = 3
TRIGGERS: Final = 3  # of the contract's index
_WHOLE: Final = {"first_doc": 0, "last_doc": NAMES_FROM - 1}
_NAMES: Final = {"first_doc": NAMES_FROM, "last_doc": LAST_DOC}


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
        """Give more and more ids; what one round finds, the next finds as well."""
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
        whole = self._docs(our_expression(wanted, unwanted), _WHOLE, limit)
        if self._ctx.side and any(map(is_unspaced, wanted)):  # ours has every such message whole
            return CandidateIds(set(whole), limit == len(whole))
        raw = self._raw(raw_expression(wanted, unwanted), limit)
        named = self._ask_names(group, limit)
        ids = named.ids.union(set(raw) - self._spoilt(group, raw), whole)
        return CandidateIds(ids, named.cut or limit in (len(raw), len(whole)))

    def _ask_names(self, group: Group, limit: int) -> CandidateIds:
        """Find results of tools: some terms in the name, the rest, if any, in the content."""
        names = [term for term in group.wanted if self._is_name(term)][:_MAX_NAMES]
        ids: set[int] = set()
        cut = False
        sizes = range(1, len(names) + 1)
        for chosen in chain.from_iterable(combinations(names, size) for size in sizes):
            found = self._docs(our_expression(chosen, group.unwanted), _NAMES, limit)
            rest = [term for term in group.wanted if term not in chosen]
            contents: Collection[int] = ()
            if rest and found:
                contents = self._raw(raw_expression(rest, group.unwanted), limit)
                ids.update(set(found).intersection(contents))
            elif found:
                unwanted = any_of(raw_expression([term]) for term in group.unwanted)
                ids.update(set(found).difference(self._raw(unwanted, -1, self._span(found))))
            cut = cut or limit in (len(found), len(contents))
        return CandidateIds(ids, cut)

    def _is_name(self, term: StateTerm) -> bool:
        return bool(self._all("any_doc", {"query": our_expression([term]), **_NAMES}))

    def _spoilt(self, group: Group, raw: Collection[int]) -> set[int]:
        """Of hits of the contract's index: those with an unwanted word in what only ours has."""
        if not raw or not group.unwanted:
            return set()
        spoilt = {one for one in raw if one > self._cursor or one in self._changed}  # were read
        for term in group.unwanted:
            span = self._span(raw)
            spoilt.update(self._docs(our_expression([*group.wanted, term]), _WHOLE, -1, span))
            spoilt.update(self._docs(our_expression([term]), _NAMES, -1, span))
        return spoilt

    def _span(self, ids: Collection[int]) -> IdRange:
        return self._place._replace(first=min(ids), last=max(ids))

    def _raw(self, query: str, limit: int, place: IdRange | None = None) -> list[int]:
        return self._ids(f"raw_{self._order}", query, limit, place, {})

    def _docs(
        self, query: str, docs: dict[str, int], limit: int, place: IdRange | None = None
    ) -> list[int]:
        return self._ids(f"docs_{self._order}", query, limit, place, docs)

    def _ids(
        self, name: str, query: str, limit: int, place: IdRange | None, more: dict[str, int]
    ) -> list[int]:
        first, last, _ = place or self._place
        params = {"query": query, "first": first, "last": last, "limit": limit, **more}
        return [int(row[0]) for row in self._all(name, params)]

    def _all(self, name: str, params: dict[str, object]) -> list[Row]:
        """Ask an index; one that does not answer is none, and its messages are read instead."""
        if not params["query"] or (name.startswith(("docs", "any")) and not self._ctx.side):
            return []
        try:
            return self._tx.all(name, params)
        except FullTextError as error:
            self._give_up(str(error))
            return []

    def _give_up(self, why: str) -> None:
        self._broken = True
        warn_of_damage(self._ctx, why)

    # ------------------------------------------------------------------ reading

    def _read_unindexed(self) -> set[int]:
        """Read what our index has not seen yet; everything, if an index is not to be trusted."""
        if not self._indexed:
            return set()
        if not self._ctx.side:
            return self._read_all()
        try:
            if len(self._tx.all("triggers_of_index")) < TRIGGERS:
                self._give_up("its triggers are gone")
                return self._read_all()
            if self._tx.one("emptied_index") is not None:
                self._give_up("it was emptied")
                return self._read_all()
            self._cursor = how_far(self._tx).cursor
            return self._scan(self._indexed, self._cursor + 1) | self._read_changed()
        except FullTextError as error:
            self._give_up(str(error))
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
        for row in self._tx.execute(QUERIES["changed_messages"], {"limit": _SCANNED_ROWS}):
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
        rows = self._tx.execute(QUERIES[f"scan_{self._order}"], params)
        for number, row in enumerate(rows):
            characters += len(row[2] or b"")
            if self._has(groups, row):
                found.add(row[0])
            if number == _SCANNED_ROWS or characters > _SCANNED_CHARACTERS:
                self._ctx.notices.warn(
                    "scan",
                    "a search in %s read %d messages and left it at that: run reindex()",
                    self._ctx.db.path,
                    number,
                )
                behind = {"last": row[0] - 1} if self._place.newest else {"first": row[0] + 1}
                self._unread = self._place._replace(**behind)
                break
        return found

    def _has(self, groups: Sequence[Group], row: Row) -> bool:
        if not row[5] and not may_be_in(groups, b"\n".join(filter(None, row[2:5]))):
            return False
        return matches(groups, whole_text(parts_of(self._ctx, self._tx, row)))

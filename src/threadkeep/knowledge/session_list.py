"""Lists of sessions, page by page, with what each took and where the words of the query stand."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.match import (
    Match,
    Term,
    literal_terms,
    match_of,
    parse_query,
    read_match,
)
from threadkeep.base.snippet import snippet
from threadkeep.base.tx import Row, Sql, Tx
from threadkeep.knowledge.copies import NO_LINKS, links_of
from threadkeep.knowledge.prices import cost_known, sums_of, tokens_of
from threadkeep.knowledge.query import EVERYTHING, Bound, Query
from threadkeep.knowledge.records import CapturedSession, EntryRow, to_entry, to_session
from threadkeep.knowledge.results import NO_LABELS, SessionPage, SessionSummary, Sum
from threadkeep.knowledge.schema import ENTRY_WORDS
from threadkeep.knowledge.session_sql import (
    COLUMNS,
    LIVE_MS,
    MOST_ON_A_PAGE,
    NUMBERS,
    ListContext,
    Matches,
    QueryValues,
    SessionCursor,
    Where,
    all_sql,
    groups,
    like,
    meant_by,
    page,
    ranked,
    read_cursor,
    rows_of,
    where,
)

# Entries with a word, the newest: for a first page, made while somebody types, and for all others.
_MATCHES: Final = 5_000
_MOST_MATCHES: Final = 200_000
_CHUNK: Final = 250
_PAGE: Final = 50  # sessions: where these have all words in one message, nothing wider is tried
_FEW_LEFT: Final = 200  # sessions that are asked one by one whether they have a frequent word
_MOST_LOOKED_AT: Final = 2_000  # sessions in one call, where each must be summed up: 50 ms
_SNIPPET: Final = 160
_SUMMED: Final = frozenset(("cost", "tokens"))


def is_slow(query: Query) -> bool:
    """Tell whether sessions must be looked at one by one."""
    return "failed" in query.marks or any(bound.field in _SUMMED for bound in query.bounds)


def ref_of(session: CapturedSession) -> str:
    """Return the name under which a session is found."""
    return f"{session.agent}:{session.session_id}"


def cursor_of(session: CapturedSession) -> SessionCursor:
    """Return the place of a session in the list."""
    return SessionCursor(session.ended_at, session.id)


# ---------------------------------------------------------------------- words


def find_matches(
    tx: Tx, tables: set[str], words: str, *, deep: bool, narrow: bool = False
) -> Matches:
    """Find the sessions in which every word stands somewhere: in the title or in any message.

    Where no session has all of them, those with the rarest together are given, and what they lack
    is named. Nothing wider than one message is tried when that fills a page of all sessions; of a
    `narrow` query much may lie outside. What is joined by OR or NOT is looked for as it is.
    """
    most = _MOST_MATCHES if deep else _MATCHES
    together = _in_one_message(tx, tables, words, most)
    terms = parse_query(words)
    asked = list({match_of(term): term for term in terms if term.words}.items())
    if len(asked) < 2 or any(term.operator != "AND" for term in terms):  # noqa: PLR2004
        return together
    indexed = ENTRY_WORDS.is_among(tx, tables)
    if not indexed or (len(together.sessions) >= _PAGE and not (deep or narrow)):
        return together
    found = [_with_word(tx, match, term, most) for match, term in asked]
    apart = _in_one_session(tx, sorted(found, key=lambda one: len(one.sessions)))
    if apart.missing and (together.sessions or any(_is_phrase(term) for term in terms)):
        return together
    return apart._replace(sessions=apart.sessions | together.sessions)


def missing_words(tx: Tx, words: str) -> tuple[str, ...]:
    """Name the words that are in no session that has the others; none where a session has all."""
    return find_matches(tx, tx.tables(), words, deep=False, narrow=True).missing


class _WordMatches(NamedTuple):
    """The sessions that have one word, each with the newest entry that does."""

    typed: str
    match: Match
    sessions: dict[int, int]
    whole: bool


def _in_one_message(tx: Tx, tables: set[str], words: str, most: int) -> Matches:
    titled = _titled(tx, literal_terms(words), most)
    found = dict.fromkeys(titled, 0)
    match = read_match(words)
    if match is None or not ENTRY_WORDS.is_among(tx, tables):
        return Matches(found, whole=len(titled) < most)
    rows = tx.all("browse_matches", {"match": ENTRY_WORDS.asked(tx, match, most), "limit": most})
    found.update((session, entry) for session, entry, _ in rows)
    return Matches(found, whole=max(len(titled), sum(row[2] for row in rows)) < most)


def _with_word(tx: Tx, match: Match, term: Term, most: int) -> _WordMatches:
    titled = _titled(tx, [term.typed], most)
    rows = tx.all("browse_matches", {"match": ENTRY_WORDS.asked(tx, match, most), "limit": most})
    found = dict.fromkeys(titled, 0) | {session: entry for session, entry, _ in rows}
    whole = max(len(titled), sum(row[2] for row in rows)) < most
    return _WordMatches(term.typed, match, found, whole)


def _in_one_session(tx: Tx, words: Sequence[_WordMatches]) -> Matches:
    """Keep the sessions that have all of some words, the rarest given first."""
    kept: dict[int, int] = {}
    missing = []
    for one in words:
        both = {s: kept[s] or e for s, e in one.sessions.items() if s in kept}
        rest = [session for session in kept if session not in both][-_FEW_LEFT:]
        if rest and not one.whole:  # a frequent word, of which only the newest were read
            asked = ENTRY_WORDS.asked(tx, one.match)
            values = {"ids": msgspec.json.encode(rest).decode(), "match": asked}
            both |= {row[0]: kept[row[0]] for row in tx.all("browse_having", values)}
        if both:
            kept = both
        elif not kept and one.sessions:
            kept = one.sessions
        else:
            missing.append(one.typed)
    return Matches(kept, all(one.whole for one in words), tuple(missing))


def _is_phrase(term: Term) -> bool:
    return len(term.words) > 1 and any(character.isspace() for character in term.typed)


def _titled(tx: Tx, terms: Sequence[str], most: int) -> list[int]:
    if not terms:
        return []
    conditions = " AND ".join(f"title LIKE :t{n} ESCAPE '\\'" for n in range(len(terms)))
    sql = (
        f"SELECT id FROM tk_sessions WHERE title <> '' AND {conditions}"  # noqa: S608
        " ORDER BY ended_at DESC NULLS LAST, id DESC LIMIT :most"
    )
    values = {f"t{n}": f"%{like(term)}%" for n, term in enumerate(terms)}
    return [row[0] for row in tx.all(Sql(sql), {**values, "most": most})]


def _snippets(
    around: ListContext, sessions: Sequence[CapturedSession], words: str, matches: Matches
) -> dict[int, str]:
    entries = {one.id: matches.sessions.get(one.id, 0) for one in sessions}
    rows = _entries(around.tx, entries.values())
    from threadkeep.knowledge.archived import ArchivedEntries  # noqa: PLC0415  (for words alone)

    texts = ArchivedEntries(around.tx, around.sources)
    found = {}
    for one in sessions:
        row = rows.get(entries[one.id])
        text = one.title if row is None else texts.text(row)
        found[one.id] = snippet(text, words, _SNIPPET)
    return found


def _entries(tx: Tx, ids: Iterable[int]) -> dict[int, EntryRow]:
    rows = tx.all("shown_entries", {"ids": msgspec.json.encode(list(ids)).decode()})
    return {row[0]: to_entry(row) for row in rows}


# ---------------------------------------------------------------------- pages


def list_page(
    around: ListContext, query: Query, matches: Matches | None, after: str | None, limit: int
) -> SessionPage:
    """Return one page of the sessions that a query means, the latest first."""
    size = max(1, min(limit, MOST_ON_A_PAGE))
    cursor = None if after is None else read_cursor(after)
    chosen = chosen_by(around, query, matches)
    kept, following = _walk(around.tx, query, chosen, cursor, size)
    snippets = {} if matches is None else _snippets(around, kept, query.text, matches)
    if following is None and kept and matches is not None and not matches.whole and after is None:
        following = cursor_of(kept[-1])  # what has the words and is older is found then
    items = listed(around, kept, snippets)
    missing = () if matches is None else matches.missing
    return SessionPage(tuple(items), None if following is None else following.text(), missing)


def list_sessions(
    tx: Tx,
    query: Query = EVERYTHING,
    cursor: CapturedSession | None = None,
    limit: int = 50,
) -> list[CapturedSession]:
    """List the sessions that a query means, the latest first; `cursor` is the last one before.

    Nothing else is read of them, and nothing is left out: very many may be looked at.
    """
    found = None
    if query.text.strip():
        found = sorted(find_matches(tx, tx.tables(), query.text, deep=True).sessions)
    chosen = where(tx, query, now_ms(), found)
    if not is_slow(query) and query.sort is None:
        after = None if cursor is None else cursor_of(cursor)
        return [to_session(row) for row in page(tx, chosen, after, limit)]
    kept: list[CapturedSession] = []
    following = None if cursor is None else cursor_of(cursor)
    while len(kept) < limit:
        more, following = _walk(tx, query, chosen, following, limit - len(kept))
        kept += more
        if following is None:
            break
    return kept


def exact_sessions(tx: Tx, query: Query) -> list[CapturedSession]:
    """Return all sessions of whatever sort whose names are exactly those of a query, in order."""
    chosen = where(tx, query, now_ms(), everything=True, exact=True)
    found = [to_session(row) for row in tx.all(Sql(all_sql(chosen)), chosen.params)]
    fits = _fitting(tx, query, [one.id for one in found]) if is_slow(query) else None
    return [one for one in found if fits is None or one.id in fits]


def chosen_by(around: ListContext, query: Query, matches: Matches | None) -> Where:
    """Return the conditions that a query means."""
    found = None if matches is None else sorted(matches.sessions)
    return where(around.tx, query, around.now, found, zone=around.zone)


def _walk(
    tx: Tx, query: Query, chosen: Where, cursor: SessionCursor | None, size: int
) -> tuple[list[CapturedSession], SessionCursor | None]:
    """Read on until a page is full, nothing is left, or enough was looked at."""
    if query.sort is not None:
        return _ranked_page(tx, query, chosen, cursor, size)
    slow = is_slow(query)
    chunk = _CHUNK if slow else size + 1
    kept: list[CapturedSession] = []
    looked = 0
    while True:
        sessions = [to_session(row) for row in page(tx, chosen, cursor, chunk)]
        fits = _fitting(tx, query, [one.id for one in sessions]) if slow else None
        kept += [one for one in sessions if fits is None or one.id in fits]
        looked += len(sessions)
        if len(kept) > size:
            return kept[:size], cursor_of(kept[size - 1])
        if len(sessions) < chunk:
            return kept, None
        cursor = cursor_of(sessions[-1])
        if looked >= _MOST_LOOKED_AT:
            return kept, cursor


def _ranked_page(
    tx: Tx, query: Query, chosen: Where, cursor: SessionCursor | None, size: int
) -> tuple[list[CapturedSession], SessionCursor | None]:
    """Read on behind a session where those with the most of something come first."""
    name = ("ranked", query.sort, query.bounds, chosen.sql(), str(sorted(chosen.params.items())))
    order = tx.kept(name, lambda: _ranking(tx, query, chosen))
    behind = 0 if cursor is None else order.index(cursor.id) + 1 if cursor.id in order else None
    if behind is None:  # it was forgotten, or is meant no more: nobody knows where it was
        return [], None
    meant = order[behind : behind + size]
    kept = [to_session(row) for row in rows_of(tx, meant)]
    more = behind + size < len(order)
    return kept, SessionCursor(None, meant[-1]) if more else None


def _ranking(tx: Tx, query: Query, chosen: Where) -> list[int]:
    summed = query.sort in _SUMMED
    ids = ranked(tx, chosen, "s.id" if summed else NUMBERS[query.sort or ""])
    if is_slow(query):
        fitting = _fitting(tx, query, ids)
        ids = [one for one in ids if one in fitting]
    if summed:
        sums = sums_of(tx, ids) if "tk_usage" in tx.tables() else {}
        measure = tokens_of if query.sort == "tokens" else _cost
        ids.sort(key=lambda one: measure(sums.get(one, Sum())), reverse=True)
    return ids


def _cost(total: Sum) -> int:
    return total.cost


def _fitting(tx: Tx, query: Query, sessions: Sequence[int]) -> set[int]:
    """Return those of some sessions that must be looked at one by one, and fit."""
    ids = list(sessions)
    if "failed" in query.marks:
        values = {"ids": msgspec.json.encode(ids).decode()}
        ids = [row[0] for row in tx.all("browse_ended_badly", values)]
    bounds = [bound for bound in query.bounds if bound.field in _SUMMED]
    sums = sums_of(tx, ids) if bounds else {}
    return {one for one in ids if all(_fits(sums.get(one, Sum()), b) for b in bounds)}


def _fits(total: Sum, bound: Bound) -> bool:
    value = tokens_of(total) if bound.field == "tokens" else total.cost / 1_000_000
    return {
        ">": value > bound.value,
        ">=": value >= bound.value,
        "<": value < bound.value,
        "<=": value <= bound.value,
        "=": value == bound.value,
    }[bound.op]


def listed(
    around: ListContext, sessions: Sequence[CapturedSession], snippets: dict[int, str] | None = None
) -> list[SessionSummary]:
    """Add to sessions what a list says of them."""
    from threadkeep.knowledge.labels import labels_of_sessions  # noqa: PLC0415  (for pages alone)

    sums = sums_of(around.tx, [one.id for one in sessions]) if "tk_usage" in around.tables else {}
    children = _children(around.tx, sessions)
    links = links_of(around.tx, [one.id for one in sessions])
    labels = labels_of_sessions(around.tx, [one.id for one in sessions])
    return [
        SessionSummary(
            session=one,
            ref=ref_of(one),
            tokens=tokens_of(sums.get(one.id, Sum())),
            cost=cost_known(sums.get(one.id, Sum())),
            live=is_live(one, around.now),
            children=children.get((one.agent, one.session_id), 0),
            snippet=(snippets or {}).get(one.id, ""),
            labels=labels.get(one.id, NO_LABELS),
            **links.get(one.id, NO_LINKS)._asdict(),
        )
        for one in sessions
    ]


def is_live(session: CapturedSession, now: int) -> bool:
    """Tell whether something was written in a session in the last minutes."""
    return session.ended_at is not None and session.ended_at >= now - LIVE_MS


def _children(tx: Tx, sessions: Sequence[CapturedSession]) -> dict[tuple[str, str], int]:
    values = {"ids": msgspec.json.encode([one.session_id for one in sessions]).decode()}
    rows = tx.all("browse_children", values)
    return {(harness, parent): count for harness, parent, count in rows}


# ------------------------------------------------------------------------------
# How many sessions a query means, and how many there are of each agent, project, model, branch.

_PLACES: Final = {"agent": 0, "project": 1, "model": 3, "branch": 4}  # in a row of `groups`
_FOLDER: Final = 2
_MOST_VALUES: Final = 20

Test = Callable[[Row], bool]


class SessionCounts(NamedTuple):
    """What was counted of a query."""

    sessions: int | None  # None: very much would have to be looked at
    facets: dict[str, list[tuple[str, int]]]


def count(around: ListContext, query: Query, matches: Matches | None) -> SessionCounts:
    """Count what a query means, and by agent, project, model and branch, the most frequent first.

    A key's own filter does not count for it, so that another value can be chosen; nor do bounds
    of cost and tokens.
    """
    chosen = chosen_by(around, query, matches)
    rows = groups(around.tx, chosen)
    asked = [key for key in COLUMNS if getattr(query, key)]
    tests = {key: test_of(key, meant_by(around.tx, query, key)) for key in asked}
    counted = fold(rows, tests)
    known = not is_slow(query) and (matches is None or matches.whole)
    return counted if known else counted._replace(sessions=None)


def fold(rows: Iterable[Row], tests: Mapping[str, Test]) -> SessionCounts:
    """Count groups of sessions: all that pass, and of each key what the other keys let pass."""
    total = 0
    counts: dict[str, Counter[Any]] = {key: Counter() for key in _PLACES}
    for row in rows:
        failed = [key for key, test in tests.items() if not test(row)]
        if len(failed) > 1:
            continue
        total += 0 if failed else row[-1]
        for key in failed or _PLACES:
            counts[key][row[_PLACES[key]]] += row[-1]
    return SessionCounts(total, {key: _most(counts[key]) for key in _PLACES})


def _most(counts: Counter[Any]) -> list[tuple[str, int]]:
    """Return the most frequent values; equally frequent ones by name."""
    named = ((value, number) for value, number in counts.items() if value)
    return sorted(named, key=lambda pair: (-pair[1], pair[0]))[:_MOST_VALUES]


def test_of(key: str, meant: QueryValues) -> Test:
    """Tell groups that are meant by a key from those that are not."""
    values, place = frozenset(meant.values), _PLACES[key]
    if not meant.folders:
        return lambda row: row[place] in values
    folders = frozenset(meant.folders)
    below = tuple(_lower(f"{one.rstrip('/')}/") for one in meant.folders)

    def is_meant(row: Row) -> bool:
        folder = row[_FOLDER] or ""
        return row[place] in values or folder in folders or _lower(folder).startswith(below)

    return is_meant


def _lower(text: str) -> bytes:
    """Put ASCII letters into lower case and nothing else, as LIKE does."""
    return text.encode("utf-8", "surrogatepass").lower()

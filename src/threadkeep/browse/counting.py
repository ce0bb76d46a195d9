"""How many sessions a query means, and how many there are of each agent, project, model, branch."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Row
from threadkeep.browse.listing import ListContext, Matches, chosen_by, is_slow
from threadkeep.browse.records import Query
from threadkeep.browse.selecting import COLUMNS, QueryValues, groups_sql, meant_by

_PLACES: Final = {"agent": 0, "project": 1, "model": 3, "branch": 4}  # in a row of `groups_sql`
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
    rows = around.tx.execute(groups_sql(chosen), chosen.params)
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
    """Give the most frequent values; equally frequent ones by name."""
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

"""What models' answers took, summed up by day, model, project, agent and hour of the week."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from operator import add
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.browse.blocks import Answer, make_blocks
from threadkeep.browse.listing import Around, Matches
from threadkeep.browse.prices import STEPS, is_priced, step_of
from threadkeep.browse.records import BillingBlock, Query, Sum, UsageReport
from threadkeep.browse.selecting import PROBE, resolve, where
from threadkeep.browse.sums import Adding, pico_of, tokens_of

UNKNOWN: Final = "unknown"
_QUARTER: Final = 900_000  # no zone is shifted by less than a quarter of an hour
# An answer may be written down a little after the last entry of its session.
_SLACK: Final = 3_600_000
_SIZE: Final = "u.input + u.cache_read + u.cache_write"
_STEP: Final = (
    f"CASE WHEN {_SIZE} <= {STEPS[0]} THEN 0 ELSE (SELECT max(column1) FROM"  # noqa: S608
    f" (VALUES {', '.join(f'({step})' for step in STEPS)}) WHERE column1 < {_SIZE}) END"
)
_SUMS: Final = (
    "count(*), sum(u.input), sum(u.output), sum(u.cache_read), sum(u.cache_write),"
    " sum(u.cache_write_1h), sum(u.reasoning)"
)


class Spent(NamedTuple):
    """Answers of one model on one day, in one project."""

    harness: str
    model: str
    project: str
    day: str
    counts: list[int]  # as `Adding.add` takes them
    pico: int | None


class Spending(NamedTuple):
    """What was spent, and when in the week: tokens by weekday from Monday, and hour."""

    spent: list[Spent]
    hours: list[list[int]]


NOTHING: Final = Spending([], [[0] * 24 for _ in range(7)])


def read_spent(around: Around, query: Query, matches: Matches | None, zone: tzinfo) -> Spending:
    """Read what the sessions of a query took, subagents and hidden threads included."""
    conditions, values = _conditions(around, query, matches)
    sql = (
        f"SELECT u.harness, u.model, {_STEP}, u.at / {_QUARTER},"  # noqa: S608  (our own names)
        f" coalesce(nullif(s.project, ''), nullif(s.cwd, ''), '{UNKNOWN}'), {_SUMS}"
        " FROM tk_sessions AS s CROSS JOIN tk_usage AS u ON u.session = s.id"
        f" WHERE {conditions} GROUP BY 1, 2, 3, 4, 5"
    )
    rows = around.tx.execute(sql, values).fetchall()
    kept = _models_kept({row[1] or UNKNOWN for row in rows}, query)
    return _by_days([row for row in rows if (row[1] or UNKNOWN) in kept], zone)


def _by_days(rows: Iterable[Sequence[Any]], zone: tzinfo) -> Spending:
    """Put quarters of an hour together to days of a zone, and find what each group cost."""
    local = _Local(zone)
    hours = [[0] * 24 for _ in range(7)]
    groups: dict[tuple[str, str, int, str, str], tuple[int | None, list[int]]] = {}
    for harness, model, step, quarter, project, *counts in rows:
        day, weekday, hour = local.at(quarter)
        if quarter is not None:
            hours[weekday][hour] += sum(counts[1:5])
        key = (harness, model, step, project, day)
        if key in groups:
            sums = groups[key][1]
            sums[:] = map(add, sums, counts)
        else:
            groups[key] = (quarter, counts)
    return Spending([_priced(key, *group) for key, group in groups.items()], hours)


def _priced(key: tuple[str, str, int, str, str], quarter: int | None, counts: list[int]) -> Spent:
    harness, model, step, project, day = key
    at = None if quarter is None else quarter * _QUARTER
    pico = pico_of(harness, model, step, at, counts)
    return Spent(harness, model or UNKNOWN, project, day, counts, pico)


def _conditions(
    around: Around, query: Query, matches: Matches | None
) -> tuple[str, dict[str, Any]]:
    """Give the conditions: times are those of the answers, and their models are theirs."""
    found = None if matches is None else sorted(matches.sessions)
    others = tuple(pair for pair in query.without if pair[0] != "model")
    begin = None if query.since is None else query.since - _SLACK
    sessions = msgspec.structs.replace(query, since=begin, until=None, model=(), without=others)
    chosen = where(around.tx, sessions, around.tables, around.now, found, everything=True)
    parts = [chosen.sql(PROBE)]
    values = dict(chosen.params)
    if query.since is not None:
        parts.append("u.at >= :from_at")
        values["from_at"] = query.since
    if query.until is not None:
        parts.append("u.at < :to_at")
        values["to_at"] = query.until
    return " AND ".join(part for part in parts if part), values


def _models_kept(models: set[str], query: Query) -> set[str]:
    """Give those of some models that a query means."""
    wanted = {name for given in query.model for name in resolve(given, models)}
    unwanted = {
        name for key, given in query.without if key == "model" for name in resolve(given, models)
    }
    return (wanted if query.model else models) - unwanted


# ---------------------------------------------------------------------- reports


def report(spending: Spending) -> UsageReport:
    """Sum up in every way that is drawn."""
    total = Adding()
    by_day: dict[str, dict[str, Adding]] = defaultdict(lambda: defaultdict(Adding))
    by_model, by_project, by_agent = (defaultdict[str, Adding](Adding) for _ in range(3))
    for one in spending.spent:
        sums = (by_day[one.day][one.model], by_model[one.model])
        for adding in (total, *sums, by_project[one.project], by_agent[one.harness]):
            adding.add(one.counts, one.pico)
    return UsageReport(
        total=total.done(),
        by_day={day: _done(sums) for day, sums in sorted(by_day.items())},
        by_model=_done(by_model),
        by_project=_done(by_project),
        by_agent=_done(by_agent),
        by_hour=tuple(tuple(row) for row in spending.hours),
        priced=is_priced(),
    )


def _done(sums: dict[str, Adding]) -> dict[str, Sum]:
    """Finish sums, the largest first."""
    done = {name: adding.done() for name, adding in sums.items()}
    return dict(
        sorted(done.items(), key=lambda pair: (-pair[1].cost, -tokens_of(pair[1]), pair[0]))
    )


def by_day(spending: Spending) -> dict[str, int]:
    """Give the tokens of each day that has some."""
    days: dict[str, int] = defaultdict(int)
    for one in spending.spent:
        if one.day != UNKNOWN:
            days[one.day] += sum(one.counts[1:5])
    return dict(sorted(days.items()))


class _Local:
    """Tells the day, the weekday and the hour of quarters of an hour; many are asked for again."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int | None, tuple[str, int, int]] = {None: (UNKNOWN, 0, 0)}

    def at(self, quarter: int | None) -> tuple[str, int, int]:
        """Give the day as text, the weekday from Monday, and the hour."""
        if quarter not in self._known:
            self._known[quarter] = self._read(quarter or 0)
        return self._known[quarter]

    def _read(self, quarter: int) -> tuple[str, int, int]:
        try:
            moment = datetime.fromtimestamp(quarter * _QUARTER / 1000, self._zone)
        except (ValueError, OverflowError, OSError):
            return (UNKNOWN, 0, 0)
        return moment.date().isoformat(), moment.weekday(), moment.hour


# ---------------------------------------------------------------------- blocks of five hours


def read_blocks(
    around: Around, query: Query, matches: Matches | None, now: int
) -> list[BillingBlock]:
    """Cut the answers of a query into blocks of five hours."""
    return make_blocks(_answers(around, query, matches), now)


def _answers(around: Around, query: Query, matches: Matches | None) -> Iterator[Answer]:
    conditions, values = _conditions(around, query, matches)
    sql = (
        "SELECT u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write,"  # noqa: S608
        " u.cache_write_1h, u.reasoning FROM tk_sessions AS s CROSS JOIN tk_usage AS u"
        f" ON u.session = s.id WHERE {conditions} AND u.at IS NOT NULL"
    )
    rows = around.tx.execute(sql, values).fetchall()
    kept = _models_kept({row[2] or UNKNOWN for row in rows}, query)
    for at, harness, model, *counts in rows:
        if (model or UNKNOWN) in kept:
            spent = (1, *counts)
            step = step_of(counts[0] + counts[2] + counts[3])
            pico = pico_of(harness, model, step, at, spent)
            yield Answer(at, model or UNKNOWN, spent, pico)

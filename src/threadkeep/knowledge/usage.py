"""What models' answers took, summed up by day, model, project, agent and hour of the week."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.archive import LogRow
from threadkeep.knowledge.prices import (
    LENGTH,
    STEPS,
    AnswerUsage,
    SumBuilder,
    is_priced,
    make_blocks,
    pico_of,
    step_of,
    sums_of,
    tokens_of,
)
from threadkeep.knowledge.query import (
    EVERYTHING,
    QUARTER,
    QUARTERS_OF_DAY,
    QUARTERS_OF_WEEK,
    UNKNOWN,
    Query,
    by_hour,
    day_text,
    in_hours,
    local_quarter,
)
from threadkeep.knowledge.records import CapturedSession, Usage, to_session
from threadkeep.knowledge.results import BillingBlock, Split, Sum, UsageReport
from threadkeep.knowledge.session_list import chosen_by, find_matches, ref_of
from threadkeep.knowledge.session_sql import PROBE, ListContext, Matches, all_sql, resolve, where

# An answer may be written down a little after the last entry of its session.
_SLACK: Final = 3_600_000
_SIZE: Final = "u.input + u.cache_read + u.cache_write"
_STEP: Final = (
    "CASE "
    + " ".join(f"WHEN {_SIZE} <= {top} THEN {low}" for low, top in pairwise((0, *STEPS)))
    + f" ELSE {STEPS[-1]} END"
)
_QUARTER: Final = f"u.at / {QUARTER}"
_SUMS: Final = (
    "count(*) AS answers, sum(u.input) AS input, sum(u.output) AS output,"
    " sum(u.cache_read) AS cache_read, sum(u.cache_write) AS cache_write,"
    " sum(u.cache_write_1h) AS cache_write_1h, sum(u.reasoning) AS reasoning"
)
_ALL_SUMS: Final = (
    "sum(answers), sum(input), sum(output), sum(cache_read), sum(cache_write),"
    " sum(cache_write_1h), sum(reasoning)"
)
_TOKENS: Final = "sum(input) + sum(output) + sum(cache_read) + sum(cache_write)"


# How many blocks are looked back at to find the pause that the present one began after. Where
# nobody pauses for a week, blocks are taken to follow each other without one.
_LOOKED_BACK: Final = (2, 8, 34)


class DayUsage(NamedTuple):
    """Answers of one model on one day, in one project."""

    harness: str
    model: str
    project: str
    day: str
    counts: list[int]  # as `Adding.add` takes them
    pico: int | None


class UsageTable(NamedTuple):
    """What was spent, and when in the week: tokens by weekday from Monday, and hour."""

    spent: list[DayUsage]
    hours: list[list[int]]


NOTHING: Final = UsageTable([], [[0] * 24 for _ in range(7)])


def read_spent(
    around: ListContext, query: Query, matches: Matches | None, zone: tzinfo
) -> UsageTable:
    """Read what the sessions of a query took, subagents and hidden threads included."""
    conditions, values = _conditions(around._replace(zone=zone), query, matches)
    rows = around.tx.all(Sql(spent_sql(conditions, zone)), values)
    models = {row[2] or UNKNOWN for row in rows}
    kept = _models_kept(models, query)
    hours = [0] * QUARTERS_OF_WEEK
    spent = []
    for is_day, harness, model, step, day, project, quarter, *counts in rows:
        if (model or UNKNOWN) not in kept:
            continue
        if is_day:
            at = None if quarter is None else quarter * QUARTER
            pico = pico_of(harness, model, step, at, counts)
            spent.append(DayUsage(harness, model or UNKNOWN, project, day_text(day), counts, pico))
        elif quarter is not None:
            hours[quarter % QUARTERS_OF_WEEK] += counts[0]
    return UsageTable(spent, by_hour(hours))


def spent_sql(conditions: str, zone: tzinfo) -> str:
    """Return the statement that sums up answers: by day and project, then by quarter of the week.

    What is summed up first, by session and quarter, stands in the index in just that order.
    """
    local = local_quarter("quarter", zone)
    return (
        "WITH sums AS MATERIALIZED ("  # noqa: S608  (our own names)
        f" SELECT u.harness AS harness, u.model AS model, {_STEP} AS step, {_QUARTER} AS quarter,"
        # One session has one: this says so without grouping by it, which the index could not serve.
        f" min(coalesce(nullif(s.project, ''), nullif(s.cwd, ''), '{UNKNOWN}')) AS project, {_SUMS}"
        " FROM tk_sessions AS s CROSS JOIN tk_usage AS u WHERE u.session = s.id"
        f" AND {conditions} GROUP BY s.id, u.harness, u.model, {_QUARTER}, {_STEP})"
        f" SELECT 1, harness, model, step, ({local}) / {QUARTERS_OF_DAY}, project, min(quarter),"
        f" {_ALL_SUMS} FROM sums GROUP BY 5, 6, 4, 3, 2 UNION ALL"
        f" SELECT 0, '', model, 0, NULL, '', ({local}) % {QUARTERS_OF_WEEK}, {_TOKENS},"
        " 0, 0, 0, 0, 0, 0 FROM sums GROUP BY 7, 3"
    )


def _conditions(
    around: ListContext, query: Query, matches: Matches | None
) -> tuple[str, dict[str, Any]]:
    """Return the conditions: times are those of the answers, and their models are theirs."""
    found = None if matches is None else sorted(matches.sessions)
    others = tuple(pair for pair in query.exclude if pair[0] != "model")
    begin = None if query.since is None else query.since - _SLACK
    sessions = msgspec.structs.replace(
        query, since=begin, until=None, model=(), exclude=others, hours=()
    )
    chosen = where(around.tx, sessions, around.now, found, everything=True)
    parts = [chosen.sql(PROBE)]
    values = dict(chosen.params)
    if query.since is not None:
        parts.append("u.at >= :from_at")
        values["from_at"] = query.since
    if query.hours:
        parts.append(in_hours("u.at", query.hours, around.zone))
    if query.until is not None:
        parts.append("u.at < :to_at")
        values["to_at"] = query.until
    return " AND ".join(part for part in parts if part), values


def _models_kept(models: set[str], query: Query) -> set[str]:
    """Return those of some models that a query means."""
    wanted = {name for given in query.model for name in resolve(given, models)}
    unwanted = {
        name for key, given in query.exclude if key == "model" for name in resolve(given, models)
    }
    return (wanted if query.model else models) - unwanted


# ---------------------------------------------------------------------- reports


def usage_of(tx: Tx, query: Query = EVERYTHING, *, zone: tzinfo = UTC) -> UsageReport:
    """Sum up tokens and cost of a query's sessions, subagents included; days are of a zone."""
    tables = tx.tables()
    found = find_matches(tx, tables, query.text, deep=True) if query.text.strip() else None
    around = ListContext(tx, tables, {}, now_ms())
    return report(read_spent(around, query, found, zone))


class TokenTotals(msgspec.Struct):
    """Tokens of many answers."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    unfinished: int = 0  # answers whose last count is missing from the log

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write


def spent_in(tx: Tx, session: CapturedSession) -> TokenTotals:
    """Sum up the tokens of one session, without those of the sessions it started."""
    row = tx.one("tail_totals_of", {"session": session.id}) or ()
    return TokenTotals(*row)


def report(spending: UsageTable, split: Split = "model") -> UsageReport:
    """Sum up in every way that is drawn; the sums of a day are by model, or split otherwise."""
    total = SumBuilder()
    by_day: dict[str, dict[str, SumBuilder]] = defaultdict(lambda: defaultdict(SumBuilder))
    by_model, by_project, by_agent = (defaultdict[str, SumBuilder](SumBuilder) for _ in range(3))
    for one in spending.spent:
        parts = {"model": one.model, "project": one.project, "agent": one.harness}
        sums = (by_day[one.day][parts[split]], by_model[one.model])
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


def with_sessions(
    report: UsageReport, around: ListContext, query: Query, matches: Matches | None
) -> UsageReport:
    """Add the sums of each session to a report, the largest first."""
    chosen = chosen_by(around, query, matches)
    rows = around.tx.all(Sql(all_sql(chosen)), chosen.params)
    sessions = {one.id: ref_of(one) for one in map(to_session, rows)}
    sums = {sessions[number]: one for number, one in sums_of(around.tx, sessions).items()}
    return msgspec.structs.replace(report, by_session=_largest_first(sums))


def _done(sums: dict[str, SumBuilder]) -> dict[str, Sum]:
    """Finish sums, the largest first."""
    return _largest_first({name: adding.done() for name, adding in sums.items()})


def _largest_first(done: dict[str, Sum]) -> dict[str, Sum]:
    return dict(
        sorted(done.items(), key=lambda pair: (-pair[1].cost, -tokens_of(pair[1]), pair[0]))
    )


def by_day(report: UsageReport) -> dict[str, int]:
    """Return the tokens of each day that has some."""
    days = report.by_day.items()
    return {day: sum(map(tokens_of, sums.values())) for day, sums in days if day != UNKNOWN}


# ---------------------------------------------------------------------- blocks of five hours


def read_blocks(
    around: ListContext, query: Query, matches: Matches | None, now: int
) -> list[BillingBlock]:
    """Cut the answers of a query into blocks of five hours."""
    return make_blocks(_answers(around, query, matches), now)


def read_active(
    around: ListContext, query: Query, matches: Matches | None, now: int
) -> BillingBlock | None:
    """Find the block that runs now: look back until it is sure where it began."""
    begin = query.since or 0
    answers: list[AnswerUsage] = []
    for blocks in _LOOKED_BACK:
        # Whole blocks since the epoch: without any pause, the same ones are found an hour later.
        since = max((now // LENGTH - blocks) * LENGTH, begin)
        recent = msgspec.structs.replace(query, since=since)
        answers = sorted(_answers(around, recent, matches), key=lambda one: one.at)
        times = [since, *(one.at for one in answers)]
        # Whatever was before a pause as long as a block has no part in it.
        paused = any(later - earlier > LENGTH for earlier, later in pairwise(times))
        if paused or not answers or since == begin:
            break
    found = make_blocks(answers, now)
    return next((one for one in reversed(found) if one.active), None)


def _answers(around: ListContext, query: Query, matches: Matches | None) -> Iterator[AnswerUsage]:
    conditions, values = _conditions(around, query, matches)
    sql = (
        "SELECT u.at, u.harness, u.model, u.input, u.output, u.cache_read, u.cache_write,"  # noqa: S608
        " u.cache_write_1h, u.reasoning FROM tk_sessions AS s CROSS JOIN tk_usage AS u"
        f" WHERE u.session = s.id AND {conditions} AND u.at IS NOT NULL"
    )
    rows = around.tx.all(Sql(sql), values)
    kept = _models_kept({row[2] or UNKNOWN for row in rows}, query)
    for at, harness, model, *counts in rows:
        if (model or UNKNOWN) in kept:
            spent = (1, *counts)
            step = step_of(counts[0] + counts[2] + counts[3])
            pico = pico_of(harness, model, step, at, spent)
            yield AnswerUsage(at, model or UNKNOWN, spent, pico)


# ------------------------------------------------------------------------------
# What the models' answers cost, counted once each.


def write_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Store usage with the number of its session; of one key the largest output counts."""
    tx.run_bulk("put_usage", [_usage_row(harness, session, one) for session, one in usage])


def drop_usage(tx: Tx, harness: str, usage: Iterable[tuple[int, Usage]]) -> None:
    """Take out usage that was stored with the number of its session."""
    rows = [
        {"harness": harness, "key": one.key, "session": session, "at": one.at}
        for session, one in usage
    ]
    tx.run_bulk("delete_usage", rows)


def counted(tx: Tx, log: LogRow, usage: list[Usage]) -> list[Usage]:
    """Return what counts of the usage that a log tells of.

    What is in for a session's usage gives way to another log of that session, whichever of
    the two is read first.
    """
    if not log.item:
        return usage
    if not any(one.stands_in for one in usage):
        tx.run("drop_stand_ins", {"harness": log.harness, "session_id": log.session_id})
        return usage
    place = {"harness": log.harness, "session_id": log.session_id, "log": log.id}
    if tx.value("has_another_log", place) is None:
        return usage
    return [one for one in usage if not one.stands_in]


def _usage_row(harness: str, session: int, one: Usage) -> dict[str, object]:
    return {
        "harness": harness,
        "key": one.key,
        "session": session,
        "at": one.at,
        "model": one.model,
        "input": one.input,
        "output": one.output,
        "cache_read": one.cache_read,
        "cache_write": one.cache_write,
        "cache_write_1h": one.cache_write_1h,
        "reasoning": one.reasoning,
        "final": int(one.final),
    }

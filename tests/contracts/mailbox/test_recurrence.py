"""When recurring tasks are due, and which recurrences are refused."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, strategies as st

from threadkeep.base.clock import zone_name
from threadkeep.errors import Invalid
from threadkeep.mailbox.recurrence import (
    NICKNAMES,
    check_recurrence,
    missed_times,
    next_due,
    next_times,
    parse_cron,
)

ZONES = ["UTC", "America/New_York", "Europe/Madrid", "Asia/Kolkata", "Australia/Lord_Howe"]
A_MONDAY = "2026-05-18T12:34:56.789Z"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def ranges(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    several = st.lists(number, min_size=1, max_size=4, unique=True).map(
        lambda numbers: ",".join(map(str, numbers))
    )
    return st.one_of(st.just("*"), number.map(str), span, several, st.just(f"*/{high // 4}"))


EXPRESSIONS = st.tuples(
    ranges(0, 59), ranges(0, 23), ranges(1, 28), ranges(1, 12), ranges(0, 6)
).map(" ".join)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def clock_changes_near(moment: datetime, zone: str) -> bool:
    days = (moment.astimezone(UTC) + timedelta(days=days) for days in (-2, 2))
    return len({day.astimezone(ZoneInfo(zone)).utcoffset() for day in days}) > 1


@given(EXPRESSIONS, MOMENTS, st.sampled_from(ZONES))
def test_the_next_time_is_later_and_the_one_after_it_later_still(
    expr: str, after: datetime, zone: str
) -> None:
    first = next_due(expr, after, zone)
    second = next_due(expr, first, zone)
    assert after < first < second
    assert first.utcoffset() == timedelta(0)


@given(EXPRESSIONS, MOMENTS, st.sampled_from(ZONES))
def test_a_due_time_shows_on_the_clock_what_the_expression_says(
    expr: str, after: datetime, zone: str
) -> None:
    due = next_due(expr, after, zone)
    assume(not clock_changes_near(due, zone))
    wanted, shown = parse_cron(expr), due.astimezone(ZoneInfo(zone))
    right_day = shown.day in wanted.days
    right_weekday = shown.isoweekday() % 7 in wanted.weekdays
    either = not wanted.any_day and not wanted.any_weekday
    assert (shown.second, shown.microsecond) == (0, 0)
    assert shown.minute in wanted.minutes
    assert shown.hour in wanted.hours
    assert shown.month in wanted.months
    assert right_day or right_weekday if either else right_day and right_weekday


@given(EXPRESSIONS, MOMENTS, st.sampled_from(ZONES))
def test_a_due_time_is_next_until_the_last_millisecond(
    expr: str, after: datetime, zone: str
) -> None:
    due = next_due(expr, after, zone)
    assume(not clock_changes_near(due, zone))
    assert next_due(expr, due - timedelta(milliseconds=1), zone) == due
    assume(due - after > timedelta(minutes=1))
    assume(not clock_changes_near(due - (due - after) / 2, zone))
    assert next_due(expr, due - (due - after) / 2, zone) == due


@given(st.text(), MOMENTS, st.sampled_from([*ZONES, "Mars/Base", ""]))
@example("9" * 5000 + " * * * *", at(A_MONDAY), "UTC")
@example("0 0 * * 1#" + "0" * 5000 + "1", at(A_MONDAY), "UTC")
def test_any_text_is_read_or_refused(expr: str, after: datetime, zone: str) -> None:
    try:
        assert next_due(expr, after, zone) > after
    except Invalid as refused:
        assert refused.hint  # noqa: PT017 — most texts are refused, not all


@given(st.text("0123456789*?,-/L#monSU @", max_size=20), st.text("0157*?,-/L#", max_size=9))
def test_any_text_of_cron_signs_is_read_or_refused(expr: str, weekday: str) -> None:
    for text in (expr, f"0 0 * * {weekday}", f"0 0 {weekday} * *"):
        try:
            assert next_due(text, A_MONDAY) > at(A_MONDAY)
        except Invalid as refused:
            assert refused.hint  # noqa: PT017 — most texts are refused, not all


@given(st.integers())
def test_any_number_of_milliseconds_is_read_or_refused(after: int) -> None:
    try:
        found = next_due("* * * * *", after, "America/New_York")
    except Invalid:
        assert abs(after) > 50_000_000_000_000  # before the year 400, after 3500
    else:
        assert timedelta(0) < found - at("1970-01-01T00:00Z") - timedelta(milliseconds=after)


@pytest.mark.parametrize(
    "expr, due",
    [
        ("", "2026-05-18T12:35:00Z"),
        ("* * * *", "2026-05-18T13:00:00Z"),  # every second of the first minute of the hour
        ("1 2 3", "2027-02-01T00:00:00Z"),  # day, month, weekday
        ("*/30 * * * * *", "2026-05-18T12:35:00Z"),
        ("@daily", "2026-05-19T00:00:00Z"),
        ("@weekdays", "2026-05-19T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("0 9 ? * MON-fri", "2026-05-19T09:00:00Z"),
        ("0 0 13 * 5", "2026-05-22T00:00:00Z"),  # the 13th or a Friday
        ("0 0 L * *", "2026-05-31T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 9 * * 5L", "2026-05-29T09:00:00Z"),
        ("0 9 * * mon#1", "2026-06-01T09:00:00Z"),
        ("0 0 13 * 1#2", "2026-06-08T00:00:00Z"),  # the occurrence counts for days, too
        ("0 0 * * 2-7/5", "2026-05-19T00:00:00Z"),
        ("0 0 * * 3-7/3", "2026-05-20T00:00:00Z"),
        ("5* * * * *", "2026-05-18T12:50:00Z"),
        ("/5 * * * *", "2026-05-18T13:00:00Z"),
        ("0,0,5 * * * *", "2026-05-18T13:00:00Z"),
    ],
)
def test_expressions_mean_what_the_library_makes_of_them(expr: str, due: str) -> None:
    assert next_due(expr, A_MONDAY) == at(due)


@pytest.mark.parametrize(
    "expr, why",
    [
        ("   ", "0 fields"),
        ("5 5", "2 fields"),
        ("* * * * * * *", "7 fields"),
        ("@reboot", "1 fields"),
        ("60 * * * *", "from 0 to 59"),
        ("0 24 * * *", "from 0 to 23"),
        ("0 0 0 * *", "from 1 to 31"),
        ("0 9 * * 8", "from 0 to 7"),
        ("0 21-5 * * *", "backwards"),
        ("0 0 * * sat-sun", "backwards"),
        ("0 0 * * monday", "'day' is not a month or weekday"),
        ("*/0 * * * *", "step"),
        ("1/2/3 * * * *", "two steps"),
        ("1,,2 * * * *", "empty item"),
        ("3,3 * * * *", "named twice"),
        ("0 0 * * 1#6", "1 to 5"),
        ("0 0 * * 1#2,3", "a single weekday"),
        ("0 0 * * L", "needs a weekday"),
        ("0 0 LL * *", "is not a day of the month"),
        ("0 0 31 4 *", "month 4 has no day 31"),
        ("0 0 30 2 *", "month 2 has no day 30"),
        ("0 0 31 2,4 *", "never occurs"),
        ("0 0 * * 1L#1", "never occurs"),
        ("H 9 * * *", "H is a random value"),
    ],
)
def test_a_bad_expression_is_refused_with_the_reason(expr: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        next_due(expr, A_MONDAY)
    assert why in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    "zone, expr, after, times",
    [  # 02:30 is skipped: an hour later, once
        ("America/New_York", "30 2 * * *", "2026-03-08T05:00Z", "03-08T07:30 03-09T06:30"),
        # 02:30 comes twice: the first time counts
        ("Europe/Madrid", "30 2 * * *", "2026-10-24T12:00Z", "10-25T00:30 10-26T01:30"),
        # the search arrives at 13:00 on the day when an hour is missing
        ("America/New_York", "0 12 * * *", "2026-03-08T05:00Z", "03-09T16:00 03-10T16:00"),
        ("America/New_York", "0 12,13 * * *", "2026-03-08T05:00Z", "03-08T17:00 03-09T16:00"),
        # every hour is due in the repeated hour, too
        ("America/New_York", "0 * * * *", "2026-11-01T04:30Z", "11-01T05:00 11-01T06:00"),
        # a clock goes back by half an hour, and the search stands still
        ("Australia/Lord_Howe", "0 12 * * 0", "2026-04-04T00:00Z", "04-04T14:00 04-04T14:00"),
    ],
)
def test_clock_changes_are_met_as_the_library_meets_them(
    zone: str, expr: str, after: str, times: str
) -> None:
    found = next_times(expr, after, zone, 2)
    assert [f"{moment:%m-%dT%H:%M}" for moment in found] == times.split()


def test_what_is_due_next_goes_on_where_the_library_stands_still() -> None:
    stands = at("2026-04-04T14:00Z")
    assert next_due("0 12 * * 0", stands, "Australia/Lord_Howe") == at("2026-04-05T01:30Z")
    assert next_due("0 * * * *", stands, "Australia/Lord_Howe") > stands


def test_the_start_is_a_time_iso_text_or_milliseconds() -> None:
    due = at("2026-05-18T12:40Z")
    moment = at(A_MONDAY)
    assert next_due("*/10 * * * *", moment) == due
    assert next_due("*/10 * * * *", A_MONDAY) == due
    assert next_due("*/10 * * * *", int(moment.timestamp() * 1000)) == due
    assert next_due("*/10 * * * *", "2026-05-18T14:34:56", "Europe/Madrid") == due


@pytest.mark.parametrize("zone", ["Mars/Base", "", "America", "../zoneinfo/UTC", "/etc", "a\0b"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="is not known here"):
        next_due("@daily", A_MONDAY, zone)


@pytest.mark.parametrize(
    "expr", ["", "  ", "* * * *", "9 * *", "@reboot", "0 0 31 4 *", "a b c d e"]
)
def test_a_new_task_may_not_have_a_doubtful_recurrence(expr: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_recurrence(expr)
    assert refused.value.hint


@pytest.mark.parametrize("expr", [*NICKNAMES, "0 9 * * 1-5", "0 0 9 * * 1-5", "0 0 29 2 *"])
def test_a_new_task_has_its_recurrence_without_outer_spaces(expr: str) -> None:
    assert check_recurrence(f" {expr}\n", "Europe/Madrid") == expr


def test_missed_times_are_those_after_the_due_one_up_to_now() -> None:
    due = at("2026-05-18T09:00Z")
    now = at("2026-05-20T09:00Z")
    missed = [at("2026-05-19T09:00Z"), at("2026-05-20T09:00Z")]
    assert missed_times("0 9 * * *", due, now, "UTC") == missed
    assert missed_times("0 9 * * *", due, now, "UTC", limit=1) == missed[:1]
    assert missed_times("0 9 * * *", due, now - timedelta(milliseconds=1), "UTC") == missed[:1]
    assert missed_times("0 9 * * *", due, due, "UTC") == []


def no_link(path: str) -> str:
    raise FileNotFoundError(path)


def test_the_zone_is_the_given_one_else_tz_else_the_systems_else_utc() -> None:
    def madrid(path: str) -> str:
        return "/usr/share/zoneinfo/Europe/Madrid"

    assert zone_name("Asia/Kolkata", {"TZ": "America/New_York"}, madrid) == "Asia/Kolkata"
    assert zone_name(None, {"TZ": "America/New_York"}, madrid) == "America/New_York"
    assert zone_name(None, {"TZ": "EST5EDT4,M3"}, madrid) == "Europe/Madrid"
    assert zone_name(None, {}, madrid) == "Europe/Madrid"
    assert zone_name(None, {}, lambda _: "/etc/somewhere") == "UTC"
    assert zone_name(None, {"TZ": ""}, no_link) == "UTC"
    with pytest.raises(Invalid, match="Mars/Base"):
        zone_name("Mars/Base", {}, madrid)

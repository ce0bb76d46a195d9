"""Two ways to write time, one way to read both."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.clock import iso
from threadkeep.errors import Invalid
from threadkeep.mailbox.rows import normal_moment, parse_moment, read_moment, sqlite_form

MOMENT = 1_786_706_395_136  # 2026-08-14T11:19:55.136Z
# What either form can write: the years 1 to 9999.
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999)


def test_the_two_forms_are_those_of_the_contract() -> None:
    assert iso(MOMENT) == "2026-08-14T11:19:55.136Z"
    assert sqlite_form(MOMENT) == "2026-08-14 11:19:55"


@given(moments)
def test_both_forms_are_read_back(ms: int) -> None:
    assert read_moment(iso(ms)) == ms
    assert read_moment(sqlite_form(ms)) == ms // 1000 * 1000


@given(moments, moments)
def test_the_form_of_the_database_sorts_as_text(one: int, other: int) -> None:
    earlier, later = sorted((one, other))
    assert sqlite_form(earlier) <= sqlite_form(later)


@pytest.mark.parametrize(
    "text",
    [
        "2026-08-14T11:19:55.136Z",
        "2026-08-14T11:19:55.136+00:00",
        "2026-08-14T13:19:55.136+02:00",
        "2026-08-14T07:19:55.136-04:00",
        "2026-08-14 11:19:55.136",
        "2026-08-14T11:19:55.136000+00:00",
        " 2026-08-14T11:19:55.136Z ".strip(),
    ],
)
def test_every_way_to_name_a_zone_is_read(text: str) -> None:
    assert read_moment(text) == MOMENT


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "1700000000", "2460000.5", "12:00", "2026-13-01T00:00:00Z", "now", "-"],
)
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert read_moment(text) is None


@given(st.text(max_size=30))
def test_any_text_is_read_or_is_no_time(text: str) -> None:
    found = read_moment(text)
    assert found is None or isinstance(found, int)


def test_a_given_time_without_a_zone_is_meant_in_the_zone_of_the_host() -> None:
    assert normal_moment("2026-08-14 09:00", "Europe/Madrid") == "2026-08-14T07:00:00.000Z"
    assert normal_moment("2026-01-14T09:00", "America/New_York") == "2026-01-14T14:00:00.000Z"
    assert normal_moment("2026-08-14T09:00Z", "Europe/Madrid") == "2026-08-14T09:00:00.000Z"
    naive = datetime(2026, 8, 14, 9, 0)  # noqa: DTZ001  (a time without a zone is the point)
    assert parse_moment(naive, "Europe/Madrid") == parse_moment("2026-08-14T07:00Z")


def test_a_given_time_may_be_of_three_kinds() -> None:
    moment = datetime(2026, 8, 14, 13, 19, 55, 136_000, tzinfo=timezone(timedelta(hours=2)))
    assert parse_moment(moment) == MOMENT
    assert parse_moment(MOMENT) == MOMENT
    assert parse_moment("2026-08-14T11:19:55.136Z") == MOMENT
    assert normal_moment(None) is None


@pytest.mark.parametrize(
    "given_time",
    ["tomorrow", "", "1700000000", 10**18, -(10**17), "2026-02-30", "0001-01-01T00:00+14:00"],
)
def test_what_is_no_time_is_refused(given_time: str | int) -> None:
    with pytest.raises(Invalid, match="is not a time"):
        parse_moment(given_time)


@given(moments)
def test_a_written_time_is_always_one_that_can_be_read_again(ms: int) -> None:
    written = normal_moment(ms)
    assert written is not None
    assert parse_moment(written) == ms
    assert datetime.fromisoformat(written).tzinfo == UTC

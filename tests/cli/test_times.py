"""Points in time as people write them."""

from datetime import datetime

import pytest

from threadkeep.cli.times import moment
from threadkeep.errors import Invalid

NOW = datetime(2026, 1, 15, 10, 30).timestamp()  # noqa: DTZ001  (days are local ones)


@pytest.mark.parametrize(
    "text, start, end",
    [
        ("2026-01-14", (2026, 1, 14), (2026, 1, 14, 23, 59, 59, 999_999)),
        ("yesterday", (2026, 1, 14), (2026, 1, 14, 23, 59, 59, 999_999)),
        (" Today ", (2026, 1, 15), (2026, 1, 15, 23, 59, 59, 999_999)),
        ("2026-01-14T09:00", (2026, 1, 14, 9), (2026, 1, 14, 9)),
        ("2h", (2026, 1, 15, 8, 30), (2026, 1, 15, 8, 30)),
    ],
)
def test_a_day_is_meant_whole(text: str, start: tuple[int, ...], end: tuple[int, ...]) -> None:
    local = [datetime(*when).timestamp() for when in (start, end)]  # type: ignore[arg-type]  # noqa: DTZ001
    assert [moment(text, NOW), moment(text, NOW, end=True)] == local


@pytest.mark.parametrize("text", ["", "tomorrow", "7", "2026-13-01", "-1d", "x" * 99])
def test_what_is_no_time_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(Invalid, match="cannot read") as refused:
        moment(text, NOW)
    assert "yesterday" in refused.value.hint

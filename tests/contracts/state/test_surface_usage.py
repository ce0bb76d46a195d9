"""Token counts and costs as version 6 has them: added by default, set with `absolute`."""

from typing import Any

import pytest

from threadkeep.state.hermes_state import SessionDB

COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


@pytest.fixture
def counted(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


def get(db: SessionDB, *names: str) -> list[Any]:
    session = db.get_session("s")
    assert session is not None
    return [session[name] for name in names]


def test_absolute_sets_all_five_counters(counted: SessionDB) -> None:
    nine: dict[str, Any] = dict.fromkeys(COUNTERS, 9)
    counted.update_token_counts("s", **nine)
    counted.update_token_counts("s", input_tokens=3, output_tokens=4, absolute=True)
    assert get(counted, *COUNTERS) == [3, 4, 0, 0, 0]


def test_counts_can_be_given_by_place(counted: SessionDB) -> None:
    counted.update_token_counts("s", 1, 2, "m", 3, 4, 5)
    assert get(counted, *COUNTERS, "model") == [1, 2, 3, 4, 5, "m"]


def test_first_model_stays(counted: SessionDB) -> None:
    counted.update_token_counts("s", model="first")
    counted.update_token_counts("s", model="second")
    counted.update_token_counts("s", model="third", absolute=True)
    assert get(counted, "model") == ["first"]


@pytest.mark.parametrize("name", ["billing_provider", "billing_base_url", "billing_mode"])
@pytest.mark.parametrize("absolute", [False, True])
def test_first_billing_stays(counted: SessionDB, name: str, absolute: bool) -> None:  # noqa: FBT001
    first: dict[str, Any] = {name: "first"}
    second: dict[str, Any] = {name: "second"}
    counted.update_token_counts("s", **first, absolute=absolute)
    counted.update_token_counts("s", **second, absolute=absolute)
    assert get(counted, name) == ["first"]


@pytest.mark.parametrize("name", ["cost_status", "cost_source", "pricing_version"])
@pytest.mark.parametrize("absolute", [False, True])
def test_newest_word_on_costs_wins(counted: SessionDB, name: str, absolute: bool) -> None:  # noqa: FBT001
    for value in ("first", "second", None):
        given: dict[str, Any] = {name: value}
        counted.update_token_counts("s", **given, absolute=absolute)
    assert get(counted, name) == ["second"]


def test_estimated_cost_adds_and_none_makes_it_zero(counted: SessionDB) -> None:
    assert get(counted, "estimated_cost_usd") == [None]
    counted.update_token_counts("s", input_tokens=1)
    assert get(counted, "estimated_cost_usd") == [0.0]
    counted.update_token_counts("s", estimated_cost_usd=0.5)
    counted.update_token_counts("s", estimated_cost_usd=0.25)
    assert get(counted, "estimated_cost_usd") == [0.75]


def test_absolute_estimated_cost_is_set_and_none_is_zero(counted: SessionDB) -> None:
    counted.update_token_counts("s", estimated_cost_usd=0.5)
    counted.update_token_counts("s", estimated_cost_usd=0.25, absolute=True)
    assert get(counted, "estimated_cost_usd") == [0.25]
    counted.update_token_counts("s", absolute=True)
    assert get(counted, "estimated_cost_usd") == [0.0]


def test_absolute_actual_cost_is_set_and_none_keeps_it(counted: SessionDB) -> None:
    counted.update_token_counts("s", actual_cost_usd=0.5, absolute=True)
    counted.update_token_counts("s", actual_cost_usd=0.25, absolute=True)
    counted.update_token_counts("s", absolute=True)
    assert get(counted, "actual_cost_usd") == [0.25]


def test_nothing_given_adds_nothing(counted: SessionDB) -> None:
    counted.update_token_counts("s", input_tokens=7, actual_cost_usd=1.0)
    counted.update_token_counts("s")
    assert get(counted, *COUNTERS, "actual_cost_usd") == [7, 0, 0, 0, 0, 1.0]


def test_unknown_session_is_not_made(db: SessionDB) -> None:
    db.update_token_counts("nobody", input_tokens=1)
    assert db.session_count() == 0

"""What answers cost: by the price list, by the size of a request, and without a list."""

import sys
from collections.abc import Iterator

import pytest

from threadkeep.knowledge import prices
from threadkeep.knowledge.prices import STEPS, TokenCounts, cost_of, is_priced, step_of
from threadkeep.knowledge.store import QUERIES


@pytest.fixture
def no_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    prices.list_version.cache_clear()
    monkeypatch.setattr(sys, "path", [])
    yield
    prices.list_version.cache_clear()


def test_an_answer_costs_what_its_tokens_cost() -> None:
    counts = TokenCounts(1_000, 100, cache_read=500, cache_write=200)
    assert is_priced()
    assert cost_of("claude-sonnet-4-5-20250929", "claude-code", counts) == (
        1_000 * 3 + 100 * 15 + 500 * 0.3 + 200 * 3.75
    )


def test_what_is_cached_for_an_hour_costs_more() -> None:
    short = cost_of("claude-sonnet-4-5", "claude-code", TokenCounts(0, 0, cache_write=1_000))
    long = cost_of("claude-sonnet-4-5", "claude-code", TokenCounts(0, 0, 0, 1_000, 1_000))
    assert (short, long) == (3_750, 6_000)


def test_a_large_request_costs_more_for_each_token() -> None:
    small = cost_of("gemini-2.5-pro", "gemini-cli", TokenCounts(200_000, 0))
    large = cost_of("gemini-2.5-pro", "gemini-cli", TokenCounts(200_001, 0))
    assert (small, large) == (250_000, 500_002)


@pytest.mark.parametrize("model", ["", "<synthetic>", "nobody/knows-it", "opus"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert cost_of(model, "claude-code", TokenCounts(10, 10)) is None


def test_a_model_is_found_with_its_provider_before_it() -> None:
    named = cost_of("anthropic/claude-sonnet-4-5", "opencode", TokenCounts(1_000, 0))
    assert named == cost_of("claude-sonnet-4-5", "claude-code", TokenCounts(1_000, 0)) == 3_000


def test_without_a_price_list_nothing_has_a_price(no_list: None) -> None:
    assert not is_priced()
    assert cost_of("gpt-5", "codex", TokenCounts(10, 10)) is None


def test_sql_and_python_know_the_same_steps() -> None:
    assert all(f"THEN {step}" in QUERIES["browse_sums"] for step in STEPS[:-1])
    assert [step_of(size) for size in (0, 32_000, 32_001, 199_999, 10**9)] == [
        *(0, 0, 32_000, 128_000, 524_288),
    ]

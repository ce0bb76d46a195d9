"""Five buckets of tokens."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.chat.wire.usage import BUCKETS, from_ai_sdk, validate_usage
from threadkeep.errors import Invalid

COUNTS = st.none() | st.integers(0, 10**9)


def buckets(*counts: int) -> dict[str, int]:
    return dict(zip(BUCKETS, counts, strict=True))


@pytest.mark.parametrize(
    "usage,expected",
    [
        ({}, (0, 0, 0, 0, 0)),
        ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}, (10, 5, 0, 0, 0)),
        # v5
        (
            {
                "inputTokens": 100,
                "outputTokens": 50,
                "reasoningTokens": 20,
                "cachedInputTokens": 60,
            },
            (40, 30, 20, 60, 0),
        ),
        # v6 and v7
        (
            {
                "inputTokens": 100,
                "inputTokenDetails": {
                    "noCacheTokens": 10,
                    "cacheReadTokens": 60,
                    "cacheWriteTokens": 30,
                },
                "outputTokens": 50,
                "outputTokenDetails": {"textTokens": 30, "reasoningTokens": 20},
                "reasoningTokens": 20,
                "cachedInputTokens": 60,
                "totalTokens": 150,
                "raw": {"anything": 1},
            },
            (10, 30, 20, 60, 30),
        ),
        # the details count where they differ from the older fields
        (
            {"inputTokens": 9, "inputTokenDetails": {"cacheReadTokens": 4}, "cachedInputTokens": 1},
            (5, 0, 0, 4, 0),
        ),
        # a provider that reports the cache beside the input, not in it
        ({"inputTokens": 5, "cachedInputTokens": 60}, (0, 0, 0, 60, 0)),
        ({"outputTokens": 5, "reasoningTokens": 9}, (0, 0, 9, 0, 0)),
        # only details
        ({"inputTokenDetails": {"noCacheTokens": 7, "cacheReadTokens": 2}}, (7, 0, 0, 2, 0)),
        ({"outputTokenDetails": {"textTokens": 7, "reasoningTokens": 2}}, (0, 7, 2, 0, 0)),
        ({"inputTokens": None, "outputTokenDetails": None}, (0, 0, 0, 0, 0)),
    ],
)
def test_ai_sdk_usage_is_sorted_into_buckets(
    usage: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert from_ai_sdk(usage) == buckets(*expected)


@given(
    st.fixed_dictionaries(
        {"inputTokens": COUNTS, "outputTokens": COUNTS},
        optional={
            "reasoningTokens": COUNTS,
            "cachedInputTokens": COUNTS,
            "inputTokenDetails": st.fixed_dictionaries(
                {"cacheReadTokens": COUNTS, "cacheWriteTokens": COUNTS, "noCacheTokens": COUNTS}
            ),
            "outputTokenDetails": st.fixed_dictionaries(
                {"reasoningTokens": COUNTS, "textTokens": COUNTS}
            ),
        },
    )
)
def test_any_usage_gives_five_valid_buckets(usage: dict[str, Any]) -> None:
    result = from_ai_sdk(usage)
    assert validate_usage(result) == result
    assert result["input"] + result["cache_read"] + result["cache_write"] >= (
        usage["inputTokens"] or 0
    )
    assert result["output"] + result["reasoning"] >= (usage["outputTokens"] or 0)


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, math.nan, 2**53, [], {}])
def test_counts_that_are_none_are_refused_by_name(bad: object) -> None:
    with pytest.raises(Invalid, match="'inputTokens'"):
        from_ai_sdk({"inputTokens": bad})
    with pytest.raises(Invalid, match="'cacheReadTokens'"):
        from_ai_sdk({"inputTokenDetails": {"cacheReadTokens": bad}})
    with pytest.raises(Invalid, match="'reasoning'"):
        validate_usage({"reasoning": bad})


@pytest.mark.parametrize("bad", [None, [], 7, "x"])
def test_usage_must_be_an_object(bad: Any) -> None:
    with pytest.raises(Invalid, match="object"):
        from_ai_sdk(bad)
    with pytest.raises(Invalid, match="object"):
        validate_usage(bad)
    if bad is not None:
        with pytest.raises(Invalid, match="'outputTokenDetails'"):
            from_ai_sdk({"outputTokenDetails": bad})


def test_missing_buckets_are_zero_and_unknown_ones_refused() -> None:
    assert validate_usage({}) == buckets(0, 0, 0, 0, 0)
    assert validate_usage({"output": 3}) == buckets(0, 3, 0, 0, 0)
    with pytest.raises(Invalid, match=r"'inputTokens'.*from_ai_sdk"):
        validate_usage({"inputTokens": 3})
    with pytest.raises(Invalid, match="'input'"):
        validate_usage({"input": None})

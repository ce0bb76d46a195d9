"""Five buckets of tokens: from the AI SDK's shape, per reply, and summed over a session."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.chats import Factory, new_session, record, reply, text_chunks, turn
from threadkeep.chat import usage as usage_module
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.chat.usage import BUCKETS, from_ai_sdk, validate_usage
from threadkeep.errors import Conflict, Invalid, NotFound

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


# ---------------------------------------------------------------------- in the store


def test_usage_is_on_the_reply_and_in_the_columns_of_the_session(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    _, answer = turn(store, session, "q", "a")
    given = buckets(1, 20, 300, 4000, 50000)
    assert store.record_usage(session, given, message=answer) == given
    (message,) = factory.rows(store, "SELECT * FROM chat_messages WHERE id = ?", answer)
    assert json.loads(message["metadata_json"])["usage"] == given
    (row,) = factory.rows(store, "SELECT * FROM chat_sessions")
    assert (row["prompt_tokens"], row["completion_tokens"]) == (1, 20)
    assert (row["reasoning_tokens"], row["cache_read"], row["cache_write"]) == (300, 4000, 50000)
    assert row["total_tokens"] == 54321
    assert row["cost_usd"] == 0
    assert store.session(session).usage == given
    assert store.verify().ok


def test_steps_add_up_and_replacing_starts_anew(store: ChatStore, session: Session) -> None:
    _, answer = turn(store, session, "q", "a")
    store.record_usage(session, {"input": 5, "output": 1})
    assert store.record_usage(session, {"input": 5, "reasoning": 2}) == buckets(10, 1, 2, 0, 0)
    assert store.session(session).total_tokens == 13
    store.record_usage(session, {"input": 3}, message=answer, replace=True)
    assert store.session(session).usage == buckets(3, 0, 0, 0, 0)
    assert store.message(session, answer)["metadata"]["usage"] == buckets(3, 0, 0, 0, 0)


def test_step_adds_to_what_a_message_put_in_says(store: ChatStore, session: Session) -> None:
    metadata = {"usage": {"input": 100, "output": 7}}
    store.put_message(session, {"id": "m", "role": "assistant", "parts": [], "metadata": metadata})
    assert store.record_usage(session, {"input": 1}, message="m") == buckets(101, 7, 0, 0, 0)
    assert store.session(session).total_tokens == 108


def test_usage_goes_to_the_latest_reply_not_to_a_summary(
    store: ChatStore, session: Session
) -> None:
    _, answer = turn(store, session, "q", "a")
    store.compact(session, "so far", tail_turns=1, summary_tokens=50)
    store.record_usage(session, {"output": 9})
    assert store.message(session, answer)["metadata"]["usage"]["output"] == 9
    assert store.session(session).usage == buckets(50, 9, 0, 0, 0)


def test_chunks_never_count_as_usage(store: ChatStore, session: Session) -> None:
    chunks = text_chunks("a")
    chunks[-1] = {
        "type": "finish",
        "messageMetadata": {"usage": {"input": 99, "output": 99}, "totalUsage": {"input": 9}},
    }
    chunks[-2] = {"type": "finish-step", "usage": {"input": 99}}
    answer = record(store, session, chunks)
    assert store.session(session).total_tokens == 0
    used, _ = store.spend(session)
    assert used == buckets(0, 0, 0, 0, 0)
    store.record_usage(session, {"input": 2}, message=answer)
    assert store.session(session).total_tokens == 2
    assert store.message(session, answer)["metadata"]["usage"] == buckets(2, 0, 0, 0, 0)


def test_usage_may_come_while_the_reply_is_recorded(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in text_chunks("a"):
            recorder.feed(chunk)
            if chunk["type"] == "finish-step":
                store.record_usage(session, {"input": 5})
    assert store.session(session).total_tokens == 5


def test_more_cached_than_input_gives_no_negative_bucket(
    store: ChatStore, session: Session
) -> None:
    turn(store, session, "q", "a")
    step = from_ai_sdk({"inputTokens": 5, "cachedInputTokens": 60, "outputTokens": 2})
    store.record_usage(session, step)
    assert store.session(session).usage == buckets(0, 2, 0, 60, 0)


def test_cost_is_kept_only_where_a_writer_reports_it(store: ChatStore, session: Session) -> None:
    asked, _ = turn(store, session, "q", "a", usage={"input": 10**6})
    assert store.session(session).cost_usd == 0
    store.record_usage(session, {}, cost_usd=0.25)
    store.record_usage(session, {}, cost_usd=0.5)
    assert store.session(session).cost_usd == 0.75
    store.record_usage(session, {}, cost_usd=0.1, replace=True)
    assert store.session(session).cost_usd == pytest.approx(0.1)
    store.rewind(session, asked)
    assert store.session(session).cost_usd == pytest.approx(0.1)


def test_spend_counts_what_is_hidden_and_summarised(store: ChatStore, session: Session) -> None:
    asked, _ = turn(store, session, "q", "a", usage={"input": 1})
    turn(store, session, "q2", "a2", usage={"input": 10})
    store.record_usage(session, {}, cost_usd=0.5)
    store.rewind(session, asked)
    reply(store, session, "a3", usage={"input": 100})
    store.compact(session, "sum", summary_tokens=1000)
    assert store.session(session).total_tokens == 1000
    used, cost = store.spend(session)
    assert (used["input"], cost) == (1111, 0.5)


def test_usage_that_another_program_wrote_counts_too(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    turn(store, session, "q", "a", usage={"input": 1})
    with factory.raw(store) as other:
        other.execute(
            "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at,"
            " updated_at) VALUES ('theirs', ?, 'assistant', ?, 9000000000000, 1)",
            (session.id, json.dumps({"usage": {"input": 10, "output": 100, "strange": "x"}})),
        )
        other.execute(
            "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at,"
            " updated_at) VALUES ('broken', ?, 'assistant', ?, 9000000000001, 1)",
            (session.id, json.dumps({"usage": {"input": "10", "output": -5, "reasoning": 1.0}})),
        )
    reply(store, session, "last", usage={"input": 1000})
    assert store.session(session).usage == buckets(1011, 100, 1, 0, 0)


def no_recount(*_: object) -> None:
    pytest.fail("the whole session was read")


def test_first_usage_of_a_recorded_reply_is_added_without_reading_the_session(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, _ = turn(store, session, "q", "a", usage={"input": 1})
    store.put_message(session, put_in({"input": 10}))
    store.compact(session, "sum", tail_start=asked, summary_tokens=100)
    finished = reply(store, session, "finished")
    with store.record(session) as recorder, monkeypatch.context() as patch:
        recorder.feed({"type": "start"})
        patch.setattr(usage_module, "usage_by_message", no_recount)
        store.record_usage(session, {"input": 1000}, message=finished, cost_usd=0.5)
        store.record_usage(session, {"input": 10_000})
    assert store.session(session).usage == buckets(11_111, 0, 0, 0, 0)
    assert store.session(session).cost_usd == 0.5
    store.unrewind(session)  # rebuilds the sums
    assert store.session(session).usage == buckets(11_111, 0, 0, 0, 0)


def test_first_usage_before_a_compaction_is_not_added(store: ChatStore, session: Session) -> None:
    turn(store, session, "q", "a", usage={"input": 1})
    _, summarised = turn(store, session, "q", "a")
    store.compact(session, "sum", summary_tokens=7)
    store.record_usage(session, {"input": 5}, message=summarised)
    assert store.session(session).usage == buckets(7, 0, 0, 0, 0)


@pytest.mark.parametrize("place", [2, 9_000_000_000_000])
def test_compaction_of_another_program_is_seen_at_the_next_usage(
    store: ChatStore, session: Session, place: int, factory: Factory
) -> None:
    turn(store, session, "q", "a", usage={"input": 1})
    with factory.raw(store) as other:
        other.execute(
            "INSERT INTO chat_messages(id, session_id, role, metadata_json, created_at,"
            " updated_at) VALUES ('theirs', ?, 'assistant', '{}', ?, 1)",
            (session.id, place),
        )
        other.execute(
            'INSERT INTO chat_parts(id, message_id, session_id, "index", type, data_json,'
            " created_at, updated_at) VALUES ('p', 'theirs', ?, 0, 'data-compaction',"
            ' \'{"summary": "s"}\', 1, 1)',
            (session.id,),
        )
    reply(store, session, "last", usage={"input": 1000})
    assert store.session(session).total_tokens == (1001 if place == 2 else 1000)


# ---------------------------------------------------------------------- decided once


STREAMED = {"type": "finish", "messageMetadata": {"usage": {"input": 99}}}


def put_in(usage: dict[str, int] | None) -> dict[str, Any]:
    metadata = None if usage is None else {"usage": usage}
    return {"id": "m", "role": "assistant", "parts": [], "metadata": metadata}


def recounted(store: ChatStore, session: Session | str) -> int:
    """Return the total after the sums were rebuilt, and check what was spent against it."""
    store.unrewind(session)
    total = store.session(session).total_tokens
    assert total == sum(store.spend(session)[0].values())
    return total


def test_what_a_stream_says_counts_as_little_in_a_branch(
    store: ChatStore, session: Session
) -> None:
    turn(store, session, "q", "a", usage={"input": 5})
    answer = record(store, session, [*text_chunks("b")[:-1], STREAMED])
    branch = store.fork(session)
    assert store.session(branch).total_tokens == recounted(store, session) == 5
    assert recounted(store, store.fork(branch)) == 5
    assert store.record_usage(branch, {"input": 1})["input"] == 1
    assert store.record_usage(session, {"input": 1}, message=answer)["input"] == 1
    assert recounted(store, session) == recounted(store, branch) == 6


def test_stream_that_goes_on_with_a_message_put_in_changes_no_count(
    store: ChatStore, session: Session
) -> None:
    store.put_message(session, put_in({"input": 100, "output": 7}))
    record(store, session, [*text_chunks("more")[:-1], STREAMED], message_id="m")
    assert recounted(store, session) == recounted(store, store.fork(session)) == 107
    assert store.record_usage(session, {"input": 1}, message="m") == buckets(101, 7, 0, 0, 0)
    assert recounted(store, session) == 108


def test_message_put_in_again_says_its_usage_anew_until_usage_is_recorded(
    store: ChatStore, session: Session
) -> None:
    store.put_message(session, put_in(None))
    branch = store.fork(session)
    store.put_message(session, put_in({"input": 100}))
    store.put_message(session, put_in({"input": 20}))
    assert recounted(store, session) == 20
    store.put_message(session, put_in(None))
    assert recounted(store, session) == 0
    store.record_usage(session, {"input": 3}, message="m")
    store.put_message(session, put_in({"input": 100}))
    assert recounted(store, session) == 3
    (copy,) = store.ui_messages(branch)
    store.put_message(branch, {**copy, "metadata": {"usage": {"input": 8}}})
    assert recounted(store, branch) == 8


def test_recorded_reply_that_comes_back_from_the_client_counts_no_more_than_before(
    store: ChatStore, session: Session
) -> None:
    answer = record(store, session, [*text_chunks("b")[:-1], STREAMED])
    branch = store.fork(session)
    store.put_message(session, store.message(session, answer))
    store.put_message(branch, store.ui_messages(branch)[0])
    assert recounted(store, session) == recounted(store, branch) == 0


def test_usage_of_a_run_is_written_on_the_run(store: ChatStore, session: Session) -> None:
    _, first = turn(store, session, "q", "a")
    reply(store, session, "b")
    store.record_usage(session, {"input": 3}, message=first, cost_usd=0.5)
    store.record_usage(session, {"output": 4}, message=first)
    runs = store.runs(session)
    assert runs[0].usage == buckets(3, 4, 0, 0, 0)
    assert runs[0].cost_usd == 0.5
    assert sum(runs[1].usage.values()) == 0


def test_usage_belongs_to_a_reply_of_the_session(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    other = new_session(store)
    asked, answer = turn(store, other, "q", "a")
    store.say(session, "q")
    before = factory.contents(store)
    with pytest.raises(NotFound, match=session.id):
        store.record_usage(session, {"input": 1})
    with pytest.raises(Invalid, match=asked):
        store.record_usage(other, {"input": 1}, message=asked)
    with pytest.raises(Conflict, match=other.id):
        store.record_usage(session, {"input": 1}, message=answer)
    for cost in (-1, math.nan, math.inf, "1", True):
        with pytest.raises(Invalid, match="cost"):
            store.record_usage(other, {}, cost_usd=cost)  # type: ignore[arg-type]
    assert factory.contents(store) == before

"""The recorder: exact at every chunk, linear, and truthful about what was stored."""

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.lengths import at_length
from tests.support.chats import Factory
from tests.support.chunks import reduce_chunks
from tests.support.golden import golden, without_trailing_steps
from tests.support.streams import random_case
from threadkeep.chat.recorder import Recorder
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.chat.wire.reduce import StreamState
from threadkeep.errors import (
    Closed,
    Conflict,
    Invalid,
    NotFound,
    ProtocolViolation,
    StorageFull,
    TooLarge,
)

Json = dict[str, Any]

TEXT: list[Json] = [
    {"type": "start", "messageId": "reply"},
    {"type": "start-step"},
    {"type": "text-start", "id": "1"},
    {"type": "text-delta", "id": "1", "delta": "Hello, "},
    {"type": "text-delta", "id": "1", "delta": "world"},
    {"type": "text-end", "id": "1"},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "stop"},
]


@pytest.fixture
def session(store: ChatStore) -> Session:
    return store.create_session(agent="tester", model="acme/large")


def plain_text(factory: Factory, store: ChatStore, message_id: str) -> list[str]:
    """What a program that knows only the three tables sees of a message's texts."""
    sql = 'SELECT data_json FROM chat_parts WHERE message_id = ? ORDER BY "index"'
    return [
        json.loads(row["data_json"]).get("text", "") for row in factory.rows(store, sql, message_id)
    ]


def journal_rows(factory: Factory, store: ChatStore) -> int:
    with factory.raw(store) as other:
        return int(other.execute("SELECT count(*) FROM chat_events").fetchone()[0])


# ---------------------------------------------------------------------- exactness


def test_state_is_exact_after_every_chunk_and_journal_is_gone_at_the_end(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    state = StreamState(message_id="reply")
    with store.record(session) as recorder:
        for chunk in TEXT:
            recorder.feed(chunk)
            state.apply(chunk)
            assert store.message(session, "reply")["parts"] == state.message()["parts"]
        assert journal_rows(factory, store) == len(TEXT)
    assert journal_rows(factory, store) == 0
    assert store.message(session, "reply") == reduce_chunks(TEXT)


@pytest.mark.parametrize("seed", range(60))
def test_random_streams_read_back_exactly_after_every_chunk(
    store: ChatStore, session: Session, seed: int
) -> None:
    case = random_case(seed, 6 + seed % 2)
    initial = case.get("initial_message")
    if initial is not None and initial["role"] != "assistant":
        initial = None  # the SDK ignores it
    if initial is not None:
        store.put_message(session, initial)
    protocol = case["version"]
    state = StreamState(initial, protocol=protocol)
    begun = initial["id"] if initial else None
    with store.record(session, begun, protocol=protocol) as recorder:
        for chunk in case["chunks"]:
            recorder.feed(chunk)
            try:
                state.apply({k: v for k, v in chunk.items() if (k, v) != ("messageId", "")})
            except ProtocolViolation:
                continue
            if recorder.message_id is not None:
                found = store.message(session, recorder.message_id)
                assert found["parts"] == state.message()["parts"]
    assert store.verify().problems == []


@pytest.fixture(scope="module")
def compare(shared_data: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "compare", shared_data / "data" / "chat" / "compare.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin_case(
    store: ChatStore, case: Json, protocol: int, *, strict: bool = False
) -> tuple[Session, Recorder]:
    session = store.create_session(agent="tester", model={})
    initial = case.get("initial_message")
    if initial:
        store.put_message(session, initial)
    message_id = initial["id"] if initial and initial["role"] == "assistant" else None
    return session, store.record(session, message_id, strict=strict, protocol=protocol)


@pytest.mark.parametrize("protocol", [6, 7])
def test_golden_cases_equal_the_sdk_after_every_chunk(
    store: ChatStore, shared_data: Path, compare: ModuleType, protocol: int
) -> None:
    given = golden(shared_data, protocol)
    snapshots = given.snapshots()
    for case in given.cases()[:: at_length(1, 4)]:
        session, recorder = begin_case(store, case, protocol)
        with recorder:
            for chunk, expected in zip(case["chunks"], snapshots[case["id"]], strict=True):
                recorder.feed(chunk)
                found = store.message(session, recorder.message_id or "")
                ignored = {} if expected["id"] else {"id": ""}
                left = compare.normalize(expected) | ignored
                assert compare.diff(left, compare.normalize(found) | ignored) == []
        same, why = compare.check(case, store.message(session, recorder.message_id or ""))
        assert same, (case["id"], why)


@pytest.mark.parametrize("protocol", [6, 7])
def test_golden_violations_raise_in_strict_mode_and_keep_what_came_before(
    store: ChatStore, shared_data: Path, compare: ModuleType, protocol: int
) -> None:
    for case in golden(shared_data, protocol).invalid():
        session, recorder = begin_case(store, case, protocol, strict=True)
        with pytest.raises(ProtocolViolation), recorder:
            for chunk in case["chunks"]:
                recorder.feed(chunk)
        found = without_trailing_steps(store.message(session, recorder.message_id or ""))
        emitted = {**case, "final_message": without_trailing_steps(case["final_message"])}
        same, why = compare.check(emitted, found)
        assert same, (case["id"], why)
        assert store.runs(session)[0].end_reason == "error"


def test_lenient_mode_skips_and_counts_what_does_not_fit(
    store: ChatStore, session: Session
) -> None:
    with store.record(session) as recorder:
        recorder.feed({"type": "text-delta", "id": "9", "delta": "lost"})
        for chunk in TEXT:
            recorder.feed(chunk)
    assert recorder.violation_count == 1
    assert "9" in recorder.violations[0]
    assert store.message(session, "reply")["parts"] == reduce_chunks(TEXT)["parts"]


def test_unknown_chunks_change_no_part_and_stay_in_the_journal(
    store: ChatStore, session: Session
) -> None:
    with store.record(session) as recorder:
        for chunk in (*TEXT[:4], {"type": "holo-gram", "payload": [1]}):
            recorder.feed(chunk)
        kinds = [event.data["type"] for event in store.tail(session, follow=False)]
        assert kinds[-1] == "holo-gram"
        assert recorder.message is not None
        assert len(recorder.message["parts"]) == 2


@pytest.mark.parametrize("text", ["\ud83d", "a\0b", "\ude00\ud83d", "💾", "\u2028"])
def test_any_text_survives(store: ChatStore, session: Session, text: str) -> None:
    with store.record(session, "m") as recorder:
        for chunk in TEXT[2:4]:
            recorder.feed(chunk)
        recorder.feed({"type": "text-delta", "id": "1", "delta": text})
    assert store.message(session, "m")["parts"][0]["text"] == "Hello, " + text


def test_surrogate_pair_split_over_two_deltas_is_one_character(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m") as recorder:
        recorder.feed(TEXT[2])
        for half in ("\ud83d", "\ude00"):
            recorder.feed({"type": "text-delta", "id": "1", "delta": half})
        assert store.message(session, "m")["parts"][0]["text"] == "😀"
    assert plain_text(factory, store, "m") == ["😀"]


# ---------------------------------------------------------------------- folding


def count_part_writes(factory: Factory, store: ChatStore) -> None:
    with factory.raw(store) as other:
        other.execute("CREATE TABLE writes(n)")
        for event in ("INSERT", "UPDATE"):
            other.execute(
                f"CREATE TRIGGER count_{event} AFTER {event} ON chat_parts"
                " BEGIN INSERT INTO writes VALUES (length(new.data_json)); END"
            )


def part_writes(factory: Factory, store: ChatStore) -> tuple[int, int]:
    with factory.raw(store) as other:
        row = other.execute("SELECT count(*), sum(n) FROM writes").fetchone()
    return int(row[0]), int(row[1])


@pytest.mark.parametrize(
    "start, delta",
    [
        ({"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "x" * 10}),
        (
            {"type": "reasoning-start", "id": "1"},
            {"type": "reasoning-delta", "id": "1", "delta": "x" * 10},
        ),
        (
            {"type": "tool-input-start", "toolCallId": "1", "toolName": "t"},
            {"type": "tool-input-delta", "toolCallId": "1", "inputTextDelta": "x" * 10},
        ),
    ],
)
def test_part_row_is_rewritten_logarithmically_and_never_an_eighth_behind(
    store: ChatStore, session: Session, start: Json, delta: Json, factory: Factory
) -> None:
    count_part_writes(factory, store)
    now = [0.0]
    with store.record(session, "m") as recorder:
        recorder._monotonic = lambda: now[0]  # time stands still: only size decides
        recorder.feed(start)
        first = {**delta, "inputTextDelta": '"' + "x" * 9} if "inputTextDelta" in delta else delta
        for count in range(3000):
            recorder.feed(delta if count else first)
            if count % 100 == 0:
                (row,) = factory.rows(store, "SELECT data_json FROM chat_parts")
                part = json.loads(row["data_json"])
                seen = len(part.get("rawInput") or part.get("text") or "")
                assert seen >= (count + 1) * 10 * 7 / 8 - 1
    writes, characters = part_writes(factory, store)
    assert writes < 110  # 8 small ones, then one for each growth by an eighth
    assert characters < 30_000 * 24  # a fold costs the part (twice for a tool: raw and parsed)


def test_part_row_is_rewritten_when_it_is_old(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    now = [0.0]
    with store.record(session, "m") as recorder:
        recorder._monotonic = lambda: now[0]
        recorder.feed(TEXT[2])
        recorder.feed({"type": "text-delta", "id": "1", "delta": "x" * 1000})
        recorder.feed({"type": "text-delta", "id": "1", "delta": "y"})
        assert plain_text(factory, store, "m") == ["x" * 1000]
        now[0] = 0.2
        recorder.feed({"type": "text-delta", "id": "1", "delta": "z"})
        assert plain_text(factory, store, "m") == ["x" * 1000 + "yz"]


def test_plain_reader_is_exact_at_every_part_end(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m") as recorder:
        recorder._monotonic = lambda: 0.0
        recorder.feed(TEXT[2])
        for _ in range(50):
            recorder.feed({"type": "text-delta", "id": "1", "delta": "word "})
        recorder.feed(TEXT[5])
        assert plain_text(factory, store, "m") == ["word " * 50]


def test_change_of_one_part_does_not_rewrite_another(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m") as recorder:
        recorder._monotonic = lambda: 0.0
        recorder.feed(TEXT[2])
        recorder.feed({"type": "text-delta", "id": "1", "delta": "x" * 100_000})
        count_part_writes(factory, store)
        for step in range(50):
            recorder.feed({"type": "text-delta", "id": "1", "delta": "y"})
            recorder.feed({"type": "data-progress", "id": "p", "data": step})
        assert store.message(session, "m")["parts"][0]["text"] == "x" * 100_000 + "y" * 50
    assert part_writes(factory, store)[1] < 250_000  # the long text once, at the end


# ---------------------------------------------------------------------- policies


@pytest.mark.parametrize("policy", ["chunk", "step", "turn"])
def test_closing_stores_the_rest_under_every_policy(
    store: ChatStore, session: Session, policy: Any
) -> None:
    with store.record(session, save_on=policy) as recorder:
        for chunk in TEXT[:5]:
            recorder.feed(chunk)
    assert store.message(session, "reply")["parts"] == reduce_chunks(TEXT[:5])["parts"]
    assert store.runs(session)[0].end_reason == "cut"


def test_buffer_by_size_delays_deltas_only(store: ChatStore, session: Session) -> None:
    with store.record(session, save_buffer_size=200) as recorder:
        recorder._monotonic = lambda: 0.0  # time stands still, for the timer as well
        for chunk in TEXT[:5]:
            recorder.feed(chunk)
        assert store.message(session, "reply")["parts"][1]["text"] == ""
        recorder.feed(TEXT[5])  # a change of state is never delayed
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, world"


def test_buffer_by_time_and_flush(store: ChatStore, session: Session) -> None:
    now = [10.0]
    with store.record(session, save_buffer_ms=50) as recorder:
        recorder._monotonic = lambda: now[0]
        for chunk in TEXT[:4]:
            recorder.feed(chunk)
        assert store.message(session, "reply")["parts"][1]["text"] == ""
        recorder.flush()
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, "
        recorder.feed(TEXT[4])
        now[0] += 0.06
        recorder.feed({"type": "text-delta", "id": "1", "delta": "!"})
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, world!"


def test_unknown_policy_is_refused(store: ChatStore, session: Session) -> None:
    policy: Any = "sometimes"
    with pytest.raises(Invalid, match="sometimes"):
        store.record(session, save_on=policy)


# ---------------------------------------------------------------------- durability levels


def test_commits_are_durable_at_boundaries_and_once_a_second(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[bool] = []
    write = store.context.db.write

    def spy(*, durable: bool = True, **rest: Any) -> Any:
        levels.append(durable)
        return write(durable=durable, **rest)

    monkeypatch.setattr(store.context.db, "write", spy)
    now = [0.0]
    tool = {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}}
    with store.record(session) as recorder:
        recorder._monotonic, recorder._saves.last_durable = (lambda: now[0]), 0.0
        for chunk in TEXT[:5]:
            recorder.feed(chunk)
        assert levels == [False] * 5
        recorder.feed(tool)
        now[0] = 0.5
        recorder.feed(TEXT[4])
        now[0] = 1.6
        recorder.feed(TEXT[4])
        recorder.feed(TEXT[4])
        recorder.feed(TEXT[6])
    assert levels[5:] == [True, False, True, False, True, True]


# ---------------------------------------------------------------------- failures


def test_feed_that_fails_stored_nothing_and_can_be_repeated(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.context.db.write

    def full(**_: object) -> Any:
        raise StorageFull("no room")

    with store.record(session) as recorder:
        for chunk in TEXT[:4]:
            recorder.feed(chunk)
        monkeypatch.setattr(store.context.db, "write", full)
        for chunk in (TEXT[4], TEXT[5]):
            with pytest.raises(StorageFull):
                recorder.feed(chunk)
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, "
        monkeypatch.setattr(store.context.db, "write", write)
        for chunk in TEXT[4:]:
            recorder.feed(chunk)
    assert store.message(session, "reply") == reduce_chunks(TEXT)
    assert store.verify().ok


def test_failed_flush_keeps_what_waits_in_memory(
    store: ChatStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.context.db.write

    def full(**_: object) -> Any:
        raise StorageFull("no room")

    with store.record(session, save_buffer_size=10_000) as recorder:
        recorder._monotonic = lambda: 0.0
        for chunk in TEXT[:5]:
            recorder.feed(chunk)
        monkeypatch.setattr(store.context.db, "write", full)
        with pytest.raises(StorageFull):
            recorder.flush()
        monkeypatch.setattr(store.context.db, "write", write)
        recorder.flush()
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, world"


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        7,
        [],
        "not json",
        {},
        {"type": 3},
        {"type": "text-delta", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": 5},
        {"type": "tool-input-start", "toolCallId": "c"},
    ],
)
def test_malformed_chunk_is_refused_with_a_hint_and_changes_nothing(
    store: ChatStore, session: Session, chunk: Any
) -> None:
    with store.record(session) as recorder:
        for good in TEXT[:4]:
            recorder.feed(good)
        before = store.message(session, "reply")
        with pytest.raises(Invalid) as caught:
            recorder.feed(chunk)
        assert caught.value.hint
        assert store.message(session, "reply") == before
        recorder.feed(TEXT[4])


def test_part_over_the_limit_is_refused(factory: Factory) -> None:
    with factory.open(part_limit=1000) as store:
        session = store.create_session(agent="a", model={})
        with store.record(session, "m") as recorder:
            recorder.feed(TEXT[2])
            recorder.feed({"type": "text-delta", "id": "1", "delta": "x" * 900})
            with pytest.raises(TooLarge, match="text-delta 1"):
                recorder.feed({"type": "text-delta", "id": "1", "delta": "y" * 200})
            with pytest.raises(TooLarge):
                recorder.feed({"type": "data-big", "data": "z" * 1000})
        assert store.message(session, "m")["parts"][0]["text"] == "x" * 900


def test_unknown_session_is_refused(store: ChatStore) -> None:
    with pytest.raises(NotFound, match="ses_nowhere"):
        store.record("ses_nowhere")


def test_message_of_another_session_is_refused(store: ChatStore, session: Session) -> None:
    other = store.create_session(agent="tester", model={})
    with store.record(other) as recorder:
        for chunk in TEXT:
            recorder.feed(chunk)
    with store.record(session) as recorder, pytest.raises(Conflict, match="reply"):
        recorder.feed(TEXT[0])
    assert store.message(other, "reply") == reduce_chunks(TEXT)
    assert store.ui_messages(session) == []


def test_session_cannot_be_deleted_while_it_is_recorded(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        recorder.feed(TEXT[0])
        with pytest.raises(Conflict, match="running"):
            store.delete(session)
    store.delete(session)


@pytest.mark.parametrize("last", [TEXT[4], TEXT[5]])
def test_session_deleted_by_another_program_is_said(
    store: ChatStore, session: Session, last: Json, factory: Factory
) -> None:
    recorder = store.record(session)
    for chunk in TEXT[:4]:
        recorder.feed(chunk)
    with factory.raw(store) as other:
        other.execute("DELETE FROM chat_sessions")
    with pytest.raises(NotFound, match="reply"):
        recorder.feed(last)


def test_closed_recorder_refuses_chunks(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        recorder.feed(TEXT[0])
    with pytest.raises(Closed):
        recorder.feed(TEXT[1])


# ---------------------------------------------------------------------- ends of runs


@pytest.mark.parametrize(
    "last, reason",
    [
        ({"type": "finish", "finishReason": "length"}, "finish"),
        ({"type": "abort", "reason": "user pressed stop"}, "abort"),
        ({"type": "error", "errorText": "overloaded"}, "error"),
        ({"type": "text-end", "id": "1"}, "cut"),
    ],
)
def test_why_a_run_ended_is_written_down(
    store: ChatStore, session: Session, last: Json, reason: str
) -> None:
    with store.record(session, agent="planner", model="acme/small", tools=["read"]) as recorder:
        for chunk in (*TEXT[:5], last):
            recorder.feed(chunk)
    run = store.runs(session)[0]
    assert (run.end_reason, run.agent, run.tools) == (reason, "planner", ["read"])
    assert run.model == {"provider_id": "acme", "model_id": "small"}
    assert run.finish_reason == last.get("finishReason")
    assert run.error_text == last.get("errorText", last.get("reason"))
    assert store.session(session).model == run.model


def test_exception_in_the_block_ends_the_run_and_keeps_the_text(
    store: ChatStore, session: Session
) -> None:
    with pytest.raises(ZeroDivisionError), store.record(session) as recorder:
        for chunk in TEXT[:5]:
            recorder.feed(chunk)
        raise ZeroDivisionError("in the tool")
    run = store.runs(session)[0]
    assert run.end_reason == "error"
    assert "in the tool" in str(run.error_text)
    assert store.message(session, "reply")["parts"] == reduce_chunks(TEXT[:5])["parts"]


# ---------------------------------------------------------------------- continuation


def test_approval_continues_the_same_message(store: ChatStore, session: Session) -> None:
    first: list[Json] = [
        {"type": "start", "messageId": "reply"},
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "rm", "input": {"p": 1}},
        {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "a"},
    ]
    then: list[Json] = [
        {"type": "start", "messageId": "reply"},
        {"type": "tool-output-available", "toolCallId": "c", "output": "gone"},
        *TEXT[1:],
    ]
    for stream in (first, then):
        with store.record(session) as recorder:
            for chunk in stream:
                recorder.feed(chunk)
    reply = store.message(session, "reply")
    assert reply == reduce_chunks(then, reduce_chunks(first))
    assert len(store.ui_messages(session)) == 1
    assert [run.message_id for run in store.runs(session)] == ["reply", "reply"]
    assert store.verify().ok


def test_late_result_finds_its_call_in_an_earlier_message(
    store: ChatStore, session: Session
) -> None:
    call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {"a": 1}}
    with store.record(session, "one") as recorder:
        recorder.feed(call)
    with store.record(session, "two") as recorder:
        recorder.feed({"type": "tool-output-available", "toolCallId": "c", "output": 42})
        recorder.feed(TEXT[2])
    part = store.message(session, "one")["parts"][0]
    assert (part["state"], part["output"], part["input"]) == ("output-available", 42, {"a": 1})
    assert [part["type"] for part in store.message(session, "two")["parts"]] == ["text"]
    assert recorder.violation_count == 0
    assert store.verify().ok


def test_start_with_another_id_begins_another_message(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[1:5]:
            recorder.feed(chunk)
        first = recorder.message_id
        for chunk in TEXT:
            recorder.feed(chunk)
    assert [message["id"] for message in store.ui_messages(session)] == [first, "reply"]
    assert store.message(session, "reply") == reduce_chunks(TEXT)
    assert journal_rows(factory, store) == 0


def test_stream_without_ids_gets_one_of_ours(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[1:]:
            recorder.feed(chunk)
    assert str(recorder.message_id).startswith("msg_")


def test_second_recorder_of_a_message_is_refused_until_the_first_is_gone(
    store: ChatStore, session: Session
) -> None:
    first = store.record(session)
    for chunk in TEXT[:5]:
        first.feed(chunk)
    with store.record(session) as second, pytest.raises(Conflict, match="being recorded"):
        second.feed(TEXT[0])
    first.feed(TEXT[5])
    del first  # abandoned: never closed
    with store.record(session, "reply") as recorder:
        recorder.feed({"type": "text-start", "id": "2"})
    texts = [part.get("text") for part in store.message(session, "reply")["parts"]]
    assert texts == [None, "Hello, world", ""]


def test_abandoned_recorder_does_not_lock_its_session(store: ChatStore, session: Session) -> None:
    asked = store.say(session, "hi")
    left = store.record(session)
    for chunk in TEXT[:5]:
        left.feed(chunk)
    with pytest.raises(Conflict, match="running"):
        store.rewind(session, asked)
    del left
    assert store.rewind(session, asked) == ["reply"]
    store.unrewind(session)
    whole = {"id": "reply", "role": "assistant", "parts": [{"type": "text", "text": "put in"}]}
    store.put_message(session, whole)
    assert store.message(session, "reply")["parts"] == whole["parts"]


def test_child_of_a_fork_leaves_the_recording_alone(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[:4]:
            recorder.feed(chunk)
        child = os.fork()
        if child == 0:
            recorder.close()
            os._exit(0)
        os.waitpid(child, 0)
        for chunk in TEXT[4:]:
            recorder.feed(chunk)
    assert store.message(session, "reply") == reduce_chunks(TEXT)
    assert [run.end_reason for run in store.runs(session)] == ["finish"]


def test_recording_closed_by_a_process_that_could_not_see_us_goes_on(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session) as recorder:
        for chunk in TEXT[:4]:
            recorder.feed(chunk)
        with factory.raw(store) as other:
            other.execute("DELETE FROM tk_recordings WHERE message_id = 'reply'")
        recorder.feed(TEXT[4])
        assert store.message(session, "reply")["parts"][1]["text"] == "Hello, world"
        for chunk in TEXT[5:]:
            recorder.feed(chunk)
    assert store.message(session, "reply") == reduce_chunks(TEXT)


def test_part_that_grows_over_the_limit_in_json_is_still_closed(factory: Factory) -> None:
    with factory.open(part_limit=10_000) as store:
        session = store.create_session(agent="a", model={})
        with store.record(session, "m") as recorder:
            recorder.feed(TEXT[2])
            recorder.feed({"type": "text-delta", "id": "1", "delta": "x" * 9000})
            for _ in range(9):
                recorder.feed({"type": "text-delta", "id": "1", "delta": "\n" * 100})
    with factory.reopen(store, part_limit=100) as store:
        assert len(store.message(session, "m")["parts"][0]["text"]) == 9900


def test_message_of_another_program_with_gaps_is_continued_at_its_end(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    parts = [{"type": "text", "text": text} for text in "AB"]
    store.put_message(session, {"id": "m", "role": "assistant", "parts": parts})
    with factory.raw(store) as other:
        other.execute('UPDATE chat_parts SET "index" = 5 * ("index" + 1)')
    with store.record(session, "m") as recorder:
        for chunk in (TEXT[2], TEXT[3], TEXT[5]):
            recorder.feed(chunk)
    texts = [part["text"] for part in store.message(session, "m")["parts"]]
    assert texts == ["A", "B", "Hello, "]


def test_failed_feed_with_redaction_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch, factory: Factory
) -> None:
    def full(**_: object) -> Any:
        raise StorageFull("no room")

    with factory.open(redact=str.upper) as store:
        session = store.create_session(agent="a", model={})
        write = store.context.db.write
        with store.record(session, "m") as recorder:
            recorder.feed(TEXT[2])
            for piece in ("hello\nwor", "ld\nand mo", "re\n"):
                monkeypatch.setattr(store.context.db, "write", full)
                with pytest.raises(StorageFull):
                    recorder.feed({"type": "text-delta", "id": "1", "delta": piece})
                monkeypatch.setattr(store.context.db, "write", write)
                recorder.feed({"type": "text-delta", "id": "1", "delta": piece})
            recorder.feed(TEXT[5])
        assert store.message(session, "m")["parts"][0]["text"] == "HELLO\nWORLD\nAND MORE\n"


def test_reset_step_removes_the_rows_of_the_step(
    store: ChatStore, session: Session, factory: Factory
) -> None:
    with store.record(session, "m") as recorder:
        for chunk in (*TEXT[1:5], {"type": "reset-step"}, *TEXT[2:4]):
            recorder.feed(chunk)
            assert recorder.message is not None
            assert store.message(session, "m")["parts"] == recorder.message["parts"]
    assert plain_text(factory, store, "m") == ["", "Hello, "]
    assert store.verify().ok


# ---------------------------------------------------------------------- metadata, usage


def test_metadata_merges_deeply_and_usage_of_the_host_wins(
    store: ChatStore, session: Session
) -> None:
    with store.record(session, "m") as recorder:
        recorder.feed({"type": "start", "messageMetadata": {"a": {"x": 1}, "usage": "mine"}})
        assert store.message(session, "m")["metadata"] == {"a": {"x": 1}, "usage": "mine"}
        store.record_usage(session, {"input": 5, "output": 2})
        recorder.feed({"type": "finish", "messageMetadata": {"a": {"y": [2]}, "usage": "mine"}})
    metadata = store.message(session, "m")["metadata"]
    assert metadata["a"] == {"x": 1, "y": [2]}
    assert metadata["usage"]["input"] == 5
    assert store.session(session).total_tokens == 7


# ---------------------------------------------------------------------- other ways in


def test_server_sent_events_cut_anywhere(store: ChatStore, session: Session) -> None:
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in TEXT)
    body += b"data: [DONE]\n\n"
    for size in (1, 7, 64, len(body)):
        message_id = f"reply-{size}"
        renamed = body.replace(b'"reply"', f'"{message_id}"'.encode())
        with store.record(session) as recorder:
            for start in range(0, len(renamed), size):
                recorder.feed_sse(renamed[start : start + size])
        assert store.message(session, message_id)["parts"] == reduce_chunks(TEXT)["parts"]


def test_malformed_events_are_counted_or_refused(store: ChatStore, session: Session) -> None:
    with store.record(session) as recorder:
        recorder.feed_sse(b"data: {broken\n\ndata: 5\n\n")
    assert recorder.violation_count == 2
    with store.record(session, strict=True) as recorder, pytest.raises(Invalid):
        recorder.feed_sse(b"data: {broken\n\n")

"""What a relay remembers of a session, and how it goes on at another server."""

import json
from typing import Any

from hypothesis import given, settings, strategies as st
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from tests.lengths import examples
from threadkeep.mcp.relay_state import (
    SessionLog,
    answer_id,
    failed,
    received,
    refusal,
    resumed,
    sent,
)
from threadkeep.mcp.stdio import LineBuffer

BEGIN = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
BEGUN = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def request(number: Any, name: str = "recall") -> bytes:
    told = {"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}
    return json.dumps({"jsonrpc": "2.0", **told}).encode()


def answer(number: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()


def begun() -> SessionLog:
    return sent(received(sent(SessionLog(), BEGIN), answer(0)), BEGUN)


@given(st.lists(st.integers(1, 9) | st.text(max_size=3), unique_by=str), st.data())
def test_what_had_no_answer_is_asked_again_in_order(
    numbers: list[Any], data: st.DataObject
) -> None:
    log = begun()
    for number in numbers:
        log = sent(log, request(number))
    told = set(data.draw(st.sets(st.sampled_from(numbers)))) if numbers else set()
    for number in told:
        log = received(log, answer(number))
    again = resumed(log)
    rest = [request(number) for number in numbers if number not in told]
    assert list(again.to_server) == [BEGIN, BEGUN, *rest]
    assert again.to_client == ()
    assert again.swallowed == b"0"


def test_a_beginning_without_an_answer_is_answered_by_the_next_server() -> None:
    again = resumed(sent(SessionLog(), BEGIN))
    assert again.to_server == (BEGIN,)
    assert again.swallowed is None
    assert received(again.log, answer(0)).answered


def test_a_client_that_never_began_has_its_questions_asked_again() -> None:
    again = resumed(sent(SessionLog(), request("a")))
    assert again.to_server == (request("a"),)
    assert again.swallowed is None


def test_what_writes_is_not_done_twice() -> None:
    again = resumed(sent(sent(begun(), request(1, "remember")), request(2)))
    assert again.to_server == (BEGIN, BEGUN, request(2))
    (told,) = map(json.loads, again.to_client)
    assert told["id"] == 1
    assert "check with recall" in told["error"]["message"]
    assert [json.loads(line)["id"] for line in failed(again.log, "gone")] == [2]


def test_what_ends_two_servers_is_not_asked_a_third_time() -> None:
    once = resumed(sent(begun(), request(1)))
    twice = resumed(sent(once.log, request(2)))
    assert twice.to_server == (BEGIN, BEGUN, request(2))
    (told,) = map(json.loads, twice.to_client)
    assert told["id"] == 1
    assert "two servers crashed" in told["error"]["message"]
    assert [one.id for one in twice.log.pending] == [b"2"]
    dumb = resumed(once.log, lived=False)  # it was about to end when we came
    assert dumb.to_server == (BEGIN, BEGUN, request(1))


def test_what_was_cancelled_is_not_asked_again() -> None:
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 5}}
    log = sent(sent(begun(), request(5)), json.dumps(cancel).encode())
    assert log.pending == ()


@given(st.binary() | st.sampled_from([b"[]", b"{}", b'{"id":[{}]}', b'{"method":7}', b"null"]))
def test_any_line_may_come(line: bytes) -> None:
    log = received(sent(begun(), line), line)
    assert resumed(log).to_server[:2] == (BEGIN, BEGUN)
    answer_id(line)


@given(
    st.lists(st.binary(max_size=9).filter(lambda one: one.strip() and b"\n" not in one)), st.data()
)
def test_lines_are_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    given_back: list[bytes] = []
    reader = LineBuffer()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        given_back += reader.feed(stream[:size])
        stream = stream[size:]
    assert given_back == lines


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
ANY = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=2), PLAIN, max_size=2)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | ANY,
        "id": ANY,
        "method": st.just("ping") | ANY,
        "params": st.just({}) | ANY,
    },
)


@settings(max_examples=examples(300))
@given(MESSAGES | ANY)
def test_every_request_is_one_for_the_server_or_is_refused(message: Any) -> None:
    line = json.dumps(message).encode()
    refused = refusal(line)
    if refused is not None:
        told = json.loads(refused)
        assert told["jsonrpc"] == "2.0"
        assert told["error"]["code"] in {-32700, -32600}
        return
    found = jsonrpc_message_adapter.validate_json(line, by_name=False)
    assert ("id" in message) is isinstance(found, JSONRPCRequest)
    (pending,) = sent(SessionLog(), line).pending or (None,)
    assert (pending is None) is ("id" not in message)
    if pending is not None:
        assert received(sent(SessionLog(), line), answer(message["id"])).pending == ()


@given(st.binary(max_size=40))
def test_no_bytes_break_the_judge(line: bytes) -> None:
    refused = refusal(line)
    assert refused is None or json.loads(refused)["error"]["message"]

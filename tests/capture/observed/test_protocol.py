"""The protocol: Hippo's JSON both ways, and a clear word about everything else."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.capture.observed.protocol import (
    LONGEST_WATCH,
    Ack,
    CollectorStatus,
    Entities,
    EntityInfo,
    Error,
    EventInfo,
    Events,
    GetEntities,
    GetEvents,
    GetSessions,
    GetStatus,
    IngestEvent,
    QueryHit,
    QueryResult,
    RawQuery,
    RegisterWatchSha,
    Request,
    Response,
    SessionInfo,
    Sessions,
    Shutdown,
    UpdateSourceHealthHeartbeat,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    heartbeat_of,
    rows_wanted,
    watch_of,
)
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Heartbeat, Watch

INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
TEXTS = st.text(max_size=20)
MAYBE_INT, MAYBE_COUNT, MAYBE = st.none() | INT64, st.none() | COUNTS, st.none() | TEXTS
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(IngestEvent, st.dictionaries(TEXTS, TEXTS)),
    st.just(GetStatus()),
    st.builds(GetSessions, MAYBE_INT, MAYBE_COUNT),
    st.builds(GetEvents, MAYBE_INT, MAYBE_INT, MAYBE, MAYBE_COUNT),
    st.builds(GetEntities, MAYBE),
    st.builds(RawQuery, TEXTS),
    st.builds(RegisterWatchSha, TEXTS, TEXTS, COUNTS),
    st.builds(UpdateSourceHealthHeartbeat, TEXTS, INT64),
    st.just(Shutdown()),
)
SESSIONS = st.builds(SessionInfo, INT64, INT64, MAYBE_INT, TEXTS, TEXTS, COUNTS, MAYBE)
EVENTS = st.builds(
    EventInfo, INT64, INT64, INT64, TEXTS, MAYBE_INT, COUNTS, TEXTS, MAYBE, st.booleans()
)
ENTITIES = st.builds(EntityInfo, INT64, TEXTS, TEXTS, MAYBE, INT64, INT64)
HITS = st.builds(QueryHit, INT64, TEXTS, TEXTS, INT64, TEXTS)
RESPONSES: st.SearchStrategy[Response] = st.one_of(
    st.just(Ack()),
    st.builds(
        CollectorStatus, version=TEXTS, queue_depth=COUNTS, inference_reachable=st.booleans()
    ),
    st.builds(Sessions, st.lists(SESSIONS, max_size=3)),
    st.builds(Events, st.lists(EVENTS, max_size=3)),
    st.builds(Entities, st.lists(ENTITIES, max_size=3)),
    st.builds(QueryResult, st.lists(HITS, max_size=3)),
    st.builds(Error, TEXTS),
)


@given(REQUESTS)
def test_requests_come_back_as_they_were(request: Request) -> None:
    assert decode_request(encode_request(request)) == request


@given(RESPONSES)
def test_responses_come_back_as_they_were(response: Response) -> None:
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize(
    "raw, request_",
    [
        ({"type": "GetStatus"}, GetStatus()),
        ({"type": "Shutdown", "data": None}, Shutdown()),
        ({"type": "GetSessions", "data": {"since_ms": None, "limit": 3}}, GetSessions(None, 3)),
        ({"type": "GetSessions"}, GetSessions()),
        ({"type": "GetEvents", "data": {"project": "hippo"}}, GetEvents(project="hippo")),
        ({"type": "GetEntities", "data": {"entity_type": "tool"}}, GetEntities("tool")),
        ({"type": "RawQuery", "data": {"text": "cargo"}}, RawQuery("cargo")),
        ({"type": "IngestEvent", "data": {"any": 1}}, IngestEvent({"any": 1})),
    ],
)
def test_requests_of_hippo_are_understood(raw: dict[str, Any], request_: Request) -> None:
    assert decode_request(json.dumps(raw).encode()) == request_


def test_a_message_without_content_has_only_its_type() -> None:
    assert encode_request(GetStatus()) == b'{"type":"GetStatus"}'
    assert encode_response(Ack()) == b'{"type":"Ack"}'
    assert encode_response(Error("no")) == b'{"type":"Error","data":"no"}'


def test_a_status_can_be_read_by_older_programs_and_from_them() -> None:
    sent = json.loads(encode_response(CollectorStatus(version="1", inference_reachable=True)))
    assert sent["data"] == {
        "version": "1",
        "uptime_secs": 0,
        "events_today": 0,
        "sessions_today": 0,
        "queue_depth": 0,
        "queue_failed": 0,
        "drop_count": 0,
        "inference_reachable": True,
        "lmstudio_reachable": True,
        "brain_reachable": False,
        "db_size_bytes": 0,
        "fallback_files_pending": 0,
    }
    older = b'{"type":"Status","data":{"uptime_secs":7,"lmstudio_reachable":true}}'
    assert decode_response(older) == CollectorStatus(uptime_secs=7, inference_reachable=True)


def test_rows_have_the_fields_that_hippo_knows() -> None:
    row = EventInfo(1, 2, 3, "ls", None, 4, "/", "main", enriched=False)
    assert json.loads(encode_response(Events([row]))) == {
        "type": "Events",
        "data": [
            {
                "id": 1,
                "session_id": 2,
                "timestamp": 3,
                "command": "ls",
                "exit_code": None,
                "duration_ms": 4,
                "cwd": "/",
                "git_branch": "main",
                "enriched": False,
            }
        ],
    }


@pytest.mark.parametrize(
    "raw, named",
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "request"),
        (b'{"data": 1}', "type"),
        (b'{"type": "Nonsense"}', "Nonsense"),
        (b'{"type": "IngestEvent", "data": [1]}', "envelope"),
        (b'{"type": "GetSessions", "data": {"limit": -1}}', "limit"),
        (b'{"type": "GetSessions", "data": {"since_ms": 1e3}}', "since_ms"),
        (b'{"type": "GetEvents", "data": {"session_id": 9223372036854775808}}', "session_id"),
        (b'{"type": "RawQuery"}', "text"),
        (b'{"type": "RawQuery", "data": {"text": "%s"}}' % (b"x" * 4097), "text"),
        (b'{"type": "GetSessions", "data": []}', "GetSessions"),
        (b'{"type": "RegisterWatchSha", "data": {"sha": "a"}}', "repo"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(raw: bytes, named: str) -> None:
    with pytest.raises(Invalid, match=named) as caught:
        decode_request(raw)
    assert len(str(caught.value)) < 400


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_as_a_message(raw: bytes) -> None:
    for read in (decode_request, decode_response):
        with pytest.raises(Invalid):
            read(raw)


@pytest.mark.parametrize("raw", [b'{"type":"Acks"}', b'{"type":"Status"}', b'{"type":"Error"}'])
def test_an_odd_response_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid):
        decode_response(raw)


@pytest.mark.parametrize("limit, rows", [(None, 50), (0, 0), (7, 7), (2**64, 10_000)])
def test_a_request_gets_a_bounded_number_of_rows(limit: int | None, rows: int) -> None:
    assert rows_wanted(limit) == rows


def test_a_watch_names_a_commit_and_a_repository() -> None:
    assert watch_of(RegisterWatchSha("ABC123", "o/r", 2**80), 5) == Watch(
        "abc123", "o/r", 5, LONGEST_WATCH
    )
    for sha, repo in [("main", "o/r"), ("", "o/r"), ("abc1\n", "o/r"), ("abcd", "o"), ("abcd", "")]:
        with pytest.raises(Invalid):
            watch_of(RegisterWatchSha(sha, repo, 1), 0)


def test_only_those_who_have_reason_give_a_heartbeat() -> None:
    assert heartbeat_of(UpdateSourceHealthHeartbeat("browser", 9)) == Heartbeat("browser", 9)
    with pytest.raises(Invalid, match="known: agentic-session-claude, browser"):
        heartbeat_of(UpdateSourceHealthHeartbeat("brain-preflight", 9))

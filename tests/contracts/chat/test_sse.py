"""Server-sent events, cut into packets in every way."""

import itertools
import re

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.json import decode
from threadkeep.chat.wire.sse import DONE, SseParser, encode_sse
from threadkeep.errors import Closed, TooLarge

BODY = (
    "\ufeff: a comment\r\n"
    'event: message\nid: 1\ndata: {"type":"start"}\n\n'
    'data:{"type":"text-delta","delta":"日本😀"}\r\n\r\n'
    'data: {"multi":\rdata: "line"}\r\r'
    "retry: 10\n\n"
    "data\n\n"
    "data:\n\n"
    "data:  two spaces\n\n"
    "database: not data\n\n"
    "data: [DONE]\n\n"
    "data: after\n\n"
).encode()
EVENTS = [
    '{"type":"start"}',
    '{"type":"text-delta","delta":"日本😀"}',
    '{"multi":\n"line"}',
    " two spaces",
    "after",
]


def parse(packets: list[bytes]) -> tuple[list[str], SseParser]:
    parser = SseParser()
    events = [event for packet in packets for event in parser.feed(packet)]
    return events + parser.close(), parser


def test_a_body_in_one_packet() -> None:
    events, parser = parse([BODY])
    assert events == EVENTS
    assert parser.done
    assert not parser.cut


def test_a_body_byte_by_byte() -> None:
    events, parser = parse([bytes([byte]) for byte in BODY])
    assert events == EVENTS
    assert parser.done


@given(st.lists(st.integers(0, len(BODY))))
def test_a_body_cut_anywhere(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(BODY)]
    events, _ = parse([BODY[a:b] for a, b in itertools.pairwise(ends)])
    assert events == EVENTS


@given(
    st.binary()
    | st.lists(st.sampled_from([b"data: x", b"\n", b"\r", b":", b"{}", b"\xef\xbb\xbf"])).map(
        b"".join
    ),
    st.lists(st.integers(0, 30)),
)
def test_packets_never_change_the_events(body: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    whole, one = parse([body])
    pieces, two = parse([body[a:b] for a, b in itertools.pairwise(ends)])
    assert pieces == whole
    assert (one.done, one.cut) == (two.done, two.cut)


def test_an_event_is_given_at_once_also_after_a_bare_carriage_return() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\r\n\r") == ["1"]
    assert parser.feed(b"") == []
    assert parser.feed(b"\n") == []
    assert parser.feed(b"data: 2\n\n") == ["2"]


@pytest.mark.parametrize(
    "tail,events,done,cut",
    [
        (b'data: {"a":1}', ['{"a":1}'], False, False),
        (b'data: {"a":1}\n', ['{"a":1}'], False, False),
        (b'data: {"a":\ndata: 1}', ['{"a":\n1}'], False, False),
        (b'data: {"a":"\\ud83d"}', ['{"a":"\\ud83d"}'], False, False),
        (b'data: {"a":1', [], False, True),
        (b"data: 12", [], False, True),
        (b"data: [DONE]", [], True, False),
        (b"data: [DON", [], False, True),
        (b"dat", [], False, True),
        (b"", [], False, False),
    ],
)
def test_the_last_event_without_its_blank_line(
    tail: bytes, events: list[str], *, done: bool, cut: bool
) -> None:
    given_out, parser = parse([b"data: first\n\n" + tail])
    assert given_out == ["first", *events]
    assert (parser.done, parser.cut) == (done, cut)


def test_a_closed_parser_stays_closed() -> None:
    parser = SseParser()
    parser.feed(b'data: {"a":1}')
    assert parser.close() == ['{"a":1}']
    assert parser.close() == []
    with pytest.raises(Closed):
        parser.feed(b"x")


def test_an_event_without_end_is_refused_at_the_limit() -> None:
    parser = SseParser(limit=100)
    parser.feed(b"data: " + b"x" * 90)
    with pytest.raises(TooLarge, match="100 bytes"):
        parser.feed(b"x" * 10)
    lines = SseParser(limit=100)
    lines.feed(b"data: xxxxxxxxx\n" * 9)
    with pytest.raises(TooLarge):
        lines.feed(b"data: xxxxxxxxx\n" * 3)


def test_what_is_complete_is_given_before_the_limit_is_met() -> None:
    parser = SseParser(limit=100)
    assert parser.feed(b"data: 1\n\ndata: " + b"x" * 200) == ["1"]
    with pytest.raises(TooLarge):
        parser.feed(b"x")


def test_many_small_packets_of_one_large_event_are_linear() -> None:
    parser = SseParser()
    parser.feed(b"data: ")
    for _ in range(20_000):
        parser.feed(b"x" * 100)
    (event,) = parser.feed(b"\n\n")
    assert len(event) == 2_000_000


def test_broken_bytes_become_replacement_characters() -> None:
    assert parse([b"data: a\xffb\n\n"])[0] == ["a\ufffdb"]


@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(exclude_categories=())),
            st.text(st.characters(exclude_categories=())),
            max_size=3,
        )
    )
)
def test_what_is_encoded_is_parsed_again(chunks: list[dict[str, str]]) -> None:
    chunks = [
        chunk for chunk in chunks if not re.search("[\ud800-\udbff][\udc00-\udfff]", str(chunk))
    ]
    events, parser = parse([*map(encode_sse, chunks), DONE])
    assert [decode(event) for event in events] == chunks
    assert parser.done

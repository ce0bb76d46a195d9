"""Frames: any way of cutting the stream gives the same frames, wrong lengths cost nothing."""

import sys

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.frames import NATIVE_LIMIT, SOCKET_LIMIT, FrameDecoder, Order, encode_frame
from threadkeep.errors import TooLarge

ORDERS = st.sampled_from(["big", "native"])
BODIES = st.lists(st.binary(max_size=40), max_size=6)


def taken(decoder: FrameDecoder) -> list[bytes]:
    return list(iter(decoder.take, None))


@given(BODIES, ORDERS, st.integers(1, 17))
def test_frames_survive_any_cutting_of_the_stream(
    bodies: list[bytes], order: Order, size: int
) -> None:
    stream = b"".join(encode_frame(body, order=order) for body in bodies)
    decoder, found = FrameDecoder(order=order), []
    for start in range(0, len(stream), size):
        decoder.feed(stream[start : start + size])
        found += taken(decoder)
    assert found == bodies
    assert decoder.held == 0


def test_the_length_is_big_endian_on_sockets_and_native_for_browsers() -> None:
    assert encode_frame(b"{}") == b"\0\0\0\2{}"
    assert encode_frame(b"{}", order="native") == (2).to_bytes(4, sys.byteorder) + b"{}"


@pytest.mark.parametrize("limit", [0, 5, NATIVE_LIMIT, SOCKET_LIMIT])
def test_the_limit_itself_is_allowed_and_one_more_is_not(limit: int) -> None:
    decoder = FrameDecoder(limit=limit)
    decoder.feed(encode_frame(b"x" * limit, limit=limit))
    assert decoder.take() == b"x" * limit
    with pytest.raises(TooLarge, match=f"{limit + 1} bytes"):
        encode_frame(b"x" * (limit + 1), limit=limit)


def test_a_wrong_length_is_refused_as_soon_as_it_is_known() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(b"1"))
    decoder.feed(b"\xff\xff\xff")
    assert decoder.take() == b"1"
    assert decoder.take() is None
    decoder.feed(b"\xff")
    for _ in range(2):  # and it stays refused: nobody knows where the next frame begins
        with pytest.raises(TooLarge, match="4294967295"):
            decoder.take()
    assert decoder.held == 4


def test_half_a_frame_is_held_until_the_rest_comes() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\0\0\0\3ab")
    assert (decoder.take(), decoder.held) == (None, 6)
    decoder.feed(b"c\0")
    assert (decoder.take(), decoder.held) == (b"abc", 1)


def test_an_empty_frame_is_a_frame() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\0\0\0\0" + encode_frame(b"2"))
    assert taken(decoder) == [b"", b"2"]

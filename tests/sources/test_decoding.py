"""From lines to JSON values, whatever is in them."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.sources.source_support import any_json
from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid

# JSON as programs write it: no NaN, and numbers that every reader takes for the same.
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(plain_json, st.booleans())
def test_one_value_comes_back(value: Any, escaped: bool) -> None:  # noqa: FBT001  (drawn)
    line = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    (found,) = decode_line(line)
    assert found == json.loads(json.dumps(value).encode("utf-16", "surrogatepass").decode("utf-16"))


@given(st.lists(plain_json.filter(lambda value: isinstance(value, (dict, list))), max_size=4))
def test_glued_values_come_back_one_by_one(values: list[Any]) -> None:
    for glue in (b"", b" ", b"\0\0\0", b"\r"):
        line = glue.join(json.dumps(value).encode() for value in values)
        assert decode_line(glue + line + glue) == json.loads(json.dumps(values))


@given(st.binary(max_size=200))
def test_any_bytes_are_values_or_invalid(line: bytes) -> None:
    with suppress(Invalid):
        json.dumps(decode_line(line), ensure_ascii=False).encode()


@given(any_json)
def test_any_value_of_python_can_be_stored_after_decoding(value: Any) -> None:
    for found in decode_line(json.dumps(value).encode()):
        json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize("line", [b"", b"   ", b"\r", b"\0" * 100, b" \0\t\r\n", b"\xef\xbb\xbf"])
def test_blank_lines_hold_nothing(line: bytes) -> None:
    assert decode_line(line) == []


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"a": 1} rest',
        b"no",
        b"\xff\xfe",
        b'{"a": "b',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"9" * 10_000,
        b"{}" + b"\x01",
    ],
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(Invalid):
        decode_line(line)


def test_strange_but_readable() -> None:
    assert decode_line(b'\xef\xbb\xbf{"a": 1}') == [{"a": 1}]
    assert decode_line(b'{"a": "\xff"}') == [{"a": "\ufffd"}]
    assert decode_line(b'{"\\ud800": "x\\udfff"}') == [{"\ufffd": "x\ufffd"}]
    assert decode_line(b'"\\ud83d\\ude00"') == ["\U0001f600"]
    (nan,) = decode_line(b"NaN")
    assert math.isnan(nan)
    assert decode_line(b'{"n": 123456789012345678901234567890}')[0]["n"] > 2**64


def test_a_long_line_of_glued_values_is_read_in_one_pass() -> None:
    assert len(decode_line(b"{}" * 100_000)) == 100_000

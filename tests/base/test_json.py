"""JSON gives back what it was given, or says why not."""

import datetime as dt
import decimal
import enum
import json as std
import math
import sys
import uuid
from collections import OrderedDict
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from threadkeep.base.json import MAX_DEPTH, decode, encode
from threadkeep.base.text import join_pairs
from threadkeep.errors import Invalid

ANY_TEXT = st.text(st.characters(exclude_categories=()))
HALVES = st.text(st.sampled_from('a"\\\ud83d\ude00\ud800\udfff\0\u2028é😀'))
NUMBERS = (
    st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | ANY_TEXT | HALVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(HALVES | ANY_TEXT, inner, max_size=4)
    ),
    max_leaves=20,
)


def joined(value: Any) -> Any:
    """The value with every surrogate pair as the one character that JSON makes of it."""
    if isinstance(value, str):
        return join_pairs(value)
    if isinstance(value, list):
        return [joined(item) for item in value]
    if isinstance(value, dict):
        return {join_pairs(key): joined(item) for key, item in value.items()}
    return value


def same(a: Any, b: Any) -> bool:
    """Equal in type and sign too, and keys in the same order."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return type(a) is type(b) and repr(a) == repr(b)


@given(VALUES)
@example({"b": 1, "a": [-0.0, 5e-324, 1.7e308, 2**63, 2**64, -(2**63) - 1, 10**30]})
@example({"__proto__": {"x": 1}, "": 1, "a\0b": 1, "\ud83d": 1, "a'b\"c": 1, "a.b[0].$": 1})
def test_every_value_comes_back_the_same(value: Any) -> None:
    expected = joined(value)
    if len(std.dumps(expected)) < len(std.dumps(value)) and _keys(expected) < _keys(value):
        return  # two keys became one: refused, see below
    text = encode(value)
    text.encode()
    assert same(decode(text), expected)
    assert same(decode(text.encode()), expected)
    assert same(std.loads(text), expected)


def _keys(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_keys, value))
    return len(value) + sum(map(_keys, value.values())) if isinstance(value, dict) else 0


def test_the_form_is_compact_and_raw() -> None:
    assert encode({"b": [1, 2.5], "a": "日本😀\u2028"}) == '{"b":[1,2.5],"a":"日本😀\u2028"}'
    assert encode("a\ud83db\ude00") == '"a\\ud83db\\ude00"'
    assert encode("\ud83d\ude00") == '"😀"'
    assert encode(("a", ("\ud83d",))) == '["a",["\\ud83d"]]'


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Plain(enum.Enum):
    A = "a"


class Record(msgspec.Struct):
    a: int


def test_subclasses_of_json_types_are_written_as_what_they_are() -> None:
    value = OrderedDict(c=Colour.RED, n=Number.ONE)
    assert encode(value) == '{"c":"red","n":1}'
    assert encode({Colour.RED: [Number.ONE, "\ud83d"]}) == '{"red":[1,"\\ud83d"]}'


@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        b"x",
        bytearray(b"x"),
        memoryview(b"x"),
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.timedelta(1),
        uuid.UUID(int=1),
        decimal.Decimal("1.5"),
        Plain.A,
        Record(1),
        msgspec.Raw(b"{"),
        msgspec.UNSET,
        {1, 2},
        frozenset("a"),
        range(3),
        object(),
        1j,
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_json_cannot_hold_is_refused_with_its_path(bad: object) -> None:
    with pytest.raises(Invalid):
        encode(bad)
    with pytest.raises(Invalid, match=r"at \$\.parts\[1\]\['a b'\]"):
        encode({"parts": ["\ud83d", {"a b": bad}]})
    with pytest.raises(Invalid, match=r"at \$\.parts\[0\]"):
        encode({"parts": [bad]})


@pytest.mark.parametrize(
    "key", [1, None, True, 1.5, b"a", (1,), uuid.UUID(int=1), Plain.A], ids=repr
)
def test_keys_that_are_not_strings_are_refused(key: object) -> None:
    with pytest.raises(Invalid, match=r"key must be a string.*\$\.a"):
        encode({"a": {key: 1}})


def test_two_keys_that_would_become_one_are_refused() -> None:
    with pytest.raises(Invalid, match="same text"):
        encode({"😀": 1, "\ud83d\ude00": 2})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_depth_has_a_limit_of_its_own() -> None:
    deep = nested(MAX_DEPTH)
    assert decode(encode(deep)) == deep
    for value in (nested(MAX_DEPTH + 1), nested(900), nested(100_000)):
        with pytest.raises(Invalid, match="256 levels"):
            encode(value)
    with pytest.raises(Invalid, match="256 levels"):
        encode([nested(MAX_DEPTH), "\ud83d"])


def test_a_value_that_contains_itself_is_refused() -> None:
    cycle: list[Any] = []
    cycle += [cycle, cycle]
    with pytest.raises(Invalid, match="contains itself"):
        encode(cycle)


@pytest.mark.parametrize("depth", [5_000, 100_000])
@pytest.mark.parametrize("inside", ["", '"\\ud83d"'])
def test_deep_text_is_read_or_refused_never_crashed_on(depth: int, inside: str) -> None:
    outcome: object
    try:  # how deep the interpreter can go depends on its version
        outcome = decode("[" * depth + inside + "]" * depth)
    except Invalid as error:
        outcome = error.message
    assert isinstance(outcome, list) or "levels" in str(outcome)


def test_numbers_of_thousands_of_digits_are_refused_both_ways() -> None:
    assert sys.get_int_max_str_digits() == 4300
    with pytest.raises(Invalid):
        encode({"n": 10**5000})
    with pytest.raises(Invalid):
        decode("1" * 5000)
    with pytest.raises(Invalid):
        decode('["\\ud83d",' + "1" * 5000 + "]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a":',
        "[1,]",
        "{'a':1}",
        "01",
        "1.",
        "+1",
        "tru",
        '"\x01"',
        '"\\x"',
        '"\\ud83',
        "1 2",
        "\ufeff1",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "-1e999",
        '["\\ud83d",NaN]',
        '["\\ud83d",1e999]',
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        decode(text)
    with pytest.raises(Invalid):
        decode(text.encode())


@pytest.mark.parametrize(
    "raw",
    [b"\xff", b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\xbd"', b'"\\ud83d\xff"', b"\xff\xfe1\x00"],
)
def test_bytes_that_are_not_utf8_are_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match="JSON"):
        decode(raw)


@pytest.mark.parametrize(
    "text,value",
    [
        ('"\\ud83d"', "\ud83d"),
        ('"\\ude00x"', "\ude00x"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ud83d\\ud83d\\ude00"', "\ud83d😀"),
        ('"\ud83d"', "\ud83d"),
        ('"\ud83d\ude00"', "😀"),
        ('"\\u0000"', "\0"),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"\\ud83d":1,"\\ud83d":2}', {"\ud83d": 2}),
        (" [1.0, 1E2, -0, -0.0] ", [1.0, 100.0, 0, -0.0]),
    ],
)
def test_legal_json_is_read(text: str, value: Any) -> None:
    assert same(decode(text), value)


@given(st.text(st.sampled_from('{}[]":,\\ud83e01.NaN \n')))
def test_decode_never_raises_anything_but_invalid(text: str) -> None:
    try:
        value = decode(text)
    except Invalid:
        return
    assert same(decode(encode(value)), joined(value))

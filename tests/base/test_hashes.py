"""Hashes and checksums of rows."""

import pytest
from hypothesis import assume, given, strategies as st

from threadkeep.base.hashes import Field, checksum, content_hash
from threadkeep.base.text import to_sql

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
FIELDS = st.lists(
    ANY_TEXT | st.binary(max_size=20) | st.integers() | st.floats(allow_nan=False) | st.none(),
    max_size=5,
)


def key(fields: list[Field]) -> list[tuple[str, Field]]:
    stored = [to_sql(field) if isinstance(field, str) else field for field in fields]
    return [(type(field).__name__, field) for field in stored]


@given(FIELDS, FIELDS)
def test_different_fields_have_different_hashes(a: list[Field], b: list[Field]) -> None:
    assume(key(a) != key(b))
    assert content_hash(*a) != content_hash(*b)


@given(FIELDS)
def test_the_same_fields_have_the_same_hash(fields: list[Field]) -> None:
    assert content_hash(*fields) == content_hash(*list(fields))
    assert checksum(*fields) == checksum(*list(fields))
    assert 0 <= checksum(*fields) < 2**32


@pytest.mark.parametrize(
    "a,b",
    [
        (("ab", "c"), ("a", "bc")),
        (("a",), ("a", "")),
        (("1",), (1,)),
        ((1,), (1.0,)),
        (("a",), (b"a",)),
        ((None,), ("",)),
        (("s1:a",), ("a",)),
        ((), (None,)),
        (("\ud83d",), ("?",)),
    ],
)
def test_fields_do_not_run_together(a: tuple[Field, ...], b: tuple[Field, ...]) -> None:
    assert content_hash(*a) != content_hash(*b)
    assert checksum(*a) != checksum(*b)


def test_the_form_is_stable_because_it_is_stored() -> None:
    assert content_hash("ses_1", 7, 0.5, None, b"x") == "b2:f91288eabc0d8ff6649d61b23aa84094"
    assert checksum("ses_1", 7, 0.5, None, b"x") == 1415460910


def test_a_value_hashes_like_what_sqlite_gives_back() -> None:
    assert content_hash(-0.0) == content_hash(0.0)
    assert content_hash(True) == content_hash(1)  # noqa: FBT003
    half = "half \ud83d"
    assert content_hash(half) == content_hash(to_sql(half))
    assert checksum(half) == checksum(to_sql(half))


def test_one_flipped_bit_changes_both() -> None:
    text = "the quick brown fox"
    for at in range(len(text)):
        flipped = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        assert checksum(flipped) != checksum(text)
        assert content_hash(flipped) != content_hash(text)

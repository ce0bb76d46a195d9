"""A secret in a private file, and signs that hold for one purpose, once, for a while."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.tokens import (
    SecretFile,
    holds,
    make_secret,
    new_sign,
    read_secret,
    sign,
    use_once,
)
from threadkeep.errors import Invalid, NotFound


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    place = tmp_path / "home" / "token"
    before = os.umask(0)
    try:
        secret = make_secret(place)
    finally:
        os.umask(before)
    assert make_secret(place) == read_secret(place) == secret
    assert len(secret) >= 43
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_whoever_makes_a_secret_at_the_same_time_gets_the_same_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: make_secret(tmp_path / "home" / "token"), range(8)))
    assert len(found) == 1
    assert [entry.name for entry in (tmp_path / "home").iterdir()] == ["token"]


def test_a_secret_is_seen_as_it_is_now(tmp_path: Path) -> None:
    place = tmp_path / "token"
    now = SecretFile(place)
    assert now.current() is None
    first = make_secret(place)
    assert now.current() == now.current() == first
    place.chmod(0o644)
    assert now.current() is None
    place.unlink()
    assert now.current() is None
    second = make_secret(place)
    assert now.current() == second != first


def test_a_secret_that_is_not_there_open_or_cut_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "token"
    with pytest.raises(NotFound, match="no token"):
        read_secret(place)
    place.write_text("x" * 43)
    place.chmod(0o644)
    with pytest.raises(Invalid, match="others may read"):
        read_secret(place)
    place.chmod(0o600)
    place.write_text("short")
    with pytest.raises(Invalid, match="holds no token"):
        read_secret(place)


def test_a_link_to_a_secret_is_not_followed(tmp_path: Path) -> None:
    make_secret(tmp_path / "there")
    (tmp_path / "token").symlink_to(tmp_path / "there")
    with pytest.raises(Exception, match="cannot read the token"):
        read_secret(tmp_path / "token")


@given(st.binary(min_size=1, max_size=16), st.integers(0, 2**53), st.integers(-5, 5))
def test_a_sign_holds_until_its_moment(nonce: bytes, until: int, later: int) -> None:
    made = sign("secret", "link", until, nonce)
    assert holds("secret", "link", made, until + later, 10) == (later < 0)
    assert not holds("secret", "cookie", made, until - 1, 10)
    assert not holds("other", "link", made, until - 1, 10)
    assert not holds("secret", "link", made, until - 21, 10)  # of a clock that was ahead


@given(st.text(max_size=80))
def test_any_text_is_no_sign(text: str) -> None:
    assert not holds("secret", "link", text, 0, 10)


@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_a_changed_sign_does_not_hold(at: int, character: str) -> None:
    made = sign("secret", "link", 10**15, b"12 bytes now")
    at %= len(made)
    changed = made[:at] + character + made[at + 1 :]
    assert holds("secret", "link", changed, 10**15 - 5, 10) == (changed == made)


def test_a_sign_is_used_once_and_old_ones_are_swept(tmp_path: Path) -> None:
    first, second = new_sign("s", "link", 1000), new_sign("s", "link", 5000)
    assert use_once(tmp_path / "used", first, 10)
    assert not use_once(tmp_path / "used", first, 20)
    assert use_once(tmp_path / "used", second, 2000)
    assert not use_once(tmp_path / "used", first, 20)  # a clock may have been ahead meanwhile
    assert use_once(tmp_path / "used", new_sign("s", "link", 10**12), 10**11)
    assert len(list((tmp_path / "used").iterdir())) == 1

"""Hostile texts: each character is looked at a bounded number of times."""

import sys
import tracemalloc
from collections.abc import Callable

import pytest

from threadkeep.redact import Redactor

REDACTOR = Redactor.default()
SIZE = 100_000


@pytest.mark.parametrize(
    "piece",
    [
        '"', "\\", '\\\\"', "password ", "password=", "key=key", "token: ",
        "a", "aB3/", "ghp_", "sk-",
        "-----BEGIN PRIVATE KEY-----", "private key-----\n", "<private>", "://u:p", "://a@",
        ".eyJ", ".",
        "eyJ.eyJ.", "curl -u a ", "mysql -p",
        "login a password b ", "Authorization: ", "A", "_",
        "--token ",
        "password='", "AKIA", 'api_key\\": \\"', "--", "\u00e9", "[REDACTED]", "x=secret,", "EAA",
    ],
)  # fmt: skip
def test_any_piece_over_and_over_comes_to_an_end(piece: str) -> None:
    text = piece * (SIZE // len(piece))
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@pytest.mark.parametrize("piece", ['"', "\\", "aB3/", "password password "])
def test_a_megabyte_comes_to_an_end(piece: str) -> None:
    text = piece * (10 * SIZE // len(piece))
    assert REDACTOR.text(text) == text


def counted(work: Callable[[], object]) -> int:
    """Count the calls that some work makes, which time on a busy machine would not tell."""
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_grows_with_the_text_and_no_faster() -> None:
    piece = "password=token=secret: api_key -----BEGIN PRIVATE KEY----- ghp_ \n"
    once = counted(lambda: REDACTOR.text(piece * 200))
    twice = counted(lambda: REDACTOR.text(piece * 400))
    assert twice <= once * 2.2


def test_a_keyword_at_every_letter_does_not_fill_the_memory() -> None:
    text = "sk" * (5 * SIZE)
    tracemalloc.start()
    try:
        assert REDACTOR.text(text) is text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)  # one list of all matches takes 66 times its length

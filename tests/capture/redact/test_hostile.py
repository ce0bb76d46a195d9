"""Hostile texts: each character is looked at a bounded number of times."""

import json
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from threadkeep.capture.redact.engine import Redactor

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
        'password="', "cookie: a=b; ", "curl ", "A_KEY=abcdefgh1 ", "discord = ", "s.a",
        "kind: secret\n", "htpasswd -b ", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
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


SHAPES = [
    "password=token=secret: api_key -----BEGIN PRIVATE KEY----- ghp_ \n",
    'password="', "cookie: a=b; ", "curl -u a ", "mysql -p", "sk-", "a", "token: ", "://u:p",
    "A_KEY=abcdefgh1 ", '\\"password\\": \\"aB3dE5fG7hJ9\\", ', "aB3dE5fG7_", "\\n", "key=key",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n", "discord = ", "kind: secret\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", SHAPES)
def test_the_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    some = 12_000 // len(piece)
    once = counted(lambda: REDACTOR.text(piece * some))
    twice = counted(lambda: REDACTOR.text(piece * (2 * some)))
    assert twice <= once * 2.2 + 100


@pytest.mark.parametrize("piece", SHAPES)
def test_a_letter_costs_a_few_steps_at_most(piece: str) -> None:
    """Calls and returns: eight of them per letter are half a second per MB."""
    text = piece * (40_000 // len(piece))
    assert counted(lambda: REDACTOR.text(text)) <= 8 * len(text)


def test_many_values_of_one_line_are_masked_one_by_one() -> None:
    line = json.dumps([f"password={number}aB3dE5fG7" for number in range(400)])
    once = counted(lambda: REDACTOR.json_line(line))
    double = json.dumps([f"password={number}aB3dE5fG7" for number in range(800)])
    assert counted(lambda: REDACTOR.json_line(double)) <= once * 2.3


def test_a_keyword_at_every_letter_does_not_fill_the_memory() -> None:
    text = "sk" * (5 * SIZE)
    tracemalloc.start()
    try:
        assert REDACTOR.text(text) is text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)  # one list of all matches takes 66 times its length

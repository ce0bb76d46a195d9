"""Snippets of texts in which something was found."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.snippet import snippet

ANY_TEXT = st.text(st.characters(exclude_categories=()))
QUERY_LIKE = st.lists(st.sampled_from([*'"*()-:/. ab日é😀', "OR ", " NOT "])).map("".join)

LONG = (
    "lorem ipsum dolor sit amet " * 40 + "the chat-send needle match is here " + "more words " * 80
)


@pytest.mark.parametrize(
    "text,query,shown",
    [
        ("see gateway/run.py now", "gateway/run.py", "see >>>gateway/run.py<<< now"),
        ("a Word and a word", "WORD", "a >>>Word<<< and a >>>word<<<"),
        ("sword worded", "word", "sword >>>worded<<<"),
        ("sword word", "word", "sword >>>word<<<"),
        ("he was running", "run", "he was >>>running<<<"),
        ("many studies", "study", "many >>>studies<<<"),
        ("the stopped job", "stopping", "the >>>stopped<<< job"),
        ("timeouts happen", "time*", ">>>timeouts<<< happen"),
        ("Le Café est là", "cafe la", "Le >>>Café<<< est >>>là<<<"),
        ("これは日本語です", "日本", "これは>>>日本<<<語です"),
        ("foo_bar and foo", "foo_bar", ">>>foo_bar<<< and foo"),
        ("yes no", "yes NOT no", ">>>yes<<< no"),
        ("İstanbul ISTANBUL", "istanbul", ">>>İstanbul<<< >>>ISTANBUL<<<"),
        ("nothing here", "absent", "nothing here"),
        ("", "x", ""),
        ("text", "", "text"),
        ("text", "👍", "text"),
    ],
)
def test_snippet_marks_what_was_found(text: str, query: str, shown: str) -> None:
    assert snippet(text, query) == shown


def test_snippet_is_cut_around_the_match() -> None:
    shown = snippet(LONG, 'chat-send "needle match"', width=60)
    assert ">>>chat-send<<< >>>needle match<<<" in shown
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert len(shown) < 60 + 20


def test_snippet_prefers_the_place_with_most_words() -> None:
    text = "alpha " + "x " * 200 + "alpha beta gamma " + "x " * 200
    assert ">>>alpha<<< >>>beta<<< >>>gamma<<<" in snippet(text, "gamma beta alpha", width=40)


def test_snippet_without_a_match_is_the_head() -> None:
    assert snippet("word " * 100, "absent", width=9) == "word word..."


def test_snippet_of_a_match_wider_than_itself_is_cut() -> None:
    shown = snippet("x " * 50 + "a" * 1000 + " end", "aaa*", width=20, mark=("[", "]"))
    assert shown.count("a") <= 20
    assert "[a" in shown
    assert "a]" in shown


@given(ANY_TEXT | QUERY_LIKE, ANY_TEXT | QUERY_LIKE, st.integers(1, 50))
def test_a_snippet_is_a_stretch_of_its_text(text: str, query: str, width: int) -> None:
    shown = snippet(text, query, width=width, mark=("", ""))
    assert shown.removeprefix("...").removesuffix("...") in text or shown in text
    assert len(shown) <= width + 6


@given(st.lists(st.sampled_from(["alpha", "beta", "x", "日本"]), max_size=30))
def test_every_found_word_is_marked_once(words: list[str]) -> None:
    text = " ".join(words)
    shown = snippet(text, "beta 日本", width=10_000)
    marked = words.count("beta") + words.count("日本")
    assert shown.count(">>>") == shown.count("<<<") == marked

"""Long lines are broken at blanks, wherever the pieces were cut."""

from itertools import pairwise

from hypothesis import given, strategies as st

from threadkeep.cli.output import StyledText, Wrap

TEXTS = st.text("ab \n", max_size=120)


def broken(width: int, *texts: str) -> str:
    lines = Wrap(width)
    shown = [piece.text for text in texts for piece in lines.take(StyledText(text))]
    return "".join([*shown, *(piece.text for piece in lines.rest())])


def test_a_long_line_goes_on_under_its_first_word() -> None:
    assert broken(12, "  one two three four\nfive") == "  one two\n  three four\nfive"


def test_a_word_that_comes_in_halves_stays_whole() -> None:
    lines = Wrap(10)
    assert lines.take(StyledText("one two th", "bold")) == [
        StyledText("one", "bold"),
        StyledText(" two", "bold"),
    ]
    assert lines.take(StyledText("ree")) == []
    assert lines.rest() == [StyledText("\n", "bold"), StyledText("th", "bold"), StyledText("ree")]


def test_a_word_longer_than_the_line_is_left_to_the_terminal() -> None:
    assert broken(5, "abcdefghij k") == "abcdefghij\nk"


def test_wide_characters_count_twice() -> None:
    assert broken(6, "漢字 漢字") == "漢字\n漢字"


@given(TEXTS, st.integers(1, 40))
def test_only_blanks_change(text: str, width: int) -> None:
    assert broken(width, text).split() == text.split()


@given(TEXTS, st.integers(1, 40), st.data())
def test_it_does_not_matter_where_a_text_is_cut(text: str, width: int, data: st.DataObject) -> None:
    # A run of blanks in two pieces is two runs: the first may stay at the end of its line.
    pairs = enumerate(pairwise(text), 1)
    places = [at for at, (left, right) in pairs if not (left.isspace() and right.isspace())]
    cut = data.draw(st.sampled_from([0, *places]))
    assert broken(width, text[:cut], text[cut:]) == broken(width, text)


@given(st.lists(st.text("ab", min_size=1, max_size=8), min_size=1), st.integers(8, 40))
def test_no_line_is_longer_than_the_terminal(words: list[str], width: int) -> None:
    assert all(len(line) <= width for line in broken(width, " ".join(words)).split("\n"))

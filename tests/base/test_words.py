"""Words and stems, checked against those that SQLite's own tokenizer makes."""

import sqlite3
from collections.abc import Iterator
from unicodedata import category

import pytest
from hypothesis import example, given, strategies as st

from threadkeep.base.words import head_of, index_text, index_words, stem

ENDINGS = """
    ational tional enci anci izer logi bli alli entli eli ousli ization ation ator alism iveness
    fulness ousness aliti iviti biliti icate ative alize iciti ical ful ness al ance ence er ic able
    ible ant ement ment ent ion ou ism ate iti ous ive ize s es ies sses ed eed ing y e l ll at bl
    iz
"""
LETTERS = st.text("aeiouybcdhlstwxz", max_size=6)
ENGLISH = st.lists(st.sampled_from(ENDINGS.split()), max_size=3).map("".join)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCRIPTS = st.text(
    st.sampled_from("aZß éÉñÑİıŁΣσςΆωЖжЁё日本ไทยकत한ﬁＡ½①ᏣꞖ𐒰𝛓\u0301\u0308\u200d-_.'\0\n")
)


class Vocabulary:
    """The words of a text in an index of SQLite's."""

    def __init__(self, tokenize: str) -> None:
        self.stemmed = "porter" in tokenize
        self.db = sqlite3.connect(":memory:")
        self.db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        self.db.execute(f"CREATE VIRTUAL TABLE f USING fts5(text, tokenize='{tokenize}')")
        self.db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, instance)")

    def of(self, *texts: str) -> list[list[str]]:
        self.db.execute("DELETE FROM f")
        rows = enumerate(map(index_text, texts))
        self.db.executemany("INSERT INTO f(rowid, text) VALUES (?, ?)", rows)
        found: list[list[str]] = [[] for _ in texts]
        for number, term in self.db.execute("SELECT doc, term FROM v ORDER BY doc, offset"):
            found[number].append(term)
        return found


@pytest.fixture(
    scope="module", params=["unicode61", "porter unicode61", "porter unicode61 remove_diacritics 2"]
)
def vocabulary(request: pytest.FixtureRequest) -> Iterator[Vocabulary]:
    made = Vocabulary(request.param)
    yield made
    made.db.close()


def ours(vocabulary: Vocabulary, text: str) -> list[str]:
    return [stem(word) if vocabulary.stemmed else word for word in index_words(text)]


@given(ANY_TEXT | SCRIPTS)
@example("ΣΑΣ ΟΔΟΣ")
@example("aतing Ｓｔｒａßｅ İSTANBUL tiếng")
def test_the_words_of_any_text_are_those_of_its_index(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.of(text) == [ours(vocabulary, text)]


def test_every_character_is_split_and_folded_as_in_the_index(vocabulary: Vocabulary) -> None:
    known = [c for c in map(chr, range(1, 0x20000)) if category(c) not in {"Cn", "Co", "Cs"}]
    parts = [known[at : at + 200] for at in range(0, len(known), 200)]
    texts = [" ".join(f"{c} zz{c}yw" for c in part) for part in parts]
    assert len(texts) > 300
    for text, found in zip(texts, vocabulary.of(*texts), strict=True):
        assert found == ours(vocabulary, text)


@given(st.lists(st.builds(str.__add__, LETTERS, ENGLISH), max_size=50))
@example(["apologies", "possibly", "trekking", "sky", "skies", "hopping", "sizing", "feed", "sing"])
@example(["ies", "sses", "eed", "ed", "s", "ing", "y", "yy", "a" * 65, "e" * 64, "controll"])
def test_a_stem_is_that_of_the_index(words: list[str]) -> None:
    stems = Vocabulary("porter unicode61")
    assert stems.of(" ".join(words)) == [[stem(word) for word in words if word]]
    assert all(word.startswith(head_of(stem(word))) for word in words)
    stems.db.close()

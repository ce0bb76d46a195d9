"""Postings in plain rows: packed and read back, and asked beside FTS5 with the same answers."""

import random
import sqlite3
from array import array
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.memory_tx import tx_of
from threadkeep.base.block import TermList, pack, read_list, terms_of, unpack
from threadkeep.base.match import AllOf, AnyOf, Match, Phrase, Without, read_match
from threadkeep.base.postings import SCHEMA, Postings
from threadkeep.base.words import index_text

TYPED = """
    run running runs ran runner gateway gateways session sessions paint painted painting paints
    copy copies copied copyright the a of and error errors timeout timeouts general generalization
    file.py path/to/file v1.2.3 user@host.example naïve résumé Straße ÆON Ωmega ἀρχή Москва москвы
    日本語のテキスト 東京 京都 한국어 ภาษาไทย 漢字かな交じり x y z 42 007
"""
VOCABULARY = TYPED.split()


class Both:
    """The same texts in both kinds of index."""

    def __init__(self, *, stemmed: bool = True) -> None:
        self.db = sqlite3.connect(":memory:")
        tokenize = "porter unicode61" if stemmed else "unicode61"
        self.db.execute(f"CREATE VIRTUAL TABLE f USING fts5(text, tokenize='{tokenize}')")
        self.db.executescript(SCHEMA.replace("{index}", "w"))
        self.tx = tx_of(self.db)
        self.words = Postings("w", stemmed)

    def put(self, texts: Iterable[tuple[int, str]]) -> None:
        rows = [(number, index_text(text)) for number, text in texts]
        self.db.executemany("INSERT INTO f(rowid, text) VALUES (?, ?)", rows)
        self.words.put(self.tx, rows)

    def remove(self, *numbers: int) -> None:
        self.db.executemany("DELETE FROM f WHERE rowid = ?", [(one,) for one in numbers])
        self.words.remove(self.tx, numbers)

    def agree_on(self, match: Match) -> int:
        """Check that both give the same hits with the same scores; tell how many."""
        sql = "SELECT rowid, rank FROM f WHERE f MATCH ? ORDER BY rowid"
        theirs = self.db.execute(sql, (expression(match),)).fetchall()
        ours = sorted(self.words.scores(self.tx, match))
        if is_scored_alike(match):
            assert ours == theirs, match
        assert [row[0] for row in ours] == [row[0] for row in theirs], match
        assert self.words.ids(self.tx, match) == [row[0] for row in reversed(theirs)], match
        return len(theirs)

    def sizes(self) -> list[int]:
        return [row[0] for row in self.db.execute("SELECT size FROM w_blocks ORDER BY size")]


def expression(match: Match) -> str:
    """Write a match as FTS5 takes it."""
    match match:
        case Phrase(words, prefix):
            return f'"{" ".join(words)}"{"*" if prefix else ""}'
        case Without(wanted, unwanted):
            return f"({expression(wanted)} NOT {expression(unwanted)})"
        case AllOf(parts):
            return f"({' AND '.join(map(expression, parts))})"
        case AnyOf(parts):
            return f"({' OR '.join(map(expression, parts))})"


def is_scored_alike(match: Match, *, among: bool = False) -> bool:
    """Whether scores are compared: not with a NOT among alternatives.

    Where such an alternative does not match, FTS5 counts its words or not, depending on where
    its cursors happen to be.
    """
    match match:
        case Phrase():
            return True
        case Without(wanted, _):
            return not among and is_scored_alike(wanted)
        case AllOf(parts):
            return all(is_scored_alike(part, among=among) for part in parts)
        case AnyOf(parts):
            return all(is_scored_alike(part, among=True) for part in parts)


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.db.close()


def sentence(chance: random.Random, most: int = 12) -> str:
    return " ".join(chance.choices(VOCABULARY, k=chance.randrange(most)))


def question(chance: random.Random) -> str:
    kind = chance.randrange(6)
    some = chance.choices(VOCABULARY, k=3)
    if kind == 0:
        return some[0]
    if kind == 1:
        return some[0][: chance.randrange(1, 6)] + "*"
    if kind == 2:
        return f'"{some[0]} {some[1]}"'
    if kind == 3:
        return f'"{some[0]} {some[1][:2]}"*'
    if kind == 4:
        return " ".join(some)
    joins = chance.choices(["OR", "NOT", "AND", "OR NOT", ""], k=2)
    return f"{some[0]} {joins[0]} {some[1]} {joins[1]} {some[2]}"


@pytest.mark.parametrize("stemmed", [True, False])
def test_what_is_typed_finds_the_same_as_fts5_with_the_same_scores(*, stemmed: bool) -> None:
    chance = random.Random(7)
    both = Both(stemmed=stemmed)
    numbers = iter(range(1, 10_000, 3))
    for size in (1, 2, 5, 70, 130, 1, 1, 200, 1, 1, 1, 1, 1, 1, 1, 1):
        both.put((next(numbers), sentence(chance)) for _ in range(size))
    both.put([(9_999, sentence(chance, 3_000)), (10_001, ""), (9_998, "the " * 70_000)])
    asked = [read_match(question(chance)) for _ in range(600)]
    found = [both.agree_on(match) for match in asked if match is not None]
    assert len(found) > 500
    assert sum(map(bool, found)) > 300
    both.db.close()


PHRASES = st.builds(
    Phrase,
    st.lists(
        st.sampled_from(["run", "the", "a", "日", "copying", "errors"]), min_size=1, max_size=3
    ).map(tuple),
    st.booleans(),
)
MATCHES = st.recursive(
    PHRASES,
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=3).map(lambda parts: AllOf(tuple(parts))),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        st.builds(Without, part, PHRASES),
    ),
    max_leaves=5,
)
TEXTS = st.lists(st.sampled_from(["run", "running", "the", "a", "日", "copied", "error"])).map(
    " ".join
)


@given(
    st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=12), MATCHES, st.data()
)
@settings(max_examples=150)
def test_any_match_finds_the_same_in_any_blocks(
    batches: list[list[str]], match: Match, data: st.DataObject
) -> None:
    both = Both()
    number = 0
    for batch in batches:
        both.put((number := number + 1, text) for text in batch)
    gone = data.draw(st.sets(st.integers(1, number)))
    both.remove(*gone)
    both.agree_on(match)
    both.words.merge(both.tx)
    both.agree_on(match)
    assert both.words.problem(both.tx, compare=True) is None
    assert both.words.sums(both.tx)[0] == number - len(gone)
    both.db.close()


NUMBERS = st.integers(0, 255) | st.integers(0, 65_535) | st.integers(0, (1 << 32) - 1)


@given(st.lists(NUMBERS))
def test_packed_numbers_are_read_back(values: list[int]) -> None:
    assert list(unpack(pack(values), len(values))) == values


@given(st.dictionaries(st.integers(0, 65_535), st.sets(NUMBERS, min_size=1, max_size=5)))
def test_a_packed_list_is_read_back(documents: dict[int, set[int]]) -> None:
    offsets = sorted(documents)
    places = [place for offset in offsets for place in sorted(documents[offset])]
    counts = [len(documents[offset]) for offset in offsets]
    kept = TermList(array("H", offsets), array("I", counts), array("I", places))
    read = read_list(*kept.packed())
    assert [list(part) for part in read] == [offsets, counts, places]
    found = {offset: set(some) for offset, some in read.places_by_offset(documents.keys())}
    assert found == documents


def test_hits_are_given_from_either_end_within_a_span(both: Both) -> None:
    for start in range(0, 300, 10):  # each block reaches over the next one
        both.put((number, "word") for number in (start, start + 25))
    match = Phrase(("word",))
    every = sorted({*range(0, 300, 10), *range(25, 325, 10)})
    for limit in (0, 1, 7, 30, 59, 60, 100, -1):
        cut = None if limit < 0 else limit
        assert both.words.ids(both.tx, match, limit=limit) == every[::-1][:cut]
        assert both.words.ids(both.tx, match, limit=limit, newest=False) == every[:cut]
        inside = [number for number in every if 41 <= number <= 260]
        ids = both.words.ids(both.tx, match, (41, 260), limit=limit)
        assert ids == inside[::-1][:cut]


def test_small_blocks_are_merged_as_they_come(both: Both) -> None:
    for number in range(1, 65):
        both.put([(number, f"word{number} word")])
    assert both.sizes() == [64]
    for number in range(65, 80):
        both.put([(number, "word")])
    assert both.sizes() == [*[1] * 7, 8, 64]
    assert both.words.merge(both.tx, 16) is False
    assert both.words.merge(both.tx) is True
    assert both.sizes() == [79]
    assert both.words.merge(both.tx) is False
    assert both.agree_on(Phrase(("word",))) == 79
    assert both.agree_on(Phrase(("word64", "word"))) == 1


def test_what_is_removed_is_gone_with_the_next_merge(both: Both) -> None:
    both.put((number, f"word{number} word") for number in range(1, 6))
    both.remove(2, 4, 99)
    both.remove(2, 5)
    assert both.agree_on(Phrase(("word",))) == 2
    assert both.words.lengths(both.tx, (1, 9)) == {1: 2, 3: 2}
    assert both.db.execute("SELECT 1 FROM w_postings WHERE term = ?", (b"word4",)).fetchone()
    both.words.merge(both.tx)
    assert not both.db.execute("SELECT 1 FROM w_postings WHERE term = ?", (b"word4",)).fetchone()
    both.remove(1, 3)
    both.words.merge(both.tx)
    assert both.sizes() == []


def test_numbers_may_lie_far_apart(both: Both) -> None:
    numbers = [3, 1 << 40, (1 << 62) + 1]
    both.put((number, "word") for number in reversed(numbers))
    assert both.agree_on(Phrase(("word",))) == 3
    assert both.words.last(both.tx, (0, 1 << 41)) == 1 << 40
    assert both.words.last(both.tx, (4, 5)) is None


def test_long_words_and_stems_that_end_inside_a_character(both: Both) -> None:
    long = "я" * 2_000
    both.put([(1, long), (2, f"{long}x"), (3, "naïve éing Ωed"), (4, long[:64])])
    for words in ((long,), (f"{long}x",), ("éing",), ("Ωed",), (long[:64],)):
        both.agree_on(Phrase(words))
        both.agree_on(Phrase((words[0][:100],), prefix=True))
    assert len(terms_of(long, stemmed=True)[0]) < 2_000


def test_an_index_that_lost_rows_is_found_damaged(both: Both) -> None:
    both.put([(1, "one word"), (2, "two words")])
    assert both.words.problem(both.tx, compare=True) is None
    both.db.execute("SAVEPOINT before")
    both.db.execute("DELETE FROM w_postings WHERE term = ?", (b"two",))
    assert both.words.problem(both.tx, compare=True) is not None
    both.db.execute("ROLLBACK TO before")
    both.db.execute("UPDATE w_postings SET docs = ?", (b"x",))
    assert both.words.problem(both.tx, compare=True) is not None
    both.db.execute("ROLLBACK TO before")
    both.db.execute("DELETE FROM w_blocks")
    assert both.words.problem(both.tx, compare=True) is not None
    both.words.clear(both.tx)
    assert both.words.problem(both.tx, compare=True) is None

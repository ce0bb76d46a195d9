"""What is typed, and the index that is asked for it."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from tests.support.memory_tx import tx_of
from threadkeep.base import words
from threadkeep.base.match import (
    MAX_TOKENS,
    AllOf,
    Match,
    Phrase,
    all_of,
    literal_terms,
    read_match,
    without,
)
from threadkeep.base.snippet import snippet
from threadkeep.base.word_index import WordIndex
from threadkeep.base.words import INDEX_LIMIT, contains_unspaced, index_text

ANY_TEXT = st.text(st.characters(exclude_categories=()))
PIECES = [
    "OR ",
    " NOT ",
    "AND",
    "NEAR(",
    *"ab \"'*()-:^{}+/\\.,;%_#@\0\ud83d日本ไท한é😀🤖\u2066\u0301“”",
]
QUERY_LIKE = st.lists(st.sampled_from(PIECES)).map("".join)
HOSTILE = [
    *("", " ", "hello-world", 'say "hi', '"', "'", "foo AND", "AND", "OR x", "NOT", "NOT NOT x"),
    *(
        "NEAR(a b",
        "NEAR(a b, -1)",
        "col:x",
        "x : y",
        "a*b",
        "*",
        "**",
        "^x",
        "(",
        ")",
        "((((",
        "())(",
    ),
    *("{a b}:x", "a + b", "-", "--", "/*", ";", "\0", "x\0y", "\ud83d", "x\ude00", "%", "_", "\\"),
    *(
        "[a-z]",
        ".*",
        "text MATCH 'x'",
        "rank",
        "f",
        "' OR 1=1 --",
        "$.a') OR 1=1 --",
        "NULL",
        "0x41",
    ),
    *(
        "日本語",
        "ไทย",
        "한국어",
        "😀",
        "🤖",
        "a\u202eb",
        "1e999",
        "AND OR NOT",
        '""',
        '"" ""',
        '" "*',
    ),
    *(
        "a" * 100_000,
        "w " * 20_000,
        "(" * 5000,
        '"' * 5001,
        "a* " * 5000,
        "NOT " * 5000,
        "ab " * 40_000,
    ),
    *('"' + "word " * 20_000 + '"', "y* " * 100, "日" * 50_000, "-a" * 50_000),
]


class Index:
    """An index as the stores have them."""

    def __init__(self, tokenize: str = "porter unicode61") -> None:
        self.db = sqlite3.connect(":memory:")
        declared = f"fts5(text, content='', tokenize='{tokenize}')"
        self.db.execute(f"CREATE VIRTUAL TABLE f USING {declared}")
        self.tx = tx_of(self.db)
        self.words = WordIndex("f")

    def add(self, *texts: str) -> None:
        self.words.clear(self.tx)
        self.words.put(self.tx, enumerate(texts, 1))

    def match(self, match: Match) -> list[int]:
        return self.words.ids(self.tx, match, newest=False)

    def search(self, query: str) -> list[int]:
        match = read_match(query)
        return [] if match is None else self.match(match)


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    index = Index()
    yield index
    index.db.close()


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: repr(query[:20]))
@pytest.mark.parametrize("split", [True, False])
def test_no_query_is_a_syntax_error(index: Index, query: str, *, split: bool) -> None:
    index.add("some text")
    match = read_match(query, split=split)
    if match is not None:
        index.match(match)
        assert len(index.words.asked(index.tx, match)) < 40_000
    literal_terms(query)
    snippet("some text", query)


@given(query=ANY_TEXT | QUERY_LIKE, split=st.booleans())
def test_no_text_at_all_is_a_syntax_error(index: Index, query: str, *, split: bool) -> None:
    match = read_match(query, split=split)
    if match is not None:
        index.match(match)
        assert index.words.asked(index.tx, match).count('"') <= 2 * MAX_TOKENS * 40


@given(st.lists(ANY_TEXT | QUERY_LIKE, min_size=1, max_size=6))
def test_a_text_is_found_by_its_own_words(index: Index, words: list[str]) -> None:
    index.add(index_text(" ".join(words)))
    for word in words:
        phrase = word.replace('"', " ").replace("“", " ").replace("”", " ").replace("„", " ")
        match = read_match(f'"{phrase}"')
        if match is not None:
            assert index.match(match) == [1], (phrase, match)


@pytest.mark.parametrize(
    "text",
    [
        "see gateway/run.py for it",
        "error: timeout",
        "it's here",
        "mail user@host.example now",
        "about 50% done",
        r"in C:\path\to\file",
        "a #tag",
        "call foo_bar(x, y)",
        "hello-world",
        "v1.2.3-rc1",
        "https://example.org/a?b=c&d=e#f",
        "x\0y",
        "half \ud83d character",
        "hello🤖world",
        "“quoted” – text",
        "tiếng Việt",
        "re\u0301sume\u0301 naïve Straße",
        "ﬁle ＡＢＣ ½",
        "日本語のテキスト",
        "Latin中文mixed",
        "한국어 문장입니다",
        "ภาษาไทยไม่มีวรรค",
        "हिन्दी में",
        "𠮷野家",
        "a" * 5000,
        "dGhpcyBpcyBiYXNlNjQ" * 500,
    ],
)
def test_punctuation_and_scripts_find_what_contains_them(index: Index, text: str) -> None:
    index.add("nothing of the kind", index_text(text))
    for query in (text, *text.split()):
        if read_match(query) is not None:
            assert index.search(query) == [2], query


@pytest.mark.parametrize(
    "query,found",
    [
        ("日本", True),
        ("本語", True),
        ("語の", True),
        ("日語", False),
        ("テキスト", True),
        ("キス*", True),
        ("日本語 テキスト", True),
        ("日本語 漢字", False),
    ],
)
def test_any_stretch_of_a_script_without_spaces_is_found(
    index: Index, query: str, *, found: bool
) -> None:
    index.add(index_text("日本語のテキスト"))
    assert index.search(query) == ([1] if found else [])


@pytest.mark.parametrize(
    "query", ["tieng viet", "TIẾNG", "resume", "file", "abc", "cafe\u0301", "café"]
)
def test_accents_widths_and_ligatures_do_not_matter(index: Index, query: str) -> None:
    index.add(index_text("tiếng Việt résumé ﬁle ＡＢＣ cafe\u0301"))
    assert index.search(query) == [1]


def test_operators_work_as_people_expect(index: Index) -> None:
    index.add("apple", "apple banana", "banana cherry", "apple banana cherry")
    assert index.search("apple banana") == [2, 4]
    assert index.search("apple AND banana") == [2, 4]
    assert index.search("apple OR cherry") == [1, 2, 3, 4]
    assert index.search("apple NOT cherry") == [1, 2]
    assert index.search("apple AND NOT cherry") == [1, 2]
    assert index.search("apple NOT cherry banana") == [2]
    assert index.search("cherry OR apple banana") == [2, 3, 4]
    assert index.search('"apple banana"') == [2, 4]
    assert index.search('"banana apple"') == []
    assert index.search("apple OR banana apple") == [1, 2, 4]
    assert index.search("AND apple OR") == [1, 2, 4]
    assert index.search("NOT apple") == [1, 2, 4]
    assert index.search("apple and banana") == []
    assert index.search("app*") == [1, 2, 4]
    assert index.search('"apple ban"*') == [2, 4]
    assert index.search("👍 NOT apple") == []
    assert index.search("👍 NOT apple cherry") == [3, 4]


def test_an_index_counts_its_rows_and_their_words(index: Index) -> None:
    index.add("apple", "apple banana", "word " * 300, "", "banana")
    apple, banana = Phrase(("apple",)), Phrase(("banana",))
    assert index.words.lengths(index.tx, (1, 4)) == {1: 1, 2: 2, 3: 300, 4: 0}
    assert index.words.frequency(index.tx, apple, 100) == (2, 2)
    assert index.words.frequency(index.tx, apple, 1) == (1, 1)
    assert index.words.frequency(index.tx, Phrase(("absent",)), 100) == (0, 0)
    assert index.words.having(index.tx, banana, [1, 2, 3]) == {2}
    assert index.words.ids(index.tx, banana, (2, 4)) == [2]
    assert index.words.ids(index.tx, banana, limit=1) == [5]
    assert index.words.ids(index.tx, all_of([apple, without(banana, [Phrase(("pear",))])])) == [2]


def test_an_index_is_emptied_made_anew_and_found_damaged() -> None:
    index = Index()
    index.add("apple", "banana")
    index.words.merge(index.tx)
    assert index.words.problem(index.tx, compare=False) is None
    index.words.clear(index.tx)
    assert index.search("apple") == []
    index.db.execute("DELETE FROM f_config")
    assert index.words.problem(index.tx, compare=False) == "has lost its settings"
    index.words.remake(index.tx, "CREATE VIRTUAL TABLE f USING fts5(text, content='');")
    index.words.put(index.tx, [(1, "apple")])
    assert index.search("apple") == [1]
    assert index.words.problem(index.tx, compare=False) is None
    with pytest.raises(ValueError, match="no index f"):
        index.words.remake(index.tx, "CREATE TABLE g (text);")
    index.db.close()


def test_operators_alone_are_words(index: Index) -> None:
    index.add("this or that", "neither")
    assert index.search("OR") == [1]
    assert index.search('"OR" that') == [1]


WORDS = """
    running generation generalizations configuration copyright keyboard displayport relational
    possibility happiness mapping stopped operator connections timeouts representative studies
    daylight management authentication organizer nationally hopeful sensitivities
"""


@pytest.mark.parametrize("word", WORDS.split())
def test_a_prefix_of_any_length_finds_the_word(index: Index, word: str) -> None:
    index.add(index_text(word))
    for length in range(1, len(word) + 1):
        assert index.search(word[:length] + "*") == [1], word[:length]


def test_a_prefix_finds_nothing_that_it_does_not_start_where_words_are_not_stemmed() -> None:
    plain = Index("unicode61")
    plain.add("running", "run", "ran")
    match = read_match("runn*", split=False)
    assert match is not None
    assert plain.match(match) == [1]
    plain.db.close()


def test_an_index_of_raw_text_is_asked_in_its_own_words() -> None:
    plain = Index("unicode61")
    plain.add("re\u0301sume\u0301", "日本語", "chat-send failed")
    for query, row in (("re\u0301sume\u0301", 1), ("日本語", 2), ("日本*", 2), ("chat-send", 3)):
        match = read_match(query, split=False)
        assert match is not None
        assert plain.match(match) == [row]
    plain.db.close()


@pytest.mark.parametrize("query", ["", "  ", "😀", "!?", "()", '""', "—", "\0", "\ud83d", "* *"])
def test_a_query_without_words_is_none(query: str) -> None:
    assert read_match(query) is None
    assert read_match(query, split=False) is None


@pytest.mark.parametrize(
    "query,terms",
    [
        ("👍", ["👍"]),
        ('100% "a phrase" 👍', ["100%", "a phrase", "👍"]),
        ("a NOT b OR c", ["a", "c"]),
        ("pre* ***", ["pre", "***"]),
        ("x\0y \ud83d", ["x", "y"]),
        ('""', []),
    ],
)
def test_literal_terms_are_what_was_typed(query: str, terms: list[str]) -> None:
    assert literal_terms(query) == terms


def test_a_long_query_is_cut_to_its_first_words(index: Index) -> None:
    words = [f"w{n}" for n in range(1000)]
    index.add(" ".join(words))
    assert index.search(" ".join(words)) == [1]
    match = read_match(" ".join(words))
    assert isinstance(match, AllOf)
    assert len(match.parts) == MAX_TOKENS
    assert len(literal_terms("👍 " * 1000)) == MAX_TOKENS


def test_index_text_is_bounded_and_can_be_stored(index: Index) -> None:
    assert len(index_text("word " * 1_000_000)) <= INDEX_LIMIT
    assert len(index_text("日" * 1_000_000)) <= 2 * INDEX_LIMIT
    assert index_text("abc def", limit=3) == "abc"
    assert len(index_text("see " + "A1b2" * 50_000 + " end")) < 200
    for text in ("a\0b", "\ud83d half", "\0\ud83d日"):
        kept = index_text(text)
        kept.encode()
        assert "\0" not in kept


def test_text_that_is_indexed_as_it_is_has_the_same_words(index: Index) -> None:
    index.db.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, f, instance)")
    codes = [*range(1, 0x3000), *range(0xFE00, 0xFE20), *range(0x1F300, 0x1FA00)]
    every = [chr(code) for code in codes if words._SPLIT_ALIKE.fullmatch(chr(code))]
    assert len(every) > 1000

    def tokens(texts: list[str]) -> list[tuple[str, int, int]]:
        index.add(*texts)
        return index.db.execute("SELECT term, doc, offset FROM words ORDER BY 2, 3").fetchall()

    texts = [f"xq{character}yw {character}" for character in every]
    assert tokens(texts) == tokens([" ".join(words.split_words(text)) for text in texts])
    index.db.execute("DROP TABLE temp.words")


def test_long_runs_shorter_than_a_blob_are_kept() -> None:
    hexes = "0123456789abcdef" * 60
    assert index_text(f"x {hexes} y") == f"x {hexes} y"


def test_contains_unspaced() -> None:
    assert contains_unspaced("a 日")
    assert contains_unspaced("ไทย")
    assert not contains_unspaced("plain é 😀 русский")

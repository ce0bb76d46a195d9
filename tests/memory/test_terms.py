"""Questions read as clues: any text at all."""

import sqlite3
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from tests.support.memory_tx import tx_of
from threadkeep.base.match import Phrase, phrases_in
from threadkeep.base.word_index import WordIndex
from threadkeep.memory.hits import cut, marks_of
from threadkeep.memory.question import (
    MOST_CLUES,
    Named,
    Question,
    forms_of,
    is_then,
    read_question,
    times_in,
)

NOW = int(datetime(2024, 3, 15, 12, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000
PIECES = [
    '"',
    "*",
    "NOT",
    "OR",
    "AND",
    "(",
    ")",
    "NEAR",
    "foo_bar",
    "a",
    "数据",
    "'s",
    ":",
    "-x",
    "\0",
]


def typed(text: str) -> list[str]:
    return [clue.typed for clue in read_question(text).clues if not clue.extra]


@pytest.fixture(scope="module")
def index() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("CREATE VIRTUAL TABLE f USING fts5 (t, tokenize = 'porter unicode61')")
    return connection


@given(st.text() | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_a_question_that_the_index_understands(
    index: sqlite3.Connection, text: str
) -> None:
    question = read_question(text)
    assert len(question.clues) <= MOST_CLUES
    for clue in question.clues:
        WordIndex("f").ids(tx_of(index), question.having(clue.match))


def test_words_that_make_a_question_count_only_when_there_are_no_others() -> None:
    assert typed("how did I use kafka and redis?") == ["use", "kafka", "redis?"]
    assert typed("how did I use A and B") == ["use", "A", "B"]
    assert typed("what did you do") == ["what", "did", "you", "do"]


def test_names_of_code_are_asked_for_whole_and_by_their_parts() -> None:
    assert typed("src/a.py") == ["src/a.py", "src", "py"]
    assert typed("foo_bar") == ["foo_bar", "foo", "bar"]
    assert typed("E0425") == ["E0425"]
    (whole, *parts) = read_question("fooBar").clues
    assert list(phrases_in(whole.match)) == [Phrase(("foobar",)), Phrase(("foo", "Bar"))]
    assert [part.typed for part in parts] == ["foo", "Bar"]
    assert all(part.weight < whole.weight for part in parts)


def test_possessives_and_contractions_ask_for_the_word() -> None:
    assert typed("Anna’s cat doesn't") == ["Anna", "cat", "doesn"]


def test_chinese_is_asked_for_by_pairs() -> None:
    assert typed("数据库") == ["数据", "据库"]


def test_quoted_phrases_are_needed_and_excluded_words_are_not_wanted() -> None:
    question = read_question('"exit code" build NOT flaky')
    assert question.must == (Phrase(("exit", "code")),)
    assert question.never == (Phrase(("flaky",)),)
    assert question.is_strict
    assert not read_question("exit code").is_strict


def test_two_words_in_a_row_are_also_asked_for_as_a_phrase_and_as_one() -> None:
    extras = [clue.match for clue in read_question("web socket").clues if clue.extra]
    assert extras == [Phrase(("web", "socket")), Phrase(("websocket",))]
    apart = [clue.match for clue in read_question("web and socket").clues if clue.extra]
    assert apart == []


def test_irregular_forms_are_found_by_each_other() -> None:
    assert set(forms_of("went")) == {"go", "went", "gone"}
    assert forms_of("kafka") == ("kafka",)
    (go,) = read_question("go").clues
    assert list(phrases_in(go.match)) == [Phrase(("go",)), Phrase(("went",)), Phrase(("gone",))]


@pytest.mark.parametrize(
    "text,day,then",
    [
        ("what broke in May 2023", "2023-05-09", True),
        ("what broke in May 2023", "2024-05-09", False),
        ("what broke in May", "2022-05-09", True),
        ("may I deploy", "2023-05-09", False),
        ("on 7 May", "2023-05-07", True),
        ("May 7th, 2023", "2023-05-08", False),
        ("2024-03-14", "2024-03-14", True),
        ("yesterday", "2024-03-14", True),
        ("yesterday", "2024-03-15", False),
        ("two weeks ago", "2024-03-01", True),
        ("3 days ago", "2024-03-12", True),
        ("in 2022", "2022-12-31", True),
        ("nothing of the kind", "2024-03-15", False),
    ],
)
def test_named_times_are_understood(text: str, day: str, then: bool) -> None:  # noqa: FBT001
    moment = int(datetime.fromisoformat(f"{day}T10:00:00+00:00").timestamp() * 1000)
    assert is_then(moment, times_in(text, NOW)) is then


@given(st.text(), st.integers())
def test_no_text_and_no_time_is_too_odd(text: str, at: int) -> None:
    when = times_in(text, NOW)
    assert is_then(at, when) in {True, False}
    assert not is_then(None, (*when, Named()))


@given(st.text(max_size=400), st.text(max_size=40))
def test_a_snippet_is_a_stretch_of_the_text(text: str, query: str) -> None:
    marks = marks_of(read_question(query))
    shown = cut(text, marks, 80)
    bare = shown.replace(">>>", "").replace("<<<", "")
    kept = text.replace(">>>", "").replace("<<<", "")
    assert bare.removeprefix("...").removesuffix("...") in kept or len(kept) != len(text)


def test_a_snippet_shows_where_most_of_the_question_is() -> None:
    text = "the cache was cold. " + "x " * 300 + "we restarted the cache servers by hand"
    shown = cut(text, marks_of(read_question("restart cache server")), 60)
    assert shown.startswith("...")
    assert ">>>restarted<<< the >>>cache<<< >>>servers<<<" in shown
    assert cut("short", marks_of(Question())) == "short"
    assert ">>>数据<<<>>>库锁<<<" in cut("修复数据库锁定", marks_of(read_question("数据库锁")))

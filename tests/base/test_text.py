"""Strings of any content, through SQLite and onto a terminal."""

import sqlite3

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.text import from_sql, join_pairs, join_text, printable, to_sql

ANY_TEXT = st.text(st.characters(exclude_categories=()))
HALVES = st.text(st.sampled_from("a\ud83d\ude00\ud800\udfff\0é😀"))
HIGH, LOW, SMILE = "\ud83d", "\ude00", "😀"


@given(ANY_TEXT | HALVES)
def test_sqlite_gives_back_exactly_the_same_text(text: str) -> None:
    db = sqlite3.connect(":memory:")
    try:
        stored = db.execute("SELECT ?", (to_sql(text),)).fetchone()[0]
    finally:
        db.close()
    assert from_sql(stored) == text


@pytest.mark.parametrize("text", ["", "plain", "a\0b", "日本語", SMILE])
def test_ordinary_text_is_stored_as_text(text: str) -> None:
    assert to_sql(text) is text


def test_half_a_character_is_stored_as_bytes() -> None:
    assert to_sql("a" + HIGH) == b"a\xed\xa0\xbd"


@given(st.lists(ANY_TEXT | HALVES, max_size=5))
def test_pieces_cut_anywhere_join_to_what_utf16_would_give(pieces: list[str]) -> None:
    joined = ""
    for piece in pieces:
        joined = join_text(joined, join_pairs(piece))
    utf16 = b"".join(piece.encode("utf-16-le", "surrogatepass") for piece in pieces)
    assert joined == utf16.decode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize(
    "a,b,joined",
    [
        (HIGH, LOW, SMILE),
        ("x" + HIGH, LOW + "y", f"x{SMILE}y"),
        (LOW, HIGH, LOW + HIGH),
        (HIGH, "", HIGH),
        ("", LOW, LOW),
        (HIGH, "a", HIGH + "a"),
        (HIGH, HIGH + LOW, HIGH + HIGH + LOW),
    ],
)
def test_join_text_joins_only_what_belongs_together(a: str, b: str, joined: str) -> None:
    assert join_text(a, b) == joined


@pytest.mark.parametrize(
    "text,shown",
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07done", "done"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bcreset", "reset"),
        ("\x9b2Jx", "x"),
        ("\x1b]0;never ends", "\\x1b]0;never ends"),
        ("\x1b\x1b[0m[31m", "\\x1b[31m"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("bell\x07 nul\0", "bell\\x07 nul\\x00"),
        ("\x85\x7f", "\\x85\\x7f"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("\U000e0041", "\\U000e0041"),
        ("half \ud83d", "half \\ud83d"),
        ("👨\u200d👩\u200d👧 日本語 é", "👨\u200d👩\u200d👧 日本語 é"),
    ],
)
def test_printable_shows_what_a_terminal_would_obey(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT | st.text(st.sampled_from("\x1b[]0;m\x07\x9b\\P^_ab\n\t\r")))
def test_printable_leaves_no_control_but_new_lines_and_tabs(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(c >= " " or c in "\n\t" for c in shown)
    assert not set(shown) & {chr(c) for c in range(0x7F, 0xA0)}


def test_printable_is_linear_in_hostile_text() -> None:
    assert printable("\x1b]" * 200_000).count("\\x1b") == 200_000

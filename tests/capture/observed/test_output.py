"""Output of commands: first and last lines, plain text, bounded, however it arrives."""

import re
import tracemalloc

import pytest
from hypothesis import example, given, strategies as st

from threadkeep.capture.observed.command_wrapper import SIDE_BYTES, HeadTail, plain_text
from threadkeep.knowledge.records import Output


def kept(data: bytes, head: int = 50, tail: int = 100, side: int = SIDE_BYTES) -> Output:
    keeper = HeadTail(head, tail, side)
    keeper.feed(data)
    return keeper.output()


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(1, count + 1))


PRINTED = st.lists(
    st.binary(max_size=30)
    | st.sampled_from([b"\n", b"\r", b"\r\n", b"\x1b[31m", b"\x1b]0;t\x07", b"\b", "ü".encode()])
    | st.sampled_from([b"x" * 200, b"\n" * 30, b"a\nb\nc\n" * 20])
).map(b"".join)


def test_a_short_output_is_kept_as_it_is() -> None:
    text = "eins\n\tzwei ü ツ\n\n  vier"
    assert kept(text.encode()) == Output(text, original_bytes=len(text.encode()))
    assert kept(b"") == Output("")
    assert kept(b"\n\n") == Output("\n\n", original_bytes=2)


@pytest.mark.parametrize("count, omitted", [(149, 0), (150, 0), (151, 1), (100_000, 99_850)])
def test_first_and_last_lines_with_the_number_of_the_others(count: int, omitted: int) -> None:
    found = kept(numbered(count))
    lines = found.content.splitlines()
    everything = numbered(count).decode().splitlines()
    marker = [f"... ({omitted} lines omitted) ..."] if omitted else []
    assert lines == (everything[:50] + marker + everything[-100:] if omitted else everything)
    assert found.truncated == (omitted > 0)
    assert found.original_bytes == len(numbered(count))


def test_a_last_line_without_an_end_is_a_line() -> None:
    assert kept(b"1\n2\n3\n4", head=1, tail=1).content == "1\n... (2 lines omitted) ...\n4"
    assert kept(b"1\n2", head=1, tail=0).content == "1\n... (1 lines omitted) ..."
    assert kept(b"1\n2\n", head=0, tail=1).content == "... (1 lines omitted) ...\n2\n"


@given(PRINTED, st.lists(st.integers(0, 60), max_size=20), st.integers(0, 4), st.integers(0, 4))
@example(b"a\nb\nc\nd\ne\nf", [1, 1, 7], 1, 2)
def test_how_output_arrives_changes_nothing(
    data: bytes, cuts: list[int], head: int, tail: int
) -> None:
    keeper = HeadTail(head, tail, 256)
    rest = data
    for size in cuts:
        keeper.feed(rest[:size])
        keeper.output()  # looking changes nothing either
        rest = rest[size:]
    keeper.feed(rest)
    assert keeper.output() == kept(data, head, tail, 256)


@given(PRINTED, st.integers(0, 5), st.integers(0, 5))
def test_what_is_kept_is_bounded_and_plain(data: bytes, head: int, tail: int) -> None:
    found = kept(data, head, tail, 256)
    assert len(found.content.encode()) <= 2 * 256 + 60
    assert found.content.count("\n") <= head + tail + 1
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", found.content) is None
    assert found.original_bytes == len(data)


@given(
    st.lists(st.text(st.characters(categories=["L", "N"]), max_size=8)), *[st.integers(0, 5)] * 2
)
def test_lines_are_kept_or_counted(lines: list[str], head: int, tail: int) -> None:
    found = kept("".join(f"{line}\n" for line in lines).encode(), head, tail)
    shown = found.content.split("\n")[:-1]
    if len(lines) <= head + tail:
        assert shown == lines
    else:
        omitted = f"... ({len(lines) - head - tail} lines omitted) ..."
        assert shown == [*lines[:head], omitted, *lines[len(lines) - tail :]]


@pytest.mark.parametrize(
    "raw, shown",
    [
        (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        (b"10%\r\x1b[K50%\r\x1b[K\x1b[32mok\x1b[0m\r\n", "ok\n"),
        (b"windows\r\nlines\r\r\n", "windows\nlines\n"),
        (b"working...\r", "working..."),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\c\n", "abc\n"),
        (b"\x1b[1;31mred\x1b[m \x1b(B\x1b[?25lplain\x1bc\n", "red plain\n"),
        (b"\x1bP1;2qsixel\x1b\\after\n", "after\n"),
        (b"never ends \x1b]0;title\nnext\n", "never ends \nnext\n"),
        (b"cut \x1b[3", "cut "),
        (b"N\bNA\bAM\bME\bE b\x08o\n\b\bx\n", "NAME o\nx\n"),
        (b"bell\x07 nul\0 \xff\xfe \xc3 \xed\xa0\x80 \xc2\x9b31m\n", "bell nul� �� � ��� 31m\n"),
    ],
)
def test_what_a_terminal_would_show(raw: bytes, shown: str) -> None:
    assert kept(raw).content == shown


@given(st.binary())
def test_any_bytes_become_text(raw: bytes) -> None:
    plain_text(raw.replace(b"\n", b"")).encode()


def test_a_progress_bar_of_any_length_is_its_last_state() -> None:
    keeper = HeadTail(50, 100)
    for n in range(20_000):
        keeper.feed(b"\r%6d of 20000 " % n + b"#" * 60)
    keeper.feed(b"\nfinished\n")
    assert keeper.output().content == " 19999 of 20000 " + "#" * 60 + "\nfinished\n"
    assert not keeper.output().truncated


def test_a_long_line_keeps_both_ends() -> None:
    found = kept(b"BEGIN" + b"x" * 1_000_000 + b"END\nnext\n")
    line, following, _ = found.content.split("\n")
    assert line.startswith("BEGINxxx")
    assert line.endswith("xxxEND")
    assert following == "next"
    assert found.truncated
    omitted = re.search(r"…\[(\d+) bytes omitted\]…", line)
    assert omitted is not None
    assert int(omitted[1]) + len(line) - len(omitted[0]) == 1_000_008
    assert len(found.content.encode()) <= 2 * SIDE_BYTES


def test_a_line_that_grows_when_it_is_made_readable_is_bounded_too() -> None:
    found = kept(b"\xff" * 60_000 + b"\n")
    assert len(found.content.encode()) <= SIDE_BYTES
    assert found.truncated


def test_binary_output_and_endless_lines_take_no_memory() -> None:
    keeper = HeadTail(50, 100)
    block = bytes(range(256)) * 256
    long = b"y" * (1 << 16)
    tracemalloc.start()
    for _ in range(100):
        keeper.feed(block)
        keeper.feed(long)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    found = keeper.output()
    assert len(found.content.encode()) <= 2 * SIDE_BYTES + 60
    assert found.original_bytes == 100 * 2 * (1 << 16)


@pytest.mark.parametrize(
    "raw", [b"\x1b]" * 50_000, b"\x1b[0" * 40_000, b"\x9d" * 60_000, b"\x1b" * 60_000]
)
def test_hostile_sequences_are_read_once(raw: bytes) -> None:
    assert re.fullmatch("�*", plain_text(raw))

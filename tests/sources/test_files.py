"""Log files: pieces of whole lines, from any place on, in bounded memory."""

import os
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from threadkeep.errors import Damaged, Invalid
from threadkeep.sources import files
from threadkeep.sources.files import LogChunk, LogFile
from threadkeep.sources.folders import stamp_of

texts = st.lists(st.sampled_from([b"a", b"\n", b"bcd", b"\r\n", b"\0", b"x" * 30]), max_size=40)


def saved(folder: Path, data: bytes, *, compressed: bool = False) -> str:
    path = folder / ("log.jsonl.zst" if compressed else "log.jsonl")
    path.write_bytes(zstandard.ZstdCompressor().compress(data) if compressed else data)
    return str(path)


def pieces(path: str, start: int = 0) -> list[LogChunk]:
    with LogFile(path) as file:
        return list(file.pieces(start))


@settings(max_examples=examples(60))
@given(
    parts=texts,
    start=st.integers(0, 60),
    piece=st.integers(1, 20),
    longest=st.integers(20, 40),
    compressed=st.booleans(),
)
def test_pieces_hold_every_byte_and_end_behind_line_feeds(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[bytes],
    start: int,
    piece: int,
    longest: int,
    compressed: bool,  # noqa: FBT001  (drawn)
) -> None:
    data = b"".join(parts)
    path = saved(tmp_path_factory.mktemp("files"), data, compressed=compressed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE_BYTES", piece)
        patch.setattr(files, "LONGEST_LINE", longest)
        found = pieces(path, start)
    assert b"".join(one.data for one in found) == data[start:]
    for one in found:
        assert one.data
        assert one.complete == one.data.endswith(b"\n")
        assert all(len(line) <= longest for line in one.data.split(b"\n"))
    for one in found[:-1]:
        assert one.complete or len(one.data) == longest


@settings(max_examples=examples(40))
@given(parts=texts, start=st.integers(0, 60), size=st.integers(0, 60), compressed=st.booleans())
def test_any_part_can_be_read(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[bytes],
    start: int,
    size: int,
    compressed: bool,  # noqa: FBT001  (drawn)
) -> None:
    data = b"".join(parts)
    path = saved(tmp_path_factory.mktemp("files"), data, compressed=compressed)
    with LogFile(path) as file:
        for _ in range(2):
            assert file.between(start, start + size) == data[start : start + size]


def test_parts_may_be_read_between_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 10)
    data = b"".join(b"line %d\n" % number for number in range(50))
    for compressed in (False, True):
        with LogFile(saved(tmp_path, data, compressed=compressed)) as file:
            found = b""
            for piece in file.pieces(0):
                assert file.between(0, 6) == b"line 0"
                found += piece.data
            assert found == data


def test_a_compressed_log_of_several_frames_is_one_text(tmp_path: Path) -> None:
    frames = [zstandard.ZstdCompressor().compress(text) for text in (b"one\n", b"two\n")]
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(b"".join(frames))
    assert b"".join(one.data for one in pieces(str(path))) == b"one\ntwo\n"


def test_what_is_not_compressed_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(b'{"plain": "text"}\n')
    with pytest.raises(Damaged):
        pieces(str(path))


def test_only_regular_files_are_opened_and_nothing_stays_open(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises((Invalid, OSError)):
            LogFile(str(place))
    with pytest.raises(FileNotFoundError):
        LogFile(str(tmp_path / "nowhere"))
    descriptor = os.open(tmp_path / "next", os.O_CREAT | os.O_RDWR)
    os.close(descriptor)
    with LogFile(str(tmp_path / "next")) as file:
        assert file._descriptor == descriptor  # the lowest free number: none was lost


def test_the_stamp_is_that_of_the_open_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"one\n")
    with LogFile(str(path)) as file:
        path.rename(tmp_path / "moved")  # which changes its ctime
        path.write_bytes(b"another\n")
        status = (tmp_path / "moved").stat()
        assert file.stamp[:4] == stamp_of(status)[:4]


def peak(path: str, start: int = 0) -> int:
    tracemalloc.start()
    try:
        with LogFile(path) as file:
            file.between(0, 100)
            for _ in file.pieces(start):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compressed", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001
    line = b"x" * 999 + b"\n"
    small = peak(saved(tmp_path, line * 4_000, compressed=compressed))
    large = peak(saved(tmp_path, line * 24_000, compressed=compressed))
    assert large < small * 1.5


def test_memory_is_bounded_without_any_line_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 100_000)
    monkeypatch.setattr(files, "LONGEST_LINE", 1_000_000)
    assert peak(saved(tmp_path, b"x" * 20_000_000)) < 5_000_000

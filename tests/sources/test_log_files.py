"""Log files are read in pieces from any place; one reader does not move another."""

from pathlib import Path

import pytest
import zstandard
from hypothesis import given, strategies as st

from threadkeep.sources import files
from threadkeep.sources.files import LogFile


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_looking_elsewhere_does_not_disturb_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 1000)
    data = b"".join(b"line %d %s\n" % (number, b"x" * (number % 300)) for number in range(500))
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(zstandard.compress(data) if suffix else data)
    read = b""
    with LogFile(str(path)) as file:
        for piece in file.pieces(0):
            read += piece.data
            assert file.between(0, 50) == data[:50]
            assert file.between(len(read) - 10, len(read)) == data[len(read) - 10 : len(read)]
    assert read == data


@given(lines=st.lists(st.binary(max_size=30)), start=st.integers(0, 200))
def test_the_pieces_are_the_file_from_a_place_on(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], start: int
) -> None:
    data = b"\n".join(lines)
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(data)
    with LogFile(str(path)) as file:
        pieces = list(file.pieces(start))
    assert b"".join(piece.data for piece in pieces) == data[start:]
    assert all(piece.data.endswith(b"\n") == piece.complete for piece in pieces)

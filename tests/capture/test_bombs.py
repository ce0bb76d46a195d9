"""Logs that were made to hurt: what they may take is bounded, and what is cut is told."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.support.toy_sources import said
from tests.support.worlds import World
from threadkeep.base import compression
from threadkeep.base.compression import decompress, decompressed, most_unpacked
from threadkeep.base.json import decode_line
from threadkeep.errors import Damaged, Invalid
from threadkeep.sources import files

MB = 1 << 20
MOST_MEMORY = 300 * MB


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def unpacking_to(size: int) -> bytes:
    """Pack piece by piece: what starts a process with much memory makes it look large, too."""
    line = said(1, "word " * 100)
    packer = zstandard.ZstdCompressor(level=9).compressobj()
    packed = [packer.compress(line * 1000) for _ in range(size // (1000 * len(line)))]
    return b"".join([*packed, packer.flush()])


def test_a_compressed_log_that_unpacks_to_far_more_is_cut_and_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_ANY_CASE", MB)
    unpacked: list[int] = []

    def counted(*given: object) -> Iterator[bytes]:
        for data in decompressed(*given):  # type: ignore[arg-type]
            unpacked.append(len(data))
            yield data

    monkeypatch.setattr(files, "decompressed", counted)
    data = unpacking_to(8 * MB)
    assert most_unpacked(len(data)) == MB
    path = world.write(data, to=world.log().with_suffix(".jsonl.zst"))
    report = world.lines_report(world.capture())
    assert list(report.errors) == [str(path)]
    assert "unpacks to more than" in report.errors[str(path)]
    assert 0 < report.source_bytes <= MB
    assert sum(unpacked) <= 3 * MB  # to judge it, to read it
    assert world.health()["last_error_msg"].startswith(str(path))
    drops = "SELECT source, reason, count FROM tk_drops"
    assert world.ask(drops) == [("agentic-session-pi", "too long", 1)]
    again = world.lines_report(world.capture())
    assert (again.lines, list(again.errors)) == (0, [str(path)])
    assert world.ask(drops) == [("agentic-session-pi", "too long", 1)]


def test_a_compressed_log_of_usual_density_is_read_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_ANY_CASE", 1000)
    data = b"".join(said(number) for number in range(500))
    packed = zstandard.ZstdCompressor().compress(data)
    assert len(packed) < len(data) < compression.most_unpacked(len(packed))
    world.write(packed, to=world.log().with_suffix(".jsonl.zst"))
    assert world.lines_report(world.capture()).lines == 500


def test_commits_do_not_make_a_compressed_log_be_unpacked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would unpack it from its start: ten times the length, a hundred times the work."""
    monkeypatch.setattr("threadkeep.capture.intake.BATCH_BYTES", 2000)
    monkeypatch.setattr(files, "PIECE_BYTES", 1000)
    unpacked: list[int] = []

    def counted(*given: object) -> Iterator[bytes]:
        for data in decompressed(*given):  # type: ignore[arg-type]
            unpacked.append(len(data))
            yield data

    monkeypatch.setattr(files, "decompressed", counted)
    data = b"".join(said(number) for number in range(500))
    packed = zstandard.ZstdCompressor().compress(data)
    world.write(packed, to=world.log().with_suffix(".jsonl.zst"))
    assert world.lines_report(world.capture()).lines == 500
    assert sum(unpacked) < 2 * len(data)


def test_a_block_that_says_it_is_larger_takes_no_memory_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compression, "_ANY_CASE", MB)
    packer = zstandard.ZstdCompressor().compressobj(size=64 * MB)
    bomb = b"".join([*(packer.compress(bytes(MB)) for _ in range(64)), packer.flush()])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for told in (1000, 64 * MB, 640 * MB):
        with pytest.raises(Damaged):
            decompress(bomb, told)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


@pytest.mark.parametrize("ended", [b"\n", b""])
def test_the_end_of_an_endless_line_is_left_out_and_told(
    world: World, monkeypatch: pytest.MonkeyPatch, ended: bytes
) -> None:
    for name, size in (("PIECE_BYTES", 100), ("LONGEST_LINE", 1000), ("LONGEST_KEPT", 4000)):
        monkeypatch.setattr(files, name, size)
    world.write(said(0) + b"x" * 50_000 + ended)
    world.now += 100_000  # what has no line feed is as it will stay
    report = world.lines_report(world.capture())
    assert list(report.errors) == [str(world.log())]
    assert "a line has more than 4,000 bytes" in report.errors[str(world.log())]
    assert sum(map(len, world.raw())) - len(said(0)) + 1 == 4000
    assert world.log_row()["read_to"] == world.log().stat().st_size
    assert world.ask("SELECT reason, count FROM tk_drops") == [("too long", 1)]
    world.append(b"x" * 10_000 + b"\n" + said(1))
    world.capture()
    if not ended:  # it was the same line all the time
        assert sum(map(len, world.raw())) - len(said(0)) - len(said(1)) + 2 == 4000
    assert world.texts()[-1] == "word1"
    world.capture()
    assert world.lines_report(world.capture()).errors == {}


# The system's own mark of the highest: what `resource` gives counts what started us, too.
PEAK = """
import re, sys
from pathlib import Path
from tests.support.worlds import World
world = World(Path(sys.argv[1]))
report = world.lines_report(world.capture())
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(report.errors), peak)
"""


@pytest.mark.parametrize("kind", ["line", "zst"])
def test_memory_stays_small(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    if kind == "line":
        path = world.write(b"x")
        with path.open("r+b") as file:
            file.truncate(600 * MB)  # takes no room on the disk
    else:
        world.write(unpacking_to(120 * MB), to=world.log().with_suffix(".jsonl.zst"))
    command = [sys.executable, "-c", PEAK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    errors, peak = map(int, done.stdout.split())
    assert errors == 1
    assert peak * 1024 < MOST_MEMORY


@pytest.mark.parametrize("value", [b"[]", b"{}", b"[[[]]]"])
def test_a_line_of_nothing_but_values_is_not_taken_apart(value: bytes) -> None:
    line = b"[" + b",".join([value] * 1_100_000) + b"]"
    with pytest.raises(Invalid, match="values"):
        decode_line(line)

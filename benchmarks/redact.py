"""`redact`: masking blocks of transcripts, beside parsing the same bytes."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.corpus import Writer
from benchmarks.measure import in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Goal, Result, Table, figure, ratio, times
from threadkeep.redact import Redactor

_BLOCK = 128 * 1024
_GOAL = 8.0  # milliseconds per MB of clean transcripts


def run(place: Place) -> Result:
    """Mask clean blocks, and the same with a secret in every line."""
    lines = _lines(place.either(20_000_000, 4_000_000))
    redactor = Redactor.default()
    planted = [b'{"text":"export API_KEY=a1B2c3D4e5F6g7"}\n' for _ in range(len(lines))]
    mixed = [line for pair in zip(lines, planted, strict=True) for line in pair]
    ways: dict[str, tuple[Sequence[bytes], Callable[[bytes], object]]] = {
        "redact, clean blocks": (_blocks(lines), redactor.block),
        "redact, every second line a secret": (_blocks(mixed), redactor.block),
        "json.loads, line by line": (lines, json.loads),
    }
    runs = in_turn(
        {name: partial(used_by, partial(_over, *way)) for name, way in ways.items()},
        place.either(5, 3),
    )
    costs = {
        name: median_of(found).cpu * 1000 / (sum(map(len, ways[name][0])) / 1e6)
        for name, found in runs.items()
    }
    parse = costs["json.loads, line by line"]
    rows = [
        (name, figure(cost), figure(ratio(1000, cost), 0), times(ratio(cost, parse)))
        for name, cost in costs.items()
    ]
    table = Table("redact: transcripts", ("way", "CPU ms/MB", "MB/s", "to json.loads"), rows)
    clean = costs["redact, clean blocks"]
    return Result([table], [Goal("redaction of clean transcripts", _GOAL, clean, " ms/MB")])


def _over(pieces: Sequence[bytes], work: Callable[[bytes], object]) -> None:
    for piece in pieces:
        work(piece)


def _blocks(lines: Sequence[bytes]) -> list[bytes]:
    blocks: list[bytes] = []
    pending: list[bytes] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= _BLOCK:
            blocks.append(b"".join(pending))
            pending, size = [], 0
    return [*blocks, b"".join(pending)]


def _lines(most: int) -> list[bytes]:
    """Give real transcripts where they are to be had, else lines made of words."""
    lines: list[bytes] = []
    size = 0
    for line in _transcript_lines() if _transcripts() else _made_lines():
        lines.append(line)
        size += len(line)
        if size >= most:
            break
    return lines


def _transcripts() -> list[Path]:
    folder = os.environ.get("THREADKEEP_SHARED")
    return sorted(Path(folder, "data", "harness").rglob("*.jsonl")) if folder else []


def _transcript_lines() -> Iterator[bytes]:
    for path in _transcripts():
        yield from path.read_bytes().splitlines(keepends=True)


def _made_lines() -> Iterator[bytes]:
    writer = Writer(7)
    while True:
        usage = {"input_tokens": 12, "output_tokens": 345}
        line = {"type": "assistant", "message": {"text": writer.text(2_000), "usage": usage}}
        yield json.dumps(line).encode() + b"\n"

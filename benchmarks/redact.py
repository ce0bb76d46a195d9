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
from threadkeep.capture.redact.engine import Redactor

_BLOCK = 128 * 1024
_GOAL = 8.0  # milliseconds per MB of clean transcripts
_WORST = 500.0  # milliseconds per MB of the worst text that we can think of
_SHAPES = (
    "a", "=", '"', "\\", "sk-", "ghp_", 'password="', "password=", "password ", "token: ",
    "A_KEY=abcdefgh1 ", "cookie: a=b; ", "curl -u a ", "mysql -p", "Authorization: ", "://u:p",
    "aB3dE5fG7_", ".eyJ", "key=key", '\\"password\\": \\"aB3dE5fG7hJ9\\", ', "private key-----\n",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n", "<private>", "discord = ",
)  # fmt: skip


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
    hostile = _hostile(redactor, place.either(1_000_000, 200_000))
    worst = [(repr(shape), figure(cost)) for cost, shape in hostile[:8]]
    shapes = Table("redact: hostile texts", ("text, over and over", "CPU ms/MB"), worst)
    goals = [
        Goal("redaction of clean transcripts", _GOAL, clean, " ms/MB"),
        Goal("redaction of the worst text", _WORST, hostile[0][0], " ms/MB"),
    ]
    return Result([table, shapes], goals)


def _hostile(redactor: Redactor, size: int) -> list[tuple[float, str]]:
    """Mask texts that are made to be slow, as a line of JSON; the slowest first."""
    costs = []
    for shape in _SHAPES:
        line = json.dumps({"text": shape * (size // len(shape))}).encode() + b"\n"
        cost = used_by(partial(redactor.block, line)).cpu * 1000 / (len(line) / 1e6)
        costs.append((cost, shape))
    return sorted(costs, reverse=True)


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
    """Return real transcripts where they are to be had, else lines made of words."""
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
